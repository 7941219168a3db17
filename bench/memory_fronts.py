#!/usr/bin/env python3
"""Prints the table of docs/sharded.md: how far fronts of time against memory are above their lower bounds.

usage: memory_fronts.py FUSEWISE [--workers 8 64 512 2048] [--as-in PAGE]

Runs `fusewise plan --memory-front` for Llama 2 7B, GPT-2 XL and ResNet-50. With --as-in it exits with 1 where the page has
another row.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODELS = {"Llama 2 7B": ("llama2-7b", 1), "GPT-2 XL": ("gpt2-xl", 4), "ResNet-50": ("resnet50", 64)}


def scenario(model, batch_size, workers):
    return {"format": "fusewise.scenario", "version": 1, "workers": workers,
            "profile": {"estimate": os.path.join(ROOT, "models", f"{model}.json"), "device": "h100", "dtype": "bfloat16",
                        "batch_size": batch_size},
            "network": "h100-nvlink-8", "between": {"bandwidth_gbps": 400, "startup_us": 5},
            "data_types": {"parameters": "float32", "reduce": "float32"}, "memory": {"optimizer": "adam"},
            "schedules": ["fsdp2"]}


def front(fusewise, folder, model, batch_size, workers):
    path = os.path.join(folder, "s.json")
    with open(path, "w") as file:
        json.dump(scenario(model, batch_size, workers), file)
    began = time.monotonic()
    answer = subprocess.run([fusewise, "plan", path, "--schedule", "fsdp2", "--memory-front", "--json"], check=True,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return json.loads(answer), time.monotonic() - began


def above(plan):
    return 100 * (plan["iteration_us"] / plan["lower_bound_us"] - 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fusewise")
    parser.add_argument("--workers", type=int, nargs="+", default=[8, 64, 512, 2048])
    parser.add_argument("--as-in", metavar="PAGE")
    arguments = parser.parse_args()
    print("| model | workers | plans | memory GB | iteration ms | fastest above bound | farthest above bound | seconds |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- |")
    with open(arguments.as_in or os.devnull) as page:
        known = page.read().splitlines()
    others = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, batch_size) in MODELS.items():
            for workers in arguments.workers:
                found, seconds = front(arguments.fusewise, folder, model, batch_size, workers)
                plans = found["plans"]
                row = (f"| {name} | {workers} | {len(plans)} | {plans[0]['peak_bytes'] / 1e9:.2f} to "
                      f"{plans[-1]['peak_bytes'] / 1e9:.2f} | {plans[-1]['iteration_us'] / 1e3:.1f} to "
                      f"{plans[0]['iteration_us'] / 1e3:.1f} | {above(plans[-1]):.2f} % | {max(map(above, plans)):.2f} % |")
                others += row not in known
                print(f"{row} {seconds:.2f} |", flush=True)
    if arguments.as_in and others > 0:
        sys.exit(f"{arguments.as_in} has {others} other rows")


if __name__ == "__main__":
    main()
