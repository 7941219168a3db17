"""Simulates and plans data-parallel training: thin calls of the program fusewise, with results as dataclasses.

    import fusewise
    results = fusewise.simulate("googlenet-k80")
    print(results.fastest(workers=16).schedule)
    plan = fusewise.plan("googlenet-k80", workers=16)

Wrong input raises InputError, a failing machine EnvironmentFailed, each with the one line that the program prints.
"""
from fusewise._calls import calibrate, fit, import_trace, plan, report, simulate
from fusewise._program import EnvironmentFailed, Failure, InputError, OutOfTolerance, program, run, version
from fusewise._results import Calibration, Entry, Fit, Group, Plan, Profile, Results

__all__ = [
    "Calibration", "Entry", "EnvironmentFailed", "Failure", "Fit", "Group", "InputError", "OutOfTolerance", "Plan",
    "Profile", "Results", "calibrate", "fit", "import_trace", "plan", "program", "report", "run", "simulate", "version",
]


def __getattr__(name: str) -> str:
    """__version__ is asked of the program when it is wanted, so that importing needs no program."""
    if name == "__version__":
        return version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
