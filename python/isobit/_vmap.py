"""torch.vmap of isobit's ops: folded into the op where it has room for another dimension,
otherwise one call for each element of the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ._autocast import stacked
from ._checks import MAX_DIMS

if TYPE_CHECKING:
    from ._op import Op
    from .ops._granularity import Granularity

Dims = tuple[int | None, ...]


def register(op: Op, library: torch.library.Library) -> None:
    """Gives the op a vmap: op.batched(batch size, in_dims, *args) -> (outputs, their batch dims); where that is None,
    or answers None, a call for each element of the batch."""

    def vmap(info: Any, in_dims: Dims, *args: Any) -> Any:
        args = op.complete(args)
        dims = tuple(in_dims) + (None,) * (len(args) - len(in_dims))
        in_dims = tuple(d if isinstance(a, Tensor) else None for a, d in zip(args, dims, strict=True))
        rule = None if args[0] is None else op.batched  # None is what the op refuses
        done = rule(info.batch_size, in_dims, *args) if rule else None
        return loop(op, info.batch_size, in_dims, *args) if done is None else done

    torch.library.register_vmap(f"isobit::{op.name}", vmap, lib=library)


def loop(op: Op, size: int, in_dims: Dims, *args: Any) -> Any:
    def at(i: int) -> Any:
        return op.raw(*(a if d is None else a.select(d, i) for a, d in zip(args, in_dims, strict=True)))

    if size == 0:  # one call tells the shapes
        pairs = zip(args, in_dims, strict=True)
        empty = (a if d is None else a.new_zeros(1, *a.movedim(d, 0).shape[1:]) for a, d in pairs)
        y, dims = loop(op, 1, tuple(None if d is None else 0 for d in in_dims), *empty)
        return (y[:0] if isinstance(y, Tensor) else tuple(t[:0] for t in y)), dims
    results = [at(i) for i in range(size)]
    if isinstance(results[0], Tensor):
        return stacked(results), 0
    return tuple(stacked(r) for r in zip(*results, strict=True)), (0,) * len(results[0])


def front(x: Tensor, dim: int | None, size: int) -> Tensor:
    """x with its batch dimension first, expanded where it has none."""
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def is_of_rank(granularity: Granularity, rank: int, attribute: Any) -> bool:
    """Whether an axis or a block's extents are those of a tensor without the batch: if not, the loop says so of one."""
    if granularity.axis:
        return -rank <= int(attribute) < rank
    return not granularity.block or len(attribute) == rank


def vmap_elementwise(op: Op, granularity: Granularity, data: tuple[int, ...]) -> None:
    """For an op of one granularity, whose inputs `data` have one shape: a batch is one call with
    another leading dimension. Parameters of each row follow their rows; common ones must not have
    a batch of their own, nor a gradient, which would be summed over it."""
    signature = op.signature
    count = len(signature.inputs)

    def rule(size: int, in_dims: Dims, *args: Any) -> Any:
        wanted = [o.wanted(args[count:]) for o in signature.outputs]
        batched = data
        if granularity.rows:
            batched = tuple(i for i in range(count) if isinstance(args[i], Tensor))
        elif any(d is not None for i, d in enumerate(in_dims) if i not in data) or any(wanted[1:]):
            return None
        new = list(args)
        for i in batched:
            new[i] = front(args[i], in_dims[i], size)
        rank = new[data[0]].dim() - 1
        if rank >= MAX_DIMS or not is_of_rank(granularity, rank, args[count]):
            return None
        if granularity.axis and new[count] >= 0:
            new[count] += 1
        if granularity.block:
            new[count] = [1, *new[count]]
        y = op.raw(*new)
        if isinstance(y, Tensor):
            return y, 0
        return y, tuple(0 if w else None for w in wanted)

    op.batched = rule


def vmap_fold(op: Op, data: tuple[int, ...], change: Callable[[int, list[Any]], None] | None = None) -> None:
    """For an op whose data tensors all begin with a batch dimension of their own: the two become one.
    change(size, args) adapts other arguments."""

    def rule(size: int, in_dims: Dims, *args: Any) -> Any:
        if any(d is not None for i, d in enumerate(in_dims) if i not in data):
            return None
        new = list(args)
        for i in data:
            if args[i] is not None:
                new[i] = front(args[i], in_dims[i], size)
        own = new[data[0]].shape[1]
        for i in data:
            if args[i] is not None:
                new[i] = new[i].flatten(0, 1)
        if change:
            change(size, new)
        y = op.raw(*new)

        def unfold(t: Tensor) -> tuple[Tensor, int | None]:
            return (t.unflatten(0, (size, own)), 0) if t.dim() > 1 else (t, None)

        if isinstance(y, Tensor):
            return unfold(y)
        pairs = [unfold(t) for t in y]
        return tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)

    op.batched = rule
