"""Scales and zero points from the data: choose_qparams_*, and the ops of quantize_*_dynamic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .._checks import MAX_DIMS, check_dense, spell
from .._errors import ArgumentError
from .._op import Op
from .._vmap import Dims, front, is_of_rank
from ._code_range import RANGES, check_code_dtype, code_range
from ._granularity import GRANULARITIES

# Each granularity: the schema's text before quant_min, the attribute, the shape of the parameters.
_GROUPINGS = {
    "per_tensor": ("", "", ""),
    "per_channel": ("int axis, ", "axis:i ", "at(axis)"),
    "per_token": ("", "", "x[:-1] 1"),
    "per_channel_group": ("int group_size, ", "group_size:i ", "x[:-1] blocks(group_size)"),
    "per_block": ("int[] block_size, ", "block_size:l ", "blocks(block_size)"),
}


def _define(name: str) -> tuple[Op, Op]:
    schema, attribute, shape = _GROUPINGS[name]
    plan = GRANULARITIES[name].plan
    parameters = f"scale = {shape} : parameter", f"zero_point = {shape} : int32"
    choose = Op(
        f"choose_qparams_{name}(Tensor input, {schema}int quant_min, int quant_max, bool symmetric=True, float eps=0.)"
        " -> (Tensor, Tensor)",
        f"choose_qparams_{plan}",
        "x[]^",
        f"{attribute}qmin:i qmax:i symmetric:b eps:f",
        *parameters,
    )
    dynamic = Op(
        f"quantize_{name}_dynamic(Tensor input, {schema}int quant_min, int quant_max, ScalarType dtype, "
        "bool symmetric=True, float eps=0.) -> (Tensor, Tensor, Tensor)",
        f"dynamic_quantize_{plan}",
        "x[]^",
        f"{attribute}qmin:i qmax:i dtype:d symmetric:b eps:f",
        "q = x : dtype",
        parameters[0],
        parameters[1] + " if !symmetric",
    )
    for op in (choose, dynamic):
        op.constant()
        _vmap(op, name)
    return choose, dynamic


def _vmap(op: Op, name: str) -> None:
    def rule(size: int, in_dims: Dims, x: Tensor, *attributes: Any) -> Any:
        if not GRANULARITIES[name].rows:
            return None
        folded = front(x, in_dims[0], size)
        if folded.dim() > MAX_DIMS or not is_of_rank(GRANULARITIES[name], folded.dim() - 1, attributes[0]):
            return None
        if GRANULARITIES[name].block:
            attributes = ([1, *attributes[0]], *attributes[1:])
        return op.raw(folded, *attributes), tuple(0 if o.wanted(attributes) else None for o in op.signature.outputs)

    op.batched = rule


_OPS = {name: _define(name) for name in _GROUPINGS}
_SIGNED = [dtype for dtype, (least, _) in RANGES.items() if least]


def block_list(block_size: Any) -> Any:
    return list(block_size) if isinstance(block_size, Sequence) else block_size


def checked_range(op: str, x: Any, *dtype_and_range: Any) -> tuple[int, int]:
    """The range of codes, for arguments of the right kinds."""
    if type(x) is not Tensor:  # of one that is, the op says what else is odd
        check_dense(op, input=x)
    return code_range(op, *dtype_and_range)


def _choose(
    name: str,
    x: Tensor,
    where: tuple[Any, ...],
    dtype: torch.dtype,
    symmetric: bool,
    low: int | None,
    high: int | None,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """Scale and zero point for codes of a dtype, whose range bounds theirs."""
    bounds = checked_range(f"choose_qparams_{name}", x, dtype, low, high)
    least, most = RANGES[dtype]
    if isinstance(low, int) and low < least:
        raise ArgumentError(f"choose_qparams_{name}: quant_min is {spell(low)}; {dtype} starts at {least}")
    if isinstance(high, int) and high > most:
        raise ArgumentError(f"choose_qparams_{name}: quant_max is {spell(high)}; {dtype} ends at {most}")
    return choose(name, x, where, symmetric, eps, *bounds)


def choose(
    name: str, x: Tensor, where: tuple[Any, ...], symmetric: bool, eps: float, *bounds: int
) -> tuple[Tensor, Tensor]:
    """Scale and zero point by the plan, for codes of any range."""
    return _constant(_OPS[name][0], x, *where, *bounds, symmetric, eps)


def choose_and_quantize(name: str, x: Tensor, *attributes: Any) -> tuple[Tensor, Tensor, Tensor | None]:
    """Codes, their scale and zero point by the plan."""
    y: tuple[Tensor, Tensor, Tensor | None] = _constant(_OPS[name][1], x, *attributes)
    return y


def _constant(op: Op, x: Tensor, *attributes: Any) -> Any:
    """The call; past torch's dispatcher no detached tensor is needed."""
    y = NotImplemented if is_dynamo_compiling() else op.fast(x, *attributes)
    return op.dispatch(x.detach(), *attributes) if y is NotImplemented else y


def choose_qparams_per_tensor(
    input: Tensor,
    dtype: torch.dtype = torch.int8,
    *,
    symmetric: bool = True,
    quant_min: int | None = None,
    quant_max: int | None = None,
    eps: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """(scale, zero_point) for codes of dtype, from the smallest and largest value; each of shape [].

    Symmetric: ``scale = max|input| / quant_max`` and a zero point of 0; unsigned codes cannot hold what is
    negative then: use ``symmetric=False`` for them. Asymmetric: the range is widened to include 0,
    ``scale = (high - low) / (quant_max - quant_min)`` and
    ``zero_point = clamp(rint(quant_min - low / scale), quant_min, quant_max)``. quant_min and quant_max are
    dtype's unless given; quant_max is above 0 where symmetric, else above quant_min. A range of zeros has the
    scale 1, one with a NaN the scale NaN. A scale below ``eps`` becomes eps, before the zero point is made, as in
    torchao, whose eps is ``torch.finfo(torch.float32).eps`` unless given, and which gives it to a range of zeros, too.
    The scale is float32 (float64 for float64), the zero point int32; neither carries a gradient to input.

    >>> isobit.choose_qparams_per_tensor(torch.tensor([-1.0, 6.35]))
    (tensor(0.0500), tensor(0, dtype=torch.int32))
    """
    return _choose("per_tensor", input, (), dtype, symmetric, quant_min, quant_max, eps)


def choose_qparams_per_channel(
    input: Tensor,
    axis: int,
    dtype: torch.dtype = torch.int8,
    *,
    symmetric: bool = True,
    quant_min: int | None = None,
    quant_max: int | None = None,
    eps: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """As choose_qparams_per_tensor, of each index along ``axis``: both are ``[input.shape[axis]]``."""
    return _choose("per_channel", input, (axis,), dtype, symmetric, quant_min, quant_max, eps)


def choose_qparams_per_channel_group(
    input: Tensor,
    group_size: int = 128,
    dtype: torch.dtype = torch.int8,
    *,
    symmetric: bool = True,
    quant_min: int | None = None,
    quant_max: int | None = None,
    eps: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """As choose_qparams_per_tensor, of each ``group_size`` elements along the last dimension: both are
    ``[..., ceil(input.shape[-1] / group_size)]``."""
    return _choose("per_channel_group", input, (group_size,), dtype, symmetric, quant_min, quant_max, eps)


def choose_qparams_per_block(
    input: Tensor,
    block_size: Sequence[int],
    dtype: torch.dtype = torch.int8,
    *,
    symmetric: bool = True,
    quant_min: int | None = None,
    quant_max: int | None = None,
    eps: float = 0.0,
) -> tuple[Tensor, Tensor]:
    """As choose_qparams_per_tensor, of each block of ``block_size``: both are ``[ceil(d / b), ...]``, of the
    extents d of input and b of a block."""
    return _choose("per_block", input, (block_list(block_size),), dtype, symmetric, quant_min, quant_max, eps)


def choose_qparams_per_token(input: Tensor, dtype: torch.dtype, *, eps: float = 0.0) -> tuple[Tensor, Tensor]:
    """As choose_qparams_per_tensor, symmetric and of each row of the last dimension: the shape of
    scale and zero point is ``input.shape[:-1] + [1]``.

    As ``torch.ops.quantized_decomposed.choose_qparams_per_token``, which instead keeps max|input| from
    falling below 1e-5, differentiates the scale, and answers float zero points."""
    check_code_dtype("choose_qparams_per_token", dtype, _SIGNED)
    return _choose("per_token", input, (), dtype, True, None, None, eps)


def choose_qparams_per_token_asymmetric(
    input: Tensor, dtype: torch.dtype, *, eps: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Asymmetric parameters of each row of the last dimension, from its smallest and largest value
    (and 0, which is always a code). Shapes and dtypes as in choose_qparams_per_token;
    ``torch.ops.quantized_decomposed.choose_qparams_per_token_asymmetric`` answers float64 and int64."""
    bounds = checked_range("choose_qparams_per_token_asymmetric", input, dtype)
    if is_dynamo_compiling():
        return choose("per_token", input, (), False, eps, *bounds)
    try:
        return choose("per_token", input, (), False, eps, *bounds)
    except (TypeError, ValueError) as error:  # which have the name of the op
        raise type(error)(str(error).replace("per_token", "per_token_asymmetric", 1)) from None
