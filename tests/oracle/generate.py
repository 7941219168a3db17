# Random scenarios: `plain` ones without compression and slow-downs, `varied` ones with them, `ahead` ones about
# all-gathers that wait for compute, and `rivals` with priorities and parameter servers.

import random

from costs import exact, picoseconds
from reference import MOST_TENSORS_FOR_OPTIMAL
from work import BYTES_PER_ELEMENT, PRESETS, resolve, total_size, work_of

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


def random_settings(rng, workers, algorithms):
    """What else a scenario may say."""
    scenario = {}
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


def scenario_of(name, profile, network, workers, schedules):
    return {"format": "fusewise.scenario", "version": 1, "name": name, "profile": profile, "network": network,
            "workers": workers, "schedules": schedules}


def several(rng, random_one):
    schedules = []
    for _ in range(rng.randint(1, 5)):
        schedule = random_one()
        if schedule not in schedules:
            schedules.append(schedule)
    return schedules


def plain_scenario(seed):
    rng = random.Random(seed)
    profile = random_profile(rng)
    network, workers, algorithms = random_network(rng)
    schedules = several(rng, lambda: random_schedule(rng, profile, workers, algorithms))
    return {**scenario_of(f"plain-{seed}", profile, network, workers, schedules),
            **random_settings(rng, workers, algorithms)}


# ---------------------------------------------------------------- compression and slow-downs


def random_coding(rng):
    cost = {}
    if chance(rng, 0.7):
        cost["startup_us"] = random_time(rng, -1, 3)
    if chance(rng, 0.7):
        cost["us_per_byte"] = round(10 ** rng.uniform(-6, -3), 9)
    if chance(rng, 0.4):
        cost["floor_us"] = random_time(rng, 0, 3.3)
    return cost


def random_compressor(rng, gathers):
    ratio = rng.choice([0.001, 0.01, 0.03125, 0.25, 0.5, 1, round(rng.uniform(0.0001, 1), 4)])
    compressor = {"name": "own", "ratio": ratio, "collective": "all_gather" if gathers else "all_reduce"}
    if chance(rng, 0.9):
        compressor["encode"] = random_coding(rng)
    if chance(rng, 0.75):
        compressor["decode"] = random_coding(rng)
    return compressor


def random_overlap(rng):
    """One way or both; seldom neither."""
    values = [0, 0.1, 0.25, 0.5, 1, 2.5, round(rng.uniform(0, 2), 3)]
    overlap = {key: rng.choice(values) for key in ("compute_slowdown", "communication_slowdown")}
    return dict(rng.sample(sorted(overlap.items()), rng.choice([1, 2, 2, 2])))


def varied_schedule(rng, profile, workers, algorithms):
    """Like `random_schedule`, but more often optimal, in every pipeline, and often compressed."""
    if chance(rng, 0.08):
        compressor = random_compressor(rng, chance(rng, 0.5))
        return rng.choice(["fusewise-dear", {"name": "grace", "compression": compressor},
                           {"name": "cupcake", "compression": compressor}])
    entry = random_schedule(rng, profile, workers, algorithms)
    if chance(rng, 0.35):
        pipeline = rng.choice(["after_backward", "wfbp", "wfbp", "dear", "dear", "zero", "zero"])
        entry = {"pipeline": pipeline, "fusion": "optimal"}
        if pipeline == "zero":
            entry["overlap_gather"] = chance(rng, 0.5)
    if chance(rng, 0.35):
        return entry
    entry = {"name": entry} if isinstance(entry, str) else entry
    gathers = chance(rng, 0.4) and resolve(entry)["pipeline"] in ("wfbp", "after_backward")
    return {**entry, "compression": "none" if chance(rng, 0.05) else random_compressor(rng, gathers)}


def varied_scenario(seed):
    rng = random.Random(f"varied {seed}")
    slowed = chance(rng, 0.55)
    profile = random_profile(rng)
    while len(work_of(profile, 1).tensors) > (8 if slowed else 11):
        profile = random_profile(rng)
    network, workers, algorithms = random_network(rng)
    schedules = several(rng, lambda: varied_schedule(rng, profile, workers, algorithms))
    if chance(rng, 0.02):
        schedules.append({"pipeline": rng.choice(["dear", "zero"]), "compression": random_compressor(rng, True)})
    scenario = {**scenario_of(f"varied-{seed}", profile, network, workers, schedules),
                **random_settings(rng, workers, algorithms)}
    return {**scenario, "overlap": random_overlap(rng)} if slowed else scenario


# ---------------------------------------------------------------- all-gathers that wait for compute


def ahead_schedule(rng, profile, workers, algorithms):
    """dear with a limit, or sharded."""
    pipeline = rng.choice(["dear", "sharded", "sharded"])
    schedule = {"pipeline": pipeline}
    if pipeline == "dear" or chance(rng, 0.6):
        schedule["prefetch"] = rng.choice([1, 1, 2, 3, 40] if pipeline == "dear" else [0, 1, 2, 5])
    if pipeline == "sharded" and chance(rng, 0.6):
        schedule["reshard_after_forward"] = chance(rng, 0.5)
    schedule["fusion"] = "optimal" if chance(rng, 0.2) else random_fusion(rng, profile, workers, pipeline)
    if chance(rng, 0.3):
        schedule["collectives"] = {"all_reduce": rng.choice(algorithms)}
    if pipeline == "dear" and chance(rng, 0.3):
        schedule["compression"] = random_compressor(rng, False)
    return schedule


def rival_schedule(rng, profile, workers, algorithms):
    """priority, or parameter servers."""
    tensors = work_of(profile, 1).tensors
    if chance(rng, 0.35):
        schedule = {"pipeline": "parameter_server", "servers": rng.choice([1, 2, 3, 8, 100])}
        if chance(rng, 0.8):
            schedule["fusion"] = "optimal" if chance(rng, 0.3) else random_fusion(rng, profile, workers, "parameter_server")
        return schedule
    schedule = {"name": "bytescheduler"} if chance(rng, 0.3) else {"pipeline": "priority"}
    if chance(rng, 0.9):
        schedule["partition_bytes"] = max(total_size(tensors) // rng.randint(1, 60), 1)
        schedule["credit_bytes"] = max(int(schedule["partition_bytes"] * rng.choice([0.5, 1, 2, 3.5, 20])), 1)
    if chance(rng, 0.4):
        schedule["negotiation_us"] = random_time(rng, -1, 2)
    return schedule


def rivals_scenario(seed):
    rng = random.Random(f"rivals {seed}")
    profile = random_profile(rng)
    while len(work_of(profile, 1).tensors) > 11:
        profile = random_profile(rng)
    network, workers, algorithms = random_network(rng)
    while "measured" in network and "link" not in network and "levels" not in network:
        network, workers, algorithms = random_network(rng)  # servers have to be reached somehow
    schedules = several(rng, lambda: rival_schedule(rng, profile, workers, algorithms))
    return {**scenario_of(f"rivals-{seed}", profile, network, workers, schedules),
            **random_settings(rng, workers, algorithms)}


def ahead_scenario(seed):
    rng = random.Random(f"ahead {seed}")
    slowed = chance(rng, 0.3)
    profile = random_profile(rng)
    while len(work_of(profile, 1).tensors) > 8:
        profile = random_profile(rng)
    network, workers, algorithms = random_network(rng)
    schedules = several(rng, lambda: ahead_schedule(rng, profile, workers, algorithms))
    if chance(rng, 0.02):
        schedules.append({"pipeline": "sharded", "compression": random_compressor(rng, False)})
    scenario = {**scenario_of(f"ahead-{seed}", profile, network, workers, schedules),
                **random_settings(rng, workers, algorithms)}
    return {**scenario, "overlap": random_overlap(rng)} if slowed else scenario


SCENARIOS = {"plain": plain_scenario, "varied": varied_scenario, "ahead": ahead_scenario,
             "rivals": rivals_scenario}
