#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Profiles, verification, compressors, NCCL, overlap and sanitizers on the GPU of this machine, each part within its
time: a table on stdout, and in FOLDER table.txt, results.json and files.tar.gz (profiles, networks, costs, logs).
Exit 0: all went well; 1: something did not, and the table says what.
"""
import argparse
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

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
        if NO_DEVICE in self.err:
            return NO_DEVICE
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
        self.part_end = self.end
        self.part = ""
        self.rows, self.commands = [], []
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

    def command(self, name, words, limit):
        """Within `limit`, its part's time and all of it; its output goes to a log of this name."""
        words = [str(word) for word in words]
        left = min(limit, self.part_end - time.monotonic(), self.end - time.monotonic())
        if left < 1:
            return Outcome(None, "", "", 0, 0)
        began = time.monotonic()
        with open(self.files / "logs" / f"{name}.out", "w+") as out, open(self.files / "logs" / f"{name}.err", "w+") as err:
            try:
                child = subprocess.Popen(words, stdout=out, stderr=err, stdin=subprocess.DEVNULL, cwd=ROOT,
                                         env=self.environment, preexec_fn=lambda: os.setpgid(0, 0))
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
        self.commands.append({"name": name, "command": " ".join(words), "seconds": round(outcome.seconds, 2),
                              "exit": code})
        return outcome

    def row(self, what, result, good=True, **numbers):
        if not self.has_device and result.endswith("no PyTorch here"):
            result = f"{NO_DEVICE}, no PyTorch either"
        self.rows.append({"part": self.part, "what": what, "result": result, "good": good, **numbers})
        line = f"{self.part:<12} {what:<34} {'' if good else '! '}{result}"
        print(line, flush=True)
        with open(self.out / "table.txt", "a") as table:
            table.write(line + "\n")

    def begin(self, part, seconds):
        self.part = part
        self.part_end = time.monotonic() + seconds

    def save(self):
        """Whatever happens later, what is there now is in FOLDER."""
        with open(self.out / "results.json", "w") as file:
            json.dump({"rows": self.rows, "commands": self.commands}, file, indent=1)
        partial = self.out / "files.tar.gz.partial"
        with tarfile.open(partial, "w:gz") as tar:
            tar.add(self.files, arcname="files")
        os.replace(partial, self.out / "files.tar.gz")


# ---- the parts, by what is most wanted; each has seconds of its own


def device(run):
    query = "--query-gpu=name,driver_version,memory.total,clocks.sm,temperature.gpu"
    smi = run.command("nvidia-smi", ["nvidia-smi", query, "--format=csv,noheader"], 20)
    if smi.code == 0:
        run.row("nvidia-smi", smi.out.strip())
    tests = run.command("cuda_tests", [run.program("cuda_tests"), "--fail-if-skipped"], 80)
    run.has_device = tests.why() != NO_DEVICE
    said = re.search(r"test cases: *(\d+) \| *(\d+) passed", tests.out)
    failed = sorted(set(re.findall(r"^TEST CASE: +(.*)$", tests.out, re.M)))
    why = tests.why()
    if said and tests.code and run.has_device:
        why = f"{said[2]} of {said[1]} passed; failed: {'; '.join(failed)[:200]}"
    run.row("own kernels and layers, tests", why or f"{said[2]} of {said[1]} passed in {tests.seconds:.0f} s", not why)


def profiles(run):
    for precision, words in PRECISIONS.items():
        for model in MODELS:
            name = f"{model}.{precision}"
            file = run.files / f"{name}.profile.json"
            done = run.command(f"profile-{name}", [run.program("fusewise"), "profile", f"models/{model}.json", *words,
                                                   "-o", file], 40)
            said = re.search(r"whole iteration ([\d.]+) us \(spread ([\d.]+)\), layers add up to ([\d.]+) us; machine (\w+)",
                             done.out)
            why = done.why() or (None if said else "no whole iteration in its output")
            if why:
                run.row(name, why, False)
                continue
            whole, spread, layers = (float(said[i]) for i in (1, 2, 3))
            run.us[model, precision] = whole
            run.row(name, f"iteration {whole / 1e3:9.3f} ms (spread {100 * spread / whole:.1f} %), layers "
                          f"{layers / 1e3:9.3f} ms: {100 * (layers / whole - 1):+.1f} %, {said[4]}",
                    iteration_us=whole, spread_us=spread, layers_us=layers)


def lines_of(outcome):
    return [json.loads(line) for line in outcome.out.splitlines() if line.startswith("{")]


def torch(run):
    script = [sys.executable, "bench/gpu/torch_beside.py"]
    for fused in (False, True):
        words = ["--fused", "--models", "bert-base,gpt2"] if fused else ["--models", ",".join(BESIDE_TORCH)]
        done = run.command(f"torch{'-fused' if fused else ''}", script + words, 60)
        for line in lines_of(done):
            model, precision = line["model"], line["precision"]
            ours = run.us.get((model, precision))
            beside = f", ours is {ours / line['us']:.3f} times that" if ours else ", ours was not measured"
            run.row(f"{model}.{precision}{', fused' if fused else ''}",
                    f"PyTorch {line['torch']} {line['us'] / 1e3:9.3f} ms{beside}", bool(ours), **line)
        if done.why():
            run.row("fused attention" if fused else "the same models", done.why(), False)


def verification(run):
    dtypes = {"float32": [], "tf32": ["--tf32"], "float16": ["--dtype", "float16"], "bfloat16": ["--dtype", "bfloat16"]}
    few = ["resnet50", "bert-base", "lstm-an4"]
    for dtype, words in dtypes.items():
        for model, small in SMALL.items():
            if dtype != "float32" and model not in few:
                continue
            done = run.command(f"verify-{model}.{dtype}", [run.program("fusewise"), "profile", f"models/{model}.json",
                                                           "--verify", *small, *words], 30)
            agreed = done.out.strip().splitlines()[-1] if done.code == 0 else ""
            run.row(f"{model}.{dtype}", done.why() or agreed, done.code == 0)


def compressors(run):
    costs = run.files / "gpu.compressors.json"
    fusewise = run.program("fusewise")
    elements = "1024,4096,16384,65536,262144,1048576,4194304,16777216,134217728"
    done = run.command("compressors", [fusewise, "measure", "--compressors", "--backend", "cuda", "--elements", elements,
                                       "-o", costs], 100)
    theirs = run.command("torch-top-k", [sys.executable, "bench/gpu/torch_beside.py", "--top-k"], 40)
    top_k = {(line["top_k"], line["density"]): line["us"] for line in lines_of(theirs)}
    for compressor in json.loads(costs.read_text())["compressors"] if done.code == 0 else []:
        for curve in compressor["curves"]:
            density = curve.get("density")
            for point in curve["points"]:
                size = point["elements"]
                if size not in (1 << 18, 1 << 24, 1 << 27) or density not in (None, 0.01):
                    continue
                beside = top_k.get((size, density))
                count = f"{size >> 20} Mi" if size >> 20 else f"{size >> 10} Ki"
                run.row(f"{compressor['name']}, {count}" + (f" at {density}" if density else ""),
                        f"encode {point['encode_us']:10.1f} us ({4e-3 * size / point['encode_us']:.1f} GB/s of gradient), "
                        f"decode {point['decode_us']:10.1f} us"
                        + (f"; torch.topk takes {beside / point['encode_us']:.1f} times as long as encode" if beside else ""),
                        compressor=compressor["name"], density=density, **point)
    if done.why():
        run.row("compressors", done.why(), False)
    if theirs.why():
        run.row("torch.topk", theirs.why(), False)
    if done.code == 0:
        shown = run.command("show-costs", [fusewise, "show", costs], 10)
        run.row("costs as a file", shown.why() or "gpu.compressors.json, read back", shown.code == 0)


def fits_of(text):
    """How far line, segments and curve are off on sizes that they have not seen: mean and worst."""
    for block in text.split("\n\n"):
        name = re.match(r"(\w+) on \d+ workers", block)
        models = re.findall(r"^ +(line|segments|curve) .*?([\d.]+ %) +([\d.]+ %) +at +\S+ \S+ *$", block, re.M)
        if name and models:
            yield name[1], "off on sizes left out: " + ", ".join(f"{m} {mean} ({worst})" for m, mean, worst in models)


def nccl(run):
    fusewise = run.program("fusewise")
    for workers in (2, 4):
        network, samples = (run.files / f"nccl-{workers}.{end}" for end in ("network.json", "csv"))
        done = run.command(f"nccl-{workers}", [fusewise, "measure", "--backend", "nccl", "--share-gpu", "--workers",
                                               workers, "--sizes", run.options.messages, "--repetitions", "10", "--deadline",
                                               "20", "-o", network, "--samples", samples], 50)
        fits = re.findall(r"^(\w+): (.* us/byte, off by .*)$", done.out, re.M)
        for collective, text in fits:
            run.row(f"{collective}, {workers} ranks on one GPU", text)
        if done.why() or not fits:
            run.row(f"{workers} ranks on one GPU", done.why() or "no straight line in its output", False)
            continue
        fit = run.command(f"fit-{workers}", [fusewise, "fit", network], 20)
        for collective, text in fits_of(fit.out):
            run.row(f"{collective}, {workers} ranks, fitted", text)
        if fit.why():
            run.row(f"fit, {workers} ranks", fit.why(), False)
    wide = run.command("nccl-broadcast", [fusewise, "measure", "--backend", "nccl", "--share-gpu", "--workers", 2,
                                          "--collectives", "broadcast", "--sizes", "1MiB", "--repetitions", "5",
                                          "--deadline", "20"], 30)
    run.row("broadcast alone", wide.why() or "measured", wide.code == 0)


def live(run):
    """Plans run with gradients on the GPU, where this program has that."""
    fusewise = run.program("fusewise")
    help_text = run.command("validate-help", [fusewise, "validate", "--help"], 10).out
    backend = re.search(r"--backend.*?(?=\n +-)", help_text, re.S)
    if not backend or "nccl" not in backend[0]:
        run.row("validate --backend nccl", "this program has no such backend")
        return
    common = ["--workers", 2, "--backend", "nccl", "--share-gpu", "--schedule", "wfbp", "--schedule", "sync-easgd",
              "--iterations", 10, "--tolerance", "0.5"]
    jobs = {"layers are waited for": ["scenarios/googlenet-k80.json"]}
    if "on the GPU" in " ".join(help_text.split()):
        jobs["layers on the GPU"] = ["scenarios/resnet50-v100.json", "--layers", "models/resnet50.json", "--batch", 16]
    for name, words in jobs.items():
        file = run.files / f"live {name}.json".replace(" ", "-")
        done = run.command(file.stem, [fusewise, "validate", *words, *common, "-o", file], 60)
        lines = done.out.strip().splitlines()
        for line in lines if done.code in (0, 3) else []:
            if line.split()[:1] in (["wfbp"], ["sync-easgd"]):
                run.row(f"nccl, {name}", re.sub(" +", " ", line)[:160])
        if done.why():
            run.row(f"nccl, {name}", done.why(), False)


def overlap(run):
    profile = run.files / "resnet50.float32.profile.json"
    words = [run.program("fusewise"), "measure", "--backend", "nccl", "--share-gpu", "--workers", 2, "--overlap",
             "models/resnet50.json", "--overlap-size", "16MiB", "--repetitions", 10, "--deadline", 30,
             "-o", run.files / "resnet50.float32.overlap.json"]
    if profile.is_file():
        words += ["--into", profile]
    done = run.command("overlap", words, 60)
    said = re.search(r"compute_slowdown [\d.]+, communication_slowdown [\d.]+", done.out)
    run.row("resnet50, 2 ranks on one GPU", done.why() or (said[0] if said else "no slow-downs in its output"),
            done.code == 0 and bool(said))


def sanitizer(run):
    places = [shutil.which("compute-sanitizer"), "/usr/local/cuda/bin/compute-sanitizer",
              "/usr/local/cuda/compute-sanitizer/compute-sanitizer"]
    tool = next((place for place in places if place and os.access(place, os.X_OK)), None)
    tests = [run.program("cuda_tests"), "--fail-if-skipped", "--test-case=gpu: few*,gpu own kernels*"]
    if tool is None:  # the same programs without it
        done = run.command("few", tests, 30)
        run.row("compute-sanitizer", done.why() or "not found on this machine", False)
        return
    for check in ("memcheck", "racecheck", "initcheck", "synccheck"):
        done = run.command(f"sanitizer-{check}", [tool, "--tool", check, "--error-exitcode", 9, *tests], 40)
        said = [line for line in (done.out + done.err).splitlines() if "SUMMARY" in line]
        run.row(check, done.why() if done.code is None or not said else said[-1].replace("=", "").strip(),
                done.code == 0)


PARTS = {"device": (device, 100), "profiles": (profiles, 200), "torch": (torch, 90), "compressors": (compressors, 120),
         "nccl": (nccl, 90), "overlap": (overlap, 50), "sanitizer": (sanitizer, 100), "verify": (verification, 120),
         "live": (live, 80)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER", help="for all that is written; made where it is missing")
    parser.add_argument("--programs", default=str(ROOT / "build/gpu"), help="folder of fusewise and cuda_tests "
                        "(default: build/gpu, which bench/gpu.sh --build fills)")
    parser.add_argument("--seconds", type=float, default=560, help="for all parts together (default: 560)")
    parser.add_argument("--messages", default="4KiB..16MiB", help="sizes that NCCL is timed with (default: 4KiB..16MiB)")
    parser.add_argument("--only", help=f"some of {','.join(PARTS)}")
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
        for part in wanted:
            work, seconds = PARTS[part]
            run.begin(part, seconds)
            began = time.monotonic()
            try:
                work(run)
            except Exception as error:  # of ours: the other parts go on
                run.row("bench/gpu/run.py", f"{type(error).__name__}: {error}", False)
            print(f"{part:<12} took {time.monotonic() - began:.0f} s", flush=True)
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
