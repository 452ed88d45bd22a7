"""dequantize_*: codes to floats, and the gradients of codes, scale and zero point."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .._checks import spell
from .._errors import ArgumentError
from .._explain import check_codes
from .._gradient import rounded, saved_values, saving
from .._load import PACKED
from .._op import Op
from .._out import write_out
from .._vmap import vmap_elementwise
from ._granularity import GRANULARITIES, is_float8, with_scalars, without_zero_point

Gradients = tuple[Tensor | None, Tensor | None, Tensor | None]


def is_learned(zero_point: Any) -> bool:
    """Whether a zero point can have a gradient: a float tensor."""
    return isinstance(zero_point, Tensor) and zero_point.is_floating_point()


def _backward_of(op: Op, leading: int, group: bool) -> Any:
    dtype_at = leading + 2  # among the forward's attributes: behind the range; a group's size follows it

    def backward(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
        q, scale, zero_point = saved_values(ctx)
        attributes = ctx.attributes
        size, check = (attributes[dtype_at + 1 : dtype_at + 2], attributes[-1:]) if group else ((), ())
        wants = ctx.needs_input_grad[:3]
        if wants[0] and grad_output.dtype not in (q.dtype, torch.float64):
            grad_output = grad_output.float()  # exact: the codes' gradient is rounded once, to their dtype
        grads = op(
            grad_output, q, scale, zero_point, *attributes[:dtype_at], *size, *wants, attributes[dtype_at], *check
        )
        if wants[0] and grads[0].dtype != q.dtype:
            grads = (rounded(grads[0], q.dtype), *grads[1:])
        return (*grads, *[None] * len(attributes))

    return backward


def _define(name: str) -> tuple[Op, Op]:
    f = GRANULARITIES[name]
    # weight_only_linear has groups.
    check, check_attribute = (", bool check_zero_point=True", " check_zero_point:b") if f.group else ("", "")
    forward = Op(
        f"dequantize_{name}({f.parameters()}, ScalarType dtype{f.group_schema()}, ScalarType? out_dtype=None, "
        f"SymInt? last_dim=None{check}) -> Tensor",
        f"dequantize_{f.plan}",
        "q[]* scale@ zero_point#?",
        f"{f.range()} dtype:m{f.group_attribute()} out_dtype:d? last_dim:e?{check_attribute}",
        "y ~ q : out_dtype",
    )
    backward = Op(
        f"dequantize_{name}_backward(Tensor grad_output, {f.parameters()}{f.group_schema()}, "
        f"bool want_input=True, bool want_scale=True, bool want_zero_point=False, ScalarType? dtype=None{check})"
        " -> (Tensor, Tensor, Tensor)",
        f"dequantize_{f.plan}_backward",
        "grad_output[] q* scale@ zero_point#?",
        f"{f.range()}{f.group_attribute()} want_input:w want_scale:w want_zero_point:w dtype:m?{check_attribute}",
        "grad_input = grad_output : grad_output if want_input",
        "grad_scale = scale : scale if want_scale",
        "grad_zero_point = zero_point : zero_point if want_zero_point",
    )
    if name in ("per_token", "per_channel_group"):
        forward.names |= {"out_dtype": "output_dtype", "y": "output_dtype"}  # torch's name there
    forward.differentiable(saving(3), _backward_of(backward, f.leading(), f.group))
    backward.not_differentiable()
    vmap_elementwise(forward, f, data=(0,))
    vmap_elementwise(backward, f, data=(0, 1))
    return forward, backward


_OPS = {name: _define(name) for name in GRANULARITIES}
_per_tensor, _per_channel, _per_token, _per_group, per_block = (_OPS[name][0].direct for name in GRANULARITIES)


def dispatched(name: str, dtype: torch.dtype, out: Tensor | None, *args: Any) -> Tensor:
    """The call where it is not the direct one: gradients, tracing, errors."""
    op = _OPS[name][0]
    if not isinstance(args[0], Tensor):
        raise TypeError(f"{op.name}: input must be a Tensor, not {type(args[0]).__name__}")
    came = args[0].dtype
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{op.name}: dtype must be a torch.dtype, not {spell(dtype)}; want {came}, that of input")
    if came != dtype:
        check_codes(op, args[0])
    if dtype in PACKED and came != torch.uint8:
        raise ArgumentError(f"{op.name}: input is {came}; want torch.uint8 for dtype={dtype}")
    if dtype not in PACKED and came != dtype:
        raise ArgumentError(f"{op.name}: dtype is {dtype}; want {came}, that of input")
    args = with_scalars(name, args)
    if is_float8(dtype):
        args = without_zero_point(op, args, 2)
    if out is not None:
        return write_out(op, out, *args)
    return op.apply(*args)


def dequantize_per_tensor(
    input: Tensor,
    scale: float | Tensor,
    zero_point: int | Tensor | None,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
    last_dim: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Floats ``(input - zero_point) * scale``, in input's shape.

    As ``torch.ops.quantized_decomposed.dequantize_per_tensor``; ``dtype`` is that of input. The
    result is float32 unless ``out_dtype`` says otherwise, or that of float codes. Gradients reach
    float codes, a scale and a float zero point that require them. Codes outside
    [quant_min, quant_max] are taken as they are.

    With dtype torch.int4 or torch.uint4, input is bytes that hold two codes each along the last
    dimension: ``last_dim`` codes where that is odd.

    >>> codes = torch.tensor([-7, 6, 7], dtype=torch.int8)
    >>> isobit.dequantize_per_tensor(codes, 0.5, 3, -8, 7, torch.int8).tolist()
    [-5.0, 1.5, 2.0]
    """
    if not is_dynamo_compiling():
        y = _per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, out_dtype, last_dim, out)
        if y is not NotImplemented:
            return y
    return dispatched(
        "per_tensor", dtype, out, input, scale, zero_point, quant_min, quant_max, dtype, out_dtype, last_dim
    )


def dequantize_per_channel(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
    last_dim: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """As dequantize_per_tensor, with a scale and a zero point for each index along ``axis``:
    each is ``[input.shape[axis]]``."""
    if not is_dynamo_compiling():
        y = _per_channel(input, scales, zero_points, axis, quant_min, quant_max, dtype, out_dtype, last_dim, out)
        if y is not NotImplemented:
            return y
    return dispatched(
        "per_channel", dtype, out, input, scales, zero_points, axis, quant_min, quant_max, dtype, out_dtype, last_dim
    )


def dequantize_per_token(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    output_dtype: torch.dtype | None = torch.float32,
    *,
    last_dim: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """As dequantize_per_tensor, with a scale and a zero point for each row of the last dimension:
    each is ``input.shape[:-1]``, or that with a last 1."""
    if not is_dynamo_compiling():
        y = _per_token(input, scales, zero_points, quant_min, quant_max, dtype, output_dtype, last_dim, out)
        if y is not NotImplemented:
            return y
    return dispatched(
        "per_token", dtype, out, input, scales, zero_points, quant_min, quant_max, dtype, output_dtype, last_dim
    )


def dequantize_per_channel_group(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    group_size: int = 128,
    output_dtype: torch.dtype | None = torch.float32,
    *,
    last_dim: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """As dequantize_per_tensor, with a scale and a zero point for each ``group_size`` elements along
    the last dimension: each is ``[..., ceil(input.shape[-1] / group_size)]``."""
    args = (input, scales, zero_points, quant_min, quant_max, dtype, group_size, output_dtype, last_dim, True)
    if not is_dynamo_compiling():
        y = _per_group(*args, out)
        if y is not NotImplemented:
            return y
    return dispatched("per_channel_group", dtype, out, *args)


def gradients(name: str, dtype: torch.dtype | None, *args: Any) -> Gradients:
    op = _OPS[name][1]
    scale, zero_point = args[2:4]
    if is_float8(getattr(args[1], "dtype", None)):
        args = without_zero_point(op, args, 3)
    return wanted_gradients(name, *args, True, isinstance(scale, Tensor), is_learned(zero_point), dtype)


def wanted_gradients(name: str, *args: Any) -> Gradients:
    """Those that the arguments say, by the op of a granularity."""
    return _OPS[name][1](*args, *[True] * GRANULARITIES[name].group)


def weights(*args: Any) -> Tensor:
    """dequantize_per_channel_group of zero points that may be any integers, as weight_only_linear has them."""
    y: Tensor = _OPS["per_channel_group"][0].with_gradient(*args, False)
    return y


def weights_backward(*args: Any) -> Gradients:
    """The gradients that are wanted of `weights`."""
    return _OPS["per_channel_group"][1](*args, False)


def dequantize_per_tensor_backward(
    grad_output: Tensor,
    input: Tensor,
    scale: float | Tensor,
    zero_point: int | Tensor | None,
    quant_min: int,
    quant_max: int,
    *,
    dtype: torch.dtype | None = None,
) -> Gradients:
    """The gradients of codes, scale and zero point: ``grad_output * scale``, the sum of
    ``grad_output * (input - zero_point)``, and ``-scale`` times the sum of grad_output, the first in
    grad_output's shape and dtype, the others in those of scale and zero point. None for a scale that is
    a number and for a zero point that is no float tensor. ``dtype`` names packed codes (torch.int4,
    torch.uint4)."""
    return gradients("per_tensor", dtype, grad_output, input, scale, zero_point, quant_min, quant_max)


def dequantize_per_channel_backward(
    grad_output: Tensor,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    *,
    dtype: torch.dtype | None = None,
) -> Gradients:
    """As dequantize_per_tensor_backward, with the scales and zero points of dequantize_per_channel."""
    args = (grad_output, input, scales, zero_points, axis, quant_min, quant_max)
    return gradients("per_channel", dtype, *args)


def dequantize_per_token_backward(
    grad_output: Tensor,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    *,
    dtype: torch.dtype | None = None,
) -> Gradients:
    """As dequantize_per_tensor_backward, with the scales and zero points of dequantize_per_token."""
    args = (grad_output, input, scales, zero_points, quant_min, quant_max)
    return gradients("per_token", dtype, *args)


def dequantize_per_channel_group_backward(
    grad_output: Tensor,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    quant_min: int,
    quant_max: int,
    group_size: int = 128,
    *,
    dtype: torch.dtype | None = None,
) -> Gradients:
    """As dequantize_per_tensor_backward, with the scales and zero points of dequantize_per_channel_group."""
    args = (grad_output, input, scales, zero_points, quant_min, quant_max, group_size)
    return gradients("per_channel_group", dtype, *args)
