#!/usr/bin/env python3
"""Times fusewise and SimGrid on the same work: one ring all-reduce, message by message, with a link from each rank to the next.

    bench/peers/compare.py build [--simgrid PREFIX] [--ranks 64 128 256] [--json FILE]

SimGrid comes from Debian (libsimgrid-dev) or from a folder into which its packages were unpacked (PREFIX/usr/include, ...). Both report the
same time, which is checked. Wall time and memory are those of whole processes, the best of three."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ALPHA_US, US_PER_BYTE, MESSAGE_BYTES = 5, 8e-5, 12_500


def build_peer(prefix, folder):
    program = folder / "simgrid_ring"
    libraries = [prefix / "usr/lib/x86_64-linux-gnu", prefix / "usr/lib"]
    command = ["g++", "-O2", "-std=c++17", HERE / "simgrid_ring.cpp", "-o", program, f"-I{prefix}/usr/include"]
    command += [f"-L{each}" for each in libraries] + ["-lsimgrid"]
    command += [f"-Wl,-rpath-link,{each}" for each in libraries]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"SimGrid cannot be built with (apt install libsimgrid-dev, or --simgrid PREFIX):\n{done.stderr}")
    return program, dict(os.environ, LD_LIBRARY_PATH=":".join(map(str, libraries)))


def scenario(ranks, fidelity, topology):
    profile = {"format": "fusewise.profile", "version": 1, "model": "one", "batch_size": 1, "dtype": "float32", "device": "none",
               "origin": {"kind": "estimated", "source": "bench/peers"},
               "layers": [{"name": "layer", "kind": "linear", "forward_us": 1, "backward_us": 1,
                           "tensors": [{"name": "weight", "elements": ranks * MESSAGE_BYTES // 4}]}]}
    network = {"format": "fusewise.network", "version": 1, "name": "ring",
               "origin": {"kind": "estimated", "source": "bench/peers"},
               "link": {"alpha_us": ALPHA_US, "beta_us_per_byte": US_PER_BYTE}}
    out = {"format": "fusewise.scenario", "version": 1, "profile": profile, "network": network, "workers": [ranks], "iterations": 1,
           "schedules": ["sync-easgd"], "fidelity": fidelity}
    if topology:
        out["topology"] = {"kind": "flat", "startup_us": ALPHA_US, "nic": {"bandwidth_gbps": 8e-3 / US_PER_BYTE}}
    return out


def timed(command, env=None):
    """Wall seconds, peak MB and output of the fastest of three runs."""
    best = None
    for _ in range(3):
        with tempfile.TemporaryFile() as output:
            began = time.perf_counter()
            child = subprocess.Popen(command, stdout=output, env=env)
            _, status, usage = os.wait4(child.pid, 0)
            seconds = time.perf_counter() - began
            if status != 0:
                sys.exit(f"{command[0]} failed")
            output.seek(0)
            text = output.read().decode()
        if best is None or seconds < best[0]:
            best = (seconds, usage.ru_maxrss / 1e3, text)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("--simgrid", type=Path, default=Path("/"), metavar="PREFIX")
    parser.add_argument("--ranks", type=int, nargs="+", default=[64, 128, 256])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        peer, env = build_peer(options.simgrid, folder)
        for ranks in options.ranks:
            messages = 2 * (ranks - 1) * ranks
            expected_us = 2 * (ranks - 1) * (ALPHA_US + MESSAGE_BYTES * US_PER_BYTE)
            seconds, mb, text = timed([peer, "--log=xbt_cfg.thresh:warning", str(ranks), str(MESSAGE_BYTES), str(ALPHA_US * 1e-6), str(1e6 / US_PER_BYTE)], env)
            rows.append(("SimGrid, an actor for each rank", ranks, messages, seconds, mb, float(text) * 1e6))
            for name, fidelity, topology in (("fusewise, messages on a topology", "messages", True),
                                             ("fusewise, messages", "messages", False), ("fusewise, steps", "steps", False)):
                file = folder / "scenario.json"
                file.write_text(json.dumps(scenario(ranks, fidelity, topology)))
                seconds, mb, text = timed([options.build / "fusewise", "simulate", file, "--json"])
                simulated_us = json.loads(text)["results"][0]["communication_us"]
                rows.append((name, ranks, messages, seconds, mb, simulated_us))
            for name, _, _, _, _, simulated_us in rows[-4:]:
                if abs(simulated_us / expected_us - 1) > 1e-6:
                    sys.exit(f"{name}, {ranks} ranks: expected {expected_us} us, got {simulated_us}")
    print(f"{'':<34} {'ranks':>6} {'messages':>9} {'wall ms':>10} {'MB':>7} {'simulated us':>13}")
    for name, ranks, messages, seconds, mb, simulated_us in rows:
        print(f"{name:<34} {ranks:>6} {messages:>9} {seconds * 1e3:>10.1f} {mb:>7.1f} {simulated_us:>13.1f}")
    if options.json:
        keys = ("program", "ranks", "messages", "wall_s", "peak_mb", "simulated_us")
        options.json.write_text(json.dumps([dict(zip(keys, row)) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
