"""How a module quantizes: which elements share a scale, which codes there are, how parameters are chosen.

Everything that decides a value goes through isobit's ops; what is left to torch here is exact (the
smallest and largest element, shapes) or one rounding per element."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import torch
from torch import Tensor

from .._explain import check_kinds
from .._load import PACKED
from .._transforms import is_empty
from ..ops import dequantize as _dequantize
from ..ops import fake_quantize as _fake_quantize
from ..ops import per_block as _per_block
from ..ops import qparams as _qparams
from ..ops import quantize as _quantize
from ..ops._granularity import FLOAT8

_NAMES = ("per_tensor", "per_channel", "per_token", "per_channel_group", "per_block")


def _function(module: Any, name: str) -> dict[str, Callable[..., Tensor]]:
    """isobit's function of each grouping."""
    return {n: getattr(_per_block if n == "per_block" else module, name.format(n)) for n in _NAMES}


_FAKE_QUANTIZE = _function(_fake_quantize, "fake_quantize_{}_affine")
_QUANTIZE = _function(_quantize, "quantize_{}")
_DEQUANTIZE = _function(_dequantize, "dequantize_{}")


def check_shape(owner: str, shape: Sequence[int] | None) -> None:
    """Raises where this is no shape of what will be quantized, nor None."""
    check_kinds(owner, "l?", shape=shape)
    if shape is not None and min(shape, default=0) < 0:
        raise ValueError(f"{owner}: shape is {list(shape)}; want extents of at least 0")


@dataclass(frozen=True)
class Grouping:
    """Which elements share a scale and a zero point."""

    name: str = "per_tensor"  # as in the names of isobit's functions
    where: int | tuple[int, ...] | None = None  # the axis, the group's size, the block's

    @classmethod
    def of(cls, axis: int | None, group_size: int | None, block_size: Sequence[int] | None) -> Grouping:
        """The grouping that one of the three names; with none, the whole tensor."""
        given = [a is not None for a in (axis, group_size, block_size)]
        if sum(given) > 1:
            raise ValueError("want one of a channel's axis, group_size and block_size")
        if block_size is not None:
            return cls("per_block", tuple(block_size))
        if group_size is not None:
            if group_size < 1:
                raise ValueError(f"group_size is {group_size}; want at least 1")
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
                raise ValueError(f"block_size is {list(where)}; want an extent of at least 1 for each of {list(shape)}")
            return list(where)
        if rank == 0:
            raise ValueError(f"{self.name} wants at least one dimension, not a shape of []")
        if self.name == "per_channel":
            if where is None or not -rank <= where < rank:
                raise ValueError(f"ch_axis is {where}; want {-rank} to {rank - 1} for shape {list(shape)}")
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
        that the order torch looks in does not matter."""
        shape = self.parameter_shape(x.shape)
        pads: list[int] = []
        view: list[int] = []
        over: list[int] = []
        for i, (extent, b) in enumerate(zip(x.shape, self.block(x.shape), strict=True)):
            # What an export leaves open is not asked where there is nothing to pad.
            count = _blocks(extent, b)
            pads = [0, 0 if b in (1, None) else count * b - extent, *pads]
            view += [count, extent if b is None else b]
            over.append(2 * i + 1)
        kind = torch.promote_types(x.dtype, torch.float32)

        def of(reduce: Any, outside: float) -> Tensor:
            padded = torch.nn.functional.pad(x, pads, value=outside) if any(pads) else x
            y = reduce(padded.reshape(view), over) if over else x
            return y.reshape(shape).to(kind) + 0.0

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
        _, sums, _ = _dequantize.wanted_gradients(self.name, a, b, scale, None, *before, -1, 1, *after, *wants, None)
        assert sums is not None
        return sums


def _blocks(extent: int, b: int | None) -> int:
    """How many blocks a dimension has."""
    return extent if b == 1 else 1 if b is None else (extent + b - 1) // b


def quotient(x: Tensor, number: float) -> Tensor:
    """x / number, rounded once: on a GPU torch multiplies by the reciprocal of a number that is no tensor there."""
    return x / torch.full_like(x, number)


def code_type(owner: str, dtype: Any) -> tuple[torch.dtype, int, int]:
    """What codes of a dtype are kept as, and their range. Dtypes are torch's (quint8, int8, int4, float8_e4m3fn),
    torchao's enumeration, or names."""
    text = str(getattr(dtype, "name", dtype)).lower().removeprefix("torch.")
    for float8 in FLOAT8:
        if text == str(float8).removeprefix("torch."):
            most = int(torch.finfo(float8).max)
            return float8, -most, most
    match = re.fullmatch(r"q?(u?)int([1-8])", text)
    if match is None:
        raise ValueError(f"{owner}: dtype is {dtype}; want an integer of 1 to 8 bits, or an 8-bit float of torch's")
    unsigned, bits = bool(match[1]), int(match[2])
    packed = getattr(torch, "uint4" if unsigned else "int4", None) if bits == 4 else None
    kept = packed if packed is not None else torch.uint8 if unsigned else torch.int8
    return kept, *((0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1))


@dataclass(frozen=True)
class Scheme:
    """Codes of ``dtype`` in [quant_min, quant_max], and how a scale and a zero point are chosen for them.

    Symmetric ranges of signed codes have the zero point 0, of unsigned ones that in the middle."""

    grouping: Grouping
    quant_min: int
    quant_max: int
    dtype: torch.dtype | None = torch.int8  # None: no type of isobit's holds them
    symmetric: bool = True
    eps: float = 0.0  # no scale is chosen below it
    scale_dtype: torch.dtype | None = None
    rounding: str = "nearest"

    def check(self, owner: str, low: int, high: int) -> Scheme:
        """This scheme, if its codes lie in [low, high] and parameters can be chosen for them."""
        least, most = self.quant_min, self.quant_max
        if not low <= least < most <= high:
            raise ValueError(
                f"{owner}: quant_min and quant_max are {least} and {most}; "
                f"want {low} <= quant_min < quant_max <= {high}, the range of {self.dtype}"
            )
        if not 0 <= self.eps < inf:
            raise ValueError(f"{owner}: eps is {self.eps}; want at least 0, and finite")
        if not least - self.middle <= 0 <= most - self.middle:
            raise ValueError(f"{owner}: quant_min and quant_max are {least} and {most}; want 0 between them")
        if self.symmetric and most <= self.middle:
            raise ValueError(f"{owner}: no code above {self.middle} in {least} to {most}; want symmetric=False")
        if self.dtype in FLOAT8 and not self.symmetric:
            raise ValueError(f"{owner}: 8-bit float codes have a scale only; want a symmetric scheme")
        return self

    @property
    def middle(self) -> int:
        """The zero point of a symmetric scheme."""
        return (self.quant_min + self.quant_max + 1) // 2 if self.symmetric and self.quant_min >= 0 else 0

    @property
    def code_dtype(self) -> torch.dtype | None:
        return self.dtype if self.dtype in FLOAT8 else None

    def is_int8(self) -> bool:
        """Whether int8 holds the codes, and the zero point is 0 always."""
        return self.code_dtype is None and self.centred and self.quant_min >= -128 and self.quant_max <= 127

    @property
    def centred(self) -> bool:
        """Whether the zero point is 0 always."""
        return self.symmetric and self.middle == 0

    def kept_as(self, dtype: torch.dtype | None) -> Scheme:
        return self if dtype is None else replace(self, dtype=dtype)

    def grouped_as(self, grouping: Grouping) -> Scheme:
        return replace(self, grouping=grouping)

    def kept_zero_point(self, zero_point: Tensor | None) -> Tensor | None:
        """The zero point, or None where it is 0 always."""
        return None if self.centred else zero_point

    def integer_zero_point(self, zero_point: Tensor | None) -> Tensor | None:
        """A learned zero point as quantize uses it: ``clamp(rint(zp))``, a NaN counting as 0. int32."""
        zero_point = self.kept_zero_point(zero_point)
        if zero_point is None or not zero_point.is_floating_point():
            return None if zero_point is None else zero_point.detach().to(torch.int32)
        whole = zero_point.detach().nan_to_num(0.0, float("inf"), float("-inf")).round()
        return whole.clamp(self.quant_min, self.quant_max).to(torch.int32)

    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A scale and an int32 zero point for x: those of choose_qparams, but for eps and a middle."""
        if self.eps > 0 and not (empty := is_empty(x)):
            return self.choose_for_range(*self.grouping.extremes(x if empty is False else self.grouping.with_zeros(x)))
        before, after = self.grouping.arguments()
        return self._finish(*self._chosen(self.grouping.name, x, *before, *after))

    def choose_for_range(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """The same for values from low to high."""
        scale, zero_point = self._chosen("per_token", torch.stack([low, high], -1))
        scale, zero_point = scale.squeeze(-1), zero_point.squeeze(-1)
        if self.eps > 0 and self.symmetric:
            scale = scale.clamp(min=self.eps)
        elif self.eps > 0:
            small = scale < self.eps
            scale = torch.where(small, torch.full_like(scale, self.eps), scale)
            # choose_qparams' rule for the scale that was raised
            moved = (self.quant_min - low.clamp(max=0) / scale).round().clamp(self.quant_min, self.quant_max)
            zero_point = torch.where(small, moved.nan_to_num(0.0).to(torch.int32), zero_point)
        return self._finish(scale, zero_point)

    def _chosen(self, name: str, x: Tensor, *where: Any) -> tuple[Tensor, Tensor]:
        bounds = self.quant_min - self.middle, self.quant_max - self.middle
        return _qparams.choose(name, x, where, self.symmetric, *bounds)

    def _finish(self, scale: Tensor, zero_point: Tensor) -> tuple[Tensor, Tensor]:
        if self.symmetric:
            zero_point = torch.full_like(zero_point, self.middle)
        return (scale if self.scale_dtype is None else scale.to(self.scale_dtype)), zero_point

    def fake_quantize(self, x: Tensor, scale: Tensor, zero_point: Tensor | None, grad_factor: float = 1.0) -> Tensor:
        before, after = self.grouping.arguments()
        zero_point = self.kept_zero_point(zero_point)
        bounds = (*before, self.quant_min, self.quant_max, *after)
        function = _FAKE_QUANTIZE[self.grouping.name]
        keywords = {"grad_factor": grad_factor, "rounding": self.rounding, "code_dtype": self.code_dtype}
        return function(x, scale, zero_point, *bounds, **keywords)

    def quantize(self, x: Tensor, scale: Tensor, zero_point: Tensor | None, dtype: torch.dtype | None = None) -> Tensor:
        """Codes, kept as the scheme says or as dtype."""
        before, after = self.grouping.arguments()
        zero_point = self.kept_zero_point(zero_point)
        kept = (*before, self.quant_min, self.quant_max, dtype or self.dtype, *after)
        return _QUANTIZE[self.grouping.name](x, scale, zero_point, *kept, rounding=self.rounding)

    def dequantize(
        self, codes: Tensor, scale: Tensor, zero_point: Tensor | None, out_dtype: torch.dtype, last_dim: int
    ) -> Tensor:
        before, after = self.grouping.arguments()
        zero_point = self.kept_zero_point(zero_point)
        kept = (*before, self.quant_min, self.quant_max, self.dtype, *after)
        name = "output_dtype" if self.grouping.name in ("per_token", "per_channel_group") else "out_dtype"
        odd = {"last_dim": last_dim} if self.dtype in PACKED else {}
        return _DEQUANTIZE[self.grouping.name](codes, scale, zero_point, *kept, **{name: out_dtype}, **odd)
