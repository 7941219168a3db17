#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles, verification, compressors, NCCL, overlap and sanitizers on the GPU of this machine, each part within its
time: a table on stdout, and in FOLDER table.txt, results.json and files.tar.gz (profiles, networks, costs, logs).
Exit 0: all went well; 1: something did not, and the table says what.
"""
import argparse
import concurrent.futures
import contextlib
import glob
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

from torch_traces import JOBS

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MODELS = ["resnet50", "bert-base", "gpt2", "bert-large", "vgg16", "densenet201", "inception-v4", "resnet152"]
BESIDE_TORCH = MODELS[:3]
PRECISIONS = {"float32": [], "tf32": ["--tf32"], "bfloat16": ["--dtype", "bfloat16"]}
SMALL = {  # for --verify, where the CPU has to keep up
    "resnet50": ["--input-size", "64", "--batch-size", "2"],
    "densenet201": ["--input-size", "64", "--batch-size", "2"],
    "inception-v4": ["--input-size", "96", "--batch-size", "2"],
    "vgg16": ["--input-size", "32", "--batch-size", "2"],
    "resnet152": ["--input-size", "64", "--batch-size", "2"],
    "bert-base": ["--sequence-length", "32", "--batch-size", "2"],
    "gpt2": ["--sequence-length", "32", "--batch-size", "2"],
    "bert-large": ["--sequence-length", "16", "--batch-size", "1"],
    "lstm-an4": ["--batch-size", "2"],
}
NO_DEVICE = "no CUDA device"


class Outcome:
    """How a command ended; why it is no good, or None."""

    def __init__(self, code, out, err, seconds, limit):
        self.code, self.out, self.err, self.seconds, self.limit = code, out, err, seconds, limit

    def why(self):
        if self.code == 0:
            return None
        if self.code is None:
            return f"stopped after its {self.limit:.0f} s" if self.limit else "no time was left for it"
        if NO_DEVICE in self.err and not re.search(rf"{NO_DEVICE}: this (build|fusewise)", self.err):
            return NO_DEVICE  # as opposed to a program that was built without CUDA
        lines = [line for line in (self.err + self.out).splitlines() if line.strip()]
        said = lines[-1].strip() if lines else "nothing said"
        return ("WRONG USAGE" if self.code == 2 else f"exit {self.code}") + ": " + said[:160]


class Run:
    def __init__(self, options):
        self.options = options
        self.out = pathlib.Path(options.folder)
        self.out.mkdir(parents=True, exist_ok=True)
        self.files = pathlib.Path(tempfile.mkdtemp(prefix="fusewise-gpu-"))
        (self.files / "logs").mkdir()
        self.end = time.monotonic() + options.seconds
        self.rows, self.commands = [], []
        self.lock = threading.Lock()  # of rows, commands and files in the folder
        self.environment = self._environment()
        self.us = {}  # (model, precision): ours
        self.has_device = True

    def _environment(self):
        """With the CUDA libraries that this Python's packages have, if nothing else was asked for."""
        out = dict(os.environ)
        if self.options.dry_run:
            out["CUDA_VISIBLE_DEVICES"] = "-1"
        if "FUSEWISE_CUDA_LIBRARIES" not in out:
            folders = [folder for path in sys.path for folder in sorted(glob.glob(f"{path}/nvidia/*/lib"))]
            if folders:
                out["FUSEWISE_CUDA_LIBRARIES"] = ":".join(folders)
        return out

    def program(self, name):
        folder = pathlib.Path(self.options.programs)
        for place in (folder / name, folder / "tests" / name):
            if place.is_file():
                return str(place.resolve())
        return str(folder / name)

    def save(self):
        """Whatever happens later, what is there now is in FOLDER."""
        with self.lock:
            with open(self.out / "results.json", "w") as file:
                json.dump({"rows": self.rows, "commands": self.commands}, file, indent=1)
            partial = self.out / "files.tar.gz.partial"
            with tarfile.open(partial, "w:gz", compresslevel=3) as tar:
                tar.add(self.files, arcname="files")
            os.replace(partial, self.out / "files.tar.gz")


class Part:
    """One part of the run, with seconds of its own."""

    def __init__(self, run, name, seconds):
        self.run, self.name = run, name
        self.files, self.us, self.options = run.files, run.us, run.options
        self.end = min(run.end, time.monotonic() + seconds)

    def program(self, name):
        return self.run.program(name)

    def command(self, name, words, limit, **variables):
        """Within `limit` and its part's time; its output goes to a log of this name."""
        words = [str(word) for word in words]
        left = min(limit, self.end - time.monotonic())
        if left < 1:
            return Outcome(None, "", "", 0, 0)
        began = time.monotonic()
        with open(self.files / "logs" / f"{name}.out", "w+") as out, open(self.files / "logs" / f"{name}.err", "w+") as err:
            try:
                child = subprocess.Popen(words, stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=ROOT,
                                         env={**self.run.environment, **variables}, process_group=0)
            except OSError as error:
                return Outcome(127, "", f"{words[0]}: {error.strerror}", 0, left)
            try:
                code = child.wait(left)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                try:
                    os.killpg(child.pid, signal.SIGKILL)  # what it has started, too
                except ProcessLookupError:
                    pass
                child.wait()
            out.seek(0)
            err.seek(0)
            outcome = Outcome(code, out.read(), err.read(), time.monotonic() - began, left)
        with self.run.lock:
            self.run.commands.append({"name": name, "command": " ".join(words), "seconds": round(outcome.seconds, 2),
                                      "exit": code})
        return outcome

    def row(self, what, result, good=True, **numbers):
        if not self.run.has_device and result.endswith("no PyTorch here"):
            result = f"{NO_DEVICE}, no PyTorch either"
        line = f"{self.name:<12} {what:<34} {'' if good else '! '}{result}"
        with self.run.lock:
            self.run.rows.append({"part": self.name, "what": what, "result": result, "good": good, **numbers})
            print(line, flush=True)
            with open(self.run.out / "table.txt", "a") as table:
                table.write(line + "\n")


# ---- the parts, by what is most wanted; each has seconds of its own


def device(part):
    query = "--query-gpu=name,driver_version,memory.total,clocks.sm,temperature.gpu"
    smi = part.command("nvidia-smi", ["nvidia-smi", query, "--format=csv,noheader"], 20)
    if smi.code == 0:
        part.row("nvidia-smi", smi.out.strip())
    tests = part.command("cuda_tests", [part.program("cuda_tests"), "--fail-if-skipped"], 80)
    part.run.has_device = tests.why() != NO_DEVICE
    said = re.search(r"test cases: *(\d+) \| *(\d+) passed", tests.out)
    failed = sorted(set(re.findall(r"^TEST CASE: +(.*)$", tests.out, re.M)))
    why = tests.why()
    if said and tests.code and part.run.has_device:
        why = f"{said[2]} of {said[1]} passed; failed: {'; '.join(failed)[:200]}"
    part.row("own kernels and layers, tests", why or f"{said[2]} of {said[1]} passed in {tests.seconds:.0f} s", not why)


def profiles(part):
    for precision in part.options.precisions.split(","):
        for model in part.options.models.split(","):
            name = f"{model}.{precision}"
            file = part.files / f"{name}.profile.json"
            done = part.command(f"profile-{name}", [part.program("fusewise"), "profile", f"models/{model}.json",
                                                   *PRECISIONS[precision], "--repetitions", part.options.repetitions,
                                                   "-o", file], 40)
            said = re.search(r"whole iteration ([\d.]+) us \(spread ([\d.]+)\), layers add up to ([\d.]+) us; machine (\w+)",
                             done.out)
            why = done.why() or (None if said else "no whole iteration in its output")
            if why:
                part.row(name, why, False)
                continue
            whole, spread, layers = (float(said[i]) for i in (1, 2, 3))
            part.us[model, precision] = whole
            part.row(name, f"iteration {whole / 1e3:9.3f} ms (spread {100 * spread / whole:.1f} %), layers "
                          f"{layers / 1e3:9.3f} ms: {100 * (layers / whole - 1):+.1f} %, {said[4]}",
                    iteration_us=whole, spread_us=spread, layers_us=layers)


def lines_of(outcome):
    return [json.loads(line) for line in outcome.out.splitlines() if line.startswith("{")]


def torch(part):
    done = part.command("torch", [sys.executable, "bench/gpu/torch_beside.py", "--models", ",".join(BESIDE_TORCH)], 80)
    for line in lines_of(done):
        model, precision = line["model"], line["precision"]
        ours = part.us.get((model, precision))
        beside = f", ours is {ours / line['us']:.3f} times that" if ours else ", ours was not measured"
        part.row(f"{model}.{precision}", f"PyTorch {line['torch']} {line['us'] / 1e3:9.3f} ms{beside}", bool(ours), **line)
    if done.why():
        part.row("the same models", done.why(), False)


def verification(part):
    dtypes = {"bfloat16": ["--dtype", "bfloat16"], "float16": ["--dtype", "float16"], "tf32": ["--tf32"], "float32": []}
    few = ["resnet50", "bert-base", "lstm-an4"]
    cases = [(dtype, model) for dtype in dtypes for model in SMALL if dtype == "float32" or model in few]

    def verify(case):
        dtype, model = case
        done = part.command(f"verify-{model}.{dtype}", [part.program("fusewise"), "profile", f"models/{model}.json",
                                                       "--verify", *SMALL[model], *dtypes[dtype]], 60)
        agreed = done.out.strip().splitlines()[-1] if done.code == 0 else ""
        part.row(f"{model}.{dtype}", done.why() or agreed, done.code == 0)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # nothing is timed
        list(pool.map(verify, cases))


def compressors(part):
    costs = part.files / "gpu.compressors.json"
    fusewise = part.program("fusewise")
    elements = "1024,4096,16384,65536,262144,1048576,4194304,16777216,134217728"
    done = part.command("compressors", [fusewise, "measure", "--compressors", "--backend", "cuda", "--elements", elements,
                                       "-o", costs], 100)
    theirs = part.command("torch-top-k", [sys.executable, "bench/gpu/torch_beside.py", "--top-k"], 40)
    top_k = {(line["top_k"], line["density"]): line["us"] for line in lines_of(theirs) if "top_k" in line}
    for line in lines_of(theirs):
        if "copy_gb_per_s" in line:
            part.row("a copy within the device", f"{line['copy_gb_per_s']:.0f} GB/s, read and written", **line)
    for compressor in json.loads(costs.read_text())["compressors"] if done.code == 0 else []:
        for curve in compressor["curves"]:
            density = curve.get("density")
            for point in curve["points"]:
                size = point["elements"]
                if size not in (1 << 18, 1 << 24, 1 << 27) or density not in (None, 0.01):
                    continue
                beside = top_k.get((size, density))
                count = f"{size >> 20} Mi" if size >> 20 else f"{size >> 10} Ki"
                part.row(f"{compressor['name']}, {count}" + (f" at {density}" if density else ""),
                        f"encode {point['encode_us']:10.1f} us ({4e-3 * size / point['encode_us']:.1f} GB/s of gradient), "
                        f"decode {point['decode_us']:10.1f} us"
                        + (f"; torch.topk takes {beside / point['encode_us']:.1f} times as long as encode" if beside else ""),
                        compressor=compressor["name"], density=density, **point)
    if done.why():
        part.row("compressors", done.why(), False)
    if theirs.why():
        part.row("torch.topk", theirs.why(), False)
    if done.code == 0:
        shown = part.command("show-costs", [fusewise, "show", costs], 10)
        part.row("costs as a file", shown.why() or "gpu.compressors.json, read back", shown.code == 0)


def fits_of(text):
    """How far line, segments and curve are off on sizes that they have not seen: mean and worst."""
    for block in text.split("\n\n"):
        name = re.match(r"(\w+) on \d+ workers", block)
        models = re.findall(r"^ +(line|segments|curve) .*?([\d.]+ %) +([\d.]+ %) +at +\S+ \S+ *$", block, re.M)
        if name and models:
            yield name[1], "off on sizes left out: " + ", ".join(f"{m} {mean} ({worst})" for m, mean, worst in models)


@contextlib.contextmanager
def multi_process_service(part):
    """CUDA's service that lets the kernels of several processes run at the same time; otherwise they take turns, about
    10 ms each. Yields the variables for its clients, or nothing on a machine without it."""
    control = shutil.which("nvidia-cuda-mps-control") or "/usr/local/nvidia/bin/nvidia-cuda-mps-control"
    if part.options.dry_run or not os.access(control, os.X_OK):
        part.row("CUDA's multi-process service", "not on this machine: processes take turns on the GPU")
        yield {}
        return
    folder = tempfile.mkdtemp(prefix="fusewise-mps-")
    places = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    environment = {**part.run.environment, **places}
    service = subprocess.Popen([control, "-f"], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, process_group=0)
    try:
        time.sleep(1)
        if service.poll() is not None:
            part.row("CUDA's multi-process service", f"ended with {service.returncode}", False)
            places = {}
        yield places
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired, OSError):  # a client that hangs keeps it
            subprocess.run([control], input="quit -t 3\n", text=True, env=environment, timeout=5, capture_output=True,
                           check=False)
            service.wait(3)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(service.pid, signal.SIGKILL)  # with the server that it has started
        service.wait()
        shutil.rmtree(folder, ignore_errors=True)


def measured_by_nccl(part, workers, how, **variables):
    fusewise = part.program("fusewise")
    name = f"nccl-{workers}{how.replace(' ', '-')}"
    network, samples = (part.files / f"{name}.{end}" for end in ("network.json", "csv"))
    done = part.command(name, [fusewise, "measure", "--backend", "nccl", "--share-gpu", "--workers", workers, "--sizes",
                               part.options.messages, "--repetitions", "10", "--deadline", "20", "-o", network, "--samples",
                               samples], 50, **variables)
    fits = re.findall(r"^(\w+): (.* us/byte, error .*)$", done.out, re.M)
    for collective, text in fits:
        part.row(f"{collective}, {workers} ranks{how}", text)
    if done.why() or not fits:
        part.row(f"{workers} ranks on one GPU{how}", done.why() or "no straight line in its output", False)
        return
    fit = part.command(f"fit-{name}", [fusewise, "fit", network], 20)
    for collective, text in fits_of(fit.out):
        part.row(f"{collective}, {workers} ranks{how}, fitted", text)
    if fit.why():
        part.row(f"fit, {workers} ranks{how}", fit.why(), False)


def nccl(part):
    with multi_process_service(part) as variables:
        if variables:
            for workers in (2, 4):
                measured_by_nccl(part, workers, " under MPS", **variables)
    for workers in (2, 4):
        measured_by_nccl(part, workers, "")


@contextlib.contextmanager
def second_rank(part, name, words, **variables):
    """Starts the second of two ranks, and yields the variables of the first: processes of their own, so that all plans run
    in those that were calibrated, with the same algorithms of cuDNN and the same connections of NCCL."""
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        port = any_port.getsockname()[1]
    job = {**variables, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
           "FUSEWISE_SECRET": secrets.token_hex(16)}
    with open(part.files / "logs" / f"{name}.rank1", "w") as log:
        other = subprocess.Popen([str(word) for word in words], stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=ROOT,
                                 env={**part.run.environment, **job, "RANK": "1"}, process_group=0)
        try:
            yield {**job, "RANK": "0"}
            with contextlib.suppress(subprocess.TimeoutExpired):
                other.wait(5)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(other.pid, signal.SIGKILL)
            other.wait()


def live(part):
    """Plans run with gradients and layers on the GPU, the layers of rank 0 alone: the others wait as long."""
    layers = ["--layers", "models/resnet18.json", "--batch", 128, "--computing", 1]
    jobs = {"layers run": layers, "layers wait": []}
    with multi_process_service(part) as variables:
        for name, words in jobs.items():
            file = part.files / f"live {name}.json".replace(" ", "-")
            words = [part.program("fusewise"), "validate", "bench/gpu/live.json", *words, "--backend", "nccl", "--share-gpu",
                     "--iterations", 20, "--warm-up", 3, "--tolerance", 10, "-o", file]
            with second_rank(part, file.stem, words, **variables) as first:
                done = part.command(file.stem, words, part.options.live_seconds, **first)
            errors = []
            for plan, predicted, measured, error in re.findall(  # of the plans that have run
                    r"^(\S+)\n +predicted.*\niteration +([\d.]+) +([\d.]+) .* (-?[\d.]+) %$", done.out, re.M):
                errors.append(abs(float(error)))
                part.row(f"{name}, {plan}", f"predicted {float(predicted):9.3f} ms, measured {float(measured):9.3f} ms, "
                         f"error {error} %", predicted_ms=float(predicted), measured_ms=float(measured))
            if errors:
                part.row(f"{name}, all", f"error {sum(errors) / len(errors):.1f} % in the mean, {max(errors):.1f} % at worst")
            if done.why() or not errors:
                part.row(name, done.why() or "no plan in its output", False)


def tuned(part):
    """A PyTorch script that `fusewise torch` measures and plans."""
    job = "resnet50:32:float32:ddp"
    with multi_process_service(part) as variables:
        done = part.command("tuned", [part.program("fusewise"), "torch", "--nproc", 2, "-o", part.files / "tuned",
                                      "bench/gpu/torch_job.py", job], 100, PYTHONPATH=str(ROOT / "python"),
                            FUSEWISE_PYTHON=sys.executable, **variables)
    rows = re.findall(r"^(\S.*?) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", done.out, re.M)
    for setting, predicted, measured, *_ in rows:
        part.row(f"{job}, {setting}", f"predicted {predicted} ms, measured {measured} ms, error "
                 f"{100 * (float(predicted) / float(measured) - 1):+.1f} %")
    for line in re.findall(r"^(?:set|expect) .*$", done.out, re.M):
        part.row(job, line)
    if done.why() or not rows:
        why = "no PyTorch here" if "needs PyTorch" in done.err else done.why()
        part.row(job, why or "no setting in its output", False)


def traces(part):
    """Training steps in PyTorch beside what their traces and profiles by events say."""
    jobs = part.options.jobs.split(",")
    alone = [job for job in jobs if not job.endswith(":ddp")]
    shared = [job for job in jobs if job.endswith(":ddp")]
    if alone:
        traced(part, "torch-traces", alone)
    if shared:
        with multi_process_service(part) as variables:
            traced(part, "torch-traces-ddp", shared, **variables)


def traced(part, name, jobs, **variables):
    folder = part.files / "traces"
    fusewise = part.program("fusewise")
    done = part.command(name, [sys.executable, "bench/gpu/torch_traces.py", folder, "--jobs", ",".join(jobs)], 110,
                        **variables)
    for line in lines_of(done):
        job = line["job"]
        part.row(job, f"step {line['step_us'] / 1e3:9.3f} ms (spread {100 * line['spread_us'] / line['step_us']:.1f} %)",
                 **line)
        for trace in sorted(folder.glob(f"{job.replace(':', '-')}*.trace.json.gz")):
            stem = trace.name.removesuffix(".trace.json.gz")
            imported = part.command(f"import-{stem}", [fusewise, "import", trace, "-o", folder / f"{stem}.profile.json",
                                                       "--batch", job.split(":")[1]], 20)
            said = re.search(r"predicted with[^:\n]*: [\d.]+ ms, measured [\d.]+ ms.*", imported.out)
            part.row(stem, imported.why() or (said[0] if said else "no prediction in its output"),
                     imported.code == 0 and bool(said))
    if done.why():
        part.row("PyTorch's steps", done.why(), False)


def overlap(part):
    words = [part.program("fusewise"), "measure", "--backend", "nccl", "--share-gpu", "--workers", 2, "--overlap",
             "models/resnet18.json", "--batch", 64, "--overlap-size", "16MiB", "--repetitions", 10, "--deadline", 30]
    with multi_process_service(part) as variables:
        done = part.command("overlap", words, 60, **variables)
    said = re.search(r"compute_slowdown [\d.]+, communication_slowdown [\d.]+", done.out)
    part.row("resnet18, 2 ranks on one GPU", done.why() or (said[0] if said else "no slow-downs in its output"),
             done.code == 0 and bool(said))


def sanitizer(part):
    places = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer",
              "/usr/local/cuda/compute-sanitizer/compute-sanitizer"]
    tool = next((place for place in places if place and os.access(place, os.X_OK)), None)
    tests = [part.program("cuda_tests"), "--fail-if-skipped", "--test-case=gpu: few*,gpu own kernels*"]
    if tool is None:  # the same programs without it
        done = part.command("few", tests, 30)
        part.row("compute-sanitizer", done.why() or "not found on this machine", False)
        return
    for check in ("memcheck", "racecheck", "initcheck", "synccheck"):
        done = part.command(f"sanitizer-{check}", [tool, "--tool", check, "--error-exitcode", 9, *tests], 40)
        said = [line for line in (done.out + done.err).splitlines() if "SUMMARY" in line]
        part.row(check, done.why() if done.code is None or not said else said[-1].replace("=", "").strip(),
                done.code == 0)


PARTS = {"device": (device, 90), "live": (live, 200), "overlap": (overlap, 40), "profiles": (profiles, 200),
         "traces": (traces, 130), "tuned": (tuned, 80), "torch": (torch, 80), "nccl": (nccl, 50),
         "compressors": (compressors, 60), "sanitizer": (sanitizer, 60), "verify": (verification, 120)}


def work_on(run, name):
    work, seconds = PARTS[name]
    part = Part(run, name, seconds)
    began = time.monotonic()
    try:
        work(part)
    except Exception as error:  # of ours: the other parts go on
        part.row("bench/gpu/run.py", f"{type(error).__name__}: {error}", False)
    print(f"{name:<12} took {time.monotonic() - began:.0f} s", flush=True)
    with contextlib.suppress(OSError):  # files of other parts come and go; all are saved at the end
        run.save()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", help="for all that is written; made where it is missing")
    parser.add_argument("--programs", default=str(ROOT / "build/gpu"), help="folder of fusewise and cuda_tests "
                        "(default: build/gpu, which bench/gpu.sh --build fills)")
    parser.add_argument("--seconds", type=float, default=560, help="for all parts together (default: 560)")
    parser.add_argument("--messages", default="4KiB..16MiB", help="sizes that NCCL is timed with (default: 4KiB..16MiB)")
    parser.add_argument("--live-seconds", type=float, default=100, help="for each of the live runs (default: 100)")
    parser.add_argument("--jobs", default=",".join(JOBS), help=f"PyTorch's steps to trace (default: {','.join(JOBS)})")
    parser.add_argument("--only", help=f"some of {','.join(PARTS)}")
    parser.add_argument("--together", action="store_true",
                        help="all parts at the same time, to find what fails: times mean nothing then")
    parser.add_argument("--precisions", default=",".join(PRECISIONS), help=f"to profile in (default: {','.join(PRECISIONS)})")
    parser.add_argument("--repetitions", type=int, default=30, help="of each layer that is profiled (default: 30)")
    parser.add_argument("--models", default=",".join(MODELS), help=f"to profile (default: {','.join(MODELS)})")
    parser.add_argument("--dry-run", action="store_true",
                        help="as if there were no GPU: every command has to end with 'no CUDA device', or exit 1")
    options = parser.parse_args()
    wanted = options.only.split(",") if options.only else list(PARTS)
    for part in wanted:
        if part not in PARTS:
            parser.error(f"--only: expected some of {', '.join(PARTS)}, got '{part}'")
    run = Run(options)
    (run.out / "table.txt").write_text("")
    try:
        if options.together:
            threads = [threading.Thread(target=work_on, args=(run, part)) for part in wanted]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        else:
            for part in wanted:
                work_on(run, part)
        run.save()
    finally:
        shutil.rmtree(run.files, ignore_errors=True)
    bad = [row for row in run.rows if not row["good"]]
    if options.dry_run:
        bad = [row for row in bad if not row["result"].startswith(NO_DEVICE)]
    print(f"{len(run.rows) - len(bad)} of {len(run.rows)} as they should be; {run.out}: table.txt, results.json, files.tar.gz")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
