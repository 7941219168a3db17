#!/usr/bin/env python3
"""Asks PyTorch itself whether it makes of an emission what the emission says.

usage: ddp_buckets.py DRIVER [--fusewise PROGRAM] [--seeds N]

DRIVER is emit_driver.cpp, compiled. Checks the caps for DDP on N random lists of tensors (500), on the bundled
profiles and, with PROGRAM, on the bundled models; then trains small models under DistributedDataParallel and
reads through a communication hook which buckets it sends. For PyTorch 1.13 and later. Exits with 1 at the first emission that does not hold, and names its seed.
"""

import argparse
import inspect
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1024 * 1024


class Driver:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def emit(self, sizes, counts, target="ddp", schedule="wfbp", shapes=(), **more):
        line = {"target": target, "sizes": sizes, "groups": counts, "schedule": schedule, "shapes": shapes, **more}
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def torch_counts(sizes, caps):
    """How many tensors PyTorch puts into each bucket. Expanded tensors count all their elements and store one."""
    tensors = [torch.empty(1).expand(size // 4) for size in sizes]
    buckets, _ = dist._compute_bucket_assignment_by_size(tensors, caps)
    assert sum(buckets, []) == list(range(len(sizes))), "PyTorch changed the order"
    return [len(bucket) for bucket in buckets]


def check(name, what, got, wanted):
    if got != wanted:
        sys.exit(f"{name}: {what}: got {got}, expected {wanted}")


def single_counts(sizes, best, small_last=False):
    """The buckets of one number; with the small bucket last, PyTorch counts from the input's side."""
    caps = [best["first_bucket_bytes"], int(best["bucket_cap_mb"] * MIB)]
    return torch_counts(sizes[::-1], caps)[::-1] if small_last else torch_counts(sizes, caps)


def check_single(driver, name, sizes, best, first, small_last=False):
    """What the number claims is what PyTorch's own buckets take."""
    cap = int(best["bucket_cap_mb"] * MIB)
    counts = single_counts(sizes, best, small_last)
    check(name, "first_bucket_bytes", best["first_bucket_bytes"], first or cap)
    check(name, f"buckets of bucket_cap_mb={best['bucket_cap_mb']}", len(counts), best["groups"])
    check(name, "their iteration_us", driver.emit(sizes, counts)["iteration_us"], best["iteration_us"])


def check_emission(driver, name, sizes, counts):
    emission = driver.emit(sizes, counts)
    caps = [int(mb * MIB) for mb in emission["bucket_cap_mb_list"]]
    check(name, "bucket_bytes_cap_list", emission["bucket_bytes_cap_list"], caps)
    check(name, "buckets of bucket_cap_mb_list", torch_counts(sizes, caps), counts)
    check(name, "groups_reproduced", emission["groups_reproduced"], True)
    check_single(driver, name, sizes, emission["best_single_cap"], None)
    check_single(driver, name, sizes, emission["best_single_cap_after_1_mib"], MIB)
    check_single(driver, name, sizes, emission["best_single_cap_before_1_mib"], MIB, small_last=True)
    return emission


def check_none_is_better(driver, name, sizes, emission, rng):
    for _ in range(5):
        cap = rng.choice([rng.randint(1, sum(sizes)), rng.choice(sizes)])
        us = driver.emit(sizes, torch_counts(sizes, [cap]))["iteration_us"]
        if us < emission["best_single_cap"]["iteration_us"]:
            sys.exit(f"{name}: a cap of {cap} bytes is better than the best: {us}")


def random_counts(rng, tensors):
    counts = []
    while tensors:
        counts.append(rng.randint(1, min(tensors, rng.choice([1, 3, 20]))))
        tensors -= counts[-1]
    return counts


def random_sizes(rng):
    kinds = [lambda: rng.randint(1, 9), lambda: rng.randint(1, 5_000_000), lambda: 2 ** rng.randint(0, 23)]
    return [4 * rng.choice(kinds)() for _ in range(rng.randint(1, 40))]


def check_random(driver, seeds):
    for seed in range(seeds):
        rng = random.Random(seed)
        sizes = random_sizes(rng)
        emission = check_emission(driver, f"seed {seed}", sizes, random_counts(rng, len(sizes)))
        if seed % 5 == 0:
            check_none_is_better(driver, f"seed {seed}", sizes, emission, rng)
    print(f"{seeds} random lists: PyTorch {torch.__version__} makes every group as planned")


def sizes_of(profile):
    """In bytes as float32, in backward order."""
    tensors = [tensor for layer in profile["layers"] for tensor in layer["tensors"]]
    return [4 * tensor["elements"] for tensor in reversed(tensors)]


def profiles(fusewise):
    for path in sorted(ROOT.glob("traces/*.profile.json")):
        yield path.name, json.loads(path.read_text())
    for path in sorted(ROOT.glob("models/*.json")) if fusewise else []:
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "profile.json")
            subprocess.run([fusewise, "estimate", path, "--device", "v100", "-o", out], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            yield path.name, json.loads(pathlib.Path(out).read_text())


def check_models(driver, fusewise):
    for name, profile in profiles(fusewise):
        sizes = sizes_of(profile)
        for seed in range(3):
            counts = random_counts(random.Random(seed), len(sizes))
            emission = check_emission(driver, f"{name}, seed {seed}", sizes, counts)
        print(f"{name}: {len(sizes)} tensors, {emission['best_single_cap']['tried']} groupings of one cap")


def rebuilt_buckets(model, first, small_last=False, **arguments):
    """Bytes of the buckets that a communication hook is given, in order, once DistributedDataParallel has rebuilt
    them."""
    dist._DEFAULT_FIRST_BUCKET_BYTES = first
    os.environ["DDP_SET_LAST_BUCKET_CAP"] = "1" if small_last else "0"
    ddp = torch.nn.parallel.DistributedDataParallel(model, **arguments)
    sent = []

    def hook(_, bucket):
        sent.append(bucket.buffer().numel() * bucket.buffer().element_size())
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    ddp.register_comm_hook(None, hook)
    for _ in range(3):
        sent.clear()
        ddp(torch.ones(1, model[0].in_features)).sum().backward()
    return sent


def bucket_bytes(sizes, counts):
    out, begin = [], 0
    for count in counts:
        out.append(sum(sizes[begin:begin + count]))
        begin += count
    return out


def sent_by_hook(model, text, has_list):
    """Bytes and types of the all-reduces of an iteration of what the user pastes; an old release gets one cap."""
    sent, real = [], dist.all_reduce

    def all_reduce(tensor, *arguments, **options):
        sent.append((tensor.numel() * tensor.element_size(), str(tensor.dtype)))
        return real(tensor, *arguments, **options)

    space = {"model": model, "torch": torch}
    exec(text if has_list else text.replace("bucket_cap_mb_list=[", "bucket_cap_mb=min([").replace("],", "]),"), space)
    dist.all_reduce = all_reduce
    try:
        for _ in range(3):
            sent.clear()
            space["model"](torch.ones(1, model[0].in_features)).sum().backward()
    finally:
        dist.all_reduce = real
    return sent


def check_hook(driver, model, sizes, counts, has_list):
    """The hook of bfloat16 is refused without NCCL."""
    compression = {"name": "fp16", "ratio": 0.5, "collective": "all_reduce"}
    emission = driver.emit(sizes, counts, "comm-hook", {"pipeline": "wfbp", "compression": compression})
    check("comm-hook", "hook", emission["hook"], "fp16_compress_hook")
    sent = sent_by_hook(model, emission["text"], has_list)
    check("comm-hook", "types that are sent", {dtype for _, dtype in sent}, {"torch.float16"})
    check("comm-hook", "bytes that are sent", sum(size for size, _ in sent), sum(sizes) // 2)
    if has_list:
        check("comm-hook", "buckets that are sent", [size for size, _ in sent], [b // 2 for b in bucket_bytes(sizes, counts)])


def check_power_sgd(driver, model, sizes, rank, rate):
    """One bucket, as the hook can hang over Gloo with several. It sends what is left as it is, P and Q."""
    shapes = [list(parameter.shape) for parameter in reversed(list(model.parameters()))]
    compression = {"name": "power-sgd", "rank": rank, "min_compression_rate": rate, "encode": {}, "in_transit": {}, "decode": {}}
    emission = driver.emit(sizes, [len(sizes)], "comm-hook", {"pipeline": "wfbp", "compression": compression}, shapes)
    check("comm-hook", "hook", emission["hook"], "powerSGD_hook")
    check("comm-hook", "options", emission["hook_options"], {"matrix_approximation_rank": rank, "min_compression_rate": rate})
    sent = sent_by_hook(model, emission["text"].replace("PowerSGDState(None", "PowerSGDState(None, start_powerSGD_iter=2"), True)
    factors = [(m, n) for m, n in shapes if (m + n) * rank * rate < m * n]
    rest = sum(sizes) - sum(4 * m * n for m, n in factors)
    check("comm-hook", "what PowerSGD sends", [size for size, _ in sent],
          [rest, 4 * rank * sum(m for m, _ in factors), 4 * rank * sum(n for _, n in factors)])


def check_training(driver, seeds):
    """A chain of layers with a tensor each, so that the order of backward is known."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    has_list = "bucket_cap_mb_list" in inspect.signature(torch.nn.parallel.DistributedDataParallel).parameters
    check("training", "bucket_cap_mb_list, said to be there from 2.11 on,", has_list,
          tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 11))
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        for seed in range(seeds):
            rng = random.Random(seed)
            widths = [rng.randint(8, 700) for _ in range(12)]
            model = torch.nn.Sequential(*[torch.nn.Linear(a, b, bias=False) for a, b in zip(widths, widths[1:])])
            sizes = [4 * parameter.numel() for parameter in reversed(list(model.parameters()))]
            counts = random_counts(rng, len(sizes))
            emission = driver.emit(sizes, counts)
            what = f"training, seed {seed}"
            for key in ("best_single_cap", "best_single_cap_after_1_mib", "best_single_cap_before_1_mib"):
                best, small_last = emission[key], key.endswith("before_1_mib")
                if has_list and key != "best_single_cap":
                    continue  # a given cap holds for the first bucket, too
                check(what, f"buckets of {key}",
                      rebuilt_buckets(model, best["first_bucket_bytes"], small_last, bucket_cap_mb=best["bucket_cap_mb"]),
                      bucket_bytes(sizes, single_counts(sizes, best, small_last)))
            if has_list:
                got = rebuilt_buckets(model, MIB, bucket_cap_mb_list=emission["bucket_cap_mb_list"])
                check(what, "buckets of bucket_cap_mb_list", got, bucket_bytes(sizes, counts))
            check_hook(driver, model, sizes, counts, has_list)
            if has_list:
                check_power_sgd(driver, model, sizes, rng.randint(1, 8), rng.choice([1, 2, 4.5]))
        dist.destroy_process_group()
    print(f"{seeds} trained models: a hook was given the buckets of {'the list and ' if has_list else ''}one cap")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver")
    parser.add_argument("--fusewise")
    parser.add_argument("--seeds", type=int, default=500)
    arguments = parser.parse_args()
    driver = Driver(arguments.driver)
    check_random(driver, arguments.seeds)
    check_models(driver, arguments.fusewise)
    check_training(driver, 10)


if __name__ == "__main__":
    main()
