#!/usr/bin/env python3
"""Unmodified PyTorch jobs beside what fusewise predicts of them: `suite.py PROGRAM [-o TABLE] [--jobs 0,3] [--steps 20]`.

Runs validate/torch/train.py on two ranks or more in network namespaces whose links are held to a rate (Gloo). For each job: one
run under fusewise.torch measures what an iteration is made of; the predictions of all strategies are written to a file; only
then each strategy runs by itself, without a line of ours in it. Prints a table and its totals. Needs PyTorch 2.11 or later.
"""
import argparse
import contextlib
import json
import os
import pathlib
import runpy
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import ddp_job

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = ROOT / "validate" / "torch" / "train.py"
sys.path.insert(0, str(ROOT / "python"))
WARM_UP = 5
DEADLINE_S = 300
PLAN, CAPS = "plan", "caps:"


@dataclass(frozen=True)
class Job:
    model: str
    rate: str
    ranks: int = 2


JOBS = [Job("resnet", "1gbit"), Job("bert", "1gbit"), Job("gpt", "500mbit"), Job("lstm", "300mbit"), Job("resnet", "500mbit", 4)]
STRATEGIES = ["ddp", "one", "none", PLAN, "fp16", "fsdp-block", "fsdp-layer"]


# ---- a rank


def run_rank(arguments):
    """Enters the namespace, takes its share of the processors, and becomes the job."""
    if arguments.keeper:
        ddp_job.enter(arguments.keeper, arguments.descriptor)
    ddp_job.keep_to_share(arguments.rank, arguments.ranks)
    os.environ.update(RANK=str(arguments.rank), LOCAL_RANK=str(arguments.rank), WORLD_SIZE=str(arguments.ranks),
                      OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="eth0" if arguments.keeper else "lo")
    if arguments.predictions:
        return calibrate(arguments)
    sys.argv = [str(TRAIN), *arguments.words]
    runpy.run_path(str(TRAIN), run_name="__main__")


def calibrate(arguments):
    import torch.distributed as dist
    from fusewise.torch.intercept import intercepted
    from fusewise.torch.tuning import Mode, Tuning
    from fusewise.torch import network, prediction
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    import torch
    sys.path.insert(0, str(TRAIN.parent))
    import train

    class Done(BaseException):
        pass

    class Calibration(Tuning):
        def _measure(self):
            yield from self._run(Mode(self.ddp), 3)
            costs = yield from self._costs()
            bare = yield from self._run(Mode(self.ddp, is_alone=True), 8, ("compute", "behind"))
            compute, behind = map(statistics.median, bare)
            halves = yield from self._copies(compute, behind, default_hooks.fp16_compress_hook)
            curve = network.all_reduce_curve(self.group, costs.bytes // 2, torch.float16)
            sharding = network.sharding_curves(self.group, costs.bytes)
            self.found = costs, halves, curve, sharding
            raise Done

    calibrations = []

    def make(ddp, given):
        calibrations.append(Calibration(ddp, given, 6, None))
        return calibrations[0]
    sys.argv = [str(TRAIN), "--model", arguments.model, "--steps", "10000"]
    try:
        with intercepted(make):
            runpy.run_path(str(TRAIN), run_name="__main__")
    except Done:
        pass
    costs, halves, half_curve, sharding = calibrations[0].found
    group = calibrations[0].group
    sharded = {strategy: predict_sharded(train, arguments.model, strategy, group, sharding)
               for strategy in STRATEGIES if strategy.startswith("fsdp")}
    if group.rank == 0:
        predictions = {**predict_ddp(costs, prediction), **sharded}
        import dataclasses
        half = dataclasses.replace(costs, encode=halves[0], decode=halves[1],
                                   curve=[[2 * size, took] for size, took in half_curve])
        predictions["fp16"] = prediction.predict(half, [prediction.default_setting({}, True)])[0].predicted_us
        pathlib.Path(arguments.predictions).write_text(json.dumps(
            {"predicted_us": predictions, "null_us": costs.not_overlapped_us,
             "null_fp16_us": half.not_overlapped_us, "costs": dataclasses.asdict(costs)}))
    dist.barrier()
    dist.destroy_process_group()


def predict_ddp(costs, prediction):
    """The strategies of DistributedDataParallel, the plan under the name that asks train.py for it."""
    from fusewise.torch.prediction import Setting
    found = prediction.plan(costs)
    planned = prediction.planned(found, costs, True)
    settings = [prediction.default_setting({}, True), Setting("one", {}, "all"), Setting("none", {}, "none")]
    default, one, none = prediction.predict(costs, settings)
    caps = CAPS + ",".join(map(str, planned.arguments["bucket_cap_mb_list"]))
    return {"ddp": default.predicted_us, "one": one.predicted_us, "none": none.predicted_us, caps: planned.predicted_us}


def predict_sharded(train, model_name, strategy, group, curves):
    """FSDP2 over Gloo waits for each collective where it issues it, so nothing overlaps: an iteration on one rank, with the
    optimizer's work on its share alone, and the collectives of all groups."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard
    from fusewise.torch import network
    own = [dist.new_group([rank]) for rank in range(group.size)][group.rank]

    def timed(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
        whole, updates = [], []
        for _ in range(10):
            dist.barrier()
            began = time.perf_counter()
            inputs, labels = train.batch_of(model_name)
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs).flatten(0, -2), labels.flatten()).backward()
            updating = time.perf_counter()
            optimizer.step()
            ended = time.perf_counter()
            whole.append(1e6 * (ended - began))
            updates.append(1e6 * (ended - updating))
        return [statistics.median(group.slowest(values)[3:]) for values in (whole, updates)]

    _, plain_update_us = timed(train.MODELS[model_name]())
    model = train.MODELS[model_name]()
    groups = groups_of(model, train.units(model, strategy))
    mesh = DeviceMesh.from_group(own, "cpu")
    for unit in train.units(model, strategy):
        fully_shard(unit, mesh=mesh)
    alone_us, _ = timed(fully_shard(model, mesh=mesh))
    out = alone_us - plain_update_us * (1 - 1 / group.size)
    for size, is_root in groups:  # parameters of the root stay until backward
        out += (1 if is_root else 2) * network.at(curves["all_gather"], size) + network.at(curves["reduce_scatter"], size)
    return out


def groups_of(model, units):
    """Bytes of each unit, and of what is left to the root module, with whether it is the root's."""
    taken, out = set(), []
    for unit in [*units, model]:
        parameters = [p for p in unit.parameters() if p not in taken]
        taken.update(parameters)
        out.append((sum(4 * p.numel() for p in parameters), unit is model))
    return [group for group in out if group[0] > 0]


# ---- the one that starts them


def run_ranks(arguments, job, lab, words, predictions=None):
    """Runs all ranks to their end; a rank that fails ends the others."""
    port = 20000 + os.getpid() % 10000 + int(time.monotonic()) % 1000
    os.environ.update(MASTER_ADDR=lab.first_address, MASTER_PORT=str(port), FUSEWISE_PROGRAM=arguments.program,
                      PYTHONPATH=str(ROOT / "python"), TORCH_CPP_LOG_LEVEL="ERROR")
    ranks = [ddp_job.Rank([sys.executable, __file__, arguments.program, "--rank", str(rank), "--ranks", str(job.ranks),
                           "--model", job.model, *(["--predictions", predictions] if predictions else []),
                           *lab.arguments(rank), "--", *words]) for rank in range(job.ranks)]
    for rank in ranks:
        rank.listen()
    deadline = time.monotonic() + DEADLINE_S
    try:
        while any(rank.process.poll() is None for rank in ranks):
            if any(rank.process.poll() for rank in ranks):
                ddp_job.fail(f"{job}: {'; '.join(rank.how() for rank in ranks if rank.process.poll())}")
            if time.monotonic() > deadline:
                ddp_job.fail(f"{job}, {' '.join(words)}: takes longer than {DEADLINE_S} s")
            time.sleep(0.1)
        if any(rank.process.returncode for rank in ranks):
            ddp_job.fail(f"{job}: {'; '.join(rank.how() for rank in ranks if rank.process.returncode)}")
    finally:
        for rank in ranks:
            rank.end()


def run_job(arguments, job, folder):
    """Rows of the table: strategy, predicted, measured, null, and why a case is not judged."""
    os.makedirs(folder)
    lab = ddp_job.Lab(arguments.program, folder, True, job.ranks, job.rate)
    try:
        if lab.why_not:
            ddp_job.fail(lab.why_not)
        frozen = os.path.join(folder, "predictions.json")
        run_ranks(arguments, job, lab, [], frozen)
        predictions = json.loads(pathlib.Path(frozen).read_text())
        rows = []
        for strategy, predicted in predictions["predicted_us"].items():
            times = os.path.join(folder, f"{strategy.partition(':')[0]}.times.json")
            quiet = ddp_job.Quiet()
            run_ranks(arguments, job, lab, ["--model", job.model, "--strategy", strategy, "--steps", str(WARM_UP + arguments.steps),
                                           "--times", times])
            measured = statistics.median(json.loads(pathlib.Path(times).read_text())[WARM_UP:])
            null = predictions["null_fp16_us" if strategy == "fp16" else "null_us"]
            rows.append((strategy, predicted, measured, null, quiet.reasons()))
            print(row_text(job, rows[-1]), flush=True)
        return rows
    finally:
        lab.close()


HEAD = """| job | ranks, links | setting | predicted ms | measured ms | error | null | judged |
| --- | --- | --- | ---: | ---: | ---: | ---: | --- |"""


def row_text(job, row):
    strategy, predicted, measured, null, reasons = row
    name = f"plan, {strategy.count(',') + 1} buckets" if strategy.startswith(CAPS) else strategy
    return (f"| {job.model} | {job.ranks}, {job.rate[:-4].replace('gb', ' Gb').replace('mb', ' Mb')} | {name} | {predicted / 1e3:.1f} | "
            f"{measured / 1e3:.1f} | {100 * (predicted / measured - 1):+.1f} % | {100 * (null / measured - 1):+.1f} % | "
            f"{'; '.join(reasons) or 'yes'} |")


def totals(results):
    """Mean and worst error of what was judged, and whether the best predicted was the best measured."""
    judged = [row for _, rows in results for row in rows if not row[4]]
    lines = []
    for name, place in (("predicted", 1), ("null", 3)):
        errors = [abs(row[place] / row[2] - 1) for row in judged]
        if errors:
            lines.append(f"* {name}: mean error {100 * statistics.mean(errors):.1f} %, worst {100 * max(errors):.1f} %, of {len(errors)} cases")
    for job, rows in results:
        ddp = [row for row in rows if row[0] in ("ddp", "one", "none") or row[0].startswith(CAPS)]
        best, fastest = min(ddp, key=lambda row: row[1]), min(ddp, key=lambda row: row[2])
        lines.append(f"* {job.model}, {job.ranks} ranks: best uncompressed DDP predicted '{best[0]}', {100 * (best[2] / fastest[2] - 1):.1f} % slower than "
                     f"the best measured, '{fastest[0]}'")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("-o", "--output", help="write the table into this file, too")
    parser.add_argument("--keep", metavar="FOLDER", help="keep what was measured and predicted in this folder")
    parser.add_argument("--jobs", help="places in the list of jobs, as 0,3 (default: all)")
    parser.add_argument("--steps", type=int, default=20, help="iterations that count (default: 20)")
    for hidden in ("--rank", "--ranks", "--keeper", "--descriptor"):
        parser.add_argument(hidden, type=int, help=argparse.SUPPRESS)
    for hidden in ("--model", "--predictions"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    words = sys.argv[1:]
    own, rest = (words[:words.index("--")], words[words.index("--") + 1:]) if "--" in words else (words, [])
    arguments = parser.parse_args(own)
    arguments.words = rest
    if arguments.rank is not None:
        return run_rank(arguments)
    arguments.program = os.path.abspath(arguments.program)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what is below is taken down
    jobs = [JOBS[int(place)] for place in arguments.jobs.split(",")] if arguments.jobs else JOBS
    results = []
    print(HEAD)
    with contextlib.ExitStack() as stack:
        folder = arguments.keep or stack.enter_context(tempfile.TemporaryDirectory())
        for number, job in enumerate(jobs):
            results.append((job, run_job(arguments, job, os.path.join(folder, str(number)))))
            rows = [row_text(job, row) for job, rows in results for row in rows]
            if arguments.output:
                pathlib.Path(arguments.output).write_text("\n".join([HEAD, *rows, "", *totals(results)]) + "\n")
    print("\n".join(["", *totals(results)]))


if __name__ == "__main__":
    main()
