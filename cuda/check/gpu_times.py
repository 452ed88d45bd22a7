"""The measurements of gpu_check, beside torch's eager ops and torch.compile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import isobit
import torch
from gpu_report import Report
from isobit.plan import Plan
from torch import Tensor

Call = Callable[[], Any]
R = (-128, 127)


def elapsed(call: Call, on_gpu: bool, seconds: float = 0.2) -> float:
    """Median time of a call, in microseconds."""
    for _ in range(3):
        call()
    if not on_gpu:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e6)
        return sorted(times)[len(times) // 2]
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    count = max(5, min(200, int(seconds / max(time.perf_counter() - start, 1e-6))))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    for event in events[:-1]:
        event.record()
        call()
    events[-1].record()
    torch.cuda.synchronize()
    times = sorted(a.elapsed_time(b) * 1e3 for a, b in zip(events[:-1], events[1:], strict=True))
    return times[count // 2]


def overhead(call: Call, on_gpu: bool) -> float:
    """Time that a call keeps the host, in microseconds."""
    best = float("inf")
    for _ in range(20):
        if on_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(50):
            call()
        best = min(best, (time.perf_counter() - start) / 50 * 1e6)
    return best


def streaming(device: str, n: int) -> Iterator[tuple[str, Call, Call | None, int]]:
    """Ops that read and write every element once: name, ours, torch's, bytes."""
    rows, columns = 4096, n // 4096
    x = torch.randn(rows, columns, device=device)
    h, dy = x.to(torch.bfloat16), torch.randn_like(x)
    s = torch.full((rows,), 0.05, device=device)
    z, zf = torch.zeros(rows, dtype=torch.int32, device=device), torch.zeros(rows, device=device)
    q = torch.randint(-128, 128, (rows, columns), dtype=torch.int8, device=device)
    backward = getattr(torch.ops.aten, "_fake_quantize_learnable_per_channel_affine_backward", None)
    yield (
        "quantize_per_channel f32 -> s8",
        lambda: isobit.quantize_per_channel(x, s, z, 0, *R, torch.int8),
        lambda: torch.quantize_per_channel(x, s.double(), z.long(), 0, torch.qint8),
        5 * n,
    )
    yield (
        "quantize_per_channel bf16 -> s8",
        lambda: isobit.quantize_per_channel(h, s, z, 0, *R, torch.int8),
        None,
        3 * n,
    )
    yield (
        "dequantize_per_channel s8 -> f32",
        lambda: isobit.dequantize_per_channel(q, s, z, 0, *R, torch.int8),
        lambda: (q.float() - z[:, None]) * s[:, None],
        5 * n,
    )
    yield (
        "fake_quantize_per_channel f32",
        lambda: isobit.fake_quantize_per_channel_affine(x, s, z, 0, *R),
        lambda: torch.fake_quantize_per_channel_affine(x, s, z, 0, *R),
        8 * n,
    )
    yield (
        "fake_quantize_per_tensor f32",
        lambda: torch.ops.isobit.fake_quantize_per_tensor_affine(x, s[0], z[0], *R),
        lambda: torch.fake_quantize_per_tensor_affine(x, s[0], z[0], *R),
        8 * n,
    )
    yield (
        "fake_quantize_per_channel LSQ backward f32",
        lambda: isobit.fake_quantize_per_channel_affine_backward(dy, x, s, zf, 0, *R, grad_factor=0.01),
        (lambda: backward(dy, x, s, zf, 0, *R, 0.01)) if backward else None,
        12 * n,
    )
    yield (
        "quantize_per_token_dynamic f32 -> s8",
        lambda: torch.ops.isobit.quantize_per_token_dynamic(x, *R, torch.int8),
        lambda: torch.round(x / (x.abs().amax(1, keepdim=True) / 127)).clamp(*R).to(torch.int8),
        9 * n,
    )


def sums(device: str, n: int) -> Iterator[tuple[str, Call, Call | None, int]]:
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


def scatter(device: str, scale: int) -> Iterator[tuple[str, Call, Call | None, int]]:
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
        for name, grid in (("smooth", smooth), ("random", torch.rand(n, h, w, 2, device=device) * 2 - 1)):
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


def linear(device: str, scale: int) -> Iterator[tuple[str, Call, Call | None, int]]:
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


def int_mm(x: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    return torch._int_mm(x, weight.t()).float() * scale


def into(text: str, y: Tensor, *inputs: Tensor | None) -> Call:
    """A call of a problem into memory that it keeps."""
    plan = Plan(text + f" device={y.device}" * y.is_cuda)

    def call() -> Tensor:
        plan.run(*inputs, y)
        return y

    return call


def copy_bandwidth(device: str, n: int, on_gpu: bool) -> float:
    """Bytes per microsecond of a copy of n floats, each counted twice."""
    x = torch.randn(n, device=device)
    y = torch.empty_like(x)
    return 8 * n / elapsed(lambda: y.copy_(x), on_gpu)


def sizes(device: str) -> tuple[int, int]:
    """Elements of the streaming cases, and what the others are divided by."""
    return (1 << 18, 16) if device == "cpu" else (64 << 20, 1)


def cases(device: str) -> Iterator[tuple[str, Call, Call | None, int]]:
    n, scale = sizes(device)
    yield from streaming(device, n)
    yield from sums(device, n)
    yield from scatter(device, scale)
    yield from linear(device, scale)


def put(row: dict[str, Any], key: str, call: Call, on_gpu: bool) -> None:
    """Measures into a row, or notes why that failed."""
    try:
        row[key] = elapsed(call, on_gpu)
    except Exception as e:
        row[f"{key}_error"] = str(e)[:300]


def measure(device: str, report: Report) -> None:
    torch.set_float32_matmul_precision("highest")  # no TF32
    on_gpu = device != "cpu"
    copy = copy_bandwidth(device, sizes(device)[0], on_gpu)
    report["copy_gb_per_s"] = copy / 1e3
    rows: list[dict[str, Any]] = report.setdefault("times", [])
    for name, ours, theirs, size in cases(device):
        row: dict[str, Any] = {"name": name}
        rows.append(row)
        put(row, "us", ours, on_gpu)
        if size and "us" in row:
            row["of_copy"] = size / row["us"] / copy
        if theirs:
            put(row, "torch_us", theirs, on_gpu)
        report.save()
    small = torch.randn(8, 8, device=device)
    s, z = torch.ones(8, device=device), torch.zeros(8, dtype=torch.int32, device=device)
    own = overhead(lambda: isobit.fake_quantize_per_channel_affine(small, s, z, 0, *R), on_gpu)
    torchs = overhead(lambda: torch.fake_quantize_per_channel_affine(small, s, z, 0, *R), on_gpu)
    rows.append({"name": "host time of a small fake_quantize_per_channel", "us": own, "torch_us": torchs})
    if failed := [row["name"] for row in rows if "us" not in row]:
        raise AssertionError(f"these failed: {failed}")


def measure_compiled(device: str, report: Report, seconds: float = 200) -> None:
    """torch.compile beside measure's rows, as far as time allows. It needs a compiler, which the machine may lack."""
    rows: list[dict[str, Any]] = report.setdefault("times", [])
    end = time.perf_counter() + seconds
    for name, _, theirs, _ in cases(device):
        if theirs is None:
            continue
        row = next((row for row in rows if row["name"] == name), None)
        if row is None:
            rows.append(row := {"name": name})
        if time.perf_counter() > end:
            row["compiled_us_error"] = "no time was left"
            continue
        torch._dynamo.reset()
        put(row, "compiled_us", torch.compile(theirs), device != "cpu")
        report.save()
