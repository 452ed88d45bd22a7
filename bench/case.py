"""A case of the benchmarks: one op on one size, and how its tensors and calls are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

Call = Callable[[], object]


@dataclass
class Case:
    """One op on one size. reads and writes are the bytes of its tensors, each counted once a pass."""

    name: str
    reads: int
    writes: int
    isobit: Call
    eager: Call
    compiled: Call | None = None
    torchao: Call | None = None
    targets: dict[str, float] = field(default_factory=dict)  # eager, compiled, roofline
    allocates: str = "neither side"
    operations: int = 0  # for products: multiply-adds
    row: int = 0  # bytes of which all must be read before the first is used
    least: Call | None = None  # what PyTorch takes around any such op
    engine: Call | None = None  # autograd's own part, which the loop has beside it


def square(n: int, dtype: torch.dtype) -> Tensor:
    rows = max(1, int(n**0.5) // 64 * 64) if n >= 4096 else max(1, n // 64)
    return torch.randn(rows, max(1, n // rows), dtype=torch.float32).to(dtype)


def channels(n: int, dtype: torch.dtype, where: str) -> tuple[Tensor, int]:
    """A tensor of about n elements, and the axis of its channels."""
    x = square(n, dtype)
    if where != "middle":
        return x, 0 if where == "first" else 1
    inner = max(1, x.shape[1] // 64)
    return x[:, : 64 * inner].reshape(x.shape[0], -1, inner).contiguous(), 1


def compiled(f: Callable[..., object], *args: object) -> Call:
    fast = torch.compile(f, dynamic=False)
    return lambda: fast(*args)


def parameters(channels: int) -> tuple[Tensor, Tensor]:
    return torch.rand(channels) * 0.05 + 0.01, torch.zeros(channels, dtype=torch.int32)


def reused(fresh: bool, out: Tensor) -> tuple[Tensor | None, str]:
    """isobit's out=, and which side allocates its output."""
    return (None, "both") if fresh else (out, "PyTorch")


def gradients(f: Callable[..., Tensor], inputs: tuple[Tensor, ...], dy: Tensor) -> Call:
    wanted = [t for t in inputs if t.requires_grad]
    return lambda: torch.autograd.grad(f(*inputs), wanted, dy)
