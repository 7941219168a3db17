"""Records when the buckets of a training job travel, and holds them beside what was predicted.

    watched = fusewise.torch.watch(model)        # a DistributedDataParallel, or a model sharded with FSDP2
    ...                                          # training
    print(fusewise.torch.compare(watched, "job.json"))
"""
from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Optional, Sequence, Union

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import fusewise
from fusewise._results import _frame


@dataclass(frozen=True)
class Transfer:
    """A collective, by medians over iterations. Times are in microseconds from the beginning of the forward pass."""
    collective: str
    bytes: int
    issued_us: float
    arrived_us: float


class Watch:
    """What was recorded on `workers` ranks: `iterations_us`, and the transfers of an iteration in the order in which they
    were issued."""

    workers = 1

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self._begins: list[float] = []
        self._records: list[list[list[Any]]] = []

    def begin(self, *_: Any) -> None:
        """A forward pass begins, and with it an iteration, unless nothing has travelled since the last one began."""
        if torch.is_grad_enabled() and (not self._records or self._records[-1]):
            self._begins.append(time.perf_counter())
            self._records.append([])

    def issue(self, collective: str, size: int) -> list[Any]:
        """A record, whose last entry is the time of arrival, to be set."""
        record = [collective, size, time.perf_counter(), None]
        if self._records:
            self._records[-1].append(record)
        return record

    @property
    def iterations_us(self) -> list[float]:
        return [1e6 * (later - begin) for begin, later in zip(self._begins, self._begins[1:])][self.warmup:]

    def transfers(self) -> list[Transfer]:
        """Those of the iterations after the warm-up that have as many as the last one."""
        counted = [(begin, records) for begin, records in zip(self._begins, self._records)][self.warmup:-1]
        if not counted:
            raise RuntimeError(f"expected more than {self.warmup + 1} iterations, got {len(self._begins)}")
        count = len(counted[-1][1])
        same = [(begin, records) for begin, records in counted
                if len(records) == count and all(record[3] is not None for record in records)]
        return [Transfer(same[-1][1][place][0], same[-1][1][place][1],
                         *(statistics.median(1e6 * (records[place][when] - begin) for begin, records in same)
                           for when in (2, 3)))
                for place in range(count)]

    def to_pandas(self) -> Any:
        return _frame([vars(transfer) for transfer in self.transfers()])


def watch(model: nn.Module, warmup: int = 3, hook: Optional[tuple[Any, Callable[..., Any]]] = None) -> Watch:
    """Begins to record. DistributedDataParallel gets a communication hook, around `hook` (state and function) if that is
    given; a model sharded with FSDP2 gets custom all-gathers and reduce-scatters (PyTorch 2.8 or later). On a GPU times are those
    of the host, which issues collectives and sees them end."""
    watched = Watch(warmup)
    if isinstance(model, DistributedDataParallel):
        _watch_ddp(model, watched, hook)
        model.register_forward_pre_hook(watched.begin)
    elif hasattr(model, "set_custom_all_gather"):
        _watch_fsdp(model, watched)
        model.register_forward_pre_hook(watched.begin, prepend=True)  # before FSDP2 gathers the model's own parameters
    else:
        raise ValueError(f"expected a DistributedDataParallel or a model sharded with FSDP2, got {type(model).__name__}")
    return watched


def _watch_ddp(model: DistributedDataParallel, watched: Watch, inner: Optional[tuple[Any, Callable[..., Any]]]) -> None:
    size = watched.workers = dist.get_world_size(model.process_group)

    # DistributedDataParallel checks the annotations of hooks, and takes none that are text.
    def all_reduce(_state, bucket):  # type: ignore[no-untyped-def]
        buffer = bucket.buffer().div_(size)
        return dist.all_reduce(buffer, group=model.process_group, async_op=True).get_future().then(
            lambda future: future.value()[0])
    state, hook = inner or (None, all_reduce)

    def recording(_state, bucket):  # type: ignore[no-untyped-def]
        record = watched.issue("all_reduce", bucket.buffer().numel() * bucket.buffer().element_size())

        def arrived(future: Any) -> Any:
            record[3] = time.perf_counter()
            return future.value()
        return hook(state, bucket).then(arrived)
    model.register_comm_hook(None, recording)


def _watch_fsdp(model: Any, watched: Watch) -> None:
    from torch.distributed.fsdp import FSDPModule
    from torch.distributed.fsdp._fully_shard import _fsdp_collectives as collectives
    watched.workers = dist.get_world_size()

    def recording(name: str, base: Any) -> Any:
        class Recording(base):
            def __call__(self, *positional: Any, **named: Any) -> Any:
                whole = named.get("output_tensor" if name == "all_gather" else "input_tensor")
                whole = positional[0 if name == "all_gather" else 1] if whole is None else whole
                record = watched.issue(name, whole.numel() * whole.element_size())
                work = super().__call__(*positional, **named)
                record[3] = time.perf_counter()
                return work
        return Recording()
    gather = recording("all_gather", collectives.DefaultAllGather)
    scatter = recording("reduce_scatter", collectives.DefaultReduceScatter)
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_custom_all_gather(gather)
            module.set_custom_reduce_scatter(scatter)


# ---- beside a prediction


def compare(watched: Watch, scenario: Union[str, "os.PathLike[str]", Mapping[str, Any]], schedule: int = 0) -> str:
    """A table of transfers, predicted by a schedule of the scenario (its place there), beside what was measured. The
    prediction is that of as many workers, or, with a warning, of the first number of the scenario if it has no such."""
    predicted, iteration_us, workers = _simulated(scenario, schedule, watched.workers)
    if workers != watched.workers:
        warnings.warn(f"predicted on {workers} workers, measured on {watched.workers}", stacklevel=2)
    measured = watched.transfers()
    lines = ["transfer        predicted: MB   issued ms  arrived ms    measured: MB   issued ms  arrived ms"]
    for place in range(max(len(predicted), len(measured))):
        cells = [_cells(side[place] if place < len(side) else None) for side in (predicted, measured)]
        name = (measured if place < len(measured) else predicted)[place].collective
        lines.append(f"{place + 1:>3} {name:<14} {cells[0]}   {cells[1]}")
    took = watched.iterations_us
    lines.append(f"iteration: predicted {iteration_us / 1e3:.1f} ms, measured {statistics.median(took) / 1e3:.1f} ms "
                 f"(median of {len(took)})")
    return "\n".join(lines)


def _cells(transfer: Optional[Transfer]) -> str:
    if transfer is None:
        return f"{'-':>13} {'-':>11} {'-':>11}"
    return f"{transfer.bytes / 1e6:13.2f} {transfer.issued_us / 1e3:11.1f} {transfer.arrived_us / 1e3:11.1f}"


def _simulated(scenario: Any, schedule: int, workers: int) -> tuple[Sequence[Transfer], float, int]:
    """The transfers of the first iteration of a simulated schedule, how long an iteration takes, and on how many workers:
    as many as wanted, otherwise the first number of the scenario."""
    entries = fusewise.simulate(scenario).entries
    if all(entry.workers != workers for entry in entries):
        workers = entries[0].workers
    entry = [entry for entry in entries if entry.workers == workers][schedule]
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "timeline.json")
        fusewise.simulate(scenario, options=["--timeline", file, "--timeline-workers", str(workers)])
        with open(file, encoding="utf-8") as text:
            events = json.load(text)["traceEvents"]
    process = sorted({event["pid"] for event in events})[schedule]
    return [Transfer(event["name"].split(" ")[0].replace("-", "_"), event["args"]["bytes"], event["ts"],
                     event["ts"] + event["dur"])
            for event in events if event["ph"] == "X" and event["pid"] == process and event.get("cat") == "communication"
            and event["args"]["iteration"] == 1], entry.iteration_us, workers
