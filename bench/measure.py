"""Times functions side by side, and the machine's memory beside them."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
ROUNDS = 7

# With these, the C allocator keeps memory instead of giving it back, so that a
# fresh output costs no page faults.
REUSE = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "17179869184"}


def reuse_memory() -> None:
    """Starts this program again with the allocator told to reuse memory."""
    if any(name not in os.environ for name in REUSE):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **REUSE})


def times(functions: dict[str, Callable[[], object]], rounds: int = ROUNDS, budget: float = 2.0) -> dict[str, float]:
    """Seconds of one call of each: the best of rounds in which they take turns,
    so that all see the same machine. Short calls are repeated within a round."""
    repeats = {}
    for name, f in functions.items():
        f()
        start = time.perf_counter()
        f()
        once = time.perf_counter() - start
        repeats[name] = max(1, min(10000, int(2e-3 / max(once, 1e-7))))
    best = dict.fromkeys(functions, float("inf"))
    deadline = time.perf_counter() + budget
    for done in range(rounds):
        if done >= 2 and time.perf_counter() > deadline:
            break
        for name, f in functions.items():
            n = repeats[name]
            start = time.perf_counter()
            for _ in range(n):
                f()
            best[name] = min(best[name], (time.perf_counter() - start) / n)
    return best


class Roofline:
    """The best bandwidth of copy, read and non-temporal fill, in bytes a second."""

    def __init__(self, size: int = 128 << 20) -> None:
        library = HERE.parent / "build" / "roofline.so"
        source = HERE / "roofline.c"
        if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
            cc = os.environ.get("CC", "cc").split()
            subprocess.run([*cc, "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        self.code = ctypes.CDLL(str(library))
        self.size = size
        self.to = torch.zeros(size, dtype=torch.uint8)
        self.source = torch.ones(size, dtype=torch.uint8)

    def measure(self, threads: int) -> dict[str, float]:
        moved = {"copy": 2, "read": 1, "fill": 1}
        return {
            name: count * self.size / min(self.run(name, threads) for _ in range(4)) for name, count in moved.items()
        }

    def run(self, name: str, threads: int) -> float:
        f = getattr(self.code, name)
        part = self.size // threads // 4096 * 4096

        def work(i: int) -> None:
            at = i * part
            f(
                ctypes.c_void_p(self.to.data_ptr() + at),
                ctypes.c_void_p(self.source.data_ptr() + at),
                ctypes.c_size_t(part),
            )

        workers = [threading.Thread(target=work, args=(i,)) for i in range(1, threads)]
        start = time.perf_counter()
        for w in workers:
            w.start()
        work(0)
        for w in workers:
            w.join()
        return time.perf_counter() - start
