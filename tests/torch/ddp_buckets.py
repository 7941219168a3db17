#!/usr/bin/env python3
"""Asks PyTorch itself whether it makes of an emission what the emission says.

usage: ddp_buckets.py DRIVER [--fusewise PROGRAM] [--seeds N]

DRIVER is emit_driver.cpp, compiled. Checks the caps for DDP on N random lists of tensors (500), on the bundled
profiles and, with PROGRAM, on the bundled models; then trains small models under the lines that are emitted, executed
as they are, and reads through a communication hook which gradients each bucket holds, in which micro-batch. For PyTorch 1.13 and later. Exits with 1 at the first emission that does not hold, and names its seed.
"""

import argparse
import contextlib
import inspect
import json
import os
import pathlib
import random
import re
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


def executed(text, model):
    """The names that the user has after the lines."""
    space = {"model": model, "torch": torch}
    exec(text, space)
    return space


def trained(space, width, micro_batches=1):
    """What each micro-batch of a third iteration adds to `sent`: by then DistributedDataParallel has rebuilt its buckets."""
    sent, out = space["sent"], []
    for _ in range(3):
        out = []
        for number in range(micro_batches):
            sent.clear()
            with space["micro_batch"](space["model"], number) if micro_batches > 1 else contextlib.nullcontext():
                space["model"](torch.ones(1, width)).sum().backward()
            out.append(list(sent))
    return out


def read_by_hook(space):
    """Has a hook note the gradients and the type of each bucket, in the order in which they are sent."""
    names = {parameter: name for name, parameter in space["model"].module.named_parameters()}
    sent = space["sent"] = []

    def hook(_, bucket):
        sent.append(([names[parameter] for parameter in bucket.parameters()], str(bucket.buffer().dtype)))
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    space["model"].register_comm_hook(None, hook)
    return space


def rebuilt_buckets(model, width, first, small_last=False, **arguments):
    """The gradients of the buckets, by name."""
    dist._DEFAULT_FIRST_BUCKET_BYTES = first
    os.environ["DDP_SET_LAST_BUCKET_CAP"] = "1" if small_last else "0"
    ddp = torch.nn.parallel.DistributedDataParallel(model, **arguments)
    sent = trained(read_by_hook({"model": ddp}), width)[-1]
    os.environ["DDP_SET_LAST_BUCKET_CAP"] = "0"
    return [sorted(names) for names, _ in sent]


def groups_of(names, counts):
    out, begin = [], 0
    for count in counts:
        out.append(names[begin:begin + count])
        begin += count
    return out


def bucket_bytes(sizes, counts):
    out, begin = [], 0
    for count in counts:
        out.append(sum(sizes[begin:begin + count]))
        begin += count
    return out


def sent_by_hook(space, width, micro_batches=1):
    """Bytes and types of the all-reduces of each micro-batch of an iteration."""
    sent, real = [], dist.all_reduce

    def all_reduce(tensor, *arguments, **options):
        sent.append((tensor.numel() * tensor.element_size(), str(tensor.dtype)))
        return real(tensor, *arguments, **options)

    dist.all_reduce = all_reduce
    try:
        return trained({**space, "sent": sent}, width, micro_batches)
    finally:
        dist.all_reduce = real


def check_micro_batches(what, sent):
    """Nothing is sent in any but the last, which is returned."""
    check(what, "what all micro-batches but the last send", [each for each in sent[:-1] if each], [])
    return sent[-1]


def check_lines(driver, what, model, names, sizes, counts, micro_batches):
    """The lines for DistributedDataParallel, and those for releases without lists that stand in their comments."""
    emission = driver.emit(sizes, counts, accumulation_steps=micro_batches)
    if has_lists():
        sent = check_micro_batches(what, trained(read_by_hook(executed(emission["text"], model)), WIDTH, micro_batches))
        check(what, "buckets of the lines", sent, [(group, "torch.float32") for group in groups_of(names, counts)])
    first, call = re.findall(r"^#   (torch\.distributed\.\w+ = .*|DistributedDataParallel\(.*)$", emission["text"], re.MULTILINE)
    space = executed(f"from torch.nn.parallel import DistributedDataParallel\nimport torch.distributed\n{first}\nmodel = {call}", model)
    sent = trained(read_by_hook(space), WIDTH)[-1]
    check(what, "buckets of the lines for old releases", [group for group, _ in sent],
          groups_of(names, single_counts(sizes, emission["best_single_cap"])))
    dist._DEFAULT_FIRST_BUCKET_BYTES = MIB
    return emission


def check_hook(driver, model, sizes, counts, micro_batches):
    """The hook of bfloat16 is refused without NCCL. A release without lists gets one cap."""
    compression = {"name": "fp16", "ratio": 0.5, "collective": "all_reduce"}
    emission = driver.emit(sizes, counts, "comm-hook", {"pipeline": "wfbp", "compression": compression},
                           accumulation_steps=micro_batches)
    check("comm-hook", "hook", emission["hook"], "fp16_compress_hook")
    has_list, text = has_lists(), emission["text"]
    if not has_list:
        text = text.replace("bucket_cap_mb_list=[", "bucket_cap_mb=min([").replace("],", "]),")
    sent = check_micro_batches("comm-hook", sent_by_hook(executed(text, model), WIDTH, micro_batches))
    check("comm-hook", "types that are sent", {dtype for _, dtype in sent}, {"torch.float16"})
    check("comm-hook", "bytes that are sent", sum(size for size, _ in sent), sum(sizes) // 2)
    if has_list:
        check("comm-hook", "buckets that are sent", [size for size, _ in sent], [b // 2 for b in bucket_bytes(sizes, counts)])


def check_power_sgd(driver, model, sizes, rank, rate):
    """One bucket, as the hook can hang over Gloo with several. It sends what is left as it is, P and Q. Returns whether there is a hook:
    there is none where it makes the iteration longer."""
    shapes = [list(parameter.shape) for parameter in reversed(list(model.parameters()))]
    compression = {"name": "power-sgd", "rank": rank, "min_compression_rate": rate, "encode": {}, "in_transit": {}, "decode": {}}
    emission = driver.emit(sizes, [len(sizes)], "comm-hook", {"pipeline": "wfbp", "compression": compression}, shapes)
    if emission["hook"] is None:
        return False
    check("comm-hook", "hook", emission["hook"], "powerSGD_hook")
    check("comm-hook", "options", emission["hook_options"], {"matrix_approximation_rank": rank, "min_compression_rate": rate})
    space = executed(emission["text"], model)
    space["state"].start_powerSGD_iter = 2  # it is 1000
    sent, = sent_by_hook(space, WIDTH)
    factors = [(m, n) for m, n in (shape for shape in shapes if len(shape) == 2) if (m + n) * rank * rate < m * n]
    rest = sum(sizes) - sum(4 * m * n for m, n in factors)
    check("comm-hook", "what PowerSGD sends", [size for size, _ in sent],
          [rest, 4 * rank * sum(m for m, _ in factors), 4 * rank * sum(n for _, n in factors)])
    return True


def has_lists():
    return "bucket_cap_mb_list" in inspect.signature(torch.nn.parallel.DistributedDataParallel).parameters


WIDTH = 64  # of the input of models


def chain(rng):
    """Layers one after another, so that the order of backward is known; some are in modules of their own."""
    widths = [WIDTH] + [rng.randint(8, 700) for _ in range(rng.randint(5, 12))]
    layers = [torch.nn.Linear(a, b, bias=rng.random() < 0.3) for a, b in zip(widths, widths[1:])]
    cut = rng.randint(1, len(layers) - 1)
    return torch.nn.Sequential(torch.nn.Sequential(*layers[:cut]), *layers[cut:])


def check_training(driver, seeds):
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    has_list = has_lists()
    check("training", "bucket_cap_mb_list, said to be there from 2.11 on,", has_list,
          tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 11))
    low_rank = 0
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        for seed in range(seeds):
            rng = random.Random(seed)
            model, micro_batches = chain(rng), rng.randint(1, 3)
            names = [name for name, _ in model.named_parameters()][::-1]
            sizes = [4 * parameter.numel() for parameter in reversed(list(model.parameters()))]
            counts = random_counts(rng, len(sizes))
            what = f"training, seed {seed}"
            emission = check_lines(driver, what, model, names, sizes, counts, micro_batches)
            for key in ("best_single_cap", "best_single_cap_after_1_mib", "best_single_cap_before_1_mib"):
                best, small_last = emission[key], key.endswith("before_1_mib")
                if has_list and key != "best_single_cap":
                    continue  # a given cap holds for the first bucket, too
                check(what, f"buckets of {key}",
                      rebuilt_buckets(model, WIDTH, best["first_bucket_bytes"], small_last, bucket_cap_mb=best["bucket_cap_mb"]),
                      [sorted(group) for group in groups_of(names, single_counts(sizes, best, small_last))])
            check_hook(driver, model, sizes, counts, micro_batches)
            if has_list:
                low_rank += check_power_sgd(driver, model, sizes, rng.randint(1, 8), rng.choice([1, 2, 4.5]))
        dist.destroy_process_group()
    if has_list and low_rank < seeds / 4:
        sys.exit(f"PowerSGD's hook was emitted for {low_rank} of {seeds} models alone")
    print(f"{seeds} trained models: under the lines {'as emitted' if has_list else 'for old releases'} a hook was given their buckets, in "
          "the last micro-batch alone")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver")
    parser.add_argument("--fusewise")
    parser.add_argument("--seeds", type=int, default=500)
    arguments = parser.parse_args()
    driver = Driver(arguments.driver)
    check_random(driver, arguments.seeds)
    check_models(driver, arguments.fusewise)
    check_training(driver, 20)


if __name__ == "__main__":
    main()
