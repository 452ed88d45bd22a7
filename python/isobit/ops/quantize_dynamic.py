"""quantize_*_dynamic: codes, and their scales and zero points from the data, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .qparams import block_list, checked_range, choose_and_quantize


def _dynamic(
    name: str,
    x: Tensor,
    where: tuple[Any, ...],
    dtype: torch.dtype,
    symmetric: bool,
    low: int | None,
    high: int | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor | None]:
    bounds = checked_range(f"quantize_{name}_dynamic", x, dtype, low, high)
    return choose_and_quantize(name, x, *where, *bounds, dtype, symmetric, eps)


def quantize_per_tensor_dynamic(
    input: Tensor,
    dtype: torch.dtype = torch.int8,
    *,
    symmetric: bool = True,
    quant_min: int | None = None,
    quant_max: int | None = None,
    eps: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """(codes, scale, zero_point), in one pass: what choose_qparams_per_tensor and
    quantize_per_tensor answer: codes of dtype in input's shape. zero_point is None where symmetric."""
    return _dynamic("per_tensor", input, (), dtype, symmetric, quant_min, quant_max, eps)


def quantize_per_channel_dynamic(
    input: Tensor,
    axis: int,
    dtype: torch.dtype = torch.int8,
    *,
    symmetric: bool = True,
    quant_min: int | None = None,
    quant_max: int | None = None,
    eps: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """As quantize_per_tensor_dynamic, of each index along ``axis``."""
    return _dynamic("per_channel", input, (axis,), dtype, symmetric, quant_min, quant_max, eps)


def quantize_per_token_dynamic(
    input: Tensor,
    dtype: torch.dtype = torch.int8,
    *,
    symmetric: bool = True,
    quant_min: int | None = None,
    quant_max: int | None = None,
    eps: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """As quantize_per_tensor_dynamic, of each row of the last dimension.

    >>> codes, scale, _ = isobit.quantize_per_token_dynamic(torch.tensor([[1.0, -0.5], [0.0, 254.0]]))
    >>> codes.tolist(), scale.shape
    ([[127, -64], [0, 127]], torch.Size([2, 1]))
    """
    return _dynamic("per_token", input, (), dtype, symmetric, quant_min, quant_max, eps)


def quantize_per_channel_group_dynamic(
    input: Tensor,
    group_size: int = 128,
    dtype: torch.dtype = torch.int8,
    *,
    symmetric: bool = True,
    quant_min: int | None = None,
    quant_max: int | None = None,
    eps: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """As quantize_per_tensor_dynamic, of each ``group_size`` elements along the last dimension."""
    return _dynamic("per_channel_group", input, (group_size,), dtype, symmetric, quant_min, quant_max, eps)


def quantize_per_block_dynamic(
    input: Tensor,
    block_size: Sequence[int],
    dtype: torch.dtype = torch.int8,
    *,
    symmetric: bool = True,
    quant_min: int | None = None,
    quant_max: int | None = None,
    eps: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """As quantize_per_tensor_dynamic, of each block of ``block_size``."""
    return _dynamic("per_block", input, (block_list(block_size),), dtype, symmetric, quant_min, quant_max, eps)
