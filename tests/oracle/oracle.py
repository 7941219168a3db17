#!/usr/bin/env python3
# A second, independent evaluator of `fusewise simulate`, written from the contract alone: slow, obvious, exact fractions.
# It makes random scenarios, computes their results from the formulas and recurrences of the contract's sections 2 to 4,
# and compares them with what a program prints. Where the two differ, one of them misreads the contract.

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

from generate import SCENARIOS  # noqa: E402
from known import self_test  # noqa: E402
from reduce import reduced  # noqa: E402
from reference import FIELDS, TIMES, evaluate  # noqa: E402
from self_check import self_check  # noqa: E402

# Beyond rounding, what an iteration may be longer than the best and still count as the best (relative).
AS_GOOD = 1e-7


def agrees(field, expected, got):
    if got is None and field in ("encode_us", "decode_us"):
        return expected == 0
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return False
    if field == "groups":
        return got == expected
    return abs(got - expected) <= max(1e-6 * abs(expected), 1e-3 if field in TIMES else 0)


def differences(expected, got):
    """Fields that differ from the accepted answer nearest to what the program gave, and that answer."""
    lists = [([(field, answer[field], got.get(field)) for field in FIELDS
               if not agrees(field, answer[field], got.get(field))], answer) for answer in expected["accepted"]]
    return min(lists, key=lambda one: len(one[0]))


class Heuristics:
    """How good the program's `optimal` is where it need not be exact."""

    def __init__(self):
        self.seen, self.excesses = 0, []

    def add(self, where, expected, chosen):
        """What is wrong with the grouping that the program chose."""
        if "least_us" not in expected:
            return []
        self.seen += 1
        excess = chosen["before_input_us"] / expected["least_us"]
        if excess > 1 + AS_GOOD:
            self.excesses.append((excess, where))
        if chosen["before_input_us"] > expected["most_us"] * (1 + AS_GOOD):
            return [("iteration_us before the input's max", f"at most {expected['most_us']}", chosen["before_input_us"])]
        return []

    def report(self):
        if self.seen:
            print(f"where optimal may be heuristic: {len(self.excesses)} of {self.seen} not optimal")
        for excess, where in sorted(self.excesses, reverse=True)[:3]:
            print(f"  {excess:.6f} times the optimum: {where}")


def refusal(run, path, scenario):
    """What is wrong with how the program refuses a scenario that is in error."""
    if run.returncode != 2 or run.stdout:
        return [f"exit 2 and nothing on stdout expected, got exit {run.returncode}"]
    last = len(scenario["schedules"]) - 1
    if run.stderr.count("\n") != 1 or not run.stderr.startswith(f"{path}: /schedules/{last}"):
        return [f"one line about /schedules/{last} expected, got {run.stderr.strip()}"]
    return []


def check(program, scenario, path, heuristics):
    """Runs the program; one line for each difference."""
    path.write_text(json.dumps(scenario, indent=1))
    try:
        run = subprocess.run([program, "simulate", str(path), "--json"], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return ["not done after 120 s"]
    expected = evaluate(scenario)
    if expected is None:
        return refusal(run, path, scenario)
    if run.returncode != 0:
        return [f"exit {run.returncode}: {run.stderr.strip()}"]
    try:
        got = json.loads(run.stdout)["results"]
    except (ValueError, KeyError, TypeError) as error:
        return [f"no results in its output: {error!r}"]
    if not isinstance(got, list) or len(got) != len(expected) or not all(isinstance(entry, dict) for entry in got):
        return [f"a list of {len(expected)} results expected"]
    lines = []
    for one, other in zip(expected, got):
        wrong, chosen = differences(one, other)
        if other.get("workers") != one["workers"]:
            wrong = [("workers", one["workers"], other.get("workers"))]
        elif isinstance(one["schedule"], str) and other.get("schedule") != one["schedule"]:
            wrong = [("schedule", one["schedule"], other.get("schedule"))]
        where = f"workers {one['workers']}, schedule {json.dumps(one['schedule'])}"
        wrong = wrong or heuristics.add(f"{scenario['name']}, {where}", one, chosen)
        lines += [f"{where}, {field}: expected {want}, got {have}" for field, want, have in wrong]
    return lines


def compare(program, seeds, kinds, shown):
    failures, heuristics = 0, Heuristics()
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            failed = 0
            for seed in seeds:
                scenario = SCENARIOS[kind](seed)
                lines = check(program, scenario, Path(folder) / f"{kind}-{seed}.scenario.json", heuristics)
                failed += bool(lines)
                if lines and failed <= shown:
                    print(*(f"{kind} {seed}: {line}" for line in lines[:6]), sep="\n")
            print(f"{kind}: {len(seeds) - failed} passed, {failed} failed")
            failures += failed
    heuristics.report()
    return 1 if failures else 0


def print_reduced(program, scenario):
    """A small scenario on which the program differs as it does on this one, and how."""
    with tempfile.TemporaryDirectory() as folder:
        def differs(candidate):
            return check(program, candidate, Path(folder) / "reduced.scenario.json", Heuristics())

        small = reduced(scenario, differs)
        print(json.dumps(small, indent=1), *differs(small), sep="\n")


def seed_range(text):
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def main():
    parser = argparse.ArgumentParser(description="Compares a program's `simulate` with the contract's formulas.")
    parser.add_argument("program", nargs="?", help="the program to test")
    parser.add_argument("--seeds", type=seed_range, default=range(0, 200), metavar="A..B", help="both included (0..199)")
    parser.add_argument("--kinds", default=",".join(SCENARIOS), metavar="LIST",
                        help="plain, or varied with compression and slow-downs or about all-gathers that wait for compute (plain,varied,ahead,rivals)")
    parser.add_argument("--show", type=int, default=5, metavar="N", help="failing seeds of a kind printed in detail (5)")
    parser.add_argument("--print", type=int, metavar="SEED", help="print one scenario of the first kind and what is expected")
    parser.add_argument("--reduce", type=int, metavar="SEED", help="as small a scenario of the first kind as still fails")
    parser.add_argument("--self-test", nargs="?", const="", metavar="LOG", help="known answers; LOG is tmp8comm.log")
    parser.add_argument("--self-check", action="store_true", help="the evaluators against one another, without a program")
    arguments = parser.parse_args()
    kinds = arguments.kinds.split(",")
    if not set(kinds) <= set(SCENARIOS):
        parser.error(f"kinds are {', '.join(SCENARIOS)}")
    if arguments.self_test is not None:
        return self_test(arguments.self_test)
    if arguments.self_check:
        return self_check(arguments.seeds)
    if arguments.print is not None:
        scenario = SCENARIOS[kinds[0]](arguments.print)
        print(json.dumps({"scenario": scenario, "expected": evaluate(scenario)}, indent=1))
        return 0
    if arguments.program is None:
        parser.error("a program is needed")
    if shutil.which(arguments.program) is None:
        parser.error(f"cannot run {arguments.program}")
    if arguments.reduce is not None:
        return print_reduced(arguments.program, SCENARIOS[kinds[0]](arguments.reduce))
    return compare(arguments.program, arguments.seeds, kinds, arguments.show)


if __name__ == "__main__":
    sys.exit(main())
