#!/usr/bin/env python3
"""Asks PyTorch's FSDP2 on a mesh of two dimensions (HSDP) whether it does with an emission what the program says.

usage: hsdp_groups.py PROGRAM [--seeds N]      (PyTorch 2.13, four processes over Gloo)

PROGRAM is build/fusewise. Random chains of linear layers get random plans for shard groups of two workers; the emitted
text is executed on four ranks, and fsdp2() of the package is given the same plans. Their collectives are compared with
those of the simulated timeline: groups of ranks, order, bytes and types. PyTorch's streams of the CPU, which do nothing,
are replaced by ones that remember what waits for what; with the simulated durations this gives the times at which tasks
would begin on a GPU whose host is never late. They have to be those of the timeline.
"""

import copy
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "python"))

import fusewise.torch  # noqa: E402
import two_ranks  # noqa: E402
from fsdp_groups import Recorder, chain, check_gradients, random_counts  # noqa: E402
from two_ranks import check  # noqa: E402

DEADLINE_S = 240
WORLD, SHARDS = 4, 2
CHANNELS = {"all_gather": 2, "reduce_scatter": 2, "all_reduce": 3}  # threads of the timeline
RANKS = {"all_gather": [0, 1], "reduce_scatter": [0, 1], "all_reduce": [0, 2]}  # of rank 0, in the mesh of 2 x 2


def random_model(seed):
    """And its input. In every second model two ranks cannot share each tensor without padding."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model, width = chain(rng, multiple=rng.choice([1, 2]))
    return model, torch.ones(2, width)


# ---- what the program says


def profile_of(model, rng):
    layers = [{"name": name, "kind": "linear", "forward_us": rng.randint(5, 100), "backward_us": rng.randint(10, 200),
               "tensors": [{"name": f"{name}.{of}", "elements": p.numel(), "shape": list(p.shape)}
                           for of, p in module.named_parameters()]}
              for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    return {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 2, "dtype": "float32", "device": "d",
            "origin": {"kind": "estimated", "source": "at random"}, "layers": layers}


def case(seed):
    model, _ = random_model(seed)
    rng = random.Random(1000 + seed)
    schedule = {"pipeline": "sharded", "shard_workers": SHARDS, "pad_tensors": True, "gather_early": True, "prefetch": rng.choice([1, 1, 2, 3]),
                "scatters_in_flight": rng.choice([1, 1, 2, 3])}
    if rng.random() < 0.5:
        schedule["kept_groups"] = rng.randint(0, 3)
    if rng.random() < 0.3:
        schedule["reshard_after_backward"] = False
    backward = random.Random(2000 + seed)
    if backward.random() < 0.3:
        schedule["backward_prefetch"] = backward.randint(1, 3)
    names = [name for name, _ in model.named_parameters()][::-1]
    return {"profile": profile_of(model, rng), "schedule": schedule, "accumulation_steps": rng.choice([1, 1, 2]),
            "types": {key: rng.choice(["float32", "bfloat16"]) for key in ("gather", "reduce")},
            "startup_us": rng.choice([1, 30, 100]), "counts": random_counts(rng, names), "names": names}


def plan_of(line, counts):
    names = iter(line["names"])
    elements = {t["name"]: t["elements"] for layer in line["profile"]["layers"] for t in layer["tensors"]}
    groups = [[next(names) for _ in range(count)] for count in counts]
    return {"format": "fusewise.plan", "version": 1, "model": "m", "workers": WORLD, **line["schedule"],
            "collectives": {"all_reduce": "ring"}, "compression": "none", "data_types": line["types"], "optimality": "heuristic",
            "groups": [{"tensors": group, "bytes": sum(4 * elements[name] for name in group)} for group in groups]}


def told(program, line, folder):
    """The emission of a line's plan, with the timeline of the groups that it makes."""
    def write(name, content):
        path = os.path.join(folder, name)
        pathlib.Path(path).write_text(json.dumps(content))
        return path

    def scenario(counts):
        plan = write("plan.json", plan_of(line, counts))
        link = {"alpha_us": line["startup_us"], "beta_us_per_byte": 0.01}
        return write("scenario.json", {
            "format": "fusewise.scenario", "version": 1, "name": "s", "profile": line["profile"], "workers": [WORLD],
            "network": {"format": "fusewise.network", "version": 1, "name": "n", "origin": {"kind": "estimated", "source": "s"}, "link": link},
            "data_types": line["types"], "accumulation_steps": line["accumulation_steps"],
            "schedules": [{**line["schedule"], "fusion": {"kind": "plan", "file": plan}}]})

    def run(*arguments):
        return subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE, text=True, timeout=DEADLINE_S).stdout

    asked = scenario(line["counts"])
    schedule = json.loads(run("simulate", asked, "--quiet", "--json"))["results"][0]["schedule"]
    emit = ("plan", asked, "--schedule", schedule, "--quiet", "--emit", "fsdp")
    out = json.loads(run(*emit, "--json", "-o", os.path.join(folder, "made.json")))
    out["text"] = run(*emit)
    out["plan"] = json.loads(pathlib.Path(folder, "made.json").read_text())
    timeline = os.path.join(folder, "timeline.json")
    run("simulate", scenario([group["tensors"] for group in out["groups"]]), "--quiet", "--timeline", timeline)
    events = json.loads(pathlib.Path(timeline).read_text())["traceEvents"]
    out["timeline"] = sorted((e for e in events if e["ph"] == "X" and e["args"]["iteration"] == 1), key=lambda e: e["ts"])
    return out


def told_of_all(program, lines, _):
    with tempfile.TemporaryDirectory() as folder:
        return [told(program, line, folder) for line in lines]


# ---- the ranks


class Event:
    """What had been issued to a stream, and to those it had waited for, when it was recorded."""

    def __init__(self, *_, **__):
        self.after = set()

    def record(self, stream=None):
        self.after = set((stream or torch.cpu.current_stream()).after)


class Stream:
    def __init__(self, *_, **__):
        self.after = set()

    def wait_stream(self, stream):
        self.after |= stream.after

    def record_event(self):
        event = Event()
        event.record(self)
        return event

    def wait_event(self, event):
        self.after |= event.after


class StreamRecorder(Recorder):
    """Also records the ranks of each collective, the compute of each layer, and what each of them comes after."""

    def __init__(self):
        super().__init__()
        self.number = 0
        torch.cpu.Stream, torch.cpu.Event = Stream, Event
        torch.cpu._default_cpu_stream = torch.cpu._current_stream = Stream()

    def add(self, kind, whole, groups):
        self.issue({"kind": kind, "bytes": whole.numel() * whole.element_size(), "type": str(whole.dtype).removeprefix("torch."),
                    "ranks": dist.get_process_group_ranks(groups[0]), "buffers": self.buffers()})

    def issue(self, event):
        after = torch.cpu.current_stream().after
        self.events.append({**event, "number": self.number, "after": sorted(after)})
        after.add(self.number)
        self.number += 1

    def buffers(self):
        """The inputs of reduce-scatters that compute has not waited for."""
        return len(self.model._get_fsdp_state()._comm_ctx.reduce_scatter_states)

    def watch(self, model):
        recorder = self

        class Backward(torch.autograd.Function):
            """Its backward pass runs when what FSDP does before that of the layer has been issued."""

            @staticmethod
            def forward(ctx, x, name):
                ctx.name = name
                return x.view_as(x)

            @staticmethod
            def backward(ctx, gradient):
                recorder.issue({"kind": f"backward {ctx.name}"})
                return gradient, None

        def ran(name):
            def hook(module, inputs, output):
                recorder.issue({"kind": f"forward {name}"})
                return Backward.apply(output, name)
            return hook

        self.model = model
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear):
                module.register_forward_hook(ran(name))


def iteration(model, x, micro_batches, begin, recorder):
    model.zero_grad()
    recorder.take()
    for batch in range(micro_batches):
        begin(model, batch)
        model(x).sum().backward()
    recorder.issue({"kind": "end"})
    return recorder.take()


def as_emitted(number, emission, recorder):
    """The events of a second iteration under the emitted lines, on CPUs."""
    model, x = random_model(number)
    reference = copy.deepcopy(model)
    recorder.watch(model)
    space = {"model": model}
    exec(emission["text"].replace('"cuda"', '"cpu"'), space)
    begin = space.get("begin_micro_batch", lambda *_: None)
    iteration(model, x, emission["micro_batches"], begin, recorder)
    if "mp_policy" not in emission["text"]:
        check_gradients(f"seed {number}", model, reference, emission["micro_batches"], x)
    return iteration(model, x, emission["micro_batches"], begin, recorder)


def as_package(number, types, emission, mesh, recorder):
    """The same under fsdp2() of the package, which is given the plan."""
    from torch.distributed.fsdp import MixedPrecisionPolicy
    model, x = random_model(number)
    recorder.watch(model)
    policy = MixedPrecisionPolicy(param_dtype=getattr(torch, types["gather"]), reduce_dtype=getattr(torch, types["reduce"]))
    fusewise.torch.fsdp2(model, emission["plan"], mesh=mesh, mp_policy=policy)
    count = emission["micro_batches"]

    def begin(model, batch):
        fusewise.torch.begin_micro_batch(model, emission["plan"], batch, count)
    iteration(model, x, count, begin, recorder)
    return iteration(model, x, count, begin, recorder)


def results_on_rank(rank, store, cases):
    from torch.distributed.device_mesh import init_device_mesh
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    recorder = StreamRecorder()
    mesh = init_device_mesh("cpu", (WORLD // SHARDS, SHARDS), mesh_dim_names=("replicate", "shard"))
    results = []
    for number, (line, emission) in enumerate(cases):
        emitted = as_emitted(number, emission, recorder)
        package = as_package(number, line["types"], emission, mesh, recorder) if emission["groups_reproduced"] else None
        results.append([emitted, package])
    dist.destroy_process_group()
    return torch.__version__, results


# ---- both compared


def padded_elements(shape):
    """FSDP2 cuts the first dimension of a tensor into equal parts, the last of which may be short of rows."""
    return math.ceil(shape[0] / SHARDS) * SHARDS * math.prod(shape[1:])


def check_padding(line, emission):
    """The bytes that the emission says are added to each group."""
    shapes = {t["name"]: t["shape"] for layer in line["profile"]["layers"] for t in layer["tensors"]}
    names = iter(line["names"])
    for group in emission["groups"]:
        of_group = [shapes[next(names)] for _ in range(group["tensors"])]
        added = sum(padded_elements(shape) - math.prod(shape) for shape in of_group)
        check("emission", "bytes of padding", group.get("padding_bytes", 0), 4 * added)


def collectives_said(line, emission):
    """(kind, ranks, bytes, type) by channel, in the order of the timeline."""
    out = {"all_gather": [], "all_reduce": []}
    for event in emission["timeline"]:
        kind = task_of(event)
        if kind not in CHANNELS:
            continue
        check("timeline", f"channel of {kind}", event["tid"], CHANNELS[kind])
        dtype = line["types"]["gather" if kind == "all_gather" else "reduce"]
        out["all_reduce" if kind == "all_reduce" else "all_gather"].append([kind, RANKS[kind], event["args"]["bytes"], dtype])
    return out


def collectives_made(events):
    made = [[e["kind"], e["ranks"], e["bytes"], e["type"]] for e in events if "ranks" in e]
    return {"all_gather": [e for e in made if e[0] != "all_reduce"], "all_reduce": [e for e in made if e[0] == "all_reduce"]}


def check_issue(name, emission, events):
    """Each share is summed right after its reduce-scatter is issued; and so many inputs of reduce-scatters are kept."""
    kinds = [e["kind"] for e in events]
    scatters = [i for i, kind in enumerate(kinds) if kind == "reduce_scatter"]
    check(name, "reduce-scatters", len(scatters), len(emission["groups"]))
    check(name, "after each reduce-scatter", {kinds[i + 1] for i in scatters}, {"all_reduce"})
    check(name, "inputs that are kept at each reduce-scatter", [events[i]["buffers"] for i in scatters],
          [min(i, emission["scatters_in_flight"] - 1) for i in range(len(scatters))])


def task_of(slice_):
    """"all_gather", whatever its group and pass, or "forward NAME"."""
    return slice_["name"].split()[0].replace("-", "_") if "group" in slice_["args"] else slice_["name"]


def check_waits(name, events, timeline):
    """By the waits of PyTorch's streams and the simulated durations, where collectives of one process group run one after
    another, all tasks begin as in the timeline."""
    slices, ends, last_of_group = {}, {}, {}
    for slice_ in timeline:
        slices.setdefault(task_of(slice_), []).append(slice_)
    for event in events:
        kind, group = event["kind"], str(event.get("ranks"))
        begin = max([0, last_of_group.get(group, 0)] + [ends[number] for number in event["after"] if number in ends])
        slice_ = slices[kind].pop(0) if kind != "end" else {"ts": max(s["ts"] + s["dur"] for s in timeline), "dur": 0}
        check(name, f"{kind} begins", round(begin, 3), round(slice_["ts"], 3))
        ends[event["number"]] = begin + slice_["dur"]
        if "ranks" in event:
            last_of_group[group] = ends[event["number"]]
    check(name, "tasks of the timeline that did not run", [kind for kind, left in slices.items() if left], [])


def check_case(seed, line, emission, result):
    name = f"seed {seed}"
    emitted, package = result
    check_padding(line, emission)
    said = collectives_said(line, emission)
    for way, events in (("emitted", emitted), ("fsdp2()", package)):
        if events is None:
            continue
        check(name, f"collectives, {way}", collectives_made(events), said)
        check_issue(name, emission, events)
        check_waits(f"{name}, {way}", events, emission["timeline"])


def main():
    emissions, release = two_ranks.run(__doc__, 30, DEADLINE_S, case, results_on_rank, check_case, WORLD, told_of_all)
    print(f"{len(emissions)} random models and plans: FSDP2 of PyTorch {release} on a mesh of two dimensions runs the collectives "
          f"of the timeline, and all tasks begin as simulated")


if __name__ == "__main__":
    main()
