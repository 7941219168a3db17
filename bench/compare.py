#!/usr/bin/env python3
"""Runs the benchmarks of one build or of two side by side, and shows how time grows with size.

    bench/compare.py build                     one build: medians, bounds, growth exponents, start-up of the program,
                                               sweeps on two cores
    bench/compare.py build-before build        two builds in turn, so that both see the same noise: ratios of the medians

Parts (simulation, plans, cupcake, sweeps, steps, messages, selections) limit what is run. Times are ratios to the reference task of
the same run. --json writes everything for machines. The exit code is 1 where a figure is beyond its bound, slower than before, takes
a tenth and a MB more memory than before, or is no longer there."""
import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LINE = re.compile(r"^(?P<name>.+?)\s+(?P<ms>[\d.]+) ms\s+(?P<ratio>[\d.]+) x reference\s+(?P<mb>[\d.]+) MB(?P<rest>.*)$")
BOUND = re.compile(r"bound ([\d.e+]+) (ms|MB)")
FIGURE = re.compile(r"^(?P<name>.+?)\s{2,}(?P<value>[\d.]+) (?P<unit>a second|million/s|bytes|x nth_element|x(?! reference))\s.*?bound (?P<bound>[\d.]+)")
SPEED_UP = "times as fast as on one"
RATES = ("a second", "million/s", SPEED_UP)  # whose bound is a least
# What depends on the result rather than on the work is no part of a row's name.
RESULT = re.compile(r": \d+ groups, front \d+|: \d+ messages")
SIZE = re.compile(r"\d+(?= (?:tensors|ranks|tasks|workers)\b)")
START_UPS = {"start-up: --help": (["--help"], 5),
             "start-up: plan scenarios/resnet50-v100.json --workers 64":
                 (["plan", "scenarios/resnet50-v100.json", "--workers", "64"], 10)}
# One core takes about a second for these 40,000 points.
SWEEP = {"format": "fusewise.scenario", "version": 1, "profile": "resnet50-v100", "network": "v100-10gbe", "workers": [8],
         "schedules": ["ddp", "wfbp", "mg-wfbp", "fusewise"],
         "sweep": {"bandwidth_factor": list(range(1, 101)), "startup_factor": [i / 10 for i in range(1, 11)],
                   "workers": [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]}}
ON_CORES = {"sweep, 40,000 points, 161 tensors, two threads": lambda program, cores: [program, "sweep", "--jobs", str(cores)],
            "sweep, 40,000 points, 161 tensors, two processes of MPI":
                lambda program, cores: ["mpirun", "--oversubscribe", "-n", str(cores), program, "sweep"]}
ROOT = Path(__file__).resolve().parent.parent


def start_up_ms(program, arguments):
    """The best of several starts: whatever else the machine does only adds to it."""
    times = []
    for _ in range(10):
        began = time.perf_counter()
        subprocess.run([program, *arguments], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        times.append((time.perf_counter() - began) * 1e3)
    return min(times)


def sweep_seconds(command, folder):
    """What a sweep says that it took, and its rows."""
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    said = subprocess.run([*command, "sweep.json", "-o", "rows.csv", "--json"], cwd=folder, env=environment,
                          check=True, capture_output=True, text=True).stdout
    return json.loads(said)["seconds"], (folder / "rows.csv").read_bytes()


def speed_ups(program):
    """{name: {"value": ..}}: how many times as fast a sweep is on two cores as on one, the best of several in turn."""
    out = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sweep.json").write_text(json.dumps(SWEEP))
        for what, command in ON_CORES.items():
            if "mpirun" in command(program, 1) and not shutil.which("mpirun"):
                print(f"{what:<92} not measured: no command 'mpirun'")
                continue
            best = {1: math.inf, 2: math.inf}
            rows = set()
            for cores in (1, 2) * 3:
                seconds, written = sweep_seconds(command(program, cores), folder)
                best[cores] = min(best[cores], seconds)
                rows.add(written)
            if len(rows) > 1:
                sys.exit(f"{what}: expected the same rows on one core and on two, got others")
            out[what] = {"value": best[1] / best[2], "unit": SPEED_UP, "bound": 1.8}
    return out


def run(build, parts):
    """{name: {"ratio": .., "ms": .., "mb": .., "bounds": {unit: ..}}} of one run, and {name: {"value": ..}} of other figures."""
    text = subprocess.run([build / "fusewise_bench", *parts], check=True, capture_output=True, text=True).stdout
    reference = float(re.search(r"([\d.]+) ms", text).group(1))
    rows = {}
    figures = {}  # rates, memory and ratios, whose bound is a least for rates
    for line in text.splitlines():
        if figure := FIGURE.match(line):
            figures[figure["name"]] = {"value": float(figure["value"]), "unit": figure["unit"], "bound": float(figure["bound"])}
        found = LINE.match(line)
        if found:
            rows[RESULT.sub("", found["name"])] = {
                "ms": float(found["ms"]), "ratio": float(found["ms"]) / reference, "mb": float(found["mb"]),
                "bounds": {unit: float(value) for value, unit in BOUND.findall(found["rest"])}}
    if not rows and not figures:
        sys.exit(f"{build}/fusewise_bench: expected lines with 'x reference' or a bound, got none")
    if not parts:
        for name, (arguments, bound) in START_UPS.items():
            ms = start_up_ms(build / "fusewise", arguments)
            rows[name] = {"ms": ms, "ratio": ms / reference, "mb": 0, "bounds": {"ms": bound}}
        figures.update(speed_ups(build / "fusewise"))
    return rows, figures


def medians(runs):
    out = {}
    for name in runs[0]:
        of = [each[name] for each in runs if name in each]
        out[name] = {key: statistics.median(row[key] for row in of) for key in ("ms", "ratio", "mb")}
        out[name]["spread"] = max(row["ratio"] for row in of) / min(row["ratio"] for row in of)
        out[name]["bounds"] = of[0]["bounds"]
        over = [unit for unit, bound in of[0]["bounds"].items() if out[name][unit.lower()] > bound]
        out[name]["over"] = over
    return out


def figures_of(runs):
    """The medians of the figures of one build, of all its runs."""
    out = {}
    for name, figure in runs[0].items():
        values = [each[name]["value"] for each in runs if name in each]
        value = statistics.median(values)
        is_rate = figure["unit"] in RATES
        out[name] = {**figure, "value": value, "spread": max(values) / min(values) if min(values) > 0 else 1,
                     "over": value < figure["bound"] if is_rate else value > figure["bound"]}
    return out


def missing(before, now):
    """What the first build measures and the second one does not."""
    for name in before:
        if name not in now:
            print(f"{name:<92} MISSING in the second build")
    return any(name not in now for name in before)


def growth(rows):
    """Exponents of time against size where rows differ in their size alone: {family: [(from, to, exponent)]}."""
    families = {}
    for name, row in rows.items():
        size = SIZE.search(name)
        if size:
            families.setdefault(SIZE.sub("N", name, count=1), []).append((int(size.group()), row["ratio"]))
    out = {}
    for family, points in families.items():
        points = sorted(set(points))
        pairs = [(a, b) for a, b in zip(points, points[1:]) if b[0] >= 1.9 * a[0]]
        if pairs:
            out[family] = [(a[0], b[0], round(math.log(b[1] / a[1]) / math.log(b[0] / a[0]), 2)) for a, b in pairs]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="+", metavar="BUILD", help="one or two folders with fusewise_bench and fusewise")
    parser.add_argument("--part", action="append", default=[], help="run this part only (may be repeated)")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each build (3)")
    parser.add_argument("--json", type=Path, help="write all rows, ratios and exponents to this file")
    options = parser.parse_args()
    if len(options.builds) > 2 or options.repeat < 1:
        parser.error("expected one or two builds and at least one run")
    builds = [Path(build).resolve() for build in options.builds]
    runs = [[] for _ in builds]
    for _ in range(options.repeat):
        for build, of in zip(builds, runs):
            of.append(run(build, options.part))
    rows = [medians([rows for rows, _ in of]) for of in runs]
    last = rows[-1]
    is_bad = False
    for name, row in last.items():
        line = f"{name:<92} {row['ms']:>10.3f} ms {row['ratio']:>9.3f} x reference {row['mb']:>9.2f} MB"
        for unit, bound in row["bounds"].items():
            line += f"  bound {bound:g} {unit}{', OVER' if unit in row['over'] else ''}"
        if len(rows) == 2 and name in rows[0]:
            row["of_first"] = row["ratio"] / rows[0][name]["ratio"]
            # a difference counts where it exceeds what repetitions of either build differ by
            noise = max(1.1, row["spread"], rows[0][name]["spread"])
            verdict = "slower" if row["of_first"] > noise else "faster" if row["of_first"] < 1 / noise else "alike"
            line += f"  {row['of_first']:.2f} x the first: {verdict}"
            more_mb = row["mb"] - rows[0][name]["mb"]
            if more_mb > max(1, 0.1 * rows[0][name]["mb"]):
                line += f", {more_mb:.2f} MB more"
                is_bad = True
            is_bad = is_bad or verdict == "slower"
        is_bad = is_bad or bool(row["over"])
        print(line)
    figures_by_build = [figures_of([figures for _, figures in of]) for of in runs]
    figures = figures_by_build[-1]
    for name, figure in figures.items():
        line = f"{name:<92} {figure['value']:>10g} {figure['unit']}  bound {figure['bound']:g}{', OVER' if figure['over'] else ''}"
        before = figures_by_build[0].get(name) if len(rows) == 2 else None
        if before and before["value"] > 0:
            figure["of_first"] = figure["value"] / before["value"]
            noise = max(1.1, figure["spread"], before["spread"])
            cost = 1 / figure["of_first"] if figure["unit"] in RATES else figure["of_first"]
            verdict = "worse" if cost > noise else "better" if cost < 1 / noise else "alike"
            line += f"  {figure['of_first']:.2f} x the first: {verdict}"
            is_bad = is_bad or verdict == "worse"
        print(line)
        is_bad = is_bad or figure["over"]
    if len(rows) == 2:
        is_bad = any([missing(rows[0], last), missing(*figures_by_build), is_bad])
    exponents = growth(last)
    for family, pairs in exponents.items():
        print(f"{'grows: ' + family:<92} " + ", ".join(f"size^{e} from {a} to {b}" for a, b, e in pairs))
    if options.json:
        options.json.write_text(json.dumps({"rows": last, "first": rows[0] if len(rows) == 2 else None,
                                            "growth": exponents, "figures": figures}, indent=1) + "\n")
    return 1 if is_bad else 0


if __name__ == "__main__":
    sys.exit(main())
