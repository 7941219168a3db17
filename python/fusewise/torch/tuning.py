"""Measures a training job from inside its own iterations, and tries settings of DistributedDataParallel in it.

A Tuning stands behind the forward pass of the script's DistributedDataParallel. Before each iteration a program, which is
a generator, says how the iteration runs: with the buckets of a setting, or without communication, and it gets back how
long its parts took. Gradients are averaged over all ranks in every iteration, so that training goes on as it would.
"""
from __future__ import annotations

import dataclasses
import statistics
import time
from dataclasses import dataclass
from typing import Any, Callable, Generator, Mapping, Optional, Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from fusewise.torch import network, plans, prediction, trials
from fusewise.torch.prediction import Costs, Setting
from fusewise.torch.profiler import Clock, Profiler, clock_of, tensors_in

_WARM_UP = 3
_PROFILED = 8
_EXPLORED_ROUNDS = 8
_LARGE_BYTES = 2**20
_BESIDE_ROUNDS = 6, 20  # the fewest, and the most where they fit into this time:
_BESIDE_S = 10
_PAIRS = 4
_MIB = 2**20


class NotMeasurable(BaseException):
    """The script does what cannot be measured; the text is one line. No script catches it by chance."""


@dataclass
class Iteration:
    """When the parts of an iteration ended: marks of the clock, which is the GPU's where the model is on one."""
    clock: Clock
    began: Any
    forward_began: Any = None
    forward_ended: Any = None
    computed: Any = None  # backward without what DDP does behind it
    finished: Any = None  # with it: gradients are averaged
    went_on: Any = None  # after the averaging of an iteration without communication
    ended: Any = None

    def us(self, part: str) -> float:
        """Only once the work before all marks is done."""
        ends = {"forward": (self.forward_began, self.forward_ended), "backward": (self.forward_ended, self.computed),
                "behind": (self.computed, self.finished), "whole": (self.began, self.ended),
                "compute": (self.forward_began, self.computed), "model": (self.forward_began, self.finished)}
        if part == "rest":
            return self.clock.us(self.began, self.forward_began) + self.clock.us(self.went_on, self.ended)
        return self.clock.us(*ends[part])


@dataclass
class Mode:
    """How an iteration runs."""
    run: nn.Module  # the wrapped model
    is_alone: bool = False  # no communication until backward has ended; then all gradients are averaged
    beside: Sequence[torch.Tensor] = ()  # whose all-reduces are under way during backward
    profiler: Optional[Profiler] = None


Program = Generator[Mode, Iteration, None]


@dataclass(frozen=True)
class Result:
    """What was found. Times are in microseconds."""
    costs: Costs
    plan: Any
    settings: list[Setting]
    explored: list[list[float]]  # iterations of each setting, round by round
    best: int  # the setting that was confirmed
    confirmed: tuple[list[float], list[float]]  # iterations with the default and with it
    behind_us: list[list[float]]  # of the explored iterations: waiting and copying behind backward

    @property
    def saving(self) -> trials.Saving:
        return trials.saving(*self.confirmed)


class Tuning:
    """The measurement of one DistributedDataParallel. `report` gets the result, on every rank, and `tell` what is done
    next, in words."""

    def __init__(self, ddp: DistributedDataParallel, arguments: Mapping[str, Any], rounds: int,
                 report: Callable[[Result], None], tell: Callable[[str], None] = lambda what: None) -> None:
        self.ddp = ddp
        self.arguments = dict(arguments)
        self.rounds = rounds
        self.report = report
        self.tell = tell
        self.parameters = [p for p in ddp.module.parameters() if p.requires_grad]
        self.group = network.Group(ddp.process_group, self.parameters[0].device)
        self.clock = clock_of(self.group.device)
        self.iterations = 0
        self.batch_size = 1
        self._program: Optional[Program] = self._measure()
        self._mode: Optional[Mode] = None
        self._current: Optional[Iteration] = None
        self._is_in_forward = False
        self._works: list[Any] = []
        self._flat = torch.zeros(sum(p.numel() for p in self.parameters), dtype=self.parameters[0].dtype,
                                 device=self.group.device)
        self.is_building = False  # a DistributedDataParallel of its own
        self._check_arguments()
        ddp.module.register_forward_pre_hook(self._forward_begins)
        ddp.module.register_forward_hook(self._forward_ends)

    def _check_arguments(self) -> None:
        if self.group.size < 2:
            raise NotMeasurable("expected a job of two ranks or more, got one: fusewise torch --nproc 2 train.py")
        if self.arguments.get("find_unused_parameters") or self.arguments.get("static_graph"):
            raise NotMeasurable("find_unused_parameters and static_graph are not measured")
        if self.arguments.get("bucket_cap_mb_list"):
            raise NotMeasurable("the script sets bucket_cap_mb_list already: leave it out to have it measured")
        if len({p.dtype for p in self.parameters}) != 1:
            raise NotMeasurable("expected gradients of one type")

    # -- one iteration

    def forward(self, plain: Callable[..., Any], inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """In place of DistributedDataParallel.forward(), which is `plain`."""
        if self._program is None or not torch.is_grad_enabled() or not self.ddp.training:
            return plain(self.ddp, *inputs, **named)
        if not self.ddp.require_backward_grad_sync:
            raise NotMeasurable("gradients are accumulated under no_sync(), which is not measured")
        if self._current is not None and self._current.finished is None:
            raise NotMeasurable("the model is called twice before a backward pass, which is not measured")
        self._next(inputs)
        if self._program is None:
            return plain(self.ddp, *inputs, **named)
        if self._mode.profiler is not None:
            self._mode.profiler.begin()
        self._current = Iteration(self.clock, began=self.clock.mark())
        self._is_in_forward = True
        try:
            return self._forward(plain, inputs, named)
        finally:
            self._is_in_forward = False

    def _forward(self, plain: Callable[..., Any], inputs: Sequence[Any], named: Mapping[str, Any]) -> Any:
        run = self._mode.run
        if not isinstance(run, DistributedDataParallel):
            return run(*inputs, **named)
        if run is not self.ddp or not self._mode.is_alone:
            return plain(run, *inputs, **named)
        run.require_backward_grad_sync = False
        try:
            return plain(run, *inputs, **named)
        finally:
            run.require_backward_grad_sync = run.require_forward_param_sync = True

    def _next(self, inputs: Sequence[Any]) -> None:
        ended, self._current = self._current, None
        if ended is not None:
            self.iterations += 1
            ended.ended = self.clock.mark()
        self.group.wait()
        if ended is None:
            self.batch_size = next((len(i) for i in inputs if isinstance(i, torch.Tensor) and i.dim() > 0), 1)
            if self.ddp._get_ddp_logging_data().get("comm_hook"):
                raise NotMeasurable("the script registers a communication hook, which is not measured")
        try:
            self._mode = self._program.send(ended)
        except StopIteration:
            self._program = None

    def _forward_begins(self, _module: nn.Module, _inputs: Any) -> None:
        if self._is_in_forward:
            self._current.forward_began = self.clock.mark()

    def _forward_ends(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        if not self._is_in_forward:
            return
        waits = [True]

        def backward_begins(_gradient: torch.Tensor) -> None:
            if waits:
                waits.clear()
                torch.autograd.Variable._execution_engine.queue_callback(self._backward_ends)
        for tensor in tensors_in(output):
            if tensor.requires_grad:
                tensor.register_hook(backward_begins)
        works = [dist.all_reduce(buffer, group=self.group.process_group, async_op=True) for buffer in self._mode.beside]
        self._current.forward_ended = self.clock.mark()
        self._works = works

    def _backward_ends(self) -> None:
        """Callbacks of autograd run in the order in which they are queued: this one before DDP's, the next behind it."""
        self._current.computed = self.clock.mark()
        if self._mode.profiler is not None:
            try:
                self._mode.profiler.end()
            except RuntimeError as error:
                raise NotMeasurable(str(error)) from error
        torch.autograd.Variable._execution_engine.queue_callback(self._all_ends)

    def _all_ends(self) -> None:
        for work in self._works:
            work.wait()
        self._current.finished = self._current.went_on = self.clock.mark()
        if self._mode.is_alone:
            self._average()
            self._current.went_on = self.clock.mark()

    def _average(self) -> None:
        parts = [part.view_as(p) for part, p in zip(self._flat.split([p.numel() for p in self.parameters]), self.parameters)]
        for part, parameter in zip(parts, self.parameters):
            torch.div(parameter.grad, self.group.size, out=part)
        dist.all_reduce(self._flat, group=self.group.process_group)
        for part, parameter in zip(parts, self.parameters):
            parameter.grad.copy_(part)

    # -- the program

    def _measure(self) -> Program:
        self.tell("warming up")
        (warm,) = yield from self._run(Mode(self.ddp), _WARM_UP)
        costs = yield from self._costs()
        self.tell("planning")
        settings, found = self.group.agree(self._candidates(costs) if self.group.rank == 0 else None)
        wrapped = [self.ddp, *[self._wrap(setting) for setting in settings[1:]]]
        count = len(wrapped) * _EXPLORED_ROUNDS + 2 * self.rounds
        self.tell(f"trying {len(wrapped)} settings in {count} iterations, about {1e-6 * count * warm[-1]:.0f} s")
        for module in wrapped[1:]:  # buckets are made anew after the first iteration
            yield from self._run(self._with(module, wrapped), 2)
        explored, behind = yield from self._rounds(wrapped, _EXPLORED_ROUNDS)
        best = 1 + min(range(len(wrapped) - 1), key=lambda each: statistics.median(explored[1 + each]))
        confirmed, _ = yield from self._rounds([wrapped[0], wrapped[best]], self.rounds)
        self.report(Result(costs, found, settings, explored, best, (confirmed[0], confirmed[1]), behind))

    def _run(self, mode: Mode, count: int, parts: Sequence[str] = ("whole",)
             ) -> Generator[Mode, Iteration, list[list[float]]]:
        """Each part of `count` iterations, in microseconds of the slowest rank."""
        rows = []
        for _ in range(count):
            ended = yield mode
            rows.append([ended.us(part) for part in parts])
        return [list(part) for part in zip(*(self.group.slowest(row) for row in rows))]

    def _costs(self) -> Generator[Mode, Iteration, Costs]:
        self.tell(f"measuring layers in {2 * (_PROFILED + 1)} iterations")
        profiler = Profiler(self.ddp.module, self.batch_size, warmup=1, alternates=False)
        parts = ("forward", "backward", "rest", "compute")
        bare: list[list[float]] = [[] for _ in parts]
        for number in range(_PROFILED + 1):
            yield from self._run(Mode(self.ddp, is_alone=True, profiler=profiler), 1)
            measured = yield from self._run(Mode(self.ddp, is_alone=True), 1, parts)
            if number > 0:
                for values, more in zip(bare, measured):
                    values += more
        forward, backward, rest, compute = map(statistics.median, bare)
        self.tell(f"measuring copies into buckets in {4 + 4 * _PAIRS} iterations")
        encode, decode = yield from self._copies()
        self.tell("measuring all-reduces, alone and beside computing")
        elements = sum(p.numel() for p in self.parameters)
        curve = network.all_reduce_curve(self.group, elements * self.parameters[0].element_size(),
                                         self.parameters[0].dtype)
        curve, *slowdowns = yield from self._beside_computing(curve, backward)
        scale = compute / (forward + backward)
        observed = prediction.with_ready_times(profiler.profile(type(self.ddp.module).__name__), profiler.gradients())
        profile = prediction.scaled(self.group.agree(observed), scale * forward, scale * backward)
        return Costs(profile, curve, self.group.size, rest, encode, decode, *slowdowns)

    def _copies(self, hook: Any = None) -> Generator[Mode, Iteration, tuple[dict[str, float], dict[str, float]]]:
        """What DDP does besides sending, per bucket and per byte: from its iterations on a group of one rank, once with
        one bucket and once with one for each gradient, in turns with iterations without DDP, so that a machine that gets slower
        counts for both. `hook` is a communication hook."""
        own = [dist.new_group([rank]) for rank in range(dist.get_world_size())][dist.get_rank()]
        sizes = [p.numel() * p.element_size() for p in self.parameters]
        whole = sum(sizes)
        points = []
        for buckets, cap in ((1, 2 * whole / _MIB), (len(sizes), 1 / _MIB)):
            arguments = {**self.arguments, "process_group": own, "bucket_cap_mb": cap}
            first = dist._DEFAULT_FIRST_BUCKET_BYTES
            dist._DEFAULT_FIRST_BUCKET_BYTES = int(cap * _MIB)  # of releases in which the cap leaves it alone
            wrapped = self._build(arguments)
            dist._DEFAULT_FIRST_BUCKET_BYTES = first
            if hook is not None:
                wrapped.register_comm_hook(own, hook)
            yield from self._run(Mode(wrapped, is_alone=True), 2)
            longer = []
            for _ in range(_PAIRS):
                (bare,), (bare_behind,) = yield from self._run(Mode(self.ddp, is_alone=True), 1, ("compute", "behind"))
                (computing,), (behind,) = yield from self._run(Mode(wrapped, is_alone=True), 1, ("compute", "behind"))
                longer.append((computing - bare, behind - bare_behind))
            points.append((buckets, *(max(0.0, statistics.median(values)) for values in zip(*longer))))
        return tuple(_per_bucket_and_byte([(n, each[k]) for n, *each in points], whole) for k in (0, 1))

    def _beside_computing(self, curve: list[list[float]], backward_us: float
                          ) -> Generator[Mode, Iteration, tuple[list[list[float]], float, float]]:
        """The curve with all-reduces of less than a MiB as they are among those of a job; how much slower backward is beside
        large ones, and these beside it."""
        width = self._flat.element_size()
        slower, lost = yield from self._beside_large(min(_LARGE_BYTES, int(curve[-1][0])) // width, backward_us)
        lost = min(0.9, max(0.0, lost))
        slowdown = lost / (1 - lost)
        each = self._flat.split([p.numel() for p in self.parameters])[::-1]
        small = [part for part in each if part.numel() * width < _LARGE_BYTES]
        merged = self._flat[:sum(part.numel() for part in small)].split(_LARGE_BYTES // width)
        if self._flat.numel() * width > _LARGE_BYTES and len(small) > len(merged):
            together = [part for part in each if part.numel() * width >= _LARGE_BYTES] + [*merged]
            longer_us, share = yield from self._apart(together, each, backward_us)
            startup_us = longer_us / (len(small) - len(merged)) / (1 + share * slowdown)
            curve = network.with_startup(curve, startup_us, _LARGE_BYTES)
        return curve, max(0.0, slower - 1), slowdown

    def _beside_large(self, elements: int, backward_us: float) -> Generator[Mode, Iteration, tuple[float, float]]:
        """All-reduces of this size are queued during backward, and last somewhat longer. How many times as long backward takes
        beside them, and what they lose, as a share of the time beside backward."""
        large = torch.zeros(elements, dtype=self._flat.dtype, device=self.group.device)
        count = self._often_enough([large], backward_us)

        def measure() -> Generator[Mode, Iteration, tuple[float, ...]]:
            (bare,), = yield from self._run(Mode(self.ddp, is_alone=True), 1, ("backward",))
            alone = self._alone_us([large] * count)
            beside, behind = yield from self._sending([large] * count)
            return bare, alone, beside, beside + behind
        bare, alone, beside, whole = yield from self._often(measure)
        return beside / bare, (whole - alone) / beside

    def _apart(self, together: Sequence[torch.Tensor], each: Sequence[torch.Tensor], backward_us: float
               ) -> Generator[Mode, Iteration, tuple[float, float]]:
        """All gradients are sent during backward, and somewhat longer, once with the small ones merged and once each by itself.
        How much longer the second takes, and the share of backward in its time."""
        count = self._often_enough(together, backward_us)

        def measure() -> Generator[Mode, Iteration, tuple[float, ...]]:
            merged = yield from self._sending([*together] * count)
            beside, behind = yield from self._sending([*each] * count)
            return sum(merged), beside + behind, beside / (beside + behind)
        merged, apart, share = yield from self._often(measure)
        return max(0.0, apart - merged) / count, share

    def _alone_us(self, buffers: Sequence[torch.Tensor]) -> float:
        return self.group.slowest([self.group.time(lambda: network.all_reduces(self.group, buffers))])[0]

    def _often_enough(self, buffers: Sequence[torch.Tensor], backward_us: float) -> int:
        """How many times all of these have to be sent to last somewhat longer than backward."""
        self._alone_us(buffers)  # the first time is longer
        return 1 + int(1.5 * backward_us / self._alone_us(buffers))

    def _sending(self, buffers: Sequence[torch.Tensor]) -> Generator[Mode, Iteration, tuple[float, float]]:
        """Backward beside all-reduces of these, and how long they take behind it."""
        (backward,), (behind,) = yield from self._run(Mode(self.ddp, is_alone=True, beside=buffers), 1, ("backward", "behind"))
        return backward, behind

    def _often(self, measure: Callable[[], Generator[Mode, Iteration, tuple[float, ...]]]
               ) -> Generator[Mode, Iteration, list[float]]:
        """Medians of what is measured in turns, so that a machine that gets slower counts for all of it. Short iterations are
        measured more often: a small all-reduce takes from nothing to some milliseconds, as it waits behind large ones and for the
        processor."""
        rows: list[tuple[float, ...]] = []
        began = time.perf_counter()
        for number in range(_BESIDE_ROUNDS[1] + 1):
            if number > _BESIDE_ROUNDS[0] and self.group.slowest([time.perf_counter() - began])[0] > _BESIDE_S:
                break
            rows.append((yield from measure()))
        return [statistics.median(part) for part in zip(*rows[1:])]

    def _candidates(self, costs: Costs) -> tuple[list[Setting], Any]:
        """The default first, then the plan and the two best single caps, by prediction."""
        lists = plans.takes_lists()
        found = prediction.plan(costs)
        default, *single = prediction.predict(costs, [prediction.default_setting(self.arguments, lists),
                                                      *prediction.single_caps(costs, lists)])
        different = sorted((s for s in single if abs(s.predicted_us - default.predicted_us) > 1),
                           key=lambda setting: setting.predicted_us)
        return [default, prediction.planned(found, costs, lists), *(different or single)[:2]], found

    def _wrap(self, setting: Setting) -> nn.Module:
        if setting.groups is not None:
            raw = {"format": "fusewise.plan", "pipeline": "wfbp", "groups": [{"tensors": g} for g in setting.groups]}
            return plans.apply_plan(self.ddp.module, raw, self.group.process_group)
        caps = {key: value for key, value in self.arguments.items() if not key.startswith("bucket_cap_mb")}
        return self._build({**caps, **setting.arguments})

    def _build(self, arguments: Mapping[str, Any]) -> DistributedDataParallel:
        self.is_building = True
        try:
            return DistributedDataParallel(self.ddp.module, **{"process_group": self.group.process_group, **arguments})
        finally:
            self.is_building = False

    def _with(self, module: nn.Module, wrapped: Sequence[nn.Module]) -> Mode:
        for each in wrapped:
            if isinstance(each, plans.BucketedDataParallel):
                each.require_sync = each is module
        return Mode(module)

    def _rounds(self, wrapped: Sequence[nn.Module], rounds: int
                ) -> Generator[Mode, Iteration, tuple[list[list[float]], list[list[float]]]]:
        """Iterations, and the time behind backward, of each, in turns."""
        whole: list[list[float]] = [[] for _ in wrapped]
        behind: list[list[float]] = [[] for _ in wrapped]
        for turn in trials.turns(len(wrapped), rounds):
            for place in turn:
                ended = yield self._with(wrapped[place], wrapped)
                whole[place].append(ended.us("whole"))
                behind[place].append(ended.us("behind"))
        return [self.group.mean(times) for times in whole], [self.group.mean(times) for times in behind]


def _per_bucket_and_byte(points: Sequence[tuple[int, float]], whole: int) -> dict[str, float]:
    (few, few_us), (many, many_us) = points
    each = max(0.0, (many_us - few_us) / (many - few)) if many > few else 0.0
    return {"startup_us": each, "us_per_byte": max(0.0, few_us - few * each) / whole}
