#!/usr/bin/env python3
"""Compares the orders of passes in pipeline stages with those that PyTorch's own schedules have.

usage: stage_orders.py PROGRAM      (PyTorch 2.13)

PROGRAM is build/fusewise. The schedules of torch.distributed.pipelining are made without processes, and the rows of
passes that they would write as CSV are listed in a scenario. It has to be accepted, and to take as long as the schedule of
the same name, where the program has one. Then stages of FSDP2 modules run on four ranks over Gloo, two stages on two ranks
each: the gradients of a part have to be reduce-scattered after its last backward pass, as `overlap` says by default. Exits
with 1 at the first that does not hold.
"""
import argparse
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, schedules
from torch.distributed.pipelining.stage import _PipelineStageBase

import two_ranks
from fsdp_groups import Recorder
from two_ranks import check

RANKS, LAYERS, MICRO_BATCHES = 4, 3, 4


class Stage(_PipelineStageBase):
    """What a schedule asks of a stage until it has its order."""

    def __init__(self, index, stages, ranks):
        self.stage_index, self.num_stages = index, stages
        self.group_size, self.group_rank, self.group = ranks, 0, None
        self.submod = torch.nn.Identity()
        self.has_backward = True
        self.stage_index_to_group_rank = {}

    def _create_grad_recv_info(self, *_):
        return ()

    def _prepare_forward_infra(self, *_):
        return ()

    def _prepare_backward_infra(self, *_):
        return ()


def rows_of(schedule):
    """As CSV, without what is no pass: gradients are summed after the last pass of a part in any case."""
    rows = schedule.pipeline_order
    return [",".join("" if action is None else str(action) for action in rows[rank]
                     if action is None or action.is_compute_op) for rank in sorted(rows)]


def simulated(program, folder, parts, stages):
    layers = [{"name": f"l{i}", "kind": "linear", "forward_us": 50 + 7 * i, "backward_us": 100 + 10 * i,
               "tensors": [{"name": f"l{i}.weight", "elements": 1000 * (i + 1)}]} for i in range(parts)]
    origin = {"kind": "estimated", "source": "made up"}
    scenario = {"format": "fusewise.scenario", "version": 1, "schedules": ["fsdp2", "ddp"],
                "profile": {"format": "fusewise.profile", "version": 1, "model": "m", "batch_size": 1, "dtype": "float32",
                            "device": "d", "origin": origin, "layers": layers},
                "network": {"format": "fusewise.network", "version": 1, "name": "n", "origin": origin,
                            "link": {"alpha_us": 5, "beta_us_per_byte": 0.001}},
                "workers": 2 * len(stages.pop("ranks")), "parallel": stages.pop("parallel") | {"stages": stages}}
    file = pathlib.Path(folder) / "s.json"
    file.write_text(json.dumps(scenario))
    ran = subprocess.run([program, "simulate", file, "--json"], capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{stages}\n{ran.stderr}")
    return [result["iteration_us"] for result in json.loads(ran.stdout)["results"]]


def check_orders(program):
    # Not Schedule1F1B: its pipeline_order, which it does not run by, numbers the last rank's forward passes from 1.
    named = {schedules.ScheduleGPipe: "gpipe", schedules.ScheduleInterleaved1F1B: "interleaved"}
    others = [schedules.ScheduleLoopedBFS, schedules.ScheduleInterleavedZeroBubble, schedules.ScheduleZBVZeroBubble,
              schedules.ScheduleDualPipeV]
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, ranks, rounds in itertools.product([*named, *others], [2, 3, 4], [1, 2, 3]):
            is_single = issubclass(kind, schedules.PipelineScheduleSingle)
            local_options = [1] if is_single else [1, 2] if kind is schedules.ScheduleInterleavedZeroBubble else [2]
            if kind is schedules.ScheduleInterleaved1F1B:
                local_options = [2, 3]
            for local in local_options:
                micro_batches = ranks * rounds + (ranks if kind is schedules.ScheduleDualPipeV else 0)
                parts = [Stage(i * ranks, ranks * local, ranks) for i in range(local)]
                schedule = kind(parts[0] if is_single else parts, micro_batches)
                base = {"ranks": range(ranks), "parallel": {"pipeline": ranks}, "p2p_us": 3, "overlap": "all_stages"}
                listed = simulated(program, folder, ranks * local, base | {"passes": rows_of(schedule)})
                name = named.get(kind)
                if kind is schedules.ScheduleInterleavedZeroBubble and local == 1:
                    name = "zb-h1"
                if name:
                    own = {"schedule": name, "micro_batches": micro_batches}
                    own |= {"virtual_stages": local} if local > 1 else {}
                    if listed != simulated(program, folder, ranks * local, base | own):
                        sys.exit(f"{kind.__name__}, {ranks} ranks, {micro_batches} micro-batches: not as {name}")
                count += 1
    return count


# ---- four ranks


class PassRecorder(Recorder):
    """Notes, for each collective, how many layers had run backward by then, by part."""

    def __init__(self, parts):
        super().__init__()
        self.done = [0] * len(parts)
        for i, part in enumerate(parts):
            for module in part:
                module.register_full_backward_hook(lambda *_, i=i: self.count(i))

    def count(self, part):
        self.done[part] += 1

    def add(self, kind, whole, groups):
        self.events.append([kind, whole.numel(), list(self.done)])


def collectives_of(kind, mesh, rank):
    """Those of the second iteration of a schedule: kind, elements, and layers that had run backward, by part of the rank."""
    local = 1 if issubclass(kind, schedules.PipelineScheduleSingle) else 2
    torch.manual_seed(rank)
    parts = [nn.Sequential(*[nn.Linear(4, 4) for _ in range(LAYERS)]) for _ in range(local)]
    recorder = PassRecorder(parts)
    for part in parts:
        for layer in part:
            fully_shard(layer, mesh=mesh["data"], reshard_after_forward=False)
        fully_shard(part, mesh=mesh["data"], reshard_after_forward=False)
    stage = mesh.get_coordinate()[0]
    numbers = [stage + 2 * i for i in range(local)]
    group = mesh["stage"].get_group()
    stages = [PipelineStage(part, number, 2 * local, torch.device("cpu"), group=group) for part, number in zip(parts, numbers)]
    loss = nn.MSELoss()
    schedule = kind(stages[0], MICRO_BATCHES, loss) if local == 1 else kind(stages, MICRO_BATCHES, loss)
    x, target = torch.ones(2 * MICRO_BATCHES, 4), torch.zeros(2 * MICRO_BATCHES, 4)
    for _ in range(2):
        recorder.take()
        recorder.done = [0] * local
        schedule.step(*([x] if 0 in numbers else []), **({"target": target} if 2 * local - 1 in numbers else {}))
    return recorder.take()


def results_on_rank(rank, store, _):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("stage", "data"))
    own = {kind.__name__: collectives_of(kind, mesh, rank)
           for kind in (schedules.ScheduleGPipe, schedules.Schedule1F1B, schedules.ScheduleInterleaved1F1B, schedules.ScheduleLoopedBFS)}
    everyone = [None] * RANKS
    dist.all_gather_object(everyone, own)
    dist.destroy_process_group()
    return torch.__version__, everyone


def check_ranks():
    results = two_ranks.answer_of_ranks([None], [None], 100, RANKS)["results"]
    for rank, of_schedules in enumerate(results):
        for name, events in of_schedules.items():
            scatters = [done for kind, _, done in events if kind == "reduce_scatter"]
            parts = len(scatters[0])
            check(f"{name}, rank {rank}", "reduce-scatters", len(scatters), parts * LAYERS)
            for i, done in enumerate(scatters):
                # a part whose backward passes are over sends all of its layers, one after another
                over = sum(count == MICRO_BATCHES * LAYERS for count in done)
                check(f"{name}, rank {rank}, reduce-scatter {i}", "parts that have run backward", over >= 1 + i // LAYERS, True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--folder")
    arguments = parser.parse_args()
    if arguments.rank is not None:
        return two_ranks.run_rank(arguments.rank, arguments.folder, results_on_rank)
    count = check_orders(pathlib.Path(arguments.program).resolve())
    check_ranks()
    print(f"{count} orders of PyTorch {torch.__version__} were read, and those with names are the same; "
          "FSDP2 reduces the gradients of a part after its last backward pass")


if __name__ == "__main__":
    main()
