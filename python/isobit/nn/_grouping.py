"""Which elements of a module's tensors share a scale and a zero point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .._checks import check_kinds
from .._errors import ArgumentError
from .._known import is_empty, number
from .._transforms import is_plain
from ..ops.dequantize import wanted_gradients


def check_shape(owner: str, shape: Sequence[int] | None) -> None:
    """Raises where this is no shape of what will be quantized, nor None."""
    check_kinds(owner, "l?", shape=shape)
    if shape is not None and min(shape, default=0) < 0:
        raise ArgumentError(f"{owner}: shape is {list(shape)}; want extents of at least 0")


@dataclass(frozen=True)
class Grouping:
    """Which elements share a scale and a zero point: all, unless another name is given."""

    name: str = "per_tensor"  # as in the names of isobit's functions
    where: int | tuple[int, ...] | None = None  # the axis, the group's size, the block's

    def __str__(self) -> str:
        return self.name if self.where is None else f"{self.name}({self.where})"

    @classmethod
    def of(cls, owner: str, axis: int | None, group_size: int | None, block_size: Sequence[int] | None) -> Grouping:
        """The grouping that one of the three names; with none, the whole tensor."""
        check_kinds(owner, "i?", group_size=group_size)
        check_kinds(owner, "l?", block_size=block_size)
        given = [a is not None for a in (axis, group_size, block_size)]
        if sum(given) > 1:
            raise ArgumentError(f"{owner}: want one of a channel's axis, group_size and block_size")
        if block_size is not None:
            return cls("per_block", tuple(block_size))
        if group_size is not None:
            if group_size < 1:
                raise ArgumentError(f"{owner}: group_size is {group_size}; want at least 1")
            return cls("per_channel_group", group_size)
        return cls() if axis is None else cls("per_channel", axis)

    def arguments(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """What isobit's functions take before quant_min, and after the range and the dtype."""
        if self.name in ("per_channel", "per_block"):
            return (list(self.where) if isinstance(self.where, tuple) else self.where,), ()
        return (), () if self.where is None else (self.where,)

    def block(self, shape: Sequence[int]) -> list[int | None]:
        """The extents of a block of elements that share parameters; None: the whole of a dimension."""
        where, rank = self.where, len(shape)
        if self.name == "per_tensor":
            return [None] * rank
        if isinstance(where, tuple):
            if len(where) != rank or min(where, default=1) < 1:
                raise ArgumentError(
                    f"block_size is {list(where)}; want an extent of at least 1 for each of {list(shape)}"
                )
            return list(where)
        if rank == 0:
            raise ArgumentError(f"{self.name} wants at least one dimension, not a shape of []")
        if self.name == "per_channel":
            if where is None or not -rank <= where < rank:
                raise ArgumentError(f"ch_axis is {where}; want {-rank} to {rank - 1} for shape {list(shape)}")
            return [1 if i == where % rank else None for i in range(rank)]
        return [1] * (rank - 1) + [where]

    def parameter_shape(self, shape: Sequence[int]) -> list[int]:
        """The shape of scales and zero points."""
        block = self.block(shape)
        if self.name == "per_tensor":
            return []
        if self.name == "per_channel":
            return [shape[self.where]]  # type: ignore[index]
        if self.name == "per_token":
            return [*shape[:-1], 1]
        return [_blocks(extent, b) for extent, b in zip(shape, block, strict=True)]

    def shares_along_rows(self) -> bool:
        """Whether no two rows of a matrix lie in one block, or all do."""
        if self.name == "per_channel":
            return self.where in (0, -2)
        return not isinstance(self.where, tuple) or self.where[0] == 1

    def is_by_row(self) -> bool:
        """Whether each row of a matrix has parameters of its own."""
        return self.name != "per_tensor" and self.shares_along_rows()

    def of_rows(self, rows: Tensor) -> tuple[Grouping, Tensor | None]:
        """For these rows of a matrix: their grouping, and which parameters they have along dimension 0 (None:
        all of them)."""
        if self.name == "per_channel":
            return (Grouping("per_token"), rows) if self.where in (0, -2) else (self, None)
        if isinstance(self.where, tuple):
            return Grouping("per_channel_group", self.where[1]), rows // self.where[0]
        return self, None if self.name == "per_tensor" else rows

    def extremes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The smallest and the largest element of each block, float32 or wider, never -0. They are exact, so
        that the order torch looks in does not matter. Of nothing they are inf and -inf."""
        kind = torch.promote_types(x.dtype, torch.float32)
        if self.name == "per_tensor" and is_plain(x) and x.is_contiguous() and x.numel():
            low, high = torch.aminmax(x)
            if x.dtype != kind:
                low, high = low.to(kind), high.to(kind)
            zero = number(0.0, low)
            return low + zero, high + zero
        shape, block = self.parameter_shape(x.shape), self.block(x.shape)
        pads: list[int] = []
        view: list[int] = []
        over: list[int] = []
        more = int(is_empty(x) is not False)  # an element to reduce, where there may be none
        if not more and all(b in (1, None) for b in block):  # whole dimensions: a view of blocks would take longer
            over = [i for i, b in enumerate(block) if b is None]
        else:
            for i, (extent, b) in enumerate(zip(x.shape, block, strict=True)):
                # What an export leaves open is not asked where there is nothing to pad.
                count = _blocks(extent, b)
                pads = [0, 0 if b == 1 else more if b is None else count * b - extent, *pads]
                view += [count, extent + more if b is None else b]
                over.append(2 * i + 1)

        def of(reduce: Any, outside: float) -> Tensor:
            y = torch.nn.functional.pad(x, pads, value=outside) if any(pads) else x
            y = y.reshape(view) if view else y
            y = (reduce(y, over) if over else y).reshape(shape).to(kind)
            return y + number(0.0, y)

        return of(torch.amin, float("inf")), of(torch.amax, float("-inf"))

    def with_zeros(self, x: Tensor) -> Tensor:
        """x with a 0 more in each block that no one knows the extents of: a range has 0 in it always."""
        pads: list[int] = []
        for b in self.block(x.shape):
            pads = [0, int(b is None), *pads]
        return torch.nn.functional.pad(x, pads)

    def sums(self, a: Tensor, b: Tensor) -> Tensor:
        """The sum of ``a * b`` over each block, in Stripe order: what dequantize's scale has as a gradient."""
        before, after = self.arguments()
        scale = torch.ones(self.parameter_shape(a.shape), dtype=a.dtype, device=a.device)
        wants = (False, True, False)
        _, sums, _ = wanted_gradients(self.name, a, b, scale, None, *before, -1, 1, *after, *wants, None)
        assert sums is not None
        return sums


def _blocks(extent: int, b: int | None) -> int:
    """How many blocks a dimension has."""
    return extent if b == 1 else 1 if b is None else (extent + b - 1) // b
