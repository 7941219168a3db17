"""Profiles a torch.nn.Module inside its own training loop: time of every module, and when each gradient gets ready.

    profiler = Profiler(model, batch_size=32)
    for inputs, labels in batches[:12]:
        with profiler.iteration():
            loss_of(model(inputs), labels).backward()
    profiler.save("mymodel.profile.json", name="mymodel")
"""
from __future__ import annotations

import collections
import contextlib
import csv
import dataclasses
import inspect
import json
import os
import statistics
import tempfile
import time
from typing import Any, Iterator, Optional, Sequence, Union

import torch
from torch import nn

# PyTorch 2.0 and later: hooks get keyword arguments, too.
_PRE_HOOK = {"with_kwargs": True} if "with_kwargs" in inspect.signature(nn.Module.register_forward_pre_hook).parameters else {}
_DTYPES = {torch.float32: "float32", torch.float16: "float16", torch.bfloat16: "bfloat16"}


# ---- clocks: marks in the order of the work, and the time between neighbours


class WallClock:
    """The clock of a CPU, where a call returns when its work is done."""

    def mark(self):
        return time.perf_counter()

    def wait(self):
        pass

    def us(self, earlier, later):
        return 1e6 * (later - earlier)


class CudaClock:
    """Events on a GPU's current stream: when the GPU got there, not when the host did. The GPU of a model need not be the
    current one of the thread that marks."""

    def __init__(self, device):
        self.device = device

    def mark(self):
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self.device))
        return event

    def wait(self):
        torch.cuda.synchronize(self.device)

    def us(self, earlier, later):
        return 1e3 * earlier.elapsed_time(later)


Clock = Union[WallClock, CudaClock]


def clock_of(device: torch.device) -> Clock:
    return CudaClock(device) if device.type == "cuda" else WallClock()


def unwrapped(model: nn.Module) -> nn.Module:
    """The model itself where it stands inside DistributedDataParallel, so that names have no prefix."""
    wrappers = (nn.parallel.DistributedDataParallel, nn.DataParallel)
    return unwrapped(model.module) if isinstance(model, wrappers) else model


class _Iteration:
    """What one iteration's marks tell: time between two marks belongs to the module that the later one names."""

    def __init__(self):
        self.forward = []   # (mark, module charged with the time before it)
        self.backward = []  # (mark, module, parameter whose gradient is ready now or None)
        self.start = None
        self.backward_start = None
        self.is_plain = False  # without marks in between


@dataclasses.dataclass
class _Segments:
    """The same in microseconds, each for the time since the mark before; between forward and backward; and in all."""
    forward: list
    between_us: float
    backward: list
    whole_us: float


def _common_part(lengths, total):
    """What has to be taken from each of the lengths, from shorter ones all they have, so that it is `total` in all."""
    left, count = total, len(lengths)
    for length in sorted(lengths):
        if left <= length * count:
            return left / count
        left -= length
        count -= 1
    return max(lengths, default=0.0)


def _common_path(paths):
    """The path of the module around all of these."""
    return ".".join(os.path.commonprefix([path.split(".") for path in paths])) if all(paths) else ""


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
    iterations are not counted. Marks cost the host time, so every second iteration after these has none, and what the
    others take longer is left out of their times, the same for each mark; unless `alternates` is false.
    """

    def __init__(self, model: nn.Module, batch_size: int, warmup: int = 2, device: Optional[str] = None,
                 alternates: bool = True) -> None:
        self.model = model = unwrapped(model)
        self.batch_size = batch_size
        self.warmup = warmup
        self.alternates = alternates
        parameters = [p for p in model.parameters() if p.requires_grad]
        if not parameters:
            raise ValueError("the model has no parameter that requires a gradient")
        kinds = {p.dtype for p in parameters}
        if len(kinds) != 1 or not kinds <= set(_DTYPES):
            raise ValueError(f"expected parameters of one type among {sorted(_DTYPES.values())}, got {kinds}")
        self.dtype = _DTYPES[kinds.pop()]
        where = parameters[0].device
        self.clock = clock_of(where)
        self.device = device or (torch.cuda.get_device_name(where) if where.type == "cuda" else "CPU")
        self.plain_us = []  # of iterations without marks
        self._segments = []  # of those with marks
        self._names = {module: name for name, module in model.named_modules()}
        self._owners = {}
        self._frozen = {name: p for name, p in model.named_parameters() if not p.requires_grad}
        self._users: dict[nn.Parameter, set[nn.Module]] = {}  # modules that computed with a parameter that is not their own
        self._accumulations: dict[Any, nn.Parameter] = {}  # by the last backward step of a parameter
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self._owners[parameter] = (name, model.get_submodule(name.rpartition(".")[0]))
        self._order = []  # modules in the order in which their forward ended first
        self._ended = set()
        self._current = None
        self._stack = []
        self._seen = set()
        self._handles = []

    # -- measuring

    @contextlib.contextmanager
    def iteration(self) -> Iterator[Profiler]:
        """One forward and one backward pass of the model."""
        self.begin()
        try:
            yield self
        except BaseException:
            self._stop()
            raise
        self.end()

    def begin(self) -> None:
        """Begins an iteration, where a `with` block does not fit into the loop."""
        self._current = _Iteration()
        self._current.is_plain = self.alternates and len(self.plain_us) < len(self._segments) - self.warmup
        self._stack, self._seen, self._accumulations = [], set(), {}
        self._handles = []
        if not self._current.is_plain:
            self._add_hooks()
        self.clock.wait()
        self._current.start = self.clock.mark()

    def end(self) -> None:
        """Ends the iteration that begin() began."""
        end = self.clock.mark()
        self.clock.wait()
        done = self._stop()
        whole_us = self.clock.us(done.start, end)
        if done.is_plain:
            self.plain_us.append(whole_us)
            return
        segments = self._segments_of(done, whole_us)
        self._times(segments, 0.0)  # which finds what is wrong with it
        self._segments.append(segments)

    def _add_hooks(self):
        for module in self._names:
            self._handles.append(module.register_forward_pre_hook(self._enter, **_PRE_HOOK))
            self._handles.append(module.register_forward_hook(self._leave))
        for parameter in self._owners:
            self._handles.append(self._watch_gradient(parameter))

    def _stop(self):
        for handle in self._handles:
            handle.remove()
        self._seen, self._accumulations = set(), {}
        finished, self._current = self._current, None
        return finished

    def _enter(self, module, inputs, keywords=None):
        if self._stack and not self._current.backward:  # a checkpoint may call modules again in backward, and not to their end
            self._charge(self._stack[-1], (inputs, keywords))
        self._mark_forward()
        self._stack.append(module)

    def _leave(self, module, _inputs, output):
        self._mark_forward()
        self._stack.pop()
        if module not in self._ended:
            self._ended.add(module)
            self._order.append(module)
        self._charge(module, output)
        if not self._stack and not self._current.backward:  # a call after backward is none of the iteration's
            self._current.backward_start = self.clock.mark()

    def _charge(self, module, values):
        """Charges a module with the backward steps of its own operations that led to these values."""
        for node in self._new_nodes(values):
            node.register_hook(lambda *_: self._mark_backward(module, None))
            for following, _ in node.next_functions:
                parameter = self._accumulations.get(following)
                if parameter is not None and not any(parameter is own for own in module._parameters.values()):
                    self._users.setdefault(parameter, set()).add(module)

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
        self._accumulations[accumulate] = parameter
        return accumulate.register_hook(lambda *_: self._mark_backward(module, parameter))

    def _new_nodes(self, values):
        """The backward steps that led to these values and that no module is charged with."""
        found, waiting = [], [t.grad_fn for t in tensors_in(values) if t.grad_fn is not None]
        while waiting:
            node = waiting.pop()
            if node is None or node in self._seen:
                continue
            self._seen.add(node)
            found.append(node)
            waiting.extend(following for following, _ in node.next_functions)
        return found

    def _segments_of(self, iteration, whole_us):
        if iteration.backward_start is None:
            raise RuntimeError("the model was not called in this iteration")
        marks = [iteration.start] + [mark for mark, _ in iteration.forward]
        forward = [(self.clock.us(before, mark), module) for before, (mark, module) in zip(marks, iteration.forward)]
        between_us = self.clock.us(marks[-1], iteration.backward_start)
        marks = [iteration.backward_start] + [mark for mark, _, _ in iteration.backward]
        backward = [(self.clock.us(before, mark), module, parameter)
                    for before, (mark, module, parameter) in zip(marks, iteration.backward)]
        return _Segments(forward, between_us, backward, whole_us)

    def _mark_us(self):
        """What a mark makes an iteration longer by; 0 where no iteration was measured without marks. By the clock of a
        CPU the time between two marks holds one of them, so it is at most the shortest; a GPU may be behind the host."""
        counted = sorted(self._segments[self.warmup:], key=lambda each: each.whole_us)
        if not counted or not self.plain_us:
            return 0.0
        middle = counted[(len(counted) - 1) // 2]
        longer = max(0.0, middle.whole_us - statistics.median(self.plain_us))
        lengths = [middle.between_us, *(each[0] for each in middle.forward + middle.backward)]
        if isinstance(self.clock, WallClock):
            return min(longer / len(lengths), *lengths)
        return _common_part(lengths, longer)

    @property
    def iterations(self):
        """The times of each iteration that was measured with marks: see _times()."""
        mark_us = self._mark_us()
        return [self._times(segments, mark_us) for segments in self._segments]

    def _times(self, segments, mark_us):
        """Sums by module in us; gradients in the order they got ready, with the time and their module's part."""
        forward, backward = collections.defaultdict(float), collections.defaultdict(float)
        for us, module in segments.forward:
            if module is not None:
                forward[module] += max(0.0, us - mark_us)
        ready, since, since_start = {}, collections.defaultdict(float), 0.0
        for us, module, parameter in segments.backward:
            passed = max(0.0, us - mark_us)
            since_start += passed
            backward[module] += passed
            since[module] += passed
            if parameter is not None:
                if parameter in ready:
                    raise RuntimeError(f"expected one backward pass in an iteration, got a second gradient of "
                                       f"{self._owners[parameter][0]!r}")
                ready[parameter] = (since_start, since.pop(module))
        missing = [self._owners[p][0] for p in self._owners if p not in ready]
        if missing:
            raise RuntimeError(f"no gradient for {', '.join(missing)}: every iteration needs a whole backward pass")
        for parameter in reversed(list(ready)):  # what a module did after its last gradient belongs to that one
            left = since.pop(self._owners[parameter][1], 0.0)
            ready[parameter] = (ready[parameter][0], ready[parameter][1] + left)
        return forward, backward, ready

    # -- what came out

    def _counted(self):
        if len(self._segments) <= self.warmup:
            raise RuntimeError(f"expected more than {self.warmup} iterations, got {len(self._segments)}")
        return self.iterations[self.warmup:]

    def gradients(self) -> list[dict[str, Any]]:
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

    def profile(self, name: Optional[str] = None) -> dict[str, Any]:
        """The profile in the form of `fusewise.profile`. Layers stand in forward order, except that gradients stand in
        the reverse of the order in which they got ready: where a module's gradients get ready far from each other, or
        not when its place would have it (parameters of the root module), it is several layers, each at its place."""
        counted = self._counted()
        clock = "CUDA events" if isinstance(self.clock, CudaClock) else "wall clock"
        frozen: dict[str, int] = collections.Counter()
        for path, parameter in self._frozen.items():
            frozen[self._called_path(path.rpartition(".")[0])] += parameter.numel()
        layers = [self._layer(module, block, is_first, counted, frozen)
                  for module, block, is_first in self._placed(self._blocks())]
        return {
            "format": "fusewise.profile", "version": 1, "model": name or type(self.model).__name__,
            "batch_size": self.batch_size, "dtype": self.dtype, "device": self.device,
            "origin": {"kind": "measured",
                       "source": f"fusewise.torch on PyTorch {torch.__version__}, {clock}, medians of "
                                 f"{len(counted)} iterations after {self.warmup}{self._marks_text()}"},
            "layers": [layer for layer in layers
                       if layer["tensors"] or "frozen_elements" in layer or layer["forward_us"] + layer["backward_us"] > 0]}

    def _marks_text(self):
        if not self.plain_us:
            return ""
        return f"; {self._mark_us():.1f} us were taken off for each mark, so that they take what {len(self.plain_us)} without marks took"

    def _blocks(self) -> list[tuple[nn.Module, list[nn.Parameter]]]:
        """Parameters against the order in which their gradients got ready, cut where the module changes."""
        by_name = {name: parameter for parameter, (name, _) in self._owners.items()}
        blocks: list[tuple[nn.Module, list[nn.Parameter]]] = []
        for entry in reversed(self.gradients()):
            parameter = by_name[entry["name"]]
            module = self._called(parameter)
            if not blocks or blocks[-1][0] is not module:
                blocks.append((module, []))
            blocks[-1][1].append(parameter)
        return blocks

    def _called(self, parameter: nn.Parameter) -> nn.Module:
        """The module of a parameter, or the nearest around it that is called."""
        return self.model.get_submodule(self._called_path(self._owners[parameter][0].rpartition(".")[0]))

    def _called_path(self, path: str) -> str:
        while path and self.model.get_submodule(path) not in self._ended:
            path = path.rpartition(".")[0]
        return path

    def _running(self, block: list[nn.Parameter]) -> str:
        """The path of the smallest module around these parameters that is called, and is running when any of them is used."""
        paths = [self._owners[p][0].rpartition(".")[0] for p in block]
        paths += [self._names[user] for p in block for user in self._users.get(p, ())]
        return self._called_path(_common_path(paths))

    def _placed(self, blocks):
        """Blocks, and modules without parameters behind the one whose forward ended before theirs. With each whether it
        is its module's largest, which is charged with what belongs to no single gradient."""
        largest: dict[nn.Module, list[nn.Parameter]] = {}
        for module, block in blocks:
            if module not in largest or sum(map(torch.numel, block)) > sum(map(torch.numel, largest[module])):
                largest[module] = block
        followers: dict[Optional[nn.Module], list[nn.Module]] = collections.defaultdict(list)
        anchor = None
        for module in self._order:
            if module in largest:
                anchor = module
            else:
                followers[anchor].append(module)
        placed = [(module, [], True) for module in followers[None]]
        for module, block in blocks:
            is_first = block is largest[module]
            placed.append((module, block, is_first))
            placed += [(follower, [], True) for follower in followers[module] if is_first]
        return placed

    def _layer(self, module, block, is_largest, counted, frozen):
        own = [p for p in self._owners if self._called(p) is module]
        owners = {module} | {self._owners[p][1] for p in own}
        backward_us, backward_spread = _median_and_spread([sum(b.get(m, 0.0) for m in owners) for _, b, _ in counted])
        forward_us, forward_spread = _median_and_spread([sum(f.get(m, 0.0) for m in owners) for f, _, _ in counted])
        parts = {p: statistics.median(ready[p][1] for _, _, ready in counted) for p in own}
        whole = sum(parts.values())
        shares = {p: parts[p] / whole if whole > 0 else 1 / len(own) for p in own}
        tensors = [{"name": self._owners[p][0], "elements": p.numel(), "backward_us": shares[p] * backward_us,
                    "shape": list(p.shape)} for p in block]
        share = sum(shares[p] for p in block) if own else 1.0
        path = self._names[module]
        return {"name": self._layer_name(module) if is_largest else tensors[0]["name"],
                "kind": type(module).__name__.lower(),
                "forward_us": forward_us if is_largest else 0.0,
                "backward_us": sum(t["backward_us"] for t in tensors) if own else backward_us, "tensors": tensors,
                "module": self._running(block) if block else path,
                **({"frozen_elements": frozen[path]} if is_largest and path in frozen else {}),
                "forward_spread_us": forward_spread if is_largest else 0.0,
                "backward_spread_us": share * backward_spread}

    def _layer_name(self, module):
        name = self._names[module]
        if not name:
            name, taken = "model", set(self._names.values())
            while name in taken:
                name += "_"
        return name

    def save(self, path: str, name: Optional[str] = None) -> None:
        """Writes the profile to a file, which is there whole or not at all."""
        _write(path, json.dumps(self.profile(name), indent=2, allow_nan=False) + "\n")

    def save_gradients(self, path: str) -> None:
        """Writes gradients() as CSV."""
        columns = ["name", "elements", "registered", "ready", "ready_us", "spread_us"]
        with tempfile.TemporaryFile("w+", newline="") as text:
            rows = csv.DictWriter(text, columns, lineterminator="\n")
            rows.writeheader()
            rows.writerows(self.gradients())
            text.seek(0)
            _write(path, text.read())


def tensors_in(output):
    if isinstance(output, torch.Tensor):
        yield output
    elif isinstance(output, dict):
        for item in output.values():
            yield from tensors_in(item)
    elif isinstance(output, (list, tuple)):
        for item in output:
            yield from tensors_in(item)


def _write(path, text):
    """The text is on disk before the file gets its name."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(os.path.abspath(path)))
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask
