#!/usr/bin/env python3
"""Adds a run of the live suite to the list of all runs: `add_run.py REPORT.md [docs/accuracy-runs.md]`.

REPORT.md is what `fusewise validate validate/suites/full.json -o REPORT.md` wrote.
"""
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "accuracy-runs.md"


def row(report):
    """The run's line of the table. Everything in it is read from the report."""
    def found(pattern, what):
        match = re.search(pattern, report, flags=re.MULTILINE)
        if match is None:
            sys.exit(f"add_run.py: expected a report with {what}")
        return match
    command, date = found(r"^Written by `([^`]*)` on (\S+?)\.$", "a first line that says how it was written").groups()
    cases = found(r"^(\d+) cases: (\d+) passed, (\d+) failed, (\d+) not judged", "a last line that counts cases").groups()
    errors = [found(rf"^\* {kind} plans: (mean error .*?, worst .*?), of", f"errors of {kind} plans")[1].replace("mean error ", "")
              for kind in ("dense", "compressed and sparse")]
    machine = report.splitlines()[2]
    repeats = re.search(r"--repeat (\d+)", command)
    return f"| {date} | {machine} | {repeats[1] if repeats else 1} | {' | '.join(cases)} | {' | '.join(errors)} |\n"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    page = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else PAGE
    line = row(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    text = page.read_text(encoding="utf-8")
    if line not in text:
        page.write_text(text + line, encoding="utf-8")


if __name__ == "__main__":
    main()
