#!/usr/bin/env python3
"""A small training job, as anyone would write it: `train.py --model gpt`, under torchrun or the like.

Models: a residual network, a BERT-like and a GPT-like transformer, an LSTM. They run under DistributedDataParallel with its
defaults, or under the Python lines that `fusewise plan --emit` writes for DDP, a communication hook or FSDP2, read from a file and executed as
they are. Writes when its iterations ended, in seconds of the monotonic clock, to --times.
"""
import argparse
import contextlib
import json
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel


class Residual(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.skip = nn.Conv2d(before, width, 1, stride, bias=False) if stride > 1 or before != width else nn.Identity()

    def forward(self, x):
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.skip(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, 1, 1)
        widths = [(32, 32, 1), (32, 64, 2), (64, 128, 2), (128, 256, 2), (256, 256, 1)]
        self.blocks = nn.ModuleList(Residual(*each) for each in widths)
        self.head = nn.Linear(256, 100)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class Block(nn.Module):
    def __init__(self, width, heads, is_causal):
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        if self.is_causal:
            scores = scores.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), float("-inf"))
        x = x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(functional.gelu(self.wide(self.norm2(x))))


class Transformer(nn.Module):
    """Positions (and BERT's token of the class) are parameters of the root module: used first, ready last."""

    def __init__(self, is_causal, width=256, layers=4, words=2000, length=64):
        super().__init__()
        self.positions = nn.Parameter(torch.zeros(length, width))
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, 4, is_causal) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words)

    def forward(self, x):
        x = self.embed(x) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Lstm(nn.Module):
    def __init__(self, words=2000, width=384):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstms = nn.ModuleList(nn.LSTM(width, width, batch_first=True) for _ in range(2))
        self.head = nn.Linear(width, words)

    def forward(self, x):
        x = self.embed(x)
        for lstm in self.lstms:
            x, _ = lstm(x)
        return self.head(x)


MODELS = {"resnet": ResNet, "bert": lambda: Transformer(False), "gpt": lambda: Transformer(True, layers=5, words=1000), "lstm": Lstm}


def batch_of(name):
    if name == "resnet":
        return torch.randn(8, 3, 32, 32), torch.randint(100, (8,))
    words, length, size = {"bert": (2000, 64, 4), "gpt": (1000, 64, 4), "lstm": (2000, 24, 4)}[name]
    x = torch.randint(words, (size, length))
    return x, x


def wrapped(model, lines):
    """The names that the user has after the lines in this file: `model` among them, and what they define for micro-batches."""
    if lines is None:
        return {"model": DistributedDataParallel(model)}
    space = {"model": model, "torch": torch}
    with open(lines, encoding="utf-8") as file:
        exec(file.read(), space)
    return space


def context(space, number):
    """What the lines have for a micro-batch, if anything."""
    if "begin_micro_batch" in space:
        space["begin_micro_batch"](space["model"], number)
    return space["micro_batch"](space["model"], number) if "micro_batch" in space else contextlib.nullcontext()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="gpt")
    parser.add_argument("--lines", help="file with the lines to execute (default: DistributedDataParallel with its defaults)")
    parser.add_argument("--micro-batches", type=int, default=1)
    parser.add_argument("--async-gathers", action="store_true", help="let FSDP2's all-gathers run under computing over Gloo, where they block")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--times", help="file for the ends of iterations")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    space = wrapped(MODELS[arguments.model](), arguments.lines)
    model = space["model"]
    if arguments.async_gathers:
        model._set_unshard_async_op(True)
    if "state" in space:
        space["state"].start_powerSGD_iter = 2  # it is 1000
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    torch.manual_seed(dist.get_rank())
    ends = []
    for _ in range(arguments.steps + 1):
        optimizer.zero_grad()
        for number in range(arguments.micro_batches):
            inputs, labels = batch_of(arguments.model)
            with context(space, number):
                scores = model(inputs)
                functional.cross_entropy(scores.flatten(0, -2), labels.flatten()).backward()
        optimizer.step()
        ends.append(time.monotonic())
    if arguments.times and dist.get_rank() == 0:
        with open(arguments.times, "w", encoding="utf-8") as file:
            json.dump(ends, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
