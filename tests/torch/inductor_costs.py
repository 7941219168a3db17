#!/usr/bin/env python3
"""Runs the function that `--emit inductor` writes on nodes that PyTorch traces of functional collectives, and
compares what it says with the costs of a ring.

usage: inductor_costs.py DRIVER

DRIVER is emit_driver.cpp, compiled: 8 workers on a link of 50 us and 0.001 us for each byte. For PyTorch 2.13.
Exits with 1 at the first difference.
"""

import random
import sys

import torch
import torch._inductor.config
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
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


def main():
    driver = Driver(sys.argv[1])
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=WORKERS)
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
    print(f"{compared} collectives that PyTorch {torch.__version__} traced: estimated as they cost")


if __name__ == "__main__":
    main()
