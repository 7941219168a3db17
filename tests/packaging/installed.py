#!/usr/bin/env python3
"""Installs a build tree into an empty folder and uses it from there: the program with its data by name, manual pages,
completion, and a C++ program that finds the libraries with find_package(fusewise)."""

import argparse
import os
import pathlib
import pty
import select
import shutil
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def run(*command, **options):
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True, **options).stdout


def check_program(prefix):
    program = prefix / "bin" / "fusewise"
    environment = {"PATH": "/usr/bin:/bin"}
    by_name = run(program, "simulate", "googlenet-k80", cwd="/", env=environment)
    assert by_name == run(program, "simulate", ROOT / "scenarios" / "googlenet-k80.json", env=environment)
    assert str(prefix / "share" / "fusewise") in run(program, "doctor", cwd="/", env=environment)


def check_torch(prefix):
    """`fusewise torch` finds the Python package of the installation, and says what to do where there is none."""
    program = prefix / "bin" / "fusewise"
    module = prefix / "share" / "fusewise" / "python" / "fusewise" / "torch" / "__main__.py"
    kept = module.read_text()
    module.write_text("import sys\nprint('arguments', sys.argv[1:])\n")  # without PyTorch
    assert "arguments ['--nproc', '2', 'train.py']" in run(program, "torch", "--nproc", "2", "train.py", cwd="/",
                                                           env={"PATH": "/usr/bin:/bin"})
    module.write_text(kept)
    hidden = prefix / "share" / "fusewise" / "hidden"
    (prefix / "share" / "fusewise" / "python").rename(hidden)
    done = subprocess.run([program, "torch", "train.py"], capture_output=True, text=True, cwd="/",
                          env={"PATH": "/usr/bin:/bin", "PYTHONNOUSERSITE": "1"}, check=False)
    assert done.returncode == 1 and "finds no Python package fusewise: pip install" in done.stderr, done
    assert done.stderr.count("\n") == 1, done.stderr
    hidden.rename(prefix / "share" / "fusewise" / "python")


def check_manual(prefix):
    commands = [line.split()[0] for line in run(prefix / "bin" / "fusewise", "--help").split("Subcommands:\n")[1].splitlines()
                if line.startswith("  ") and line.split()]
    pages = sorted(page.name for page in (prefix / "share" / "man" / "man1").iterdir())
    assert pages == sorted(["fusewise.1", *(f"fusewise-{name}.1" for name in commands)]), pages
    completion = prefix / "share" / "bash-completion" / "completions" / "fusewise"

    def completed(*words):
        text = " ".join(words)
        return run("bash", "-c", f"source {completion}; COMP_WORDS=({text}); COMP_CWORD={len(words) - 1}; _fusewise; "
                                 "printf '%s\\n' \"${COMPREPLY[@]}\"").split()

    assert completed("fusewise", "pl") == ["plan"], completed("fusewise", "pl")
    assert "--explain" in completed("fusewise", "plan", "--ex")
    assert completed("fusewise", "netlab", "stat") == ["status"]
    assert "--sizes" in completed("fusewise", "measure", "--si")


COMPLETED = {"fusewise pl": "fusewise plan", "fusewise plan --expl": "fusewise plan --explain",
             "fusewise netlab stat": "fusewise netlab status", "fusewise measure --siz": "fusewise measure --sizes"}


def zsh_completed(folder, typed):
    """What is on the line of an interactive zsh after the tabulator key."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(shutil.which("zsh"), ["zsh", "-f", "-i"], {"PATH": os.environ["PATH"], "TERM": "dumb", "LANG": "C.UTF-8"})
    begin_of_line, end_of_line = "\x01", "\x05"
    os.write(terminal, f"fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; echo rea''dy\r".encode())
    shown, is_typed, until = b"", False, time.monotonic() + 60
    while b"\n<" not in shown or b">" not in shown.split(b"\n<")[-1]:
        assert time.monotonic() < until, shown
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 4096)
        if not is_typed and b"ready" in shown:
            os.write(terminal, f"{typed}\t{begin_of_line}echo '<{end_of_line}>'\r".encode())
            is_typed = True
    os.close(terminal)
    os.waitpid(pid, 0)
    return shown.split(b"\n<")[-1].split(b">")[0].decode().strip()


def check_other_shells(prefix):
    share = prefix / "share"
    for shell, completed in (
            ("zsh", lambda typed: zsh_completed(share / "zsh" / "vendor-completions", typed)),
            ("fish", lambda typed: " ".join([*typed.split()[:-1], run(
                "fish", "-c", f"source {share}/fish/vendor_completions.d/fusewise.fish; complete -C '{typed}'").split()[0]]))):
        if shutil.which(shell) is None:
            print(f"SKIPPED: completions of {shell}: it is not installed")
            continue
        for typed, expected in COMPLETED.items():
            assert completed(typed) == expected, (shell, typed, completed(typed))


def compiled_with(build):
    """The compiler and the flags of the build, without which its sanitized libraries do not link."""
    kept = ("CMAKE_CXX_COMPILER:", "CMAKE_CXX_FLAGS:", "CMAKE_EXE_LINKER_FLAGS:")
    return ["-D" + line for line in (build / "CMakeCache.txt").read_text().splitlines() if line.startswith(kept)]


def check_library(prefix, folder, cmake, flags):
    build = folder / "example"
    run(cmake, "-S", ROOT / "docs" / "examples" / "library", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", *flags)
    run(cmake, "--build", build)
    scenario = prefix / "share" / "fusewise" / "scenarios" / "googlenet-k80.json"
    shown = run(build / "library_example", scenario)
    program = prefix / "bin" / "fusewise"
    assert shown.startswith(run(program, "simulate", scenario))
    assert "2048 workers, pipeline wfbp" in shown


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--cmake", default="cmake")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix = folder / "prefix"
        run(options.cmake, "--install", options.build, "--prefix", prefix)
        check_program(prefix)
        check_torch(prefix)
        check_manual(prefix)
        check_other_shells(prefix)
        check_library(prefix, folder, options.cmake, compiled_with(options.build))


if __name__ == "__main__":
    main()
