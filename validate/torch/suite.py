#!/usr/bin/env python3
"""Unmodified PyTorch jobs beside what fusewise predicts of them: `suite.py PROGRAM [-o PAGE] [--jobs 0,3] [--minutes 17]`.

Runs validate/torch/train.py on two ranks or more in network namespaces whose links are held to a rate (Gloo). For each job: one
run under fusewise.torch measures what an iteration is made of; the predictions of all strategies are written to a file; only
then each strategy runs by itself, under the lines that `fusewise plan --emit` writes for it. Then `fusewise torch` runs on each job. Adds a table and its
totals to a page. Needs PyTorch 2.13.
"""
import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import runpy
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import ddp_job
import disturbance

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = ROOT / "validate" / "torch" / "train.py"
sys.path.insert(0, str(ROOT / "python"))
WARM_UP = 8  # DDP makes its buckets anew in the second iteration, PowerSGD begins in the third
DEADLINE_S = 150
MAX_MEAN_ERROR, MAX_ERROR = 0.03, 0.08  # what the suite aims at


@dataclass(frozen=True)
class Job:
    model: str
    rate: str
    ranks: int = 2


JOBS = [Job("resnet", "1gbit"), Job("bert", "1gbit"), Job("gpt", "500mbit"), Job("lstm", "500mbit"), Job("resnet", "500mbit", 4)]


@dataclass(frozen=True)
class Strategy:
    """How a job communicates: lines that fusewise emitted, or none for DistributedDataParallel as it is. Times are in microseconds."""
    predicted_us: float
    null_us: float
    lines: str = ""
    words: list = dataclasses.field(default_factory=list)  # for train.py


# ---- a rank


def run_rank(arguments):
    """Enters the namespace, takes its share of the processors, and becomes the job."""
    if arguments.keeper:
        ddp_job.enter(arguments.keeper, arguments.descriptor)
    ddp_job.keep_to_share(arguments.rank, arguments.ranks)
    os.environ.update(RANK=str(arguments.rank), LOCAL_RANK=str(arguments.rank), WORLD_SIZE=str(arguments.ranks),
                      OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="eth0" if arguments.keeper else "lo")
    if arguments.tuned:
        from fusewise.torch.command import main as tune
        return sys.exit(tune(["--output", arguments.tuned, str(TRAIN), *arguments.words]))
    if arguments.predictions:
        calibrate(arguments)
    else:
        sys.argv = [str(TRAIN), *arguments.words]
        runpy.run_path(str(TRAIN), run_name="__main__")
    sys.stdout.flush()
    os._exit(0)  # Gloo's threads may still hold tensors, and PyTorch aborts if they release one while Python is going down


def calibrate(arguments):
    """Measures the job from inside, under fusewise.torch, and writes the predictions of all strategies."""
    import torch.distributed as dist
    from fusewise.torch.intercept import intercepted
    from fusewise.torch.tuning import Mode, Tuning
    from fusewise.torch import network
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
            halves = yield from self._copies(default_hooks.fp16_compress_hook)
            curve = network.all_reduce_curve(self.group, costs.bytes // 2, torch.float16)
            self.found = costs, halves, curve
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
    costs, halves, half_curve = calibrations[0].found
    group = calibrations[0].group
    hook = measure_powersgd(train, arguments.model, group)
    sharding = measure_sharding(train, arguments.model, costs, group)
    if group.rank == 0:
        half = dataclasses.replace(costs, encode=halves[0], decode=halves[1], curve=[[2 * size, took] for size, took in half_curve])
        strategies = {**predict_ddp(costs), **predict_hooks(costs, half, hook), **predict_sharded(train, arguments.model, costs, sharding)}
        pathlib.Path(arguments.predictions).write_text(json.dumps(
            {"strategies": {name: dataclasses.asdict(strategy) for name, strategy in strategies.items()}, "costs": dataclasses.asdict(costs), "fp16": dataclasses.asdict(half), "powersgd": hook,
             "sharding": dataclasses.asdict(sharding)}))
    dist.barrier()
    dist.destroy_process_group()


def emitted(scenario, target):
    """The lines that `fusewise plan --emit` writes for the scenario's only schedule, and the same as data."""
    import fusewise
    from fusewise._calls import _file
    from fusewise._program import run
    with _file(scenario) as file:
        words = ["plan", file, "--schedule", fusewise.simulate(scenario).entries[0].schedule, "--emit", target]
        return run(words), json.loads(run([*words, "--json"]))


def predict_default(costs):
    from fusewise.torch import prediction
    return prediction.predict(costs, [prediction.default_setting({}, True)])[0].predicted_us


def predict_ddp(costs):
    """DistributedDataParallel as it is, and under the lines for one bucket, a bucket for each gradient, and the plan's buckets, in an
    iteration of one micro-batch and of two."""
    import fusewise
    from fusewise.torch import prediction
    out = {"ddp": Strategy(predict_default(costs), costs.not_overlapped_us)}

    def add(name, fusion, micro_batches=1):
        asked = {**prediction.scenario(costs, [("job", fusion)]), "accumulation_steps": micro_batches}
        lines, data = emitted(asked, "ddp")
        name = name.format(len(data["bucket_cap_mb_list"]))
        out[name] = Strategy(fusewise.simulate(asked).entries[0].iteration_us, costs.not_overlapped_us + (micro_batches - 1) * costs.compute_us,
                             lines, ["--micro-batches", str(micro_batches)])
    add("one", "all")
    add("none", "none")
    add("plan, {} buckets", "optimal")
    add("plan, {} buckets, 2 micro-batches", "optimal", 2)
    return out


def hook_lines(costs, fusion, compression):
    """The lines for a hook whose coding costs nothing, so that the hook is written."""
    from fusewise.torch import prediction
    asked = prediction.scenario(costs, [("job", fusion)])
    asked["schedules"][0]["compression"] = compression
    return emitted(asked, "comm-hook")[0]


def predict_hooks(costs, half, hook):
    """The default buckets in float16, and one bucket under PowerSGD."""
    from fusewise.torch import prediction
    fp16 = {"name": "fp16", "ratio": 0.5, "collective": "all_reduce"}
    low_rank = {"name": "power-sgd", "rank": 2, "encode": {}, "in_transit": {}, "decode": {}}
    default = prediction.default_setting({}, True).fusion
    return {"fp16": Strategy(predict_default(half), half.not_overlapped_us, hook_lines(costs, default, fp16)),
            "powersgd": Strategy(predict_powersgd(costs, hook), predict_powersgd(costs, hook, False), hook_lines(costs, "all", low_rank))}


def measure_powersgd(train, model_name, group):
    """PyTorch's own hook on one bucket of all gradients, each time behind a forward and a backward pass, which leave other data in the
    caches: until it returns, until its last all-reduce and decoding are done, and the share of the elements that is sent. Times count from
    the rank that begins last, as the passes' time is that of the slowest rank already; the ranks are on one machine and have one clock."""
    import torch
    import torch.distributed as dist
    from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
    model = train.MODELS[model_name]()
    inputs, labels = train.batch_of(model_name)
    parameters = list(model.parameters())[::-1]
    flat = torch.zeros(sum(p.numel() for p in parameters))
    gradients = [part.view_as(p) for part, p in zip(flat.split([p.numel() for p in parameters]), parameters)]

    class Bucket:
        buffer, gradients, index, is_last = (lambda self: flat), (lambda self: gradients), (lambda self: 0), (lambda self: True)
    state = PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    rows = []
    for _ in range(28):
        torch.nn.functional.cross_entropy(model(inputs).flatten(0, -2), labels.flatten()).backward()
        for gradient, parameter in zip(gradients, parameters):
            gradient.copy_(parameter.grad)
        model.zero_grad()
        times = [time.perf_counter()]
        future = powerSGD_hook(state, Bucket())
        times.append(time.perf_counter())
        future.wait()
        times.append(time.perf_counter())
        began, returned, ended = group.slowest(times)
        rows.append([1e6 * (returned - began), 1e6 * (ended - began)])
    encode, whole = (statistics.median(part) for part in zip(*rows[4:]))  # the first two send everything
    return {"encode_us": encode, "carry_us": whole - encode, "ratio": state.total_numel_after_compression / state.total_numel_before_compression}


def predict_powersgd(costs, hook, has_copies=True):
    """One bucket, as PyTorch's hook waits inside of callbacks, of which Gloo runs two at a time: with more it may hang."""
    import fusewise
    from fusewise.torch import prediction
    from fusewise.torch.network import at
    sent = max(1, round(hook["ratio"] * costs.bytes))
    found = prediction.scenario(dataclasses.replace(costs, curve=[[sent, hook["carry_us"]]]), [("all", "all")])
    if not has_copies:
        return costs.compute_us + costs.rest_us + at(costs.curve, sent)
    found["schedules"][0]["compression"] = {
        "name": "powersgd", "ratio": hook["ratio"], "collective": "all_reduce", "decode": costs.decode,
        "encode": {**costs.encode, "startup_us": costs.encode["startup_us"] + hook["encode_us"]}}
    return fusewise.simulate(found).entries[0].iteration_us


def measure_sharding(train, model_name, costs, group):
    """By block and by layer, which is what lines are written for as well."""
    import torch
    from torch.distributed.fsdp import fully_shard
    from fusewise.torch import sharding

    def loss(model):
        inputs, labels = train.batch_of(model_name)
        return torch.nn.functional.cross_entropy(model(inputs).flatten(0, -2), labels.flatten())

    def blocks(model):
        return [[block] for name in ("blocks", "lstms") for block in getattr(model, name, ())]

    def layers(model):
        return [[module] for module in model.modules()
                if not any(True for _ in module.children()) and any(True for _ in module.parameters())]

    def shard(model, units):
        for unit in [*units, [model]]:
            fully_shard(unit)
        return model
    return sharding.measure(costs, group, train.MODELS[model_name], loss,
                            lambda parameters: torch.optim.SGD(parameters, lr=0.001, momentum=0.9), shard, [blocks, layers])


def predict_sharded(train, model_name, costs, measured):
    """FSDP2 by block and by layer, as it is: over Gloo it waits for each collective where it issues it. Then with all-gathers
    under computing, two groups ahead, by block and in the best groups: those of a plan, or layers in about equal parts."""
    from fusewise.torch import sharding
    model = train.MODELS[model_name]()

    def strategy(fusion, prefetch=0):
        asked = sharding.scenario(costs, measured, fusion, prefetch)
        lines, data = emitted(asked, "fsdp")
        names, is_root_released = units_of(model, data)
        predicted = sharding.predict(costs, measured, names, prefetch, is_root_released)
        return Strategy(predicted, costs.not_overlapped_us, lines, ["--async-gathers"] if prefetch > 0 else []), len(data["groups"])
    parts = [{"kind": "modules", "cap_bytes": costs.bytes // count} for count in range(2, 9)]
    planned, groups = min((strategy(fusion, 2) for fusion in ["optimal", *parts]), key=lambda found: found[0].predicted_us)
    return {"fsdp-block": strategy("blocks")[0], "fsdp-layer": strategy({"kind": "layers", "count": 1})[0],
            "fsdp-block, prefetch 2": strategy("blocks", 2)[0], f"fsdp plan, {groups} groups, prefetch 2": planned}


def units_of(model, data):
    """The parameters of each group but the model's own, and whether these are gathered again for backward."""
    out, taken = [], set()
    for modules in data["fully_shard"]:
        names = [name for name, _ in model.named_parameters()
                 if name not in taken and any(name.startswith(module + ".") for module in modules)]
        taken.update(names)
        if modules != [""]:
            out.append(names)
    return out, [""] in data["fully_shard"] and data["reshards"][-1]


# ---- the one that starts them


def run_ranks(arguments, job, lab, words, *own):
    """Runs all ranks to their end; a rank that fails ends the others. Returns what watched them."""
    port = 20000 + os.getpid() % 10000 + int(time.monotonic()) % 1000
    os.environ.update(MASTER_ADDR=lab.first_address, MASTER_PORT=str(port), FUSEWISE_PROGRAM=arguments.program,
                      PYTHONPATH=str(ROOT / "python"), TORCH_CPP_LOG_LEVEL="ERROR", PYTHONWARNINGS="ignore")
    ranks = [ddp_job.Rank([sys.executable, __file__, arguments.program, "--rank", str(rank), "--ranks", str(job.ranks),
                           "--model", job.model, *own,
                           *lab.arguments(rank), "--", *words]) for rank in range(job.ranks)]
    for rank in ranks:
        rank.listen()
    watch = disturbance.Watch([rank.process.pid for rank in ranks])
    deadline = time.monotonic() + DEADLINE_S
    try:
        while any(rank.process.poll() is None for rank in ranks):
            if any(rank.process.poll() for rank in ranks):
                raise Failed("; ".join(rank.how() for rank in ranks if rank.process.poll()))
            if time.monotonic() > deadline:
                raise Failed(f"takes longer than {DEADLINE_S} s")
            time.sleep(0.1)
        if any(rank.process.returncode for rank in ranks):
            raise Failed("; ".join(rank.how() for rank in ranks if rank.process.returncode))
    finally:
        watch.stop()
        for rank in ranks:
            rank.end()
    return watch


class Failed(Exception):
    """A run that did not end as it should; the text is one line."""


@dataclass
class Case:
    """A strategy of a job, predicted and perhaps measured. Times are in microseconds."""
    job: Job
    strategy: str
    predicted_us: float
    null_us: float
    iterations_us: list
    reasons: list  # why it is not judged
    lines: str = ""
    words: list = dataclasses.field(default_factory=list)

    @property
    def measured_us(self):
        return statistics.median(self.iterations_us)

    @property
    def is_judged(self):
        return bool(self.iterations_us) and not self.reasons

    def error(self, predicted_us):
        return predicted_us / self.measured_us - 1


def disturbed(found):
    """Why nothing is judged against these predictions, in words; nothing where it is."""
    out = []
    if found["elsewhere"] > disturbance.MOST_ELSEWHERE:
        out.append(f"others took {100 * found['elsewhere']:.0f} % in calibration")
    change = disturbance.speed_change(found["work_us"], found["work_us"])
    if change > disturbance.MOST_SPEED:
        out.append(f"fixed work took {100 * change:.0f} % longer at one end of calibration than at the other")
    return out


class JobRun:
    """The namespaces of a job, its frozen predictions, and its cases."""

    def __init__(self, arguments, job, folder):
        self.arguments, self.job, self.folder = arguments, job, folder
        self.frozen = pathlib.Path(folder, "predictions.json")
        os.makedirs(folder, exist_ok=True)
        self.lab = ddp_job.Lab(arguments.program, folder, True, job.ranks, job.rate)
        self.disturbed, self.work_us = [], []
        if self.lab.why_not:
            self.close()
            raise Failed(self.lab.why_not)

    def close(self):
        self.lab.close()

    def calibrate(self):
        """The cases with their predictions: those that an earlier run left in the folder, or new ones. A disturbed measurement is
        done once more, before any strategy runs."""
        if not self.frozen.exists():
            self.frozen.write_text(json.dumps(self.measured()))
            if disturbed(json.loads(self.frozen.read_text())):
                self.frozen.write_text(json.dumps(self.measured()))
        found = json.loads(self.frozen.read_text())
        self.disturbed, self.work_us = disturbed(found), found["work_us"]
        return [Case(self.job, name, each["predicted_us"], each["null_us"], [], [], each["lines"], each["words"])
                for name, each in found["strategies"].items()]

    def measured(self):
        new = pathlib.Path(str(self.frozen) + ".new")
        before_us = disturbance.fixed_work_us()
        watch = run_ranks(self.arguments, self.job, self.lab, [], "--predictions", str(new))
        return {**json.loads(new.read_text()), "elsewhere": watch.elsewhere(), "work_us": [before_us, disturbance.fixed_work_us()]}

    def await_speed(self):
        """Waits for the machine to compute as fast as beside calibration, for a minute at most; returns the time of fixed work."""
        for _ in range(15):
            work_us = disturbance.fixed_work_us()
            if disturbance.speed_change([work_us], self.work_us) <= disturbance.MOST_SPEED:
                break
            time.sleep(3)
        return work_us

    def run(self, case):
        base = os.path.join(self.folder, re.sub(r"\W+", "-", case.strategy))
        times, lines = base + ".times.json", base + ".py"
        pathlib.Path(lines).write_text(case.lines, encoding="utf-8")
        iteration_us = case.measured_us if case.iterations_us else case.predicted_us  # a run that is repeated
        steps = WARM_UP + disturbance.enough_iterations(iteration_us, self.arguments.steps)
        work_us = [self.await_speed()]
        try:
            watch = run_ranks(self.arguments, self.job, self.lab,
                              ["--model", self.job.model, "--steps", str(steps), "--times", times, *case.words,
                               *(["--lines", lines] if case.lines else [])])
        except Failed as failed:
            case.iterations_us, case.reasons = [], [f"failed: {failed}"]
            return
        ends = json.loads(pathlib.Path(times).read_text())
        ends = ends[WARM_UP:]
        elsewhere = watch.elsewhere(ends[0], ends[-1])
        case.iterations_us = [1e6 * (after - before) for before, after in zip(ends, ends[1:])]
        work_us.append(disturbance.fixed_work_us())
        change = disturbance.speed_change(work_us, self.work_us)
        slow = [f"fixed work took up to {100 * change:.0f} % longer at other times"] if change > disturbance.MOST_SPEED else []
        case.reasons = self.disturbed + slow + disturbance.reasons(elsewhere, case.iterations_us)

    def tune(self):
        """Lines of the table of `fusewise torch`, for this job."""
        folder = os.path.join(self.folder, "tuned")
        watch = run_ranks(self.arguments, self.job, self.lab, ["--model", self.job.model, "--steps", "10000"], "--tuned", folder)
        elsewhere = watch.elsewhere()
        found = json.loads(pathlib.Path(folder, "measured.json").read_text())
        saving = found["saving"]
        advice = found["best"] if saving["low_us"] > 0 else "keep the default"
        out = []
        for setting in found["settings"][:2]:
            predicted, measured = setting["predicted_behind_us"], statistics.median(setting["measured_behind_us"])
            is_met = abs(predicted - measured) <= max(0.15 * measured, 10e3)
            out.append(f"| {self.job.model} | {self.job.ranks}, {rate_of(self.job)} | {'default' if not out else 'plan'} | {predicted / 1e3:.1f} | "
                       f"{measured / 1e3:.1f} | {'yes' if is_met else 'no'} | {setting['predicted_us'] / 1e3:.1f} | "
                       f"{statistics.median(setting['measured_us']) / 1e3:.1f} | {short(advice) if out else ''} | "
                       + (f"{saving['us'] / 1e3:+.1f} ({saving['low_us'] / 1e3:+.1f} to {saving['high_us'] / 1e3:+.1f})" if out else "")
                       + f" | {100 * elsewhere:.0f} % |")
        return out


TUNED_HEAD = """| job | ranks, links | setting | exposed ms, predicted | measured | within 15 % or 10 ms | iteration ms, predicted | measured | advice | saves ms | others |
| --- | --- | --- | ---: | ---: | --- | ---: | ---: | --- | --- | ---: |"""


def short(advice):
    return advice if advice.count(",") < 3 else f"bucket_cap_mb_list of {advice.count(',') + 1}"


def rate_of(job):
    return {"1gbit": "1 Gb/s"}.get(job.rate, job.rate.replace("mbit", " Mb/s"))


HEAD = """| job | ranks, links | setting | predicted ms | measured ms | error | null | judged |
| --- | --- | --- | ---: | ---: | ---: | ---: | --- |"""


def job_name(job):
    return f"{job.model} on {job.ranks} ranks at {rate_of(job)}"


def row_text(case):
    job = case.job
    head = f"| {job.model} | {job.ranks}, {rate_of(job)} | {case.strategy} | {case.predicted_us / 1e3:.1f} |"
    if not case.iterations_us:
        return f"{head} - | - | - | {'; '.join(case.reasons) or 'not run'} |"
    null = f"{100 * case.error(case.null_us):+.1f} %"
    return f"{head} {case.measured_us / 1e3:.1f} | {100 * case.error(case.predicted_us):+.1f} % | {null} | {'; '.join(case.reasons) or 'yes'} |"


def totals(cases):
    """Mean and worst error of what was judged, and whether the best predicted was the best measured."""
    lines = []
    judged = [case for case in cases if case.is_judged]
    for words, some in (("all", judged), ("DDP", [c for c in judged if not is_sharded(c)]), ("FSDP2", [c for c in judged if is_sharded(c)])):
        if some:
            errors, nulls = ([abs(c.error(us(c))) for c in some] for us in (lambda c: c.predicted_us, lambda c: c.null_us))
            lines.append(f"* judged, {words}: mean error {100 * statistics.mean(errors):.1f} %, worst {100 * max(errors):.1f} %, of "
                         f"{len(some)} cases (null: mean {100 * statistics.mean(nulls):.1f} %, worst {100 * max(nulls):.1f} %)")
    if judged:
        lines.append(bounds_text(judged))
    for job in dict.fromkeys(case.job for case in cases):
        for words, belongs in (("uncompressed DDP", is_plain_ddp), ("FSDP2", is_sharded)):
            some = [case for case in judged if case.job == job and belongs(case)]
            if len(some) < 2:
                continue
            best, fastest = min(some, key=lambda c: c.predicted_us), min(some, key=lambda c: c.measured_us)
            lines.append(f"* {job.model}, {job.ranks} ranks, {words}, {len(some)} judged: the best predicted, '{best.strategy}', is "
                         f"{100 * (best.measured_us / fastest.measured_us - 1):.1f} % slower than the best measured, '{fastest.strategy}'")
    return lines


def bounds_text(judged):
    """What the suite aims at, and which cases miss it."""
    missed = [f"{case.job.model}, {case.job.ranks} ranks, {case.strategy}" for case in judged if own_error(case) > MAX_ERROR]
    mean = statistics.mean(map(own_error, judged))
    return (f"* aims: mean error {'met' if mean <= MAX_MEAN_ERROR else 'MISSED'} ({100 * MAX_MEAN_ERROR:.0f} %); no error above "
            f"{100 * MAX_ERROR:.0f} % {'met' if not missed else 'MISSED by ' + '; '.join(missed)}")


def own_error(case):
    return abs(case.error(case.predicted_us))


def are_met(cases):
    errors = [own_error(case) for case in cases if case.is_judged]
    return bool(errors) and statistics.mean(errors) <= MAX_MEAN_ERROR and max(errors) <= MAX_ERROR


def is_sharded(case):
    return case.strategy.startswith("fsdp")


def is_plain_ddp(case):
    return case.strategy in ("ddp", "one", "none") or re.fullmatch(r"plan, \d+ buckets", case.strategy) is not None


class Budget:
    """Minutes that the suite may take: what may not end in time is not begun."""

    def __init__(self, minutes):
        self.end = time.monotonic() + 60 * minutes
        self.longest = {}

    def run(self, kind, function, *arguments):
        """Whether there was time for it."""
        if time.monotonic() + 1.3 * self.longest.get(kind, 0.0) > self.end:
            return False
        began = time.monotonic()
        function(*arguments)
        self.longest[kind] = max(self.longest.get(kind, 0.0), time.monotonic() - began)
        return True


def run_all(arguments, folder, done):
    """For each job: measures and predicts; runs the strategies; once more what was disturbed or failed, against the same
    predictions; then `fusewise torch`. `done` gets all cases and lines so far after each. Returns the cases, and what is missing, in words."""
    budget, cases, tuned, missing = Budget(arguments.minutes), [], [], []

    def in_time(what, kind, function, *own):
        is_run = budget.run(kind, function, *own)
        if not is_run:
            missing.append(f"no time for {what}")
        return is_run

    def add(run, case):
        if not in_time(f"{job_name(run.job)}, {case.strategy}", run.job, run.run, case):
            return
        cases.append(case)
        print(row_text(case), flush=True)
        done(cases, tuned)

    def tune(run):
        tuned.extend(run.tune())
        print("\n".join(tuned[-2:]), flush=True)
        done(cases, tuned)

    def all_of(run):
        if arguments.only != "tune":
            found = []
            if not in_time(f"measuring {job_name(run.job)}", "calibration", lambda: found.extend(run.calibrate())):
                return
            wanted = [case for case in found if case.strategy.startswith(tuple(arguments.only.split(",")))]
            for case in wanted:
                add(run, case)
            for case in wanted:
                if case.reasons and not run.disturbed:
                    add(run, dataclasses.replace(case))
        if arguments.only in ("", "tune"):
            in_time(f"fusewise torch on {job_name(run.job)}", "tuning", tune, run)
    for place in map(int, arguments.jobs.split(",")):
        try:
            with contextlib.closing(JobRun(arguments, JOBS[place], os.path.join(folder, str(place)))) as run:
                all_of(run)
        except Failed as failed:
            missing.append(f"{job_name(JOBS[place])}: {failed}")
    if not cases and not tuned:
        ddp_job.fail("nothing was measured")
    return cases, missing


MARK = "<!-- runs, the latest first -->"


def page_section(arguments, cases, tuned):
    import torch
    return "\n".join([f"## {arguments.began}", "", f"PyTorch {torch.__version__}, {len(os.sched_getaffinity(0))} processors, {arguments.steps} iterations "
                      f"of each or more. {arguments.note}".strip(), "", *([HEAD, *map(row_text, cases), "", *totals(cases), ""] if cases else []),
                      *(["`fusewise torch` on the same jobs:", "", TUNED_HEAD, *tuned, ""] if tuned else [])])


def write(path, text):
    """Whole or not at all."""
    temporary = pathlib.Path(str(path) + ".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def add_to_page(path, section):
    """Puts a run in front of the earlier ones."""
    page = path.read_text(encoding="utf-8") if path.exists() else ""
    head, _, rest = page.partition(MARK)
    write(path, f"{head}{MARK}\n\n{section}{rest}")


class Publication:
    """The page, and the run so far in a file beside it. The page changes only when the whole suite has run."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.page = pathlib.Path(arguments.output)
        self.partial = pathlib.Path(arguments.output + ".partial")

    def keep(self, cases, tuned):
        write(self.partial, page_section(self.arguments, cases, tuned))

    def finish(self, missing):
        if missing:
            print(f"suite.py: the run is incomplete and not added to {self.page}, but kept in {self.partial}", file=sys.stderr)
            return
        add_to_page(self.page, self.partial.read_text(encoding="utf-8"))
        self.partial.unlink()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("-o", "--output", help="add the run to this page, in front of earlier ones; until the whole suite has run it is in PAGE.partial")
    parser.add_argument("--keep", metavar="FOLDER", help="keep what was measured and predicted in this folder; predictions that are there already are not made anew")
    parser.add_argument("--jobs", default=",".join(map(str, range(len(JOBS)))), help="places in the list of jobs, as 0,3 (default: all)")
    parser.add_argument("--only", default="", help="strategies that are run, by the beginning of their names, as ddp,fsdp, or tune (default: all)")
    parser.add_argument("--steps", type=int, default=16, help="iterations that count (default: 16)")
    parser.add_argument("--minutes", type=float, default=1000, help="begin nothing that would end later than this")
    parser.add_argument("--note", default="", help="words about the circumstances, for the page")
    for hidden in ("--rank", "--ranks", "--keeper", "--descriptor"):
        parser.add_argument(hidden, type=int, help=argparse.SUPPRESS)
    for hidden in ("--model", "--predictions", "--tuned"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    words = sys.argv[1:]
    own, rest = (words[:words.index("--")], words[words.index("--") + 1:]) if "--" in words else (words, [])
    arguments = parser.parse_args(own)
    arguments.words = rest
    if arguments.rank is not None:
        return run_rank(arguments)
    if arguments.output and (arguments.only or arguments.jobs != parser.get_default("jobs")):
        parser.error("-o: expected the whole suite, as only whole runs are added to a page: leave out --jobs and --only")
    if arguments.output and os.path.exists(arguments.output) and MARK not in pathlib.Path(arguments.output).read_text(encoding="utf-8"):
        parser.error(f"-o: expected a page with the line '{MARK}', got {arguments.output}")
    arguments.program = os.path.abspath(arguments.program)
    arguments.began = time.strftime("%Y-%m-%d, %H:%M")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what is below is taken down
    publication = Publication(arguments) if arguments.output else None
    print(HEAD)
    with contextlib.ExitStack() as stack:
        folder = arguments.keep or stack.enter_context(tempfile.TemporaryDirectory())
        os.makedirs(folder, exist_ok=True)
        cases, missing = run_all(arguments, folder, publication.keep if publication else lambda *_: None)
        pathlib.Path(folder, "cases.json").write_text(json.dumps([dataclasses.asdict(case) for case in cases], indent=1))
    print("\n".join(["", *totals(cases)]))
    for each in missing:
        print(f"suite.py: {each}", file=sys.stderr)
    if publication:
        publication.finish(missing)
    sys.exit(1 if missing else 0 if are_met(cases) else 3)


if __name__ == "__main__":
    main()
