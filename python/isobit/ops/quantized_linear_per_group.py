"""quantized_linear_per_group: the product of codes that may have zero points, and be in groups: a form of
quantized_linear_codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._errors import ArgumentError
from .._op import Op
from .._vmap import vmap_fold
from ._product import as_matrix

_CALLER = "quantized_linear_codes"  # as errors say
_OP = Op(
    "quantized_linear_per_group(Tensor input, Tensor input_scale, Tensor? input_zero_point, Tensor weight, "
    "Tensor weight_scale, Tensor? weight_zero_point, Tensor? bias, int group_size, ScalarType weight_dtype, "
    "SymInt in_features, ScalarType dtype) -> Tensor",
    "quantized_linear_per_group",
    "x[]/ x_scale| x_zero_point?| weight[]* weight_scale weight_zero_point? bias?",
    "group_size:i dtype:m in_features:e output_dtype:d",
    "y = x[:-1] weight[:1] : output_dtype",
)
_OP.not_differentiable("isobit::{} has no derivative, as it serves; quantized_linear trains")
vmap_fold(_OP, data=(0, 1, 2))
_fast = _OP.fast


def _of_one_group(parameters: Tensor, columns: int) -> Tensor:
    """[N] as [N, 1]; where there are no columns, there are no groups."""
    if parameters.dim() == 1:
        parameters = parameters[:, None]
    return parameters if columns or parameters.dim() == 0 else parameters[:, :0]


def _call(
    op: Callable[..., Any],
    input: Tensor,
    input_scale: Tensor,
    input_zero_point: Tensor | None,
    weight: Tensor,
    weight_scale: Tensor,
    weight_zero_point: Tensor | None,
    bias: Tensor | None,
    group_size: int | None,
    weight_dtype: torch.dtype | None,
    dtype: torch.dtype,
) -> Any:
    """The op's call, with what follows from the arguments."""
    columns = input.shape[-1]
    if group_size is None:
        group_size, weight_scale = max(columns, 1), _of_one_group(weight_scale, columns)
        weight_zero_point = None if weight_zero_point is None else _of_one_group(weight_zero_point, columns)
    if weight_dtype is None:
        weight_dtype = weight.dtype
    of_weight = weight, weight_scale, weight_zero_point, bias, group_size, weight_dtype, columns
    return op(input, input_scale, input_zero_point, *of_weight, dtype)


def direct_product(*args: Any) -> Any:
    """The direct call; NotImplemented where there is more to do or to say, also of what are no tensors."""
    try:
        return _call(_fast, *args)
    except (TypeError, ValueError, RuntimeError, AttributeError, IndexError):
        return NotImplemented


def product_of_codes(
    input: Tensor,
    input_scale: Tensor,
    input_zero_point: Tensor | None,
    weight: Tensor,
    weight_scale: Tensor,
    weight_zero_point: Tensor | None,
    bias: Tensor | None,
    group_size: int | None,
    weight_dtype: torch.dtype | None,
    dtype: torch.dtype,
) -> Tensor:
    """quantized_linear_codes with any of the arguments that only this op has."""
    x = as_matrix(input)
    if weight_dtype is None and weight.dtype not in (torch.int8, torch.uint8):
        raise ArgumentError(f"{_CALLER}: weight is {weight.dtype}; want torch.int8 or torch.uint8")
    zero_point = None if input_zero_point is None else input_zero_point.reshape(x.shape[0])
    rest = weight, weight_scale, weight_zero_point, bias, group_size, weight_dtype, dtype
    try:
        y: Tensor = _call(_OP, x, input_scale.reshape(x.shape[0]), zero_point, *rest)
    except (TypeError, ValueError, RuntimeError) as error:  # which name the op
        text = str(error).replace(f"{_OP.name}: ", f"{_CALLER}: ", 1)
        if text == str(error):
            raise
        raise type(error)(text) from None
    return y.reshape(*input.shape[:-1], weight.shape[0])
