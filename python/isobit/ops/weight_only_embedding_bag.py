"""weight_only_embedding_bag: bags of rows of a table that is stored as codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .._autograd import leave_to_python
from .._checks import check_dense
from .._errors import ArgumentError
from .._jagged import is_jagged
from .._op import Op
from .._transforms import wants_derivative
from ._code_range import code_range
from .dequantize import weights
from .embedding import padding_row
from .embedding_bag import bags_of, embedding_bag, quick_bags, unnested

_NAME = "weight_only_embedding_bag"
_OP = Op(
    f"{_NAME}(Tensor weight, Tensor indices, Tensor? offsets, Tensor? per_sample_weights, Tensor weight_scale, "
    "Tensor? weight_zero_point, SymInt bags, int group_size, ScalarType dtype, ScalarType output_dtype, "
    "str mode='mean', SymInt padding_idx=-1, bool include_last_offset=False, SymInt? last_dim=None) -> Tensor",
    _NAME,
    "weight[]* indices[] offsets[]? per_sample_weights? weight_scale weight_zero_point?",
    "bags:I group_size:i dtype:m output_dtype:d mode:s padding_idx:i include_last_offset:b last_dim:e?",
    "y = bags weight[1:] : output_dtype",
)
_OP.names["indices"] = "input"  # as torch.nn.functional.embedding_bag calls it
_OP.not_differentiable("isobit::{} has no derivative itself; isobit." + _NAME + " has")
_fast = _OP.fast


def _quick(input: Any, weight: Any, offsets: Any, padding_idx: Any, include_last_offset: Any, *rest: Any) -> Any:
    """The call of the usual arguments; NotImplemented where something is wrong, or there is more to do."""
    lists = input if offsets is None else offsets
    if type(lists) is not Tensor or type(weight) is not Tensor or lists.is_nested or lists.dim() == 0:
        return NotImplemented
    given = quick_bags(_NAME, lists, weight, padding_idx, include_last_offset, offsets)
    if given is None:
        return NotImplemented
    bags, row, ends = given
    *parameters, group_size, dtype, output_dtype, mode, last_dim = rest
    attributes = group_size, weight.dtype if dtype is None else dtype, output_dtype, mode, row, ends, last_dim
    return _fast(weight, input, offsets, *parameters, bags, *attributes)


leave_to_python(_quick)


def weight_only_embedding_bag(
    input: Tensor,
    weight: Tensor,
    weight_scale: Tensor,
    weight_zero_point: Tensor | None = None,
    offsets: Tensor | None = None,
    *,
    group_size: int,
    mode: str = "mean",
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
    dtype: torch.dtype | None = None,
    output_dtype: torch.dtype = torch.float32,
    last_dim: int | None = None,
) -> Tensor:
    """``embedding_bag`` of the table ``(weight - weight_zero_point) * weight_scale``, rounded to output_dtype, of codes
    ``weight`` [V, D], int8 or uint8: [bags, D] in output_dtype.

    Each ``group_size`` codes along a row share a scale and a zero point, [V, ceil(D / group_size)]. With
    dtype torch.int4 or torch.uint4, weight is bytes of two codes each, [V, ceil(D / 2)], as
    quantize_per_channel_group makes them; ``last_dim`` tells an odd D. Gradients reach per_sample_weights,
    scale and a float zero point.

    >>> codes, scale = torch.tensor([[2, 4], [1, 3], [0, 5]], dtype=torch.int8), torch.tensor([[0.5], [2.0], [1.0]])
    >>> isobit.weight_only_embedding_bag(torch.tensor([[2, 0, 1]]), codes, scale, group_size=2, mode="sum").tolist()
    [[3.0, 13.0]]
    """
    if not is_dynamo_compiling():
        given = per_sample_weights, weight_scale, weight_zero_point, group_size, dtype, output_dtype, mode, last_dim
        y = _quick(input, weight, offsets, padding_idx, include_last_offset, *given)
        if y is not NotImplemented:
            return y
    if is_jagged(input):
        input, offsets, per_sample_weights = unnested(_NAME, input, offsets, per_sample_weights)
        include_last_offset = True
    check_dense(_NAME, input=input, weight=weight, weight_scale=weight_scale)
    if weight_zero_point is not None:
        check_dense(_NAME, weight_zero_point=weight_zero_point)
    if dtype is None and weight.dtype not in (torch.int8, torch.uint8):
        raise ArgumentError(f"{_NAME}: weight is {weight.dtype}; want torch.int8 or torch.uint8")
    dtype = weight.dtype if dtype is None else dtype
    bags = bags_of(_NAME, input, weight, offsets, per_sample_weights, mode, include_last_offset)
    include_last_offset = include_last_offset and offsets is not None
    row = padding_row(padding_idx, weight.shape[0], _NAME)
    parameters = per_sample_weights, weight_scale, weight_zero_point
    attributes = bags, group_size, dtype, output_dtype, mode, row, include_last_offset, last_dim
    # The op has no gradient.
    learned = wants_derivative(weight_scale, weight_zero_point)
    if not learned and not wants_derivative(per_sample_weights):
        return _OP(weight, input, offsets, *parameters, *attributes)
    if not is_dynamo_compiling():
        _OP.refuse_tangents(parameters)
    constants = (t if t is None else t.detach() for t in parameters)
    args = (weight, input, offsets, *constants, *attributes)
    if is_dynamo_compiling() or _OP.check(*args) is NotImplemented:
        _OP(*args)  # says what is wrong in its own words, or is a case for torch's dispatcher

    def rows(at: Tensor | None) -> Tensor:
        of_rows = (t if t is None or at is None else t.index_select(0, at) for t in table)
        return weights(*of_rows, *code_range(_NAME, dtype), dtype, group_size, output_dtype, last_dim)

    table = weight, weight_scale, weight_zero_point
    if not learned:
        return bags_of_rows(rows, input, offsets, mode, per_sample_weights, include_last_offset, row)
    return embedding_bag(  # sums of a row's gradients are isobit's
        input,
        rows(None),
        offsets,
        mode=mode,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )


def bags_of_rows(
    rows: Callable[[Tensor], Tensor],
    input: Tensor,
    offsets: Tensor | None,
    mode: str,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
    padding: int,
) -> Tensor:
    """embedding_bag of a table that a function gives rows of; padding is one of them, or -1."""
    # A table of the rows that occur, one for each position, and the padding's row after them.
    named, padding_idx = input.reshape(-1), None
    position = torch.arange(named.numel(), dtype=input.dtype, device=input.device).reshape(input.shape)
    if padding >= 0:
        padding_idx = named.numel()
        position = position.masked_fill(input == padding, padding_idx)
        named = torch.cat([named, named.new_full((1,), padding)])
    return embedding_bag(
        position,
        rows(named),
        offsets,
        mode=mode,
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
        padding_idx=padding_idx,
    )
