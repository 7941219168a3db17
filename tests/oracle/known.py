# Answers that are known without this oracle: from a paper's code, or worked out by hand.

import json
from pathlib import Path

from reference import evaluate


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


def two_layers(schedules, **more):
    """Each computes 10 us forward and 10 us backward and has 1000 bytes, which take 4 us and 0.01 us a byte."""
    scenario = scenario_of([(10, 10, 250)] * 2, {"alpha_us": 4, "beta_us_per_byte": 0.01}, 2, schedules, "recursive_doubling")
    return {**scenario, **more}


def compressed(**schedule):
    """To half the bytes: all-reduces of 9 us and halves of 4.5 us for a layer; encodes in 2 us, decodes in 3 us."""
    coding = {"encode": {"startup_us": 2}, "decode": {"startup_us": 1, "floor_us": 3}}
    return {"compression": {"name": "own", "ratio": 0.5, "collective": schedule.pop("collective", "all_reduce"), **coding},
            **schedule}


def horovod(cycle):
    return {"kind": "threshold", "cycle_us": cycle}


# (scenario, [(iteration, communication) in us]). Backward, encoding included, of two layers ends at 10+2+10+2 = 24,
# the groups are encoded at 12 and 24.
BY_HAND = [
    (two_layers([
        compressed(),  # sent 12-21, 24-33; decoded 24-27, 33-36
        compressed(fusion="all"),  # encoded 22, sent 22-36, decoded 39
        compressed(pipeline="after_backward"),  # encoded 22, 24; sent 22-31-40; decoded 31-34, 40-43
        compressed(pipeline="dear"),  # sent 12-16.5, 24-28.5; gathered 4.5, 9; decoded 7.5, forward 17.5, 20.5, 30.5
        compressed(pipeline="zero", overlap_gather=False),  # 28.5; gathered 33, 37.5; decoded 36, 40.5
        compressed(collective="all_gather"),  # 2 workers' 500 bytes: 2 + 0.005 * 1000 us; 12-19, 24-31; 34
        compressed(fusion=horovod(15)),  # ticks 15, 30: sent 15-24, 30-39; decoded 24-27, 39-42
        compressed(fusion=horovod(11)),  # ticks 11, 22 pass before the encoding ends
        compressed(fusion="optimal"),  # one group ends at 39, two at 36
    ]), [(56, 18), (59, 14), (63, 18), (59, 18), (60.5, 18), (54, 14), (62, 18), (56, 18), (56, 18)]),
    # The optimizer's 4 us are two parts, each after its group's decoding; three micro-batches; a straggler's backward
    # ends at 48, its groups are encoded at 24 and 48: sent 24-28.5, 48-52.5; forward 4.5+6+4+20 = 34.5, +6+4+20 = 64.5.
    (two_layers([compressed(pipeline="dear")], update={"optimizer_us": 4}, accumulation_steps=3,
                stragglers=[{"worker": 1, "slowdown": 2}]), [(2 * 80 + 52.5 + 64.5, 18)]),
    # Halves of 7 us. Gathered 0-7, forward 7-17, the second layer under it, forward 17-27.
    (two_layers([
        {"pipeline": "sharded"},  # 27-37, the first layer gathered 27-34; scattered 37-44; 37-47; 47-54
        {"pipeline": "sharded", "reshard_after_forward": True},  # gathered 27-34, 34-41; 34-44, 44-54; 44-51, 54-61
        {"pipeline": "sharded", "prefetch": 0},  # 7 us later; 34-44; scattered 44-51, gathered 51-58; 58-68; 68-75
        # backward 20, scattered 27; gathered by 34 and 41; forward 34-44-54
        {"pipeline": "dear", "prefetch": 1},
    ]), [(54, 35), (61, 42), (75, 35), (54, 28)]),
    # Compute takes twice as long under communication, which takes half as long again under compute.
    (two_layers([
        # from 10 on, both: 30 (14 - 20/1.5 = 2/3 left), alone to 30 2/3, then 14
        {"fusion": "none"},
        # 7 take 10.5, to 20.5; 10 - 5.25 left, to 25.25; then 7. Forward: 7; both to 17.5; 4.75 left, to 22.25; 32.25
        {"pipeline": "dear"},
        # sent from 12 in 13.5, to 25.5; 10 - 6.75 left, to 28.75; encoded 30.75; decoded with 9 being sent: 6, to 36.75;
        # 9 - 4 left, to 41.75; decoded 44.75
        compressed(),
    ], overlap={"compute_slowdown": 1, "communication_slowdown": 0.5}),
     [(20 + 44 + 2 / 3, 34 + 2 / 3), (64.5, 35), (64.75, 24.5)]),
    # Read to 9, not slowed: gathered 7, 2 of the next 7; 5 take 7.5, to 16.5; 10 - 3.75 left, to 22.75; 32.75
    (two_layers([{"pipeline": "dear"}], overlap={"compute_slowdown": 1, "communication_slowdown": 0.5},
                input={"read_us": 9, "overlapped": False}), [(32.25 + 32.75, 10.5 + 7 + 7 + 2 + 7.5)]),
]


def report(name, good, got, known):
    print(f"{'ok' if good else 'WRONG'}: {name}: {got}, known {known}")
    return not good


def self_test(log):
    """In microseconds; first the smallest case in which the greedy loses, and the paper's GoogleNet."""
    four = scenario_of([(0, 0.9, 200)] * 4, {"alpha_us": 1, "beta_us_per_byte": 0.001}, 2,
                       ["mg-wfbp", "fusewise", "wfbp"], "recursive_doubling")
    tests = [(four, [(7.8, 1), (7.0, 2), (8.1, 4)], 1e-9)]
    if log:
        tests.append((googlenet(Path(log)), [(704.4e3, 64), (550.1e3, 1), (407.8e3, 3)], 50))
    failed = 0
    for scenario, known, tolerance in tests:
        for result, (iteration, groups) in zip(evaluate(scenario), known):
            good = abs(result["iteration_us"] - iteration) <= tolerance and result["groups"] == groups
            failed += report(result["schedule"], good, (result["iteration_us"], result["groups"]), (iteration, groups))
    for scenario, known in BY_HAND:
        for result, (iteration, communication) in zip(evaluate(scenario), known):
            good = abs(result["iteration_us"] - iteration) + abs(result["communication_us"] - communication) < 1e-6
            got = (result["iteration_us"], result["communication_us"])
            failed += report(json.dumps(result["schedule"]), good, got, (iteration, communication))
    return 1 if failed else 0
