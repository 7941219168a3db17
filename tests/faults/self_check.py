#!/usr/bin/env python3
"""That each check of random_faults.py can fail: against ends of runs that are made up, and programs that misbehave."""
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
import random_faults as faults  # noqa: E402

GOOD = "worker 1 (pid 7) was killed by signal 9 (Killed) in iteration 3"
WRONG = "worker 0 (pid 7) said: iteration 3: group 2: value 17 is 3, expected 5"
STRANGERS = "warning: 2 connections of strangers were dropped: 127.0.0.1:5 (did not prove anything), 127.0.0.1:6 (did not prove anything)"
FULL = "/dev/full: cannot write: No space left on device"

# What is found: kind, exit code, standard error, standard output, what is left, whether it was hit.
ENDS = [
    ("", ("killed", 1, GOOD, "", [], True)),
    ("", ("killed", 0, "", "a table", [], False)),
    ("", ("killed", 1, f"warning: of something\n{GOOD}", "", [], True)),
    ("", ("gradient changed", 1, WRONG, "", [], True)),
    ("", ("disk full", 1, FULL, "", [], True)),
    ("", ("wrong plan", 2, "a.json: /groups: expected 1, got 2", "", [], True)),
    ("", ("strangers", 0, STRANGERS, "a table", [], True)),
    ("", ("starved", 3, "wfbp: the prediction is off by 2 %", "a table", [], True)),
    ("does not end", ("killed", None, "", "", [], True)),
    ("exit code 0", ("killed", 0, "", "a table", [], True)),
    ("exit code 1", ("killed", 1, GOOD, "", [], False)),
    ("exit code 1", ("wrong plan", 1, "wrong", "", [], True)),
    ("0 lines of error", ("stopped", 1, "", "", [], True)),
    ("2 lines of error", ("stopped", 1, f"{GOOD}\n{GOOD}", "", [], True)),
    ("no worker is named", ("link cut", 1, "lost in iteration 3", "", [], True)),
    ("no worker is named", ("link squeezed", 1, "lost in iteration 3", "", [], True)),
    ("no phase is named", ("link cut", 1, "worker 1 (pid 7) was lost", "", [], True)),
    ("exit code 0", ("gradient changed", 0, "", "a table", [], True)),
    ("no wrong sum is told", ("gradient changed", 1, GOOD, "", [], True)),
    ("no file is named", ("disk full", 1, "No space left on device", "", [], True)),
    ("found only when workers ran", ("wrong plan", 2, "worker 0 (pid 7) said: calibration of the link: expected 1", "", [], True)),
    ("no stranger is named", ("strangers", 0, "", "a table", [], True)),
    ("exit code 1", ("strangers", 1, f"{GOOD}; {STRANGERS}", "", [], True)),
    ("exit code 1", ("starved", 1, GOOD, "", [], True)),
    ("a result in spite of", ("wrong plan", 2, "a.json: /: wrong", "a table", [], True)),
    ("ended well without a result", ("slowed", 0, "", "", [], True)),
    ("left behind: file x", ("killed", 1, GOOD, "", ["file x"], True)),
]

# What is left behind by a program, which writes to $TMPDIR, $XDG_RUNTIME_DIR and the file after -o.
LEFT = [
    ("", 'echo "{}" >"$o"; mkdir -p "$XDG_RUNTIME_DIR/fusewise"; touch "$XDG_RUNTIME_DIR/fusewise/.lock"'),
    ("process", "sleep 20 &"),
    ("file tmp/x", 'echo x >"$TMPDIR/x"'),
    ("file tmp/x", 'mkdir "$TMPDIR/x"'),
    ("file run/fusewise/s", 'mkdir "$XDG_RUNTIME_DIR/fusewise"; mkfifo "$XDG_RUNTIME_DIR/fusewise/s"'),
    ("file out/report.json.tmp", 'echo "{" >"$o.tmp"'),
    ("half of out/report.json", 'echo "{" >"$o"'),
]


def found_by_check(end):
    kind, code, said, printed, left, hit = end
    return faults.check(kind, code, 1.0, said, printed, left, hit)


def found_left(script):
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "program")
        program.write_text(f'#!/bin/sh\nfor o; do [ "$before" = -o ] && break; before=$o; done\n{script}\n')
        program.chmod(0o700)
        code, *_, left = faults.Run(str(program), folder).finish(deadline_s=10)
        return [] if code == 0 and not left else [f"{code}", *left]


def is_killed_in_time():
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder, "program")
        program.write_text("#!/bin/sh\nsleep 20\n")
        program.chmod(0o700)
        run = faults.Run(str(program), folder)
        code, took, *_ = run.finish(deadline_s=0.5)
        return code is None and took < 10 and not run.members()


def main():
    wrong = []
    for expected, found, what in [*((e, found_by_check(end), end) for e, end in ENDS),
                                  *((e, found_left(script), script) for e, script in LEFT)]:
        if not (any(expected in each for each in found) if expected else not found):
            wrong.append(f"{what}: expected {expected or 'nothing'}, found {found}")
    if not is_killed_in_time():
        wrong.append("a program that hangs is not ended")
    for kind, (_, codes, _) in faults.KINDS.items():
        if not codes:
            wrong.append(f"{kind}: no exit code is right")
    print("\n".join(wrong) or f"{len(ENDS) + len(LEFT) + 1} ends of runs are judged as they should be")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
