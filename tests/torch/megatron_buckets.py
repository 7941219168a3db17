#!/usr/bin/env python3
"""Asks Megatron-LM's DistributedDataParallel whether it does with an emission what the emission says.

usage: megatron_buckets.py DRIVER [--seeds N]      (megatron-core on a CPU)

DRIVER is emit_driver.cpp, compiled. Random chains of linear layers get random plans; the emitted options become those
of megatron-core, which trains them for two iterations in a group of 8 workers of which there is one. Its collectives
are recorded with their sizes, types, the number of gradients that had been ready before and the number of layers that
forward had run before, and compared with the emission's JSON. Streams, and so what waits for what on a GPU, cannot be
seen here. Exits with 1 at the first emission that does not hold, and names its seed.
"""

import argparse
import random
import sys
import warnings

from ddp_buckets import Driver, check

WORLD = 8
PADDING = 64 * WORLD  # elements that the distributed optimizer may add to a bucket, and its alignment to parameters


def case(seed):
    rng = random.Random(seed)
    widths = [rng.randint(1, 90) for _ in range(rng.randint(3, 9))]
    sizes = [4 * a * b for a, b in zip(widths, widths[1:])][::-1]
    counts = []
    while sum(counts) < len(sizes):
        counts.append(rng.randint(1, len(sizes) - sum(counts)))
    pipeline = rng.choice([{"pipeline": "wfbp"}, {"pipeline": "zero"}, {"pipeline": "zero", "overlap_gather": False}])
    return {"target": "megatron", "sizes": sizes, "groups": counts, "schedule": pipeline}, widths


class Recorder:
    """What is called, with the gradients and layers that were there before."""

    def __init__(self):
        self.events, self.ready, self.ran = [], 0, 0

    def wrap(self, module, name, label):
        import torch
        real = getattr(module, name)

        def call(*arguments, **options):
            tensors = [t for t in (*arguments, *options.values()) if isinstance(t, torch.Tensor)]
            whole = max(tensors, key=torch.Tensor.numel)
            self.events.append((label, whole.numel(), self.ready, self.ran))
            return real(*arguments, **options)

        setattr(module, name, call)

    def taken(self, label):
        return [event[1:] for event in self.events if event[0] == label]

    def clear(self):
        self.events, self.ready, self.ran = [], 0, 0


def prepared():
    import torch
    import torch.distributed as dist
    from torch.testing._internal.distributed.fake_pg import FakeStore
    torch.set_num_threads(1)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=WORLD)
    torch.cuda.current_device = lambda: torch.device("cpu")  # where its buffers are to lie
    from megatron.core import parallel_state
    from megatron.core.distributed import param_and_grad_buffer
    parallel_state.initialize_model_parallel(create_gloo_process_groups=False)
    recorder = Recorder()
    recorder.wrap(param_and_grad_buffer, "dist_reduce_scatter_func", "reduce_scatter")
    recorder.wrap(param_and_grad_buffer, "dist_all_gather_func", "all_gather")
    recorder.wrap(dist, "all_reduce", "all_reduce")
    return recorder


def option(text, name):
    words = text.split()
    return int(words[words.index(name) + 1])


def train(recorder, text, widths):
    """Runs two iterations under the options that the user pastes; the second is recorded."""
    import torch
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.transformer import TransformerConfig
    line = next(line for line in text.splitlines() if line.startswith("--"))
    shards, overlaps = "--use-distributed-optimizer" in line, "--overlap-param-gather" in line
    model = torch.nn.Sequential(*[torch.nn.Linear(a, b, bias=False) for a, b in zip(widths, widths[1:])])
    ddp = DistributedDataParallel(
        TransformerConfig(num_layers=1, hidden_size=8, num_attention_heads=1),
        DistributedDataParallelConfig(overlap_grad_reduce="--overlap-grad-reduce" in line, overlap_param_gather=overlaps,
                                      use_distributed_optimizer=shards, bucket_size=option(line, "--ddp-bucket-size")),
        model)

    def add(name):
        setattr(recorder, name, getattr(recorder, name) + 1)

    for module in model:
        module.register_forward_hook(lambda *_: add("ran"))
        module.weight.register_post_accumulate_grad_hook(lambda _: add("ready"))
    for _ in range(2):
        recorder.clear()
        ddp.zero_grad_buffer()
        ddp(torch.ones(1, widths[0])).sum().backward()
        ddp.finish_grad_sync()
        if shards and not overlaps:
            ddp.start_param_sync(force_sync=True)


def check_sizes(name, what, got, wanted, shards):
    """With the distributed optimizer a bucket is padded."""
    check(name, f"number of {what}", len(got), len(wanted))
    for size, planned in zip(got, wanted):
        if not planned["elements"] <= size <= planned["elements"] + (planned["tensors"] * 64 + PADDING if shards else 0):
            sys.exit(f"{name}: {what}: got {got}, expected about {wanted}")


def check_case(seed, recorder, emission):
    name = f"seed {seed}"
    wanted = [{"elements": group["bytes"] // 4, "tensors": group["tensors"]} for group in emission["groups"]]
    shards = "--use-distributed-optimizer" in emission["text"]
    ready = [sum(group["tensors"] for group in wanted[:i + 1]) for i in range(len(wanted))]
    kind, other = ("reduce_scatter", "all_reduce") if shards else ("all_reduce", "reduce_scatter")
    reduced = recorder.taken(kind)
    check_sizes(name, f"{kind}s", [event[0] for event in reduced], wanted, shards)
    check(name, "gradients that were ready", [event[1] for event in reduced], ready)
    check(name, f"{other}s", recorder.taken(other), [])
    gathered = recorder.taken("all_gather")
    if not shards:
        return check(name, "all-gathers", gathered, [])
    if "--overlap-param-gather" not in emission["text"]:
        return check_sizes(name, "all-gathers after the step", [event[0] for event in gathered], wanted, shards)
    forward = wanted[::-1]
    check_sizes(name, "all-gathers", [event[0] for event in gathered], forward, shards)
    come_to = [sum(group["tensors"] for group in forward[:i]) for i in range(len(forward))]
    check(name, "layers that had run", [event[2] for event in gathered], [0, *come_to[:-1]])


def check_experts():
    """One number decides the buckets of experts and of all others, each of their own parameters, last first. Backward comes
    to experts of 20, 20 and 20 elements, and to others of 15, 10, 30 and 10."""
    import torch
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.transformer import TransformerConfig
    model = torch.nn.ModuleList([torch.nn.Linear(5, n, bias=False) for n in (2, 4, 6, 4, 2, 4, 3)])
    for expert in (1, 3, 5):
        model[expert].weight.allreduce = False
    ddp = DistributedDataParallel(TransformerConfig(num_layers=1, hidden_size=8, num_attention_heads=1),
                                  DistributedDataParallelConfig(overlap_grad_reduce=True, bucket_size=25), model)
    for what, buffers, wanted in (("experts", ddp.expert_parallel_buffers, [40, 20]), ("others", ddp.buffers, [25, 30, 10])):
        buckets = [bucket for buffer in buffers for bucket in buffer.buckets]
        check("experts", f"elements in the buckets of {what}",
              [sum(p.numel() for p in bucket.params_list) for bucket in buckets], wanted)
    other = DistributedDataParallelConfig(overlap_grad_reduce=True)
    DistributedDataParallel(TransformerConfig(num_layers=1, hidden_size=8, num_attention_heads=1), other, model)
    check("experts", "the default", other.bucket_size, 40_000_000)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver")
    parser.add_argument("--seeds", type=int, default=60)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    driver, recorder = Driver(arguments.driver), prepared()
    import megatron.core
    check_experts()
    for seed in range(arguments.seeds):
        line, widths = case(seed)
        emission = driver.emit(line["sizes"], line["groups"], "megatron", line["schedule"])
        train(recorder, emission["text"], widths)
        check_case(seed, recorder, emission)
    print(f"{arguments.seeds} random models and plans: megatron-core {megatron.core.__version__} runs the collectives "
          "that each emission says, when it says")


if __name__ == "__main__":
    main()
