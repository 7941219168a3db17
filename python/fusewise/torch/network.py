"""Measures collectives over the process group of a job, with the job's own backend."""
from __future__ import annotations

import statistics
import time
from typing import Any, Callable, Sequence

import torch
import torch.distributed as dist

_SMALLEST = 4096
_MATRIX = 256  # rows; its square takes about as long as a small layer
_QUEUED_BYTES = 4 * 2**20
_IN_A_ROW = 3  # how many collectives of a large size are timed together
_TURNS = 3
_ENOUGH_S = 1.0  # for one size, where it takes longer than the fewest repetitions


class Group:
    """A process group, and where its tensors have to be."""

    def __init__(self, process_group: Any, device: torch.device) -> None:
        self.process_group = process_group
        self.device = device
        self.size: int = dist.get_world_size(process_group)
        self.rank: int = dist.get_rank(process_group)

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def slowest(self, values: Sequence[float]) -> list[float]:
        """The greatest of all ranks, value by value: a collective ends when its last rank does."""
        return self._reduced(values, dist.ReduceOp.MAX)

    def mean(self, values: Sequence[float]) -> list[float]:
        return [value / self.size for value in self._reduced(values, dist.ReduceOp.SUM)]

    def _reduced(self, values: Sequence[float], operation: Any) -> list[float]:
        tensor = torch.tensor(list(values), dtype=torch.float64, device=self.device)
        dist.all_reduce(tensor, op=operation, group=self.process_group)
        return tensor.tolist()

    def agree(self, value: Any) -> Any:
        """What the first rank says."""
        holder = [value]
        source = 0 if self.process_group is None else dist.get_global_rank(self.process_group, 0)
        dist.broadcast_object_list(holder, src=source, group=self.process_group,
                                   **({"device": self.device} if self.device.type == "cuda" else {}))
        return holder[0]

    def time(self, collective: Callable[[], Any]) -> float:
        """Microseconds of one call that all ranks begin together."""
        dist.barrier(self.process_group)
        self.wait()
        began = time.perf_counter()
        collective()
        self.wait()
        return 1e6 * (time.perf_counter() - began)

    def median_time(self, collective: Callable[[], Any], fewest: int = 5, most: int = 25) -> float:
        """The median of as many calls as fit into a second, after two that are not counted."""
        first = max(self.slowest([self.time(collective) for _ in range(2)])[1:])
        count = int(min(most, max(fewest, 1e6 * _ENOUGH_S / max(first, 1.0))))
        return statistics.median(self.slowest([self.time(collective) for _ in range(count)]))


def sizes_up_to(most: int) -> list[int]:
    """Bytes from 4 KiB to `most`, four times as many each."""
    sizes = []
    size = _SMALLEST
    while size < 0.7 * most:
        sizes.append(size)
        size *= 4
    return sizes + [max(most, _SMALLEST)]


def all_reduce_curve(group: Group, most_bytes: int, dtype: torch.dtype = torch.float32) -> list[list[float]]:
    """Bytes and microseconds of an all-reduce, from 4 KiB to the largest size. Small ones are timed several at once, as
    buckets queue in a job: backends run more than one at a time, which hides a part of their startup."""
    def buffers(size: int, count: int) -> list[torch.Tensor]:
        elements = size // torch.empty(0, dtype=dtype).element_size()
        return [torch.ones(elements, dtype=dtype, device=group.device) for _ in range(count)]

    def timed(size: int) -> float:
        queue = buffers(size, _together(size))
        return group.median_time(lambda: all_reduces(group, queue)) / len(queue)
    return _rising([[size, timed(size)] for size in sizes_up_to(most_bytes)])


def with_startup(curve: Sequence[Sequence[float]], startup_us: float, large: int) -> list[list[float]]:
    """The curve of a job in which an all-reduce of less than `large` bytes takes this time besides what the link needs for
    its bytes at the rate of the largest size. Those of `large` bytes and more stay as they are."""
    per_byte = curve[-1][1] / curve[-1][0]
    out = [[size, startup_us + size * per_byte if size < large else us] for size, us in curve]
    for place in reversed(range(len(out) - 1)):  # no size takes longer than the next
        out[place][1] = min(out[place][1], out[place + 1][1])
    return out


def _together(size: int) -> int:
    return max(1, min(8, _QUEUED_BYTES // size))


def all_reduces(group: Group, buffers: Sequence[torch.Tensor]) -> None:
    """All at once, as far as the backend goes."""
    for work in [dist.all_reduce(buffer, group=group.process_group, async_op=True) for buffer in buffers]:
        work.wait()


def sharding_curves(group: Group, most_bytes: int) -> dict[str, list[list[float]]]:
    """The same for all-gather and reduce-scatter of float32, by the bytes of the whole. Each is waited for, as FSDP2 does, and
    computing comes before it, which has taken the processor from the backend's threads. Nothing else joins the ranks: over Gloo an
    all-gather ends earlier on one rank than on another, and the next one, which begins so much earlier there, then takes up to half
    as long again, until a reduce-scatter ends on all ranks at once. So all-gathers are timed as in an iteration: some in a row, and some each
    before a reduce-scatter. All sizes are timed in turns, of which the median counts, as a machine may be slower for some seconds."""
    # The older names warn since PyTorch 2.13.
    all_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
    reduce_scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
    matrix = torch.ones(_MATRIX, _MATRIX, device=group.device)
    product = torch.empty_like(matrix)

    def took(kinds: str, whole: torch.Tensor, part: torch.Tensor) -> float:
        def run() -> None:
            for kind in kinds:
                torch.mm(matrix, matrix, out=product)
                if kind == "g":
                    all_gather(whole, part, group=group.process_group)
                elif kind == "s":
                    reduce_scatter(part, whole, group=group.process_group)
        return group.median_time(run, fewest=2)

    def timed(size: int) -> list[float]:
        part = torch.ones(max(1, size // 4 // group.size), device=group.device)
        whole = torch.ones(part.numel() * group.size, device=group.device)
        count = max(_IN_A_ROW, _together(size))
        return [took("-", whole, part), took("s" * count, whole, part) / count, took("g" * count + "gs" * count, whole, part) / count]

    sizes = sizes_up_to(most_bytes)
    turns = [[timed(size) for size in sizes] for _ in range(_TURNS)]
    curves: dict[str, list[list[float]]] = {"all_gather": [], "reduce_scatter": []}
    for size, *of_turns in zip(sizes, *turns):
        compute, scattering, both = map(statistics.median, zip(*of_turns))
        scatter = max(0.0, scattering - compute)
        curves["all_gather"].append([size, max(0.0, both - 3 * compute - scatter) / 2])
        curves["reduce_scatter"].append([size, scatter])
    return {name: _rising(curve) for name, curve in curves.items()}


def at(curve: Sequence[Sequence[float]], size: float) -> float:
    """A curve between its points, the first value below them and the last line above."""
    if size <= curve[0][0] or len(curve) == 1:
        return curve[0][1]
    for (low, low_us), (high, high_us) in zip(curve, curve[1:]):
        if size <= high:
            break
    return low_us + (size - low) * (high_us - low_us) / (high - low)


def _rising(curve: Sequence[Sequence[float]]) -> list[list[float]]:
    """A larger message never takes less time: neighbours that seem to are noisy, and get their mean."""
    pools: list[list[float]] = []  # mean, and how many
    for _, us in curve:
        pools.append([us, 1])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            last_us, last = pools.pop()
            us_before, before = pools[-1]
            pools[-1] = [(us_before * before + last_us * last) / (before + last), before + last]
    times = [us for us, count in pools for _ in range(int(count))]
    return [[size, us] for (size, _), us in zip(curve, times)]
