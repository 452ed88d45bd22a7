"""quantize_*: floats to codes, and the straight-through gradient."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .._explain import explain
from .._gradient import saved_values, saving
from .._op import Op
from .._out import write_out
from .._vmap import vmap_elementwise
from ._granularity import GRANULARITIES, code_name, is_float8, with_scalars, without_zero_point


def _backward_of(op: Op, leading: int) -> Any:
    dtype_at = leading + 2  # among the forward's attributes: behind the range

    def backward(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
        x, scale, zero_point = saved_values(ctx)
        attributes = (*ctx.attributes[:dtype_at], *ctx.attributes[dtype_at + 1 :])  # all but the dtype
        grad = op(grad_output, x, scale, zero_point, *attributes, "int") if ctx.needs_input_grad[0] else None
        return (grad, *[None] * (len(ctx.attributes) + 2))

    return backward


def _define(name: str) -> tuple[Op, Op]:
    f = GRANULARITIES[name]
    forward = Op(
        f"quantize_{name}({f.parameters()}, ScalarType dtype{f.group_schema()}, str rounding='nearest') -> Tensor",
        f"quantize_{f.plan}",
        "x[] scale@ zero_point#?",
        f"{f.range()} dtype:d{f.group_attribute()} rounding:s",
        "q ~ x : dtype",
    )
    backward = Op(
        f"quantize_{name}_backward(Tensor grad_output, {f.parameters()}{f.group_schema()}, str rounding='nearest', str code='int') -> Tensor",
        f"quantize_{f.plan}_backward",
        "grad_output[] x scale@ zero_point#?",
        f"{f.range()}{f.group_attribute()} rounding:s code:s",
        "grad_input ~ x : x",
    )
    forward.differentiable(saving(3), _backward_of(backward, f.leading()))
    backward.not_differentiable()
    vmap_elementwise(forward, f, data=(0,))
    vmap_elementwise(backward, f, data=(0, 1))
    return forward, backward


_OPS = {name: _define(name) for name in GRANULARITIES}
_per_tensor, _per_channel, _per_token, _per_group, per_block = (_OPS[name][0].fast for name in GRANULARITIES)


def dispatched(name: str, dtype: torch.dtype, out: Tensor | None, *args: Any) -> Tensor:
    """The call where it is not the direct one: gradients, tracing, errors."""
    op = _OPS[name][0]
    if not isinstance(args[0], Tensor):
        raise TypeError(f"{op.name}: input must be a Tensor, not {type(args[0]).__name__}")
    args = with_scalars(name, args)
    if is_float8(dtype):
        args = without_zero_point(op, args, 2)
    carries = isinstance(dtype, torch.dtype) and dtype.is_floating_point and not is_float8(dtype)
    call = op.apply if carries and out is None else op if out is None else partial(write_out, op, out)
    detached = (a.detach() if isinstance(a, Tensor) and i >= carries else a for i, a in enumerate(args))
    if is_dynamo_compiling():  # which has the words of the op's fake
        return call(*detached)
    try:
        return call(*detached)
    except Exception:
        explain(op, args)
        raise


def quantize_per_tensor(
    input: Tensor,
    scale: float | Tensor,
    zero_point: int | Tensor | None,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    rounding: str = "nearest",
    out: Tensor | None = None,
) -> Tensor:
    """Codes ``clamp(rint(input / scale) + zero_point, quant_min, quant_max)`` of floats, in input's shape.

    As ``torch.ops.quantized_decomposed.quantize_per_tensor``. ``dtype`` is that of the codes: int8, uint8, int16,
    uint16, int32, float64, float32, float16, bfloat16, or an 8-bit float, which has a scale only; torch.int4 and
    torch.uint4 give bytes (uint8) with two codes each, the lower half first, along the last dimension. A float
    ``zero_point`` is rounded and clamped; None is 0. ``rounding="reciprocal"`` multiplies by ``1 / scale`` instead
    of dividing: PyTorch's bits on the CPU where float32 holds the scale, except for NaN. ``out`` takes the result.

    Codes of 16 bits or more that are floats carry the straight-through gradient to ``input`` alone; others carry
    none. For gradients of scale and zero point, or through all codes, use fake_quantize.

    >>> isobit.quantize_per_tensor(torch.tensor([-1.0, 0.26, 9.0]), 0.1, 3, -8, 7, torch.int8).tolist()
    [-7, 6, 7]
    """
    if not is_dynamo_compiling():
        q = _per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, rounding, out)
        if q is not NotImplemented:
            return q
    return dispatched("per_tensor", dtype, out, input, scale, zero_point, quant_min, quant_max, dtype, rounding)


def quantize_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    rounding: str = "nearest",
    out: Tensor | None = None,
) -> Tensor:
    """As quantize_per_tensor, with a scale and a zero point for each index along ``axis``:
    each is ``[input.shape[axis]]``.

    >>> x = torch.tensor([[0.1, -2.5, 7.0], [1.0, 2.0, 3.0]])
    >>> isobit.quantize_per_channel(x, torch.tensor([0.05, 0.1]), None, 0, -128, 127, torch.int8).tolist()
    [[2, -50, 127], [10, 20, 30]]
    """
    if not is_dynamo_compiling():
        q = _per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype, rounding, out)
        if q is not NotImplemented:
            return q
    return dispatched(
        "per_channel", dtype, out, input, scales, zero_points, axis, quant_min, quant_max, dtype, rounding
    )


def quantize_per_token(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    rounding: str = "nearest",
    out: Tensor | None = None,
) -> Tensor:
    """As quantize_per_tensor, with a scale and a zero point for each row of the last dimension:
    their shape is ``input.shape[:-1]``, or that with a last 1."""
    if not is_dynamo_compiling():
        q = _per_token(input, scales, zero_points, quant_min, quant_max, dtype, rounding, out)
        if q is not NotImplemented:
            return q
    return dispatched("per_token", dtype, out, input, scales, zero_points, quant_min, quant_max, dtype, rounding)


def quantize_per_channel_group(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int = 128,
    *,
    rounding: str = "nearest",
    out: Tensor | None = None,
) -> Tensor:
    """As quantize_per_tensor, with a scale and a zero point for each ``group_size`` elements along
    the last dimension (the last group may be shorter): their shape is
    ``[..., ceil(input.shape[-1] / group_size)]``."""
    if not is_dynamo_compiling():
        q = _per_group(input, scales, zero_points, quant_min, quant_max, dtype, group_size, rounding, out)
        if q is not NotImplemented:
            return q
    args = (input, scales, zero_points, quant_min, quant_max, dtype, group_size, rounding)
    return dispatched("per_channel_group", dtype, out, *args)


def gradient(name: str, args: tuple[Any, ...], rounding: str, code_dtype: torch.dtype | None) -> Tensor:
    op = _OPS[name][1]
    code = code_name(op.name, code_dtype)
    if code != "int":
        args = without_zero_point(op, args, 3)
    return op(*args, rounding, code)


def quantize_per_tensor_backward(
    grad_output: Tensor,
    input: Tensor,
    scale: float | Tensor,
    zero_point: int | Tensor | None,
    quant_min: int,
    quant_max: int,
    *,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
) -> Tensor:
    """The straight-through gradient of quantize, in input's shape and dtype: ``grad_output / scale`` where
    the code was inside the range, else 0 (also where grad_output is infinite or NaN). ``code_dtype``
    names 8-bit float codes."""
    args = (grad_output, input, scale, zero_point, quant_min, quant_max)
    return gradient("per_tensor", args, rounding, code_dtype)


def quantize_per_channel_backward(
    grad_output: Tensor,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    *,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
) -> Tensor:
    """As quantize_per_tensor_backward, with the scales and zero points of quantize_per_channel."""
    args = (grad_output, input, scales, zero_points, axis, quant_min, quant_max)
    return gradient("per_channel", args, rounding, code_dtype)


def quantize_per_token_backward(
    grad_output: Tensor,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    *,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
) -> Tensor:
    """As quantize_per_tensor_backward, with the scales and zero points of quantize_per_token."""
    args = (grad_output, input, scales, zero_points, quant_min, quant_max)
    return gradient("per_token", args, rounding, code_dtype)


def quantize_per_channel_group_backward(
    grad_output: Tensor,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    group_size: int = 128,
    *,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
) -> Tensor:
    """As quantize_per_tensor_backward, with the scales and zero points of quantize_per_channel_group."""
    args = (grad_output, input, scales, zero_points, quant_min, quant_max, group_size)
    return gradient("per_channel_group", args, rounding, code_dtype)
