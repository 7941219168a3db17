#!/usr/bin/env python3
"""Asks PyTorch's FSDP2 whether it does with an emission what the emission says.

usage: fsdp_groups.py DRIVER [--seeds N]      (PyTorch 2.6 or later, two processes over Gloo)

DRIVER is emit_driver.cpp, compiled. Random chains of linear layers, nested at random, get random plans; the emitted
text is executed on two ranks. Some models use the weight of their embedding in their head, too, some have layers that
are not trained, and some parameters that other modules use than those that own them, as the package's profiler finds
out. The collectives of an iteration are recorded with their sizes and types, and with the number of layers that had run
when each was issued, and compared with the emission's JSON. Exits with 1 at the first emission that does not hold, and
names its seed.
"""

import copy
import pathlib
import random
import sys

import torch
import torch.distributed as dist
from torch import nn

import two_ranks
from two_ranks import WORLD, check

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "python"))
from fusewise.torch import Profiler  # noqa: E402

DEADLINE_S = 240


def chain(rng, multiple=2):
    """A nested nn.Sequential. Even widths: two ranks share every tensor without padding."""
    def nested(layers, depth):
        if depth == 0 or len(layers) < 2 or rng.random() < 0.3:
            return layers
        out = []
        while layers:
            count = rng.randint(1, min(4, len(layers)))
            part, layers = layers[:count], layers[count:]
            out += [nn.Sequential(*nested(part, depth - 1))] if count > 1 else part
        return out

    widths = [multiple * rng.randint(1, 40) for _ in range(rng.randint(3, 12))]
    layers = [nn.Linear(a, b, bias=rng.random() < 0.7) for a, b in zip(widths, widths[1:])]
    return nn.Sequential(*nested(layers, 2)), widths[0]


class Scaled(nn.Module):
    """The model itself owns a parameter, which it uses first."""

    def __init__(self, body, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.body = body

    def forward(self, x):
        return self.body(x * self.scale)


class Tied(nn.Module):
    """A language model: the head has the embedding's weight."""

    def __init__(self, body, width):
        super().__init__()
        self.wte = nn.Embedding(10, width)
        self.body = body
        self.out = nn.Linear([m for m in body.modules() if isinstance(m, nn.Linear)][-1].out_features, width)
        self.head = nn.Linear(width, 10, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, x):
        return self.head(self.out(self.body(self.wte(x))))


class Functional(nn.Module):
    """Computes with the weight of a module that it never calls, and with one that it calls, too."""

    def __init__(self, width):
        super().__init__()
        self.never, self.twice, self.called = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        x = nn.functional.linear(x, self.never.weight, self.never.bias)
        return self.called(nn.functional.linear(self.twice(x), self.twice.weight))


class Divided(nn.Module):
    """Its own parameters get their gradients before and after those of the module inside it."""

    def __init__(self, width):
        super().__init__()
        self.g1, self.g2 = (nn.Parameter(torch.ones(width)) for _ in range(2))
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return self.inner(x * self.g1) * self.g2


class Around(nn.Module):
    """Has parameters and modules of its own, and a list that nobody calls."""

    def __init__(self, width):
        super().__init__()
        self.gain = nn.ParameterDict({"in": nn.Parameter(torch.ones(width))})
        self.first = nn.Linear(width, width)
        self.list = nn.Sequential(*(nn.Linear(width, width) for _ in range(2)))

    def forward(self, x):
        x = self.first(x * self.gain["in"])
        for layer in self.list:
            x = layer(x)
        return x


class Parts(nn.Module):
    """Has a list of parameters itself."""

    def __init__(self, parts, width):
        super().__init__()
        self.positions = nn.ParameterList([nn.Parameter(torch.ones(width)) for _ in range(2)])
        self.parts = nn.Sequential(*parts)

    def forward(self, x):
        return self.parts(x + self.positions[0] + self.positions[1])


def has_users(seed):
    return seed % 3 == 2


def random_parts(rng):
    width = 2 * rng.randint(2, 20)
    kinds = [lambda width: nn.Linear(width, width), Functional, Divided, Around]
    return Parts([rng.choice(kinds)(width) for _ in range(rng.randint(2, 4))], width), torch.ones(2, width)


def random_model(rng, seed):
    """And its input."""
    torch.manual_seed(rng.randrange(1000))
    if has_users(seed):
        return random_parts(rng)
    model, width = chain(rng)
    if rng.random() < 0.3:
        return Tied(model, width), torch.tensor([[1, 2], [3, 1]])
    if has_frozen(seed):
        for layer in linear_layers(model)[1:]:
            layer.requires_grad_(rng.random() < 0.5)
    return (Scaled(model, width) if rng.random() < 0.4 else model), torch.ones(2, width)


def has_frozen(seed):
    return seed % 6 == 1


def linear_layers(model):
    return [module for module in model.modules() if isinstance(module, nn.Linear)]


def frozen_modules(model):
    """Each with the number of trained parameters before it and that of its own."""
    out, trained = [], 0
    for name, module in model.named_modules():
        own = list(module.parameters(recurse=False))
        trained += sum(p.requires_grad for p in own)
        if own and not own[0].requires_grad:
            out.append([trained, name, sum(p.numel() for p in own)])
    return {"frozen": out} if out else {}


def random_counts(rng, names):
    """Groups of neighbours in backward order; most do not cut a layer."""
    cuts_layers = rng.random() < 0.3
    counts, left = [], 0
    for i, name in enumerate(names):
        if left == 0 and (cuts_layers or i == 0 or name.rpartition(".")[0] != names[i - 1].rpartition(".")[0]):
            left = rng.choice([1, 2, 5])
            counts.append(0)
        counts[-1] += 1
        left = max(0, left - 1)
    return counts


def profiled(model, x):
    profiler = Profiler(model, batch_size=1, warmup=0, alternates=False)
    with profiler.iteration():
        model(x).sum().backward()
    return profiler.profile()


def case(seed):
    """The model is made of the same seed in the ranks."""
    rng = random.Random(seed)
    model, x = random_model(rng, seed)
    parameters = [(name, p) for name, p in reversed(list(model.named_parameters())) if p.requires_grad]
    modules = {}
    if has_users(seed):
        profile = profiled(model, x)
        by_name = dict(parameters)
        parameters = [(t["name"], by_name[t["name"]]) for layer in reversed(profile["layers"]) for t in reversed(layer["tensors"])]
        modules = {"modules": [layer["module"] for layer in reversed(profile["layers"]) for _ in layer["tensors"]]}
    dtype = rng.choice(["float32", "bfloat16"])
    size = 4 if dtype == "float32" else 2
    schedule = {"pipeline": rng.choice(["zero", "sharded", "sharded"])}
    if schedule["pipeline"] == "sharded":
        schedule["prefetch"] = rng.randint(0, 3)
        if rng.random() < 0.5:
            schedule["reshard_after_forward"] = rng.random() < 0.5
        elif rng.random() < 0.5:
            schedule["kept_groups"] = rng.randint(0, 3)
        if rng.random() < 0.3:
            schedule["reshard_after_backward"] = False
        backward = random.Random(10_000 + seed)
        if backward.random() < 0.3:
            schedule["backward_prefetch"] = backward.randint(1, 3)
    head = {"head": "head"} if isinstance(model, Tied) else {}
    return {**head, **modules, **frozen_modules(model), "target": "fsdp", "dtype": dtype, "schedule": schedule, "accumulation_steps": rng.choice([1, 2, 3]),
            "sizes": [size * p.numel() for _, p in parameters], "names": [n for n, _ in parameters],
            "groups": random_counts(rng, [n for n, _ in parameters])}


# ---- the ranks


class Recorder:
    """Wraps what FSDP calls, whatever it is called in this release."""

    def __init__(self):
        self.events, self.layers = [], 0
        self.wrap("all_gather", ("all_gather_single", "all_gather_into_tensor"))
        self.wrap("reduce_scatter", ("reduce_scatter_single", "reduce_scatter_tensor"))
        self.wrap("all_reduce", ("all_reduce",))

    def wrap(self, kind, names):
        name = next(name for name in names if hasattr(dist, name))
        real = getattr(dist, name)

        def call(*tensors, **options):
            whole = [t for t in (*tensors, *options.values()) if isinstance(t, torch.Tensor)]
            whole = max(whole, key=torch.Tensor.numel)
            self.add(kind, whole, [t for t in (*tensors, *options.values()) if isinstance(t, dist.ProcessGroup)])
            return real(*tensors, **options)

        setattr(dist, name, call)

    def add(self, kind, whole, groups):
        self.events.append([kind, whole.numel(), str(whole.dtype).removeprefix("torch."), self.layers])

    def watch(self, model):
        def ran(*_):
            self.layers += 1

        for module in model.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                module.register_forward_hook(ran)

    def take(self):
        out, self.events, self.layers = self.events, [], 0
        return out


def check_gradients(name, model, reference, micro_batches, x):
    """Both ranks have the same input, so the mean over them is what one has alone."""
    for _ in range(micro_batches):
        reference(x).sum().backward()
    for (parameter, sharded), whole in zip(model.named_parameters(), reference.parameters(), strict=True):
        if whole.requires_grad:
            same = torch.allclose(sharded.grad.full_tensor(), whole.grad, rtol=1e-4, atol=1e-5)
            check(name, f"gradient of {parameter} is that of one rank", same, True)


def run_case(number, emission, recorder):
    """The collectives of the forward and the backward pass of each micro-batch, in a second iteration."""
    model, x = random_model(random.Random(number), number)
    reference = copy.deepcopy(model)
    recorder.watch(model)
    space = {"model": model}
    exec(emission["text"], space)  # what the user pastes
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    out = []
    for iteration in range(2):
        out = []
        optimizer.zero_grad()
        for batch in range(emission["micro_batches"]):
            if emission["micro_batches"] > 1:
                space["begin_micro_batch"](model, batch)
            y = model(x)
            forward = recorder.take()
            y.sum().backward()
            out.append([forward, recorder.take()])
        if iteration == 0 and "mp_policy" not in emission["text"]:
            check_gradients(f"seed {number}", model, reference, emission["micro_batches"], x)
        optimizer.step()
        check(f"seed {number}", "collectives of the step", recorder.take(), [])
    return out


def check_checkpointed(recorder):
    """With a checkpoint around each block, FSDP2 gathers a block once for backward, one ahead, and computes it again before its
    gradients are reduced; of two layers only the first, as nothing needs the output of the second."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.distributed.fsdp import fully_shard
    model = nn.Sequential(*[checkpoint_wrapper(nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 4))) for _ in range(3)])
    recorder.watch(model)
    for block in model:
        fully_shard(block)
    fully_shard(model)
    y = model(torch.ones(2, 4, requires_grad=True))
    check("checkpointed", "layers in forward", [e[3] for e in recorder.take()], [0, 2, 4])
    y.sum().backward()
    check("checkpointed", "collectives in backward, and layers before each", [(e[0], e[3]) for e in recorder.take()],
          [("all_gather", 0), ("all_gather", 0), ("reduce_scatter", 1), ("all_gather", 1), ("reduce_scatter", 2), ("reduce_scatter", 3)])


def check_scalar():
    from torch.distributed.fsdp import fully_shard
    model = nn.Linear(2, 2)
    model.scale = nn.Parameter(torch.tensor(1.0))
    try:
        fully_shard(model)
    except ValueError as error:
        check("a parameter without a dimension", "the error", "scalar parameters" in str(error), True)
    else:
        sys.exit("a parameter without a dimension was taken")


def results_on_rank(rank, store, cases):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    recorder = Recorder()
    check_checkpointed(recorder)
    check_scalar()
    results = [run_case(seed, emission, recorder) for seed, (_, emission) in enumerate(cases)]
    dist.destroy_process_group()
    return torch.__version__, results


# ---- what the emission says


def layers_before(model, elements_forward):
    """For each group, in forward order, the number of layers that end before its first layer runs."""
    ends, total, counted = [], 0, set()
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            new = set(module.parameters()) - counted  # a tied layer has been counted
            counted |= new
            total += sum(p.numel() for p in new)
            ends.append(total)
    out, begin = [], 0
    for elements in elements_forward:
        out.append(sum(end <= begin for end in ends))
        begin += elements
    return out


def check_case(seed, line, emission, result):
    keeps = line["accumulation_steps"] > 1 and (line["schedule"]["pipeline"] == "zero" or
                                                not line["schedule"].get("reshard_after_backward", True))
    check(f"seed {seed}", "kept between micro-batches", emission["kept_between_micro_batches"], keeps)
    check(f"seed {seed}", "micro-batches", len(result), line["accumulation_steps"])
    for batch, passes in enumerate(result):
        check_micro_batch(seed, line, emission, passes, is_kept=keeps and batch > 0, is_last=batch == len(result) - 1)


def check_micro_batch(seed, line, emission, result, is_kept, is_last):
    name = f"seed {seed}"
    size = 4 if line["dtype"] == "float32" else 2
    trained = [group["bytes"] // size for group in emission["groups"]]  # in backward order
    elements = [n + group.get("frozen_bytes", 0) // size for n, group in zip(trained, emission["groups"])]
    reshards = dict(enumerate(emission["reshards"]))
    forward, backward = result
    in_forward = list(reversed(elements))
    check(name, "types", {event[2] for event in forward + backward} - {line["dtype"]}, set())
    if "modules" in line:
        # a module with others inside it is gathered when it is called, which need not be when it uses what it owns
        again = [n for group, n in enumerate(elements) if reshards[group]]
        for what, got, wanted in (("all-gathers before forward", [e[1] for e in forward], [] if is_kept else elements),
                                  ("all-gathers before backward", [e[1] for e in backward if e[0] == "all_gather"], again),
                                  ("reduce-scatters", [e[1] for e in backward if e[0] == "reduce_scatter"], elements if is_last else [])):
            check(name, what, sorted(got), sorted(wanted))
        return
    check(name, "all-gathers before forward", [e[:2] for e in forward],
          [] if is_kept else [["all_gather", n] for n in in_forward])
    check(name, "reduce-scatters", [e[1] for e in backward if e[0] == "reduce_scatter"], trained if is_last else [])
    again = [n for group, n in enumerate(elements) if reshards[group]]
    if [""] in emission["fully_shard"] and reshards[len(elements) - 1]:
        # backward comes to the output of the model when it comes to that of the last layer, whose group has asked for those ahead
        again.insert(sum(reshards[group] for group in range(min(len(elements) - 1, 1 + emission["backward_prefetch"]))), again.pop())
    check(name, "all-gathers before backward", [e[1] for e in backward if e[0] == "all_gather"], again)
    check(name, "other collectives", {e[0] for e in backward} - {"all_gather", "reduce_scatter"}, set())

    # With lists, that many groups are issued before the first layer of a group runs; without, only its own, and the
    # next group's is issued while the device computes this one.
    before = layers_before(random_model(random.Random(seed), seed)[0], in_forward)
    ahead = emission["prefetch"] if emission["prefetch"] > 1 else 0
    check(name, "layers that had run at each all-gather", [e[3] for e in forward],
          [] if is_kept else [before[max(0, i - ahead)] for i in range(len(before))])

    # Before the gradients of a group are scattered, its own parameters and those of as many more groups as are
    # gathered ahead have been asked for.
    scattered = 0
    gathered = 0
    for event in backward:
        if event[0] == "all_gather":
            gathered += 1
            continue
        needed = sum(reshards[group] for group in range(min(len(elements), scattered + 1 + emission["backward_prefetch"])))
        check(name, f"all-gathers before reduce-scatter {scattered + 1}", gathered >= needed, True)
        scattered += 1


def main():
    emissions, release = two_ranks.run(__doc__, 60, DEADLINE_S, case, results_on_rank, check_case)
    made = sum(emission["groups_reproduced"] for emission in emissions)
    print(f"{len(emissions)} random models and plans: FSDP2 of PyTorch {release} runs the collectives that each emission "
          f"says; {made} plans as planned")


if __name__ == "__main__":
    main()
