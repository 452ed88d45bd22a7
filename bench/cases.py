"""What is measured: each op of isobit beside what PyTorch users call today."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import isobit
import torch
import torch.ao.quantization.fx._decomposed  # defines torch.ops.quantized_decomposed
from case import Call, Case, channels, compiled, gradients, parameters, reused, square
from composites import Learned, Least, Nothing, Straight, dequantize, dynamic, fake_quantize, quantize
from torch import Tensor

decomposed = torch.ops.quantized_decomposed


def quantize_case(n: int, dtype: torch.dtype, where: str, fresh: bool = False) -> Case:
    x, axis = channels(n, dtype, where)
    s, z = parameters(x.shape[axis])
    q = torch.empty(x.shape, dtype=torch.int8)
    out, allocates = reused(fresh, q)
    if dtype == torch.float32:
        target, zl = {"eager": 25, "compiled": 1.3, "roofline": 0.9}, z.long()

        def eager() -> Tensor:
            return torch.quantize_per_channel(x, s, zl, axis, torch.qint8)
    else:
        target = {"eager": 12, "compiled": 1.6, "roofline": 0.85}

        def eager() -> Tensor:
            return decomposed.quantize_per_channel(x, s, z, axis, -128, 127, torch.int8)

    return Case(
        f"quantize_per_channel {x.dtype} axis {where}".replace("torch.", ""),
        x.nbytes,
        q.nbytes,
        lambda: isobit.quantize_per_channel(x, s, z, axis, -128, 127, torch.int8, out=out),
        eager,
        compiled=compiled(quantize, x, s, z, axis),
        torchao=torchao_quantize(x, s, z, axis),
        targets=target if dtype != torch.float16 else {},
        allocates=allocates,
    )


def torchao_quantize(x: Tensor, s: Tensor, z: Tensor, axis: int) -> Call | None:
    try:
        from torchao.quantization.quant_primitives import quantize_affine
    except ImportError:
        return None
    block = tuple(1 if i == axis else d for i, d in enumerate(x.shape))
    return lambda: quantize_affine(x, block, s, z, torch.int8, -128, 127)


def dequantize_case(n: int, fresh: bool = False) -> Case:
    x = square(n, torch.float32)
    s, z = parameters(x.shape[0])
    q = isobit.quantize_per_channel(x, s, z, 0, -128, 127, torch.int8)
    y = torch.empty(x.shape)
    out, allocates = reused(fresh, y)
    theirs = torch.quantize_per_channel(x, s, z.long(), 0, torch.qint8)
    return Case(
        "dequantize_per_channel",
        q.nbytes,
        y.nbytes,
        lambda: isobit.dequantize_per_channel(q, s, z, 0, -128, 127, torch.int8, out=out),
        theirs.dequantize,
        compiled=compiled(dequantize, q, s, z, 0),
        targets={"eager": 1.3, "compiled": 1.2, "roofline": 0.9},
        allocates=allocates,
        least=lambda: torch.neg(y, out=y),
    )


def fake_quantize_case(n: int, fresh: bool = False) -> Case:
    x = square(n, torch.float32)
    s, z = parameters(x.shape[0])
    y = torch.empty(x.shape)
    out, allocates = reused(fresh, y)
    return Case(
        "fake_quantize_per_channel forward",
        x.nbytes,
        y.nbytes,
        lambda: isobit.fake_quantize_per_channel_affine(x, s, z, 0, -128, 127, out=out),
        lambda: torch.fake_quantize_per_channel_affine(x, s, z, 0, -128, 127),
        compiled=compiled(fake_quantize, x, s, z),
        targets={"eager": 16, "compiled": 1.2, "roofline": 0.9},
        allocates=allocates,
    )


def fake_quantize_training_case(n: int) -> Case:
    x = square(n, torch.float32).requires_grad_()
    s, z = parameters(x.shape[0])
    dy = torch.randn(x.shape)
    return Case(
        "fake_quantize_per_channel forward + backward",
        3 * x.nbytes,
        2 * x.nbytes,
        gradients(lambda x, s, z: isobit.fake_quantize_per_channel_affine(x, s, z, 0, -128, 127), (x, s, z), dy),
        gradients(lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 0, -128, 127), (x, s, z), dy),
        compiled=gradients(torch.compile(Straight.apply, dynamic=False), (x, s, z), dy),
        targets={"eager": 8, "compiled": 1.2, "roofline": 0.9},
        allocates="both",
        least=gradients(Least.apply, (x, s, z), dy),
        engine=gradients(Nothing.apply, (x, s, z), dy),
    )


def lsq_case(n: int) -> Case:
    x = square(n, torch.float32).requires_grad_()
    s = (torch.rand(x.shape[0]) * 0.05 + 0.01).requires_grad_()
    z = torch.zeros(x.shape[0]).requires_grad_()
    dy = torch.randn(x.shape)
    return Case(
        "LSQ forward + backward, three gradients",
        3 * x.nbytes,
        2 * x.nbytes,
        gradients(lambda x, s, z: isobit.fake_quantize_per_channel_affine(x, s, z, 0, -128, 127), (x, s, z), dy),
        gradients(
            lambda x, s, z: torch._fake_quantize_learnable_per_channel_affine(x, s, z, 0, -128, 127, 1.0), (x, s, z), dy
        ),
        compiled=gradients(torch.compile(Learned.apply, dynamic=False), (x, s, z), dy),
        targets={"eager": 9, "compiled": 1.5, "roofline": 0.85},
        allocates="both",
        least=gradients(Least.apply, (x, s, z), dy),
        engine=gradients(Nothing.apply, (x, s, z), dy),
    )


def token_backward_case(n: int, dtype: torch.dtype) -> Case:
    dy = square(n, dtype)
    s = (torch.rand(dy.shape[0]) * 0.05 + 0.01).to(dtype)
    dx = torch.empty_like(dy)
    types = isobit_types[dtype]
    plan = isobit.Plan(
        f"dequantize_per_token_backward grad_output={types}[{dy.shape[0]},{dy.shape[1]}] q=none "
        f"scale={types} zero_point=none qmin=-128 qmax=127"
    )
    eager = {torch.float32: 1.3, torch.bfloat16: 1.0, torch.float16: 1.0}[dtype]
    return Case(
        f"dequantize_per_token_backward {dtype}".replace("torch.", ""),
        dy.nbytes,
        dx.nbytes,
        lambda: plan.run(dy, None, s, None, dx, None, None),
        lambda: torch.mul(dy, s[:, None], out=dx),
        compiled=compiled(lambda dy, s: dy * s[:, None], dy, s),
        targets={"eager": eager, "compiled": 1.2, "roofline": 0.9},
        least=lambda: torch.neg(dy, out=dx),
    )


isobit_types = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


def dynamic_case(n: int) -> Case:
    x = square(n, torch.float32)

    def eager() -> Tensor:
        s, z = decomposed.choose_qparams_per_token(x, torch.int8)
        return decomposed.quantize_per_token(x, s, z, -128, 127, torch.int8)

    return Case(
        "dynamic quantize_per_token",
        x.nbytes,
        x.numel(),
        lambda: isobit.quantize_per_token_dynamic(x, torch.int8),
        eager,
        compiled=compiled(dynamic, x),
        targets={"eager": 10, "compiled": 1.3, "roofline": 0.85},
        allocates="both",
        row=x[0].nbytes,
    )


def dynamic_group_case(n: int, group: int = 32) -> Case:
    x = torch.randn(max(1, n // 4096), min(n // group * group, 4096))

    def composite() -> tuple[Tensor, Tensor]:
        return dynamic(x.unflatten(-1, (-1, group)))

    return Case(
        f"dynamic quantize_per_channel_group {group}",
        x.nbytes,
        x.numel() + 4 * x.numel() // group,
        lambda: isobit.quantize_per_channel_group_dynamic(x, group),
        composite,
        compiled=compiled(dynamic, x.unflatten(-1, (-1, group))),
        allocates="both",
    )


def linear_case(m: int, k: int, n: int) -> Case:
    x, w = torch.randn(m, k), torch.randn(n, k)
    xq, xs, _ = isobit.quantize_per_token_dynamic(x, torch.int8)
    wq, ws, _ = isobit.quantize_per_token_dynamic(w, torch.int8)
    return Case(
        f"quantized_linear {m}x{k}x{n}",
        xq.nbytes + wq.nbytes,
        4 * m * n,
        lambda: isobit.quantized_linear_codes(xq, xs.flatten(), wq, ws.flatten()),
        lambda: torch.nn.functional.linear(x, w),
        targets={"eager": 4},
        allocates="both",
        operations=m * k * n,
    )


def target_cases(n: int = 1 << 24) -> list[Callable[[], Case]]:
    """The table of targets: made one at a time, to keep memory low."""
    f32, bf16, f16 = torch.float32, torch.bfloat16, torch.float16
    return [
        *(lambda a=a: quantize_case(n, f32, a) for a in AXES),
        lambda: quantize_case(n, bf16, "first"),
        lambda: dequantize_case(n),
        lambda: fake_quantize_case(n),
        lambda: fake_quantize_training_case(n),
        lambda: lsq_case(n),
        lambda: token_backward_case(n, f32),
        lambda: token_backward_case(n, bf16),
        lambda: token_backward_case(n, f16),
        lambda: dynamic_case(n),
        lambda: linear_case(512, 4096, 4096),
    ]


def sweep_cases(n: int) -> list[Callable[[], Case]]:
    """The elementwise ops at one size, every type and axis."""
    types = (torch.float32, torch.bfloat16, torch.float16)
    cases = [lambda d=d, a=a: quantize_case(n, d, a) for d in types for a in AXES]
    cases += [lambda d=d: token_backward_case(n, d) for d in types]
    return [lambda m=m: untargeted(m()) for m in [*cases, *(lambda f=f: f(n) for f in FAMILY)]]


FAMILY = (dequantize_case, fake_quantize_case, fake_quantize_training_case, lsq_case, dynamic_case, dynamic_group_case)
AXES = ("first", "middle", "last")


def small_cases() -> list[Callable[[], Case]]:
    """Eager calls on 512 elements, which are to take 0.6 of PyTorch's time at most."""
    return [lambda m=m: replace(m(), targets={"eager": 1 / 0.6}) for m in sweep_cases(512)]


def untargeted(case: Case) -> Case:
    """The targets are for one size."""
    case.targets = {}
    return case


def crossover_cases(n: int) -> list[Callable[[], Case]]:
    return [lambda f=f: f(n) for f in (fake_quantize_case, lsq_case, dynamic_case)]


def fresh_cases(n: int = 1 << 24) -> list[Callable[[], Case]]:
    """Ops with a large output, which both sides allocate."""
    makers = (
        lambda: quantize_case(n, torch.float32, "first", fresh=True),
        lambda: dequantize_case(n, fresh=True),
        lambda: fake_quantize_case(n, fresh=True),
        lambda: fake_quantize_training_case(n),
        lambda: lsq_case(n),
        lambda: dynamic_case(n),
    )

    def aimed(case: Case) -> Case:
        case.targets = {"eager": 2}
        return case

    return [lambda m=m: aimed(m()) for m in makers]
