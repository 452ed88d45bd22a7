"""Times functions side by side, and the machine's memory beside them."""

from __future__ import annotations

import ctypes
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
ROUNDS = 15
BUDGET = 1.8  # seconds for the rounds of one case
TURN = 3

# With these, the C allocator keeps memory instead of giving it back, so that a
# fresh output costs no page faults.
REUSE = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "17179869184"}


def reuse_memory() -> None:
    """Starts this program again with the allocator told to reuse memory."""
    if any(name not in os.environ for name in REUSE):
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **REUSE})


def times(functions: dict[str, Callable[[], object]], rounds: int = ROUNDS, budget: float = BUDGET) -> dict[str, float]:
    """Seconds of one call of each: the best of rounds in which they take turns,
    so that all see the same machine. Short calls are repeated within a round. A
    turn takes three measurements: during the first, threads of another side's
    last call may still wait for work, and take a processor to do so."""
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
            for _ in range(TURN):
                start = time.perf_counter()
                for _ in range(n):
                    f()
                best[name] = min(best[name], (time.perf_counter() - start) / n)
    return best


class Roofline:
    """Loops in C that do nothing but move memory (roofline.c)."""

    def __init__(self, size: int = 256 << 20) -> None:
        library = HERE.parent / "build" / "roofline.so"
        source = HERE / "roofline.c"
        if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
            cc = os.environ.get("CC", "cc").split()
            subprocess.run([*cc, "-O3", "-shared", "-fPIC", "-pthread", "-o", library, source], check=True)
        self.code = ctypes.CDLL(str(library))
        self.size = size
        self.to = torch.zeros(size, dtype=torch.uint8)
        self.source = torch.randint(256, (size,), dtype=torch.uint8)

    def loop(self, reads: int, writes: int, threads: int, row: int = 0) -> Callable[[], None]:
        """A call that reads and writes about so many bytes, in turns of as many lines as their ratio.
        The bytes of a row are read twice, if it is given."""
        common = math.gcd(reads, writes)
        lines = [max(1, round(b / max(1, common))) if b else 0 for b in (reads, writes)]
        while max(lines) > 16:
            lines = [(n + 1) // 2 for n in lines]
        most = (self.size // 64 - 1) // max(lines)
        times, rest = divmod((reads + writes) // (64 * sum(lines)), most)
        row //= 64 * max(1, lines[0])
        to, source = ctypes.c_void_p(self.to.data_ptr()), ctypes.c_void_p(self.source.data_ptr())

        def call() -> None:
            for steps in [most] * times + [rest]:
                self.code.run(to, source, ctypes.c_size_t(steps), *lines, ctypes.c_size_t(row), threads)

        return call

    def moves(self, threads: int) -> dict[str, Callable[[], None]]:
        """Copy, read and non-temporal fill, each a call that moves self.size bytes."""
        n = self.size // 2
        moved = {"copy": (n, n), "read": (2 * n, 0), "fill": (0, 2 * n)}
        return {name: self.loop(*bytes, threads) for name, bytes in moved.items()}

    def bandwidths(self, seconds: dict[str, float]) -> dict[str, float]:
        """Those of moves, in bytes a second, by the seconds that they took."""
        return {name: self.size / seconds[name] for name in ("copy", "read", "fill")}

    def multiplier(self) -> str:
        """The instructions that multiply bytes: VNNI, AVX2 or none."""
        self.code.multiplier.restype = ctypes.c_char_p
        return self.code.multiplier().decode()

    def multiplications(self, threads: int) -> float:
        """The most products of bytes that are added up in a second by what multiplier names; 0 where that is nothing."""
        self.code.multiplications.restype = ctypes.c_double
        steps = 1 << 20
        call = lambda: self.code.multiplications(ctypes.c_size_t(steps), threads)  # noqa: E731
        return call() / times({"": call})[""]


RESIDENT = """
import os, sys, torch, isobit
def now():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE") / (1 << 20)
isobit.set_huge_pages(sys.argv[1] == "True")
x = torch.ones((1 << 20) + 1024)
isobit.fake_quantize_per_tensor_affine(x, 1.0, 0, -128, 127)
before = now()
outputs = [isobit.fake_quantize_per_tensor_affine(x, 1.0, 0, -128, 127) for _ in range(256)]
print(now() - before)
"""


def resident(huge: bool) -> float:
    """By how many MiB 256 outputs of 4 MiB + 4 KiB make a new process grow."""
    done = subprocess.run([sys.executable, "-c", RESIDENT, str(huge)], check=True, capture_output=True, text=True)
    return float(done.stdout)
