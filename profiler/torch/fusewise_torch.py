# SPDX-License-Identifier: Apache-2.0
"""fusewise for models that are a torch.nn.Module: copy this one file beside a training script.

A profile of the model, from a few iterations of the script's own loop:

    profiler = fusewise_torch.Profiler(model, batch_size=32)
    for inputs, labels in batches[:12]:
        with profiler.iteration():
            loss_of(model(inputs), labels).backward()
    profiler.save("mymodel.profile.json", name="mymodel")

and a plan that `fusewise plan` made of it, applied to DistributedDataParallel:

    model = fusewise_torch.apply_plan(model, "mymodel.plan.json")
"""
import collections
import contextlib
import csv
import inspect
import json
import os
import statistics
import tempfile
import time

import torch
import torch.distributed as dist

__all__ = ["BucketedDataParallel", "Profiler", "apply_plan"]

_DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


# ---- clocks: marks in the order of the work, and the time between neighbours


class _WallClock:
    """The clock of a CPU, where a call returns when its work is done."""

    def mark(self):
        return time.perf_counter()

    def wait(self):
        pass

    def us(self, earlier, later):
        return 1e6 * (later - earlier)


class _CudaClock:
    """Events on the current stream: when the GPU got there, not when the host did."""

    def mark(self):
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def wait(self):
        torch.cuda.synchronize()

    def us(self, earlier, later):
        return 1e3 * earlier.elapsed_time(later)


class _Iteration:
    """What one iteration's marks tell: time between two marks belongs to the module that the later one names."""

    def __init__(self):
        self.forward = []   # (mark, module charged with the time before it)
        self.backward = []  # (mark, module, parameter whose gradient is ready now or None)
        self.start = None
        self.backward_start = None


def _median_and_spread(values):
    values = sorted(values)
    if len(values) < 2:
        return (values[0] if values else 0.0), 0.0
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    return statistics.median(values), quarters[2] - quarters[0]


class Profiler:
    """Measures forward and backward of every module, and when each gradient gets ready.

    Each module is charged with its own operations, not with those of the modules inside it. The loss, and whatever
    else comes after the model, counts to the backward pass of the layer that follows it there. The first `warmup`
    iterations are not counted.
    """

    def __init__(self, model, batch_size, warmup=2, device=None):
        self.model = model
        self.batch_size = batch_size
        self.warmup = warmup
        parameters = [p for p in model.parameters() if p.requires_grad]
        if not parameters:
            raise ValueError("the model has no parameter that requires a gradient")
        kinds = {p.dtype for p in parameters}
        if len(kinds) != 1 or not kinds <= set(_DTYPES):
            raise ValueError(f"expected parameters of one type among {sorted(_DTYPES.values())}, got {kinds}")
        self.dtype = _DTYPES[kinds.pop()]
        on_gpu = parameters[0].is_cuda
        self.clock = _CudaClock() if on_gpu else _WallClock()
        self.device = device or (torch.cuda.get_device_name(parameters[0].device) if on_gpu else "CPU")
        self.iterations = []
        self._names = {module: name for name, module in model.named_modules()}
        self._owners = {}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self._owners[parameter] = (name, model.get_submodule(name.rpartition(".")[0]))
        self._order = []  # modules in the order in which their forward ended first
        self._current = None
        self._stack = []
        self._seen = set()

    # -- measuring

    @contextlib.contextmanager
    def iteration(self):
        """One forward and one backward pass of the model."""
        self._current = _Iteration()
        self._stack, self._seen = [], set()
        handles = []
        try:
            for module in self._names:
                handles.append(module.register_forward_pre_hook(self._enter))
                handles.append(module.register_forward_hook(self._leave))
            for parameter in self._owners:
                handles.append(self._watch_gradient(parameter))
            self.clock.wait()
            self._current.start = self.clock.mark()
            yield self
            self.clock.wait()
        finally:
            for handle in handles:
                handle.remove()
            finished, self._current = self._current, None
            self._seen = set()
        self.iterations.append(self._times(finished))

    def _enter(self, module, _inputs):
        self._mark_forward()
        self._stack.append(module)

    def _leave(self, module, _inputs, output):
        self._mark_forward()
        self._stack.pop()
        if module not in self._order:
            self._order.append(module)
        for node in self._new_nodes(output):
            node.register_hook(lambda *_, module=module: self._mark_backward(module, None))
        if not self._stack and not self._current.backward:  # a call after backward is none of the iteration's
            self._current.backward_start = self.clock.mark()

    def _mark_forward(self):
        inside = self._stack[-1] if self._stack else None
        self._current.forward.append((self.clock.mark(), inside))

    def _mark_backward(self, module, parameter):
        if self._current is not None:
            self._current.backward.append((self.clock.mark(), module, parameter))

    def _watch_gradient(self, parameter):
        """A hook that runs once the gradient is in parameter.grad, which is when it could be sent."""
        accumulate = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
        module = self._owners[parameter][1]
        self._seen.add(accumulate)
        return accumulate.register_hook(lambda *_: self._mark_backward(module, parameter))

    def _new_nodes(self, output):
        """The backward steps that this module's own operations will take: those that no module inside it owns."""
        found, waiting = [], [t.grad_fn for t in _tensors(output) if t.grad_fn is not None]
        while waiting:
            node = waiting.pop()
            if node is None or node in self._seen:
                continue
            self._seen.add(node)
            found.append(node)
            waiting.extend(following for following, _ in node.next_functions)
        return found

    def _times(self, iteration):
        """Sums by module in us; gradients in the order they got ready, with the time and their module's part."""
        forward, backward = collections.defaultdict(float), collections.defaultdict(float)
        before = iteration.start
        for mark, module in iteration.forward:
            if module is not None:
                forward[module] += self.clock.us(before, mark)
            before = mark
        ready, since = {}, collections.defaultdict(float)
        before = start = iteration.backward_start
        if start is None:
            raise RuntimeError("the model was not called in this iteration")
        for mark, module, parameter in iteration.backward:
            passed = self.clock.us(before, mark)
            backward[module] += passed
            since[module] += passed
            if parameter is not None:
                ready[parameter] = (self.clock.us(start, mark), since.pop(module))
            before = mark
        missing = [self._owners[p][0] for p in self._owners if p not in ready]
        if missing:
            raise RuntimeError(f"no gradient for {', '.join(missing)}: every iteration needs a whole backward pass")
        for parameter in reversed(list(ready)):  # what a module did after its last gradient belongs to that one
            left = since.pop(self._owners[parameter][1], 0.0)
            ready[parameter] = (ready[parameter][0], ready[parameter][1] + left)
        return forward, backward, ready

    # -- what came out

    def _counted(self):
        counted = self.iterations[self.warmup:]
        if not counted:
            raise RuntimeError(f"expected more than {self.warmup} iterations, got {len(self.iterations)}")
        return counted

    def gradients(self):
        """One entry for each parameter, by the order in which gradients got ready in the mean: `name`, `elements`,
        `registered` and `ready` (places in either order; DDP begins with the reverse of the former and changes to
        the latter), `ready_us` after backward began and `spread_us`."""
        counted = self._counted()
        registered = {parameter: place for place, parameter in enumerate(self._owners)}
        entries = []
        for parameter, (name, _) in self._owners.items():
            median, spread = _median_and_spread([ready[parameter][0] for _, _, ready in counted])
            entries.append({"name": name, "elements": parameter.numel(), "registered": registered[parameter],
                            "ready_us": median, "spread_us": spread})
        entries.sort(key=lambda entry: (entry["ready_us"], -entry["registered"]))
        for place, entry in enumerate(entries):
            entry["ready"] = place
        return entries

    def profile(self, name=None):
        """The profile in the form of `fusewise.profile`."""
        counted = self._counted()
        layers = []
        for module, parameters in self._parameters_by_layer().items():
            layer = self._layer(module, parameters, counted)
            if layer["tensors"] or layer["forward_us"] + layer["backward_us"] > 0:
                layers.append(layer)
        clock = "CUDA events" if isinstance(self.clock, _CudaClock) else "wall clock"
        return {
            "format": "fusewise.profile", "version": 1, "model": name or type(self.model).__name__,
            "batch_size": self.batch_size, "dtype": self.dtype, "device": self.device,
            "origin": {"kind": "measured",
                       "source": f"fusewise_torch on PyTorch {torch.__version__}, {clock}, medians of "
                                 f"{len(counted)} iterations after {self.warmup}"},
            "layers": layers}

    def _parameters_by_layer(self):
        """Modules in forward order; a parameter whose module is never called itself belongs to the one around it."""
        layers = {module: [] for module in self._order}
        for parameter, (name, module) in self._owners.items():
            path = name.rpartition(".")[0]
            while module not in layers:
                path = path.rpartition(".")[0]
                module = self.model.get_submodule(path)
            layers[module].append(parameter)
        return layers

    def _layer(self, module, parameters, counted):
        owners = {module} | {self._owners[p][1] for p in parameters}
        forward = [sum(f.get(m, 0.0) for m in owners) for f, _, _ in counted]
        backward = [sum(b.get(m, 0.0) for m in owners) for _, b, _ in counted]
        forward_us, forward_spread = _median_and_spread(forward)
        backward_us, backward_spread = _median_and_spread(backward)
        # Tensors stand against the order in which they get ready, as backward runs from the last to the first.
        ready_us = {p: statistics.median(ready[p][0] for _, _, ready in counted) for p in parameters}
        parts = {p: statistics.median(ready[p][1] for _, _, ready in counted) for p in parameters}
        whole = sum(parts.values())
        tensors = []
        for parameter in sorted(parameters, key=lambda p: -ready_us[p]):
            share = parts[parameter] / whole if whole > 0 else 1 / len(parameters)
            tensors.append({"name": self._owners[parameter][0], "elements": parameter.numel(),
                            "backward_us": share * backward_us})
        name = self._names[module]
        if not name:
            name, taken = "model", set(self._names.values())
            while name in taken:
                name += "_"
        return {"name": name, "kind": type(module).__name__.lower(),
                "forward_us": forward_us, "backward_us": backward_us, "tensors": tensors,
                "forward_spread_us": forward_spread, "backward_spread_us": backward_spread}

    def save(self, path, name=None):
        """Writes the profile to a file, which is there whole or not at all."""
        _write(path, json.dumps(self.profile(name), indent=2, allow_nan=False) + "\n")

    def save_gradients(self, path):
        """Writes gradients() as CSV."""
        columns = ["name", "elements", "registered", "ready", "ready_us", "spread_us"]
        with tempfile.TemporaryFile("w+", newline="") as text:
            rows = csv.DictWriter(text, columns, lineterminator="\n")
            rows.writeheader()
            rows.writerows(self.gradients())
            text.seek(0)
            _write(path, text.read())


def _tensors(output):
    if isinstance(output, torch.Tensor):
        yield output
    elif isinstance(output, dict):
        for item in output.values():
            yield from _tensors(item)
    elif isinstance(output, (list, tuple)):
        for item in output:
            yield from _tensors(item)


def _write(path, text):
    folder = os.path.dirname(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


# ---- plans


def _groups(model, plan):
    """The plan's groups as parameters of the model."""
    if not isinstance(plan, dict):
        with open(plan) as file:
            plan = json.load(file)
    if plan.get("format") != "fusewise.plan":
        raise ValueError(f"expected a fusewise.plan, got {plan.get('format')!r}")
    if plan.get("compression", "none") != "none":
        raise ValueError(f"expected a plan without compression, got {plan['compression']!r}")
    if plan.get("pipeline") != "wfbp":
        raise ValueError(f"expected a plan of pipeline wfbp, which is DistributedDataParallel's, got {plan.get('pipeline')!r}")
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


def apply_plan(model, plan, process_group=None, **ddp_arguments):
    """Wraps the model (or the one inside a DistributedDataParallel) so that gradients travel in the plan's groups.

    `plan` is a fusewise.plan, as a file or as the object in it. Where DistributedDataParallel takes
    `bucket_cap_mb_list` it makes them itself; otherwise BucketedDataParallel does, with the same results.
    """
    ddp = torch.nn.parallel.DistributedDataParallel
    if isinstance(model, ddp):
        process_group = process_group or model.process_group
        model = model.module
    groups = _groups(model, plan)
    if "bucket_cap_mb_list" in inspect.signature(ddp).parameters:
        caps = [sum(p.numel() * p.element_size() for p in group) / 2**20 for group in groups]
        return ddp(model, process_group=process_group, bucket_cap_mb_list=caps, **ddp_arguments)
    if ddp_arguments:
        raise ValueError(f"PyTorch {torch.__version__} takes no bucket_cap_mb_list, and BucketedDataParallel no "
                         f"{', '.join(ddp_arguments)}")
    return BucketedDataParallel(model, groups, process_group)


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
        self.process_group = process_group
        self.require_sync = True
        self._sync_buffers = True
        self._scale = 1.0 / dist.get_world_size(process_group)
        self._source = dist.get_global_rank(process_group, 0) if process_group is not None else 0
        self._buckets = [_Bucket(group) for group in groups]
        self._next = None  # the first bucket that is not on its way; None outside backward
        self._hooks = []
        for bucket in self._buckets:
            kinds = {(p.dtype, p.device) for p in bucket.parameters}
            if len(kinds) != 1:
                raise ValueError("gradients of one group have to be of one type and on one device")
            for parameter in bucket.parameters:
                self._watch(parameter, bucket)
        for tensor in list(module.parameters()) + list(module.buffers()):
            dist.broadcast(tensor.detach(), self._source, group=process_group)

    def forward(self, *inputs, **arguments):
        if self._sync_buffers:
            for buffer in self.module.buffers():
                dist.broadcast(buffer.detach(), self._source, group=self.process_group)
        if torch.is_grad_enabled():
            self._sync_buffers = self.require_sync
        return self.module(*inputs, **arguments)

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
