"""embedding_bag: sums, means and maxima of bags of rows, with their gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .._autograd import leave_to_python
from .._checks import check_dense, spell
from .._errors import ArgumentError
from .._jagged import is_jagged
from .._op import Op
from ._sparse import check_unmapped, coalesced, distinct
from .embedding import padding_row, renorm_before

_BAGS = "SymInt padding_idx=-1, bool include_last_offset=False"
_FORWARD = Op(
    "embedding_bag(Tensor weight, Tensor indices, Tensor? offsets, Tensor? per_sample_weights, SymInt bags, "
    f"str mode='mean', {_BAGS}, bool scale_grad_by_freq=False, bool sparse=False, bool want_chosen=False) "
    "-> (Tensor, Tensor)",
    "embedding_bag",
    "weight[] indices[] offsets[]? per_sample_weights?",
    "bags:I mode:s padding_idx:i include_last_offset:b scale_grad_by_freq:B sparse:B want_chosen:w",
    "y = bags weight[1:] : weight",
    "chosen = bags weight[1:] : int64 if want_chosen",
)
_BACKWARD = Op(
    "embedding_bag_backward(Tensor grad_output, Tensor indices, Tensor? offsets, Tensor? per_sample_weights, "
    f"Tensor? chosen, SymInt num_weights, str mode='mean', {_BAGS}, bool scale_grad_by_freq=False) -> Tensor",
    "embedding_bag_backward",
    "grad_output[] indices[] offsets[]? per_sample_weights? chosen?",
    "num_weights:I mode:s padding_idx:i include_last_offset:b scale_grad_by_freq:b",
    "grad_weight[] = num_weights grad_output[-1:] : grad_output",
)
_WEIGHTS_BACKWARD = Op(
    "embedding_bag_per_sample_weights_backward(Tensor grad_output, Tensor weight, Tensor indices, Tensor? offsets, "
    f"{_BAGS}) -> Tensor",
    "embedding_bag_per_sample_weights_backward",
    "grad_output[] weight[] indices[] offsets[]?",
    "padding_idx:i include_last_offset:b",
    "grad_per_sample_weights = indices : weight",
)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    weight, indices, offsets, per_sample_weights = inputs[:4]
    _, ctx.mode, ctx.padding_idx, ctx.include_last_offset, ctx.scale_grad_by_freq, ctx.sparse, _ = inputs[4:]
    ctx.rows = weight.shape[0]
    ctx.wants_weights = ctx.needs_input_grad[3]
    chosen = output[1] if ctx.mode == "max" else None
    ctx.save_for_backward(indices, offsets, per_sample_weights, weight if ctx.wants_weights else None, chosen)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, grad_output: Tensor, _: Any) -> tuple[Any, ...]:
    indices, offsets, per_sample_weights, weight, chosen = ctx.saved_tensors
    grad_weight = grad_per_sample_weights = None
    if ctx.needs_input_grad[0]:
        attributes = (ctx.mode, ctx.padding_idx, ctx.include_last_offset, ctx.scale_grad_by_freq)
        if ctx.sparse:
            grad_weight = _sparse_gradient(grad_output, indices, offsets, per_sample_weights, ctx.rows, *attributes)
        else:
            grad_weight = _BACKWARD(grad_output, indices, offsets, per_sample_weights, chosen, ctx.rows, *attributes)
    if ctx.wants_weights:
        grad_per_sample_weights = _WEIGHTS_BACKWARD(
            grad_output, weight, indices, offsets, ctx.padding_idx, ctx.include_last_offset
        )
    return grad_weight, None, None, grad_per_sample_weights, *[None] * 7


def _sparse_gradient(
    grad_output: Tensor,
    indices: Tensor,
    offsets: Tensor | None,
    per_sample_weights: Tensor | None,
    rows: int,
    mode: str,
    padding_idx: int,
    include_last_offset: bool,
    scale_grad_by_freq: bool,
) -> Tensor:
    if scale_grad_by_freq:
        raise RuntimeError("embedding_bag: scale_grad_by_freq does not work with a sparse gradient")
    check_unmapped("embedding_bag", *(t for t in (grad_output, indices, offsets, per_sample_weights) if t is not None))
    left_out = padding_idx if padding_idx >= 0 else None
    if offsets is not None and (include_last_offset or len(offsets) == 0):
        # What follows the last one is in no bag: as padding, or -1.
        beyond = torch.arange(len(indices), device=indices.device) >= (offsets[-1] if len(offsets) else 0)
        indices, left_out = indices.masked_fill(beyond, padding_idx), padding_idx
    found, position = distinct(indices, rows, left_out)  # a bag does not count what is left out either
    values = _BACKWARD(
        grad_output, position, offsets, per_sample_weights, None, found.numel(), mode, -1, include_last_offset, False
    )
    return coalesced(found, values, (rows, grad_output.shape[-1]))


_FORWARD.names["indices"] = "input"  # as torch.nn.functional.embedding_bag calls it
_FORWARD.differentiable(_setup, _backward)
for _op in (_BACKWARD, _WEIGHTS_BACKWARD):
    _op.not_differentiable()

_fast, _direct = _FORWARD.fast, _FORWARD.direct


def quick_bags(
    op: str, lists: Tensor, weight: Any, padding_idx: Any, include_last_offset: Any, offsets: Any
) -> tuple[int, int, bool] | None:
    """The number of bags, the padding's row or -1, and whether the last offset ends the last bag; None where
    something is wrong."""
    if type(include_last_offset) is not bool or not isinstance(weight, Tensor):
        return None
    if weight.is_nested or weight.dim() != 2:
        return None
    ends = include_last_offset and offsets is not None
    bags = lists.shape[0] - 1 if ends else lists.shape[0]
    return bags, padding_row(padding_idx, weight.shape[0], op), ends


def _quick(
    input: Any,
    weight: Any,
    offsets: Any,
    per_sample_weights: Any,
    mode: Any,
    scale_grad_by_freq: Any,
    sparse: Any,
    padding_idx: Any,
    include_last_offset: Any,
) -> Any:
    """The call of the usual arguments; NotImplemented where something is wrong, or a case for torch's dispatcher."""
    lists = input if offsets is None else offsets
    if type(lists) is not Tensor or lists.is_nested or lists.dim() == 0 or not isinstance(mode, str):
        return NotImplemented
    if mode == "max" and (scale_grad_by_freq is not False or sparse is not False):
        return NotImplemented
    bags, row, ends = lists.shape[0], -1, False
    if padding_idx is not None or include_last_offset is not False:
        given = quick_bags("embedding_bag", lists, weight, padding_idx, include_last_offset, offsets)
        if given is None:
            return NotImplemented
        bags, row, ends = given
    attributes = (bags, mode, row, ends, scale_grad_by_freq, sparse, False)
    call = _fast if mode == "max" else _direct  # its gradient wants chosen, too
    results = call(weight, input, offsets, per_sample_weights, *attributes)
    return results if results is NotImplemented else results[0]


leave_to_python(_quick)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or max of the rows of ``weight`` [V, D] that each bag of ``input`` (int32 or int64) names:
    [bags, D] in weight's dtype, a row of zeros for a bag without rows.

    As ``torch.nn.functional.embedding_bag``. Bags are the rows of a 2-D input, or runs of a 1-D one that
    begin at ``offsets``; an index or an offset out of range is an error that names its position and value.
    Sums are in float32 for 16-bit weights, forward and backward; a NaN is larger than everything. ``sparse=True``
    gives the gradient coalesced. ``max_norm`` scales the rows that are named down to that norm first, in place.

    >>> weight = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
    >>> isobit.embedding_bag(torch.tensor([2, 0, 1]), weight, torch.tensor([0, 2]), mode="sum").tolist()
    [[4.0, 6.0], [2.0, 3.0]]
    """
    if max_norm is None and not is_dynamo_compiling():
        given = mode, scale_grad_by_freq, sparse, padding_idx, include_last_offset
        y = _quick(input, weight, offsets, per_sample_weights, *given)
        if y is not NotImplemented:
            return y
    if is_jagged(input):
        input, offsets, per_sample_weights = unnested("embedding_bag", input, offsets, per_sample_weights)
        include_last_offset = True
    check_dense("embedding_bag", input=input, weight=weight)
    bags = bags_of("embedding_bag", input, weight, offsets, per_sample_weights, mode, include_last_offset)
    if mode == "max" and scale_grad_by_freq:
        raise ArgumentError("embedding_bag: scale_grad_by_freq does not work with mode='max'")
    if mode == "max" and sparse:
        raise ArgumentError("embedding_bag: mode='max' has no sparse gradient")
    include_last_offset = include_last_offset and offsets is not None
    row = padding_row(padding_idx, weight.shape[0], "embedding_bag")
    attributes = (bags, mode, row, include_last_offset, scale_grad_by_freq, sparse)
    if max_norm is not None:
        renorm_before(_FORWARD, (weight, input, offsets, per_sample_weights, *attributes, False), max_norm, norm_type)
    if not is_dynamo_compiling():
        results = _fast(weight, input, offsets, per_sample_weights, *attributes, False)
        if results is not NotImplemented:
            return results[0]
    y = _FORWARD.apply(weight, input, offsets, per_sample_weights, *attributes, mode == "max")[0]
    return y


def unnested(
    op: str, input: Any, offsets: Any, per_sample_weights: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The values and offsets of a jagged tensor, which is a batch of bags."""
    if offsets is not None:
        raise ArgumentError(f"{op}: offsets were given, and input is nested, whose rows are the bags")
    if input.dim() != 2:
        raise ArgumentError(f"{op}: input is nested, of {input.dim()} dimensions; want two, of which rows are the bags")
    nested = {"input": input}
    if per_sample_weights is not None:
        nested["per_sample_weights"] = per_sample_weights
    for name, t in nested.items():
        if getattr(t, "layout", None) != torch.jagged:
            raise ArgumentError(f"{op}: input is nested; want {name} nested, too, in the jagged layout")
        if t.lengths() is not None:
            raise ArgumentError(f"{op}: {name} is nested with gaps between its rows; want it contiguous")
    starts, values = input.offsets(), None
    if per_sample_weights is not None:
        other, values = nested["per_sample_weights"].offsets(), per_sample_weights.values()
        if other is not starts and not is_dynamo_compiling() and not torch.equal(other, starts):
            raise ArgumentError(f"{op}: per_sample_weights is nested; want rows as long as those of input")
    return input.values(), starts, values


def bags_of(
    op: str,
    input: Tensor,
    weight: Tensor,
    offsets: Any,
    per_sample_weights: Tensor | None,
    mode: str,
    include_last_offset: bool,
) -> int:
    """Raises what torch raises; returns the number of bags."""
    if offsets is not None:
        check_dense(op, offsets=offsets)
    if per_sample_weights is not None:
        check_dense(op, per_sample_weights=per_sample_weights)
    _check_shapes(op, input, weight, offsets, per_sample_weights)
    if not isinstance(mode, str) or mode not in ("sum", "mean", "max"):
        raise ArgumentError(f"{op}: mode is {spell(mode)}; want 'sum', 'mean' or 'max'")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"{op}: per_sample_weights are for mode='sum', not for mode={mode!r}")
    if not isinstance(include_last_offset, bool):
        raise TypeError(f"{op}: include_last_offset must be a bool, not {spell(include_last_offset)}")
    bags: int = (input if offsets is None else offsets).shape[0]
    if offsets is None or not include_last_offset:
        return bags
    if bags == 0:
        raise ArgumentError(f"{op}: offsets has shape [0]; want at least the last offset")
    return bags - 1


def _check_shapes(
    op: str, input: Tensor, weight: Tensor, offsets: Tensor | None, per_sample_weights: Tensor | None
) -> None:
    if per_sample_weights is not None and per_sample_weights.shape != input.shape:
        came, want = list(per_sample_weights.shape), list(input.shape)
        raise ArgumentError(f"{op}: per_sample_weights has shape {came}; want {want}, the shape of input")
    if weight.dim() != 2:
        raise ArgumentError(f"{op}: weight has shape {list(weight.shape)}; want two dimensions")
    if input.dim() not in (1, 2):
        raise ArgumentError(f"{op}: input has shape {list(input.shape)}; want one or two dimensions")
    if input.dim() == 2 and offsets is not None:
        raise ArgumentError(f"{op}: offsets were given, and input has two dimensions, whose rows are the bags")
    if input.dim() == 1 and offsets is None:
        raise ArgumentError(f"{op}: offsets is None; want it for an input of one dimension")
    if offsets is not None and offsets.dim() != 1:
        raise ArgumentError(f"{op}: offsets has shape {list(offsets.shape)}; want one dimension")
