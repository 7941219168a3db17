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
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "validate" / "torch")]

import disturbance  # noqa: E402
import suite  # noqa: E402
import torch  # noqa: E402
from fusewise.torch import network, plans, prediction, report, sharding, trials, tuning  # noqa: E402

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
        self.layers = nn.Sequential(nn.Linear(64, 2100), nn.BatchNorm1d(2100), nn.ReLU(), nn.Linear(2100, 64))

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
    check("the iterations of the last line", "(16 further pairs of iterations, 95 % interval " in text.splitlines()[-1], True)
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


def check_disturbance():
    """Who took the processors is counted between two moments; iterations that do not repeat tell of what no counter shows."""
    watch = object.__new__(disturbance.Watch)  # when, and ticks of others and stolen
    per_s = disturbance._TICKS_PER_S * os.cpu_count()
    watch._samples = [(0, 0, 0), (1, per_s, 5), (2, per_s, 6), (3, 1.5 * per_s, 0.25 * per_s + 5), (4, 1.2 * per_s, 0.75 * per_s + 5)]
    check("share of others and thieves", watch.elsewhere(1.5, 2.5), (0.5 + 0.25) / 2)
    check("nothing inside is overlooked", watch.elsewhere(0.9, 1.1), 0.5 + 3 / per_s)
    check("ticks that vanish hide no others", watch.elsewhere(2.5, 4), (0.5 + 0.75) / 2 - 1 / (2 * per_s))
    check("the whole watch", watch.elsewhere(), (1 + 0.5 + 0.75) / 4 + 5 / (4 * per_s))
    check("moments that no samples enclose", [watch.elsewhere(*each) for each in ((-1, 2.5), (2.5, 4.5), (1, 1))], [None] * 3)
    steady = [1e6 * seconds for seconds in [1.0, 1.01, 0.99, 1.0, 1.02, 0.98] * 2]
    spread, drift = [1e6, 1.2e6] * 6, [1e6] * 6 + [1.06e6] * 6
    check("a quiet run", disturbance.reasons(0.05, steady), [])
    check("a shared machine", disturbance.reasons(0.051, steady), ["others took 5 % of the processors"])
    check("a machine that nobody watched", disturbance.reasons(None, steady), ["what others took is not known"])
    check("iterations that spread", disturbance.reasons(0, spread), ["iterations spread by 18 %"])
    check("iterations that drift", disturbance.reasons(0, drift)[-1], "the second half of the iterations differs by 6 %")
    for few in ([], steady[:1], steady[:11]):
        check("few iterations", disturbance.reasons(0, few), [f"{len(few)} iterations in {sum(few) / 1e6:.1f} s are too few"])
    check("short iterations", disturbance.reasons(0, [1e5] * 30), ["30 iterations in 3.0 s are too few"])
    for iteration_us, least, wanted in ((1e5, 16, 80), (1e6, 16, 16), (1e6, 1, 12)):
        check("enough iterations", disturbance.enough_iterations(iteration_us, least), wanted)
    check("this process is its own", disturbance._ticks_of(os.getpid()) > 0 and disturbance._ticks_of(2**22 + 1) == 0, True)
    print("runs beside others, and runs that do not repeat, are not judged")


def check_units():
    """Layers of the units that FSDP2 shards, with the work that it does for each, by hand; the root has what is left."""
    def layer(name, forward, backward, *tensors):
        return {"name": name, "kind": "linear", "forward_us": forward, "backward_us": backward,
                "tensors": [{"name": tensor, "elements": elements} for tensor, elements in tensors]}
    head = {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1, "device": "d", "origin": {"kind": "measured", "source": "s"}}
    profile = {**head, "dtype": "float32", "layers": [
        layer("embed", 1, 2, ("embed.w", 10)), layer("a", 10, 20, ("a.w", 25)), layer("relu", 3, 4), layer("b", 5, 6, ("b.w", 50), ("b.b", 5)),
        layer("head", 7, 8, ("head.w", 100))]}
    costs = sharding.ShardingCosts({"all_gather": [[0, 50.0], [1000, 150.0]], "reduce_scatter": [[0, 60.0], [1000, 260.0]]},
                                   {"startup_us": 100, "us_per_byte": 1}, {"startup_us": 1000, "us_per_byte": 2}, 0.0)
    names = [["a.w"], ["b.w", "b.b"]]
    made = [(one["forward_us"], one["backward_us"], [t["name"] for t in one["tensors"]])
            for one in sharding.profile_of_units(profile, names, costs)["layers"]]
    check("layers of units", made, [(1, 2, []), (10 + 3 + 200, 20 + 4 + 200 + 1200, ["a.w"]), (5 + 320, 6 + 320 + 1440, ["b.w", "b.b"]), (7, 8, [])])
    job = prediction.Costs(profile, [[16, 5.0]], 2, 0.0)
    # 440 bytes: gathered in 50 + 44, scattered in 60 + 88; for both 540 and 1880 of work
    check("the root's parameters", sharding._root_us(job, costs, names), 94 + 148 + 540 + 1880)
    # of these 94 and 440 + 100 of work to gather, once more if it is released
    check("the root's parameters, released", sharding._root_us(job, costs, names, True), 94 + 148 + 540 + 1880 + 94 + 540)
    # layers 3746, units' gathers twice 60 + 72, their scatters 80 + 104; a gather ahead is hidden by embed 1, a 72, head 8, b 60
    one_by_one_us = 546 + 3200 + 2 * (60 + 72) + (80 + 104) + 2662
    check("no gathers ahead", round(sharding.predict(job, costs, names, 0), 6), one_by_one_us)
    check("one gather ahead", round(sharding.predict(job, costs, names, 1), 6), one_by_one_us - 1 - 72 - 8 - 60)
    check("no parameters of the root", sharding._root_us(job, costs, [*names, ["embed.w", "head.w"]]), 0.0)
    check("costs of a group", sharding._line([(30, 100, 330.0), (5, 100, 80.0)]), {"startup_us": 10.0, "us_per_byte": 0.3})
    check("the rest of a sharded job", (sharding.rest(50.0, 30.0, 40.0), sharding.rest(5.0, 30.0, 40.0)), (40.0, 0.0))

    class OnGpu:
        device = torch.device("cuda")
    try:
        sharding.measure(job, OnGpu(), None, None, None, None, [])
        fail("a job on a GPU was measured with the clock of the host")
    except ValueError as refused:
        check("a job on a GPU", str(refused), "expected a process group on CPUs, got one on cuda")
    print("units of FSDP2 cost what their parts do, and only CPUs are timed")


def check_rising():
    """Times of collectives that fall with the size are pooled: their mean stays, and they no longer fall."""
    check("falling times", network._rising([[1, 5.0], [2, 3.0], [4, 4.0], [8, 9.0]]), [[1, 4.0], [2, 4.0], [4, 4.0], [8, 9.0]])
    rng = random.Random(3)
    for _ in range(200):
        curve = [[1 << i, rng.uniform(1, 9)] for i in range(rng.randint(1, 8))]
        times = [us for _, us in network._rising(curve)]
        check("rising", times, sorted(times))
        # The same by its definition: of all averages of runs that begin before, the greatest of the least that end behind.
        raw = [us for _, us in curve]
        mean = lambda a, b: sum(raw[a:b + 1]) / (b - a + 1)  # noqa: E731
        for i, us in enumerate(times):
            wanted = max(min(mean(a, b) for b in range(i, len(raw))) for a in range(i + 1))
            check("near the least squares", abs(us - wanted) < 1e-9, True)
    print("times that fall with the size are pooled")


def check_startup():
    """What an all-reduce adds to others stands for all sizes below a MiB, besides the link's time; none is slower than a larger one."""
    curve = [[4096, 50.0], [65536, 900.0], [262144, 1000.0], [1048576, 4194.304]]
    check("with a startup", network.with_startup(curve, 256.0, 2**20),
          [[4096, 256 + 4096 * 0.004], [65536, 256 + 65536 * 0.004], [262144, 256 + 262144 * 0.004], curve[3]])
    check("with a long startup", network.with_startup(curve, 4000.0, 2**20),
          [[4096, 4016.384], [65536, 4194.304], [262144, 4194.304], curve[3]])
    print("an all-reduce takes its startup and the link's time")


# ---- scripts


def run(folder, program, script, *words):
    file = pathlib.Path(folder) / "train.py"
    file.write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "FUSEWISE_PROGRAM": program, "GLOO_SOCKET_IFNAME": "lo"}
    return subprocess.run([sys.executable, "-m", "fusewise.torch", "--nproc", "2", "--rounds", "6", *words, "train.py", "trained.pt"],
                          cwd=folder, env=environment, capture_output=True, text=True, timeout=DEADLINE_S)


def check_script(folder, program):
    import torch
    script = SCRIPT.format(arguments="", steps=180, before="if step == 1: sys.stdout.write('rank %d\\n' % dist.get_rank())")
    done = run(folder, program, script, "--go-on", "--json")
    if done.returncode != 0:
        fail(f"exit code {done.returncode}: {done.stderr}")
    measured = json.loads((pathlib.Path(folder) / "fusewise-torch" / "measured.json").read_text())
    check("what --json prints, with nothing of the script", json.loads(done.stdout), measured)
    check("what the script prints", sorted(done.stderr.splitlines()), ["rank 0", "rank 1"])
    what = measured["set"]
    if (what is None) != (measured["saving"]["low_us"] <= 0):
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


def check_waiting(folder, program):
    """Layers are not charged with waiting for a device, which on a GPU ends all-reduces that are under way, too."""
    slow = "import fusewise.torch.network as n, time; n.Group.wait = lambda _: time.sleep(0.02)"
    done = run(folder, program, SCRIPT.format(arguments="", steps=200, before=slow))
    check("exit code where waiting takes long", (done.returncode, done.stderr), (0, done.stderr))
    *_, what, expected = done.stdout.splitlines()
    if not what.startswith("set     ") or not expected.startswith("expect  "):
        fail(f"the last lines are not what to set and what to expect:\n{done.stdout}")
    profile = json.loads((pathlib.Path(folder) / "fusewise-torch" / "job.profile.json").read_text())
    compute_us = sum(layer["forward_us"] + layer["backward_us"] for layer in profile["layers"])
    if compute_us >= 20_000:
        fail(f"layers of less than 20 ms take {compute_us} us where the device is waited for so long")
    print("layers are not charged with waiting for the device")


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
    cases = ((", find_unused_parameters=True", "pass", 90, "", 2, "are not measured"),
             ("", "with model.no_sync(): model(torch.randn(8, 64)).sum().backward()", 90, "", 2, "no_sync()"),
             ("", "model(torch.randn(8, 64))", 90, "", 2, "twice before a backward pass"),
             ("", "pass", 20, "", 1, "before all was measured, which takes 110 to 200"),
             ("", "pass", 20, "dist.destroy_process_group()\n", 1, "before all was measured"))
    for arguments, before, steps, after, code, words in cases:
        done = run(folder, program, SCRIPT.format(arguments=arguments, steps=steps, before=before) + after)
        if done.returncode != code:
            fail(f"exit code where {words!r}: got {done.returncode}, expected {code}: {done.stderr}")
        said = [line for line in done.stderr.splitlines() if line.startswith("fusewise torch: ")]
        if len(said) != 1 or words not in said[0]:
            fail(f"expected one line with {words!r}, got {done.stderr}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "FUSEWISE_PROGRAM": program}
    alone = subprocess.run([sys.executable, "-m", "fusewise.torch", "train.py"], cwd=folder, env=environment, capture_output=True,
                           text=True, timeout=DEADLINE_S)
    check("a script without ranks", (alone.returncode, alone.stderr),
          (2, "fusewise torch: train.py: expected ranks, got one process without them: start it with --nproc 2 or under torchrun\n"))
    print("what cannot be measured is refused in one line")


def check_usage(folder, program):
    """A wrong command line is answered with one line, and nothing runs."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python"), "FUSEWISE_PROGRAM": program}
    for words, said in ((["none.py"], "none.py: expected a training script, got no file"),
                        (["--rounds", "5", "x.py"], "--rounds: expected at least 6, which an interval needs, got 5"),
                        (["--rounds", "x", "x.py"], "--rounds: invalid int value: 'x'")):
        done = subprocess.run([sys.executable, "-m", "fusewise.torch", *words], cwd=folder, env=environment, capture_output=True, text=True,
                              timeout=DEADLINE_S)
        check(f"a command line of {words}", (done.returncode, done.stdout, done.stderr), (2, "", f"fusewise torch: {said} (try --help)\n"))
    print("wrong command lines are refused in one line")


def check_page(folder):
    """Only a whole run of validate/torch/suite.py changes the published page."""
    page = pathlib.Path(folder, "page.md")
    before = f"# Accuracy\n\n{suite.MARK}\n\n## earlier\n"
    page.write_text(before)
    publication = suite.Publication(types.SimpleNamespace(output=str(page), began="now", steps=16, note=""))
    job = suite.JOBS[0]
    publication.keep([suite.Case(job, "ddp", 2e5, 1e5, [1e5] * 20, [])], [])
    check("a page while the suite runs", page.read_text(), before)
    publication.finish(["no time for the rest"])
    check("a page after an incomplete run", page.read_text(), before)
    row = "| resnet | 2, 1 Gb/s | ddp | 200.0 | 100.0 | +100.0 % | +0.0 % | yes |"
    check("what an incomplete run leaves", row in pathlib.Path(f"{page}.partial").read_text(), True)
    publication.finish([])
    head, _, rest = page.read_text().partition("## now\n")
    check("a page after a whole run", (head, row in rest, rest.endswith("## earlier\n"), sorted(os.listdir(folder))),
          (f"# Accuracy\n\n{suite.MARK}\n\n", True, True, ["page.md"]))
    done = subprocess.run([sys.executable, suite.__file__, "program", "-o", str(page), "--jobs", "0"], capture_output=True, text=True,
                          timeout=DEADLINE_S)
    check("a page for a part of the suite", (done.returncode, "expected the whole suite" in done.stderr), (2, True))
    page.write_text("# Another page\n")
    done = subprocess.run([sys.executable, suite.__file__, "program", "-o", str(page)], capture_output=True, text=True, timeout=DEADLINE_S)
    check("another page", (done.returncode, "expected a page with" in done.stderr, page.read_text()), (2, True, "# Another page\n"))
    print("only a whole run of the suite is added to its page")


def check_missing():
    """A job that fails, and what there is no time for, make a run incomplete."""
    class Run:
        job, disturbed = suite.JOBS[0], []

        def __init__(self, *_):
            pass

        def calibrate(self):
            return [suite.Case(self.job, strategy, 2e5, 1e5, [], []) for strategy in ("ddp", "one")]

        def run(self, case):
            case.iterations_us = [1e5] * 20

        def tune(self):
            raise suite.Failed("no lab")

        def close(self):
            pass
    own, suite.JobRun = suite.JobRun, Run
    try:
        for minutes, cases, missing in ((1, 2, ["resnet on 2 ranks at 1 Gb/s: no lab"]), (-1, 0, None)):
            arguments = types.SimpleNamespace(minutes=minutes, only="", jobs="0")
            try:
                found = suite.run_all(arguments, "", lambda *_: None)
                check("a job that fails", (len(found[0]), found[1]), (cases, missing))
            except SystemExit as ended:
                check("no time at all", (ended.code, missing), ("ddp_job.py: nothing was measured", None))
    finally:
        suite.JobRun = own
    print("a run says what it lacks")


def costs_of(model):
    """A layer for each module that owns parameters."""
    owned = {}
    for name, parameter in model.named_parameters():
        owned.setdefault(name.rpartition(".")[0], []).append({"name": name, "elements": parameter.numel(), "shape": list(parameter.shape)})
    layers = [{"name": name or "model", "kind": "linear", "forward_us": 1000.0, "backward_us": 2000.0, "tensors": tensors}
              for name, tensors in owned.items()]
    profile = {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1, "dtype": "float32", "device": "d",
               "origin": {"kind": "measured", "source": "s"}, "layers": layers}
    return prediction.Costs(profile, [[64, 200.0], [2**26, 600000.0]], 2, 100.0, {"startup_us": 10.0}, {"startup_us": 10.0})


def check_lines(folder):
    """Each strategy of the suite but the default trains under the lines that were emitted for it."""
    import torch.distributed as dist
    import train
    from torch.nn.parallel import DistributedDataParallel
    if not plans.takes_lists():
        return print(f"PyTorch {torch.__version__} cannot take the lines that are emitted: not run")
    from torch.distributed.fsdp import FSDPModule
    curve = [[64, 100.0], [2**26, 300000.0]]
    measured = sharding.ShardingCosts({"all_gather": curve, "reduce_scatter": curve}, {"startup_us": 100, "us_per_byte": 0},
                                      {"startup_us": 100, "us_per_byte": 0}, 100.0)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    for model_name in ("gpt", "resnet"):
        costs = costs_of(train.MODELS[model_name]())
        strategies = {**suite.predict_ddp(costs), **suite.predict_hooks(costs, costs, {"encode_us": 1.0, "carry_us": 1.0, "ratio": 0.1}),
                      **suite.predict_sharded(train, model_name, costs, measured)}
        for name, strategy in strategies.items():
            check(f"{name} has lines", bool(strategy.lines), name != "ddp")
            lines = pathlib.Path(folder, "lines.py")
            lines.write_text(strategy.lines)
            space = train.wrapped(train.MODELS[model_name](), lines if strategy.lines else None)
            check(f"{model_name}, {name}: sharded", isinstance(space["model"], FSDPModule), suite.is_sharded(suite.Case(None, name, 0, 0, [], [])))
            check(f"{model_name}, {name}: DDP", isinstance(space["model"], DistributedDataParallel), not name.startswith("fsdp"))
            check(f"{model_name}, {name}: micro-batches", "micro_batch" in space, "micro-batches" in name)
            for number in range(2 if "micro-batches" in name else 1):
                inputs, labels = train.batch_of(model_name)
                with train.context(space, number):
                    torch.nn.functional.cross_entropy(space["model"](inputs).flatten(0, -2), labels.flatten()).backward()
    dist.destroy_process_group()
    print(f"{len(strategies)} strategies train under the lines that are emitted for them")


def main():
    if len(sys.argv) != 2:
        fail("expected the program")
    program = os.path.abspath(sys.argv[1])
    check_intervals()
    check_advice()
    check_caps()
    check_disturbance()
    check_missing()
    with tempfile.TemporaryDirectory() as folder:
        check_page(folder)
    os.environ["FUSEWISE_PROGRAM"] = program
    check_units()
    check_rising()
    check_startup()
    with tempfile.TemporaryDirectory() as folder:
        check_lines(folder)
    with tempfile.TemporaryDirectory() as folder:
        check_usage(folder, program)
    with tempfile.TemporaryDirectory() as folder:
        check_script(folder, program)
        check_refused(folder, program)
        check_waiting(folder, program)


if __name__ == "__main__":
    main()
