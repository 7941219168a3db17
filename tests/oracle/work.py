# One worker's compute, which tensors travel together (section 4 of the contract, all but `optimal`), and what one
# schedule on one number of workers costs: the durations that every evaluator of the time line starts from.

from fractions import Fraction
from typing import NamedTuple, Optional

from costs import Collectives, Compressor, coding_us, exact, picoseconds, read_compressor

MIB = 2**20
BYTES_PER_ELEMENT = {"float32": 4, "float16": 2, "bfloat16": 2}
PRESETS = {
    "s-sgd": {"pipeline": "after_backward", "fusion": "none"},
    "sync-easgd": {"pipeline": "after_backward", "fusion": "all"},
    "dense": {"pipeline": "after_backward", "fusion": "all"},
    "wfbp": {"pipeline": "wfbp", "fusion": "none"},
    "mg-wfbp": {"pipeline": "wfbp", "fusion": "mg-wfbp"},
    "ddp": {"pipeline": "wfbp", "fusion": {"kind": "buckets", "cap_bytes": 25 * MIB, "first_cap_bytes": MIB}},
    "dense-overlap": {"pipeline": "wfbp", "fusion": {"kind": "buckets", "cap_bytes": 25 * MIB, "first_cap_bytes": MIB}},
    "horovod": {"pipeline": "wfbp", "fusion": {"kind": "threshold", "cap_bytes": 128 * MIB, "cycle_us": 1000}},
    "dear-nl": {"pipeline": "dear", "fusion": {"kind": "layers", "count": 4}},
    "dear-fb": {"pipeline": "dear", "fusion": {"kind": "modules", "cap_bytes": 5 * MIB}},
    "dear-no-fusion": {"pipeline": "dear", "fusion": "none"},
    "fusewise": {"pipeline": "wfbp", "fusion": "optimal"},
    "zero": {"pipeline": "zero"},
}
MORE_PRESETS = {
    "bytescheduler": {"pipeline": "priority", "fusion": "partitions"},
    "fusewise-dear": {"pipeline": "dear", "fusion": "optimal"},
    "grace": {"pipeline": "wfbp", "fusion": "none"},  # both want a compressor
    "cupcake": {"pipeline": "wfbp", "fusion": "optimal"},
}


def resolve(schedule):
    """A schedule's choices: its preset's, then its own."""
    own = {"name": schedule} if isinstance(schedule, str) else schedule
    preset = {**PRESETS, **MORE_PRESETS}[own["name"]] if "name" in own else {}
    choices = {"pipeline": "wfbp", **preset, **own}
    return {"fusion": "partitions" if choices["pipeline"] == "priority" else "none", **choices}


# ---------------------------------------------------------------- one worker's compute


class Tensor(NamedTuple):
    name: str
    size: int
    layer: int
    ready: int  # since the start of backward, nothing but backward running


class Work(NamedTuple):
    """What a worker computes in a micro-batch, in picoseconds; tensors in backward order."""
    forward: list
    steps: list  # of backward: duration, number of tensors ready at its end
    step_layers: list  # of backward: which layer's
    tensors: list

    @property
    def backward(self):
        return sum(duration for duration, _ in self.steps)


def work_of(profile, slowdown):
    element = BYTES_PER_ELEMENT[profile["dtype"]]
    now, steps, step_layers, tensors = 0, [], [], []

    def step(us, ready):
        nonlocal now
        step_layers.append(index)
        duration = picoseconds(exact(us) * slowdown)
        now += duration
        steps.append((duration, ready))

    for index, layer in reversed(list(enumerate(profile["layers"]))):
        in_parts = any("backward_us" in tensor for tensor in layer["tensors"])
        if not in_parts:
            step(layer["backward_us"], len(layer["tensors"]))
        for tensor in reversed(layer["tensors"]):
            if in_parts:
                step(tensor["backward_us"], 1)
            tensors.append(Tensor(tensor["name"], tensor["elements"] * element, index, now))
    forward = [picoseconds(exact(layer["forward_us"]) * slowdown) for layer in profile["layers"]]
    return Work(forward, steps, step_layers, tensors)


# ---------------------------------------------------------------- section 4: which tensors travel together


class Group(NamedTuple):
    tensors: list
    issue: int  # since the start of backward

    @property
    def size(self):
        return total_size(self.tensors)


def total_size(tensors):
    return sum(tensor.size for tensor in tensors)


def issued_when_ready(parts):
    return [Group(part, max(tensor.ready for tensor in part)) for part in parts]


def channel_ends(issues, durations):
    """Ends of what one channel carries, in order, each from when it is issued and the channel is free."""
    ends, free = [], 0
    for issue, duration in zip(issues, durations):
        free = max(free, issue) + duration
        ends.append(free)
    return ends


def buckets(tensors, cap, first_cap):
    parts, part = [], []
    for tensor in tensors:
        part.append(tensor)
        if total_size(part) >= (cap if parts else first_cap):
            parts.append(part)
            part = []
    return parts + [part] if part else parts


def packed(pieces, fits):
    """Neighbouring pieces together while their sum fits; one that is too large stands alone."""
    parts = []
    for piece in pieces:
        if parts and fits(total_size(parts[-1]) + total_size(piece)):
            parts[-1] = parts[-1] + piece
        else:
            parts.append(list(piece))
    return parts


def threshold(tensors, cap, cycle):
    if cycle == 0:
        return issued_when_ready(packed([[t] for t in tensors], lambda size: size <= cap))
    groups = []
    for tick in sorted({-(-t.ready // cycle) * cycle for t in tensors}):
        taken = [[t] for t in tensors if tick - cycle < t.ready <= tick]
        groups += [Group(part, tick) for part in packed(taken, lambda size: size <= cap)]
    return groups


def layers_from_input_side(tensors):
    """The tensors of each layer that has any; inside a layer they stay in backward order."""
    return [[t for t in tensors if t.layer == layer] for layer in sorted({t.layer for t in tensors})]


def in_backward_order(tensors, parts):
    return [[t for t in tensors if t in part] for part in reversed(parts)]


def mg_wfbp(tensors, costs):
    """The paper's greedy: position i in backward order is its tensor l, position i + 1 its tensor l - 1."""
    startup = costs.all_reduce_startup()
    parts = [[tensor] for tensor in tensors]  # a part emptied by a merge costs nothing
    for i in range(len(tensors) - 1):
        durations = [costs.cost("all_reduce", total_size(part)) if part else 0 for part in parts]
        start = channel_ends([t.ready for t in tensors], durations)[i] - durations[i]
        if tensors[i + 1].ready < start + startup:
            parts[i + 1] = parts[i] + parts[i + 1]
            parts[i] = []
    return [part for part in parts if part]


def partitions(tensors, size):
    """Parts of tensors, each as if it were one."""
    return [[tensor._replace(size=min(size, tensor.size - at))] for tensor in tensors for at in range(0, tensor.size, size)]


def grouped(tensors, fusion, costs):
    """The groups in communication order, for every fusion but `optimal`, and but `partitions`."""
    options = fusion if isinstance(fusion, dict) else {"kind": fusion}
    kind = options["kind"]
    if kind == "threshold":
        return threshold(tensors, options.get("cap_bytes", 128 * MIB), picoseconds(exact(options.get("cycle_us", 0))))
    if kind == "none":
        parts = [[tensor] for tensor in tensors]
    elif kind == "all":
        parts = [tensors]
    elif kind == "mg-wfbp":
        parts = mg_wfbp(tensors, costs)
    elif kind == "buckets":
        cap = options.get("cap_bytes", 25 * MIB)
        parts = buckets(tensors, cap, options.get("first_cap_bytes", cap))
    elif kind == "modules":
        cap = options.get("cap_bytes", 25 * MIB)
        parts = in_backward_order(tensors, packed(layers_from_input_side(tensors), lambda size: size < cap))
    elif kind == "layers":
        layers, per_group = layers_from_input_side(tensors), options.get("count", 4)
        parts = [sum(layers[at:at + per_group], []) for at in range(0, len(layers), per_group)]
        parts = in_backward_order(tensors, parts)
    elif kind == "groups":
        wanted = min(options.get("count", 8), len(tensors))
        quotient, larger = divmod(len(tensors), wanted)
        counts = [quotient + (index < larger) for index in range(wanted)]
        parts = [tensors[sum(counts[:i]):sum(counts[:i + 1])] for i in range(wanted)]
    elif kind == "plan":
        by_name = {tensor.name: tensor for tensor in tensors}
        parts = [[by_name[name] for name in group["tensors"]] for group in options["file"]["groups"]]
    else:
        raise ValueError(f"no such fusion here: {kind}")
    return issued_when_ready(parts)


# ---------------------------------------------------------------- what everything takes


class Case(NamedTuple):
    """One schedule on one number of workers; times in picoseconds as one worker, the slowest as a rule, sees them."""
    workers: int
    schedule: dict
    work: Work
    costs: Collectives
    compressor: Optional[Compressor]
    slowdown: Fraction  # of a straggler
    compute_factor: Fraction  # what a task takes longer while the other stream is busy
    channel_factor: Fraction
    micro_batches: int
    read: int  # unoverlapped reading
    distributed_lars: int  # the parallel tensor operator's share of one worker
    lars_gather: int
    update: int  # what is left of the update after that

    @property
    def pipeline(self):
        return self.schedule["pipeline"]

    @property
    def in_halves(self):
        return self.pipeline in ("dear", "zero", "sharded")

    @property
    def ahead(self):
        """How many all-gathers may have been issued beyond those that compute has come to."""
        return self.schedule.get("prefetch", 1 if self.pipeline == "sharded" else len(self.work.tensors))

    def gathers_again(self, group):
        """sharded: before backward; by default all but the group that forward used last."""
        return self.schedule.get("reshard_after_forward", group > 0)

    @property
    def gathers_under_forward(self):
        return self.pipeline == "dear" or (self.pipeline == "zero" and self.schedule.get("overlap_gather", True))

    @property
    def interferes(self):
        return self.workers > 1 and (self.compute_factor > 1 or self.channel_factor > 1)


class Load(NamedTuple):
    """One group's tasks, in picoseconds; `ready` and `issue`, the earliest, since the start of a backward pass alone."""
    tensors: int
    size: int
    first_layer: int
    last_layer: int
    ready: int
    issue: int
    encode: int
    send: int  # the all-reduce, or what comes in its place
    gather: int  # dear and zero
    decode: int
    update: int  # its part of it


def build_case(scenario, workers, schedule, slowdown):
    profile = scenario["profile"]
    collectives = {"all_reduce": "ring", **scenario.get("collectives", {}), **schedule.get("collectives", {})}
    if schedule["pipeline"] == "parameter_server":
        collectives["all_reduce"] = {"algorithm": "parameter_server", "servers": schedule.get("servers", 1)}
    costs = Collectives(scenario["network"], workers, collectives["all_reduce"])
    update, reading, overlap = (scenario.get(key, {}) for key in ("update", "input", "overlap"))
    optimizer, lars = exact(update.get("optimizer_us", 0)), exact(update.get("lars_us", 0))
    distributed = update.get("parallel_tensor_operator", False)
    return Case(
        workers=workers, schedule=schedule, work=work_of(profile, slowdown), costs=costs,
        compressor=None if workers == 1 else read_compressor(schedule.get("compression", "none")), slowdown=slowdown,
        compute_factor=1 + exact(overlap.get("compute_slowdown", 0)),
        channel_factor=1 + exact(overlap.get("communication_slowdown", 0)),
        micro_batches=scenario.get("accumulation_steps", 1),
        read=0 if reading.get("overlapped", True) else picoseconds(exact(reading.get("read_us", 0))),
        distributed_lars=picoseconds(lars / workers * slowdown) if distributed else 0,
        lars_gather=costs.cost("all_gather", 4 * len(profile["layers"])) if distributed else 0,
        update=picoseconds((optimizer if distributed else optimizer + lars) * slowdown))


def collectives_of(case, size):
    """The group's collectives in order, each with the bytes it is asked about."""
    encoded = case.compressor.encoded(size) if case.compressor else size
    if case.compressor and case.compressor.gathers:
        return [(case.costs.gather(), case.workers * encoded)]
    return [(name, encoded) for name in (("reduce_scatter", "all_gather") if case.in_halves else ("all_reduce",))]


def load_of(case, group):
    size, compressor = group.size, case.compressor
    durations = [case.costs.cost(name, amount) for name, amount in collectives_of(case, size)]
    ready = max(tensor.ready for tensor in group.tensors)
    return Load(
        tensors=len(group.tensors), size=size, first_layer=min(tensor.layer for tensor in group.tensors),
        last_layer=max(tensor.layer for tensor in group.tensors),
        ready=ready, issue=ready if case.workers == 1 else max(ready, group.issue),
        encode=picoseconds(coding_us(compressor.encode, size) * case.slowdown) if compressor else 0,
        send=durations[0], gather=durations[1] if len(durations) > 1 else 0,
        decode=picoseconds(coding_us(compressor.decode, size) * case.slowdown) if compressor else 0,
        update=picoseconds(Fraction(case.update * size, total_size(case.work.tensors) * 10**6)))


def bytes_sent(case, groups):
    """Per worker and iteration, the mean over workers."""
    sent = 0
    for index, group in enumerate(groups):
        for name, amount in collectives_of(case, group.size):
            times = 1
            if case.pipeline == "sharded" and name == "all_gather":
                times = case.micro_batches * (2 if case.gathers_again(index) else 1)
            sent += times * case.costs.sent_per_worker(name, amount)
    layers = len(case.work.forward) if case.lars_gather else 0
    return sent + case.costs.sent_per_worker("all_gather", 4 * layers)
