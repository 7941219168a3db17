#!/usr/bin/env python3
"""Asks DeepSpeed whether it does with an emission what the emission says.

usage: deepspeed_buckets.py DRIVER [--seeds N]      (DeepSpeed on CPUs, two processes over Gloo)

DRIVER is emit_driver.cpp, compiled. Random chains of linear layers get random plans; the emitted configuration trains
them for an iteration of one or more micro-batches. The collectives are recorded with their sizes and with the number
of gradients that had been ready before, and compared with the emission's JSON. Streams, and so what waits for what on
a GPU, cannot be seen here. Exits with 1 at the first emission that does not hold, and names its seed.
"""

import os
import random

import two_ranks
from two_ranks import WORLD, check

DEADLINE_S = 280
PADDING = 64  # elements that DeepSpeed may add to the parameters before it divides them


def case(seed):
    rng = random.Random(seed)
    widths = [rng.randint(1, 40) for _ in range(rng.randint(3, 9))]
    sizes = [4 * a * b for a, b in zip(widths, widths[1:])][::-1]
    counts = []
    while sum(counts) < len(sizes):
        counts.append(rng.randint(1, len(sizes) - sum(counts)))
    return {"target": "deepspeed", "sizes": sizes, "groups": counts, "widths": widths,
            "schedule": rng.choice(["zero", "zero2", "wfbp"]), "accumulation_steps": rng.choice([1, 3])}


# ---- the ranks


def record(events, ready):
    import torch
    import torch.distributed as dist

    def wrap(name):
        real = getattr(dist, name)

        def call(*tensors, **options):
            sizes = [t.numel() for t in (*tensors, *options.values()) if isinstance(t, torch.Tensor)]
            events.append([name, max(sizes), ready[0]])
            return real(*tensors, **options)

        setattr(dist, name, call)

    for name in ("all_reduce", "reduce", "reduce_scatter_tensor", "all_gather_into_tensor", "all_gather"):
        wrap(name)


def train(line, emission, events, ready):
    """The events of each backward pass and of the step, in a second iteration."""
    import deepspeed
    import torch
    space = {}
    exec(emission["text"], space)  # what the user pastes
    model = torch.nn.Sequential(*[torch.nn.Linear(a, b, bias=False) for a, b in zip(line["widths"], line["widths"][1:])])
    config = {**space["ds_config"], "train_micro_batch_size_per_gpu": 1, "zero_allow_untested_optimizer": True,
              "gradient_accumulation_steps": line["accumulation_steps"]}
    engine, *_ = deepspeed.initialize(model=model, config=config, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))

    def is_ready(_):
        ready[0] += 1

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(is_ready)
    out = []
    for _ in range(2):
        out = []
        for _ in range(line["accumulation_steps"]):
            events.clear()
            ready[0] = 0
            engine.backward(engine(torch.ones(1, line["widths"][0])).sum())
            out.append(list(events))
            events.clear()
            engine.step()
        out.append(list(events))
    return out


def results_on_rank(rank, store, cases):
    os.environ.update(DS_ACCELERATOR="cpu", RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD))
    import deepspeed
    import torch
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    events, ready = [], [0]
    record(events, ready)  # before DeepSpeed looks which collectives there are
    deepspeed.ops.__compatible_ops__ = {}  # otherwise it compiles an extension for shared memory first, which takes minutes
    deepspeed.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)
    results = [train(line, emission, events, ready) for line, emission in cases]
    torch.distributed.destroy_process_group()
    return deepspeed.__version__, results


# ---- what the emission says


def check_case(seed, line, emission, result):
    name = f"seed {seed}"
    *passes, step = result
    ready, reduced = 0, []
    for group in emission["groups"]:  # issued in the hook of the next gradient, before that one counts
        ready += group["tensors"]
        reduced.append(["all_reduce", group["bytes"] // 4, ready])
    earlier = reduced if '"stage": 2,' in emission["text"] else []
    for events in passes[:-1]:
        check(name, "collectives of a micro-batch before the last", events, earlier)
    check(name, "collectives of the last micro-batch", passes[-1], reduced)
    large = [event for event in step if event[1] > 1]  # the others are for the norm
    elements = sum(line["sizes"]) // 4
    check(name, "collectives after the step", [event[0] for event in large], ["all_gather_into_tensor"])
    check(name, "the size of the all-gather", elements <= large[0][1] < elements + PADDING, True)


def main():
    emissions, release = two_ranks.run(__doc__, 10, DEADLINE_S, case, results_on_rank, check_case)
    print(f"{len(emissions)} random models and plans: DeepSpeed {release} runs the collectives that each emission says, "
          "when it says")


if __name__ == "__main__":
    main()
