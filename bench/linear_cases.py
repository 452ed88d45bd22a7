"""Linear layers of codes and of floats, beside PyTorch's own of the same shape."""

from __future__ import annotations

from collections.abc import Callable

import isobit
import torch
from case import Case
from torch.nn.functional import linear


def weight_only_case(m: int, k: int, n: int, dtype: torch.dtype, codes: torch.dtype, group: int = 128) -> Case:
    """Rows of x by int8 codes, or by 4-bit ones, two in a byte."""
    packed = codes == torch.int4
    x, w = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
    q = torch.randint(-128, 128, (n, k // 2 if packed else k), dtype=torch.int8)
    q = q.view(torch.uint8) if packed else q
    scale = torch.rand(n, k // group).to(dtype)
    keys = {"dtype": codes} if packed else {}
    name = f"weight_only_linear {m}x{k}x{n} {codes} {dtype}".replace("torch.", "")
    calls = [lambda: isobit.weight_only_linear(x, q, scale, group_size=group, **keys), lambda: linear(x, w)]
    return Case(name, x.nbytes + q.nbytes + scale.nbytes, m * n * x.element_size(), *calls, allocates="both")


def quantized_case(m: int, k: int, n: int, dtype: torch.dtype) -> Case:
    """Exact products of int8 codes."""
    x, w = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
    xq, wq = (torch.randint(-127, 128, shape, dtype=torch.int8) for shape in ((m, k), (n, k)))
    xs, ws = torch.rand(m), torch.rand(n)
    name = f"quantized_linear {m}x{k}x{n}, beside {dtype}".replace("torch.", "")
    calls = [lambda: isobit.quantized_linear_codes(xq, xs, wq, ws), lambda: linear(x, w)]
    return Case(name, xq.nbytes + wq.nbytes, 4 * m * n, *calls, allocates="both")


def float_case(m: int, k: int, n: int, dtype: torch.dtype, backward: bool = False) -> Case:
    """The same types on both sides."""
    x, w = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)
    name = f"linear {m}x{k}x{n} {dtype}".replace("torch.", "")
    if not backward:
        calls = [lambda: isobit.linear(x, w), lambda: linear(x, w)]
        return Case(name, x.nbytes + w.nbytes, m * n * x.element_size(), *calls, allocates="both")
    dy = torch.randn(m, n).to(dtype)
    x.requires_grad_(), w.requires_grad_()

    def both(f: Callable[..., torch.Tensor]) -> Callable[[], object]:
        return lambda: torch.autograd.grad(f(x, w), (x, w), dy)

    written = m * n * x.element_size() + x.nbytes + w.nbytes
    return Case(
        name + " with backward", 2 * (x.nbytes + w.nbytes), written, both(isobit.linear), both(linear), allocates="both"
    )


def batch_case(batch: int, m: int, k: int, n: int, dtype: torch.dtype) -> Case:
    """Products of small matrices."""
    x, other = torch.randn(batch, m, k).to(dtype), torch.randn(batch, k, n).to(dtype)
    name = f"matmul {batch} of {m}x{k}x{n} {dtype}".replace("torch.", "")
    calls = [lambda: isobit.matmul(x, other), lambda: torch.matmul(x, other)]
    return Case(name, x.nbytes + other.nbytes, batch * m * n * x.element_size(), *calls, allocates="both")


def linear_cases() -> list[Callable[[], Case]]:
    f32, bf16 = torch.float32, torch.bfloat16
    rows = (1, 4, 16, 128)
    shapes = [(m, 4096, 4096) for m in (1, 16, 128)] + [(512, 512, 512), (64, 256, 64)]
    return [
        *(lambda s=s, d=d: float_case(*s, d) for s in shapes for d in (f32, torch.float64, bf16)),
        lambda: float_case(512, 512, 512, f32, True),
        *(lambda s=s, d=d: batch_case(1000, s, s, s, d) for s in (4, 8, 16, 32) for d in (f32, bf16)),
        *(lambda m=m, d=d: quantized_case(m, 4096, 4096, d) for m in rows for d in (f32, bf16)),
        *(
            lambda m=m, d=d, c=c: weight_only_case(m, 4096, 4096, d, c)
            for m in rows
            for d in (f32, bf16)
            for c in (torch.int8, torch.int4)
        ),
        *(lambda m=m: weight_only_case(m, 512, 512, f32, torch.int8) for m in (1, 16, 128)),
    ]
