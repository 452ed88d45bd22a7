"""fake_quantize_*: quantize and dequantize in one pass, with the straight-through gradient of the
input and the LSQ gradients of scale and zero point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .._autocast import widened
from .._gradient import ONCE, saved_values, saving
from .._op import Op
from .._out import write_out
from .._vmap import vmap_elementwise
from ._granularity import FLOAT8, GRANULARITIES, code_name, with_scalars, without_zero_point
from .dequantize import Gradients, is_learned

# The public names, and torch's names of the parameters: singular here.
_NAMES = {
    "per_tensor": "per_tensor_affine",
    "per_channel": "per_channel_affine",
    "per_token": "per_token_affine",
    "per_channel_group": "per_channel_group_affine",
    "per_block": "per_block_affine",
}


def _backward_of(op: Op) -> Any:
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
        tensors, attributes = saved_values(ctx), ctx.attributes
        first, code = (grad_output, *tensors, *attributes[:-1]), attributes[-1]
        of_x, of_scale, of_zero_point = ctx.needs_input_grad[:3]
        if of_x and (of_scale or of_zero_point) and _lies_apart(tensors[0]):
            of_parameters = op(*first, False, of_scale, of_zero_point, code)[1:]
            grads = (op(*first, True, False, False, code)[0], *of_parameters)
        else:
            grads = op(*first, of_x, of_scale, of_zero_point, code)
        return (*grads, *[None] * len(attributes))

    return backward


def _lies_apart(x: Tensor) -> bool:
    """Whether elements of a row do, as in channels last: sums go over them row by row, and the gradient by x is faster
    in their order, in a call of its own."""
    return x.dim() > 0 and not x.is_contiguous() and x.stride(-1) != 1


def _second_of(forward: Op, op: Op) -> Any:
    def second(ctx: Any, upstream: tuple[Tensor], grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
        """The straight-through gradient of x is the upstream gradient or 0: of that one it is linear."""
        if any(ctx.needs_input_grad[1:3]):
            raise RuntimeError(ONCE.format(forward.name) + " where scale or zero_point is learned")
        of_upstream, _, _ = op(
            grads[0], *saved_values(ctx), *ctx.attributes[:-1], True, False, False, ctx.attributes[-1]
        )
        return *[None] * len(ctx.saved_tensors), of_upstream

    return second


def _define(name: str) -> tuple[Op, Op]:
    f = replace(GRANULARITIES[name], scale="scale", zero_point="zero_point")
    tail = f"{f.group_schema()}, str rounding='nearest', float grad_factor=1."
    forward = Op(
        f"fake_quantize_{_NAMES[name]}({f.parameters()}{tail}, str code='int') -> Tensor",
        f"fake_quantize_{f.plan}",
        f"x[]{'~' * (name == 'per_tensor')} scale@ zero_point#?",
        f"{f.range()}{f.group_attribute()} rounding:s grad_factor:F code:s",
        "y ~ x : x",
    )
    backward = Op(
        f"fake_quantize_{_NAMES[name]}_backward(Tensor grad_output, {f.parameters()}{tail}, "
        "bool want_input=True, bool want_scale=False, bool want_zero_point=False, str code='int') -> (Tensor, Tensor, Tensor)",
        f"fake_quantize_{f.plan}_backward",
        "grad_output[] x scale@ zero_point#?",
        f"{f.range()}{f.group_attribute()} rounding:s grad_factor:f want_input:w want_scale:w want_zero_point:w code:s",
        "grad_input ~ x : x if want_input",
        "grad_scale = scale : scale if want_scale",
        "grad_zero_point = zero_point : zero_point if want_zero_point",
    )
    forward.differentiable(saving(3), _backward_of(backward), second=_second_of(forward, backward))
    backward.not_differentiable()
    vmap_elementwise(forward, f, data=(0,))
    vmap_elementwise(backward, f, data=(0, 1))
    return forward, backward


_OPS = {name: _define(name) for name in GRANULARITIES}
_per_tensor, _per_channel, _per_token, _per_group, per_block = (_OPS[name][0].direct for name in GRANULARITIES)


def direct_code(code_dtype: Any, zero_point: Any) -> str | None:
    """code_name of 8-bit float codes, where nothing has to be said or made of the zero point first; else None."""
    return FLOAT8.get(code_dtype) if zero_point is None and isinstance(code_dtype, torch.dtype) else None


def dispatched(name: str, code_dtype: torch.dtype | None, out: Tensor | None, *args: Any) -> Tensor:
    """The call where it is not the direct one: gradients, tracing, errors."""
    op = _OPS[name][0]
    if not isinstance(args[0], Tensor):
        raise TypeError(f"{op.name}: input must be a Tensor, not {type(args[0]).__name__}")
    args = with_scalars(name, args)
    args = (*args, "int") if code_dtype is None else without_zero_point(op, (*args, code_name(op.name, code_dtype)), 2)
    if out is not None:
        return write_out(op, out, *args)
    return op.apply(*args)


def fake_quantize_per_tensor_affine(
    input: Tensor,
    scale: float | Tensor,
    zero_point: int | Tensor | None,
    quant_min: int,
    quant_max: int,
    *,
    grad_factor: float = 1.0,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """``input`` with only the values that codes can hold, in its shape and dtype:
    ``(clamp(rint(input / scale) + zero_point, quant_min, quant_max) - zero_point) * scale``.

    As ``torch.fake_quantize_per_tensor_affine``. The gradient of input is the straight-through
    estimate. A scale, and a float zero point, that require a gradient get that of learned step size
    quantization (LSQ, arXiv:1902.08153), times ``grad_factor``, for which LSQ takes ``1 / sqrt(n * quant_max)``.
    ``rounding="reciprocal"`` gives PyTorch's bits on the CPU, but of NaN, per channel of what is beyond 2^63 scales,
    and of float64, for which PyTorch has ``1 / scale`` in float32. ``code_dtype`` names 8-bit float codes, which have
    a scale only. ``out`` takes the result.

    >>> x = torch.tensor([0.24, -9.0, 1.0], requires_grad=True)
    >>> y = isobit.fake_quantize_per_tensor_affine(x, 0.5, 0, -8, 7)
    >>> y.sum().backward()
    >>> y.tolist(), x.grad.tolist()
    ([0.0, -4.0, 1.0], [1.0, 0.0, 1.0])
    """
    code = "int" if code_dtype is None else direct_code(code_dtype, zero_point)
    if code and not is_dynamo_compiling():
        y = _per_tensor(input, scale, zero_point, quant_min, quant_max, rounding, grad_factor, code, out)
        if y is not NotImplemented:
            return y
    if isinstance(input, Tensor) and not isinstance(scale, Tensor):  # as torch's with numbers, and no other of torch's
        (input,) = widened(input)
    args = (input, scale, zero_point, quant_min, quant_max, rounding, grad_factor)
    return dispatched("per_tensor", code_dtype, out, *args)


def fake_quantize_per_channel_affine(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    *,
    grad_factor: float = 1.0,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """As fake_quantize_per_tensor_affine, with a scale and a zero point for each index along ``axis``:
    each is ``[input.shape[axis]]``."""
    code = "int" if code_dtype is None else direct_code(code_dtype, zero_point)
    if code and not is_dynamo_compiling():
        y = _per_channel(input, scale, zero_point, axis, quant_min, quant_max, rounding, grad_factor, code, out)
        if y is not NotImplemented:
            return y
    args = (input, scale, zero_point, axis, quant_min, quant_max, rounding, grad_factor)
    return dispatched("per_channel", code_dtype, out, *args)


def fake_quantize_per_token_affine(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    quant_min: int,
    quant_max: int,
    *,
    grad_factor: float = 1.0,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """As fake_quantize_per_tensor_affine, with a scale and a zero point for each row of the last
    dimension: each is ``input.shape[:-1]``, or that with a last 1."""
    code = "int" if code_dtype is None else direct_code(code_dtype, zero_point)
    if code and not is_dynamo_compiling():
        y = _per_token(input, scale, zero_point, quant_min, quant_max, rounding, grad_factor, code, out)
        if y is not NotImplemented:
            return y
    args = (input, scale, zero_point, quant_min, quant_max, rounding, grad_factor)
    return dispatched("per_token", code_dtype, out, *args)


def fake_quantize_per_channel_group_affine(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    quant_min: int,
    quant_max: int,
    group_size: int = 128,
    *,
    grad_factor: float = 1.0,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """As fake_quantize_per_tensor_affine, with a scale and a zero point for each ``group_size``
    elements along the last dimension: each is ``[..., ceil(input.shape[-1] / group_size)]``."""
    args = (input, scale, zero_point, quant_min, quant_max, group_size, rounding, grad_factor)
    code = "int" if code_dtype is None else direct_code(code_dtype, zero_point)
    if code and not is_dynamo_compiling():
        y = _per_group(*args, code, out)
        if y is not NotImplemented:
            return y
    return dispatched("per_channel_group", code_dtype, out, *args)


def gradients(
    name: str, args: tuple[Any, ...], rounding: str, grad_factor: float, code_dtype: torch.dtype | None
) -> Gradients:
    op = _OPS[name][1]
    code = code_name(op.name, code_dtype)
    if code != "int":
        args = without_zero_point(op, args, 3)
    _, _, scale, zero_point = args[:4]
    wants = (True, isinstance(scale, Tensor), is_learned(zero_point))
    return op(*args, rounding, grad_factor, *wants, code)


def fake_quantize_per_tensor_affine_backward(
    grad_output: Tensor,
    input: Tensor,
    scale: float | Tensor,
    zero_point: int | Tensor | None,
    quant_min: int,
    quant_max: int,
    *,
    grad_factor: float = 1.0,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
) -> Gradients:
    """The gradients of input, scale and zero point, each in the shape and dtype of what it is of: grad_output
    where the code was inside the range, else 0; the sum of ``grad_output * e``, e being ``rint(u) - u`` of
    ``u = input / scale`` inside, ``quant_min - zero_point`` below, ``quant_max - zero_point`` above; ``-scale``
    times the sum of grad_output below and above; the last two times grad_factor. None for a scale that is a
    number and for a zero point that is no float tensor."""
    args = (grad_output, input, scale, zero_point, quant_min, quant_max)
    return gradients("per_tensor", args, rounding, grad_factor, code_dtype)


def fake_quantize_per_channel_affine_backward(
    grad_output: Tensor,
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    axis: int,
    quant_min: int,
    quant_max: int,
    *,
    grad_factor: float = 1.0,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
) -> Gradients:
    """As fake_quantize_per_tensor_affine_backward, with the scales and zero points of
    fake_quantize_per_channel_affine."""
    args = (grad_output, input, scale, zero_point, axis, quant_min, quant_max)
    return gradients("per_channel", args, rounding, grad_factor, code_dtype)


def fake_quantize_per_token_affine_backward(
    grad_output: Tensor,
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    quant_min: int,
    quant_max: int,
    *,
    grad_factor: float = 1.0,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
) -> Gradients:
    """As fake_quantize_per_tensor_affine_backward, with the scales and zero points of
    fake_quantize_per_token_affine."""
    args = (grad_output, input, scale, zero_point, quant_min, quant_max)
    return gradients("per_token", args, rounding, grad_factor, code_dtype)


def fake_quantize_per_channel_group_affine_backward(
    grad_output: Tensor,
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    quant_min: int,
    quant_max: int,
    group_size: int = 128,
    *,
    grad_factor: float = 1.0,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
) -> Gradients:
    """As fake_quantize_per_tensor_affine_backward, with the scales and zero points of
    fake_quantize_per_channel_group_affine."""
    args = (grad_output, input, scale, zero_point, quant_min, quant_max, group_size)
    return gradients("per_channel_group", args, rounding, grad_factor, code_dtype)
