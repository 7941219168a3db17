"""Finds the program, runs it, and turns its exit code into an exception."""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import warnings
from typing import Sequence


class Failure(Exception):
    """The program did not succeed; the text is the line that it printed."""


class InputError(Failure, ValueError):
    """The input is wrong (exit code 2): FILE: /json/pointer: expected X, got Y."""


class EnvironmentFailed(Failure, OSError):
    """The machine failed (exit code 1): writing, GPU, network."""


class OutOfTolerance(Failure):
    """A validation is outside its tolerance (exit code 3)."""


_FAILURES = {1: EnvironmentFailed, 2: InputError, 3: OutOfTolerance}
_WARNING = "warning: "


def program() -> pathlib.Path:
    """The program: FUSEWISE_PROGRAM where it is set, that of this package, or the one on the PATH."""
    chosen = os.environ.get("FUSEWISE_PROGRAM")
    if chosen:
        return pathlib.Path(chosen)
    own = pathlib.Path(__file__).resolve().parent / "bin" / "fusewise"
    if own.is_file():
        return own
    found = shutil.which("fusewise")
    if found is None:
        raise EnvironmentFailed("fusewise: no such program in this package or on the PATH; set FUSEWISE_PROGRAM")
    return pathlib.Path(found)


def run(arguments: Sequence[str | os.PathLike[str]]) -> str:
    """Runs the program and returns what it prints. Its warnings become Python warnings; a failure raises."""
    done = subprocess.run([str(program()), *map(os.fspath, arguments)], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, check=False)
    lines = done.stderr.splitlines()
    if done.returncode != 0:
        raise _FAILURES.get(done.returncode, Failure)(lines[-1] if lines else f"fusewise exited with {done.returncode}")
    for line in lines:
        if line.startswith(_WARNING):
            warnings.warn(line[len(_WARNING):], stacklevel=3)
    return done.stdout


def version() -> str:
    return run(["--version"]).split()[-1]
