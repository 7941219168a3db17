"""What the program answers, as dataclasses. `raw` is the whole JSON document."""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Optional


def _frame(rows: list[dict[str, Any]]) -> Any:
    """A pandas.DataFrame; pandas is needed for this alone."""
    import pandas
    return pandas.DataFrame(rows)


@dataclass(frozen=True)
class Entry:
    """One schedule on one number of workers. Times are in microseconds."""
    workers: int
    schedule: str
    pipeline: str
    fusion: str
    compression: str
    groups: int
    iteration_us: float
    forward_us: float
    backward_us: float
    encode_us: float
    decode_us: float
    update_us: float
    unoverlapped_input_us: float
    communication_us: float
    exposed_communication_us: float
    bytes_sent_per_worker: float
    throughput_samples_per_s: float
    speedup: float
    scaling_efficiency: float
    raw: dict[str, Any] = field(repr=False, compare=False, default_factory=dict)


@dataclass(frozen=True)
class Results:
    scenario: str
    warnings: list[str]
    entries: list[Entry]
    raw: dict[str, Any] = field(repr=False, compare=False)

    def on(self, workers: int) -> list[Entry]:
        return [entry for entry in self.entries if entry.workers == workers]

    def fastest(self, workers: Optional[int] = None) -> Entry:
        """The entry with the shortest iteration, by default on the largest number of workers."""
        count = max(entry.workers for entry in self.entries) if workers is None else workers
        return min(self.on(count), key=lambda entry: entry.iteration_us)

    def to_pandas(self) -> Any:
        return _frame([{key: value for key, value in dataclasses.asdict(entry).items() if key != "raw"}
                       for entry in self.entries])


@dataclass(frozen=True)
class Group:
    tensors: list[str]
    bytes: int


@dataclass(frozen=True)
class Plan:
    model: str
    workers: int
    pipeline: str
    optimality: str
    iteration_us: float
    lower_bound_us: float
    groups: list[Group]
    raw: dict[str, Any] = field(repr=False, compare=False)

    def to_pandas(self) -> Any:
        return _frame([{"group": number, "bytes": group.bytes, "tensors": len(group.tensors),
                        "first": group.tensors[0], "last": group.tensors[-1]}
                       for number, group in enumerate(self.groups, 1)])


@dataclass(frozen=True)
class Profile:
    """A profile, or a network where the trace gives one: `raw` is the file."""
    model: str
    batch_size: int
    device: str
    raw: dict[str, Any] = field(repr=False, compare=False)

    def to_pandas(self) -> Any:
        return _frame([{"layer": layer["name"], "kind": layer["kind"], "forward_us": layer["forward_us"],
                        "backward_us": layer["backward_us"],
                        "elements": sum(tensor["elements"] for tensor in layer["tensors"])}
                       for layer in self.raw["layers"]])


@dataclass(frozen=True)
class Fit:
    raw: dict[str, Any] = field(compare=False)


@dataclass(frozen=True)
class Calibration:
    raw: dict[str, Any] = field(compare=False)


def results_of(raw: dict[str, Any]) -> Results:
    names = [each.name for each in dataclasses.fields(Entry) if each.name != "raw"]
    entries = [Entry(**{name: entry[name] for name in names}, raw=entry) for entry in raw["results"]]
    return Results(scenario=raw["scenario"], warnings=raw["warnings"], entries=entries, raw=raw)


def plan_of(raw: dict[str, Any]) -> Plan:
    return Plan(model=raw["model"], workers=raw["workers"], pipeline=raw["pipeline"], optimality=raw["optimality"],
                iteration_us=raw["predicted"]["iteration_us"], lower_bound_us=raw["predicted"]["lower_bound_us"],
                groups=[Group(tensors=group["tensors"], bytes=group["bytes"]) for group in raw["groups"]], raw=raw)


def profile_of(raw: dict[str, Any]) -> Profile:
    return Profile(model=raw["model"], batch_size=raw["batch_size"], device=raw["device"], raw=raw)
