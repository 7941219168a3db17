"""fusewise torch: runs a training script as it is, measures it, and says how to set up DistributedDataParallel."""
from __future__ import annotations

import argparse
import atexit
import json
import os
import pathlib
import re
import runpy
import socket
import subprocess
import sys
import time
from typing import Any, Mapping, NoReturn, Optional, Sequence

_FOR_FIRST_RANK_S = 5

_EXAMPLE = """A script that wraps its model in DistributedDataParallel needs no change. Under torchrun, and wherever RANK and
WORLD_SIZE are set, start it as `python -m fusewise.torch train.py`. After 110 to 200 iterations the script is stopped, unless it
is to go on.

Example: fusewise torch --nproc 2 train.py --epochs 1"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Says what is wrong in one line, as the program does."""
        self.exit(2, f"{self.prog}: {re.sub('^argument ', '', message)} (try --help)\n")


def arguments_of(words: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = _Parser(
        prog="fusewise torch", description="Measure a PyTorch training script, plan its buckets, and try the plan",
        epilog=_EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nproc", type=int, metavar="N", help="start N ranks of the script on this machine")
    parser.add_argument("--rounds", type=int, default=16, metavar="N",
                        help="iterations with the default and with the best setting, in turns, behind the result (default: 16)")
    parser.add_argument("--go-on", action="store_true", help="let the script run to its end, with its own buckets")
    parser.add_argument("-o", "--output", metavar="FOLDER",
                        help="write profile, network, scenario, plan and measured times into this folder (default: fusewise-torch)",
                        default="fusewise-torch")
    parser.add_argument("--json", action="store_true", dest="prints_json",
                        help="print the result as JSON; what the script prints goes to standard error")
    parser.add_argument("-m", dest="is_module", action="store_true", help="SCRIPT is the name of a module")
    parser.add_argument("script", metavar="SCRIPT", help="the training script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    given = parser.parse_args(words)
    if given.rounds < 6:
        parser.error(f"--rounds: expected at least 6, which an interval needs, got {given.rounds}")
    if given.nproc is not None and given.nproc < 2:
        parser.error(f"--nproc: expected at least 2, got {given.nproc}")
    if not given.is_module and not os.path.isfile(given.script):
        parser.error(f"{given.script}: expected a training script, got no file")
    return given


def main(words: Optional[Sequence[str]] = None) -> int:
    given = arguments_of(words)
    if given.nproc is None:
        return _run_rank(given)
    return _spawn(given.nproc, list(words if words is not None else sys.argv[1:]))


# ---- ranks on this machine


def _spawn(count: int, words: list[str]) -> int:
    """Starts the ranks, waits for them, and ends all where one fails."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = next(i for i, word in enumerate(words) if word == "--nproc" or word.startswith("--nproc="))
    del words[place:place + (2 if words[place] == "--nproc" else 1)]
    common = {**os.environ, "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1",
              "MASTER_PORT": str(port)}
    common.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) // count)))
    ranks = [subprocess.Popen([sys.executable, "-m", "fusewise.torch", *words],
                              env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}) for rank in range(count)]
    try:
        while True:
            codes = [rank.poll() for rank in ranks]
            failed = [code for code in codes if code]
            if failed:
                time.sleep(0.5)  # for the others to say why
                return failed[0] if failed[0] > 0 else 1
            if None not in codes:
                return 0
            time.sleep(0.05)
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
            rank.wait()


# ---- one rank


def _end(code: int) -> NoReturn:
    """Ends a rank without waiting for threads of its process group. They outlive destroy_process_group(), may wait for
    other ranks, and may still run Python, which would end the process with a signal once the interpreter goes down."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class _Stop(BaseException):
    """Ends a script whose measurement is done."""


def _run_rank(given: argparse.Namespace) -> int:
    try:
        import torch.distributed as dist
    except ModuleNotFoundError as error:
        print(f"fusewise torch: needs PyTorch, which {sys.executable} has not: {error}", file=sys.stderr)
        return 1
    import fusewise
    from fusewise.torch import report
    from fusewise.torch.intercept import intercepted
    from fusewise.torch.tuning import NotMeasurable, Result, Tuning

    folder = pathlib.Path(given.output)
    is_done = []
    out = sys.stdout
    if given.prints_json:
        out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def done(result: Result) -> None:
        is_done.append(True)
        if dist.get_rank() == 0:
            report.save(result, folder)
            plan_file = str(folder / "plan.json")
            print(json.dumps(report.found(result, plan_file), indent=2) + "\n" if given.prints_json else report.text(result, plan_file),
                  end="", file=out, flush=True)
        if not given.go_on:
            raise _Stop

    def tell(what: str) -> None:
        if dist.get_rank() == 0 and sys.stderr.isatty():
            print(f"fusewise torch: {what}", file=sys.stderr, flush=True)

    def fail(code: int, why: Any, on_all: bool = False) -> int:
        """The first rank says why. The others, whose end would break its connections, let it go first. Without a process
        group each rank speaks for itself, unless the same happens `on_all`."""
        has_group = dist.is_available() and dist.is_initialized()
        if dist.get_rank() > 0 if has_group else on_all and int(os.environ.get("RANK", "0")) > 0:
            time.sleep(_FOR_FIRST_RANK_S)
        else:
            print(f"fusewise torch: {why}", file=sys.stderr)
        if has_group:
            _end(code)
        return code

    sys.argv = [given.script, *given.arguments]
    try:
        with intercepted(lambda ddp, arguments: Tuning(ddp, arguments, given.rounds, done, tell)) as interception:
            if given.is_module:
                runpy.run_module(given.script, run_name="__main__", alter_sys=True)
            else:
                sys.path[0] = os.path.dirname(os.path.abspath(given.script))
                runpy.run_path(given.script, run_name="__main__")
    except _Stop:
        pass
    except NotMeasurable as error:
        return fail(2, f"{given.script}: {error}")
    except fusewise.InputError as error:
        return fail(2, error)
    except ValueError as error:
        if "RANK" in os.environ or "environment variable RANK expected" not in str(error):
            raise
        return fail(2, f"{given.script}: expected ranks, got one process without them: start it with --nproc 2 or under torchrun")
    except fusewise.Failure as error:
        return fail(1, error)
    if not is_done:
        if interception.tuning is None:
            return fail(2, f"{given.script}: expected a DistributedDataParallel, got none in this process; start ranks with "
                           "--nproc or torchrun, as those that the script starts itself are not measured", on_all=True)
        return fail(1, f"{given.script}: ended after {interception.tuning.iterations} iterations, before all was "
                       "measured, which takes 110 to 200; let it run longer", on_all=True)
    if dist.is_initialized():
        dist.destroy_process_group()
        if not given.go_on:
            atexit._run_exitfuncs()
            _end(0)
    return 0
