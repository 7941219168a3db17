# Makes a scenario on which a program and the oracle differ as small as it gets while they still differ.

import copy


def smaller(scenario):
    """Scenarios with one thing less."""
    def without(change):
        other = copy.deepcopy(scenario)
        change(other)
        return other

    for key in ("schedules", "workers", "stragglers"):
        for index in range(len(scenario.get(key, []))):
            if len(scenario[key]) > 1:
                yield without(lambda s: s[key].pop(index))
    for key in ("stragglers", "input", "update", "accumulation_steps", "iterations", "overlap", "collectives"):
        if key in scenario:
            yield without(lambda s: s.pop(key))
    for key in ("input", "update", "overlap"):
        for inner in scenario.get(key, {}):
            yield without(lambda s: s[key].pop(inner))
    for index, schedule in enumerate(scenario["schedules"]):
        if isinstance(schedule, dict):
            for key in schedule:
                yield without(lambda s: s["schedules"][index].pop(key))
            for part in ("encode", "decode"):
                for inner in [] if schedule.get("compression", "none") == "none" else schedule["compression"].get(part, {}):
                    yield without(lambda s: s["schedules"][index]["compression"][part].pop(inner))
    for index in range(len(scenario["profile"]["layers"])):
        yield without(lambda s: s["profile"]["layers"].pop(index))
        for at, _ in enumerate(scenario["profile"]["layers"][index]["tensors"]):
            if "backward_us" not in scenario["profile"]["layers"][index]["tensors"][at]:
                yield without(lambda s: s["profile"]["layers"][index]["tensors"].pop(at))
    for index in range(len(scenario["network"].get("measured", []))):
        yield without(lambda s: s["network"]["measured"].pop(index))


def complaints(lines):
    """The fields that differ; a program that refuses the scenario has another complaint."""
    return {line.split(": expected")[0].rsplit(",")[-1] for line in lines}


def reduced(scenario, check):
    """`check` gives the differences of a scenario. What is left shares one with the whole."""
    wanted, again = complaints(check(scenario)), True
    while again and wanted:
        again = False
        for candidate in smaller(scenario):
            try:
                same = complaints(check(candidate)) & wanted
            except (KeyError, IndexError, ValueError, TypeError, StopIteration, ZeroDivisionError):
                continue  # nothing left to simulate, as far as the oracle sees
            if same:
                scenario, again = candidate, True
                break
    return scenario
