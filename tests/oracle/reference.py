# What `fusewise simulate` should print for a scenario, and which other answers would be as good.

from fractions import Fraction
from typing import NamedTuple

import fluid
from costs import exact, picoseconds
from timeline import closed, walked
from work import Group, build_case, bytes_sent, grouped, issued_when_ready, load_of, partitions, resolve, work_of

MOST_TENSORS_FOR_OPTIMAL = 12
TIMES = ("iteration_us", "forward_us", "backward_us", "encode_us", "decode_us", "communication_us",
         "exposed_communication_us")
FIELDS = ("groups", *TIMES, "bytes_sent_per_worker", "throughput_samples_per_s", "speedup", "scaling_efficiency")
NEAR = 1e-9  # relative; below it rounding may decide between two groupings


def iteration_and_communication(case, loads, number=Fraction):
    return walked(case, loads, number) if case.interferes else closed(case, loads)


# ---------------------------------------------------------------- the optimum


class Optimum(NamedTuple):
    groups: list
    as_good: list  # groupings that a program may choose instead; the optimum is one of them
    least: int  # iteration, before the input's max
    most: int  # what a heuristic's choice may take; None where the program must find the optimum
    all: list  # (iteration and communication, groups) of every grouping


def cut(tensors, cuts):
    """The grouping that ends a group after tensor i where bit i of `cuts` is set."""
    edges = [0] + [i + 1 for i in range(len(tensors) - 1) if cuts >> i & 1] + [len(tensors)]
    return issued_when_ready([tensors[a:b] for a, b in zip(edges, edges[1:])])


def every_grouping(case):
    """(groups, their loads) of all 2^(n-1)."""
    tensors, known = case.work.tensors, {}

    def load(group):
        key = (group.tensors[0].name, len(group.tensors))
        if key not in known:
            known[key] = load_of(case, group)
        return known[key]

    if len(tensors) > MOST_TENSORS_FOR_OPTIMAL:
        raise ValueError("too many tensors to try all groupings")
    for cuts in range(2 ** (len(tensors) - 1)):
        groups = cut(tensors, cuts)
        yield groups, [load(group) for group in groups]


def may_be_heuristic(case):
    """Where the program's `optimal` need not be exact: slow-downs, and all-gathers or decoding under compute; and
    all-gathers that wait for compute."""
    decodes = case.compressor is not None and any(map(exact, case.compressor.decode.values()))
    limited = case.pipeline == "sharded" or "prefetch" in case.schedule
    return limited or case.interferes and (case.gathers_under_forward or decodes)


def simpler(case):
    """Without slow-downs, and with all all-gathers under the next forward pass."""
    schedule = {key: value for key, value in case.schedule.items() if key not in ("prefetch", "reshard_after_forward")}
    if case.pipeline == "sharded":
        schedule["pipeline"] = "dear"
    return case._replace(compute_factor=Fraction(1), channel_factor=Fraction(1), schedule=schedule)


def optimal(case):
    """By brute force. As good are groupings equal by all the contract says about ties, or, where rounding to
    picoseconds decides between equals, anything within that rounding."""
    count = len(case.work.tensors)
    candidates = [(iteration_and_communication(case, loads, float), groups, loads)
                  for groups, loads in every_grouping(case)]
    least = min(timing[0] for timing, _, _ in candidates)
    limit = least + count + (NEAR * least if case.interferes else 0)
    near = [(groups, loads) for timing, groups, loads in candidates if timing[0] <= limit]
    keys = [(iteration_and_communication(case, loads)[0], len(groups), len(groups[0].tensors)) for groups, loads in near]
    best = min(keys)
    winner = near[keys.index(best)][0]
    as_good = [groups for groups, _ in near]
    # Points where a curve meets the line rate are no whole bytes, so that the program rounds costs there.
    is_whole = Fraction(best[0]).denominator == 1 and not case.costs.raised_curve
    if is_whole and all(key[0] == best[0] for key in keys):
        as_good = [groups for key, (groups, _) in zip(keys, near) if key == best]
    if not may_be_heuristic(case):
        return Optimum(winner, as_good, best[0], None, [])

    # no worse than one group, than each tensor alone, and than the optimum of a network without slow-downs
    undisturbed = optimal(simpler(case))
    plain = [iteration_and_communication(case, [load_of(case, group) for group in groups], float)[0]
             for groups in undisturbed.as_good]
    most = min(candidates[0][0][0], candidates[-1][0][0], max(plain))
    return Optimum(winner, as_good, best[0], most, [(timing, groups) for timing, groups, _ in candidates])


# ---------------------------------------------------------------- results


def with_input(scenario, iteration):
    reading = scenario.get("input", {})
    overlapped = reading.get("overlapped", True)
    return max(iteration, picoseconds(exact(reading.get("read_us", 0)))) if overlapped else iteration


def groups_of(case):
    fusion = case.schedule.get("fusion", "none")
    if fusion == "partitions":
        return issued_when_ready(partitions(case.work.tensors, case.schedule.get("partition_bytes", 4_000_000)))
    return grouped(case.work.tensors, fusion, case.costs)


def is_optimal(schedule):
    fusion = schedule.get("fusion", "none")
    return (fusion if isinstance(fusion, str) else fusion["kind"]) == "optimal"


def one_worker_iteration(scenario, schedule):
    """Uncompressed and without stragglers: what speedup is measured against. How tensors are grouped is all one."""
    alone = build_case(scenario, 1, {**schedule, "fusion": "none"}, Fraction(1))
    loads = [load_of(alone, group) for group in groups_of(alone)]
    return with_input(scenario, closed(alone, loads)[0])


def result_of(scenario, case, groups, one_worker, timing=None):
    loads = [load_of(case, group) for group in groups]
    iteration, busy = timing or iteration_and_communication(case, loads)
    forward, backward = case.micro_batches * sum(case.work.forward), case.micro_batches * case.work.backward
    encode, decode = sum(load.encode for load in loads), sum(load.decode for load in loads)
    compute = forward + backward + encode + decode + case.distributed_lars + case.update + case.read
    whole = with_input(scenario, iteration)
    speedup = one_worker * case.workers / Fraction(whole)
    samples = scenario["profile"]["batch_size"] * case.micro_batches * case.workers
    us = {"iteration_us": whole, "forward_us": forward, "backward_us": backward, "encode_us": encode,
          "decode_us": decode, "communication_us": busy, "exposed_communication_us": iteration - compute}
    return {
        "workers": case.workers, "groups": len(groups), "before_input_us": float(iteration) / 1e6, **{key: float(value) / 1e6 for key, value in us.items()},
        "bytes_sent_per_worker": float(bytes_sent(case, groups)),
        "throughput_samples_per_s": float(Fraction(samples * 10**12) / Fraction(whole)),
        "speedup": float(speedup), "scaling_efficiency": float(speedup / case.workers),
    }


def speeds(scenario, workers):
    """The factors by which workers are slower, the slowest first."""
    stragglers = {entry["worker"]: entry["slowdown"] for entry in scenario.get("stragglers", [])}
    return sorted({exact(stragglers.get(worker, 1)) for worker in range(workers)}, reverse=True)


def together(scenario, workers, schedule, groups):
    """Cases and loads of workers of each speed, as fluid.py wants them."""
    cases, loads = [], []
    for slowdown in speeds(scenario, workers):
        case = build_case(scenario, workers, schedule, slowdown)
        by_name = {tensor.name: tensor for tensor in case.work.tensors}
        own = [Group([by_name[tensor.name] for tensor in group.tensors], group.issue) for group in groups]
        cases.append(case)
        loads.append([load_of(case, group) for group in own])
    return cases, loads


def fast_workers_matter(scenario, case):
    """A faster worker computes while the slowest still reads its input, and so slows the channel down for all."""
    return (case.channel_factor > 1 and case.gathers_under_forward and case.read > 0
            and len(speeds(scenario, case.workers)) > 1)


def expected_of(scenario, workers, schedule):
    case = build_case(scenario, workers, schedule, speeds(scenario, workers)[0])
    one_worker = one_worker_iteration(scenario, schedule)

    def result(groups, timing=None):
        return result_of(scenario, case, groups, one_worker, timing)

    if is_optimal(schedule):
        best = optimal(case)
        answer = {**result(best.groups), "accepted": [result(groups) for groups in best.as_good]}
        if best.most is not None:
            answer.update(least_us=float(best.least) / 1e6, most_us=float(best.most) / 1e6)
            answer["accepted"] += [result(groups, timing) for timing, groups in best.all]
        return answer
    groups = groups_of(case)
    answer = result(groups)
    accepted = [answer]
    if fast_workers_matter(scenario, case):
        accepted.append(result(groups, fluid.measured(*together(scenario, workers, schedule, groups), Fraction)))
    return {**answer, "accepted": accepted}


def refused(schedule):
    """Dear and zero cannot take a compressor's output apart."""
    compression = schedule.get("compression", "none")
    if schedule["pipeline"] in ("sharded", "priority"):
        return compression != "none"
    return (schedule["pipeline"] in ("dear", "zero") and compression != "none"
            and compression["collective"] == "all_gather")


def evaluate(scenario):
    """One result per number of workers and, inside, per schedule, in the scenario's order; none where the scenario is in
    error. `accepted` in a result lists what a program may answer: the result itself and, for `optimal`, groupings that
    are as good, or, where the program need not find the best, all; then `before_input_us` of what it chose must be between
    `least_us` and `most_us`."""
    schedules = [resolve(entry) for entry in scenario["schedules"]]
    if any(map(refused, schedules)):
        return None
    return [{**expected_of(scenario, workers, schedule), "schedule": entry}
            for workers in scenario["workers"] for entry, schedule in zip(scenario["schedules"], schedules)]
