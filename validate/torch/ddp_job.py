#!/usr/bin/env python3
"""A DistributedDataParallel job over Gloo that none of our code runs, beside what `fusewise simulate` says of it.

usage: ddp_job.py PROGRAM [--workers 2] [--rate 1gbit] [--iterations 30] [--keep FOLDER]

PROGRAM is build/fusewise. Ranks are processes in network namespaces whose links are held to the rate, or on plain
loopback where there are none (and says so). In order: Gloo's all-reduce alone, at sizes that no bucket has, becomes a
network; fusewise.torch.Profiler, on all ranks at once, a profile; the prediction is written; only then the job
runs, with DDP's default buckets, with every tensor by itself and with one bucket for all. Prints one JSON object.
"""
import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import disturbance

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEADLINE_S = 150
MIB = 1024 * 1024
WARM_UP = 8  # the first iteration is not counted either: DDP makes its buckets anew in the second
# Bytes; between them straight lines.
CALIBRATION = [4096, 49152, 327680, 983040, 1572864, 3538944, 5767168, 11534336]
BESIDE = 983040  # one of them, beside which is computed
JOBS = {"ddp": "ddp", "wfbp": "wfbp", "one group": {"pipeline": "wfbp", "fusion": "all"}}


def fail(message):
    sys.exit(f"ddp_job.py: {message}")


# ---- a rank: enters its namespace before torch has threads


def enter(keeper, descriptor):
    libc = ctypes.CDLL(None, use_errno=True)
    for path, own in ((f"/proc/{keeper}/ns/user", "/proc/self/ns/user"), (f"/proc/{keeper}/fd/{descriptor}", None)):
        if own and os.stat(path).st_ino == os.stat(own).st_ino:
            continue
        file = os.open(path, os.O_RDONLY)
        if libc.setns(file, 0) != 0:
            fail(f"cannot enter {path}: {os.strerror(ctypes.get_errno())}")
        os.close(file)


def keep_to_share(rank, workers):
    """Gives each worker its share of the processors, as fusewise's own workers do."""
    processors = sorted(os.sched_getaffinity(0))
    shares = min(workers, len(processors))
    begin, end = (share * len(processors) // shares for share in (rank % shares, rank % shares + 1))
    os.sched_setaffinity(0, processors[begin:end])


def make_model():
    """About 7 MB of gradients, most of them in the layers that backward reaches first."""
    import torch
    from torch import nn
    torch.manual_seed(1)
    layers, channels = [], 3
    for width, stride in ((32, 1), (64, 2), (64, 1), (128, 2), (128, 1), (128, 1)):
        layers += [nn.Conv2d(channels, width, 3, padding=1, stride=stride), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(2048, 512), nn.ReLU(),
                         nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


class Training:
    BATCH = 8

    def __init__(self, model):
        import torch
        self.torch = torch
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.inputs = torch.randn(self.BATCH, 3, 64, 64)
        self.labels = torch.randint(0, 10, (self.BATCH,))

    def backward(self):
        self.torch.nn.functional.cross_entropy(self.model(self.inputs), self.labels).backward()

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


def slowest(values):
    """The greatest of all ranks, value by value: a collective ends when its last rank does."""
    import torch
    import torch.distributed as dist
    tensor = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return tensor.tolist()


def beside_all_reduces(training, compute_us, alone_us):
    """How much slower an iteration and an all-reduce are beside each other, by medians; collectives are as in DDP: under
    way while the caller computes, in Gloo's own threads."""
    import torch
    import torch.distributed as dist
    values = torch.zeros(BESIDE // 4)
    # for some ten iterations, twice as long as they take alone; the same on all ranks
    count = 2 + int(20 * compute_us / alone_us)
    beside, whole = [], []
    for _ in range(3):
        dist.barrier()
        began = time.perf_counter()
        works = [dist.all_reduce(values, async_op=True) for _ in range(count)]
        while True:
            iteration = time.perf_counter()
            training.backward()
            took = 1e6 * (time.perf_counter() - iteration)
            if works[-1].is_completed():
                break
            beside.append(took)
        for work in works:
            work.wait()
        whole.append(1e6 * (time.perf_counter() - began) / count)
        training.update()
    compute, communication = slowest([statistics.median(beside), statistics.median(whole)])
    return {"compute_slowdown": max(0.0, compute / compute_us - 1), "communication_slowdown": max(0.0, communication / alone_us - 1)}


def time_job_alone(job):
    """An iteration of the job in microseconds, with all that DDP itself does, and nothing sent."""
    import torch
    import torch.distributed as dist
    training = Training(wrap(make_model(), job))

    def send_nothing(_, bucket):
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    training.model.register_comm_hook(None, send_nothing)
    took = []
    for _ in range(15):
        dist.barrier()
        began = time.perf_counter()
        training.backward()
        took.append(1e6 * (time.perf_counter() - began))
        training.update()
    return statistics.median(slowest(took)[3:])


def calibrate(rank, folder):
    import torch
    import torch.distributed as dist
    sys.path.insert(0, str(ROOT / "python"))
    from fusewise.torch import Profiler
    curve = []
    for size in CALIBRATION:
        values, took = torch.ones(size // 4), []
        for _ in range(12):
            dist.barrier()
            began = time.perf_counter()
            dist.all_reduce(values)
            took.append(1e6 * (time.perf_counter() - began))
        curve.append([size, statistics.median(slowest(took)[2:])])
    training = Training(make_model())
    profiler = Profiler(training.model, batch_size=Training.BATCH, warmup=3)
    updates, bare = [], []
    for _ in range(15):  # on all ranks at once, as they compute in the job
        dist.barrier()
        with profiler.iteration():
            training.backward()
        began = time.perf_counter()
        training.update()
        updates.append(1e6 * (time.perf_counter() - began))
        began = time.perf_counter()
        training.backward()
        bare.append(1e6 * (time.perf_counter() - began))
        training.update()
    compute_us = statistics.median(slowest(bare)[3:])
    optimizer_us = statistics.median(slowest(updates)[3:])
    jobs_us = {job: time_job_alone(job) for job in JOBS}
    overlap = beside_all_reduces(training, compute_us, dict(curve)[BESIDE])
    if rank == 0:
        profile = profiler.profile("cnn")
        pathlib.Path(folder, "calibration.json").write_text(json.dumps(
            {"curve": curve, "profile": profile, "optimizer_us": optimizer_us, "overlap": overlap, "jobs_us": jobs_us}))


def wrap(model, job):
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel
    if job == "ddp":
        return DistributedDataParallel(model)
    cap = 1 if job == "wfbp" else 1 << 30
    dist._DEFAULT_FIRST_BUCKET_BYTES = cap
    return DistributedDataParallel(model, bucket_cap_mb=cap / MIB)


def run_job(rank, folder, job, iterations):
    import torch.distributed as dist
    training = Training(wrap(make_model(), job))
    ends = []
    for _ in range(WARM_UP + iterations + 1):
        training.backward()
        training.update()
        ends.append(time.monotonic())
    dist.barrier()
    if rank == 0:
        pathlib.Path(folder, f"{job}.json").write_text(json.dumps(ends[WARM_UP:]))


def run_rank(arguments):
    if arguments.keeper:
        enter(arguments.keeper, arguments.descriptor)
    keep_to_share(arguments.rank, arguments.workers)
    import torch
    import torch.distributed as dist
    import datetime
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0" if arguments.keeper else "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{arguments.store}", rank=arguments.rank,
                            world_size=arguments.workers, timeout=datetime.timedelta(seconds=30))
    if arguments.phase == "calibrate":
        calibrate(arguments.rank, arguments.folder)
    else:
        run_job(arguments.rank, arguments.folder, arguments.phase, arguments.iterations)
    dist.destroy_process_group()


# ---- the one that starts them


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Lab:
    """Namespaces of this run alone, found in a registry of its own; gone when this process is, however it ends, and so
    is the folder unless it is to be kept."""

    def __init__(self, program, folder, is_kept, workers, rate):
        environment = {**os.environ, "XDG_RUNTIME_DIR": folder}
        self.guard = subprocess.Popen(["/bin/sh", "-c", 'cat >/dev/null; "$0" netlab down >/dev/null; rm -rf "$@"', program,
                                       *([] if is_kept else [folder])],
                                      env=environment, stdin=subprocess.PIPE, start_new_session=True)
        answer = subprocess.run([program, "netlab", "up", "--workers", str(workers), "--rate", rate],
                                env=environment, capture_output=True, text=True, timeout=60)
        self.why_not = answer.stderr.strip() if answer.returncode != 0 else ""
        self.lab = None
        self.first_address = next(iter(re.findall(r"\d+\.\d+\.\d+\.\d+", answer.stdout)), "127.0.0.1")
        if not self.why_not:
            file, = pathlib.Path(folder, "fusewise").glob("*.json")
            self.lab = json.loads(file.read_text())

    def arguments(self, rank):
        return ["--keeper", str(self.lab["keeper"]), "--descriptor", str(self.lab["namespaces"][rank])] if self.lab else []

    def close(self):
        self.guard.communicate(timeout=60)


class Rank:
    """A process whose standard error is passed on as it comes, and the last line of it kept."""

    def __init__(self, words):
        self.process = subprocess.Popen(words, preexec_fn=die_with_parent, stdout=sys.stderr, stderr=subprocess.PIPE, text=True)
        self.said = "nothing"

    def listen(self):
        self.listener = threading.Thread(target=self.pass_on)
        self.listener.start()

    def pass_on(self):
        for line in self.process.stderr:
            print(line, end="", file=sys.stderr, flush=True)
            self.said = line.strip() or self.said

    def how(self):
        self.listener.join(timeout=5)
        return f"exit code {self.process.returncode}, said last: {self.said}"

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.listener.join()
        self.process.stderr.close()


def run_phase(arguments, lab, folder, phase, iterations=0):
    store = os.path.join(folder, f"store-{phase}")
    ranks = [Rank([sys.executable, __file__, arguments.program, "--rank", str(rank), "--phase", phase, "--store", store,
                   "--folder", folder, "--workers", str(arguments.workers), "--iterations", str(iterations),
                   *lab.arguments(rank)]) for rank in range(arguments.workers)]
    for rank in ranks:  # once all are forked
        rank.listen()
    watch = disturbance.Watch([rank.process.pid for rank in ranks])
    deadline = time.monotonic() + DEADLINE_S
    try:
        while True:
            codes = [rank.process.poll() for rank in ranks]
            failed = [f"rank {number}: {rank.how()}" for number, rank in enumerate(ranks) if codes[number] not in (None, 0)]
            if failed:
                fail(f"phase '{phase}': {'; '.join(failed)}")
            if None not in codes:
                return watch
            if time.monotonic() > deadline:
                fail(f"phase '{phase}' takes longer than {DEADLINE_S} s")
            time.sleep(0.1)
    finally:
        watch.stop()
        for rank in ranks:
            rank.end()


def straight_line(curve, workers):
    """Alpha and beta of a ring, from the greatest and the smallest size."""
    (small, low), (large, high) = curve[0], curve[-1]
    slope = (high - low) / (large - small)
    steps = 2 * (workers - 1)
    return {"alpha_us": max(0.0, low - slope * small) / steps, "beta_us_per_byte": slope * workers / steps}


def scaled(profile, iteration_us):
    """Hooks that time layers take time of their own, and so does DDP: an iteration takes what it takes without the ones
    and with the other."""
    scale = iteration_us / sum(layer["forward_us"] + layer["backward_us"] for layer in profile["layers"])
    layers = []
    for layer in profile["layers"]:
        tensors = [{**tensor, "backward_us": tensor["backward_us"] * scale} for tensor in layer["tensors"]]
        layers.append({**layer, "forward_us": layer["forward_us"] * scale, "backward_us": layer["backward_us"] * scale,
                       "tensors": tensors})
    return {**profile, "layers": layers}


def predict(program, folder, calibration, workers, network, job):
    scenario = pathlib.Path(folder, "scenario.json")
    scenario.write_text(json.dumps({
        "format": "fusewise.scenario", "version": 1, "name": "ddp over gloo",
        "profile": scaled(calibration["profile"], calibration["jobs_us"][job]), "workers": workers, "schedules": [JOBS[job]],
        "update": {"optimizer_us": calibration["optimizer_us"]}, "overlap": calibration["overlap"],
        "network": {"format": "fusewise.network", "version": 1, "name": "gloo",
                    "origin": {"kind": "measured", "source": "ddp_job.py"}, **network}}))
    answer = subprocess.run([program, "simulate", scenario, "--json"], capture_output=True, text=True, timeout=60)
    if answer.returncode != 0:
        fail(answer.stderr.strip())
    result, = json.loads(answer.stdout)["results"]
    return result["iteration_us"]


def measure(arguments, folder):
    lab = Lab(arguments.program, folder, bool(arguments.keep), arguments.workers, arguments.rate)
    try:
        where = f"network namespaces, links of {arguments.rate}" if lab.lab else f"plain loopback ({lab.why_not})"
        run_phase(arguments, lab, folder, "calibrate")
        calibration = json.loads(pathlib.Path(folder, "calibration.json").read_text())
        curve = {"measured": [{"collective": "all_reduce", "workers": arguments.workers, "curve": calibration["curve"]}]}
        line = {"link": straight_line(calibration["curve"], arguments.workers)}
        predicted, alpha_beta = ({job: predict(arguments.program, folder, calibration, arguments.workers, network, job)
                                  for job in JOBS} for network in (curve, line))
        pathlib.Path(folder, "predicted.json").write_text(json.dumps(predicted))
        cases = []
        for job in JOBS:
            watch = run_phase(arguments, lab, folder, job, disturbance.enough_iterations(predicted[job], arguments.iterations))
            ends = json.loads(pathlib.Path(folder, f"{job}.json").read_text())
            took = [1e6 * (after - before) for before, after in zip(ends, ends[1:])]
            cases.append({"name": job, "noise": disturbance.reasons(watch.elsewhere(ends[0], ends[-1]), took),
                          "predicted_us": predicted[job], "alpha_beta_us": alpha_beta[job], "iterations_us": took})
    finally:
        lab.close()
    import torch
    return {"model": "cnn", "workers": arguments.workers, "where": where,
            "versions": f"PyTorch {torch.__version__}, Gloo", "cases": cases}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--iterations", type=int, default=30, help="that count; more where they are too short to be judged")
    parser.add_argument("--keep", help="keep calibration, prediction and times in this folder")
    for hidden in ("--rank", "--keeper", "--descriptor"):
        parser.add_argument(hidden, type=int, help=argparse.SUPPRESS)
    for hidden in ("--phase", "--store", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank is not None:
        return run_rank(arguments)
    arguments.program = os.path.abspath(arguments.program)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that what is below is taken down
    with contextlib.ExitStack() as stack:
        folder = arguments.keep or stack.enter_context(tempfile.TemporaryDirectory())
        os.makedirs(folder, exist_ok=True)
        print(json.dumps(measure(arguments, os.path.abspath(folder))))


if __name__ == "__main__":
    main()
