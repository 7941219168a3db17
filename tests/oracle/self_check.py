# The oracle's own test: three ways to compute an iteration agree on random cases.

import random
from fractions import Fraction

import fluid
from generate import SCENARIOS
from reference import cut, fast_workers_matter, is_optimal, refused, speeds, together
from timeline import closed, walked
from work import build_case, grouped, load_of, resolve


def random_groups(rng, case):
    """The schedule's own; a random grouping instead of an optimum, and now and then of anything else."""
    tensors = case.work.tensors
    if is_optimal(case.schedule) or rng.random() < 0.3:
        return cut(tensors, rng.getrandbits(len(tensors)))
    return grouped(tensors, case.schedule["fusion"], case.costs)


def undisturbed(case):
    return case._replace(compute_factor=Fraction(1), channel_factor=Fraction(1))


def faults(rng, scenario, workers, schedule):
    """Names of the comparisons that fail, and of all that were made."""
    case = build_case(scenario, workers, schedule, speeds(scenario, workers)[0])
    if case.pipeline == "priority":  # there is one way alone
        return [], []
    groups = random_groups(rng, case)
    loads = [load_of(case, group) for group in groups]
    calm = undisturbed(case)

    tests = {"closed and walked, no slow-down": closed(calm, loads) == walked(calm, loads, Fraction)}
    if case.pipeline == "sharded":  # which fluid.py does not know
        return [name for name, passed in tests.items() if not passed], list(tests)
    by_fluid = fluid.measured([case], [loads], Fraction)
    tests["closed and fluid, no slow-down"] = closed(calm, loads) == fluid.measured([calm], [loads], Fraction)
    slowed = walked(case, loads, Fraction)
    if case.interferes:
        tests["walked and fluid, slow-downs"] = slowed == by_fluid
        tests["fractions and floats"] = all(
            abs(float(one) - other) <= 1e-9 * float(one) for one, other in zip(slowed, walked(case, loads, float)))
    if len(speeds(scenario, workers)) > 1:
        name = "the slowest worker decides" + (", but for reading" if fast_workers_matter(scenario, case) else "")
        tests[name] = fluid.measured(*together(scenario, workers, schedule, groups), Fraction) == by_fluid
    return [name for name, passed in tests.items() if not passed], list(tests)


def self_check(seeds):
    """Prints how often each comparison was made and failed. Only where a faster worker matters may one fail."""
    made, failed, examples = {}, {}, {}
    for kind, make in SCENARIOS.items():
        for seed in seeds:
            scenario, rng = make(seed), random.Random(seed)
            schedules = [resolve(entry) for entry in scenario["schedules"]]
            for schedule in [one for one in schedules if not refused(one)]:
                for workers in scenario["workers"]:
                    wrong, tests = faults(rng, scenario, workers, schedule)
                    for name in tests:
                        made[name] = made.get(name, 0) + 1
                    for name in wrong:
                        failed[name] = failed.get(name, 0) + 1
                        examples.setdefault(name, f"{kind} {seed}, workers {workers}, {schedule}")
    for name, count in sorted(made.items()):
        print(f"{name}: {count} cases, {failed.get(name, 0)} differ {examples.get(name, '')}")
    return 1 if any("reading" not in name for name in failed) else 0
