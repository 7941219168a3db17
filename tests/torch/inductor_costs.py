#!/usr/bin/env python3
"""Compiles a model under the lines that `--emit inductor` writes, and looks at the collectives of its graphs. Runs
the function that they hold on nodes that PyTorch traces of functional collectives, and compares what it says with the
costs of a ring.

usage: inductor_costs.py DRIVER

DRIVER is emit_driver.cpp, compiled: 8 workers on a link of 50 us and 0.001 us for each byte. For PyTorch 2.13.
Exits with 1 at the first difference.
"""

import random
import re
import sys

import torch
import torch._dynamo
import torch._inductor.config
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.utils._runtime_estimation
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.distributed.fake_pg import FakeStore

from ddp_buckets import Driver

WORKERS, STARTUP_US, US_PER_BYTE = 8, 50, 0.001
TYPES = [torch.float32, torch.bfloat16]


def ring_ms(kind, whole_bytes, workers):
    steps = (workers - 1) * (2 if kind == "all_reduce" else 1)
    return steps * (STARTUP_US + whole_bytes / workers * US_PER_BYTE) / 1000


def traced(kind, elements, dtype, group):
    """The node of one collective in a graph of PyTorch's own."""
    call = {"all_reduce": lambda x: functional.all_reduce(x, "sum", group),
            "reduce_scatter": lambda x: functional.reduce_scatter_tensor(x, "sum", 0, group),
            "all_gather": lambda x: functional.all_gather_tensor(x, 0, group)}[kind]
    graph = make_fx(lambda x: functional.wait_tensor(call(x)), tracing_mode="fake")(torch.empty(elements, dtype=dtype))
    nodes = [node for node in graph.graph.nodes if "_c10d_functional" in str(node.target)]
    return nodes[0], graph.graph.nodes


def check(what, got, wanted):
    if got is None or abs(got - wanted) > 1e-9 * wanted:
        sys.exit(f"{what}: got {got}, expected {wanted}")


class Traced(nn.Module):
    """A layer that is sharded as SimpleFSDP does: its weight is gathered where it is used, and the compiler sees that."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width // WORKERS, width))

    def forward(self, x):
        return torch.relu(x @ functional.all_gather_tensor_autograd(self.weight, 0, dist.group.WORLD).t())


class Chain(nn.Module):
    def __init__(self, layers, width):
        super().__init__()
        self.layers = nn.Sequential(*[Traced(width) for _ in range(layers)])

    def forward(self, x):
        return self.layers(x)


def collectives(graph):
    """Kind and elements of each collective, whole, in the order of the graph; `wait` and its collective's number."""
    out, number = [], {}
    for node in graph.nodes:
        name = str(node.target)
        if "wait_tensor" in name or "wait_tensor" in str(node.args[:2]) and "control_deps" in name:
            arguments = node.args[2:] if "control_deps" in name else node.args  # that has what comes before it first
            start = next((n for n in arguments if n in number), None)
            if start is not None:
                out.append(("wait", number[start]))
        elif "_c10d_functional.all_gather" in name or "_c10d_functional.reduce_scatter" in name:
            kind = "all_gather" if "all_gather" in name else "reduce_scatter"
            whole = node.meta["val"].numel() * (1 if kind == "all_gather" else WORKERS)
            number[node] = len(number)
            out.append((kind, whole))
    return out


def compiled_graphs(model, width):
    """What TorchInductor does with the collectives of the forward and the backward graph."""
    seen, passes = [], torch._inductor.config.post_grad_custom_post_pass

    def look(graph):
        if passes is not None:
            passes(graph)
        seen.append(collectives(graph))

    torch._inductor.config.post_grad_custom_post_pass = look
    torch._dynamo.reset()
    torch.compile(model)(torch.ones(4, width)).sum().backward()
    torch._inductor.config.post_grad_custom_post_pass = passes
    return seen


def waited_one_later(kind, sizes):
    """Each is issued before the one before it is waited for."""
    out = []
    for number, size in enumerate(sizes):
        out.append((kind, size))
        if number > 0:
            out.append(("wait", number - 1))
    return out + [("wait", len(sizes) - 1)]


def check_buckets(driver):
    """The plan's groups, in the order and with the waits that are priced; and nothing of this without the lines."""
    width, counts = 16, [1, 2, 1]  # backward order
    names = [f"layers.{i}.weight" for i in reversed(range(4))]
    emission = driver.emit([4 * width * width] * 4, counts, "inductor", {"pipeline": "zero"}, names=names)
    plain = compiled_graphs(Chain(4, width), width)
    check_equal("collectives without the lines", [kind for kind, _ in plain[0]].count("all_gather"), 4)
    exec(emission["text"], {"__name__": __name__})
    sizes = [width * width * count for count in counts]
    forward, backward = compiled_graphs(Chain(4, width), width)
    check_equal("the forward graph", forward, waited_one_later("all_gather", sizes[::-1]))
    check_equal("the backward graph", backward, waited_one_later("reduce_scatter", sizes))
    check_micro_batches(counts)
    return emission


def check_micro_batches(counts):
    """Without zero_grad() each runs both graphs, and ends with a wait for its last reduce-scatter."""
    width = 16
    torch._dynamo.reset()
    model = torch.compile(Chain(4, width))
    model(torch.ones(4, width)).sum().backward()  # compiles
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(3):
            model(torch.ones(4, width)).sum().backward()
    kinds = ("all_gather", "reduce_scatter", "wait")
    events = sorted((event for event in profile.events() if event.name.startswith("_c10d_functional::")), key=lambda event: event.time_range.start)
    ran = [kind for event in events for kind in kinds if kind in event.name]
    one = [kind for each in kinds[:2] for kind, _ in waited_one_later(each, counts)]
    check_equal("collectives of three micro-batches", ran, 3 * one)


def check_estimates_are_asked(emission):
    """By the pass that is said to be off by default, once it is on."""
    from torch._inductor.fx_passes.overlap_scheduling import schedule_overlap_bucketing_from_inductor_configs
    options = torch._inductor.config.aten_distributed_optimizations
    check_equal("the pass that asks", options.enable_overlap_scheduling, False)
    exec("\n".join(re.findall(r"^#   (torch\._inductor.*)$", emission["text"], re.MULTILINE)), {"torch": torch})
    check_equal("the pass that asks", options.enable_overlap_scheduling, True)
    check_equal("bucket()", torch._inductor.config.post_grad_custom_post_pass, None)
    asked, real = [], options.custom_runtime_estimation
    options.custom_runtime_estimation = lambda *arguments: (asked.append(real(*arguments)), asked[-1])[1]
    options.compute_estimator = "analytical"  # there is no GPU to measure on
    compiled_graphs(Chain(2, 16), 16)
    options.custom_runtime_estimation, options.enable_overlap_scheduling = real, False
    check_equal("estimates were asked for", any(ms is not None for ms in asked), True)


def check_fully_shard_is_not_traced():
    from torch.distributed.fsdp import fully_shard
    model, seen = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), []
    for part in (*model, model):
        fully_shard(part)

    def backend(module, _):
        seen.append([node for node in module.graph.nodes if "c10d" in str(node.target)])
        return module.forward

    torch._dynamo.reset()
    torch.compile(model, backend=aot_autograd(fw_compiler=backend, bw_compiler=backend))(torch.ones(4, 8)).sum().backward()
    check_equal("collectives of fully_shard() in a graph", [node for nodes in seen for node in nodes], [])


def check_equal(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: got {got}, expected {wanted}")


def main():
    driver = Driver(sys.argv[1])
    for name in ("get_gpu_dram_gbps", "get_device_tflops"):  # there is no GPU to ask
        setattr(torch.utils._runtime_estimation, name, lambda *_: 1000.0)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=WORKERS)
    emission = check_buckets(driver)
    check_estimates_are_asked(emission)
    check_fully_shard_is_not_traced()
    emission = driver.emit([4000, 8000], [1, 1], "inductor", {"pipeline": "sharded", "shard_workers": 4})
    exec(emission["text"], {})
    runtime_ms = torch._inductor.config.aten_distributed_optimizations.custom_runtime_estimation
    groups = {WORKERS: dist.group.WORLD, 4: dist.new_group(range(4)), 2: dist.new_group([0, 4])}
    other = dist.new_group(range(3))
    from torch._inductor.fx_passes.overlap_scheduling import estimate_collective_time
    rng, compared = random.Random(1), 0
    for kind in ("all_reduce", "reduce_scatter", "all_gather"):
        for workers, group in groups.items():
            for _ in range(20):
                dtype, elements = rng.choice(TYPES), WORKERS * rng.randint(1, 2_000_000)
                node, nodes = traced(kind, elements, dtype, group)
                whole = elements * dtype.itemsize * (workers if kind == "all_gather" else 1)
                what = f"{kind} of {whole} bytes on {workers}"
                check(what, runtime_ms(node), ring_ms(kind, whole, workers))
                check(what + ", asked by the scheduler",
                      estimate_collective_time(node, None, runtime_ms), ring_ms(kind, whole, workers))
                check(what + ", without bytes", estimate_collective_time(node, 0, runtime_ms),
                      ring_ms(kind, 0, workers))
                if any(runtime_ms(each) is not None for each in nodes if each is not node):
                    sys.exit(f"{what}: something else than a collective was estimated")
                compared += 1
    if runtime_ms(traced("all_reduce", 80, torch.float32, other)[0]) is not None:
        sys.exit("a group of 3 workers, for which there is no curve, was estimated")
    dist.destroy_process_group()
    print(f"PyTorch {torch.__version__} compiles the buckets that are emitted")
    print(f"{compared} collectives that PyTorch {torch.__version__} traced: estimated as they cost")


if __name__ == "__main__":
    main()
