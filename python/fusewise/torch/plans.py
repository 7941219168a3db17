"""Plans of fusewise applied to PyTorch: DistributedDataParallel, its communication hooks, and FSDP2."""
from __future__ import annotations

import contextlib
import inspect
import json
import os
from typing import Any, Callable, Iterator, Mapping, Optional, Union

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

PlanLike = Union[str, "os.PathLike[str]", Mapping[str, Any], Any]
_BROADCAST_BYTES = 250 * 2**20  # of one message
# What a DistributedDataParallel may have been told besides its buckets and its process group.
_DDP_DEFAULTS = {"find_unused_parameters": False, "gradient_as_bucket_view": False, "static_graph": False,
                 "forward_sync_buffers": True, "broadcast_buffers": True, "device_ids": None, "output_device": None}
_PARAMETER_CONTAINERS = (nn.ParameterList, nn.ParameterDict)
_HOOKS = {"none": "allreduce_hook", "fp16": "fp16_compress_hook", "bf16": "bf16_compress_hook"}


def takes_lists() -> bool:
    """Whether this PyTorch's DistributedDataParallel takes bucket_cap_mb_list (2.11 and later)."""
    return "bucket_cap_mb_list" in inspect.signature(DistributedDataParallel.__init__).parameters


def read_plan(plan: PlanLike) -> Mapping[str, Any]:
    """The object of a fusewise.plan, given as that, as a file, or as a fusewise.Plan."""
    plan = getattr(plan, "raw", plan)
    if not isinstance(plan, Mapping):
        with open(plan, encoding="utf-8") as file:
            plan = json.load(file)
    if plan.get("format") != "fusewise.plan":
        raise ValueError(f"expected a fusewise.plan, got {plan.get('format')!r}")
    return plan


def _groups(model, plan):
    """The plan's groups as parameters of the model."""
    left = {name: p for name, p in model.named_parameters() if p.requires_grad}
    groups = []
    for group in plan["groups"]:
        unknown = [name for name in group["tensors"] if name not in left]
        if unknown:
            raise ValueError(f"the plan names {unknown[0]!r}, which the model has not, or the plan twice")
        groups.append([left.pop(name) for name in group["tensors"]])
    if left:
        raise ValueError(f"the plan leaves out {next(iter(left))!r}")
    return groups


def _compression(plan):
    """The name of the compressor of all groups, and its options. A group may have one of its own."""
    of_all = plan.get("compression", "none")
    found = []
    for compression in [group.get("compression", of_all) for group in plan["groups"]]:
        options = {"name": compression} if isinstance(compression, str) else compression
        if options not in found:
            found.append(options)
    if len(found) != 1:
        raise ValueError(f"expected a plan with one compression for all groups, got "
                         f"{' and '.join(repr(options.get('name')) for options in found) or 'no groups'}")
    return found[0].get("name"), found[0]


def _ddp_plan(plan):
    plan = read_plan(plan)
    name, _ = _compression(plan)
    if name != "none":
        raise ValueError(f"expected a plan without compression, got {name!r}")
    if plan.get("pipeline") != "wfbp":
        raise ValueError(f"expected a plan of pipeline wfbp, which is DistributedDataParallel's, got {plan.get('pipeline')!r}")
    return plan


def _arguments_of(model):
    """The arguments that a DistributedDataParallel was given and that are not the defaults."""
    given = {name: getattr(model, name) for name, default in _DDP_DEFAULTS.items() if getattr(model, name, default) != default}
    if "forward_sync_buffers" in given:
        given.pop("broadcast_buffers", None)  # its older name, which newer releases have, too, but do not take beside it
    return given


def apply_plan(model: nn.Module, plan: PlanLike, process_group: Optional[dist.ProcessGroup] = None,
               **ddp_arguments: Any) -> nn.Module:
    """Wraps the model (or the one inside a DistributedDataParallel) so that gradients travel in the plan's groups.

    `plan` is a fusewise.plan, as a file or as the object in it. Where DistributedDataParallel takes
    `bucket_cap_mb_list` it makes them itself; otherwise BucketedDataParallel does, with the same results. What a
    DistributedDataParallel around the model was told is kept, unless `ddp_arguments` say otherwise.
    """
    if isinstance(model, DistributedDataParallel):
        kept = _arguments_of(model)
        if not takes_lists():  # the model is on its device already, and most scripts move their inputs themselves
            for name in ("device_ids", "output_device"):
                kept.pop(name, None)
        ddp_arguments = {**kept, **ddp_arguments}
        process_group = process_group or model.process_group
        model = model.module
    if takes_lists():
        return DistributedDataParallel(model, process_group=process_group, **ddp_kwargs(model, plan), **ddp_arguments)
    groups = _groups(model, _ddp_plan(plan))
    if ddp_arguments:
        raise ValueError(f"PyTorch {torch.__version__} takes no bucket_cap_mb_list, and BucketedDataParallel no "
                         f"{', '.join(ddp_arguments)}")
    return BucketedDataParallel(model, groups, process_group)


def ddp_kwargs(model: nn.Module, plan: PlanLike) -> dict[str, Any]:
    """What to give to DistributedDataParallel so that its buckets are the plan's groups (PyTorch 2.11 or later). Its
    caps count the type in which the model holds its parameters, in which a plan need not count."""
    groups = _groups(model, _ddp_plan(plan))
    if not takes_lists():
        raise ValueError(f"PyTorch {torch.__version__} takes no bucket_cap_mb_list: use apply_plan()")
    return {"bucket_cap_mb_list": [sum(p.numel() * p.element_size() for p in group) / 2**20 for group in groups]}


def comm_hook(plan: PlanLike) -> tuple[Any, Callable[..., Any]]:
    """State and hook for DistributedDataParallel.register_comm_hook() that compress as the plan does."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
    name, options = _compression(read_plan(plan))
    if name == "power-sgd":
        return powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=options.get("rank", 1),
                                           min_compression_rate=options.get("min_compression_rate", 2)), powerSGD_hook.powerSGD_hook
    if name not in _HOOKS:
        raise ValueError(f"expected a plan with compression {', '.join(_HOOKS)} or power-sgd, got {name!r}")
    return None, getattr(default_hooks, _HOOKS[name])


def _sharded_plan(plan):
    plan = read_plan(plan)
    if plan.get("pipeline") not in ("sharded", "zero") and plan.get("target") != "fsdp":
        raise ValueError(f"expected a plan of pipeline sharded or zero, or one that was made for fsdp, got pipeline "
                         f"{plan.get('pipeline')!r}")
    return plan


def fsdp2(model: nn.Module, plan: PlanLike, **arguments: Any) -> nn.Module:
    """Shards the model with FSDP2 so that its groups are the plan's, as near as whole modules come (PyTorch 2.6 or
    later): a module goes to the group that has most of its own elements, and modules that share a parameter go to one
    group, which stays gathered until backward ends. Which groups stay gathered after forward, how many
    are gathered ahead and the types of collectives are the plan's. Parameters that are not trained travel with the
    others of their module, or with a neighbour, as the plan has counted them. `arguments` go to fully_shard(). A plan
    whose shard groups are smaller than the job needs the argument `mesh`; one for several micro-batches needs
    begin_micro_batch()."""
    from torch.distributed.fsdp import fully_shard
    plan = _sharded_plan(plan)
    if "shard_workers" in plan and plan["shard_workers"] < plan["workers"] and "mesh" not in arguments:
        raise ValueError(f"the plan shards among {plan['shard_workers']} of {plan['workers']} workers: give fully_shard()'s "
                         f"argument mesh, of the dimensions replicate and shard")
    reshards = plan.get("reshard_after_forward", True) and plan["pipeline"] == "sharded"
    groups = _groups(model, plan)
    arguments = {**_policy(plan, groups[0][0].dtype), **arguments}
    place = {p: number for number, group in enumerate(groups) for p in group}
    kept = plan.get("kept_groups", 0 if "reshard_after_forward" in plan else 1)  # by default that which backward uses first
    units = {}
    owned = _owned(model, plan)
    tied = _tied(owned)
    for number, paths in _calls(_modules_of_groups(owned, tied, place)):
        is_released = number >= kept and not tied.intersection(paths)
        topmost = [path for path in paths if not any(other != path and _is_below(path, other) for other in paths)]
        modules = [model.get_submodule(path) for path in topmost]
        options = {"reshard_after_forward": reshards and is_released, **arguments}
        fully_shard(modules if len(modules) > 1 else modules[0], **options)
        units[number] = modules[0]
    if model not in units.values():
        fully_shard(model, **{"reshard_after_forward": reshards, **arguments})
    _gather_ahead([units[number] for number in sorted(units, reverse=True)], plan)
    scatters = plan.get("scatters_in_flight", 1)
    if scatters > 1 and hasattr(model, "set_reduce_scatter_max_input_buffers"):  # PyTorch 2.13 or later
        model.set_reduce_scatter_max_input_buffers(scatters)
    return model


def _policy(plan, dtype):
    """The argument for the types in which the plan gathers and reduces; one that it does not name is `dtype`."""
    from torch.distributed.fsdp import MixedPrecisionPolicy
    types = plan.get("data_types", {})
    if "gather" not in types and "reduce" not in types:
        return {}
    gather, reduce = (getattr(torch, types[use]) if use in types else dtype for use in ("gather", "reduce"))
    return {"mp_policy": MixedPrecisionPolicy(param_dtype=gather, reduce_dtype=reduce)}


def _gather_ahead(units, plan):
    """One group is gathered ahead without being asked; `units` are a module of each group, in forward order."""
    ahead = plan.get("prefetch", 1)
    back = plan.get("backward_prefetch", ahead)
    for i, unit in enumerate(units):
        if ahead > 1:
            unit.set_modules_to_forward_prefetch(units[i + 1:i + ahead + 1])
        if back > 1:
            unit.set_modules_to_backward_prefetch(units[max(i - back, 0):i][::-1])


def begin_micro_batch(model: nn.Module, plan: PlanLike, number: int, count: int) -> None:
    """Call it before the forward pass of each of `count` micro-batches, from 0 on: gradients travel in the last one
    alone, and parameters stay gathered until then where the plan says so. `model` is what fsdp2() returned."""
    plan = _sharded_plan(plan)
    model.set_requires_gradient_sync(number == count - 1)
    if plan["pipeline"] != "sharded" or not plan.get("reshard_after_backward", True):
        model.set_reshard_after_backward(number == count - 1)


def _is_below(path, module):
    """Whether this path is that of the module or leads into it; all paths lead into the model, ''."""
    return not module or path == module or path.startswith(module + ".")


def _enclosing(path):
    return path.rpartition(".")[0]


def _caller(model, path):
    """The module around the module at this path, or itself, that is called when its parameters are used: attention computes
    with its children's parameters, but never calls them, and nobody calls lists and dictionaries of parameters."""
    caller, above = path, path
    while above:
        above = _enclosing(above)
        if isinstance(model.get_submodule(above), nn.MultiheadAttention):
            caller = above
    while caller and isinstance(model.get_submodule(caller), _PARAMETER_CONTAINERS):
        caller = _enclosing(caller)
    return caller


def _owned(model, plan):
    """Parameters by the path of the module that is called when they are used: what the plan says, or else their own one.
    A call for a module between these two would take the parameter, so that the user stands for such modules, too."""
    users = {name: path for group in plan["groups"] for name, path in zip(group["tensors"], group.get("modules", ()))}
    found = []
    stand_in: dict[str, str] = {}
    for path, module in model.named_modules():
        for key, parameter in module.named_parameters(recurse=False):
            name = f"{path}.{key}" if path else key
            user = users.get(name, _caller(model, path))
            if not _is_below(path, user):
                raise ValueError(f"expected a plan in which {name!r} is used in a module around it, got {user!r}")
            found.append((user, parameter))
            below = path
            while below != user:
                stand_in[below] = min(user, stand_in.get(below, user), key=len)
                below = _enclosing(below)
    owned: dict[str, set[nn.Parameter]] = {}
    for user, parameter in found:
        while user in stand_in:
            user = stand_in[user]
        owned.setdefault(user, set()).add(parameter)
    return owned


def _tied(owned):
    """The modules that share a parameter with another one, which FSDP2 wants in one group."""
    owners: dict[nn.Parameter, list[str]] = {}
    for path, own in owned.items():
        for parameter in own:
            owners.setdefault(parameter, []).append(path)
    return {path for paths in owners.values() if len(paths) > 1 for path in paths}


def _group_of_most(parameters, place):
    """The group that has most of these elements; None if nothing is trained, as such parameters are in no group."""
    elements: dict[int, int] = {}
    for parameter in parameters:
        if parameter in place:
            elements[place[parameter]] = elements.get(place[parameter], 0) + parameter.numel()
    return min(elements, key=lambda number: (-elements[number], number), default=None)


def _shared_parts(path, other):
    """The number of parts that both paths begin with."""
    return len(os.path.commonprefix([path.split("."), other.split(".")]))


def _modules_of_groups(owned, tied, place):
    """The modules of each group, by its number. One that trains nothing goes with the module before or after it that trains
    something: with that which shares more of its path, or else with the one after it, as in the planner (workload.cpp)."""
    of_tied = _group_of_most({p for path in tied for p in owned[path]}, place) or 0
    numbers = {path: of_tied if path in tied else _group_of_most(own, place) for path, own in owned.items()}
    after, later = {}, None
    for path in reversed(numbers):
        after[path] = later
        later = later if numbers[path] is None else path
    groups: dict[int, list[str]] = {}
    before, is_behind = None, True
    for path, number in numbers.items():
        if number is not None:
            before, is_behind = path, True
        elif path:  # else the model's own call takes it
            is_behind = is_behind and before is not None and (
                after[path] is None or _shared_parts(path, before) > _shared_parts(path, after[path]))
            neighbour = before if is_behind else after[path]
            number = None if neighbour is None else numbers[neighbour]
        if number is not None:
            groups.setdefault(number, []).append(path)
    return groups


def _calls(groups):
    """The modules of each call of fully_shard(), by its place among the groups. A call takes all that lies below its modules
    and was not taken before, so it comes after those for modules below; groups that would wait for each other are one."""
    import graphlib  # which any Python has that has FSDP2
    while True:
        place = {path: number for number, paths in groups.items() for path in paths}
        waits: dict[int, set[int]] = {number: set() for number in groups}
        for path, number in place.items():
            while path:
                path = _enclosing(path)
                if place.get(path, number) != number:
                    waits[place[path]].add(number)
        try:
            order = list(graphlib.TopologicalSorter(waits).static_order())
        except graphlib.CycleError as error:
            first, last = min(error.args[1]), max(error.args[1])
            joined = [path for number in sorted(groups) if first <= number <= last for path in groups[number]]
            groups = {**{number: paths for number, paths in groups.items() if not first <= number <= last}, first: joined}
            continue
        places = {number: at for at, number in enumerate(sorted(groups))}
        return [(places[number], groups[number]) for number in order]


class _Bucket:
    """Gradients that travel together, side by side in one buffer."""

    def __init__(self, parameters):
        self.parameters = parameters
        self.buffer = torch.zeros(sum(p.numel() for p in parameters), dtype=parameters[0].dtype,
                                  device=parameters[0].device)
        self.views = [part.view_as(p) for part, p in zip(self.buffer.split([p.numel() for p in parameters]), parameters)]
        self.waiting = 0
        self.work = None


class BucketedDataParallel(torch.nn.Module):
    """Averages gradients over all ranks in given groups, each as soon as its last gradient is ready and the groups
    before it are on their way, while backward goes on. As DistributedDataParallel does, to the bit."""

    def __init__(self, module, groups, process_group=None):
        super().__init__()
        self.module = module
        self.process_group = dist.distributed_c10d._get_default_group() if process_group is None else process_group
        self.require_sync = True
        self._sync_buffers = True
        self._scale = 1.0 / dist.get_world_size(process_group)
        self._buckets = [_Bucket(group) for group in groups]
        self._next = None  # the first bucket that is not on its way; None outside backward
        self._hooks = []
        for bucket in self._buckets:
            kinds = {(p.dtype, p.device) for p in bucket.parameters}
            if len(kinds) != 1:
                raise ValueError("gradients of one group have to be of one type and on one device")
            for parameter in bucket.parameters:
                self._watch(parameter, bucket)
        self._broadcast([*module.parameters(), *module.buffers()])

    def forward(self, *inputs, **arguments):
        if self._sync_buffers:
            self._broadcast(list(self.module.buffers()))
        if torch.is_grad_enabled():
            self._sync_buffers = self.require_sync
        return self.module(*inputs, **arguments)

    def _broadcast(self, tensors):
        """The first rank's to all, as DistributedDataParallel does: in few messages."""
        if tensors:
            dist._broadcast_coalesced(self.process_group, [tensor.detach() for tensor in tensors], _BROADCAST_BYTES, 0)

    @contextlib.contextmanager
    def no_sync(self):
        """Gradients of backward passes in here stay on their rank; the next one outside averages the sums."""
        before, self.require_sync = self.require_sync, False
        try:
            yield
        finally:
            self.require_sync = before

    def _watch(self, parameter, bucket):
        accumulate = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        accumulate.register_hook(lambda *_: self._ready(parameter, bucket))
        self._hooks.append(accumulate)  # or it would be made anew, without the hook

    def _ready(self, parameter, bucket):
        if not self.require_sync:
            return
        if self._next is None:
            self._next = 0
            for one in self._buckets:
                one.waiting = len(one.parameters)
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        bucket.waiting -= 1
        while self._next < len(self._buckets) and self._buckets[self._next].waiting == 0:
            self._send(self._buckets[self._next])
            self._next += 1

    def _send(self, bucket):
        for view, parameter in zip(bucket.views, bucket.parameters):
            torch.mul(parameter.grad, self._scale, out=view)
        bucket.work = dist.all_reduce(bucket.buffer, group=self.process_group, async_op=True)

    def _finish(self):
        """At the end of backward: every group has to be on its way, is waited for and put back."""
        sent, self._next = self._next, None
        for bucket in self._buckets[:sent]:
            bucket.work.wait()
            bucket.work = None
            for view, parameter in zip(bucket.views, bucket.parameters):
                parameter.grad.copy_(view)
        if sent < len(self._buckets):
            names = {p: name for name, p in self.module.named_parameters()}
            raise RuntimeError(f"a parameter got no gradient in this backward pass; group {sent + 1} waits for "
                               f"{self._buckets[sent].waiting} of {len(self._buckets[sent].parameters)}, first "
                               f"{names[self._buckets[sent].parameters[0]]!r}")
