#!/usr/bin/env python3
"""Trains a small network with PyTorch, with every way to sum gradients, and prints the table of docs/convergence.md.

The gradients of the workers are summed by the compressors and sparse collectives of this project themselves, in
threads that exchange messages:

    cmake --build build --target aggregate_driver
    /usr/bin/python3 bench/convergence.py build/tests/aggregate_driver
"""

import argparse
import subprocess
import sys

import numpy
import torch

DIMENSIONS, CLASSES, CLUSTERS_PER_CLASS, SPREAD, HELD_OUT = 32, 6, 2, 0.4, 1024
HALVES = ("fp16", "bf16")
METHODS = {"dense": "all-reduce", "top-k": "all-gather", "mstopk": "all-gather", "dgc": "all-gather",
           "random-k": "all-gather", "gaussian-k": "all-gather", "threshold": "all-gather", "efsignsgd": "all-gather",
           "onebit": "all-gather", "fp16": "all-reduce", "bf16": "all-reduce", "power-sgd": "three all-reduces", "topk-a": "sparse collective",
           "topk-dsa": "sparse collective", "gtopk": "sparse collective", "ok-topk": "sparse collective",
           "hitopk": "sparse collective"}


class Data:
    """Classes that are two Gaussian clusters each and overlap, so that no network reaches a loss of 0."""

    def __init__(self, job, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.centres = SPREAD * self.normal(CLASSES, CLUSTERS_PER_CLASS, DIMENSIONS)
        self.held_out = self.samples(torch.arange(HELD_OUT) % CLASSES)
        shape = (job.iterations, job.workers, job.samples)
        self.batches = self.samples(torch.randint(CLASSES, shape, generator=self.generator))

    def normal(self, *shape):
        return torch.randn(shape, generator=self.generator)

    def samples(self, labels):
        clusters = torch.randint(CLUSTERS_PER_CLASS, labels.shape, generator=self.generator)
        return self.centres[labels, clusters] + self.normal(*labels.shape, DIMENSIONS), labels


class Perceptron:
    """Fully connected layers with ReLU between them; all parameters are one vector."""

    def __init__(self, job):
        widths = [DIMENSIONS, *job.hidden, CLASSES]
        self.layers = list(zip(widths, widths[1:]))
        self.size = sum((inputs + 1) * outputs for inputs, outputs in self.layers)

    def initial(self, data):
        """Weights of variance 2 / inputs (He et al. 2015), biases 0."""
        parts = []
        for inputs, outputs in self.layers:
            parts += [data.normal(inputs * outputs) * (2 / inputs) ** 0.5, torch.zeros(outputs)]
        return torch.cat(parts)

    def losses(self, parameters, inputs, labels):
        """The mean loss of each row of parameters on its own batch."""
        at, values = 0, inputs
        for inputs_of, outputs in self.layers:
            weights = parameters[:, at:at + inputs_of * outputs].reshape(-1, inputs_of, outputs)
            at += (inputs_of + 1) * outputs
            values = torch.baddbmm(parameters[:, at - outputs:at].unsqueeze(1), values, weights)
            if at < self.size:
                values = values.relu()
        each = torch.nn.functional.cross_entropy(values.flatten(0, 1), labels.flatten(), reduction="none")
        return each.reshape(labels.shape).mean(1)


class Summing:
    """The C++ program that sums the gradients of the workers of all jobs."""

    def __init__(self, job, method, jobs, size, tensors):
        self.shape = (jobs, 2 * job.workers + 1), (jobs, size)
        command = [job.driver, method, job.density, job.recompute_every, job.workers, size, job.seeds]
        if method == "power-sgd":
            command.append(tensors)
        self.process = subprocess.Popen([str(each) for each in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def read(self, shape, kind):
        size = shape[0] * shape[1] * numpy.dtype(kind).itemsize
        answer = self.process.stdout.read(size)
        if len(answer) != size:
            raise RuntimeError(f"{self.process.args}: exit status {self.process.wait()}")
        return numpy.frombuffer(bytearray(answer), kind).reshape(shape)

    def sum(self, gradients):
        """The counts and the sum of each job."""
        self.process.stdin.write(gradients.numpy().tobytes())
        self.process.stdin.flush()
        return self.read(self.shape[0], numpy.int64), torch.from_numpy(self.read(self.shape[1], numpy.float32))


class Runs:
    """Training with one method: all seeds with error feedback, then all seeds without, side by side."""

    def __init__(self, job, method):
        self.job, network = job, Perceptron(job)
        data = [Data(job, seed) for seed in range(1, job.seeds + 1)] * 2
        starts = [network.initial(each) for each in data[:job.seeds]]
        parameters = torch.stack(starts * 2)
        batches = [torch.stack([each.batches[part] for each in data], 1) for part in (0, 1)]
        held_out = [torch.stack([each.held_out[part] for each in data]) for part in (0, 1)]
        self.k = round(job.density * network.size)
        counts, evaluated = [], []
        distance = max(job.iterations // 50, 1)
        tensors = ",".join(f"{inputs}x{outputs},{outputs}" for inputs, outputs in network.layers)
        with Summing(job, method, len(data), network.size, tensors) as summing:
            for i in range(job.iterations):
                rows = parameters.repeat_interleave(job.workers, 0).requires_grad_()
                loss = network.losses(rows, batches[0][i].flatten(0, 1), batches[1][i].flatten(0, 1))
                loss.sum().backward()
                counted, total = summing.sum(rows.grad)
                rate = job.rate + (job.last_rate - job.rate) * i / max(job.iterations - 1, 1)
                parameters = parameters - rate / job.workers * total
                counts.append(counted)
                left = job.iterations - 1 - i
                if left % distance == 0 and left < 10 * distance:
                    with torch.no_grad():
                        evaluated.append(network.losses(parameters, *held_out).numpy())
        self.loss = numpy.mean(evaluated, 0, dtype=float).reshape(2, -1)  # with error feedback and without
        counts = numpy.array(counts)
        self.words = counts[:, :job.seeds, :job.workers].max(2).mean()
        self.local = counts[:, :job.seeds, job.workers:-1]
        self.overall = counts[:, :job.seeds, -1]

    def deviations(self):
        """How far the numbers selected are from k where thresholds are reused, in the second half, in per cent."""
        job = self.job
        reused = [i for i in range(job.iterations // 2, job.iterations) if i % job.recompute_every]
        local, overall = (100 * (each[reused] / self.k - 1) for each in (self.local, self.overall))
        return abs(local).mean(), abs(overall).mean(), abs(local).max(), local.mean(), overall.mean()


def percent_text(ratios):
    if ratios.max() > 10:
        return f"{ratios.min():.0f} to {ratios.max():.0f} times"
    change = 100 * (ratios - 1)
    return f"{change.mean():+.1f} ({change.min():+.1f} to {change.max():+.1f})"


def row(method, runs, dense):
    if method == "dense":
        return f"| dense | all-reduce | {runs.loss[0].mean():.3f} | | | | {runs.words:.0f} |"
    cells = [f"{loss.mean():.3f} | {percent_text(loss / dense)}" for loss in runs.loss]
    return f"| {method} | {METHODS[method]} | {cells[0]} | {cells[1]} | {runs.words:.0f} |"


def faults(method, runs, dense):
    """What docs/convergence.md claims of every seed and does not hold."""
    with_feedback, without = abs(runs.loss[0] / dense - 1).max(), runs.loss[1] / dense
    if with_feedback > 0.02 or method in HALVES and abs(without - 1).max() > 0.02:
        yield f"{method}: more than 2 % from the loss of dense training"
    if method not in (*HALVES, "dense") and without.min() < 1.1:
        yield f"{method}: less than 10 % above the loss of dense training without error feedback"
    if method == "ok-topk":
        local, overall, _, *means = runs.deviations()
        if max(map(abs, means)) > 11 or max(local, overall) > 25:
            yield f"ok-topk: selects {means} % more than k, {local} and {overall} % in the mean of magnitudes"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("driver", help="the program aggregate_driver")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--density", type=float, default=0.03)
    parser.add_argument("--recompute-every", type=int, default=32)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--samples", type=int, default=8, help="of each worker in an iteration")
    parser.add_argument("--hidden", type=int, nargs="+", default=[84, 84])
    parser.add_argument("--iterations", type=int, default=1500)
    parser.add_argument("--rate", type=float, default=0.05)
    parser.add_argument("--last-rate", type=float, default=0.02)
    parser.add_argument("--check", action="store_true", help="fails where a claim of docs/convergence.md does not hold")
    job = parser.parse_args()
    torch.set_num_threads(1)
    print("| method | travels by | loss with feedback | % over dense | without | % over dense | words |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    dense, wrong = None, []
    for method in ["dense", *(each for each in job.methods if each != "dense")]:
        runs = Runs(job, method)
        dense = runs.loss[0] if dense is None else dense
        print(row(method, runs, dense), flush=True)
        wrong += faults(method, runs, dense)
        if method == "ok-topk":
            deviations = runs.deviations()
    if "ok-topk" in job.methods:
        print("Ok-Topk's numbers selected deviate from k by {:.1f} % locally and {:.1f} % globally in the mean of "
              "magnitudes (at most {:.0f} %), by {:+.1f} % and {:+.1f} % in the mean".format(*deviations))
    if job.check and wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
