"""Scales and zero points from the data: choose_qparams_per_token and quantize in the same pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._op import Op
from .._vmap import Dims, front, register

_CHOOSE = Op(
    "choose_qparams_per_token(Tensor input, int quant_min, int quant_max, bool symmetric=True) -> (Tensor, Tensor)",
    "choose_qparams_per_token",
    "x[]",
    "qmin:i qmax:i symmetric:b",
    "scale = x[:-1] 1 : parameter",
    "zero_point = x[:-1] 1 : int32 if !symmetric",
)
_DYNAMIC = Op(
    "quantize_per_token_dynamic(Tensor input, int quant_min, int quant_max, ScalarType dtype, bool symmetric=True)"
    " -> (Tensor, Tensor, Tensor)",
    "dynamic_quantize_per_token",
    "x[]",
    "qmin:i qmax:i dtype:d symmetric:b",
    "q = x : dtype",
    "scale = x[:-1] 1 : parameter",
    "zero_point = x[:-1] 1 : int32 if !symmetric",
)


def _vmap(op: Op) -> None:
    def rule(size: int, in_dims: Dims, x: Tensor, *attributes: Any) -> Any:
        y = op.raw(front(x, in_dims[0], size), *attributes)
        return y, (*[0] * (len(y) - 1), None if attributes[-1] else 0)

    op.not_differentiable()
    register(op, rule)


_vmap(_CHOOSE)
_vmap(_DYNAMIC)

_RANGES = {torch.int8: (-128, 127), torch.uint8: (0, 255)}


def _range(op: str, dtype: torch.dtype) -> tuple[int, int]:
    if dtype not in _RANGES:
        raise ValueError(f"{op}: dtype is {dtype}; want torch.int8 or torch.uint8")
    return _RANGES[dtype]


def choose_qparams_per_token(input: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Symmetric parameters of each row of the last dimension: ``scale = max|row| / 127``, 1 for a
    row of zeros, and zero points of 0. Their shape is ``input.shape[:-1] + [1]``; the scale is
    float32 (float64 for float64), the zero point int32.

    As ``torch.ops.quantized_decomposed.choose_qparams_per_token``, which instead keeps a scale
    from falling below 1e-5 and answers float zero points."""
    if dtype != torch.int8:
        raise ValueError(f"choose_qparams_per_token: dtype is {dtype}; want torch.int8")
    scale, _ = _CHOOSE(input.detach(), -128, 127, True)
    return scale, torch.zeros_like(scale, dtype=torch.int32)


def choose_qparams_per_token_asymmetric(input: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Asymmetric parameters of each row of the last dimension, from its smallest and largest value
    (and 0, which is always a code). Shapes and dtypes as in choose_qparams_per_token."""
    low, high = _range("choose_qparams_per_token_asymmetric", dtype)
    return _CHOOSE(input.detach(), low, high, False)


def quantize_per_token_dynamic(
    input: Tensor,
    dtype: torch.dtype = torch.int8,
    *,
    symmetric: bool = True,
    quant_min: int | None = None,
    quant_max: int | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """(codes, scale, zero_point) of each row of the last dimension, in one pass: what
    choose_qparams_per_token and quantize_per_token answer. zero_point is None where symmetric."""
    low, high = _range("quantize_per_token_dynamic", dtype)
    low = low if quant_min is None else quant_min
    high = high if quant_max is None else quant_max
    return _DYNAMIC(input.detach(), low, high, dtype, symmetric)
