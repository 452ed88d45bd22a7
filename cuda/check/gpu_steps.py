"""The steps of gpu_check that call torch: gradients, products, opcheck, errors."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import isobit
import torch
from gpu_report import Report
from isobit.plan import Plan
from torch import Tensor

R = (-128, 127)


def digest(t: torch.Tensor) -> str:
    """SHA-256 of the elements' bits, every NaN the same."""
    t = t.detach().cpu().contiguous()
    if t.dtype.is_floating_point and t.dtype.itemsize == 1:
        t = t.float()
    if t.is_floating_point():
        t = torch.where(t.isnan(), torch.full_like(t, float("nan")), t)
    data = (ctypes.c_char * t.nbytes).from_address(t.data_ptr()) if t.numel() else b""  # torch comes without NumPy
    return hashlib.sha256(data).hexdigest()[:16]


def digests(y: Any) -> list[str]:
    """Those of an op's results, one or several."""
    return [digest(t) for t in ([y] if isinstance(y, Tensor) else y)]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def codes(x: Tensor, s: Tensor, z: Tensor) -> Tensor:
    """Float codes carry the straight-through gradient."""
    q = isobit.quantize_per_channel(x, s, z, 0, *R, torch.float32)
    return isobit.dequantize_per_channel(q, s, z, 0, *R, torch.float32)


def twice(mode: str, padding: str) -> Callable[..., Tensor]:
    """The gradients of grid_sample, which can be differentiated again."""

    def gradients(x: Tensor, g: Tensor) -> Tensor:
        y = isobit.grid_sample(x, g, mode, padding)
        return torch.cat([d.flatten() for d in torch.autograd.grad(y, (x, g), y, create_graph=True)])

    return gradients


S, Z = torch.rand(16, generator=torch.Generator().manual_seed(1)) / 16 + 0.01, torch.zeros(16)
IDS = torch.randint(50, (40, 30), generator=torch.Generator().manual_seed(2))
GRID = random(2, 40, 30, 2) / 2
# Name: a function, and its inputs; those of a float type get gradients.
PROGRAMS: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "LSQ": (
        lambda x, s, z: isobit.fake_quantize_per_channel_affine(x, s, z, 0, *R, grad_factor=0.1),
        (random(16, 300), S, Z),
    ),
    "fake quantize by numbers": (lambda x: isobit.fake_quantize_per_tensor_affine(x, 0.3, 1, *R), (random(70, 9),)),
    "fake quantize per token": (
        lambda x, s: isobit.fake_quantize_per_token_affine(x, s, None, *R),
        (random(16, 300), S.reshape(16, 1)),
    ),
    "fake quantize to 8-bit floats": (
        lambda x, s: isobit.fake_quantize_per_channel_affine(x, s, None, 0, -448, 448, code_dtype=torch.float8_e4m3fn),
        (random(16, 300), S),
    ),
    "codes": (codes, (random(16, 300), S, Z.int())),
    "embedding": (lambda w, i: isobit.embedding(i, w, padding_idx=3), (random(50, 24), IDS)),
    "embedding by frequency": (lambda w, i: isobit.embedding(i, w, scale_grad_by_freq=True), (random(50, 7), IDS)),
    "bags": (lambda w, i: isobit.embedding_bag(i, w, padding_idx=3), (random(50, 24), IDS)),
    "bags, the largest": (lambda w, i: isobit.embedding_bag(i, w, mode="max"), (random(50, 7), IDS)),
    "bags, weighted": (
        lambda w, i, p: isobit.embedding_bag(i, w, mode="sum", per_sample_weights=p),
        (random(50, 24), IDS, random(*IDS.shape)),
    ),
    "bags of codes": (
        lambda p, s, i, w: isobit.weight_only_embedding_bag(i, w, s, mode="sum", per_sample_weights=p, group_size=24),
        (random(*IDS.shape), random(50, 1), IDS, (50 * random(50, 24)).to(torch.int8)),
    ),
    "grid_sample": (isobit.grid_sample, (random(2, 20, 9, 11), GRID)),
    "grid_sample reflection": (
        lambda x, g: isobit.grid_sample(x, g, "bilinear", "reflection", True),
        (random(2, 3, 9, 11), 3 * GRID),
    ),
    "grid_sample bicubic": (
        lambda x, g: isobit.grid_sample(x, g, "bicubic", "border"),
        (random(2, 20, 9, 11), 2 * GRID),
    ),
    "grid_sample bicubic of volumes": (
        lambda x, g: isobit.grid_sample(x, g, "bicubic", "reflection"),
        (random(2, 20, 5, 6, 7), random(2, 8, 9, 10, 3)),
    ),
    "grid_sample twice": (twice("bilinear", "zeros"), (random(2, 20, 9, 11), GRID)),
    "grid_sample of volumes twice": (
        twice("bilinear", "border"),
        (random(2, 3, 5, 6, 7), random(2, 8, 9, 10, 3)),
    ),
    "grid_sample bicubic twice": (twice("bicubic", "reflection"), (random(2, 20, 9, 11), 2 * GRID)),
    "linear": (isobit.linear, (random(40, 70), random(30, 70), random(30))),
    "products of batches": (isobit.matmul, (random(3, 70, 20), random(3, 20, 65))),
    "quantized linear": (isobit.quantized_linear, (random(40, 70), random(30, 70), random(30))),
    "affine_grid": (lambda t: isobit.affine_grid(t, [2, 3, 40, 50]), (random(2, 2, 3),)),
}
CODES = (50 * random(16, 30)).to(torch.int8)
# Name: a raw op's arguments.
SAMPLES: dict[str, tuple[Any, ...]] = {
    "quantize_per_channel": (random(16, 30), S, None, 0, *R, torch.int8),
    "quantize_per_channel_backward": (random(16, 30), random(16, 30), S, None, 0, *R),
    "dequantize_per_channel": (random(16, 30).to(torch.int8), S, Z.int(), 0, *R, torch.int8),
    "fake_quantize_per_channel_affine": (random(16, 30), S, Z, 0, *R),
    "quantize_per_token_dynamic": (random(16, 30), *R, torch.int8),
    "embedding": (random(50, 24), IDS),
    "embedding_backward": (random(40, 30, 24), IDS, 50),
    "embedding_bag": (random(50, 24), IDS, None, None, IDS.shape[0]),
    "embedding_bag_backward": (random(IDS.shape[0], 24), IDS, None, None, None, 50),
    "embedding_bag_per_sample_weights_backward": (random(IDS.shape[0], 24), random(50, 24), IDS, None),
    "weight_only_embedding_bag": (
        *((50 * random(50, 24)).to(torch.int8), IDS, None, None, random(50, 1), None),
        *(IDS.shape[0], 24, torch.int8, torch.float32),
    ),
    "grid_sample": (random(2, 3, 9, 11), GRID),
    "grid_sample_backward": (random(2, 3, 40, 30), random(2, 3, 9, 11), GRID),
    "grid_sample_double_backward": (
        random(2, 3, 40, 30),
        random(2, 3, 9, 11),
        GRID,
        random(2, 3, 9, 11, seed=3),
        random(2, 40, 30, 2, seed=4),
    ),
    "affine_grid": (random(2, 2, 3), [2, 3, 4, 5]),
    "affine_grid_backward": (random(2, 40, 50, 2), [2, 2, 3]),
    "quantized_linear_codes": (CODES[:5], S[:5], CODES, S, random(16), torch.float32),
    "matmul": (random(40, 70), random(70, 30), random(30)),
    "weight_only_linear": (random(3, 30), CODES, random(16, 2), None, None, 16, torch.int8, 30),
}


def to(device: str, values: tuple[Any, ...], gradients: bool = False) -> tuple[Any, ...]:
    moved = (v.detach().to(device, copy=True) if isinstance(v, Tensor) else v for v in values)
    return tuple(
        v.requires_grad_() if gradients and isinstance(v, Tensor) and v.is_floating_point() else v for v in moved
    )


def results(device: str, name: str) -> list[str]:
    """Digests of a program's result and gradients."""
    function, inputs = PROGRAMS[name]
    inputs = to(device, inputs, gradients=True)
    y = function(*inputs)
    y.backward(random(*y.shape, seed=9).to(device))
    return [digest(y), *(digest(v.grad) for v in inputs if v.grad is not None)]


def each(report: Report, table: Iterable[str], check: Callable[[str], str | None]) -> None:
    """Checks the rows of a table that were asked for, then raises with what was wrong."""
    wrong = []
    for name in report.matching(table):
        try:
            why = check(name)
        except Exception as e:
            why = f"{type(e).__name__}: {e}"
        if why:
            wrong.append(f"{name}: {why}")
    if wrong:
        raise AssertionError("; ".join(wrong))


def check_gradients(device: str, report: Report) -> None:
    def check(name: str) -> str | None:
        return None if results("cpu", name) == results(device, name) else "its result or gradients are not the CPU's"

    each(report, PROGRAMS, check)


# Those of codes in groups, with zero points, of more than the cases have: types, rows, a group.
CODE_PRODUCTS = (("u8", "s8", 200, 160), ("s8", "u4", 200, 32), ("u8", "s4", 5, 32), ("s8", "u8", 1, 104))


def draw_codes(dtype: str, rows: int, columns: int, seed: int) -> Tensor:
    """Codes of a type; those of 4 bits come as bytes of two."""
    x = 64 * random(rows, columns // 2 if dtype.endswith("4") else columns, seed=seed)
    return x.clamp(*R).to(torch.int8).view(torch.int8 if dtype == "s8" else torch.uint8)


def code_product(x: str, weight: str, m: int, group: int) -> tuple[str, tuple[Tensor | None, ...], tuple[int, int]]:
    """A problem, its inputs, and the shape of its result in f32."""
    n, k = 150, 2080
    text = f"quantized_linear_per_group x={x}[{m},{k}] x_zero_point=f32 weight={weight}[{n},{k}]"
    of_rows, of_groups = random(m, seed=4), random(n, k // group, seed=3)
    parameters = (draw_codes(weight, n, k, 2), of_groups, 9 * of_groups, random(n, seed=6))
    inputs: tuple[Tensor | None, ...] = (draw_codes(x, m, k, 1), of_rows, 50 * of_rows, *parameters)
    return f"{text} weight_zero_point=f32 group_size={group}", inputs, (m, n)


def check_products(device: str, report: Report) -> None:
    """Products that are too large for the definitions, against the CPU's fast rows; and those of codes in groups."""
    of_codes = {f"{x} x {weight} of {m} rows": (x, weight, m, group) for x, weight, m, group in CODE_PRODUCTS}
    factors = {
        "f32": (random(24, 300, 400), random(24, 250, 400).mT, random(250)),
        "f64": (random(300, 1000).double(), random(1000, 130).double(), None),
        "bf16": (random(1000, 100).bfloat16().t(), random(1000, 60).bfloat16(), None),
    }

    def product(where: str, name: str) -> Tensor:
        if name in of_codes:
            text, inputs, shape = code_product(*of_codes[name])
            y = torch.empty(*shape, device=where)
        else:
            x, other, bias = inputs = factors[name]
            y = torch.empty(*x.shape[:-1], other.shape[-1], dtype=x.dtype, device=where)
            text = f"matmul input={name}{list(x.shape)} other={name}{list(other.shape)}".replace(", ", ",")
            text += "" if bias is None else f" bias={name}"
        Plan(text if where == "cpu" else f"{text} device={where}").run(*to(where, inputs), y)
        return y

    def check(name: str) -> str | None:
        return None if digest(product("cpu", name)) == digest(product(device, name)) else "is not the CPU's product"

    each(report, [*factors, *of_codes], check)


def check_ops(device: str, report: Report) -> None:
    def check(name: str) -> None:
        torch.library.opcheck(getattr(torch.ops.isobit, name).default, to(device, SAMPLES[name]))

    each(report, SAMPLES, check)


_OUT_OF_BOUNDS = """
import isobit, torch
isobit.embedding(torch.tensor([0, 7], device={device!r}), torch.ones(4, 8, device={device!r}))
torch.cuda.synchronize()
"""


def check_errors(device: str, report: Report) -> None:
    x = random(4, 4)
    try:
        isobit.quantize_per_channel(x.to(device), S[:4], None, 0, *R, torch.int8)
    except (ValueError, RuntimeError) as e:
        report["mixed_devices"] = str(e)
    else:
        raise AssertionError("tensors of two devices were accepted")


def check_out_of_bounds(device: str, report: Report) -> None:
    # A trap ends the context, so it happens in another process.
    command = [sys.executable, "-P", "-c", _OUT_OF_BOUNDS.format(device=device)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    report["out_of_bounds"] = (done.stdout + done.stderr)[-2000:]
    if done.returncode == 0 or " is 7 at position 1" not in done.stdout + done.stderr:
        raise AssertionError("an index out of bounds did not stop the run with its position")
