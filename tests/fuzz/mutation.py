#!/usr/bin/env python3
"""Runs the whole program on inputs that are changed at random, and judges how each run ends.

corpus.py has the inputs, of every command; changes.py changes them, and knows the structure of a file: types, magnitudes,
keys twice and unknown, truncation, nesting, huge counts, references to other files, pipes, devices and folders, gzip
bombs, NULs, bytes that are not UTF-8. Every run has a folder of its own, with its inputs and nothing else. A run is good when

  * it ends by itself with a code of 0 to 3, not by a signal, within 10 s of processor time and 2 GiB of memory;
  * with code 2, standard output is empty and standard error has one line with the file and the place (pointer,
    line, or the option at fault); with code 1 and 3 standard error has a line, too;
  * with code 0, nothing that was printed or written as JSON is broken, and no number is infinite or NaN;
  * what goes to standard error is UTF-8 without control characters;
  * the inputs are as they were, and the folder holds no file that was not asked for.

The same seed makes the same inputs. A bad run is kept in --keep, with a file `command` that repeats it.

  mutation.py build/fusewise --seconds 30               what ./check does
  mutation.py build/fusewise --count 1000000 --jobs 2   the long run of docs/reliability.md
  mutation.py build/fusewise --only 4711                input 4711 alone
  mutation.py build/fusewise --self-check               that each of these checks can fail
"""
import argparse
import collections
import contextlib
import gzip
import json
import os
import pathlib
import random
import re
import resource
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import zlib

import changes
from corpus import LOGS, corpus

HERE = pathlib.Path(__file__).resolve().parent

MAX_MEMORY = 2 << 30
MAX_CPU_S = 10
MAX_WALL_S = 60  # of a run that other processes slow down; one that waits for something never ends
ADDRESS_SPACE = 6 << 30  # a backstop for the machine; a run that needs more than MAX_MEMORY is bad in any case

# ---- one input

BOMBS = {}


def bomb(kind):
    """A small gzip file of much text."""
    if kind not in BOMBS:
        unit, count = {"blanks": (b" " * (1 << 20), 300), "zeros": (b"0, " * (1 << 18), 400), "text": (b"x" * (1 << 20), 300),
                       "objects": (b"{}, " * (1 << 18), 300),
                       "events": (b'{"ph":"X","cat":"cpu_op","name":"a","ts":1,"dur":1},' * 20_000, 220)}[kind]
        begin = {"text": b'["'}.get(kind, b"[")
        packed = gzip.compress(begin, 9, mtime=0)
        packed += gzip.compress(unit, 9, mtime=0) * count  # members of gzip follow one another
        BOMBS[kind] = packed
    return BOMBS[kind]


def replace_file(rng, folder, name):
    """Puts something else in the place of an input."""
    path = folder / name
    path.unlink()
    kind = rng.choice(["pipe", "folder", "loop", "dangling", "missing", "empty", "device", "other", "gzip"] * 4 + ["bomb", "large"])
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(name)
    elif kind == "dangling":
        path.symlink_to("nowhere")
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "bomb":
        path.write_bytes(bomb(rng.choice(["blanks", "zeros", "text", "objects", "events"])))
    elif kind == "device":
        path.symlink_to(rng.choice(["/dev/zero", "/dev/null", "/dev/full"]))
    elif kind == "large":
        with open(path, "wb") as out:
            out.truncate(rng.choice([17 << 20, 65 << 20, 5 << 30]))
    elif kind == "gzip":
        path.write_bytes(gzip.compress(b"{}" * 1000, mtime=0))
    elif kind == "other":
        path.write_bytes(rng.choice(list(LOGS.values())))


SPECIALS = [b'"pipe"', b'"sub"', b'"loop"', b'"dangling"', b'"bomb.gz"', b'"large.json"', b'"empty"']


def make_specials(folder):
    """The files that changes.REFERENCES names."""
    (folder / "sub").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "empty").write_bytes(b"")
    (folder / "bomb.gz").write_bytes(bomb("blanks")[:100_000])
    with open(folder / "large.json", "wb") as out:
        out.truncate(3 << 30)


class Seeds:
    """The corpus with all its documents."""

    def __init__(self, program):
        self.bases = corpus(program)
        self.documents = {}
        for base in self.bases:
            for data in base.files.values():
                if data not in self.documents:
                    self.documents[data] = self.document_of(data)
        self.material = changes.Material([document for document in self.documents.values() if document])

    @staticmethod
    def document_of(data):
        try:
            return changes.Document((gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode())
        except (ValueError, OSError):
            return None


# How many changes an input gets, and of what.
COUNTS = [1, 1, 1, 2, 3, 8]
KINDS = ["json"] * 24 + ["text"] * 10 + ["words"] * 2 + ["file"]


class Input:
    """Input `number` of a seed: the files of a folder and a command line."""

    def __init__(self, number, seed, seeds):
        self.rng = rng = random.Random(f"{seed}-{number}")
        base = rng.choice(seeds.bases)
        self.words = base.words
        self.files = dict(base.files)
        self.outputs = base.outputs
        self.replaced = None
        names = sorted(base.files)
        edits = {}  # of documents, by file
        others = []  # files whose bytes are changed afterwards
        for _ in range(rng.choice(COUNTS)):
            name = rng.choice(base.changed) if base.changed else None
            kind = rng.choice(KINDS) if name else "words"
            if kind == "words":
                if base.changes_words:
                    self.words = changes.change_words(rng, self.words, names)
            elif kind == "file":
                self.replaced = name
            elif (document := seeds.documents[base.files[name]]) and kind == "json":
                edits.setdefault(name, []).extend(changes.change_json(rng, document, seeds.material, names))
            else:
                others.append(name)
        for name in edits:
            text = changes.edited(seeds.documents[base.files[name]].text, edits[name])
            data = text.encode("latin-1" if rng.random() < 0.05 else "utf-8", "ignore")
            self.files[name] = gzip.compress(data, 1, mtime=0) if name.endswith(".gz") else data
        for name in others:
            self.files[name] = self.change_bytes(self.files[name])
        self.needs_specials = any(word in self.files[name] for name in edits for word in SPECIALS)

    def change_bytes(self, data):
        if data[:2] == b"\x1f\x8b" and self.rng.random() < 0.7:
            try:
                return gzip.compress(changes.change_text(self.rng, gzip.decompress(data)), 1, mtime=0)
            except (OSError, EOFError, zlib.error):
                pass
        return changes.change_text(self.rng, data)

    def make(self, folder):
        for name, text in self.files.items():
            with open(f"{folder}/{name}", "wb", 0) as out:
                out.write(text)
        if self.needs_specials:
            make_specials(folder)
        if self.replaced:
            replace_file(self.rng, folder, self.replaced)


# ---- one run

Ending = collections.namedtuple("Ending", "code signal timed_out cpu_s memory out err")

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "FUSEWISE_PYTHON": "no-python"}


class Files:
    """Where a program runs and writes."""

    def __init__(self, folder):
        self.folder = folder
        self.inputs, self.out, self.err = folder / "in", folder / "out", folder / "err"
        self.inputs.mkdir()

    def clear(self):
        with os.scandir(self.inputs) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    os.unlink(entry.path)

    def ending(self, status, timed_out, cpu_s, memory):
        return Ending(os.WEXITSTATUS(status) if os.WIFEXITED(status) else None, os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
                      timed_out, cpu_s, memory, contents(self.out), contents(self.err))


def contents(path):
    with open(path, "rb", 0) as file:
        return file.read()


class Spawner:
    """Starts a program for each run."""

    def __init__(self, program, files):
        self.program = program
        self.files = files
        self.environment = {**ENVIRONMENT, "HOME": str(files.inputs)}
        self.actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                        (os.POSIX_SPAWN_OPEN, 1, str(files.out), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
                        (os.POSIX_SPAWN_OPEN, 2, str(files.err), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]

    def run(self, words):
        before = os.getcwd()
        os.chdir(self.files.inputs)
        try:
            pid = os.posix_spawn(self.program, [os.fsencode(self.program), *words], self.environment, file_actions=self.actions, setpgroup=0)
        finally:
            os.chdir(before)
        exited = os.pidfd_open(pid)
        timed_out = not select.select([exited], [], [], MAX_WALL_S)[0]
        os.close(exited)
        if timed_out:
            os.killpg(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        return self.files.ending(status, timed_out, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)

    def close(self):
        pass


class ForkServer:
    """Starts a program once, and lets it fork for each run: see fork_server.c."""

    REQUESTS, ANSWERS = 198, 199

    def __init__(self, program, files, library):
        self.files = files
        request, self.requests = os.pipe()
        self.answers, answer = os.pipe()
        self.paths = b"".join(os.fsencode(path) + b"\0" for path in (files.inputs, files.out, files.err))
        self.pid = os.posix_spawn(program, [program], {**ENVIRONMENT, "HOME": str(files.inputs), "LD_PRELOAD": library, "LD_BIND_NOW": "1"},
                                  file_actions=[(os.POSIX_SPAWN_DUP2, request, self.REQUESTS), (os.POSIX_SPAWN_DUP2, answer, self.ANSWERS)])
        os.close(request)
        os.close(answer)

    def answer(self):
        data = os.read(self.answers, 8)
        if len(data) != 8:
            raise RuntimeError("the fork server has ended")
        return int.from_bytes(data, "little", signed=True)

    def run(self, words):
        request = self.paths + b"".join(word + b"\0" for word in words)
        request = len(request).to_bytes(4, "little") + request
        while request:
            request = request[os.write(self.requests, request):]
        pid = self.answer()
        timed_out = not select.select([self.answers], [], [], MAX_WALL_S)[0]
        if timed_out:
            os.killpg(pid, signal.SIGKILL)
        status, cpu_us, memory_kib = self.answer(), self.answer(), self.answer()
        return self.files.ending(status, timed_out, cpu_us / 1e6, memory_kib * 1024)

    def close(self):
        os.close(self.requests)
        os.close(self.answers)
        os.waitpid(self.pid, 0)


def built_fork_server(folder):
    """The library that is preloaded; nothing where there is no C compiler."""
    compiler = shutil.which("cc")
    if not compiler:
        return None
    library = str(pathlib.Path(folder, "fork_server.so"))
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-o", library, HERE / "fork_server.c"], check=True)
    return library


# FILE: /pointer: ..., FILE:LINE: ..., FILE:LINE:COLUMN: ..., --option: ...; a usage error of the command line has no file.
PLACE = re.compile(r"(?:.*: /.*: |.+:\d+(?::\d+)?: )expected .+, got:? .*|--[a-z-]+(?:, --[a-z-]+)*: .+|.+ \(try --help\)|the journal of --output: .+"
                   r"|[A-Z]+: expected .+|expected a command .+"
                   r"|.*: expected a file, or .+, got neither.*")  # an argument that names no file has no pointer
NOT_A_NUMBER = re.compile(r"(?<![\w.\"'-])-?(?:inf|nan|infinity)(?![\w\"'])", re.IGNORECASE)
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def faults_of(ending, words=()):
    """What is wrong with how a run of this command line ended."""
    if ending.timed_out:
        yield f"does not end within {MAX_WALL_S} s (processor time {ending.cpu_s:.1f} s)"
        return
    if ending.signal is not None:
        yield f"ended by signal {ending.signal}"
        return
    if ending.code not in (0, 1, 2, 3):
        yield f"ended with code {ending.code}"
    if ending.cpu_s > MAX_CPU_S:
        yield f"took {ending.cpu_s:.1f} s of processor time"
    if ending.memory > MAX_MEMORY:
        yield f"took {ending.memory >> 20} MiB of memory"
    try:
        said = ending.err.decode()
    except UnicodeDecodeError:
        yield "standard error is not UTF-8"
        return
    if CONTROLS.search(said):
        yield "standard error has control characters"
    lines = said.splitlines()
    if ending.code in (1, 2, 3) and not lines:
        yield f"code {ending.code} without a word"
    for line in lines:  # not one pattern for all of it, which takes hours where a line is long
        if "Sanitizer: " in line or ": runtime error: " in line:
            yield "a sanitizer reports: " + line
            break
    if "out of memory" in said or "bad_alloc" in said or "std::" in said:
        yield "says: " + lines[-1]
    if ending.code == 2:
        if ending.out:
            yield "code 2 with something on standard output"
        if len(lines) != 1:
            yield f"code 2 with {len(lines)} lines on standard error"
        elif not PLACE.fullmatch(lines[0]):
            yield "no file and place: " + lines[0][:200]
    if ending.code == 0 and ending.out:
        text = ending.out
        for name in named_outputs(words):
            if re.search("nan|inf", name, re.IGNORECASE):  # names like any other
                text = text.replace(os.fsencode(name), b"")
        yield from faults_of_text("standard output", text, prints_json(ending.out, words))


def prints_json(text, words):
    """A table may begin with a brace, too: the name of a model can be "{}"."""
    return "--json" in words or "--emit" in words or re.match(rb'\{\s*"format"', text) is not None


PAGE_DATA = re.compile(rb'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def faults_of_text(what, text, may_be_json=True):
    if text.startswith(b"<!DOCTYPE html>"):
        text, may_be_json = b"".join(PAGE_DATA.findall(text)) or b"{", True
    is_json = may_be_json and text[:1] == b"{"
    try:
        if is_json and b"\n{" not in text:
            json.loads(text, parse_constant=lambda name: (_ for _ in ()).throw(ValueError(name)))
    except ValueError as error:
        yield f"{what} is broken JSON: {error}"
    if not is_json and NOT_A_NUMBER.search(text.decode("utf-8", "replace")):
        yield f"{what} has a number that is infinite or NaN: {NOT_A_NUMBER.search(text.decode('utf-8', 'replace')).group()}"


def state(folder):
    """Every file of a folder with its text, as far as it can be read without waiting."""
    out = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            about = entry.stat(follow_symlinks=False)
            is_text = stat.S_ISREG(about.st_mode) and about.st_size < 1 << 26
            out[entry.name] = contents(entry.path) if is_text else f"{stat.S_IFMT(about.st_mode)} {about.st_size}"
    return out


def faults_of_folder(before, after, outputs, ending, words=()):
    outputs = {os.path.normpath(name) for name in outputs}
    for name, text in before.items():
        # An output may replace a file that neither the command line nor another file names.
        is_input = (name not in outputs or sum(os.path.normpath(word) == name for word in words) > 1 or
                    any(name.encode() in other for file, other in before.items() if file != name and isinstance(other, bytes)))
        if after.get(name) != text and is_input:
            yield f"the input {name} is not as it was"
    for name in after.keys() - before.keys():
        if name not in outputs:
            yield f"left behind: {name}"
        elif ending.code not in (0, 3) and name != "out.partial":
            yield f"the output {name} was written by a run that ended with {ending.code}"
    written = sorted(name for name in outputs & after.keys() if after[name] != before.get(name))
    if ending.code == 0 and not ending.out and not any(after[name] for name in written):
        yield "code 0 without a result"
    for name in written:
        if isinstance(after[name], bytes) and not name.endswith(".partial"):
            yield from faults_of_text(name, after[name])


def named_outputs(words):
    """Files that the command line asks for, changed words included."""
    out = {"report.html"} if "report" in words else set()
    for option, value in zip(words, words[1:]):
        if option in ("-o", "--output", "--plot", "--timeline", "--network", "--output-folder"):
            out |= {value, value + ".partial", value + ".prediction"}
    return out


def targets(folder, outputs):
    """Where those of the outputs lead that are links."""
    return {os.readlink(folder / name) for name in outputs if "\0" not in name and os.path.islink(folder / name)}


@contextlib.contextmanager
def read_pipes(folder, outputs):
    """Reads what is written into a pipe; without a reader the program would wait for one."""
    pipes = []
    for name in outputs:
        with contextlib.suppress(OSError, ValueError):
            if stat.S_ISFIFO(os.stat(folder / name).st_mode):
                pipes.append(os.open(folder / name, os.O_RDONLY | os.O_NONBLOCK))
    is_over = threading.Event()

    def drain():
        while not is_over.wait(0.02):
            for pipe in pipes:
                with contextlib.suppress(BlockingIOError):
                    while os.read(pipe, 1 << 16):
                        pass
    reader = threading.Thread(target=drain)
    if pipes:
        reader.start()
    try:
        yield
    finally:
        is_over.set()
        if pipes:
            reader.join()
        for pipe in pipes:
            os.close(pipe)


class Runner:
    """Makes inputs and runs the program on them, in folders of its own."""

    def __init__(self, program, seed, keep, seeds, library=None):
        self.seed = seed
        self.keep = keep
        self.seeds = seeds
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="fusewise-mutation-", dir=memory))
        self.files = Files(self.folder)
        self.program = ForkServer(program, self.files, library) if library else Spawner(program, self.files)
        self.codes = collections.Counter()
        self.commands = collections.Counter()
        self.most_memory = 0
        self.most_cpu_s = 0.0

    def close(self):
        self.program.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def one(self, number):
        """Runs input `number`; its faults."""
        made = Input(number, self.seed, self.seeds)
        words = [word.encode("utf-8", "surrogateescape") for word in made.words]
        self.files.clear()
        made.make(self.files.inputs)
        before = state(self.files.inputs)
        outputs = made.outputs | named_outputs(made.words)
        outputs |= targets(self.files.inputs, outputs)
        with read_pipes(self.files.inputs, outputs):
            ending = self.program.run(words)
        self.codes["signal" if ending.code is None else ending.code] += 1
        self.commands[made.words[0]] += 1
        self.most_memory = max(self.most_memory, ending.memory)
        self.most_cpu_s = max(self.most_cpu_s, ending.cpu_s)
        faults = list(faults_of(ending, made.words))
        faults += faults_of_folder(before, state(self.files.inputs), outputs, ending, made.words)
        if faults:
            self.report(number, made, ending, faults)
        return faults

    def report(self, number, made, ending, faults):
        line = " ".join(json.dumps(word) if re.search(r"[^\w./=-]", word) or not word else word for word in made.words)
        print(f"input {number} of seed {self.seed}: fusewise {line[:300]}", file=sys.stderr)
        for fault in faults:
            print(f"    {fault}".encode("utf-8", "backslashreplace").decode(), file=sys.stderr)
        sys.stderr.flush()
        if not self.keep:
            return
        place = pathlib.Path(self.keep) / f"{self.seed}-{number}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        for path in self.files.inputs.iterdir():
            if path.is_file() and not path.is_symlink() and path.stat().st_size < 1 << 26:
                shutil.copy(path, place)
        (place / "command").write_text("fusewise " + line + "\n", errors="surrogateescape")
        (place / "faults").write_text("\n".join(faults) + "\n" + ending.err.decode("utf-8", "backslashreplace"), errors="surrogateescape")


def work(arguments, seeds, library, first, step, result):
    """One of several processes: every `step`-th input from `first` on."""
    runner = Runner(arguments.program, arguments.seed, arguments.keep, seeds, library)
    begun = time.monotonic()
    runs = bad = 0
    kinds = collections.Counter()
    try:
        number = first
        while (arguments.count is None or number < arguments.start + arguments.count) and \
                (arguments.seconds is None or time.monotonic() - begun < arguments.seconds):
            faults = runner.one(number)
            kinds.update(re.sub(r"\d+(\.\d+)?|:.*", "", fault) for fault in faults)
            runs += 1
            bad += bool(faults)
            number += step
    finally:
        runner.close()
    os.write(result, json.dumps({"runs": runs, "bad": bad, "kinds": kinds, "codes": {str(k): v for k, v in runner.codes.items()},
                                 "commands": runner.commands, "memory": runner.most_memory, "cpu_s": runner.most_cpu_s}).encode() + b"\n")


def run_all(arguments):
    """Runs all inputs, in several processes; prints a summary."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not arguments.no_limit:
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    begun = time.monotonic()
    seeds = Seeds(arguments.program)
    with tempfile.TemporaryDirectory() as folder:
        library = None if arguments.spawn else built_fork_server(folder)
        results = run_jobs(arguments, seeds, library)
    return summarize(arguments, results, time.monotonic() - begun)


def run_jobs(arguments, seeds, library):
    """What each process found; nothing of one that failed."""
    children = []
    for job in range(arguments.jobs):
        ours, theirs = os.pipe()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.close(ours)
                work(arguments, seeds, library, arguments.start + job, arguments.jobs, theirs)
                status = 0
            except KeyboardInterrupt:
                pass
            except BaseException:  # os._exit() would swallow it
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        os.close(theirs)
        children.append((pid, ours))
    results = []
    for pid, pipe in children:
        with os.fdopen(pipe, "rb") as stream:
            lines = stream.read().splitlines()
        os.waitpid(pid, 0)
        results.append(json.loads(lines[-1]) if lines else None)
    return results


def summarize(arguments, results, took_s):
    found = [result for result in results if result]
    runs, bad = (sum(result[key] for result in found) for key in ("runs", "bad"))
    memory, cpu_s = (max((result[key] for result in found), default=0) for key in ("memory", "cpu_s"))
    kinds, codes, commands = (sum((collections.Counter(result[key]) for result in found), collections.Counter())
                              for key in ("kinds", "codes", "commands"))

    def counts(of):
        return ", ".join(f"{count} {name}" for name, count in sorted(of.items()))

    print(f"{runs} inputs of seed {arguments.seed} from {arguments.start} on in {took_s:.0f} s: {bad} bad; exit codes: "
          f"{', '.join(f'{count} with {code}' for code, count in sorted(codes.items()))}; "
          f"at most {memory / 2**20:.0f} MiB and {cpu_s:.1f} s of processor time")
    if arguments.commands:
        print(f"    {counts(commands)}")
    for kind, count in kinds.most_common():
        print(f"    {count} x {kind}")
    return 1 if len(found) < len(results) or bad or not runs else 0


# ---- that each check can fail

GOOD = Ending(0, None, False, 0.1, 1 << 20, b"a table\n", b"")
ENDINGS = [
    (None, GOOD),
    (None, GOOD._replace(code=2, out=b"", err=b"s.json: /workers: expected an integer, got 0\n")),
    (None, GOOD._replace(code=2, out=b"", err=b"s.json:3:4: expected JSON, got 'x'\n")),
    (None, GOOD._replace(code=2, out=b"", err=b"a.log:3: expected a time, got 'x'\n")),
    (None, GOOD._replace(code=2, out=b"", err=b"--workers: expected a number, got nothing\n")),
    (None, GOOD._replace(code=1, out=b"", err=b"x: cannot write: No such file\n")),
    ("a sanitizer reports", GOOD._replace(code=1, out=b"", err=b"==7==ERROR: AddressSanitizer: heap-use-after-free\n")),
    ("a sanitizer reports", GOOD._replace(err=b"core/units.cpp:3:4: runtime error: signed integer overflow\n")),
    (None, GOOD._replace(out=b'{"a": 1}\n')),
    (None, GOOD._replace(out=b"layer info\nnanometre 'inf'\n")),
    ("does not end", GOOD._replace(timed_out=True)),
    ("signal 11", GOOD._replace(code=None, signal=11)),
    ("code 134", GOOD._replace(code=134)),
    ("processor time", GOOD._replace(cpu_s=11)),
    ("MiB of memory", GOOD._replace(memory=3 << 30)),
    ("not UTF-8", GOOD._replace(code=1, err=b"\xff\n")),
    ("control characters", GOOD._replace(code=1, err=b"\x1b[31m\n")),
    ("without a word", GOOD._replace(code=1)),
    ("out of memory", GOOD._replace(code=1, err=b"out of memory\n")),
    ("bad_alloc", GOOD._replace(code=1, err=b"worker 0: std::bad_alloc\n")),
    ("something on standard output", GOOD._replace(code=2, err=b"s.json: /: expected x, got y\n")),
    ("2 lines", GOOD._replace(code=2, out=b"", err=b"s.json: /: expected x, got y\nmore\n")),
    ("no file and place", GOOD._replace(code=2, out=b"", err=b"wrong\n")),
    ("no file and place", GOOD._replace(code=2, out=b"", err=b"x.log: expected rows, got none\n")),
    ("broken JSON", GOOD._replace(out=b'{"format": 1\n')),
    ("broken JSON", GOOD._replace(out=b'{\n  "format": NaN}\n')),
    (None, GOOD._replace(out=b"{}: 2 groups\n")),
    ("infinite or NaN", GOOD._replace(out=b"{}: inf\n")),
    ("infinite or NaN", GOOD._replace(out=b"saves  -inf %\n")),
    (None, GOOD._replace(out=b'<!DOCTYPE html><script type="application/json" id="data">{"a": 1}</script><script>let a = Infinity;</script>')),
    ("broken JSON", GOOD._replace(out=b'<!DOCTYPE html><script type="application/json" id="data">{"a": NaN}</script>')),
    ("broken JSON", GOOD._replace(out=b"<!DOCTYPE html><p>without data</p>")),
    ("infinite or NaN", GOOD._replace(out=b"1,nan,2\n")),
]
FOLDERS = [
    (None, {"a": b"1"}, {"a": b"1"}, GOOD),
    (None, {"a": b"1"}, {"a": b"1", "out": b"x"}, GOOD),
    ("the input a is not", {"a": b"1"}, {"a": b"2"}, GOOD),
    ("the input a is not", {"a": b"1"}, {}, GOOD),
    (None, {"out": b"1"}, {"out": b"2"}, GOOD),
    (None, {"out": b"1"}, {"out": b"2"}, GOOD._replace(out=b"")),
    ("without a result", {"out": b"1"}, {"out": b"1"}, GOOD._replace(out=b"")),
    ("the input out is not", {"out": b"1", "s": b"reads out"}, {"out": b"2", "s": b"reads out"}, GOOD),
    ("left behind: out.XyZ", {}, {"out.XyZ": b""}, GOOD),
    ("was written by a run that ended with 2", {}, {"out": b"x"}, GOOD._replace(code=2)),
    ("out is broken JSON", {}, {"out": b"{"}, GOOD),
    (None, {}, {"out": b"x"}, GOOD._replace(out=b"")),
    ("without a result", {}, {"out": b""}, GOOD._replace(out=b"")),
    ("without a result", {}, {}, GOOD._replace(out=b"")),
]
# Programs that misbehave, and the fault that has to be found of them whatever the input is.
PROGRAMS = [
    ("signal 11", "kill -SEGV $$"),
    ("signal 9", "kill -KILL $$"),
    ("left behind", "echo x >extra; echo table"),
    ("is not as it was", "for f in *; do [ -f $f ] && [ ! -L $f ] && [ -s $f ] && { : >$f; break; }; done; echo table"),
    ("no file and place", "echo wrong >&2; exit 2"),
    ("processor time", "python3 -c 'import time\nwhile time.process_time() < 1: pass'; echo table"),
    ("MiB of memory", "python3 -c 'x = bytearray(60 << 20)'; echo table"),
    ("does not end", "exec sleep 100"),
]


def stands_where_it_should(document, value):
    """Whether the text of a value is that value, with its key before it, in the object or array that has it."""
    plain = json.loads(document.of(value))
    if value.key_begin != value.begin and json.loads(document.text[value.key_begin:value.begin].rstrip(" \n:")) != value.key:
        return False
    items = [json.loads(document.of(item)) for item in value.items]
    return items == (list(plain.values()) if isinstance(plain, dict) else plain if isinstance(plain, list) else [])


def compare_servers(program, seeds):
    """Runs that end otherwise when the program is started anew than when a fork server runs it."""
    with tempfile.TemporaryDirectory() as folder:
        library = built_fork_server(folder)
        runners = [Runner(program, 1, None, seeds, library), Runner(program, 1, None, seeds)] if library else []
        for number in range(60 if library else 0):
            made = Input(number, 1, seeds)
            endings = []
            for runner in runners:
                runner.files.clear()
                Input(number, 1, seeds).make(runner.files.inputs)
                ending = runner.program.run([word.encode("utf-8", "surrogateescape") for word in made.words])
                said = re.sub(rb"[\d.]+ s, \d+ points/s", b"", ending.err.replace(os.fsencode(runner.folder), b""))  # of a sweep
                endings.append((ending.code, ending.signal, ending.out, said))
            if endings[0] != endings[1]:
                yield f"input {number}, {made.words}: a fork server gives {endings[0]}, the program {endings[1]}"
        for runner in runners:
            runner.close()


def swallowed_traceback(seeds):
    """A mistake in this file is shown, and fails the run."""
    arguments = argparse.Namespace(program="/nowhere", seed=1, start=0, count=1, seconds=None, jobs=1, keep=None, commands=False)
    with tempfile.TemporaryFile() as said:
        before = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            status = summarize(arguments, run_jobs(arguments, seeds, None), 0)
        finally:
            os.dup2(before, 2)
            os.close(before)
        said.seek(0)
        text = said.read().decode()
    return [] if status != 0 and "Traceback" in text else [f"a mistake of ours: expected its traceback and a code other than 0, got {status}, {text!r}"]


def self_check(program):
    global MAX_CPU_S, MAX_MEMORY, MAX_WALL_S
    wrong = []
    for wanted, ending in ENDINGS:
        found = list(faults_of(ending))
        if bool(found) != bool(wanted) or (wanted and not any(wanted in fault for fault in found)):
            wrong.append(f"{ending}: expected {wanted}, got {found}")
    if not any("broken JSON" in fault for fault in faults_of(GOOD._replace(out=b"{}: 2 groups\n"), ["plan", "--json"])):
        wrong.append("a table in place of JSON is not found")
    for wanted, before, after, ending in FOLDERS:
        found = list(faults_of_folder(before, after, {"out"}, ending))
        if bool(found) != bool(wanted) or (wanted and not any(wanted in fault for fault in found)):
            wrong.append(f"{before} {after}: expected {wanted}, got {found}")
    seeds = Seeds(program)
    for document in seeds.documents.values():
        if document and any(not stands_where_it_should(document, value) for value in document.values):
            wrong.append(f"{document.text[:100]}: a value does not stand where it should")
    for number in range(300):
        one, other = (Input(number, 1, seeds) for _ in range(2))
        if (one.words, one.files) != (other.words, other.files):
            wrong.append(f"input {number} is not the same twice")
    if program:
        wrong += compare_servers(program, seeds)
    wrong += swallowed_traceback(seeds)
    MAX_CPU_S, MAX_MEMORY = 0.5, 50 << 20
    with_files = next(number for number in range(1000) if any(Input(number, 1, seeds).files.values()))
    with tempfile.TemporaryDirectory() as folder:
        for wanted, script in PROGRAMS:
            MAX_WALL_S = 1 if wanted == "does not end" else 60
            program = pathlib.Path(folder, "program")
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
            runner = Runner(str(program), 1, None, seeds)
            runner.report = lambda *_: None
            try:
                found = runner.one(with_files)
            finally:
                runner.close()
            if not any(wanted in fault for fault in found):
                wrong.append(f"{script}: expected {wanted}, got {found}")
    print("\n".join(wrong) or f"{len(ENDINGS)} endings, {len(FOLDERS)} folders and {len(PROGRAMS)} programs are judged as expected")
    return 1 if wrong else 0


def main():
    global MAX_WALL_S
    sys.setrecursionlimit(20_000)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?", type=os.path.abspath)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0, help="number of the first input")
    parser.add_argument("--count", type=int, help="number of inputs")
    parser.add_argument("--seconds", type=float, help="time after which no further input begins")
    parser.add_argument("--jobs", type=int, default=1, help="processes that run inputs at once")
    parser.add_argument("--keep", type=os.path.abspath, help="folder for the inputs of bad runs")
    parser.add_argument("--only", type=int, help="run this input alone")
    parser.add_argument("--no-limit", action="store_true", help="no limit of the address space, for sanitizers")
    parser.add_argument("--spawn", action="store_true", help="start the program anew for each input, in place of a fork server")
    parser.add_argument("--wall", type=float, default=MAX_WALL_S, help="seconds after which a run counts as endless")
    parser.add_argument("--commands", action="store_true", help="print how often each command ran")
    parser.add_argument("--self-check", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_check:
        return self_check(arguments.program)
    MAX_WALL_S = arguments.wall
    if arguments.program is None:
        parser.error("expected a program")
    if arguments.only is not None:
        arguments.start, arguments.count, arguments.jobs = arguments.only, 1, 1
    if arguments.count is None and arguments.seconds is None:
        arguments.count = 1000
    return run_all(arguments)


if __name__ == "__main__":
    sys.exit(main())
