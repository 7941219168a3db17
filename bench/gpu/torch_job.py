#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A training job under DistributedDataParallel whose ranks share the GPU, for `fusewise torch` to run: torch_job.py JOB, with
a job as torch_traces.py has them.
"""
import os
import sys

import torch
import torch.distributed as dist
import torch_traces

if not torch.cuda.is_available():
    sys.exit("no CUDA device: PyTorch sees none")
os.environ.update(torch_traces.NCCL, NCCL_HOSTID=f"rank-{os.environ['RANK']}")
torch.cuda.set_device(0)
dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
job = torch_traces.Job(torch, sys.argv[1])
job.model = torch.nn.parallel.DistributedDataParallel(job.model, device_ids=[0])
job.optimize()
for _ in range(10_000):
    job.step()
