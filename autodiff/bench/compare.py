"""One training step of small models: PyTorch beside autodiff, in the same run.

    python autodiff/bench/compare.py [--write]

Prints a table, in ms. PyTorch and autodiff take turns, and each time is one that
a tenth of the steps stay under: other programs disturb the rest. `products` is
the time in matrix products and convolutions, `rest` the other time of the step;
MiB are the buffers that the backend made in all, KiB/step what a step allocates
after the first ones. --write also writes results.md beside this file.
"""

import argparse
import contextlib
import json
import platform
import subprocess
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = Path(__file__).resolve().parents[2]
STRATEGIES = ("none", "balanced", "budget")


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
    yield (
        "depthwise",
        nn.Sequential(
            nn.Conv2d(32, 32, 3, padding=1, groups=32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 64, 3, padding=1, groups=64),
            nn.ReLU(),
            nn.Conv2d(64, 64, 1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(3136, 10),
        ),
        torch.randn(32, 32, 28, 28),
        labels[:32],
    )
    index = (torch.arange(256 * 32) * 7919 % 10000).view(256, 32)
    yield "embedding", nn.Sequential(MeanEmbedding(), nn.Linear(64, 10)), index, labels


class Products(TorchDispatchMode):
    """Adds up the time in matrix products and convolutions."""

    NAMES = ("aten::mm", "aten::addmm", "aten::convolution", "aten::convolution_backward")
    seconds = 0.0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        start = time.perf_counter()
        result = func(*args, **(kwargs or {}))
        if func.name().split(".")[0] in self.NAMES:
            self.seconds += time.perf_counter() - start
        return result


def low(times):
    """What a tenth of the times stay under."""
    return sorted(times)[len(times) // 10]


def products(step, steps=30):
    """The time that one step spends in matrix products and convolutions, in ms."""
    times = []
    for _ in range(steps):
        with Products() as p:
            step()
        times.append(p.seconds * 1e3)
    return low(times)


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
    result = {part: low(t) for part, t in times.items()}
    return {"model": name, "strategy": "PyTorch", "threads": threads, **result, "products": products(step)}


def build():
    binary = ROOT / "build" / "autodiff-step"
    subprocess.run(["go", "build", "-o", binary, "./autodiff/bench/step"], cwd=ROOT, check=True)
    return binary


def autodiff(binary, name, threads, seconds, *options):
    command = [binary, "-model", name, "-threads", str(threads), "-seconds", str(seconds), *options]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def processor():
    """The processor's name, or its architecture."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as f:
        for text in f:
            if text.startswith("model name"):
                return text.split(":", 1)[1].strip()
    return platform.machine()


def best(turns):
    """The smallest of each time; rest is the step's less the products'."""
    result = {k: min(r[k] for r in turns) if isinstance(v, float) else v for k, v in turns[0].items()}
    return {**result, "rest": result["step"] - result["products"]}


PARTS = ("step", "forward", "backward", "update", "products", "rest")
WIDTHS = [10, 7, 24, 9, 9, 9, 9, 9, 9, 7, 9]
HEAD = ["model", "threads", "", *PARTS, "MiB", "KiB/step"]


def line(r):
    memory = [f"{r['buffer_bytes'] / 2**20:.1f}", f"{r['bytes'] / 1024:.1f}"] if "bytes" in r else ["", ""]
    return [r["model"], str(r["threads"]), r["strategy"], *(f"{r[k]:.3f}" for k in PARTS), *memory]


def aligned(row):
    return " ".join(f"{c:<{w}}" if i < 3 else f"{c:>{w}}" for i, (c, w) in enumerate(zip(row, WIDTHS, strict=True)))


def write(rows, versions):
    text = f"# One training step\n\n`python autodiff/bench/compare.py --write`: {versions}. Times in ms; see there.\n\n"
    for row in [HEAD, ["---"] * 3 + ["---:"] * 8, *rows]:
        text += "| " + " | ".join(row) + " |\n"
    Path(__file__).with_name("results.md").write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.7, help="of each turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--model", help="only this one")
    parser.add_argument("--binary", type=Path, help="instead of building the Go program")
    parser.add_argument("--write", action="store_true", help="results.md")
    options = parser.parse_args()
    binary = options.binary or build()
    rows, slower = [], []
    print(aligned(HEAD))

    def show(r):
        rows.append(line(r))
        print(aligned(rows[-1]), flush=True)

    for threads in options.threads:
        for name, net, x, y in models():
            if options.model not in (None, name):
                continue
            turns = {who: [] for who in ("PyTorch", *STRATEGIES)}
            for _ in range(options.turns):
                turns["PyTorch"].append(pytorch(name, net, x, y, threads, options.seconds))
                for s in STRATEGIES:
                    turns[s].append(autodiff(binary, name, threads, options.seconds, "-strategy", s))
            results = {who: best(t) for who, t in turns.items()}
            for r in results.values():
                show(r)
            if results["none"]["rest"] > results["PyTorch"]["rest"]:
                slower.append(f"{name} with {threads} threads")
    # Sixteen layers of Linear and Gelu, whose memory is in the activations.
    if options.model in (None, "deep gelu"):
        for s in STRATEGIES:
            show(best([autodiff(binary, "deep gelu", 1, options.seconds, "-strategy", s) for _ in range(2)]))
    if options.write:
        go = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()
        write(rows, f"PyTorch {torch.__version__}, {go}, {processor()}")
    print("outside the products autodiff takes longer than PyTorch: " + (", ".join(slower) or "nowhere"))


if __name__ == "__main__":
    main()
