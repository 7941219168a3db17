#!/usr/bin/env python3
"""Trains a small network with PyTorch, with every way to sum gradients, and prints the table of docs/convergence.md.

The gradients of the workers are summed by the compressors and sparse collectives of this project themselves, in
threads that exchange messages:

    cmake --build build --target aggregate_driver
    /usr/bin/python3 bench/convergence.py --svg docs/convergence.svg build/tests/aggregate_driver
"""

import argparse
import concurrent.futures
import statistics
import subprocess
import sys

import numpy
import torch

DIMENSIONS, CLASSES, CLUSTERS_PER_CLASS, SPREAD, HELD_OUT = 32, 6, 2, 0.4, 1024
HALVES = ("fp16", "bf16")
METHODS = {"dense": "all-reduce", "top-k": "all-gather", "mstopk": "all-gather", "dgc": "all-gather",
           "random-k": "all-gather", "gaussian-k": "all-gather", "threshold": "all-gather", "efsignsgd": "all-gather",
           "onebit": "all-gather", "fp16": "all-reduce", "bf16": "all-reduce", "topk-a": "sparse collective",
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
        """The mean loss of each worker, from a row of parameters and a batch of each."""
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
    """The C++ program that sums the gradients of all workers."""

    def __init__(self, job, method, feedback, seed, size):
        self.workers, self.size = job.workers, size
        command = [job.driver, method, job.density, int(feedback), seed, job.workers, size, job.recompute_every]
        self.process = subprocess.Popen([str(each) for each in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()

    def sum(self, gradients):
        """The sum, and the words received and elements selected by each worker, and selected by all together."""
        self.process.stdin.write(gradients.numpy().tobytes())
        self.process.stdin.flush()
        words = 2 * self.workers + 1
        answer = self.process.stdout.read(8 * words + 4 * self.size)
        if len(answer) != 8 * words + 4 * self.size:
            raise RuntimeError(f"{self.process.args}: exit status {self.process.wait()}")
        counts = numpy.frombuffer(answer, numpy.int64, words)
        total = torch.frombuffer(bytearray(answer[8 * words:]), dtype=torch.float32)
        return total, counts[:self.workers], counts[self.workers:-1], counts[-1]


class Run:
    """One training run: the loss at the end, the losses and counts of all iterations."""

    def __init__(self, job, method, feedback, seed):
        torch.set_num_threads(1)
        data, network = Data(job, seed), Perceptron(job)
        self.k = round(job.density * network.size)
        parameters = network.initial(data)
        self.curve, self.words, self.local, self.overall = [], [], [], []
        held_out = []
        distance = max(job.iterations // 50, 1)
        with Summing(job, method, feedback, seed, network.size) as summing:
            for i in range(job.iterations):
                rows = parameters.expand(job.workers, -1).clone().requires_grad_()
                losses = network.losses(rows, data.batches[0][i], data.batches[1][i])
                losses.sum().backward()
                total, words, local, overall = summing.sum(rows.grad)
                rate = job.rate + (job.last_rate - job.rate) * i / max(job.iterations - 1, 1)
                parameters = parameters - rate / job.workers * total
                self.curve.append(losses.mean().item())
                self.words.append(words.max())
                self.local.append(local)
                self.overall.append(overall)
                left = job.iterations - 1 - i
                if left % distance == 0 and left < 10 * distance:
                    with torch.no_grad():
                        inputs, labels = data.held_out
                        held_out.append(network.losses(parameters[None], inputs[None], labels[None]).item())
        self.loss = statistics.mean(held_out)

    def deviations(self, job):
        """How far the numbers selected are from k where thresholds are reused, in the second half, in per cent."""
        reused = [i for i in range(job.iterations // 2, job.iterations) if i % job.recompute_every]
        local = 100 * (numpy.array([self.local[i] for i in reused]) / self.k - 1)
        overall = 100 * (numpy.array([self.overall[i] for i in reused]) / self.k - 1)
        return [abs(local).mean(), abs(overall).mean(), abs(local).max(), local.mean(), overall.mean()]


def percent_text(ratios):
    if max(ratios) > 10:
        return f"{min(ratios):.0f} to {max(ratios):.0f} times"
    change = [100 * (each - 1) for each in ratios]
    return f"{statistics.mean(change):+.1f} ({min(change):+.1f} to {max(change):+.1f})"


def row(method, runs, dense):
    loss = {feedback: statistics.mean(each.loss for each in runs[feedback]) for feedback in runs}
    words = statistics.mean(statistics.mean(each.words) for each in runs[True])
    if method == "dense":
        return f"| dense | all-reduce | {loss[True]:.3f} | | | | {words:.0f} |"
    cells = [f"{loss[feedback]:.3f} | {percent_text(ratios(runs[feedback], dense))}" for feedback in (True, False)]
    return f"| {method} | {METHODS[method]} | {cells[0]} | {cells[1]} | {words:.0f} |"


def ratios(runs, dense):
    return [run.loss / base.loss for run, base in zip(runs, dense)]


def faults(method, runs, dense, job):
    """What docs/convergence.md claims of every seed and does not hold."""
    with_feedback, without = (ratios(runs[feedback], dense) for feedback in (True, False))
    if any(abs(each - 1) > 0.02 for each in with_feedback + (without if method in HALVES else [])):
        yield f"{method}: more than 2 % from the loss of dense training"
    if method not in (*HALVES, "dense") and min(without) < 1.1:
        yield f"{method}: less than 10 % above the loss of dense training without error feedback"
    if method == "ok-topk":
        for run in runs[True]:
            local, overall, _, *means = run.deviations(job)
            if max(map(abs, means)) > 11 or max(local, overall) > 25:
                yield f"ok-topk: selects {means} % more than k, {local} and {overall} % in the mean of magnitudes"


# ---- the plot

TOP, BOTTOM, WIDTH, MAX_LOSS = 70, 440, 400, 2.5
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8c6d1f"]


def y_of(loss):
    return BOTTOM - (BOTTOM - TOP) * min(loss, MAX_LOSS) / MAX_LOSS


def stroke(line):
    return f'stroke="{COLOURS[line % 8]}"' + (' stroke-dasharray="5 3"' if line >= 8 else "")


def panel(left, title, curves):
    """All methods, each point the mean of 50 iterations; what exceeds the top runs along it."""
    out = [f'<text class="head" x="{left}" y="{TOP - 16}">{title}</text>']
    for loss in (0, 0.5, 1, 1.5, 2, 2.5):
        out.append(f'<path class="grid" d="M{left} {y_of(loss):.1f}h{WIDTH}"/>')
        out.append(f'<text x="{left - 6}" y="{y_of(loss) + 4:.1f}" text-anchor="end">{loss:.1f}</text>')
    for part in (0, 1, 2):
        iteration = len(next(iter(curves.values()))) * part // 2
        out.append(f'<text x="{left + WIDTH * part / 2:.0f}" y="{BOTTOM + 20}" text-anchor="middle">{iteration}</text>')
    for line, (method, curve) in enumerate(curves.items()):
        points = [y_of(statistics.mean(curve[i:i + 50])) for i in range(0, len(curve) - 49, 25)]
        path = "L".join(f"{left + WIDTH * i / (len(points) - 1):.1f} {y:.1f}" for i, y in enumerate(points))
        out.append(f'<path class="line" {stroke(line)} d="M{path}"><title>{method}</title></path>')
    return out


def plot(curves):
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1080 490" width="1080" height="490" '
           'font-family="Helvetica, Arial, sans-serif" font-size="12">',
           "<style>.title{font-size:17px;font-weight:bold}.head{font-size:13px;font-weight:bold}"
           ".grid{stroke:#d9d9d9}.line{fill:none;stroke-width:1.6}</style>",
           '<rect width="1080" height="490" fill="#fff"/>',
           '<text class="title" x="24" y="30">Training loss by iteration</text>',
           *panel(50, "with error feedback", curves[True]), *panel(500, "without", curves[False])]
    for line, method in enumerate(curves[True]):
        y = TOP + 20 * line
        out.append(f'<path class="line" {stroke(line)} d="M930 {y}h24"/><text x="962" y="{y + 4}">{method}</text>')
    return "\n".join([*out, "</svg>\n"])


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
    parser.add_argument("--svg", help="draws the losses of the first seed into this file")
    parser.add_argument("--check", action="store_true", help="fails where a claim of docs/convergence.md does not hold")
    job = parser.parse_args()
    seeds = range(1, job.seeds + 1)
    pool = concurrent.futures.ProcessPoolExecutor()
    print("| method | travels by | loss with feedback | % over dense | without | % over dense | words |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: |")
    dense, curves, wrong = [], {True: {}, False: {}}, []
    for method in ["dense", *(each for each in job.methods if each != "dense")]:
        started = {feedback: [pool.submit(Run, job, method, feedback, seed) for seed in seeds]
                   for feedback in ((True,) if method == "dense" else (True, False))}
        runs = {feedback: [each.result() for each in futures] for feedback, futures in started.items()}
        runs.setdefault(False, runs[True])
        dense = dense or runs[True]
        print(row(method, runs, dense), flush=True)
        wrong += faults(method, runs, dense, job)
        for feedback, each in curves.items():
            each[method] = runs[feedback][0].curve
        if method == "ok-topk":
            deviations = numpy.mean([run.deviations(job) for run in runs[True]], 0)
    if "ok-topk" in job.methods:
        print("Ok-Topk's numbers selected deviate from k by {:.1f} % locally and {:.1f} % globally in the mean of "
              "magnitudes (at most {:.0f} %), by {:+.1f} % and {:+.1f} % in the mean".format(*deviations))
    if job.svg:
        with open(job.svg, "w", encoding="utf-8") as file:
            file.write(plot(curves))
    if job.check and wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main()
