#!/usr/bin/env python3
"""Times the import of a made-up trace of so many MB (kineto_trace.py), as a ratio to the SHA-256 of the same file, and measures the
peak of its memory. Fails above 1.5 GB for a trace of 1 GB, or that share of it:

    bench/import_trace.py build/fusewise 1000
"""
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time

LIMIT = 1.5  # bytes of memory for each byte of the trace, at 1 GB; what does not depend on it adds to that
FIXED_MB = 50


def seconds(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def digest(path):
    with open(path, "rb") as file:
        hashlib.file_digest(file, "sha256")


def run(command):
    """CPU seconds and the peak of memory in MB."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{' '.join(command)}: {errors}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def main():
    program, megabytes = sys.argv[1], int(sys.argv[2])
    maker = pathlib.Path(__file__).with_name("kineto_trace.py")
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "rank0.json")
        with open(trace, "wb") as file:
            subprocess.run([sys.executable, maker, str(megabytes)], stdout=file, check=True)
        base = seconds(lambda: digest(trace))
        worst = 0
        for name, options in (("import", ["-o", os.path.join(folder, "p.json")]), ("report on ranks", ["--json"])):
            took, memory = run([program, "import", trace, "--batch", "64", *options])
            worst = max(worst, memory)
            print(f"{name} of {megabytes} MB: {took:.1f} s, {took / base:.1f} times the SHA-256 of the file, {memory:.0f} MB")
    if worst > LIMIT * megabytes + FIXED_MB:
        sys.exit(f"expected at most {LIMIT * megabytes + FIXED_MB:.0f} MB")


if __name__ == "__main__":
    main()
