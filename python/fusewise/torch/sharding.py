"""FSDP2: measures what it does besides computing and sending, and predicts the iteration of a sharded job."""
from __future__ import annotations

import dataclasses
import statistics
import time
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Sequence

import torch
import torch.distributed as dist
from torch import nn

import fusewise
from fusewise.torch import network
from fusewise.torch.prediction import Costs

Units = Sequence[Sequence[nn.Module]]  # modules that are sharded together, in forward order
Cost = Mapping[str, float]  # startup_us of a group, and us_per_byte


@dataclass(frozen=True)
class ShardingCosts:
    """What FSDP2 adds to an iteration. Times are in microseconds."""
    curves: dict[str, list[list[float]]]  # all_gather and reduce_scatter, by bytes of the whole
    gather: Cost  # hooks, allocations and copies of a group that is gathered
    scatter: Cost  # and of one whose gradients are scattered
    rest_us: float  # optimizer and reading of samples


@dataclass(frozen=True)
class Parts:
    """Parts of an iteration, by medians of the slowest rank, without the time inside of collectives."""
    forward_us: float
    backward_us: float
    update_us: float


def measure(costs: Costs, group: network.Group, make: Callable[[], nn.Module], loss: Callable[[nn.Module], torch.Tensor],
            optimizer: Callable[[Any], Any], shard: Callable[[nn.Module, Units], nn.Module],
            groupings: Sequence[Callable[[nn.Module], Units]]) -> ShardingCosts:
    """Runs the model unsharded, and sharded in two groupings or more with collectives that send nothing, on all ranks at once.
    On CPUs only: a GPU still computes when the host's clock is read."""
    if group.device.type != "cpu":
        raise ValueError(f"expected a process group on CPUs, got one on {group.device}")
    plain = part_times(make(), loss, optimizer, group, None)
    rows = []
    for grouping in groupings:
        model = make()
        units = grouping(model)
        sizes = [_bytes(unit) for unit in units]
        whole = _bytes([model])
        sharded = shard(model, units)
        parts = part_times(sharded, loss, optimizer, group, replace_collectives(sharded))
        rows.append((len(sizes) + (whole > sum(sizes)), whole, len(sizes), sum(sizes), parts))
    gather = _line([(count, size, parts.forward_us - plain.forward_us) for count, size, _, _, parts in rows])
    scatter = _line([(count, size, parts.backward_us - plain.backward_us - gather["startup_us"] * again
                      - gather["us_per_byte"] * size_again) for count, size, again, size_again, parts in rows])
    update_us = statistics.mean(row[-1].update_us for row in rows)
    return ShardingCosts(network.sharding_curves(group, costs.bytes), gather, scatter, rest(costs.rest_us, update_us, plain.update_us))


def rest(plain_rest_us: float, update_us: float, plain_update_us: float) -> float:
    """Optimizer and reading of samples of a sharded job, which updates a part of the parameters. The two measurements may differ by
    more than all the rest takes."""
    return max(0.0, plain_rest_us + update_us - plain_update_us)


def part_times(model: nn.Module, loss: Callable[[nn.Module], torch.Tensor], optimizer: Callable[[Any], Any],
               group: network.Group, collectives: Optional[_Clock], count: int = 10, warm_up: int = 3) -> Parts:
    update = optimizer(model.parameters())
    inside = collectives or _Clock()
    rows = []
    for _ in range(count):
        dist.barrier(group.process_group)
        marks = [inside.outside()]
        update.zero_grad()
        marks.append(inside.outside())
        value = loss(model)
        marks.append(inside.outside())
        value.backward()
        marks.append(inside.outside())
        update.step()
        marks.append(inside.outside())
        zero, forward, backward, step = (1e6 * (end - begin) for begin, end in zip(marks, marks[1:]))
        rows.append(group.slowest([forward, backward, zero + step]))
    return Parts(*(statistics.median(part) for part in zip(*rows[warm_up:])))


class _Clock:
    """Time that does not pass inside of collectives."""

    def __init__(self) -> None:
        self.inside_s = 0.0

    def outside(self) -> float:
        return time.perf_counter() - self.inside_s

    def run(self, collective: Callable[[], None]) -> None:
        began = time.perf_counter()
        collective()
        self.inside_s += time.perf_counter() - began


def replace_collectives(model: nn.Module) -> _Clock:
    """FSDP2's collectives copy on this rank what would have to be sent, outside of the clock."""
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.fsdp._fully_shard import _fsdp_collectives as collectives
    clock = _Clock()

    class Gather(collectives.DefaultAllGather):
        def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, async_op: bool = False) -> None:
            def copy() -> None:
                for place, part in enumerate(output_tensor.chunk(group.size())):
                    if place != group.rank():
                        part.copy_(input_tensor)
            clock.run(copy)

    class Scatter(collectives.DefaultReduceScatter):
        def __call__(self, output_tensor: Any, input_tensor: Any, group: Any, op: Any, async_op: bool = False) -> None:
            clock.run(lambda: output_tensor.copy_(input_tensor.chunk(group.size())[group.rank()]))
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_custom_all_gather(Gather())
            module.set_custom_reduce_scatter(Scatter())
    return clock


def _bytes(modules: Sequence[nn.Module]) -> int:
    return sum(p.numel() * p.element_size() for p in {p: None for module in modules for p in module.parameters()})


def _line(points: Sequence[tuple[int, int, float]]) -> dict[str, float]:
    """Startup and time per byte through the groupings with the fewest and the most groups."""
    (few, size, few_us), (many, _, many_us) = min(points), max(points)
    startup = max(0.0, (many_us - few_us) / (many - few)) if many > few else 0.0
    return {"startup_us": startup, "us_per_byte": max(0.0, few_us - few * startup) / size}


# ---- predictions


def predict(costs: Costs, sharding: ShardingCosts, names: Sequence[Sequence[str]], prefetch: int = 0,
            is_root_released: bool = False) -> float:
    """An iteration, in microseconds, whose units hold the parameters of these names. The root's parameters are what is
    left; they are gathered before everything, again before backward if they are released, and scattered last."""
    asked = {**_scenario(costs, sharding), "profile": profile_of_units(costs.profile, names, sharding)}
    asked["update"] = {"optimizer_us": sharding.rest_us + _root_us(costs, sharding, names, is_root_released)}
    asked["schedules"] = [_schedule({"kind": "layers", "count": 1}, prefetch)]
    return fusewise.simulate(asked).entries[0].iteration_us


def plan(costs: Costs, sharding: ShardingCosts, prefetch: int = 0) -> Mapping[str, Any]:
    """A plan of groups."""
    asked = scenario(costs, sharding, "optimal", prefetch)
    return fusewise.plan(asked, schedule=fusewise.simulate(asked).entries[0].schedule).raw


def scenario(costs: Costs, sharding: ShardingCosts, fusion: Any, prefetch: int = 0) -> dict[str, Any]:
    """The sharded job in groups. What FSDP2 does for each of them is part of their collectives here."""
    curves = {name: [[size, us + _at(cost, size)] for size, us in sharding.curves[name]]
              for name, cost in (("all_gather", sharding.gather), ("reduce_scatter", sharding.scatter))}
    return {**_scenario(costs, dataclasses.replace(sharding, curves=curves)), "schedules": [_schedule(fusion, prefetch)]}


def _schedule(fusion: Any, prefetch: int) -> dict[str, Any]:
    """Reduce-scatters over Gloo block."""
    return {"pipeline": "sharded", "fusion": fusion, "prefetch": prefetch, "reshard_after_forward": True, "scatters_in_flight": 0}


def _scenario(costs: Costs, sharding: ShardingCosts) -> dict[str, Any]:
    curves = {"all_reduce": costs.curve, **sharding.curves}
    measured = [{"collective": name, "workers": costs.workers, "curve": curve} for name, curve in curves.items()]
    return {
        "format": "fusewise.scenario", "version": 1, "name": "sharded job", "profile": costs.profile, "workers": costs.workers,
        "network": {"format": "fusewise.network", "version": 1, "name": "process group",
                    "origin": {"kind": "measured", "source": "fusewise.torch, over the job's process group"}, "measured": measured},
        "update": {"optimizer_us": sharding.rest_us},
        "overlap": {"compute_slowdown": costs.compute_slowdown, "communication_slowdown": costs.communication_slowdown}}


def profile_of_units(profile: Mapping[str, Any], names: Sequence[Sequence[str]], sharding: ShardingCosts) -> dict[str, Any]:
    """A layer for each unit, with what FSDP2 does for it; layers of the root's parameters hold none here."""
    unit_of = {name: number for number, unit in enumerate(names) for name in unit}
    layers: dict[Any, dict[str, Any]] = {}
    place: Any = "before"
    for layer in profile["layers"]:
        units = {unit_of[t["name"]] for t in layer["tensors"] if t["name"] in unit_of}
        if units:
            place = min(units)
        elif layer["tensors"]:
            place = layer["name"]
        held = layers.setdefault(place, {"name": f"unit {len(layers) + 1}", "kind": "unit", "forward_us": 0.0, "backward_us": 0.0,
                                         "tensors": []})
        held["forward_us"] += layer["forward_us"]
        held["backward_us"] += layer["backward_us"]
        held["tensors"] += [{"name": t["name"], "elements": t["elements"]} for t in layer["tensors"] if t["name"] in unit_of]
    for layer in layers.values():
        size = _width(profile) * sum(t["elements"] for t in layer["tensors"])
        if size > 0:
            layer["forward_us"] += _at(sharding.gather, size)
            layer["backward_us"] += _at(sharding.gather, size) + _at(sharding.scatter, size)
    return {**profile, "layers": list(layers.values())}


def _root_us(costs: Costs, sharding: ShardingCosts, names: Sequence[Sequence[str]], is_released: bool = False) -> float:
    """The root's own parameters: gathered before a pass runs, scattered when all has run."""
    taken = {name for unit in names for name in unit}
    size = _width(costs.profile) * sum(t["elements"] for layer in costs.profile["layers"] for t in layer["tensors"]
                                       if t["name"] not in taken)
    if size == 0:
        return 0.0
    return ((1 + is_released) * (network.at(sharding.curves["all_gather"], size) + _at(sharding.gather, size))
            + network.at(sharding.curves["reduce_scatter"], size) + _at(sharding.scatter, size))


def _at(cost: Cost, size: float) -> float:
    return cost["startup_us"] + size * cost["us_per_byte"]


def _width(profile: Mapping[str, Any]) -> int:
    return 4 if profile["dtype"] == "float32" else 2
