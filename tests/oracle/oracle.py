#!/usr/bin/env python3
# A second, independent evaluator of `fusewise simulate`, written from the contract alone: slow, obvious, exact fractions.
# It makes random scenarios, computes their results from the formulas and recurrences of the contract's sections 2 to 4,
# and compares them with what a program prints. Where the two differ, one of them misreads the contract.

import argparse
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

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
MOST_TENSORS_FOR_OPTIMAL = 12
TIMES = ("iteration_us", "forward_us", "backward_us", "communication_us", "exposed_communication_us")
FIELDS = ("groups", *TIMES, "throughput_samples_per_s", "speedup", "scaling_efficiency")


def exact(number):
    """The decimal number a file shows, without the error of its binary form."""
    return Fraction(str(number))


def picoseconds(us):
    """A duration, rounded once, halves away from zero."""
    return math.floor(us * 10**6 + Fraction(1, 2))


# ---------------------------------------------------------------- section 2: what a collective costs


class Link(NamedTuple):
    alpha: Fraction
    beta: Fraction
    gamma: Fraction


class Terms(NamedTuple):
    """An all-reduce's closed form: startup, and what a byte costs on the wire and in sums (us)."""
    startup: Fraction
    wire: Fraction
    summing: Fraction


def read_link(link):
    return Link(exact(link["alpha_us"]), exact(link["beta_us_per_byte"]), exact(link.get("gamma_us_per_byte", 0)))


def flat_terms(algorithm, bandwidth_factor, workers, link):
    p, lg = workers, (workers - 1).bit_length()
    messages, wire, summing = {
        "ring": (2 * (p - 1), Fraction(2 * (p - 1), p), Fraction(p - 1, p)),
        "binary_tree": (2 * lg, 2 * lg, lg),
        "recursive_doubling": (lg, lg, lg),
        "halving_doubling": (2 * lg, 2 - Fraction(2, p), 1 - Fraction(1, p)),
        "double_binary_tree": (2 * lg, bandwidth_factor, 1),
    }[algorithm]
    return Terms(messages * link.alpha, wire * link.beta, summing * link.gamma)


def two_level_terms(workers, levels):
    """Reduce-scatter and all-gather inside a node are a ring's two halves; between nodes goes a ring of M/n."""
    inside, between = levels[0], levels[1]
    n = min(inside["size"], workers)
    link = read_link(between["link"])
    if between.get("shared", False):
        link = link._replace(beta=link.beta * n)
    inner = flat_terms("ring", 2, n, read_link(inside["link"]))
    outer = flat_terms("ring", 2, workers // n, link)
    return Terms(inner.startup + outer.startup, inner.wire + outer.wire / n, inner.summing + outer.summing / n)


def slowest_link_spanned(workers, levels):
    spanned, workers_below = [], 1
    for level in levels:
        if workers > workers_below:
            spanned.append(read_link(level["link"]))
        workers_below *= level.get("size", 1)
    return max(spanned, key=lambda link: (link.beta, link.alpha))


def measured_us(entry, size):
    if "segments" in entry:
        segments = entry["segments"]
        at = max(size, segments[0]["from_bytes"])
        segment = next((s for s in segments if s["from_bytes"] <= at < s["to_bytes"]), segments[-1])
        return max(Fraction(0), exact(segment["startup_us"]) + exact(segment["us_per_byte"]) * at)
    curve = [(exact(at), exact(us)) for at, us in entry["curve"]]
    if size <= curve[0][0] or len(curve) == 1:
        return curve[0][1]
    (x0, y0), (x1, y1) = next(((a, b) for a, b in zip(curve, curve[1:]) if size <= b[0]), curve[-2:])
    return max(Fraction(0), y0 + (y1 - y0) * (size - x0) / (x1 - x0))


class Collectives:
    """What the collectives of one schedule cost on this many workers, in picoseconds."""

    def __init__(self, network, workers, all_reduce):
        choice = all_reduce if isinstance(all_reduce, dict) else {"algorithm": all_reduce}
        self.algorithm = choice["algorithm"]
        self.bandwidth_factor = exact(choice.get("bandwidth_factor", 2))
        self.network, self.workers, self.cache = network, workers, {}

    def cost(self, collective, size):
        if (collective, size) not in self.cache:
            self.cache[collective, size] = 0 if self.workers == 1 else picoseconds(self._us(collective, size))
        return self.cache[collective, size]

    def all_reduce_startup(self):
        if self.workers == 1:
            return 0
        entry = self._measured("all_reduce")
        if entry is None:
            return picoseconds(self._closed_form().startup)
        if "segments" in entry:
            return picoseconds(measured_us(entry, entry["segments"][0]["from_bytes"]))
        return picoseconds(exact(entry["curve"][0][1]))

    def _us(self, collective, size):
        entry = self._measured(collective)
        if entry is not None:
            return measured_us(entry, size)
        startup, wire, summing = self._closed_form()
        if collective == "all_reduce":
            return startup + (wire + summing) * size
        return startup / 2 + (wire / 2 + (summing if collective == "reduce_scatter" else 0)) * size

    def _measured(self, collective):
        for entry in self.network.get("measured", []):
            if (entry["collective"] == collective and entry["workers"] == self.workers
                    and entry.get("algorithm", self.algorithm) == self.algorithm):
                return entry
        return None

    def _closed_form(self):
        levels = self.network.get("levels")
        if self.algorithm == "two_level":
            return two_level_terms(self.workers, levels)
        link = slowest_link_spanned(self.workers, levels) if levels else read_link(self.network["link"])
        return flat_terms(self.algorithm, self.bandwidth_factor, self.workers, link)


# ---------------------------------------------------------------- one worker's compute


class Tensor(NamedTuple):
    name: str
    size: int
    layer: int
    ready: int  # since the start of backward


class Work(NamedTuple):
    """What the slowest worker computes in a micro-batch, in picoseconds; tensors in backward order."""
    forward: list
    backward: int
    tensors: list


def work_of(profile, slowdown):
    element = BYTES_PER_ELEMENT[profile["dtype"]]
    now, tensors = 0, []
    for index, layer in reversed(list(enumerate(profile["layers"]))):
        in_parts = any("backward_us" in tensor for tensor in layer["tensors"])
        if not in_parts:
            now += picoseconds(exact(layer["backward_us"]) * slowdown)
        for tensor in reversed(layer["tensors"]):
            if in_parts:
                now += picoseconds(exact(tensor["backward_us"]) * slowdown)
            tensors.append(Tensor(tensor["name"], tensor["elements"] * element, index, now))
    forward = [picoseconds(exact(layer["forward_us"]) * slowdown) for layer in profile["layers"]]
    return Work(forward, now, tensors)


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


def optimal(case):
    """All 2^(n-1) groupings. Gives the best, and others a program may choose: equal by all the contract says about ties,
    or, where rounding to picoseconds decides between equals, anything within that rounding."""
    tensors = case.work.tensors
    count = len(tensors)
    if count > MOST_TENSORS_FOR_OPTIMAL:
        raise ValueError("too many tensors to try all groupings")
    candidates = []
    for cuts in range(2 ** (count - 1)):
        edges = [0] + [i + 1 for i in range(count - 1) if cuts >> i & 1] + [count]
        groups = issued_when_ready([tensors[a:b] for a, b in zip(edges, edges[1:])])
        end = max(case.work.backward, communication_ends(case, groups, "all_reduce")[-1])
        sizes = [len(group.tensors) for group in groups]
        candidates.append(((end, len(groups), sizes[0], sizes), groups))
    best, winner = min(candidates, key=lambda candidate: candidate[0])
    near = [(key, groups) for key, groups in candidates if key[0] <= best[0] + count]
    if all(key[0] == best[0] for key, _ in near):
        near = [(key, groups) for key, groups in near if key[:3] == best[:3]]
    return winner, [groups for _, groups in near]


def fuse(case):
    """The groups in communication order, and all the groupings that are as good (for `optimal`)."""
    tensors, fusion = case.work.tensors, case.schedule.get("fusion", "none")
    options = fusion if isinstance(fusion, dict) else {"kind": fusion}
    kind = options["kind"]
    if kind == "optimal":
        return optimal(case)
    if kind == "threshold":
        groups = threshold(tensors, options.get("cap_bytes", 128 * MIB), picoseconds(exact(options.get("cycle_us", 0))))
        return groups, [groups]
    if kind == "none":
        parts = [[tensor] for tensor in tensors]
    elif kind == "all":
        parts = [tensors]
    elif kind == "mg-wfbp":
        parts = mg_wfbp(tensors, case.costs)
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
    groups = issued_when_ready(parts)
    return groups, [groups]


# ---------------------------------------------------------------- section 3: the time line


class Case(NamedTuple):
    """One schedule on one number of workers; times in picoseconds as the slowest worker sees them."""
    workers: int
    schedule: dict
    work: Work
    costs: Collectives
    micro_batches: int
    read: int  # unoverlapped reading
    distributed_lars: int  # the parallel tensor operator's share of one worker
    lars_gather: int
    update: int  # what is left of the update after that


def communication_ends(case, groups, collective):
    """Since the start of backward. On one worker nothing is sent, so nothing ends after its gradients are there."""
    if case.workers == 1:
        return [case.work.backward for _ in groups]
    earliest = case.work.backward if case.schedule["pipeline"] == "after_backward" else 0
    issues = [max(group.issue, earliest) for group in groups]
    return channel_ends(issues, [case.costs.cost(collective, group.size) for group in groups])


def gathered_forward(case, groups):
    """Length of the forward pass under which the all-gathers run, from the end of backward and all reduce-scatters."""
    compute = case.distributed_lars
    channel = case.distributed_lars + case.lars_gather
    waiting = []
    model_size = total_size(case.work.tensors)
    for group in reversed(groups):
        channel += case.costs.cost("all_gather", group.size)
        part = picoseconds(Fraction(case.update * group.size, model_size * 10**6))
        waiting.append(({tensor.layer for tensor in group.tensors}, channel, part))
    compute += case.read
    for index, forward in enumerate(case.work.forward):
        while waiting and index in waiting[0][0]:
            _, arrived, part = waiting.pop(0)
            compute = max(compute, arrived) + part
        compute += forward
    return compute


def iteration_and_communication(case, groups):
    """The iteration before the input's max, and how long the channel is busy in it."""
    pipeline, work = case.schedule["pipeline"], case.work
    halves = pipeline in ("dear", "zero")
    first = "reduce_scatter" if halves else "all_reduce"
    gathers = sum(case.costs.cost("all_gather", group.size) for group in groups) if halves else 0
    busy = sum(case.costs.cost(first, group.size) for group in groups) + gathers + case.lars_gather

    forward, last_end = sum(work.forward), communication_ends(case, groups, first)[-1]
    iteration = (case.micro_batches - 1) * (forward + work.backward) + max(work.backward, last_end)
    if pipeline == "dear" or (pipeline == "zero" and case.schedule.get("overlap_gather", True)):
        return iteration + gathered_forward(case, groups), busy
    update = case.distributed_lars + case.lars_gather + case.update
    return iteration + update + gathers + case.read + forward, busy


def build_case(scenario, workers, schedule, stragglers):
    profile, network = scenario["profile"], scenario["network"]
    slowdown = max(exact(stragglers.get(worker, 1)) for worker in range(workers))
    collectives = {"all_reduce": "ring", **scenario.get("collectives", {}), **schedule.get("collectives", {})}
    costs = Collectives(network, workers, collectives["all_reduce"])

    update, reading = scenario.get("update", {}), scenario.get("input", {})
    optimizer, lars = exact(update.get("optimizer_us", 0)), exact(update.get("lars_us", 0))
    distributed = update.get("parallel_tensor_operator", False)
    return Case(
        workers=workers, schedule=schedule, work=work_of(profile, slowdown), costs=costs,
        micro_batches=scenario.get("accumulation_steps", 1),
        read=0 if reading.get("overlapped", True) else picoseconds(exact(reading.get("read_us", 0))),
        distributed_lars=picoseconds(lars / workers * slowdown) if distributed else 0,
        lars_gather=costs.cost("all_gather", 4 * len(profile["layers"])) if distributed else 0,
        update=picoseconds((optimizer if distributed else optimizer + lars) * slowdown))


def with_input(scenario, iteration):
    reading = scenario.get("input", {})
    overlapped = reading.get("overlapped", True)
    return max(iteration, picoseconds(exact(reading.get("read_us", 0)))) if overlapped else iteration


def result_of(scenario, case, groups, one_worker):
    iteration, busy = iteration_and_communication(case, groups)
    forward, backward = case.micro_batches * sum(case.work.forward), case.micro_batches * case.work.backward
    exposed = iteration - forward - backward - case.distributed_lars - case.update - case.read
    whole = with_input(scenario, iteration)
    speedup = Fraction(one_worker * case.workers, whole)
    samples = scenario["profile"]["batch_size"] * case.micro_batches * case.workers
    return {
        "workers": case.workers, "groups": len(groups),
        "iteration_us": whole / 1e6, "forward_us": forward / 1e6, "backward_us": backward / 1e6,
        "communication_us": busy / 1e6, "exposed_communication_us": exposed / 1e6,
        "throughput_samples_per_s": float(Fraction(samples * 10**12, whole)),
        "speedup": float(speedup), "scaling_efficiency": float(speedup / case.workers),
    }


def resolve(schedule):
    """A schedule's choices: its preset's, then its own."""
    own = {"name": schedule} if isinstance(schedule, str) else schedule
    return {"pipeline": "wfbp", "fusion": "none", **(PRESETS[own["name"]] if "name" in own else {}), **own}


def evaluate(scenario):
    """One result per number of workers and, inside, per schedule, in the scenario's order. `accepted` in a result lists
    what a program may answer: the result itself and, for `optimal`, groupings that are as good."""
    stragglers = {entry["worker"]: entry["slowdown"] for entry in scenario.get("stragglers", [])}
    results = []
    for workers in scenario["workers"]:
        for entry in scenario["schedules"]:
            schedule = resolve(entry)
            alone = build_case(scenario, 1, schedule, {})
            one_worker = with_input(scenario, iteration_and_communication(alone, fuse(alone)[0])[0])
            case = build_case(scenario, workers, schedule, stragglers)
            groups, equally_good = fuse(case)
            result = result_of(scenario, case, groups, one_worker)
            accepted = [result_of(scenario, case, other, one_worker) for other in equally_good]
            results.append({**result, "schedule": entry, "accepted": accepted})
    return results


# ---------------------------------------------------------------- random scenarios

FLAT_ALGORITHMS = ["ring", "binary_tree", "recursive_doubling", "halving_doubling", "double_binary_tree",
                   {"algorithm": "double_binary_tree", "bandwidth_factor": 1}]
WORKER_COUNTS = [1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 64, 100, 256, 1000, 1024, 2048]


def chance(rng, probability):
    return rng.random() < probability


def random_time(rng, least=-3.0, most=4.0):
    """At most six decimals, so exact in picoseconds; round numbers often, to meet ticks and ties."""
    kind = rng.random()
    if kind < 0.12:
        return 0
    if kind < 0.4:
        return rng.choice([5, 10, 20, 50, 100, 250, 1000])
    return round(10 ** rng.uniform(least, most), 6)


def random_profile(rng):
    layers, count = [], rng.randint(1, 10)
    most_tensors = rng.choice([1, 2, 3])
    for index in range(count):
        elements = [rng.choice([1, 64, 1000, 250_000, int(10 ** rng.uniform(0, 6.6))])
                    for _ in range(0 if chance(rng, 0.2) else rng.randint(1, most_tensors))]
        if index == count - 1 and not elements and not any(layer["tensors"] for layer in layers):
            elements = [rng.randint(1, 10**6)]
        tensors = [{"name": f"layer{index}.t{i}", "elements": size} for i, size in enumerate(elements)]
        backward = random_time(rng)
        if tensors and chance(rng, 0.3):
            parts = [random_time(rng) for _ in tensors]
            for tensor, part in zip(tensors, parts):
                tensor["backward_us"] = part
            backward = sum(picoseconds(exact(part)) for part in parts) / 1e6
        layers.append({"name": f"layer{index}", "kind": "linear", "forward_us": random_time(rng),
                       "backward_us": backward, "tensors": tensors})
    layers[rng.randrange(count)]["forward_us"] = rng.choice([150, 1234.567891, 4000])
    return {"format": "fusewise.profile", "version": 1, "model": "random", "batch_size": rng.choice([1, 32, 64]),
            "dtype": rng.choice(list(BYTES_PER_ELEMENT)), "device": "none",
            "origin": {"kind": "estimated", "source": "oracle"}, "layers": layers}


def random_link(rng):
    link = {"alpha_us": random_time(rng, -1, 2.7), "beta_us_per_byte": round(10 ** rng.uniform(-5.5, -2.2), 9)}
    if chance(rng, 0.4):
        link["gamma_us_per_byte"] = round(10 ** rng.uniform(-6, -3), 9)
    return link


def random_curve(rng):
    if chance(rng, 0.35):
        edges = [0] + sorted(rng.sample(range(1000, 5_000_000), rng.randint(1, 3)))
        return {"segments": [{"from_bytes": a, "to_bytes": b, "startup_us": random_time(rng, -1, 3),
                              "us_per_byte": round(10 ** rng.uniform(-5, -3), 9)} for a, b in zip(edges, edges[1:])]}
    sizes = sorted(rng.sample(range(1000, 5_000_000), rng.randint(1, 5)))
    times = [round(10 ** rng.uniform(1, 4), 6) for _ in sizes]
    return {"curve": [list(point) for point in zip(sizes, times if chance(rng, 0.3) else sorted(times))]}


def random_measured(rng, workers, complete):
    """Curves; a complete list answers every question, another has gaps, decoys and repetitions."""
    entries = []
    for collective in ("all_reduce", "reduce_scatter", "all_gather"):
        for count in workers:
            for algorithm in rng.sample([None, "ring", "binary_tree", "double_binary_tree"], rng.randint(0, 3)):
                named = {} if algorithm is None else {"algorithm": algorithm}
                entries.append({"collective": collective, **named, "workers": count, **random_curve(rng)})
            if complete:
                entries.append({"collective": collective, "workers": count, **random_curve(rng)})
    return entries


def random_network(rng):
    """A network, worker counts it can serve, and the all-reduce algorithms that make sense on it."""
    network = {"format": "fusewise.network", "version": 1, "name": "random",
               "origin": {"kind": "estimated", "source": "oracle"}}
    workers = rng.sample(WORKER_COUNTS, rng.randint(1, 3))
    algorithms = list(FLAT_ALGORITHMS)
    kind = rng.choice(["link", "link", "two levels", "two levels", "three levels", "measured"])
    if kind == "link" or chance(rng, 0.1):
        network["link"] = random_link(rng)
    if kind in ("two levels", "three levels"):
        node, rack = rng.choice([2, 4, 8]), rng.choice([2, 4])
        levels = [{"name": "node", "size": node, "link": random_link(rng)}, {"name": "net", "link": random_link(rng)}]
        counts = [1, node, node * 2, node * 3, node * 16, node * 25]
        if kind == "three levels":
            levels.insert(1, {"name": "rack", "size": rack, "link": random_link(rng)})
            counts = [1, 2, node, node * 2, node * rack * 2, node * rack * 5]
        else:
            if chance(rng, 0.5):
                levels[1]["shared"] = True
            algorithms = ["two_level"] * 5 + algorithms
        network["levels"] = levels
        workers = rng.sample(sorted(set(counts)), rng.randint(1, 3))
    sent = [count for count in workers if count > 1]
    if sent and (kind == "measured" or chance(rng, 0.25)):
        network["measured"] = random_measured(rng, sent, complete=kind == "measured")
    if not {"link", "levels", "measured"} & network.keys():
        network["link"] = random_link(rng)
    if chance(rng, 0.2):
        network["line_rate_gbps"] = rng.choice([10.0, 100])
    return network, workers, algorithms


def random_plan(rng, profile, workers, pipeline):
    tensors, groups = work_of(profile, 1).tensors, []
    while tensors:
        count = rng.randint(1, len(tensors))
        groups.append({"tensors": [t.name for t in tensors[:count]], "bytes": total_size(tensors[:count])})
        tensors = tensors[count:]
    return {"format": "fusewise.plan", "version": 1, "model": profile["model"], "workers": workers[0],
            "pipeline": pipeline, "collectives": {"all_reduce": "ring"}, "compression": "none", "optimality": "heuristic",
            "predicted": {"iteration_us": 0, "lower_bound_us": 0, "compared_with": []}, "groups": groups}


def random_fusion(rng, profile, workers, pipeline):
    tensors = work_of(profile, 1).tensors
    run = rng.choice([tensors, tensors[::-1]])[:rng.randint(1, len(tensors))]
    cap = rng.choice([total_size(run), max(1, int(total_size(tensors) / rng.uniform(1, 6)))])  # the first meets edges
    kinds = ["none", "all", "mg-wfbp", "mg-wfbp", "buckets", "threshold", "threshold", "modules", "layers", "groups"]
    if pipeline in ("wfbp", "after_backward") and len(tensors) <= MOST_TENSORS_FOR_OPTIMAL:
        kinds += ["optimal", "optimal"]
    if len(workers) == 1:
        kinds.append("plan")
    kind = rng.choice(kinds)
    options = {"kind": kind}
    if kind in ("buckets", "threshold", "modules") and (kind == "buckets" or chance(rng, 0.85)):
        options["cap_bytes"] = cap
    if kind == "buckets" and chance(rng, 0.5):
        options["first_cap_bytes"] = rng.choice([tensors[0].size, max(1, cap // 3)])
    if kind == "threshold" and chance(rng, 0.7):
        options["cycle_us"] = rng.choice([2.5, 5, 10, 100, 1000, round(rng.uniform(1, 3000), 6)])
    if kind in ("layers", "groups") and chance(rng, 0.8):
        options["count"] = rng.randint(1, 12 if kind == "groups" else 5)
    if kind == "plan":
        options["file"] = random_plan(rng, profile, workers, pipeline)
    return kind if len(options) == 1 and chance(rng, 0.7) else options


def random_schedule(rng, profile, workers, algorithms):
    too_many = len(work_of(profile, 1).tensors) > MOST_TENSORS_FOR_OPTIMAL
    preset = rng.choice([name for name in PRESETS if not (too_many and name == "fusewise")])
    if chance(rng, 0.35):
        return preset
    if chance(rng, 0.15):
        schedule = {"name": preset}
        pipeline = PRESETS[preset]["pipeline"]
    else:
        pipeline = rng.choice(["after_backward", "wfbp", "wfbp", "dear", "dear", "zero"])
        schedule = {} if pipeline == "wfbp" and chance(rng, 0.3) else {"pipeline": pipeline}
    if chance(rng, 0.9):
        schedule["fusion"] = random_fusion(rng, profile, workers, pipeline)
    if pipeline == "zero" and chance(rng, 0.6):
        schedule["overlap_gather"] = chance(rng, 0.4)
    if chance(rng, 0.3):
        schedule["collectives"] = {"all_reduce": rng.choice(algorithms)}
    return schedule


def random_scenario(seed):
    rng = random.Random(seed)
    profile = random_profile(rng)
    network, workers, algorithms = random_network(rng)
    schedules = []
    for _ in range(rng.randint(1, 5)):
        schedule = random_schedule(rng, profile, workers, algorithms)
        if schedule not in schedules:
            schedules.append(schedule)
    scenario = {"format": "fusewise.scenario", "version": 1, "name": f"random-{seed}", "profile": profile,
                "network": network, "workers": workers, "schedules": schedules}
    if chance(rng, 0.6):
        scenario["collectives"] = {"all_reduce": rng.choice(algorithms)}
    if chance(rng, 0.3):
        scenario["iterations"] = rng.randint(2, 5)
    if chance(rng, 0.3):
        scenario["accumulation_steps"] = rng.randint(1, 4)
    if chance(rng, 0.3):
        scenario["input"] = {"read_us": random_time(rng, 0, 5), "overlapped": chance(rng, 0.5)}
    if chance(rng, 0.35):
        scenario["update"] = {"optimizer_us": random_time(rng, 0, 4)}
        if chance(rng, 0.7):
            scenario["update"]["lars_us"] = round(1 + random_time(rng, 0, 4), 6)
            scenario["update"]["parallel_tensor_operator"] = chance(rng, 0.6)
    if chance(rng, 0.25):
        indices = rng.sample(range(max(workers) + 3), rng.randint(1, 2))
        scenario["stragglers"] = [{"worker": index, "slowdown": rng.choice([1.25, 1.5, 2, 3])} for index in indices]
    return scenario


# ---------------------------------------------------------------- comparison


def agrees(field, expected, got):
    if isinstance(got, bool) or not isinstance(got, (int, float)):
        return False
    if field == "groups":
        return got == expected
    return abs(got - expected) <= max(1e-6 * abs(expected), 1e-3 if field in TIMES else 0)


def differences(expected, got):
    """Fields that differ from the accepted answer nearest to what the program gave."""
    lists = [[(field, answer[field], got.get(field)) for field in FIELDS if not agrees(field, answer[field], got.get(field))]
             for answer in expected["accepted"]]
    return min(lists, key=len)


def check(program, scenario, path):
    """Runs the program; one line for each difference."""
    path.write_text(json.dumps(scenario, indent=1))
    try:
        run = subprocess.run([program, "simulate", str(path), "--json"], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return ["not done after 120 s"]
    if run.returncode != 0:
        return [f"exit {run.returncode}: {run.stderr.strip()}"]
    try:
        got = json.loads(run.stdout)["results"]
    except (ValueError, KeyError, TypeError) as error:
        return [f"no results in its output: {error!r}"]
    expected = evaluate(scenario)
    if not isinstance(got, list) or len(got) != len(expected) or not all(isinstance(entry, dict) for entry in got):
        return [f"a list of {len(expected)} results expected"]
    lines = []
    for one, other in zip(expected, got):
        wrong = differences(one, other)
        if other.get("workers") != one["workers"]:
            wrong = [("workers", one["workers"], other.get("workers"))]
        elif isinstance(one["schedule"], str) and other.get("schedule") != one["schedule"]:
            wrong = [("schedule", one["schedule"], other.get("schedule"))]
        where = f"workers {one['workers']}, schedule {json.dumps(one['schedule'])}"
        lines += [f"{where}, {field}: expected {want}, got {have}" for field, want, have in wrong]
    return lines


def compare(program, seeds, shown):
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            lines = check(program, random_scenario(seed), Path(folder) / f"random-{seed}.scenario.json")
            passed, failed = passed + (not lines), failed + bool(lines)
            if lines and failed <= shown:
                print(*(f"seed {seed}: {line}" for line in lines[:6]), sep="\n")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


# ---------------------------------------------------------------- the oracle's own test


def scenario_of(layers, link, workers, schedules, algorithm):
    profile = {"model": "known", "batch_size": 1, "dtype": "float32", "layers": [
        {"name": f"l{i}", "forward_us": forward, "backward_us": backward, "tensors": [{"name": f"t{i}", "elements": size}]}
        for i, (forward, backward, size) in enumerate(layers)]}
    return {"profile": profile, "network": {"link": link}, "workers": [workers], "schedules": schedules,
            "collectives": {"all_reduce": algorithm}}


def googlenet(log):
    """The MG-WFBP authors' simulation: a layer's weight and bias are one tensor, forward is half of backward."""
    rows = [json.loads(line[line.index("] [") + 2:]) for line in log.read_text().splitlines()][-128:]
    layers = [(weight[2] / 2, weight[2], weight[1] + bias[1]) for weight, bias in zip(rows[::2], rows[1::2])]
    link = {"alpha_us": 45.25, "beta_us_per_byte": 1.2e6 / (9 * 2**30 / 8), "gamma_us_per_byte": 160e6 / 64e9}
    return scenario_of(layers, link, 64, ["wfbp", "sync-easgd", "mg-wfbp"], "ring")


def self_test(log):
    """Known answers (microseconds, groups): the smallest case in which the greedy loses, and the paper's GoogleNet."""
    four = scenario_of([(0, 0.9, 200)] * 4, {"alpha_us": 1, "beta_us_per_byte": 0.001}, 2,
                       ["mg-wfbp", "fusewise", "wfbp"], "recursive_doubling")
    tests = [(four, [(7.8, 1), (7.0, 2), (8.1, 4)], 1e-9)]
    if log:
        tests.append((googlenet(log), [(704.4e3, 64), (550.1e3, 1), (407.8e3, 3)], 50))
    failed = 0
    for scenario, known, tolerance in tests:
        for result, (iteration, groups) in zip(evaluate(scenario), known):
            good = abs(result["iteration_us"] - iteration) <= tolerance and result["groups"] == groups
            failed += not good
            print(f"{'ok' if good else 'WRONG'}: {result['schedule']}: {result['iteration_us']:.3f} us in "
                  f"{result['groups']} groups, known {iteration} in {groups}")
    return 1 if failed else 0


def seed_range(text):
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def main():
    parser = argparse.ArgumentParser(description="Compares a program's `simulate` with the contract's formulas.")
    parser.add_argument("program", nargs="?", help="the program to test")
    parser.add_argument("--seeds", type=seed_range, default=range(0, 200), metavar="A..B", help="both included (0..199)")
    parser.add_argument("--show", type=int, default=5, metavar="N", help="failing seeds printed in detail (5)")
    parser.add_argument("--print", type=int, metavar="SEED", help="print one scenario and what is expected of it")
    parser.add_argument("--self-test", nargs="?", const="", metavar="LOG", help="known answers; LOG is tmp8comm.log")
    arguments = parser.parse_args()
    if arguments.self_test is not None:
        return self_test(Path(arguments.self_test) if arguments.self_test else None)
    if arguments.print is not None:
        scenario = random_scenario(arguments.print)
        print(json.dumps({"scenario": scenario, "expected": evaluate(scenario)}, indent=1))
        return 0
    if arguments.program is None:
        parser.error("a program is needed")
    if shutil.which(arguments.program) is None:
        parser.error(f"cannot run {arguments.program}")
    return compare(arguments.program, arguments.seeds, arguments.show)


if __name__ == "__main__":
    sys.exit(main())
