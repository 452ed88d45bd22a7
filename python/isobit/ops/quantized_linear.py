"""quantized_linear: the layer for quantization-aware training, whose forward is the integer kernel
that serving runs, and that kernel itself."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .._checks import check_dense, check_device, check_floats
from .._composite import Composite
from .._errors import ArgumentError
from .._gradient import asked, once, rounded, widest
from .._op import Op
from .._out import copy_out
from .._transforms import is_traced, wants_derivative
from .._vmap import vmap_fold
from ._product import as_matrix, attempt, product, row_sums, weight_gradient
from .dequantize import dequantize_per_token
from .quantize_dynamic import quantize_per_token_dynamic
from .quantized_linear_per_group import direct_product, product_of_codes

# Symmetric codes. The largest magnitude of a row is code 127 or -127: with a scale of
# max|row| / 127, no quotient rounds beyond, and -128 is never used.
_LOW, _HIGH = -127, 127

_CODES = Op(
    "quantized_linear_codes(Tensor input, Tensor input_scale, Tensor weight, Tensor weight_scale, Tensor? bias, "
    "ScalarType dtype) -> Tensor",
    "quantized_linear",
    "x[]/ x_scale| weight[] weight_scale| bias?",
    "dtype:d",
    "y = x[:-1] weight[:1] : dtype",
)
_CODES.not_differentiable("isobit::{} has no derivative, as it serves; quantized_linear trains")
vmap_fold(_CODES, data=(0, 1))


def check_tensors(op: str, **named: Any) -> None:
    """That these are tensors, the first one, the input, with a dimension at least."""
    check_dense(op, **named)
    name, x = next(iter(named.items()))
    if x.dim() == 0:
        raise ArgumentError(f"{op}: {name} has shape []; want [..., K]")


def quantized_linear_codes(
    input: Tensor,
    input_scale: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    bias: Tensor | None = None,
    dtype: torch.dtype = torch.float32,
    *,
    input_zero_point: Tensor | None = None,
    weight_zero_point: Tensor | None = None,
    group_size: int | None = None,
    weight_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """``float(input @ weight.T) * (input_scale * weight_scale) + bias``, with the product exact.

    input: int8 [..., K]; input_scale: one for each row, [...] or [..., 1]; weight: int8 [N, K];
    weight_scale: [N] or [N, 1]; bias: [N]. The result is [..., N] of ``dtype``, a float one. The serving form of
    quantized_linear, with its bits. ``out`` takes the result.

    With any of the other arguments codes may be int8 or uint8, and are multiplied less their zero points:
    input_zero_point as input_scale, weight_zero_point as weight_scale; integers or floats, rounded and clamped to the
    range of the codes' dtype. Each ``group_size`` codes along K share a scale and a zero point of the weight,
    [N, ceil(K / group_size)]: the product of each is exact, and what it stands for added from the first to the last. With
    weight_dtype torch.int4 or torch.uint4, weight is bytes of two codes each, [N, ceil(K / 2)], as
    quantize_per_channel_group makes them.

    >>> x, w, s = torch.tensor([[130, 1]], dtype=torch.uint8), torch.tensor([[2, 3]], dtype=torch.int8), torch.ones(1)
    >>> isobit.quantized_linear_codes(x, s, w, s, input_zero_point=torch.tensor([128])).tolist()
    [[-377.0]]
    """
    plain = input_zero_point is None and weight_zero_point is None and group_size is None and weight_dtype is None
    of_weight = weight, weight_scale, weight_zero_point, bias
    if out is None and not is_dynamo_compiling():
        if plain:
            y = attempt(_CODES.fast, input, input_scale, weight, weight_scale, bias, dtype)
        else:
            y = direct_product(input, input_scale, input_zero_point, *of_weight, group_size, weight_dtype, dtype)
        if y is not NotImplemented:
            return y
    tensors = {"input": input, "input_scale": input_scale, "weight": weight, "weight_scale": weight_scale}
    zero_points = {"input_zero_point": input_zero_point, "weight_zero_point": weight_zero_point}
    check_tensors("quantized_linear_codes", **tensors, **{n: t for n, t in zero_points.items() if t is not None})
    if out is not None:
        keywords: dict[str, Any] = {**zero_points, "group_size": group_size, "weight_dtype": weight_dtype}
        f = partial(quantized_linear_codes, **keywords)
        return copy_out("quantized_linear_codes", out, f, *tensors.values(), bias, dtype)
    rows = input.shape[:-1]
    for name, t in (("input_scale", input_scale), ("input_zero_point", input_zero_point)):
        if t is not None and t.shape not in (rows, (*rows, 1)):
            shapes = f"{list(t.shape)}; want {list(rows)} or {[*rows, 1]}"
            raise ArgumentError(f"quantized_linear_codes: {name} has shape {shapes} for input of {list(input.shape)}")
    if not plain:
        return product_of_codes(input, input_scale, input_zero_point, *of_weight, group_size, weight_dtype, dtype)
    if weight_scale.dim() == 2 and weight_scale.shape[1] == 1:
        weight_scale = weight_scale.squeeze(1)
    matrix = as_matrix(input)
    y = _CODES(matrix, input_scale.reshape(matrix.shape[0]), weight, weight_scale, bias, dtype)
    return y.reshape(*rows, weight.shape[0])


def _forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, ...]:
    codes = (*_quantize_rows(x), *_quantize_rows(weight))
    y = quantized_linear_codes(*codes, bias, x.dtype)
    return y.detach(), *codes  # of a view, autograd would let nobody write to it


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    """Saves the codes and the scales: a quarter of what the float tensors would take."""
    ctx.mark_non_differentiable(*output[1:])
    x, weight, _ = ctx.needs_input_grad  # of a frozen weight, no codes of the input are kept
    ctx.save_for_backward(*(output[1:3] if weight else (None, None)), *(output[3:] if x else (None, None)))
    ctx.dtypes = [None if t is None else t.dtype for t in inputs]


@partial(once, "quantized_linear")
def _backward(ctx: Any, grad_y: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    x_codes, x_scale, w_codes, w_scale = ctx.saved_tensors
    x_type, w_type, b_type = ctx.dtypes
    grad_x = grad_w = grad_b = None
    wanted = asked(ctx, grad_y)
    flat = widest(as_matrix(grad_y))  # what codes stand for is not rounded to 16 bits
    if wanted[0]:
        w = _dequantize_rows(w_codes, w_scale, flat.dtype)
        grad_x = rounded(product(flat, w), x_type).reshape(*grad_y.shape[:-1], w.shape[1])
    if wanted[1]:
        x = as_matrix(_dequantize_rows(x_codes, x_scale, flat.dtype))
        grad_w = weight_gradient(flat, x, w_type)
    if wanted[2]:
        grad_b = row_sums(flat, b_type)
    return grad_x, grad_w, grad_b


_LINEAR = Composite(
    "quantized_linear(Tensor input, Tensor weight, Tensor? bias) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _forward,
    _setup_context,
    _backward,
)


def _quantize_rows(t: Tensor) -> tuple[Tensor, Tensor]:
    codes, scale, _ = quantize_per_token_dynamic(t, torch.int8, quant_min=_LOW, quant_max=_HIGH)
    return codes, scale


def _dequantize_rows(codes: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    return dequantize_per_token(codes, scale, None, _LOW, _HIGH, torch.int8, dtype)


def quantized_linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """A linear layer for quantization-aware training: ``input`` [..., K], ``weight`` [N, K], ``bias`` [N].

    Rows of input, and rows of weight, become int8 codes in [-127, 127] with a scale of
    ``max|row| / 127`` each; their product is the integer kernel that serving runs, so the trained
    model and the served one give the same bits. The result is [..., N] in input's dtype. The gradient is
    the straight-through estimate, with x (input) and w (weight) as the codes stand for them:
    ``dx = dy @ w_q``, ``dw = dy.T @ x_q``, ``db = sum(dy)``. ``out`` takes a copy of the result.

    >>> weight = torch.tensor([[3.0, 127.0], [127.0, 6.0]])  # codes of scale 1
    >>> isobit.quantized_linear(torch.tensor([[127.0, 2.0]]), weight).tolist()
    [[635.0, 16141.0]]
    """
    named = {"input": input, "weight": weight} | ({} if bias is None else {"bias": bias})
    check_tensors("quantized_linear", **named)
    check_floats("quantized_linear", **named)
    for name, t in named.items():
        check_device("quantized_linear", name, t, "input", input.device)
    if weight.dim() != 2 or input.shape[-1:] != weight.shape[-1:]:
        shapes = f"{list(weight.shape)}; want [N, {input.shape[-1]}]"
        raise ArgumentError(f"quantized_linear: weight has shape {shapes}, of input's last extent")
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ArgumentError(f"quantized_linear: bias has shape {list(bias.shape)}; want {list(weight.shape[:1])}")
    if out is not None:
        return copy_out("quantized_linear", out, quantized_linear, input, weight, bias)
    if is_traced() or not wants_derivative(input, weight, bias):
        return _forward(input, weight, bias)[0]
    y: Tensor = _LINEAR(input, weight, bias)[0]
    return y
