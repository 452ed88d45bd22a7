"""What gpu_times measures: problems as they come in training, beside torch's eager ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import isobit
import torch
from isobit.plan import Plan
from torch import Tensor

Call = Callable[[], Any]
R = (-128, 127)
F8 = (-448, 448)
# Name, ours, torch's, and the bytes that it reads and writes, or 0.
Case = tuple[str, Call, Call | None, int]


def streaming(device: str, n: int) -> Iterator[Case]:
    """Ops that read and write every element once."""
    rows, columns = 4096, n // 4096
    x = torch.randn(rows, columns, device=device)
    h, dy = x.to(torch.bfloat16), torch.randn_like(x)
    s = torch.full((rows,), 0.05, device=device)
    z, zf = torch.zeros(rows, dtype=torch.int32, device=device), torch.zeros(rows, device=device)
    q = torch.randint(-128, 128, (rows, columns), dtype=torch.int8, device=device)
    aten, ops = torch.ops.aten, torch.ops.isobit
    learned = getattr(aten, "_fake_quantize_learnable_per_channel_affine_backward", None)
    e4m3 = torch.float8_e4m3fn
    for a, d, size in ((x, "f32", 4), (h, "bf16", 2)):
        b = dy.to(a.dtype)
        yield (
            f"quantize_per_channel {d} -> s8",
            partial(isobit.quantize_per_channel, a, s, z, 0, *R, torch.int8),
            (lambda: torch.quantize_per_channel(x, s.double(), z.long(), 0, torch.qint8)) if size == 4 else None,
            (size + 1) * n,
        )
        yield (
            f"quantize_per_channel {d} -> f8e4m3",
            partial(isobit.quantize_per_channel, a, s, None, 0, *F8, e4m3),
            partial(to_float8, a, s[:, None]),
            (size + 1) * n,
        )
        text = f"dequantize_per_channel q=s8[{rows},{columns}] zero_point=i32 axis=0 qmin=-128 qmax=127 y={d}"
        yield (
            f"dequantize_per_channel s8 -> {d}",
            into(text, torch.empty_like(a), q, s, z),
            partial(dequantize, q, s[:, None], z[:, None], a.dtype),
            (size + 1) * n,
        )
        yield (
            f"fake_quantize_per_channel {d}",
            partial(isobit.fake_quantize_per_channel_affine, a, s, z, 0, *R),
            partial(torch.fake_quantize_per_channel_affine, a, s, z, 0, *R),
            2 * size * n,
        )
        yield (
            f"fake_quantize_per_tensor {d}",
            partial(ops.fake_quantize_per_tensor_affine, a, s[0], z[0], *R),
            partial(torch.fake_quantize_per_tensor_affine, a, s[0], z[0], *R),
            2 * size * n,
        )
        yield (
            f"LSQ backward {d} per channel",
            partial(isobit.fake_quantize_per_channel_affine_backward, b, a, s, zf, 0, *R, grad_factor=0.01),
            partial(learned, b, a, s, zf, 0, *R, 0.01) if learned and size == 4 else None,
            3 * size * n,
        )
        yield (
            f"quantize_per_token_dynamic {d} -> s8",
            partial(ops.quantize_per_token_dynamic, a, *R, torch.int8),
            partial(dynamic, a),
            (size + 1) * n,
        )


def to_float8(x: Tensor, scale: Tensor) -> Tensor:
    return (x / scale).clamp(*F8).to(torch.float8_e4m3fn)


def dequantize(q: Tensor, scale: Tensor, zero_point: Tensor, dtype: torch.dtype) -> Tensor:
    return ((q.float() - zero_point) * scale).to(dtype)


def dynamic(x: Tensor) -> Tensor:
    return torch.round(x / (x.abs().amax(1, keepdim=True) / 127)).clamp(*R).to(torch.int8)


def sums(device: str, n: int) -> Iterator[Case]:
    """Sums in Stripe order, like streaming: positions along any axis, in one long reduction and in many short ones."""
    aten = torch.ops.aten
    channels = getattr(aten, "_fake_quantize_learnable_per_channel_affine_backward", None)
    tensor = getattr(aten, "_fake_quantize_learnable_per_tensor_affine_backward", None)
    x, dy = torch.randn(n, device=device), torch.randn(n, device=device)
    for shape, axis in (((n // 1024, 1024), 1), ((64, n // 64 // 4096, 64, 64), 1)):
        a, b = x.view(shape), dy.view(shape)
        s, z = torch.full((shape[axis],), 0.02, device=device), torch.zeros(shape[axis], device=device)
        yield (
            f"LSQ backward f32 axis {axis} of {len(shape)}",
            partial(isobit.fake_quantize_per_channel_affine_backward, b, a, s, z, axis, *R, grad_factor=0.01),
            partial(channels, b, a, s, z, axis, *R, 0.01) if channels else None,
            12 * n,
        )
    one, zero = torch.full((1,), 0.02, device=device), torch.zeros(1, device=device)
    yield (
        "LSQ backward f32 per tensor",
        lambda: isobit.fake_quantize_per_tensor_affine_backward(dy, x, one[0], zero[0], *R, grad_factor=0.01),
        (lambda: tensor(dy, x, one, zero, *R, 0.01)) if tensor else None,
        12 * n,
    )
    rows = x.view(-1, 4096)
    for d, size in ((torch.float32, 12), (torch.bfloat16, 6)):
        a, b = rows.to(d), dy.view(-1, 4096).to(d)
        s = torch.full((len(rows), 32), 0.02, device=device)
        yield (
            f"LSQ backward {str(d)[6:]} groups of 128",
            partial(isobit.fake_quantize_per_channel_group_affine_backward, b, a, s, None, *R, 128),
            None,
            size * n,
        )
    for name, a, *where in (("tensor", x), ("token", rows), ("channel_group", rows, 32), ("channel", rows, 1)):
        dims = {"tensor": None, "token": 1, "channel": 0}.get(name, 2)
        yield (
            f"choose_qparams_per_{name} f32",
            partial(getattr(isobit, f"choose_qparams_per_{name}"), a, *where, torch.int8),
            partial(torch.aminmax, a.view(len(rows), -1, 32) if dims == 2 else a, dim=dims),
            4 * n,
        )
    q = torch.randint(-128, 128, rows.shape, dtype=torch.int8, device=device)
    s, z = torch.full((len(rows), 1), 0.02, device=device), torch.zeros(len(rows), 1, device=device)
    yield (
        "dequantize_per_token_backward s8 f32",
        lambda: isobit.dequantize_per_token_backward(dy.view(rows.shape), q, s, z, *R),
        None,
        9 * n,
    )
    grid = dy[: n // 8].view(8, -1, 64, 2)
    yield "affine_grid_backward f32", partial(isobit.affine_grid_backward, grid, False), None, n // 2


def scatter(device: str, scale: int) -> Iterator[Case]:
    aten = torch.ops.aten
    vocabulary, columns, count = 50257, 768, 16384 // scale
    grad = torch.randn(count, columns, device=device)
    for name, ids in (
        ("uniform", torch.randint(vocabulary, (count,))),
        ("Zipf", (vocabulary ** torch.rand(count)).long() - 1),
        ("one hot row", torch.full((count,), 7)),
    ):
        ids = ids.clamp(0, vocabulary - 1).to(device)
        yield (
            f"embedding_backward {name}",
            partial(isobit.embedding_backward, grad, ids, vocabulary),
            partial(aten.embedding_dense_backward, grad, ids, vocabulary, -1, False),
            0,
        )
    for shape in ((16, 3, 512, 512), (16, 64, 128, 128), (1, 3, 1080, 1920)):
        n, c, h, w = shape[0], shape[1], shape[2] // scale, shape[3] // scale
        x, dy = torch.randn(n, c, h, w, device=device), torch.randn(n, c, h, w, device=device)
        theta = torch.tensor([[[0.9, 0.1, 0.02], [-0.1, 0.95, 0.0]]], device=device).repeat(n, 1, 1)
        smooth = torch.nn.functional.affine_grid(theta, [n, c, h, w], align_corners=False)
        grids = {"smooth": smooth, "random": torch.rand(n, h, w, 2, device=device) * 2 - 1}
        if shape == (16, 3, 512, 512):
            grids |= {"magnified 4 times": smooth / 4, "all in one cell": torch.zeros_like(smooth)}
        for name, grid in grids.items():
            label = f"{n}x{c}x{h}x{w} {name}"
            yield (
                f"grid_sample {label}",
                partial(isobit.grid_sample, x, grid),
                partial(aten.grid_sampler_2d, x, grid, 0, 0, False),
                0,
            )
            yield (
                f"grid_sample_backward {label}",
                partial(isobit.grid_sample_backward, dy, x, grid),
                partial(aten.grid_sampler_2d_backward, dy, x, grid, 0, 0, False, [True, True]),
                0,
            )
            yield (
                f"grid_sample_double_backward {label}",
                partial(isobit.grid_sample_double_backward, dy, x, grid, x, grid),
                None,
                0,
            )


def linear(device: str, scale: int) -> Iterator[Case]:
    size = 4096 // scale
    a = torch.randint(-128, 128, (size, size), dtype=torch.int8, device=device)
    s = torch.rand(size, device=device)
    for m in (size, 32):
        yield (
            f"quantized_linear {m}x{size}x{size}",
            partial(torch.ops.isobit.quantized_linear_codes, a[:m], s[:m], a, s, None, torch.float32),
            partial(int_mm, a[:m], a, s[:m, None] * s) if hasattr(torch, "_int_mm") else None,
            0,
        )
    w = torch.randn(size, size, device=device)
    for m, dtype in ((size, "f32"), (16, "f32"), (1, "f32"), (size, "bf16"), (16, "bf16"), (1, "bf16")):
        x, b = (t.to(torch.bfloat16 if dtype == "bf16" else torch.float32) for t in (w[:m], w.t()))
        text = f"matmul input={dtype}[{m},{size}] other={dtype}[{size},{size}]"
        yield (
            f"matmul {dtype} {m}x{size}x{size}",
            into(text, x.new_empty(m, size), x, b, None),
            partial(torch.matmul, x, b),
            0,
        )
    scale_of = torch.rand(size, (size + 127) // 128, device=device)
    for m, codes in ((1, "s8"), (16, "s8"), (1, "s4"), (16, "s4")):
        q = a if codes == "s8" else a.view(torch.uint8)[:, : (size + 1) // 2].contiguous()
        text = f"weight_only_linear x=f32[{m},{size}] weight={codes}[{size},{size}] bias=none group_size=128"
        call = into(text, w.new_empty(m, size), w[:m], q, scale_of, None, None)
        yield f"weight_only_linear {codes} {m}x{size}x{size}", call, partial(torch.matmul, w[:m], w.t()), 0
        if m == 1:
            yield from per_group(a, q, s, scale_of, codes, w)


def per_group(a: Tensor, q: Tensor, s: Tensor, scale: Tensor, codes: str, w: Tensor) -> Iterator[Case]:
    """Rows of codes, with zero points, against weights of a type in groups of 128."""
    size = len(a)
    zero = torch.randint(-128, 128, (size,), dtype=torch.int8, device=a.device)
    for m in (size, 16, 4, 1):
        text = f"quantized_linear_per_group x=s8[{m},{size}] x_zero_point=s8 weight={codes}[{size},{size}] bias=none group_size=128"
        call = into(text, w.new_empty(m, size), a[:m], s[:m], zero[:m], q, scale, None, None)
        yield f"quantized_linear_per_group {codes} {m}x{size}x{size}", call, partial(torch.matmul, w[:m], w.t()), 0


def int_mm(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    return torch._int_mm(x, weight.t()).float() * scale


def into(text: str, y: Tensor, *inputs: Tensor | None) -> Call:
    """A call of a problem into memory that it keeps."""
    plan = Plan(text + f" device={y.device}" * y.is_cuda)

    def call() -> Tensor:
        plan.run(*inputs, y)
        return y

    return call


def sizes(device: str) -> tuple[int, int]:
    """Elements of the streaming cases, and what the others are divided by."""
    return (1 << 18, 16) if device == "cpu" else (64 << 20, 1)


def cases(device: str) -> Iterator[Case]:
    n, scale = sizes(device)
    yield from streaming(device, n)
    yield from sums(device, n)
    yield from scatter(device, scale)
    yield from linear(device, scale)
