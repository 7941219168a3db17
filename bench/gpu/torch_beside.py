#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same training iterations in PyTorch, and torch.topk, for bench/gpu/run.py to put beside ours: JSON lines.

Models are written as models/*.json are, layer by layer, with the scores of attention kept: so both do the same work
by different code.
"""
import argparse
import json
import statistics
import sys
import time

PARAMETERS = {"resnet50": 25557032, "bert-base": 110106428, "gpt2": 124439808}  # as models/*.json publish
BATCHES = {"resnet50": 64, "bert-base": 64, "gpt2": 8}
PRECISIONS = ["float32", "tf32", "bfloat16"]


def definitions(torch):
    nn, functional = torch.nn, torch.nn.functional

    class Bottleneck(nn.Module):
        def __init__(self, channels, width, out, stride):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(width)
            self.conv3, self.bn3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
            self.downsample = None
            if stride != 1 or channels != out:
                self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

        def forward(self, x):
            y = functional.relu(self.bn1(self.conv1(x)))
            y = functional.relu(self.bn2(self.conv2(y)))
            y = self.bn3(self.conv3(y))
            return functional.relu(y + (x if self.downsample is None else self.downsample(x)))

    class ResNet50(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
            blocks, channels = [], 64
            for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
                for i in range(count):
                    blocks.append(Bottleneck(channels, width, 4 * width, stride if i == 0 else 1))
                    channels = 4 * width
            self.layers = nn.Sequential(*blocks)
            self.fc = nn.Linear(channels, 1000)

        def forward(self, images, labels):
            x = functional.max_pool2d(functional.relu(self.bn1(self.conv1(images))), 3, 2, 1)
            x = functional.adaptive_avg_pool2d(self.layers(x), 1).flatten(1)
            return functional.cross_entropy(self.fc(x), labels)

    class Attention(nn.Module):
        def __init__(self, heads, causal):
            super().__init__()
            self.heads, self.causal = heads, causal

        def forward(self, q, k, v):
            batch, length, features = q.shape
            q, k, v = (x.view(batch, length, self.heads, -1).transpose(1, 2) for x in (q, k, v))
            scores = q @ k.transpose(-2, -1) * (features // self.heads) ** -0.5
            if self.causal:
                later = torch.ones(length, length, dtype=torch.bool, device=q.device).triu(1)
                scores = scores.masked_fill(later, float("-inf"))
            mixed = functional.dropout(scores.softmax(-1), 0.1, self.training) @ v
            return mixed.transpose(1, 2).reshape(batch, length, features)

    class BertLayer(nn.Module):
        def __init__(self, features, heads):
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(features, features) for _ in range(3))
            self.core = Attention(heads, causal=False)
            self.dense, self.norm1 = nn.Linear(features, features), nn.LayerNorm(features, 1e-12)
            self.up, self.down = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)
            self.norm2, self.dropout = nn.LayerNorm(features, 1e-12), nn.Dropout(0.1)

        def forward(self, x):
            x = self.norm1(x + self.dropout(self.dense(self.core(self.query(x), self.key(x), self.value(x)))))
            return self.norm2(x + self.dropout(self.down(functional.gelu(self.up(x)))))

    class Bert(nn.Module):
        def __init__(self, features=768, layers=12, heads=12, words=30522):
            super().__init__()
            self.words, self.positions = nn.Embedding(words, features), nn.Embedding(512, features)
            self.segments = nn.Embedding(2, features)
            self.norm, self.dropout = nn.LayerNorm(features, 1e-12), nn.Dropout(0.1)
            self.layers = nn.ModuleList(BertLayer(features, heads) for _ in range(layers))
            self.pooler, self.pair = nn.Linear(features, features), nn.Linear(features, 2)
            self.transform, self.transform_norm = nn.Linear(features, features), nn.LayerNorm(features, 1e-12)
            self.bias = nn.Parameter(torch.zeros(words))

        def forward(self, tokens, labels):
            places = torch.arange(tokens.shape[1], device=tokens.device)
            x = self.words(tokens) + self.positions(places) + self.segments(tokens % 2)
            x = self.dropout(self.norm(x))
            for layer in self.layers:
                x = layer(x)
            pooled = torch.tanh(self.pooler(x[:, 0]))
            words = self.transform_norm(functional.gelu(self.transform(x)))
            words = functional.linear(words, self.words.weight, self.bias)
            return (functional.cross_entropy(words.flatten(0, 1), labels.flatten())
                    + functional.cross_entropy(self.pair(pooled), labels[:, 0] % 2))

    class GptLayer(nn.Module):
        def __init__(self, features, heads):
            super().__init__()
            self.ln_1, self.ln_2 = nn.LayerNorm(features), nn.LayerNorm(features)
            self.c_attn, self.c_proj = nn.Linear(features, 3 * features), nn.Linear(features, features)
            self.core, self.dropout = Attention(heads, causal=True), nn.Dropout(0.1)
            self.up, self.down = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)

        def forward(self, x):
            q, k, v = self.c_attn(self.ln_1(x)).chunk(3, -1)
            x = x + self.dropout(self.c_proj(self.core(q, k, v)))
            return x + self.dropout(self.down(functional.gelu(self.up(self.ln_2(x)), approximate="tanh")))

    class Gpt2(nn.Module):
        def __init__(self, features=768, layers=12, heads=12, words=50257):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(words, features), nn.Embedding(1024, features)
            self.dropout, self.ln_f = nn.Dropout(0.1), nn.LayerNorm(features)
            self.layers = nn.ModuleList(GptLayer(features, heads) for _ in range(layers))

        def forward(self, tokens, labels):
            x = self.dropout(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device)))
            for layer in self.layers:
                x = layer(x)
            words = functional.linear(self.ln_f(x), self.wte.weight)
            return functional.cross_entropy(words.flatten(0, 1), labels.flatten())

    return {"resnet50": ResNet50, "bert-base": Bert, "gpt2": Gpt2}


def batch_of(torch, name, batch, device, dtype, size):
    """Inputs and labels; `size` instead of the model's own height or length."""
    if name == "resnet50":
        images = torch.randn(batch, 3, size or 224, size or 224, device=device, dtype=dtype)
        return images, torch.randint(1000, (batch,), device=device)
    words, length = (30522, 64) if name == "bert-base" else (50257, 1024)
    shape = (batch, size or length)
    return torch.randint(words, shape, device=device), torch.randint(words, shape, device=device)


def timed_us(torch, device, work, repetitions, warm_up):
    """The time of each call: between two events on a GPU, otherwise by the clock."""
    out = []
    for i in range(warm_up + repetitions):
        if device == "cuda":
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            work()
            end.record()
            torch.cuda.synchronize()
            us = 1e3 * begin.elapsed_time(end)
        else:
            began = time.perf_counter()
            work()
            us = 1e6 * (time.perf_counter() - began)
        if i >= warm_up:
            out.append(us)
    return out


def summary(samples):
    quarters = statistics.quantiles(samples, n=4, method="inclusive") if len(samples) > 1 else [samples[0]] * 3
    return {"us": statistics.median(samples), "spread_us": quarters[2] - quarters[0], "repetitions": len(samples)}


def say(**line):
    print(json.dumps(line), flush=True)


def iterations(torch, options, name, precision):
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(1)
    model = definitions(torch)[name]().to(options.device)
    parameters = sum(p.numel() for p in model.parameters())
    if parameters != PARAMETERS[name]:
        raise SystemExit(f"{name} has {parameters} parameters, expected {PARAMETERS[name]}")
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    model.to(dtype)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.float()  # as ours keeps them
    batch = options.batch or BATCHES[name]
    inputs, labels = batch_of(torch, name, batch, options.device, dtype, options.size)

    def iteration():
        model(inputs, labels).backward()
        for parameter in model.parameters():
            parameter.grad = None

    samples = timed_us(torch, options.device, iteration, options.repetitions, options.warm_up)
    say(model=name, precision=precision, batch=batch, parameters=parameters,
        torch=torch.__version__, **summary(samples))


def selections(torch, options):
    """Indexes and values of the greatest magnitudes, as a compressor takes them; and a copy of 1 GiB within the device."""
    source = torch.randn(1 << 28, device=options.device)
    target = torch.empty_like(source)
    copies = summary(timed_us(torch, options.device, lambda: target.copy_(source), options.repetitions, options.warm_up))
    say(copy_gb_per_s=8e-3 * source.numel() / copies["us"], **copies)
    del source, target
    for elements in options.elements:
        x = torch.randn(elements, device=options.device)
        for density in (0.001, 0.01, 0.1):
            k = max(1, round(density * elements))

            def select():
                return x[torch.topk(x.abs(), k, sorted=False).indices]

            say(top_k=elements, density=density, torch=torch.__version__,
                **summary(timed_us(torch, options.device, select, options.repetitions, options.warm_up)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(PARAMETERS))
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--top-k", action="store_true", help="torch.topk, in the place of models")
    parser.add_argument("--elements", type=lambda text: [int(n) for n in text.split(",")],
                        default=[1 << 18, 1 << 21, 1 << 24, 1 << 27])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--batch", type=int, help="in the place of the papers'")
    parser.add_argument("--size", type=int, help="height of images or length of sequences")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=5)
    options = parser.parse_args()
    names, precisions = options.models.split(","), options.precisions.split(",")
    for got, known in ((names, PARAMETERS), (precisions, PRECISIONS)):
        for each in got:
            if each not in known:
                parser.error(f"expected some of {', '.join(known)}, got '{each}'")
    try:
        import torch
    except ImportError:
        sys.exit("no PyTorch here")
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("no CUDA device: PyTorch sees none")
    if options.top_k:
        return selections(torch, options)
    for name in names:
        for precision in precisions:
            iterations(torch, options, name, precision)


if __name__ == "__main__":
    main()
