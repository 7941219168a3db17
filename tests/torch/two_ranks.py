"""The common part of tests that ask a framework on two or more ranks whether it does with an emission what the emission says.

The test calls itself again for each rank. Rank 0 writes `{"release": ..., "results": [...]}` with one result a case.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

WORLD = 2


def emissions_of(driver, lines, deadline_s):
    """What `driver`, which is emit_driver.cpp, emits for each line."""
    answers = subprocess.run([driver], input="\n".join(map(json.dumps, lines)) + "\n", text=True,
                             stdout=subprocess.PIPE, check=True, timeout=deadline_s).stdout.splitlines()
    return [json.loads(answer) for answer in answers]


def answer_of_ranks(lines, emissions, deadline_s, world=WORLD):
    with tempfile.TemporaryDirectory() as folder:
        cases, answer = os.path.join(folder, "cases.json"), os.path.join(folder, "answer.json")
        with open(cases, "w") as file:
            json.dump(list(zip(lines, emissions)), file)
        ranks = [subprocess.Popen([sys.executable, sys.argv[0], "--rank", str(rank), "--folder", folder],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for rank in range(world)]
        try:
            with concurrent.futures.ThreadPoolExecutor(world) as readers:  # at once, or one waits until it is read
                said = list(readers.map(lambda rank: rank.communicate(timeout=deadline_s)[1], ranks))
        finally:
            for rank in ranks:
                rank.kill()
        if any(rank.returncode for rank in ranks):
            sys.exit(said[0][-2000:] + f"\nthe ranks ended with {[rank.returncode for rank in ranks]}")
        with open(answer) as file:
            return json.load(file)


def run(doc, seeds, deadline_s, case, results_on_rank, check_case, world=WORLD, emissions_of=emissions_of):
    """Runs the test from the command line, and returns the emissions and the framework's release.

    case(seed) is a line for the driver. results_on_rank(rank, store, cases) runs pairs of a line and its emission on
    one rank and returns the framework's release and the results. check_case(seed, line, emission, result) judges one.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver", nargs="?")
    parser.add_argument("--seeds", type=int, default=seeds)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--folder")
    arguments = parser.parse_args()
    if arguments.rank is not None:
        return run_rank(arguments.rank, arguments.folder, results_on_rank)
    if arguments.driver is None:
        parser.error("expected the driver")
    lines = [case(seed) for seed in range(arguments.seeds)]
    emissions = emissions_of(arguments.driver, lines, deadline_s)
    answer = answer_of_ranks(lines, emissions, deadline_s, world)
    for seed, (line, emission, result) in enumerate(zip(lines, emissions, answer["results"], strict=True)):
        check_case(seed, line, emission, result)
    return emissions, answer["release"]


def run_rank(rank, folder, results_on_rank):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with open(os.path.join(folder, "cases.json")) as file:
        cases = json.load(file)
    release, results = results_on_rank(rank, os.path.join(folder, "store"), cases)
    if rank == 0:
        with open(os.path.join(folder, "answer.json"), "w") as file:
            json.dump({"release": release, "results": results}, file)
    end_rank()


def end_rank():
    """Threads of a process group outlive destroy_process_group() and may still run Python, which would end the process
    with a signal once the interpreter goes down."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def check(name, what, got, wanted):
    if got != wanted:
        sys.exit(f"{name}: {what}: got {got}, expected {wanted}")
