"""One training step of three small models: PyTorch beside autodiff, in the same run.

    python autodiff/bench/compare.py [--seconds 2]

Prints a table: medians in ms. `products` is the time in matrix products and
convolutions, `rest` the other time of the step; MiB are the buffers that the
backend made in all, KiB/step what a step allocates after the first ones.
"""

import argparse
import json
import statistics
import subprocess
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile

ROOT = Path(__file__).resolve().parents[2]
PRODUCTS = ("mm", "addmm", "mkldnn_convolution", "_slow_conv2d_forward", "convolution_backward")


class MeanEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10000, 64)

    def forward(self, x):
        return self.table(x).mean(1)


def models():
    """The model, its input and its labels, by name."""
    labels = torch.arange(256) * 7 % 10
    yield (
        "mlp",
        nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 10)),
        torch.randn(128, 784),
        labels[:128],
    )
    yield (
        "cnn",
        nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(1568, 10),
        ),
        torch.randn(64, 1, 28, 28),
        labels[:64],
    )
    index = (torch.arange(256 * 32) * 7919 % 10000).view(256, 32)
    yield "embedding", nn.Sequential(MeanEmbedding(), nn.Linear(64, 10)), index, labels


def products(step, steps=15):
    """The time that one step spends in matrix products and convolutions, in ms: the median."""
    times = []
    for _ in range(steps):
        with profile(activities=[ProfilerActivity.CPU]) as p:
            step()
        events = [e for e in p.key_averages() if e.key.removeprefix("aten::") in PRODUCTS]
        times.append(sum(e.self_cpu_time_total for e in events) / 1e3)
    return statistics.median(times)


def pytorch(name, net, x, y, threads, seconds):
    torch.set_num_threads(threads)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    times = {"forward": [], "backward": [], "update": [], "step": []}

    def step():
        start = time.perf_counter()
        loss = cross_entropy(net(x), y)
        forward = time.perf_counter()
        optimizer.zero_grad()
        loss.backward()
        backward = time.perf_counter()
        optimizer.step()
        end = time.perf_counter()
        for part, t in zip(times, (forward - start, backward - forward, end - backward, end - start), strict=True):
            times[part].append(t * 1e3)

    for _ in range(5):
        step()
    for t in times.values():
        t.clear()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        step()
    result = {part: statistics.median(t) for part, t in times.items()}
    return {"model": name, "strategy": "PyTorch", "threads": threads, **result, "products": products(step)}


def build():
    binary = ROOT / "build" / "autodiff-step"
    subprocess.run(["go", "build", "-o", binary, "./autodiff/bench/step"], cwd=ROOT, check=True)
    return binary


def autodiff(binary, name, threads, seconds, *options):
    command = [binary, "-model", name, "-threads", str(threads), "-seconds", str(seconds), *options]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def line(r):
    rest = r["step"] - r["products"]
    parts = "  ".join(f"{r[k]:9.3f}" for k in ("step", "forward", "backward", "update", "products"))
    memory = f"{r['buffer_bytes'] / 2**20:9.1f}  {r['bytes'] / 1024:9.1f}" if "bytes" in r else ""
    print(f"{r['model']:<10} {r['threads']}  {r['strategy']:<22} {parts}  {rest:9.3f}  {memory}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--binary", type=Path, help="instead of building the Go program")
    options = parser.parse_args()
    binary = options.binary or build()
    heads = ("step", "forward", "backward", "update", "products", "rest", "MiB", "KiB/step")
    print(f"{'model':<10} T  {'':<22} {'  '.join(f'{h:>9}' for h in heads)}")
    for threads in (1, 2):
        for name, net, x, y in models():
            line(pytorch(name, net, x, y, threads, options.seconds))
            for strategy in ("none", "balanced", "budget"):
                line(autodiff(binary, name, threads, options.seconds, "-strategy", strategy))
    # Sixteen layers of Linear and Gelu, whose memory is in the activations.
    for strategy in ("none", "balanced", "budget"):
        line(autodiff(binary, "deep gelu", 1, options.seconds, "-strategy", strategy))


if __name__ == "__main__":
    main()
