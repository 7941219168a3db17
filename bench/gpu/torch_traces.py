#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training steps in PyTorch for bench/gpu/run.py: how long they take without a profiler, then the same steps traced by
torch.profiler and profiled by fusewise.torch. Files go into FOLDER, and one JSON line per job to stdout.

A job is MODEL:BATCH:PRECISION:MODE. In mode `eager` operators are launched one by one; in mode `graphed` forward and
backward are CUDA graphs (torch.cuda.make_graphed_callables); in mode `whole-graph` a step is one CUDA graph, which is
timed and not traced; in mode `ddp` two ranks share the GPU, and NCCL sums their gradients over sockets.
"""
import argparse
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "python"))
import torch_beside  # noqa: E402

JOBS = ["resnet50:64:float32:eager", "bert-base:64:bfloat16:eager", "gpt2:8:tf32:eager", "resnet50:1:float32:eager",
        "bert-base:1:bfloat16:eager", "gpt2:1:float32:eager", "bert-base:1:bfloat16:graphed", "resnet50:1:float32:graphed",
        "bert-base:1:bfloat16:whole-graph", "resnet50:1:float32:whole-graph", "bert-base:64:bfloat16:whole-graph",
        "gpt2:1:float32:whole-graph", "resnet50:32:float32:ddp"]
TRACED_STEPS = 6
# NCCL takes ranks on one GPU only where it believes that they are on different hosts, which talk over sockets
NCCL = {"NCCL_SOCKET_IFNAME": "lo", "NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1", "NCCL_NVLS_ENABLE": "0",
        "NCCL_MNNVL_ENABLE": "0", "NCCL_CUMEM_ENABLE": "0", "NCCL_MAX_CTAS": "2", "CUDA_MODULE_LOADING": "EAGER"}


class Job:
    def __init__(self, torch, text):
        self.name = text.replace(":", "-")
        model, batch, self.precision, self.mode = text.split(":")
        self.torch, self.batch = torch, int(batch)
        self.model_name = model
        is_tf32 = self.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = is_tf32
        torch.backends.cudnn.benchmark = True
        torch.manual_seed(1)
        dtype = torch.bfloat16 if self.precision == "bfloat16" else torch.float32
        self.model = torch_beside.definitions(torch)[model]().to("cuda", dtype)
        for module in self.model.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                module.float()
        self.inputs, self.labels = torch_beside.batch_of(torch, model, self.batch, "cuda", dtype, None)

    def optimize(self):
        is_whole = self.mode == "whole-graph"
        self.optimizer = self.torch.optim.SGD(self.model.parameters(), lr=1e-6, momentum=0.9)
        if self.mode == "graphed":
            self.model = self.torch.cuda.make_graphed_callables(self.model, (self.inputs, self.labels))
        if is_whole:
            self._capture()

    def _capture(self):
        torch = self.torch
        beside = torch.cuda.Stream()
        beside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(beside):
            for _ in range(3):
                self._eager_step()
        torch.cuda.current_stream().wait_stream(beside)
        self.graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self._eager_step()

    def _eager_step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.model(self.inputs, self.labels).backward()
        self.optimizer.step()

    def step(self):
        if self.mode == "whole-graph":
            self.graph.replay()
        else:
            self._eager_step()

    def measured_us(self, count=20):
        """The median step of a run without a profiler: the time between events that each step records at its begin."""
        torch = self.torch
        for _ in range(5):
            self.step()
        torch.cuda.synchronize()
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        for event in events[:-1]:
            event.record()
            self.step()
        events[-1].record()
        torch.cuda.synchronize()
        return [1e3 * a.elapsed_time(b) for a, b in zip(events, events[1:])]

    def trace(self, file):
        profiler = self.torch.profiler
        with profiler.profile(schedule=profiler.schedule(wait=1, warmup=3, active=TRACED_STEPS), record_shapes=True,
                              on_trace_ready=lambda done: done.export_chrome_trace(str(file))) as running:
            for _ in range(4 + TRACED_STEPS):
                self.step()
                running.step()
        self.torch.cuda.synchronize()

    def profile(self, file):
        """fusewise.torch's profile, by CUDA events."""
        from fusewise.torch import Profiler
        profiler = Profiler(self.model, self.batch, warmup=3)
        for _ in range(3 + 10):
            with profiler.iteration():
                self.model(self.inputs, self.labels).backward()
            self.optimizer.zero_grad(set_to_none=True)
        profiler.save(str(file), self.model_name)


def run(torch, text, folder):
    job = Job(torch, text)
    job.optimize()
    samples = job.measured_us()
    line = {"job": text, "step_us": statistics.median(samples), "spread_us": torch_beside.summary(samples)["spread_us"],
            "torch": torch.__version__}
    if job.mode != "whole-graph":
        job.trace(folder / f"{job.name}.trace.json.gz")
    if job.mode == "eager":
        job.profile(folder / f"{job.name}.events.profile.json")
    torch_beside.say(**line)


def run_rank(torch, text, folder, rank, port):
    import torch.distributed as dist
    dist.init_process_group("nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2,
                            device_id=torch.device("cuda", 0))
    job = Job(torch, text)
    job.model = torch.nn.parallel.DistributedDataParallel(job.model, device_ids=[0])
    job.optimize()
    samples = job.measured_us(10)
    job.trace(folder / f"{job.name}.rank{rank}.trace.json.gz")
    if rank == 0:
        torch_beside.say(job=text, step_us=statistics.median(samples),
                         spread_us=torch_beside.summary(samples)["spread_us"], torch=torch.__version__)
    dist.barrier()
    dist.destroy_process_group()


def run_ranks(text, folder, limit_s):
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        port = any_port.getsockname()[1]
    children = [subprocess.Popen([sys.executable, __file__, str(folder), "--jobs", text, "--rank", str(rank), "--port",
                                  str(port)], env={**os.environ, **NCCL, "NCCL_HOSTID": f"rank-{rank}"})
                for rank in range(2)]
    end = time.monotonic() + limit_s
    try:
        codes = [child.wait(max(0.1, end - time.monotonic())) for child in children]
        if any(codes):
            sys.exit(f"{text}: ranks ended with {codes}")
    except subprocess.TimeoutExpired:
        sys.exit(f"{text}: stopped after {limit_s} s")
    finally:
        for child in children:
            child.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--limit", type=float, default=60, help="seconds for ranks that share the GPU (default: 60)")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    try:
        import torch
    except ImportError:
        sys.exit("no PyTorch here")
    if not torch.cuda.is_available():
        sys.exit("no CUDA device: PyTorch sees none")
    failed = 0
    for text in options.jobs.split(","):
        try:
            if options.rank is not None:
                run_rank(torch, text, options.folder, options.rank, options.port)
            elif text.endswith(":ddp"):
                run_ranks(text, options.folder, options.limit)
            else:
                run(torch, text, options.folder)
        except (Exception, SystemExit) as error:  # the other jobs go on
            print(f"{text}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            failed += 1
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
