"""One function per command. Options of the program that have no argument here go into `options`."""
from __future__ import annotations

import contextlib
import json
import os
import pathlib
import tempfile
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

from fusewise._program import run
from fusewise._results import Calibration, Fit, Plan, Profile, Results, plan_of, profile_of, results_of

PathLike = Union[str, "os.PathLike[str]"]
Input = Union[PathLike, Mapping[str, Any]]


@contextlib.contextmanager
def _file(value: Input) -> Iterator[str]:
    """A path or bundled name as it is; an object as a file in the current folder, where its paths start."""
    if not isinstance(value, Mapping):
        yield os.fspath(value)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".json", prefix=".fusewise-", dir=os.getcwd()) as file:
        json.dump(value, file)
        file.flush()
        yield file.name


def simulate(scenario: Input, what_if: Sequence[str] = (), samples: Optional[int] = None,
             options: Sequence[str] = ()) -> Results:
    """Simulates every schedule of a scenario: a file, a bundled name or the object itself."""
    arguments = ["--json", *[word for change in what_if for word in ("--what-if", change)], *options]
    if samples is not None:
        arguments += ["--samples", str(samples)]
    with _file(scenario) as file:
        return results_of(json.loads(run(["simulate", file, *arguments])))


def plan(scenario: Input, workers: Optional[int] = None, schedule: Optional[str] = None,
         options: Sequence[str] = ()) -> Plan:
    """Plans which gradients travel together."""
    arguments = ["--json", *options]
    if workers is not None:
        arguments += ["--workers", str(workers)]
    if schedule is not None:
        arguments += ["--schedule", schedule]
    with _file(scenario) as file:
        return plan_of(json.loads(run(["plan", file, *arguments])))


def report(scenario: Input, output: PathLike, workers: Optional[int] = None) -> pathlib.Path:
    """Writes the HTML report of a scenario or of results."""
    arguments = [] if workers is None else ["--workers", str(workers)]
    with _file(scenario) as file:
        run(["report", file, "-o", os.fspath(output), *arguments])
    return pathlib.Path(output)


def _written(arguments: Sequence[str]) -> dict[str, Any]:
    """The JSON file that a command writes with -o."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "out.json")
        run([*arguments, "-o", file])
        return json.loads(pathlib.Path(file).read_text(encoding="utf-8"))


def fit(logs: Sequence[PathLike], options: Sequence[str] = ()) -> Fit:
    """Fits a network to logs of measured collectives; `raw` is the fusewise.network file."""
    return Fit(raw=_written(["fit", *map(os.fspath, logs), *options]))


def import_trace(*traces: PathLike, options: Sequence[str] = ()) -> Profile:
    """Makes a profile of traces or logs."""
    return profile_of(_written(["import", *map(os.fspath, traces), *options]))


def calibrate(runs: PathLike, setup: Optional[Input] = None, calibrate_on: Sequence[str] = (),
              options: Sequence[str] = ()) -> Calibration:
    """Fits a model and a network to the throughputs of a few runs, and predicts the others."""
    arguments = ["calibrate", os.fspath(runs), *[word for each in calibrate_on for word in ("--calibrate-on", each)],
                 *options]
    if setup is None:
        return Calibration(raw=_written(arguments))
    with _file(setup) as file:
        return Calibration(raw=_written([*arguments, "--setup", file]))
