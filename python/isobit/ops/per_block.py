"""The quantize family per block: a scale and a zero point for each block of ``block_size``, as in torchao.

``block_size`` has an extent for each dimension of the input; the last block along a dimension may be
shorter. Scales and zero points have the shape of the grid of blocks: ``ceil(extent / block)`` of each
dimension. Otherwise the functions are those of their per_tensor namesakes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from . import dequantize as d
from . import fake_quantize as f
from . import quantize as q
from .dequantize import Gradients


def quantize_per_block(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    block_size: Sequence[int],
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    rounding: str = "nearest",
    out: Tensor | None = None,
) -> Tensor:
    """As quantize_per_tensor, with a scale and a zero point for each block of ``block_size``:
    each is ``[ceil(d / b), ...]``, of the extents d of input and b of a block."""
    args = (input, scales, zero_points, block_size, quant_min, quant_max, dtype, rounding)
    if not is_dynamo_compiling():
        y = q.per_block(*args, out)
        if y is not NotImplemented:
            return y
    return q.dispatched("per_block", dtype, out, *args)


def quantize_per_block_backward(
    grad_output: Tensor,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    block_size: Sequence[int],
    quant_min: int,
    quant_max: int,
    *,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
) -> Tensor:
    """As quantize_per_tensor_backward, with the scales and zero points of quantize_per_block."""
    args = (grad_output, input, scales, zero_points, block_size, quant_min, quant_max)
    return q.gradient("per_block", args, rounding, code_dtype)


def dequantize_per_block(
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    block_size: Sequence[int],
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
    last_dim: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """As dequantize_per_tensor, with a scale and a zero point for each block of ``block_size``:
    each is ``[ceil(d / b), ...]``, of the extents d of input and b of a block."""
    args = (input, scales, zero_points, block_size, quant_min, quant_max, dtype, out_dtype, last_dim)
    if not is_dynamo_compiling():
        y = d.per_block(*args, out)
        if y is not NotImplemented:
            return y
    return d.dispatched("per_block", dtype, out, *args)


def dequantize_per_block_backward(
    grad_output: Tensor,
    input: Tensor,
    scales: Tensor,
    zero_points: Tensor | None,
    block_size: Sequence[int],
    quant_min: int,
    quant_max: int,
    *,
    dtype: torch.dtype | None = None,
) -> Gradients:
    """As dequantize_per_tensor_backward, with the scales and zero points of dequantize_per_block."""
    args = (grad_output, input, scales, zero_points, block_size, quant_min, quant_max)
    return d.gradients("per_block", dtype, *args)


def fake_quantize_per_block_affine(
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    block_size: Sequence[int],
    quant_min: int,
    quant_max: int,
    *,
    grad_factor: float = 1.0,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """As fake_quantize_per_tensor_affine, with a scale and a zero point for each block of ``block_size``:
    each is ``[ceil(d / b), ...]``, of the extents d of input and b of a block."""
    args = (input, scale, zero_point, block_size, quant_min, quant_max, rounding, grad_factor)
    code = "int" if code_dtype is None else f.direct_code(code_dtype, zero_point)
    if code and not is_dynamo_compiling():
        y = f.per_block(*args, code, out)
        if y is not NotImplemented:
            return y
    return f.dispatched("per_block", code_dtype, out, *args)


def fake_quantize_per_block_affine_backward(
    grad_output: Tensor,
    input: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    block_size: Sequence[int],
    quant_min: int,
    quant_max: int,
    *,
    grad_factor: float = 1.0,
    rounding: str = "nearest",
    code_dtype: torch.dtype | None = None,
) -> Gradients:
    """As fake_quantize_per_tensor_affine_backward, with the scales and zero points of
    fake_quantize_per_block_affine."""
    args = (grad_output, input, scale, zero_point, block_size, quant_min, quant_max)
    return f.gradients("per_block", args, rounding, grad_factor, code_dtype)
