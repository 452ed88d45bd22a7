"""weight_only_linear: float activations times weights that are codes, in groups."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .._gradient import asked, saved_values, saving, widest
from .._op import Op
from .._out import copy_out
from .._vmap import vmap_fold
from ._code_range import code_range
from ._product import KINDS, as_matrix, attempt, direct, product, row_sums, shaped
from .dequantize import weights, weights_backward
from .quantized_linear import check_tensors

_OP = Op(
    "weight_only_linear(Tensor input, Tensor weight, Tensor weight_scale, Tensor? weight_zero_point, Tensor? bias, "
    "int group_size, ScalarType dtype, SymInt in_features) -> Tensor",
    "weight_only_linear",
    "x[]/ weight[]* weight_scale weight_zero_point? bias?",
    "group_size:i dtype:m in_features:e",
    "y = x[:-1] weight[:1] : x",
)


def _backward(ctx: Any, grad_y: Tensor) -> tuple[Any, ...]:
    x, weight, scale, zero_point = saved_values(ctx)
    group_size, dtype, in_features = ctx.attributes
    codes = (weight, scale, zero_point, *code_range("weight_only_linear", dtype))
    grad_x = grad_scale = grad_zero = grad_bias = None
    wide = widest(grad_y)  # as the forward has weights, and so that gradients are rounded once
    wanted = asked(ctx, grad_y)
    if wanted[0]:
        w = weights(*codes, dtype, group_size, wide.dtype, in_features)
        grad_x = product(wide, w).to(grad_y.dtype)
    learned = wanted[2:4]
    if any(learned):
        grad_w = product(as_matrix(wide).t(), as_matrix(x).to(wide.dtype))
        _, grad_scale, grad_zero = weights_backward(grad_w, *codes, group_size, False, *learned, dtype)
    if wanted[4]:
        grad_bias = row_sums(as_matrix(grad_y), ctx.bias_type)
    return grad_x, None, grad_scale, grad_zero, grad_bias, None, None, None


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, *codes, bias = inputs[:5]
    ctx.bias_type = None if bias is None else bias.dtype
    learned = any(ctx.needs_input_grad[2:4])  # where they are not, no activation is kept
    saving(4)(ctx, (x if learned else None, *codes, *inputs[5:]), output)


_OP.differentiable(_setup, _backward)
vmap_fold(_OP, data=(0,))


def weight_only_linear(
    input: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_zero_point: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    group_size: int,
    dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """``input @ ((weight - weight_zero_point) * weight_scale).T + bias``, of float ``input`` [..., K] and
    codes ``weight`` [N, K], int8 or uint8: [..., N] in input's dtype.

    Each ``group_size`` codes along K share a scale and a zero point, [N, ceil(K / group_size)]. With
    dtype torch.int4 or torch.uint4, weight is bytes of two codes each, [N, ceil(K / 2)], as
    quantize_per_channel_group makes them. Gradients reach input, scale, a float zero point and bias.
    ``out`` takes a copy of the result."""
    if out is None and not is_dynamo_compiling() and type(input) in KINDS and type(weight) in KINDS and input.dim():
        codes = weight.dtype if dtype is None else dtype
        in_features = attempt(input.size, -1)  # of a nested tensor already the shape is an error
        args = (weight, weight_scale, weight_zero_point, bias, group_size, codes, in_features)
        y = attempt(_OP.direct, input, *args)
        if y is NotImplemented and input.dim() != 2:
            y = direct(_OP, input, *args)
        if y is not NotImplemented:
            return y
    check_tensors("weight_only_linear", input=input, weight=weight, weight_scale=weight_scale)
    if out is not None:
        f = partial(weight_only_linear, group_size=group_size, dtype=dtype)
        return copy_out("weight_only_linear", out, f, input, weight, weight_scale, weight_zero_point, bias)
    dtype = weight.dtype if dtype is None else dtype
    rows, in_features = input.shape[:-1], input.shape[-1]
    y = _OP.with_gradient(
        as_matrix(input), weight, weight_scale, weight_zero_point, bias, group_size, dtype, in_features
    )
    return y if input.dim() == 2 else shaped(y, (*rows, weight.shape[0]))
