#!/usr/bin/env python3
"""Asks DeepSpeed whether it does with an emission what the emission says.

usage: deepspeed_buckets.py DRIVER [--seeds N]      (DeepSpeed on CPUs, two processes over Gloo)

DRIVER is emit_driver.cpp, compiled. Random chains of linear layers get random plans; the emitted configuration trains
them for an iteration of one or more micro-batches. Plans of stage 3 are for chains of blocks that are alike, each a
group. The collectives are recorded with their sizes and with the number of gradients that had been ready before, or of
blocks that had run, and compared with the emission's JSON. Streams, and so what waits for what on a GPU, cannot be seen
here. Exits with 1 at the first emission that does not hold, and names its seed.
"""

import os
import random

import two_ranks
from two_ranks import WORLD, check

DEADLINE_S = 280
PADDING = 64  # elements that DeepSpeed may add to the parameters before it divides them


def case_of_stage_three(rng):
    """Blocks of the same layers, so that a number of elements is a number of blocks."""
    width, blocks = 2 * rng.randint(1, 20), rng.randint(3, 7)
    widths = [width, *(2 * rng.randint(1, 20) for _ in range(rng.randint(0, 2))), width]
    sizes = [4 * a * b for a, b in zip(widths, widths[1:])][::-1]
    kept = rng.choice([{}, {"reshard_after_forward": False}, {"reshard_after_forward": True}, {"kept_groups": 2}])
    names = [f"{block}.{layer}.weight" for block in range(blocks) for layer in range(len(sizes))][::-1]
    return {"target": "deepspeed", "sizes": sizes * blocks, "names": names, "groups": [len(sizes)] * blocks, "widths": widths,
            "blocks": blocks, "schedule": {"pipeline": "sharded", "prefetch": rng.randint(0, 2), **kept},
            "accumulation_steps": rng.choice([1, 2])}


def case(seed):
    rng = random.Random(seed)
    if seed % 2:
        return case_of_stage_three(rng)
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
    def chain():
        return torch.nn.Sequential(*[torch.nn.Linear(a, b, bias=False) for a, b in zip(line["widths"], line["widths"][1:])])
    model = torch.nn.Sequential(*[chain() for _ in range(line["blocks"])]) if "blocks" in line else chain()
    config = {**space["ds_config"], "train_micro_batch_size_per_gpu": 1, "zero_allow_untested_optimizer": True,
              "gradient_accumulation_steps": line["accumulation_steps"]}
    engine, *_ = deepspeed.initialize(model=model, config=config, optimizer=torch.optim.SGD(model.parameters(), lr=0.1))

    def is_ready(_):
        ready[0] += 1

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(is_ready)
    if "blocks" in line:
        for block in model:
            block.register_forward_hook(lambda *_: events.append(["forward", 0, 0]))
    out = []
    for _ in range(4 if "blocks" in line else 2):  # stage 3 looks at two passes before it gathers ahead
        out = []
        for _ in range(line["accumulation_steps"]):
            events.clear()
            ready[0] = 0
            inputs = torch.ones(1, line["widths"][0], requires_grad="blocks" in line)  # as leaf modules need it
            engine.backward(engine(inputs).sum())
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


def check_stage_three(name, line, emission, passes):
    block, = {group["bytes"] // 4 for group in emission["groups"]}
    blocks, schedule = line["blocks"], line["schedule"]
    kept = schedule.get("kept_groups", {None: 1, True: 0, False: blocks}[schedule.get("reshard_after_forward")])
    ahead = min(schedule["prefetch"], 1)
    kept = max(kept, ahead)  # what forward used last is known to be used next
    for events in passes:
        gathers = [event[1] for event in events if event[0] == "all_gather_into_tensor"]
        check(name, "elements of each gather", gathers, [block] * (2 * blocks - kept))
        reduced = [event[1] for event in events if event[0] == "reduce_scatter_tensor"]
        check(name, "elements of each reduce-scatter", reduced, [block] * blocks)
        check(name, "collectives and passes", len(events), len(gathers) + len(reduced) + blocks)
        names = [event[0] for event in events]
        done = [names[:at].count("all_gather_into_tensor") for at, event in enumerate(names) if event == "forward"]
        check(name, "gathered when each block has run, up to the last but those ahead", done[:blocks - ahead],
              [number + 1 + ahead for number in range(blocks - ahead)])


def check_case(seed, line, emission, result):
    name = f"seed {seed}"
    if "blocks" in line:
        return check_stage_three(name, line, emission, result[:-1])
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
