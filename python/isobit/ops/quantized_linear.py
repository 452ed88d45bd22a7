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
from .._vmap import Dims, front
from ._product import as_matrix, attempt, product, row_sums, weight_gradient
from .dequantize import dequantize_per_token
from .quantize_dynamic import quantize_per_token_dynamic

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


def _vmap(size: int, in_dims: Dims, x: Tensor, x_scale: Tensor, *rest: Any) -> Any:
    if any(d is not None for d in in_dims[2:]):
        return None
    x, x_scale = front(x, in_dims[0], size), front(x_scale, in_dims[1], size)
    y = _CODES.raw(x.flatten(0, 1), x_scale.flatten(), *rest)
    return y.unflatten(0, (size, x.shape[1])), 0


_CODES.batched = _vmap


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
    out: Tensor | None = None,
) -> Tensor:
    """``float(input @ weight.T) * (input_scale * weight_scale) + bias``, with the product exact.

    input: int8 [..., K]; input_scale: one for each row, [...] or [..., 1]; weight: int8 [N, K];
    weight_scale: [N] or [N, 1]; bias: [N]. The result is [..., N] of ``dtype``, a float one. The serving form of
    quantized_linear, with its bits. ``out`` takes the result."""
    if out is None and not is_dynamo_compiling():
        y = attempt(_CODES.fast, input, input_scale, weight, weight_scale, bias, dtype)
        if y is not NotImplemented:
            return y
    tensors = {"input": input, "input_scale": input_scale, "weight": weight, "weight_scale": weight_scale}
    check_tensors("quantized_linear_codes", **tensors)
    if out is not None:
        args = (input, input_scale, weight, weight_scale, bias, dtype)
        return copy_out("quantized_linear_codes", out, quantized_linear_codes, *args)
    rows = input.shape[:-1]
    if input_scale.shape not in (rows, (*rows, 1)):
        shapes = f"{list(input_scale.shape)}; want {list(rows)} or {[*rows, 1]}"
        raise ArgumentError(f"quantized_linear_codes: input_scale has shape {shapes} for input of {list(input.shape)}")
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
