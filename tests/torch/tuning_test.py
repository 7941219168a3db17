#!/usr/bin/env python3
"""fusewise torch on the CPU: `tuning_test.py PROGRAM` (build/fusewise).

A script that knows nothing of fusewise is measured on two ranks, ends with the parameters that it would have without, and
gets a setting that is not slower than its own; what cannot be measured is refused in one line.
"""
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python"))

from fusewise.torch import prediction, report, trials, tuning  # noqa: E402

DEADLINE_S = 200
SCRIPT = """
import sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(64))
        self.layers = nn.Sequential(nn.Linear(64, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 64))

    def forward(self, x):
        return self.layers(x + self.bias)


torch.set_num_threads(1)
dist.init_process_group("gloo")
torch.manual_seed(1)
model = DistributedDataParallel(Model(){arguments})
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
torch.manual_seed(dist.get_rank())
for step in range({steps}):
    optimizer.zero_grad()
    {before}
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
if dist.get_rank() == 0:
    torch.save(model.module.state_dict(), sys.argv[1])
dist.barrier()
"""


def fail(message):
    sys.exit(f"tuning_test.py: {message}")


def check(what, got, wanted):
    if got != wanted:
        fail(f"{what}: got {got}, expected {wanted}")


# ---- without torch


def check_intervals():
    """The interval's places against all outcomes of signs: below the place of its low end lies at most 2.5 %."""
    for count in range(1, 13):
        low, high = trials.median_interval(count)
        check(f"interval of {count}", high, count - 1 - low)
        outcomes = [sum(signs) for signs in itertools.product((0, 1), repeat=count)]
        missed = sum(1 for below in outcomes if below <= low) / len(outcomes)  # the median lies under sorted[low]
        if low > 0 and missed > 0.025 + 1e-12:
            fail(f"an interval from place {low} of {count} misses {2 * missed:.3f}")
        wider = sum(1 for below in outcomes if below <= low + 1) / len(outcomes)
        if wider <= 0.025 and low + 1 < count / 2:
            fail(f"an interval from place {low + 1} of {count} would do")
    print("intervals of medians hold what they promise, and are no wider")


def result_of(default_us, other_us):
    costs = prediction.Costs({"model": "m", "dtype": "float32", "layers": [
        {"name": "l", "forward_us": 1, "backward_us": 2, "tensors": [{"name": "l.w", "elements": 4, "backward_us": 2}]}]},
        [[16, 5.0]], 2, 0.0)
    settings = [prediction.Setting("default", {}, "none", None, 10.0),
                prediction.Setting("bucket_cap_mb=4", {"bucket_cap_mb": 4}, "none", None, 5.0)]
    return tuning.Result(costs, None, settings, [default_us, other_us], 1, (default_us, other_us), [[0.0], [0.0]])


def check_advice():
    """Drifts cancel in pairs; what is not surely faster is not advised, however good its prediction."""
    rng = random.Random(1)
    drift = [1e4 + 500 * step for step in range(16)]
    faster = [each - 100 + rng.uniform(-20, 20) for each in drift]
    text = report.text(result_of(drift, faster), "plan.json")
    if "set     DistributedDataParallel(model, bucket_cap_mb=4)" not in text or "expect  0.1 ms less" not in text:
        fail(f"a setting that is always 0.1 ms faster is not advised:\n{text}")
    noise = [each + rng.uniform(-300, 300) for each in drift]
    text = report.text(result_of(drift, noise), "plan.json")
    if "keep the default" not in text:
        fail(f"noise was taken for a gain:\n{text}")
    print("what is not surely faster is not advised")


def check_caps():
    """A rounded cap closes the bucket at the same tensor as the exact one."""
    rng = random.Random(2)
    for _ in range(2000):
        sizes = [4 * rng.randint(1, 10 ** rng.randint(1, 7)) for _ in range(rng.randint(1, 9))]
        cap, held = int(prediction.short_cap(sizes) * 2**20), 0
        for place, size in enumerate(sizes):
            held += size
            if held >= cap:
                break
        check(f"bucket of {sizes}", place, len(sizes) - 1)
    print("short caps make the plan's buckets")


# ---- scripts


def run(folder, program, script, *words):
    file = pathlib.Path(folder) / "train.py"
    file.write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "FUSEWISE_PROGRAM": program, "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.run([sys.executable, "-m", "fusewise.torch", "--nproc", "2", "--rounds", "6", *words, "train.py", "trained.pt"],
                          cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE_S)


def check_script(folder, program):
    import torch
    script = SCRIPT.format(arguments="", steps=90, before="pass")
    done = run(folder, program, script, "--go-on")
    if done.returncode != 0:
        fail(f"exit code {done.returncode}: {done.stderr}")
    *_, what, expected = done.stdout.splitlines()
    if not what.startswith("set     ") or not expected.startswith("expect  "):
        fail(f"the last lines are not what to set and what to expect:\n{done.stdout}")
    measured = json.loads((pathlib.Path(folder) / "fusewise-torch" / "measured.json").read_text())
    if ("keep the default" in what) != (measured["saving"]["low_us"] <= 0):
        fail(f"{what!r} with a saving of {measured['saving']}")
    profile = json.loads((pathlib.Path(folder) / "fusewise-torch" / "job.profile.json").read_text())
    check("last gradient", profile["layers"][0]["tensors"][0]["name"], "bias")
    scenario = pathlib.Path(folder) / "fusewise-torch" / "job.json"
    again = subprocess.run([program, "simulate", str(scenario), "--json"], check=True, capture_output=True, timeout=DEADLINE_S)
    for setting, entry in zip(measured["settings"], json.loads(again.stdout)["results"]):
        if abs(setting["predicted_us"] - entry["iteration_us"]) > 1e-3 * entry["iteration_us"]:
            fail(f"{setting['name']}: the scenario says {entry['iteration_us']}, the table {setting['predicted_us']}")
    ours = torch.load(pathlib.Path(folder) / "trained.pt")
    theirs = trained_alone(folder)
    for name, tensor in theirs.items():
        if not torch.allclose(ours[name], tensor, rtol=1e-3, atol=1e-5):
            fail(f"{name} differs from a run without fusewise by {(ours[name] - tensor).abs().max()}")
    print("a script that is measured trains as without:", what)


def trained_alone(folder):
    import socket
    import torch
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [subprocess.Popen([sys.executable, "train.py", "alone.pt"], cwd=folder, env={**common, "RANK": str(rank)})
             for rank in range(2)]
    try:
        check("exit codes without fusewise", [rank.wait(timeout=DEADLINE_S) for rank in ranks], [0, 0])
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    return torch.load(pathlib.Path(folder) / "alone.pt")


def check_refused(folder, program):
    cases = ((", find_unused_parameters=True", "pass", 90, 2, "are not measured"),
             ("", "with model.no_sync(): model(torch.randn(8, 64)).sum().backward()", 90, 2, "no_sync()"),
             ("", "model(torch.randn(8, 64))", 90, 2, "twice before a backward pass"),
             ("", "pass", 20, 1, "before all was measured"))
    for arguments, before, steps, code, words in cases:
        done = run(folder, program, SCRIPT.format(arguments=arguments, steps=steps, before=before))
        check(f"exit code where {words!r}", done.returncode, code)
        said = [line for line in done.stderr.splitlines() if line.startswith("fusewise torch: ")]
        if len(said) != 1 or words not in said[0]:
            fail(f"expected one line with {words!r}, got {done.stderr}")
    print("what cannot be measured is refused in one line")


def main():
    if len(sys.argv) != 2:
        fail("expected the program")
    program = os.path.abspath(sys.argv[1])
    check_intervals()
    check_advice()
    check_caps()
    with tempfile.TemporaryDirectory() as folder:
        check_script(folder, program)
        check_refused(folder, program)


if __name__ == "__main__":
    main()
