#!/usr/bin/env python3
"""The Python package fusewise.torch on the CPU: `package_test.py PROGRAM` (build/fusewise).

Profiles of a small CNN and of a transformer of two blocks have to be taken by the program, and two ranks that send
gradients in planned groups have to end with the parameters of plain DistributedDataParallel, bit for bit.
"""
import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import warnings

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

import fusewise.torch  # noqa: E402
from fusewise.torch.plans import _ddp_plan, _groups, takes_lists  # noqa: E402
from two_ranks import end_rank  # noqa: E402

DEADLINE_S = 300


def check(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: got {got}, expected {wanted}")


def cnn():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
                         nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 7 * 7, 10))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, width=32, words=50):
        super().__init__()
        self.head = nn.Linear(width, words)  # registered first, used last: ready order is not the reverse of this
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width), Block(width)])

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


MODELS = {"cnn": (cnn, lambda: torch.randn(4, 3, 16, 16)),
          "transformer": (Transformer, lambda: torch.randint(0, 50, (4, 12)))}


# ---- profiles


def measured(name):
    torch.manual_seed(1)
    make, inputs = MODELS[name]
    model = make()
    profiler = fusewise.torch.Profiler(model, batch_size=4)
    for _ in range(7):
        with profiler.iteration():
            model(inputs()).square().mean().backward()
    return model, profiler


def check_profile(program, name, folder):
    model, profiler = measured(name)
    file = os.path.join(folder, f"{name}.profile.json")
    profiler.save(file, name=name)
    profile = json.loads(pathlib.Path(file).read_text())
    tensors = [tensor for layer in profile["layers"] for tensor in layer["tensors"]]
    check(f"{name}: tensors", sorted((t["name"], t["elements"]) for t in tensors),
          sorted((n, p.numel()) for n, p in model.named_parameters()))
    for layer in profile["layers"]:
        if layer["tensors"] and abs(sum(t["backward_us"] for t in layer["tensors"]) - layer["backward_us"]) > 1e-6:
            sys.exit(f"{name}: parts of {layer['name']} do not add up")
    if not all(sum(layer[d] for layer in profile["layers"]) > 0 for d in ("forward_us", "backward_us")):
        sys.exit(f"{name}: no time forward or backward")
    check_order(name, profiler)
    scenario = os.path.join(folder, f"{name}.json")
    pathlib.Path(scenario).write_text(json.dumps({
        "format": "fusewise.scenario", "version": 1, "name": name, "profile": file, "workers": [2],
        "network": {"format": "fusewise.network", "version": 1, "name": "loopback",
                    "origin": {"kind": "estimated", "source": "by hand"},
                    "link": {"alpha_us": 50, "beta_us_per_byte": 0.001}}, "schedules": ["wfbp", "ddp", "fusewise"]}))
    results = subprocess.run([program, "simulate", scenario, "--json"], check=True, capture_output=True,
                             timeout=DEADLINE_S)
    check(f"{name}: schedules", len(json.loads(results.stdout)["results"]), 3)
    plan = os.path.join(folder, f"{name}.plan.json")
    subprocess.run([program, "plan", scenario, "--workers", "2", "-o", plan], check=True, capture_output=True,
                   timeout=DEADLINE_S)
    print(f"{name}: {len(profile['layers'])} layers, {len(tensors)} tensors, taken by the program")
    return plan


def check_order(name, profiler):
    gradients = profiler.gradients()
    check(f"{name}: places", [g["ready"] for g in gradients], list(range(len(gradients))))
    if name == "transformer":
        first = {g["name"] for g in gradients[:2]}
        check("transformer: first gradients ready", first, {"head.weight", "head.bias"})
        check("transformer: registered first", {g["registered"] for g in gradients[:2]}, {0, 1})


def check_charges():
    """Time goes to the module that spends it: a slow layer is the slow one, forward and backward."""

    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            spend(0.02)
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            spend(0.04)
            return grad

    class SlowLayer(nn.Module):
        def forward(self, x):
            return Slow.apply(x)

    def spend(seconds):
        import time
        time.sleep(seconds)

    model = nn.Sequential(nn.Linear(4, 4), SlowLayer(), nn.Linear(4, 4))
    profiler = fusewise.torch.Profiler(model, batch_size=1, warmup=1)
    for _ in range(4):
        with profiler.iteration():
            model(torch.ones(1, 4)).sum().backward()
    layers = {layer["name"]: layer for layer in profiler.profile()["layers"]}
    for direction, least in (("forward_us", 20e3), ("backward_us", 40e3)):
        check(f"slowest {direction}", max(layers, key=lambda n: layers[n][direction]), "1")
        if layers["1"][direction] < 0.99 * least:
            sys.exit(f"the slow layer's {direction} is {layers['1'][direction]}")
    print("time is charged to the layer that spends it")


def check_marks_take_no_time():
    """Marks of 1 ms each are in no profile of 5 ms forward and 7 ms backward, and a disturbance is not taken for them."""
    from fusewise.torch import profiler as measuring

    class Clock(measuring.WallClock):
        us_now = 0
        late_us = 0

        def mark(self):
            before = self.us_now
            self.us_now += 1000
            return before

        def wait(self):
            pass

        def us(self, earlier, later):
            return later - earlier

    clock = Clock()

    class Work(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            clock.us_now += 5000 + clock.late_us
            return x.clone()

        @staticmethod
        def backward(ctx, slope):
            clock.us_now += 7000
            return slope

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, x):
            return Work.apply(x * self.weight)

    def total(alternates, late_us=0):
        model = nn.Sequential(Layer())
        profiler = fusewise.torch.Profiler(model, batch_size=1, alternates=alternates)
        profiler.clock = clock
        for _ in range(8):
            with profiler.iteration():
                clock.late_us = 0 if profiler._current.is_plain else late_us
                model(torch.ones(4)).sum().backward()
        return sum(layer[d] for layer in profiler.profile()["layers"] for d in ("forward_us", "backward_us"))

    check("time without marks", round(total(True), 6), 12000)
    check("time with a disturbance of 30 ms", round(total(True, late_us=30000), 6), 42000)
    if total(False) < 15000:
        sys.exit(f"with marks an iteration takes {total(False)} us: they cost nothing, so nothing was tested")
    print("the time that marks take is in no profile")


class WithPositions(nn.Module):
    """Parameters of the root module: used first, registered first, ready last."""

    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.zeros(12, 32))
        self.embed = nn.Embedding(50, 32)
        self.blocks = nn.ModuleList([Block(32), Block(32)])
        self.head = nn.Linear(32, 50)

    def forward(self, x):
        x = self.embed(x) + self.position
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def check_observed_order():
    """Backward over the profile's layers, last to first, meets gradients as they were observed to get ready."""
    for make in (WithPositions, Transformer):
        profiler = fusewise.torch.Profiler(make(), batch_size=4)
        for _ in range(6):
            with profiler.iteration():
                profiler.model(torch.randint(0, 50, (4, 12))).square().mean().backward()
        profile = profiler.profile()
        backward = [t["name"] for layer in reversed(profile["layers"]) for t in reversed(layer["tensors"])]
        check(f"{make.__name__}: order", backward, [g["name"] for g in profiler.gradients()])
        if make is WithPositions and backward.index("position") < len(backward) - 2:
            sys.exit(f"'position' is ready {backward.index('position') + 1}th of {len(backward)}")
        one = fusewise.torch.Profiler(make(), batch_size=4, warmup=0)
        with one.iteration():
            one.model(torch.randint(0, 50, (4, 12))).square().mean().backward()
        for direction, times in zip(("forward_us", "backward_us"), one.iterations[0]):
            layers = sum(layer[direction] for layer in one.profile()["layers"])
            if abs(layers - sum(times.values())) > 1e-6 * layers:
                sys.exit(f"{make.__name__}: {direction} of layers adds up to {layers}, expected {sum(times.values())}")
    print("gradients stand in the order in which they were observed to get ready")


class Users(nn.Module):
    """Parameters are used where they are not owned, and modules own some beside those inside them."""

    class Attention(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(width))
            self.query, self.key, self.out = (nn.Linear(width, width) for _ in range(3))

        def forward(self, x):
            query = nn.functional.linear(x * self.gain, self.query.weight, self.query.bias)
            return self.out(query.softmax(-1) * self.key(x))

    class Gated(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.opens, self.closes = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))
            self.inner = nn.Linear(width, width)

        def forward(self, x):
            return self.inner(x * self.opens) * self.closes

    def __init__(self, width=16):
        super().__init__()
        self.positions = nn.ParameterList([nn.Parameter(torch.zeros(12, width))])
        self.embed = nn.Embedding(50, width)
        self.layers = nn.Sequential(Users.Attention(width), Users.Gated(width), Users.Attention(width))  # a list: never called
        self.borrowed, self.head = nn.Linear(width, width), nn.Linear(width, 50)
        self.borrower = Users.Borrower()

    class Borrower(nn.Module):
        def forward(self, x, weight):
            return nn.functional.linear(x, weight)

    def forward(self, x):
        x = self.borrower(x=self.embed(x) + self.positions[0], weight=self.borrowed.weight) + self.borrowed.bias
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def check_users():
    """A profile says which module is called when the parameters of a layer are used."""
    modules = {}
    for layer in profile_of_users(Users())["layers"]:
        modules.update({t["name"]: layer["module"] for t in layer["tensors"]})
    wanted = {name: name.rpartition(".")[0] for name, _ in Users().named_parameters()}
    wanted.update({name: name[:8] for name in wanted if ".query." in name})
    wanted.update({name: "" for name in wanted if name.startswith(("borrowed", "positions"))})
    check("modules that use parameters", modules, wanted)
    model = nn.Sequential(nn.Linear(2, 2))
    model.register_parameter("scale", nn.Parameter(torch.tensor(1.0)))
    profiler = fusewise.torch.Profiler(model, batch_size=1, warmup=0)
    with profiler.iteration():
        (model(torch.ones(1, 2)).sum() * model.scale).backward()
    shapes = {t["name"]: t["shape"] for layer in profiler.profile()["layers"] for t in layer["tensors"]}
    check("shapes", shapes, {"0.weight": [2, 2], "0.bias": [2], "scale": []})
    model = Transformer()
    for parameter in [model.blocks[0].wide.weight, *model.blocks[1].attention.parameters(), *model.head.parameters()]:
        parameter.requires_grad_(False)
    frozen = {layer["name"]: layer["frozen_elements"] for layer in profile_of_users(model)["layers"] if "frozen_elements" in layer}
    check("parameters that are not trained", frozen, {
        "blocks.0.wide": 4 * 32 * 32, "blocks.1.attention": 4 * 32 * 32 + 4 * 32, "head": 50 * 32 + 50})
    print("profiles say which module is called when a parameter is used")


def profile_of_users(model):
    profiler = fusewise.torch.Profiler(model, batch_size=4, warmup=0)
    with profiler.iteration():
        model(torch.randint(0, 50, (4, 12))).square().mean().backward()
    return profiler.profile("users")


def plan_users(program, folder):
    """A plan for FSDP2 in several groups, and what the program writes for it."""
    profile = profile_of_users(Users())
    for layer in profile["layers"]:
        layer.update(forward_us=100, backward_us=200)
        for tensor in layer["tensors"]:
            tensor["backward_us"] = 200 / len(layer["tensors"])
    scenario = os.path.join(folder, "users.json")
    pathlib.Path(scenario).write_text(json.dumps({
        "format": "fusewise.scenario", "version": 1, "name": "users", "profile": profile, "workers": [2],
        "network": {"format": "fusewise.network", "version": 1, "name": "loopback", "origin": {"kind": "estimated", "source": "by hand"},
                    "link": {"alpha_us": 1, "beta_us_per_byte": 0.2}}, "schedules": ["fsdp2"]}))
    emission = subprocess.run([program, "plan", scenario, "--workers", "2", "--schedule", "fsdp2", "--for", "fsdp", "--emit", "fsdp",
                               "-o", os.path.join(folder, "users.plan.json")], check=True, capture_output=True, text=True, timeout=DEADLINE_S)
    pathlib.Path(folder, "users.py").write_text(emission.stdout)


def check_iterations_refused():
    model = cnn()
    profiler = fusewise.torch.Profiler(model, batch_size=4)
    try:
        with profiler.iteration():
            for _ in range(2):
                model(torch.randn(4, 3, 16, 16)).square().mean().backward()
    except RuntimeError as error:
        if "expected one backward pass" not in str(error):
            raise
    else:
        sys.exit("two backward passes in one iteration went unnoticed")
    print("two backward passes in one iteration are refused")


# ---- groups


def random_plan(model, rng):
    """Neighbours in backward order, cut anywhere."""
    names = [name for name, _ in reversed(list(model.named_parameters()))]
    groups = []
    while names:
        count = rng.randint(1, min(len(names), 6))
        groups.append({"tensors": names[:count]})
        names = names[count:]
    return {"format": "fusewise.plan", "version": 1, "pipeline": "wfbp", "compression": "none", "groups": groups}


def train(model, rank, inputs):
    """Six steps with momentum, two of which gather gradients over two passes."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    torch.manual_seed(100 + rank)
    for step in range(6):
        optimizer.zero_grad()
        if step % 3 == 2:
            with model.no_sync():
                model(inputs()).square().mean().backward()
        model(inputs()).square().mean().backward()
        optimizer.step()
    return [p.detach().clone() for p in list(model.module.parameters()) + list(model.module.buffers())]


def run_rank(rank, store, plans):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    for name, (make, inputs) in MODELS.items():
        def fresh():
            torch.manual_seed(rank)  # rank 0's parameters have to reach the other
            return make()

        plain = train(nn.parallel.DistributedDataParallel(fresh()), rank, inputs)
        wanted = [random_plan(make(), random.Random(seed)) for seed in range(3)]
        wanted += [random_plan(make(), random.Random(9)), os.path.join(plans, f"{name}.plan.json")]
        for number, plan in enumerate(wanted):
            model = fresh()
            if number == 3:
                model = nn.parallel.DistributedDataParallel(model)
            trained = train(fusewise.torch.apply_plan(model, plan), rank, inputs)
            for place, (ours, theirs) in enumerate(zip(trained, plain)):
                if not torch.equal(ours, theirs):
                    sys.exit(f"{name}, plan {number}: tensor {place} differs from plain DDP on rank {rank}")
    check_unused(rank)
    check_kept_arguments()
    check_wrapped()
    check_watched(rank)
    if takes_lists():
        check_buckets(rank)
        check_sharded(rank)
        check_types(rank)
        check_frozen(rank)
        check_lists(rank)
        check_tied(rank)
        check_nested(rank)
        check_planned_users(rank, plans)
        check_micro_batches()
        check_sharding_costs(rank)
    dist.destroy_process_group()
    end_rank()


def check_wrapped():
    """A model inside DistributedDataParallel is profiled under its own names."""
    model = nn.parallel.DistributedDataParallel(cnn())
    profiler = fusewise.torch.Profiler(model, batch_size=4, warmup=0)
    with model.no_sync(), profiler.iteration():
        model(torch.randn(4, 3, 16, 16)).square().mean().backward()
    names = {t["name"] for layer in profiler.profile()["layers"] for t in layer["tensors"]}
    check("names inside DistributedDataParallel", names, {name for name, _ in cnn().named_parameters()})


def check_kept_arguments():
    """What DistributedDataParallel was told is kept when a plan is applied, or refused where that cannot be."""
    buffers = "forward_sync_buffers" if takes_lists() else "broadcast_buffers"
    plan = random_plan(cnn(), random.Random(5))
    for kept in ({"find_unused_parameters": True, "gradient_as_bucket_view": True}, {"static_graph": True}, {buffers: False}):
        model = nn.parallel.DistributedDataParallel(cnn(), **kept)
        if takes_lists():
            applied = fusewise.torch.apply_plan(model, plan)
            check("arguments that are kept", {name: getattr(applied, name) for name in kept}, kept)
            continue
        try:
            fusewise.torch.apply_plan(model, plan)
        except ValueError as error:
            check("what cannot be kept", str(error).endswith(f"BucketedDataParallel no {', '.join(kept)}"), True)
        else:
            sys.exit(f"{kept} was lost")
    if takes_lists():
        applied = fusewise.torch.apply_plan(nn.parallel.DistributedDataParallel(cnn(), static_graph=True), plan, static_graph=False)
        check("an argument that is given anew", applied.static_graph, False)


def with_bytes(plan, model, **changes):
    elements = {name: p.numel() for name, p in model.named_parameters()}
    groups = [{**group, "bytes": 4 * sum(elements[name] for name in group["tensors"])} for group in plan["groups"]]
    return {**plan, "groups": groups, **changes}


def check_buckets(rank):
    """The plan's groups are what travels, with ddp_kwargs() and in the hook that compresses."""
    make, inputs = MODELS["cnn"]
    plan = with_bytes(random_plan(make(), random.Random(4)), make())
    sizes = [group["bytes"] for group in plan["groups"]]
    compressed = {**plan, "compression": "fp16"}
    made = make()
    halves = {**plan, "groups": [{**group, "bytes": group["bytes"] // 2} for group in plan["groups"]]}  # a plan for bfloat16
    model = nn.parallel.DistributedDataParallel(made, **fusewise.torch.ddp_kwargs(made, halves))
    watched = fusewise.torch.watch(model, warmup=2, hook=fusewise.torch.comm_hook(compressed))
    train(model, rank, inputs)
    check("bytes of buckets", [t.bytes for t in watched.transfers()], sizes)
    state, _ = fusewise.torch.comm_hook({**plan, "compression": {"name": "power-sgd", "rank": 3}})
    check("the options of PowerSGD", (state.matrix_approximation_rank, state.min_compression_rate), (3, 2))
    try:
        fusewise.torch.comm_hook({**plan, "compression": "dgc"})
    except ValueError as error:
        check("a hook that is not there", "expected a plan with compression" in str(error), True)
    else:
        sys.exit("a plan with dgc got a hook")


def watched_as_sharded(rank, make, plan, shard=fusewise.torch.fsdp2):
    """A model that trains with FSDP2 as it does with DistributedDataParallel, watched."""
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")  # of outputs that are views
    results = []
    for wrap in (nn.parallel.DistributedDataParallel, lambda model: shard(model, plan)):
        torch.manual_seed(1)
        model = wrap(make())
        watched = fusewise.torch.watch(model, warmup=1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        torch.manual_seed(100 + rank)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randint(0, 50, (4, 12))).square().mean().backward()
            optimizer.step()
        results.append([getattr(p, "full_tensor", lambda p=p: p)().detach().clone() for p in model.parameters()])
    if not all(torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6) for ours, theirs in zip(*results)):
        sys.exit(f"rank {rank}: a sharded {make.__name__} trains otherwise than with DistributedDataParallel")
    return watched


def check_sharded(rank):
    """FSDP2 gathers the plan's groups, whole modules each, and trains as DistributedDataParallel does."""
    start = Transformer()
    plan = blocks_plan(start)
    watched = watched_as_sharded(rank, Transformer, plan)
    attention = [4 * sum(p.numel() for p in block.attention.parameters()) for block in start.blocks]
    gathered = [t.bytes for t in watched.transfers() if t.collective == "all_gather"]
    whole = [group["bytes"] for group in plan["groups"]]
    check("bytes gathered in forward", sorted(gathered[:len(whole)]), sorted(whole))
    check("attention is in its block's group", all(part < size for part, size in zip(attention, whole[1:3])), True)


def check_types(rank):
    """FSDP2 gathers and reduces in the types of the plan, unless the caller gives a policy."""
    from torch.distributed.fsdp import MixedPrecisionPolicy
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
    elements = sum(p.numel() for p in Transformer().parameters())
    cases = (({"gather": "bfloat16", "reduce": "float32"}, {}, 2, 4), ({"gather": "bfloat16"}, {}, 2, 4),
             ({"parameters": "float32"}, {}, 4, 4),
             ({"gather": "bfloat16"}, {"mp_policy": MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)}, 4, 2))
    for types, arguments, gathered, reduced in cases:
        start = Transformer()
        model = fusewise.torch.fsdp2(start, blocks_plan(start, pipeline="zero", data_types=types), **arguments)
        watched = fusewise.torch.watch(model, warmup=0)
        for _ in range(3):
            model(torch.randint(0, 50, (4, 12))).float().square().mean().backward()
        for kind, each in (("all_gather", gathered), ("reduce_scatter", reduced)):
            sent = sum(t.bytes for t in watched.transfers() if t.collective == kind)
            check(f"bytes of {kind}, {types} {arguments}", sent, elements * each)


def check_frozen(rank):
    """Parameters that are not trained are in no group of the plan, and are gathered with those of a neighbour."""
    def make():
        model = Transformer()
        for parameter in [model.head.bias, model.embed.weight, *model.blocks[0].norm1.parameters(), *model.blocks[1].attention.parameters()]:
            parameter.requires_grad_(False)
        return model
    start = make()
    trained = {name for name, p in start.named_parameters() if p.requires_grad}
    plan = blocks_plan(start)
    groups = [{"tensors": [name for name in group["tensors"] if name in trained]} for group in plan["groups"][:3]]
    watched = watched_as_sharded(rank, make, {**plan, "groups": groups})
    gathered = [t.bytes for t in watched.transfers() if t.collective == "all_gather"]
    whole = [group["bytes"] for group in plan["groups"]]
    whole = [*whole[:2], whole[2] + whole[3]]  # the embedding goes with the first block
    check("bytes gathered with frozen parameters, all but the head's twice", sorted(gathered), sorted(whole + whole[1:]))


class WithLists(nn.Module):
    """Parameters in a list and in a dictionary, which nobody calls, of the model and of a module below it."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scales = nn.ParameterDict({"in": nn.Parameter(torch.ones(16)), "out": nn.Parameter(torch.ones(16))})
            self.linear = nn.Linear(16, 16)

        def forward(self, x):
            return self.linear(x * self.scales["in"]) * self.scales["out"]

    def __init__(self):
        super().__init__()
        self.positions = nn.ParameterList([nn.Parameter(torch.zeros(12, 16)), nn.Parameter(torch.zeros(12, 16))])
        self.embed = nn.Embedding(50, 16)
        self.scaled = WithLists.Scaled()

    def forward(self, x):
        return self.scaled(self.embed(x) + self.positions[0] + self.positions[1])


def check_lists(rank):
    """Lists and dictionaries of parameters are gathered with the module that has them."""
    names = [[name for name, _ in WithLists().named_parameters() if name.startswith(prefix)] for prefix in ("scaled", "embed", "positions")]
    plan = with_bytes({"format": "fusewise.plan", "pipeline": "zero", "groups": [{"tensors": group} for group in names]}, WithLists())
    watched = watched_as_sharded(rank, WithLists, plan)
    check("bytes gathered with lists", sorted(t.bytes for t in watched.transfers() if t.collective == "all_gather"),
          sorted([4 * 2 * 12 * 16, 4 * 50 * 16, 4 * 2 * 16 + 4 * (16 * 16 + 16)]))


def blocks_plan(model, **options):
    names = [[name for name, _ in model.named_parameters() if name.startswith(prefix)]
             for prefix in ("head", "blocks.1", "blocks.0", "embed")]
    return with_bytes({"format": "fusewise.plan", "pipeline": "sharded", "compression": "none",
                       "groups": [{"tensors": group} for group in names], **options}, model)


def check_planned_users(rank, plans):
    """fsdp2() and the emitted lines make the groups that were priced, whoever uses the parameters."""
    plan = json.loads(pathlib.Path(plans, "users.plan.json").read_text())
    text = pathlib.Path(plans, "users.py").read_text()
    wanted = sorted(group["bytes"] for group in plan["groups"])
    check("several groups of users", len(wanted) > 3, True)

    def emitted(model, _plan):
        exec(text, {"model": model})
        return model
    for shard in (emitted, fusewise.torch.fsdp2):
        watched = watched_as_sharded(rank, Users, plan, shard)
        gathered = [t.bytes for t in watched.transfers() if t.collective == "all_gather"]
        check(f"bytes gathered in forward, {shard.__name__}", sorted(gathered[:len(wanted)]), wanted)
        scattered = sorted(t.bytes for t in watched.transfers() if t.collective == "reduce_scatter")
        check(f"bytes scattered, {shard.__name__}", scattered, wanted)


class Nested(nn.Module):
    """Modules with parameters of their own and modules inside them."""

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(16))
            self.linear = nn.Linear(16, 16)

        def forward(self, x):
            return self.linear(x * self.scale)

    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.zeros(12, 16))
        self.embed = nn.Embedding(50, 16)
        self.inner = nn.Sequential(*(Nested.Inner() for _ in range(4)))

    def forward(self, x):
        return self.inner(self.embed(x) + self.position)


def check_nested(rank):
    """The modules of a group are in one, whatever they hold; and so is what the model itself owns."""
    names = [name for name, _ in Nested().named_parameters()]
    cases = (([["inner.3", "inner.2"], ["inner.1", "inner.0"], ["embed", "position"]], 3),
             ([["inner.3.linear"], ["inner.3.scale", "inner.2"], ["inner.1", "inner.0"], ["embed"], ["position"]], 5),
             # inner.3 takes the layer in it, unless that is in a group of its own
             ([["inner.3.scale", "inner.2.linear"], ["inner.3.linear", "inner.2.scale"], ["inner.1", "inner.0", "embed", "position"]], 2))
    for groups, count in cases:
        tensors = [[name for name in names if any(name.startswith(prefix) for prefix in group)] for group in groups]
        plan = with_bytes({"format": "fusewise.plan", "pipeline": "zero", "groups": [{"tensors": group} for group in tensors]}, Nested())
        gathered = sorted(t.bytes for t in watched_as_sharded(rank, Nested, plan).transfers() if t.collective == "all_gather")
        wanted = sorted(group["bytes"] for group in plan["groups"])
        check(f"groups of {groups}", len(gathered), count)
        if count == len(groups):
            check(f"bytes of {groups}", gathered, wanted)


class TiedBert(nn.Module):
    """The head has the embedding's weight and its parent's bias, as in Hugging Face's BERT."""

    class Predictions(nn.Module):
        def __init__(self, embedding):
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(50))
            self.transform = nn.Linear(16, 16)
            self.decoder = nn.Linear(16, 50)
            self.decoder.weight, self.decoder.bias = embedding.weight, self.bias

        def forward(self, x):
            return self.decoder(self.transform(x))

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.layers = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 16))
        self.predictions = TiedBert.Predictions(self.embed)

    def forward(self, x):
        return self.predictions(self.layers(self.embed(x)))


def check_tied(rank):
    """Modules that share a parameter are in the group of most of what they own, gathered once, and train as without."""
    names = [["predictions.transform.weight", "predictions.transform.bias", "predictions.bias"],
             ["layers.2.weight", "layers.2.bias", "layers.0.weight", "layers.0.bias"], ["embed.weight"]]
    plan = with_bytes({"format": "fusewise.plan", "pipeline": "sharded", "compression": "none", "reshard_after_forward": True,
                       "groups": [{"tensors": group} for group in names]}, TiedBert())
    watched = watched_as_sharded(rank, TiedBert, plan)
    size = [4 * (16 * 16 + 16), 4 * 2 * (16 * 16 + 16), 4 * (50 * 16 + 50)]
    check("bytes gathered, tied weights once", sorted(t.bytes for t in watched.transfers() if t.collective == "all_gather"),
          sorted(2 * size[:2] + size[2:]))


def check_micro_batches():
    """Of two micro-batches, each gathers what it does not have, and the last one alone scatters gradients:

        kept until the end       first: forward gathers 4                         last: scatters 4
        given back after each    first: forward gathers 4, backward those that    last: the same, and scatters 4
                                 forward gave back
    """
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
    cases = ((dict(pipeline="zero"), 4, 0), (dict(reshard_after_backward=False, kept_groups=4), 4, 0),
             (dict(kept_groups=4), 4, 4), (dict(kept_groups=1, prefetch=2), 7, 7), (dict(), 7, 7),
             (dict(reshard_after_forward=True), 8, 8),
             (dict(pipeline="wfbp", target="fsdp"), 4, 0))
    for options, first, last in cases:
        start = Transformer()
        plan = blocks_plan(start, **options)
        model = fusewise.torch.fsdp2(start, plan)
        watched = fusewise.torch.watch(model, warmup=0)
        for _ in range(2):
            for number in range(2):
                fusewise.torch.begin_micro_batch(model, plan, number, 2)
                model(torch.randint(0, 50, (4, 12))).square().mean().backward()
        made = [[record[0] for record in records] for records in watched._records[-2:]]
        check(f"collectives of the first micro-batch, {options}", made[0], ["all_gather"] * first)
        check(f"collectives of the last micro-batch, {options}", sorted(made[1]), ["all_gather"] * last + ["reduce_scatter"] * 4)
    try:
        fusewise.torch.fsdp2(Transformer(), blocks_plan(Transformer(), workers=4, shard_workers=2))
    except ValueError as error:
        check("shard groups without a mesh", "shards among 2 of 4 workers" in str(error), True)
    else:
        sys.exit("a plan of shard groups was applied without a mesh")
    try:
        fusewise.torch.fsdp2(Transformer(), blocks_plan(Transformer(), pipeline="wfbp"))
    except ValueError as error:
        check("a plan for DistributedDataParallel", "or one that was made for fsdp, got pipeline 'wfbp'" in str(error), True)
    else:
        sys.exit("a plan for DistributedDataParallel was applied to FSDP2")


def check_sharding_costs(rank):
    """FSDP2's own work is measured with collectives that send nothing, and a job of these costs takes all of its parts."""
    from torch.distributed.fsdp import fully_shard
    from fusewise.torch import network, prediction, sharding

    def units(model, by_layer):
        parts = [part for block in model.blocks for part in block.children()] + [model.head]
        return [[part] for part in parts] if by_layer else [[block] for block in model.blocks]

    def shard(model, modules):
        for unit in modules:
            fully_shard(unit)
        return fully_shard(model)

    def loss(model):
        return model(torch.randint(0, 50, (4, 12))).square().mean()
    network._ENOUGH_S = 0.0  # as few repetitions as possible
    make = WithPositions
    names = [name for name, _ in make().named_parameters()]
    profile = {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 4, "dtype": "float32", "device": "CPU",
               "origin": {"kind": "estimated", "source": "by hand"},
               "layers": [{"name": name, "kind": "linear", "forward_us": 100.0, "backward_us": 200.0,
                           "tensors": [{"name": name, "elements": p.numel()}]} for name, p in make().named_parameters()]}
    costs = prediction.Costs(profile, [[4096, 100.0], [1e6, 1000.0]], 2, 50.0)
    measured = sharding.measure(costs, network.Group(None, torch.device("cpu")), make, loss,
                                lambda parameters: torch.optim.SGD(parameters, lr=0.01), shard,
                                [lambda model: units(model, False), lambda model: units(model, True)])
    if rank != 0:
        return
    found = sharding.plan(costs, measured, 1)
    check("tensors of the plan", sorted(name for group in found["groups"] for name in group["tensors"]), sorted(names))
    one = [[name for name in names if name.startswith("blocks")]]
    sent = 4 * sum(p.numel() for name, p in make().named_parameters() if name.startswith("blocks"))
    least = 300 * len(names) + measured.rest_us + sum(
        times * network.at(measured.curves[kind], sent) for kind, times in (("all_gather", 2), ("reduce_scatter", 1)))
    took = sharding.predict(costs, measured, one)
    if not least < took < least + 1e7:
        sys.exit(f"an iteration of at least {least} us is predicted to take {took}")


def check_watched(rank):
    """A watched job trains as without, and its buckets are recorded in order."""
    make, inputs = MODELS["cnn"]
    torch.manual_seed(rank)
    plain = train(nn.parallel.DistributedDataParallel(make()), rank, inputs)
    torch.manual_seed(rank)
    model = nn.parallel.DistributedDataParallel(make())
    watched = fusewise.torch.watch(model, warmup=1)
    if not all(torch.equal(ours, theirs) for ours, theirs in zip(train(model, rank, inputs), plain)):
        sys.exit(f"rank {rank}: training differs when it is watched")
    transfers = watched.transfers()
    check("bytes that travel", sum(t.bytes for t in transfers), sum(4 * p.numel() for p in model.parameters()))
    if any(t.arrived_us < t.issued_us for t in transfers) or [t.issued_us for t in transfers] != sorted(t.issued_us for t in transfers):
        sys.exit(f"rank {rank}: transfers out of order: {transfers}")
    check_compared(watched)


def check_compared(watched):
    """The prediction is that of as many workers as there are ranks, and a warning says so where there is none."""
    def compared(workers):
        scenario = {"format": "fusewise.scenario", "version": 1, "profile": "resnet50-v100", "network": "v100-10gbe",
                    "workers": workers, "schedules": ["wfbp", "ddp"]}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lines = fusewise.torch.compare(watched, scenario, schedule=1).splitlines()
        entries = {entry.workers: entry for entry in fusewise.simulate(scenario).entries if entry.schedule == "ddp"}
        return lines, entries, [str(each.message) for each in caught if "measured on" in str(each.message)]
    lines, entries, caught = compared([8, 2, 4])
    check("the iteration on 2 workers", f"predicted {entries[2].iteration_us / 1e3:.1f} ms" in lines[-1], True)
    check("rows of the table", len(lines), 2 + max(entries[2].groups, len(watched.transfers())))
    check("warnings", caught, [])
    lines, entries, caught = compared([8, 4])
    check("the iteration on 8 workers", f"predicted {entries[8].iteration_us / 1e3:.1f} ms" in lines[-1], True)
    check("its warning", caught, ["predicted on 8 workers, measured on 2"])


def check_unused(rank):
    """A parameter without a gradient is an error, not a wait without end."""

    class Half(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(2, 2), nn.Linear(2, 2)

        def forward(self, x):
            return self.used(x)

    model = Half()
    groups = [list(model.unused.parameters()), list(model.used.parameters())]
    wrapped = fusewise.torch.BucketedDataParallel(model, groups)
    try:
        wrapped(torch.ones(1, 2)).sum().backward()
    except RuntimeError as error:
        if "got no gradient" in str(error):
            return
        raise
    sys.exit(f"rank {rank}: an unused parameter went unnoticed")


def check_plans_refused():
    model = cnn()
    plan = random_plan(model, random.Random(1))
    for change, words in (({"groups": plan["groups"][:-1]}, "leaves out"), ({"pipeline": "dear"}, "pipeline wfbp"),
                          ({"groups": plan["groups"] + plan["groups"][:1]}, "has not, or the plan twice"),
                          ({"compression": "fp16"}, "without compression"),
                          ({"groups": [{**group, "compression": "fp16"} for group in plan["groups"]]}, "without compression, got 'fp16'"),
                          ({"groups": [{**plan["groups"][0], "compression": "fp16"}, *plan["groups"][1:]]}, "got 'fp16' and 'none'"),
                          ({"format": "x"}, "fusewise.plan")):
        try:
            _groups(model, _ddp_plan({**plan, **change}))
        except ValueError as error:
            if words in str(error):
                continue
            raise
        sys.exit(f"a plan with {change} was taken")
    print("plans that do not fit the model are refused")


def check_compression_of_groups():
    """Groups may have a compression of their own, which has to be that of all of them for a hook."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    plan = random_plan(cnn(), random.Random(1))
    groups = [{**group, "compression": "fp16"} for group in plan["groups"]]
    check("the hook of all groups", fusewise.torch.comm_hook({**plan, "groups": groups}), (None, default_hooks.fp16_compress_hook))
    try:
        fusewise.torch.comm_hook({**plan, "groups": [*groups[1:], plan["groups"][0]]})
    except ValueError as error:
        check("groups that differ", str(error), "expected a plan with one compression for all groups, got 'fp16' and 'none'")
    else:
        sys.exit("a plan whose groups differ in compression got a hook")
    print("a hook compresses as the groups of the plan do")


def check_ranks(plans):
    store = os.path.join(plans, "store")
    ranks = [subprocess.Popen([sys.executable, __file__, "--rank", str(rank), "--store", store, "--plans", plans])
             for rank in range(2)]
    try:
        codes = [rank.wait(timeout=DEADLINE_S) for rank in ranks]
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
                rank.wait()
    check("exit codes of the ranks", codes, [0, 0])
    print("two ranks: the same bits as DistributedDataParallel, over five groupings of each model")


def check_tutorial(program, folder):
    """The script of docs/tutorial.md, in a folder of its own, writes a profile that the program takes."""
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    script = pathlib.Path(folder) / "train.py"
    script.write_text(re.search(r'^```python title="train.py"\n(.*?)^```', page, flags=re.DOTALL | re.MULTILINE)[1])
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"))
    subprocess.run([sys.executable, script], cwd=folder, env=environment, check=True, timeout=DEADLINE_S)
    shown = subprocess.run([program, "show", "mymodel.profile.json"], cwd=folder, check=True, capture_output=True, text=True).stdout
    check("the tutorial's model", shown.split(",")[0], "profile mymodel on CPU")
    print("the script of docs/tutorial.md: a profile")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--store")
    parser.add_argument("--plans")
    arguments = parser.parse_args()
    if arguments.rank is not None:
        return run_rank(arguments.rank, arguments.store, arguments.plans)
    if arguments.program is None:
        parser.error("expected the program")
    os.environ["FUSEWISE_PROGRAM"] = os.path.abspath(arguments.program)
    torch.set_num_threads(1)
    check_charges()
    check_marks_take_no_time()
    check_observed_order()
    check_users()
    check_iterations_refused()
    check_plans_refused()
    check_compression_of_groups()
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            check_profile(os.path.abspath(arguments.program), name, folder)
        plan_users(os.path.abspath(arguments.program), folder)
        check_ranks(folder)
        check_tutorial(os.path.abspath(arguments.program), folder)


if __name__ == "__main__":
    main()
