#!/usr/bin/env python3
"""Compares what a simulated worker holds with the tensors that PyTorch's FSDP2 and DDP hold.

usage: memory_test.py FUSEWISE [--seeds N]      (PyTorch 2.6 or later, two processes over Gloo)

Random chains of linear layers run on two ranks, sharded layer by layer or data-parallel. The bytes of parameters, of
optimizer states, of gathered parameters and of gradients are counted whenever a layer has run, and their largest values
compared with those of the memory timeline of `fusewise simulate`, whose network takes no time, as
every collective ends here before a layer does. Exits with 1 at the first case that differs, and names its seed.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import two_ranks
from two_ranks import WORLD, check

DEADLINE_S = 240
PARTS = ["parameters", "optimizer", "gathered", "gradients"]


def case(seed):
    """In every second job two ranks cannot share each tensor without padding."""
    rng = random.Random(seed)
    widths = [(1 + seed % 2) * rng.randint(1, 40) for _ in range(rng.randint(3, 7))]
    out = {"widths": widths, "biases": [rng.random() < 0.7 for _ in widths[1:]],
           "kind": rng.choice(["ddp", "fsdp", "fsdp", "fsdp"]), "optimizer": rng.choice(["sgd", "momentum", "adam"])}
    if out["kind"] == "fsdp":
        out |= {"prefetch": rng.randint(1, 3), "half": rng.random() < 0.5, "reshard": rng.choice([None, True, False]),
                "batches": rng.choice([1, 1, 2, 3])}
    # what is not trained has no shapes in a profile, and so no padding
    out["frozen"] = [rng.choice([None, "weight", "before", "behind"]) if seed % 4 == 1 else None for _ in widths_of(out)]
    return out


def widths_of(case):
    return list(zip(case["widths"], case["widths"][1:]))


def units_of(case):
    """Each is a layer, which may be behind or before another one that is not trained, or train its bias alone."""
    units = []
    for (a, b), bias, frozen in zip(widths_of(case), case["biases"], case["frozen"]):
        units.append([nn.Linear(a, b, bias=bias or frozen == "weight")])
        if frozen == "weight":
            units[-1][0].weight.requires_grad_(False)
        elif frozen:
            other = nn.Linear(a, a, bias=False) if frozen == "before" else nn.Linear(b, b, bias=False)
            units[-1].insert(0 if frozen == "before" else 1, other.requires_grad_(False))
    return units


# ---- what PyTorch holds


def bytes_of(tensors):
    """Of the storages, each counted once: the gradients of a group may be views of one."""
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages if storage.nbytes() > 0}.values())


def own(tensor):
    """The worker's part of a tensor."""
    return getattr(tensor, "_local_tensor", tensor)


def shard(model, case):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32) if case["half"] else \
        MixedPrecisionPolicy()
    for i, layer in enumerate(model):
        # the group that forward uses last is kept unless all are resharded
        reshards = case["reshard"] if case["reshard"] is not None else i + 1 < len(model)
        fully_shard(layer, reshard_after_forward=reshards, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    ahead = case["prefetch"]
    for i, layer in enumerate(model):
        layer.set_modules_to_forward_prefetch(list(model[i + 1:i + 1 + ahead]))
        layer.set_modules_to_backward_prefetch(list(model[max(i - ahead, 0):i])[::-1])
    return [layer._get_fsdp_state()._fsdp_param_group for layer in model]


def gathered_by(group):
    pending = [group._all_gather_result.all_gather_output] if group._all_gather_result is not None else []
    return pending + [p._unsharded_param for p in group.fsdp_params if hasattr(p, "_unsharded_param")]


def whole_gradients_of(group):
    grads = [p._unsharded_param.grad for p in group.fsdp_params if hasattr(p, "_unsharded_param")]
    return [grad for grad in grads + [p.unsharded_accumulated_grad for p in group.fsdp_params] if grad is not None]


def each_of(function, groups):
    return [tensor for group in groups for tensor in function(group)]


def run_case(case):
    model = nn.Sequential(*[nn.Sequential(*unit) for unit in units_of(case)])
    linear = [layer for unit in model for layer in unit]
    groups = shard(model, case) if case["kind"] == "fsdp" else []
    job = DistributedDataParallel(model) if case["kind"] == "ddp" else model
    parameters = list(job.parameters())
    trained = [p for p in parameters if p.requires_grad]
    optimizer = torch.optim.Adam(trained) if case["optimizer"] == "adam" else \
        torch.optim.SGD(trained, lr=0.1, momentum=0.9 if case["optimizer"] == "momentum" else 0)
    most = dict.fromkeys(PARTS, 0)

    def count(*_):
        states = [t for state in optimizer.state.values() for t in state.values() if torch.is_tensor(t) and t.dim() > 0]
        now = {"parameters": bytes_of([own(p.data) for p in parameters]),
               "optimizer": bytes_of([own(t) for t in states]),
               "gathered": bytes_of(each_of(gathered_by, groups)),
               "gradients": bytes_of([own(p.grad) for p in parameters if p.grad is not None] +
                                     each_of(whole_gradients_of, groups))}
        for part in PARTS:
            most[part] = max(most[part], now[part])

    for group in groups:  # each adds up or sends what a backward pass has left
        group.post_backward = lambda *inputs, own=group.post_backward: (count(), own(*inputs))[1]
    for layer in linear:
        layer.register_forward_hook(count)
        layer.register_full_backward_hook(count)
    for _ in range(3):
        for batch in range(batches := case.get("batches", 1)):
            if groups:
                model.set_requires_gradient_sync(batch + 1 == batches)
            y = job(torch.ones(2, case["widths"][0], requires_grad=True))
            y.sum().backward()
            count()
        optimizer.step()
        optimizer.zero_grad()
    return most


def run_rank(rank, folder):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    with open(os.path.join(folder, "cases.json")) as file:
        cases = json.load(file)
    dist.init_process_group("gloo", init_method=f"file://{os.path.join(folder, 'store')}", rank=rank, world_size=WORLD)
    results = [run_case(each) for each, _ in cases]
    dist.destroy_process_group()
    if rank == 0:
        with open(os.path.join(folder, "answer.json"), "w") as file:
            json.dump(results, file)
    two_ranks.end_rank()


# ---- what fusewise says


def layer_of(name, layer):
    frozen = sum(p.numel() for p in layer.parameters() if not p.requires_grad)
    return {"name": name, "kind": "linear", "forward_us": 1000, "backward_us": 2000,
            "tensors": [{"name": f"{name}.{own}", "elements": p.numel(), "shape": list(p.shape)}
                        for own, p in layer.named_parameters() if p.requires_grad],
            **({"frozen_elements": frozen} if frozen else {})}


def scenario(case):
    layers = [layer_of(f"{i}.{j}", layer) for i, unit in enumerate(units_of(case)) for j, layer in enumerate(unit)]
    out = {"format": "fusewise.scenario", "version": 1, "workers": 2, "iterations": 3, "update": {"optimizer_us": 1},
           "profile": {"format": "fusewise.profile", "version": 1, "model": "chain", "batch_size": 2,
                       "dtype": "float32", "device": "cpu", "layers": layers,
                       "origin": {"kind": "estimated", "source": "shapes"}},
           "network": {"format": "fusewise.network", "version": 1, "name": "instant",
                       "origin": {"kind": "estimated", "source": "no time"},
                       "link": {"alpha_us": 0, "beta_us_per_byte": 0}},
           "memory": {"optimizer": case["optimizer"]}, "schedules": ["ddp"]}
    if case["kind"] == "fsdp":
        schedule = {"pipeline": "sharded", "fusion": {"kind": "layers", "count": 1}, "prefetch": case["prefetch"],
                    "pad_tensors": True}
        if case["reshard"] is not None:
            schedule["reshard_after_forward"] = case["reshard"]
        out["schedules"] = [schedule]
        out["accumulation_steps"] = case["batches"]
        if case["half"]:
            out["data_types"] = {"gather": "bfloat16", "gradients": "bfloat16"}
    return out


def simulated(fusewise, case):
    with tempfile.TemporaryDirectory() as folder:
        path, timeline = os.path.join(folder, "s.json"), os.path.join(folder, "t.json")
        with open(path, "w") as file:
            json.dump(scenario(case), file)
        subprocess.run([fusewise, "simulate", path, "--timeline", timeline], check=True, timeout=60,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(timeline) as file:
            events = json.load(file)
    events = events["traceEvents"] if isinstance(events, dict) else events
    counters = [event["args"] for event in events if event["ph"] == "C"]
    return {part: max(counter[part] for counter in counters) for part in PARTS}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fusewise", nargs="?")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--folder")
    arguments = parser.parse_args()
    if arguments.rank is not None:
        run_rank(arguments.rank, arguments.folder)
    if arguments.fusewise is None:
        parser.error("expected the program")
    cases = [case(seed) for seed in range(arguments.seeds)]
    held = two_ranks.answer_of_ranks(cases, cases, DEADLINE_S)
    for seed, (each, most) in enumerate(zip(cases, held, strict=True)):
        check(f"seed {seed} ({each['kind']})", "largest bytes held", simulated(arguments.fusewise, each), most)
    print(f"{len(cases)} random jobs on two ranks hold the parameters, optimizer states, gathered parameters and "
          f"gradients that fusewise says, to the byte (PyTorch {torch.__version__})")


if __name__ == "__main__":
    main()
