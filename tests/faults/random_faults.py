#!/usr/bin/env python3
"""Random faults in live runs: random_faults.py PROGRAM [--faults 30] [--seed 1] [--jobs 3]   (1,000 in the long form)

Each fault is one run of `fusewise validate` on a small plan, to which at a random moment something happens: a worker,
or the command itself, is killed, stopped or slowed; other processes take all processors; strangers connect to every
port on which workers listen; a link is cut or squeezed; a byte of a gradient is changed as it arrives; memory of a worker is overwritten; a disk is full; the plan is not the model's. Every run has to end by itself,
in time, with an exit code that fits and, where it could not go on, one line that names worker and phase; and to leave no
process, namespace, mount or file behind. Which fault comes when follows from the seed alone. What this machine does not
allow (namespaces, a compiler) is left out, and this says so. That the checks can fail is self_check.py's to show.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid

WORKERS = 3
DEADLINE_S = 25.0  # of a run; workers whose host does not answer are lost after 4, those that are stopped after 6
PATIENCE = ("--deadline", "6", "--limit", "12")
STARVED_S = (5.0, 7.0)  # longer than a host may be silent, and than the deadline
STARVED_PATIENCE = ("--deadline", "3", "--limit", "60")
STARVED_DEADLINE_S = 90.0
MARK = "FUSEWISE_FAULT"
FLIP = "FUSEWISE_FLIP"
STRANGERS = "FUSEWISE_STRANGERS"
HERE = pathlib.Path(__file__).resolve().parent
ENTER = ["unshare", "--mount", *(["--map-root-user"] if os.geteuid() else [])]
# A folder without much room while a command runs; what is in it then is copied.
SMALL_DISK = 'mount -t tmpfs -o size="$1" none "$2" || exit 99; out=$2 kept=$3; shift 3; "$@"; code=$?; cp -r "$out" "$kept"; exit $code'
PHASES = r"meeting|calibration of|before the warm-up|warm-up \d+|iteration \d+"


def profile(model, layers):
    return {"format": "fusewise.profile", "version": 1, "model": model, "batch_size": 1, "dtype": "float32",
            "device": "none", "origin": {"kind": "estimated", "source": "for faults"},
            "layers": [{"name": f"{model}{i}", "kind": "linear", "forward_us": 1000, "backward_us": 2000,
                        "tensors": [{"name": f"{model}{i}.weight", "elements": 15000 + 5000 * i}]}
                       for i in range(layers)]}


def scenario(iterations):
    return {"format": "fusewise.scenario", "version": 1, "name": "faults", "profile": profile("fine", 5),
            "network": {"format": "fusewise.network", "version": 1, "name": "lab",
                        "origin": {"kind": "estimated", "source": "line rate"},
                        "link": {"alpha_us": 50, "beta_us_per_byte": 0.008}},
            "workers": WORKERS, "schedules": [{"pipeline": "wfbp", "fusion": {"kind": "layers", "count": 2}}]}


# ---- one run, and what belongs to it


class Run:
    """`room`: bytes of the disk to which it writes; `library`: loaded before all others by every process of it;
    `strangers`: the seed of what strangers say."""

    def __init__(self, program, folder, options=(), output=None, plan=None, room=None, library=None, strangers=None,
                 patience=PATIENCE):
        self.folder = pathlib.Path(folder)
        self.mark = uuid.uuid4().hex
        self.output = output or str(self.folder / "out" / "report.json")
        self.flip = self.folder / "flip"
        for name in ("tmp", "run", "out"):
            (self.folder / name).mkdir()
        file = self.folder / "scenario.json"
        file.write_text(json.dumps(scenario(30)))
        command = [program, "validate", plan or str(file), "--rate", "1gbit", "--iterations", "30", *patience,
                   "--tolerance", "10", "-o", self.output, *options]
        if room is not None:
            command = [*ENTER, "sh", "-c", SMALL_DISK, "sh", str(room), str(self.folder / "out"), str(self.folder / "kept"),
                       *command]
        environment = {**os.environ, MARK: self.mark, "TMPDIR": str(self.folder / "tmp"),
                       "XDG_RUNTIME_DIR": str(self.folder / "run"), FLIP: str(self.flip),
                       **({"LD_PRELOAD": library} if library else {}),
                       **({STRANGERS: str(strangers)} if strangers is not None else {})}
        self.out, self.err = (open(self.folder / name, "w+") for name in ("stdout", "stderr"))
        self.began = time.monotonic()
        self.process = subprocess.Popen(command, env=environment, stdout=self.out, stderr=self.err,
                                        stdin=subprocess.DEVNULL, start_new_session=True)

    def members(self):
        """Processes of this run, the command among them, by id."""
        found = {}
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.mark}".encode() not in (path / "environ").read_bytes().split(b"\0"):
                    continue
                stat = (path / "stat").read_text()
                name, rest = stat[stat.index("(") + 1:stat.rindex(")")], stat[stat.rindex(")") + 2:].split()
                if rest[0] not in "ZX":
                    found[int(path.name)] = name
            except (OSError, ValueError):
                continue
        return found

    def workers(self):
        """In the order in which they were started; none while none run. One alone is none, but what becomes the keeper of
        the network or an `ip`, for whose ends the command waits a minute and longer."""
        others = {pid: name for pid, name in self.members().items() if pid != self.process.pid}
        found = sorted(pid for pid, name in others.items() if not name.startswith(("fusewise-netlab", "strangers", "ip", "tc")))
        return found if len(found) > 1 else []

    def keeper(self):
        return next((pid for pid, name in self.members().items() if name.startswith("fusewise-netlab")), None)

    def has_ended(self):
        return self.process.poll() is not None

    def finish(self, deadline_s=DEADLINE_S):
        """Exit code, how long it took, what it said; None as the code where it had to be killed."""
        try:
            code = self.process.wait(timeout=max(0.1, self.began + deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            code = None
        took = time.monotonic() - self.began
        self.err.seek(0)
        self.out.seek(0)
        said, printed = self.err.read(), self.out.read()
        left = self.left_behind() if code is not None else []
        until = time.monotonic() + 3  # a killed process is there for a moment longer
        while (members := self.members()) and time.monotonic() < until:
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self.process.wait()
        self.err.close()
        self.out.close()
        return code, took, said, printed, left

    def left_behind(self):
        until = time.monotonic() + 3
        while (members := self.members()) and time.monotonic() < until:
            time.sleep(0.05)
        left = [f"process {pid} ({name})" for pid, name in members.items()]
        whole = {self.folder / folder / name for folder in ("out", "kept")
                 for name in ("report.json", "report.json.prediction")}
        allowed = whole | {self.folder / "run" / "fusewise", self.folder / "run" / "fusewise" / ".lock"}
        for path in [path for folder in ("tmp", "run", "out", "kept") for path in self.folder.glob(f"{folder}/**/*")]:
            if path not in allowed:
                left.append(f"file {path.relative_to(self.folder)}")
            elif path in whole and not is_json(path):
                left.append(f"half of {path.relative_to(self.folder)}")
        return left


def is_json(path):
    try:
        json.loads(path.read_text())
        return True
    except ValueError:
        return False


# ---- what can happen


def kill(run, rng, signal_number=signal.SIGKILL):
    workers = run.workers()
    if not workers:
        return None
    pid = rng.choice(workers)
    os.kill(pid, signal_number)
    return f"worker {workers.index(pid)} of {len(workers)}"


def stop(run, rng):
    return kill(run, rng, signal.SIGSTOP)


def slow(run, rng):
    """Four fifths of the time it does nothing."""
    workers = run.workers()
    if not workers:
        return None
    pid = rng.choice(workers)
    try:
        for _ in range(20):
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.04)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.01)
    except ProcessLookupError:
        pass
    return f"worker {workers.index(pid)}"


def set_priority(workers, policy):
    for pid in workers:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                os.sched_setscheduler(int(task), policy, os.sched_param(0))


def starve(run, rng):
    """Processes of a higher priority keep all processors busy for a while."""
    workers = run.workers()
    if not workers:
        return None
    set_priority(workers, os.SCHED_IDLE)
    others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(8 * (os.cpu_count() or 1))]
    try:
        time.sleep(rng.uniform(*STARVED_S))
    finally:
        for other in others:
            other.kill()
            other.wait()
        set_priority(workers, os.SCHED_OTHER)
    return f"{len(workers)} workers"


def kill_command(run, rng):
    os.kill(run.process.pid, rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
    return "the command"


def in_switch(run, command):
    keeper = run.keeper()
    if keeper is None:
        return False
    return subprocess.run(["nsenter", f"--net=/proc/{keeper}/ns/net", *command], capture_output=True,
                          timeout=10).returncode == 0


def cut(run, rng):
    worker = rng.randrange(WORKERS)
    return f"link {worker}" if in_switch(run, ["ip", "link", "set", "dev", f"w{worker}", "down"]) else None


def squeeze(run, rng):
    worker = rng.randrange(WORKERS)
    rate = rng.choice(["1mbit", "20mbit", "200mbit"])
    changed = in_switch(run, ["tc", "qdisc", "change", "dev", f"w{worker}", "root", "handle", "1:", "tbf", "rate", rate,
                              "burst", "131072", "latency", "50ms"])
    return f"link {worker} to {rate}" if changed else None


def flip(run, rng):
    """One byte of a sum on its way, of whichever worker receives one next: see flip.c."""
    run.flip.touch()
    done = run.flip.with_suffix(".done")
    while not done.exists():
        if run.has_ended():
            return None
        time.sleep(0.01)
    return "a byte of a gradient"


def overwrite(run, rng):
    """All that is in the large buffers of a worker, so many times that some of it is a gradient on its way."""
    workers = run.workers()
    if not workers:
        return None
    pid = rng.choice(workers)
    done = 0
    try:
        with open(f"/proc/{pid}/maps") as file:
            spans = [tuple(int(x, 16) for x in line.split()[0].split("-")) for line in file
                     if len(line.split()) == 5 and line.split()[1].startswith("rw")]
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            for _ in range(40):
                for begin, end in spans:
                    if not 50_000 <= end - begin <= 4_000_000:  # stacks and arenas are larger
                        continue
                    memory.seek(begin + (end - begin) // 2)
                    memory.write(b"\x00\x00\x40\x40" * 16)  # 3.0F
                    done += 1
                time.sleep(0.005)
    except OSError:
        pass
    return f"worker {workers.index(pid)}, {done} times" if done else None


Outcome = collections.namedtuple("Outcome", "kind what was_hit code took said problems")

# What may come of it: exit codes, and whether the line has to name worker and phase.
KINDS = {
    "killed": (kill, {1}, True),
    "stopped": (stop, {1}, True),
    "slowed": (slow, {0}, True),
    "starved": (starve, {0, 3}, False),
    "strangers": (None, {0, 3}, False),
    "command killed": (kill_command, {-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT}, False),
    "link cut": (cut, {1}, True),
    "link squeezed": (squeeze, {0, 1, 3}, True),
    "gradient changed": (flip, {1}, True),
    "memory overwritten": (overwrite, {0, 1, 3}, True),
    "disk full": (None, {1}, False),
    "wrong plan": (None, {2}, False),
}
LINKS = {"link cut", "link squeezed"}
COMPILED = {"gradient changed", "strangers"}
ALONE = {"starved"}  # nothing else runs beside them
WRONG_SUM = r"value \d+ (is \S+, expected|of \d+ must be) "


def check(kind, code, took, said, printed, left, hit):
    """What is wrong with how a run ended."""
    _, codes, names_worker = KINDS[kind]
    problems = [f"left behind: {', '.join(left)}"] if left else []
    if code is None:
        return problems + [f"does not end within {took:g} s"]
    if not hit:
        codes, names_worker = {0}, False
    if code not in codes:
        problems.append(f"exit code {code}, expected one of {sorted(codes)}")
    errors = [line for line in said.splitlines() if not line.startswith(("warning: ", "note: "))]
    if code in (1, 2) and len(errors) != 1:
        problems.append(f"{len(errors)} lines of error: {errors}")
    if code == 1 and names_worker and errors:
        if not re.search(r"rank \d+|worker \d+", errors[0]):
            problems.append(f"no worker is named: {errors[0]}")
        if not re.search(PHASES, errors[0]):
            problems.append(f"no phase is named: {errors[0]}")
    if code == 1 and kind == "gradient changed" and errors and not re.search(WRONG_SUM, errors[0]):
        problems.append(f"no wrong sum is told: {errors[0]}")
    if code == 1 and kind == "disk full" and errors and not re.search(r"report\.json|/dev/full", errors[0]):
        problems.append(f"no file is named: {errors[0]}")
    if kind == "strangers" and "of strangers" not in said:
        problems.append(f"no stranger is named: {said}")
    if kind == "wrong plan" and re.search(PHASES, said):
        problems.append(f"found only when workers ran: {said}")
    if code == 2 and printed:
        problems.append("a result in spite of wrong input")
    if code in (0, 3) and not printed.strip():
        problems.append("ended well without a result")
    return problems


def full_disk(program, folder, rng, usual):
    full = rng.choice(["report", "prediction", "timeline", *(["room"] * 3 if usual.has_small_disks else [])])
    if full == "room":
        room = 4096 * rng.randrange(1, max(2, usual.written // 4096))
        return Run(program, folder, room=room), f"a disk of {room} bytes"
    if full == "report":
        kept = str(pathlib.Path(folder, "out", "report.json.prediction"))
        return Run(program, folder, options=["--prediction", kept], output="/dev/full"), "no room for the report"
    return Run(program, folder, options=[f"--{full}", "/dev/full"]), f"no room for the {full}"


def wrong_plan(program, folder, rng, usual):
    """A plan of another model, or of this one with an error in it."""
    groups = [[("fine4.weight", 140000), ("fine3.weight", 120000)], [("fine2.weight", 100000)],
              [("fine1.weight", 80000), ("fine0.weight", 60000)]]
    what = rng.choice(["another model's tensors", "a tensor twice", "a tensor missing", "another order"])
    if what == "another model's tensors":
        groups = [[(name.replace("fine", "other"), size) for name, size in group] for group in groups]
    elif what == "a tensor twice":
        groups.append(groups[rng.randrange(3)][:1])
    elif what == "a tensor missing":
        groups[rng.choice([0, 2])].pop(rng.randrange(2))
    else:
        groups.reverse()
    plan = pathlib.Path(folder, "other.plan.json")
    plan.write_text(json.dumps({
        "format": "fusewise.plan", "version": 1, "model": "fine", "workers": WORKERS, "pipeline": "wfbp",
        "collectives": {"all_reduce": "ring"}, "compression": "none", "optimality": "heuristic",
        "predicted": {"iteration_us": 1, "lower_bound_us": 1, "compared_with": []},
        "groups": [{"tensors": [name for name, _ in group], "bytes": sum(size for _, size in group)} for group in groups]}))
    if rng.random() < 0.5:
        file = pathlib.Path(folder, "fine.profile.json")
        file.write_text(json.dumps(profile("fine", 5)))
        return Run(program, folder, plan=str(plan), options=["--profile", str(file)]), f"a plan with {what}"
    wrong = scenario(30)
    wrong["schedules"] = [{"pipeline": "wfbp", "fusion": {"kind": "plan", "file": str(plan)}}]
    file = pathlib.Path(folder, "wrong.json")
    file.write_text(json.dumps(wrong))
    return Run(program, folder, plan=str(file)), f"a scenario's plan with {what}"


def beset(program, folder, rng, usual):
    """Strangers are there before any worker."""
    options = rng.choice([(), ("--paced",)])
    seed = rng.randrange(1 << 31)
    return (Run(program, folder, options=options, library=usual.libraries["strangers"], strangers=seed),
            f"strangers of seed {seed}{' on loopback' if options else ''}")


PREPARED = {"disk full": full_disk, "wrong plan": wrong_plan, "strangers": beset}


def kind_of(seed, number, kinds):
    return random.Random(f"{seed}/{number}").choice(kinds)


def one_fault(program, seed, number, usual, kinds):
    rng = random.Random(f"{seed}/{number}")
    kind = rng.choice(kinds)
    act = KINDS[kind][0]
    is_starved = kind == "starved"
    with tempfile.TemporaryDirectory(prefix="fusewise-fault-") as folder:
        if act is None:
            run, what = PREPARED[kind](program, folder, rng, usual)
        else:
            run = Run(program, folder, library=usual.libraries["flip"] if kind == "gradient changed" else None,
                      patience=STARVED_PATIENCE if is_starved else PATIENCE)
            moment = run.began + rng.uniform(0, usual.took)
            time.sleep(max(0, moment - time.monotonic()))
            what = None
            while what is None and not run.has_ended():  # nothing to hit yet
                try:
                    what = act(run, rng)
                except ProcessLookupError:
                    pass
                if what is None:
                    time.sleep(0.02)
        code, took, said, printed, left = run.finish(STARVED_DEADLINE_S if is_starved else DEADLINE_S)
        problems = check(kind, code, took, said, printed, left, what is not None)
        return Outcome(kind, what or "nothing: had ended", what is not None, code, took, " | ".join(said.splitlines()), problems)


class Stillness(threading.Thread):
    """Counts how often this script itself was stopped or starved for seconds: no deadline means anything then."""

    MOST_S = 2.0

    def __init__(self):
        super().__init__(daemon=True)
        self.times = 0
        self.start()

    def run(self):
        while True:
            began = time.monotonic()
            time.sleep(0.1)
            self.times += time.monotonic() - began > self.MOST_S


def fault_while_awake(stillness, *arguments):
    """The fault anew, up to three times, where the machine stood still meanwhile; and how often it was."""
    for repeated in range(4):
        before = stillness.times
        outcome = one_fault(*arguments)
        if stillness.times == before:
            break
    return outcome, repeated


def host():
    """What a namespace may leave to this host: devices, and mounts that keep it."""
    devices = {line.split(":")[0].strip() for line in pathlib.Path("/proc/net/dev").read_text().splitlines()[2:]}
    mounts = {line for line in pathlib.Path("/proc/self/mounts").read_text().splitlines() if "fusewise" in line or "nsfs" in line}
    return devices | mounts


Usual = collections.namedtuple("Usual", "took written has_links has_small_disks libraries")


def undisturbed(program, folder):
    """A run to which nothing happens, which has to end well: how long it takes, and how much it writes; and what else
    can be had here."""
    inner = pathlib.Path(folder, "undisturbed")
    inner.mkdir()
    run = Run(program, inner)
    code, took, said, printed, left = run.finish()
    if code != 0 or left or not printed:
        sys.exit(f"without a fault: exit code {code}, left behind {left}: {said}")
    written = sum(path.stat().st_size for path in (inner / "out").iterdir())
    small = subprocess.run([*ENTER, "sh", "-c", SMALL_DISK, "sh", "4096", inner / "out", inner / "kept", "true"],
                           capture_output=True).returncode == 0
    libraries = {name: str(pathlib.Path(folder, f"{name}.so")) for name in ("flip", "strangers")}
    compiler = shutil.which("cc")
    for name, library in libraries.items() if compiler else ():
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / f"{name}.c", "-ldl"], check=True)
    return Usual(took, written, "network namespaces" in printed + said, small, libraries if compiler else None)


def possible(usual):
    """The kinds that this machine allows; says which it does not."""
    if not usual.has_links:
        print("SKIPPED: random faults on links: no network namespaces here")
    if not usual.libraries:
        print("SKIPPED: random faults in gradients, and strangers: no C compiler here")
    if not usual.has_small_disks:
        print("SKIPPED: random faults of small disks: no mounts here, only /dev/full")
    return [kind for kind in KINDS
            if (usual.has_links or kind not in LINKS) and (usual.libraries or kind not in COMPILED)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--faults", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--kinds", help=f"some of {', '.join(KINDS)}, between commas")
    parser.add_argument("--verbose", action="store_true", help="a line for each fault")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.program)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # a shell's background ignores some: runs would, too
        signal.signal(number, signal.SIG_DFL)
    before = host()
    with tempfile.TemporaryDirectory(prefix="fusewise-fault-") as folder:
        usual = undisturbed(program, folder)
        kinds = arguments.kinds.split(",") if arguments.kinds else possible(usual)
        stillness = Stillness()
        numbers = range(arguments.faults)
        alone = [n for n in numbers if kind_of(arguments.seed, n, kinds) in ALONE]
        beside = [n for n in numbers if n not in alone]

        def end_of(number):
            return fault_while_awake(stillness, program, arguments.seed, number, usual, kinds)

        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            found = dict(zip(beside, pool.map(end_of, beside)))
        found.update((number, end_of(number)) for number in alone)
        ends = [found[number] for number in numbers]
    outcomes = [outcome for outcome, _ in ends]
    if repeated := sum(times for _, times in ends):
        print(f"{repeated} runs done again: this script itself stood still for over {Stillness.MOST_S:g} s")
    failed = False
    for number, outcome in enumerate(outcomes):
        failed = failed or bool(outcome.problems)
        if outcome.problems or arguments.verbose:
            print(f"fault {number}, {outcome.kind}, {outcome.what}: exit code {outcome.code} after {outcome.took:.1f} s: "
                  f"{outcome.said}")
        for problem in outcome.problems:
            print(f"  WRONG: {problem}")
    if left := host() - before:
        failed = True
        print(f"network devices or mounts left behind: {', '.join(sorted(left))}")
    for kind in kinds:
        mine = [o for o in outcomes if o.kind == kind]
        codes = collections.Counter(o.code for o in mine)
        print(f"{kind}: {len(mine)} runs, {sum(o.was_hit for o in mine)} hit before they ended, exit codes "
              f"{', '.join(f'{code} ({count})' for code, count in sorted(codes.items(), key=str)) or 'none'}, "
              f"longest {max((o.took for o in mine), default=0):.1f} s")
    print(f"{arguments.faults} faults, seed {arguments.seed}: {'see above' if failed else 'every run ended as it should'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
