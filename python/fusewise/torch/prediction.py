"""From what was measured in a job to predictions of its iteration, and to a plan: a scenario for the program."""
from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence

import fusewise
from fusewise.torch import network

MIB = 2**20
_FIRST_BYTES = MIB  # the cap of DDP's first bucket, unless a cap is given
_DEFAULT_MB = 25
_SINGLE_CAPS_MB = (1, 2, 4, 8, 16, 32, 64, 128)


@dataclass(frozen=True)
class Costs:
    """What an iteration is made of, by medians over iterations of the slowest rank. Times are in microseconds."""
    profile: dict[str, Any]  # scaled so that forward and backward take what they do without hooks
    curve: list[list[float]]  # of the all-reduce
    workers: int
    rest_us: float  # optimizer, reading of samples and synchronized buffers
    encode: dict[str, float] = field(default_factory=dict)  # DDP's work per bucket and byte before sending
    decode: dict[str, float] = field(default_factory=dict)  # and after backward
    compute_slowdown: float = 0.0
    communication_slowdown: float = 0.0

    @property
    def compute_us(self) -> float:
        return sum(layer["forward_us"] + layer["backward_us"] for layer in self.profile["layers"])

    @property
    def bytes(self) -> int:
        width = 4 if self.profile["dtype"] == "float32" else 2
        return width * sum(tensor["elements"] for layer in self.profile["layers"] for tensor in layer["tensors"])

    @property
    def not_overlapped_us(self) -> float:
        """The null predictor: computing, and then one all-reduce of everything."""
        return self.compute_us + self.rest_us + network.at(self.curve, self.bytes)


@dataclass(frozen=True)
class Setting:
    """How DistributedDataParallel is set up, and what the simulator makes of it."""
    name: str
    arguments: dict[str, Any]  # of DistributedDataParallel
    fusion: Any
    groups: Optional[list[list[str]]] = None  # where this PyTorch cannot be told, by BucketedDataParallel
    predicted_us: float = math.nan
    behind_us: float = math.nan  # of it behind backward: waiting for gradients, and copying them back


def with_ready_times(profile: Mapping[str, Any], gradients: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The profile with each gradient ready when it was observed to be; backward without parameters is part of that."""
    ready = {gradient["name"]: gradient["ready_us"] for gradient in gradients}
    before, layers = 0.0, []
    for layer in reversed(profile["layers"]):
        tensors = []
        for tensor in reversed(layer["tensors"]):
            tensors.append({**tensor, "backward_us": max(0.0, ready[tensor["name"]] - before)})
            before = max(before, ready[tensor["name"]])
        layers.append({**layer, "tensors": tensors[::-1], "backward_us": sum(t["backward_us"] for t in tensors)})
    return {**profile, "layers": layers[::-1]}


def scaled(profile: Mapping[str, Any], forward_us: float, backward_us: float) -> dict[str, Any]:
    """The profile with these totals: hooks that time layers take time of their own."""
    def factor(key: str, total: float) -> float:
        whole = sum(layer[key] for layer in profile["layers"])
        return total / whole if whole > 0 else 1.0
    forward, backward = factor("forward_us", forward_us), factor("backward_us", backward_us)
    layers = [{**layer, "forward_us": layer["forward_us"] * forward, "backward_us": layer["backward_us"] * backward,
               "tensors": [{**tensor, "backward_us": tensor["backward_us"] * backward} for tensor in layer["tensors"]]}
              for layer in profile["layers"]]
    return {**profile, "layers": layers}


def scenario(costs: Costs, fusions: Sequence[tuple[str, Any]], name: str = "job") -> dict[str, Any]:
    """The job as DistributedDataParallel runs it. Its copies into buckets and out of them, and what it does for each
    bucket, stand where a compressor would that leaves nothing out. Each fusion comes with the label of its schedule."""
    copies = {"name": "copies of DDP", "ratio": 1.0, "encode": costs.encode, "decode": costs.decode,
              "collective": "all_reduce"}
    return {
        "format": "fusewise.scenario", "version": 1, "name": name, "profile": costs.profile, "workers": costs.workers,
        "network": network_file(costs), "update": {"optimizer_us": costs.rest_us},
        "overlap": {"compute_slowdown": costs.compute_slowdown, "communication_slowdown": costs.communication_slowdown},
        "schedules": [{"label": label, "pipeline": "wfbp", "fusion": fusion, "compression": copies}
                      for label, fusion in fusions]}


def network_file(costs: Costs) -> dict[str, Any]:
    return {"format": "fusewise.network", "version": 1, "name": "process group",
            "origin": {"kind": "measured", "source": "fusewise.torch, over the job's process group"},
            "measured": [{"collective": "all_reduce", "workers": costs.workers, "curve": costs.curve}]}


def fusions_of(settings: Sequence[Setting]) -> list[tuple[str, Any]]:
    """With their labels."""
    return [("plan" if setting.fusion["kind"] == "plan" else setting.name, setting.fusion) for setting in settings]


def predict(costs: Costs, settings: Sequence[Setting]) -> list[Setting]:
    """The settings with their predicted iterations."""
    results = fusewise.simulate(scenario(costs, fusions_of(settings)))
    return [dataclasses.replace(setting, predicted_us=entry.iteration_us,
                                behind_us=entry.exposed_communication_us + entry.decode_us)
            for setting, entry in zip(settings, results.entries)]


def plan(costs: Costs) -> fusewise.Plan:
    """The exact plan of the job."""
    return fusewise.plan(scenario(costs, [("plan", "optimal")]), schedule="plan")


def default_setting(arguments: Mapping[str, Any], takes_lists: bool) -> Setting:
    """The script's own DistributedDataParallel."""
    caps = arguments.get("bucket_cap_mb_list")
    if caps:
        return Setting("as in the script", {}, {"kind": "buckets", "cap_bytes": int(caps[0] * MIB)})
    cap = arguments.get("bucket_cap_mb")
    return dataclasses.replace(single_cap(cap, takes_lists) if cap else _pytorch_default(), name="default", arguments={})


def _pytorch_default() -> Setting:
    return Setting("default", {}, {"kind": "buckets", "cap_bytes": _DEFAULT_MB * MIB, "first_cap_bytes": _FIRST_BYTES})


def single_cap(cap_mb: float, takes_lists: bool) -> Setting:
    """bucket_cap_mb, which holds for the first bucket, too, since there are lists."""
    cap = int(cap_mb * MIB)
    first = cap if takes_lists else min(_FIRST_BYTES, cap)
    return Setting(f"bucket_cap_mb={cap_mb:g}", {"bucket_cap_mb": cap_mb},
                   {"kind": "buckets", "cap_bytes": cap, "first_cap_bytes": first})


def single_caps(costs: Costs, takes_lists: bool) -> list[Setting]:
    """One number for all buckets, until all gradients fit into one."""
    caps = [cap for cap in _SINGLE_CAPS_MB if cap * MIB < costs.bytes]
    return [single_cap(cap, takes_lists) for cap in [*caps, math.ceil(costs.bytes / MIB)]]


def planned(found: fusewise.Plan, costs: Costs, takes_lists: bool) -> Setting:
    elements = {t["name"]: t["elements"] for layer in costs.profile["layers"] for t in layer["tensors"]}
    width = costs.bytes // sum(elements.values())
    fusion = {"kind": "plan", "file": found.raw}
    caps = [short_cap([width * elements[tensor] for tensor in group.tensors]) for group in found.groups]
    setting = (Setting(f"bucket_cap_mb_list={caps}", {"bucket_cap_mb_list": caps}, fusion) if takes_lists else
               Setting(f"plan of {len(found.groups)} groups", {}, fusion, [group.tensors for group in found.groups]))
    return predict(costs, [setting])[0]


def short_cap(sizes: Sequence[int]) -> float:
    """The cap in MiB with the fewest digits that closes a bucket of these bytes at its last tensor."""
    whole = sum(sizes)
    for digits in range(10):
        cap = math.floor(whole / MIB * 10**digits) / 10**digits
        if whole - sizes[-1] < int(cap * MIB):
            return int(cap) if digits == 0 else cap
    return whole / MIB
