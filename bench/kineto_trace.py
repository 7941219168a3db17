#!/usr/bin/env python3
"""Writes a PyTorch profiler trace of so many MB to stdout, to see what reading it takes:

    bench/kineto_trace.py 1000 >big.json
    bench/import_trace.py build/fusewise 1000     # writes one and measures its import
"""
import itertools
import json
import sys

KERNEL = "void cutlass::Kernel2<cutlass_80_wmma_tensorop_f16_s161616gemm_f16_16x16_128x2_tn_align8>(Params)"
LAYERS = 400


def event(category, thread, name, start, duration, **arguments):
    return {"ph": "X", "cat": category, "name": name, "pid": 5, "tid": thread, "ts": 1.7e12 + start, "dur": duration,
            "args": arguments}


def launched(correlation, thread, launch, start, duration):
    """A launch, its kernel, and the arrow between them."""
    yield event("cuda_runtime", thread, "cudaLaunchKernel", launch, 5.0, cbid=211, correlation=correlation)
    yield {"ph": "s", "id": correlation, "pid": 5, "tid": thread, "ts": 1.7e12 + launch, "cat": "ac2g", "name": "ac2g"}
    yield event("kernel", 7, KERNEL, start, duration, queued=0, device=0, context=1, stream=7, correlation=correlation,
                grid=[100352, 1, 1], block=[128, 1, 1], **{"registers per thread": 255, "shared memory": 33280})


def forward(at, step, layer, correlation):
    name = f"nn.Module: Linear_{layer}"
    yield event("python_function", 1, name, at, 400.0, **{"Python id": correlation, "Python parent id": 1})
    for depth, operator in enumerate(["aten::linear", "aten::addmm", "aten::t"]):
        yield event("cpu_op", 1, operator, at + 10 + depth, 300.0 - 10 * depth, **{
            "Sequence number": LAYERS * step + layer, "Fwd thread id": 0, "Ev Idx": correlation,
            "Input Dims": [[64, 1024], [1024, 1024], [1024]], "Input type": ["float", "float", "float"]})
    yield from launched(correlation, 1, at + 20, at + 600, 100.0 + layer % 7)


def backward(at, step, layer, correlation):
    evaluate = "autograd::engine::evaluate_function: "
    yield event("cpu_op", 2, evaluate + "AddmmBackward0", at, 100.0,
                **{"Sequence number": LAYERS * step + layer, "Fwd thread id": 1, "Ev Idx": correlation})
    yield from launched(correlation, 2, at + 20, at + 600, 200.0 + layer % 5)
    yield event("cpu_op", 2, evaluate + "torch::autograd::AccumulateGrad", at + 110, 40.0)
    yield event("cpu_op", 2, "torch::autograd::AccumulateGrad", at + 112, 30.0, **{"Input Dims": [[1024, 1024]]})


def events():
    correlations = itertools.count(1)
    for step in itertools.count():
        at = 1e6 * step
        yield event("user_annotation", 1, f"ProfilerStep#{step}", at, 900e3)
        for layer in range(LAYERS):
            yield from forward(at + 100 + 500 * layer, step, layer, next(correlations))
        for place, layer in enumerate(reversed(range(LAYERS))):
            yield from backward(at + 300e3 + 500 * place, step, layer, next(correlations))


def main():
    left = int(sys.argv[1]) * 1_000_000
    separator = '{"schemaVersion": 1, "traceEvents": [\n'
    for one in events():
        text = separator + json.dumps(one)
        sys.stdout.write(text)
        left -= len(text)
        separator = ",\n"
        if left <= 0:
            break
    sys.stdout.write("\n]}\n")


if __name__ == "__main__":
    main()
