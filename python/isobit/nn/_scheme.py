"""How a module quantizes: which codes there are, how their parameters are chosen.

Everything that decides a value goes through isobit's ops; what is left to torch here is exact (the
smallest and largest element, shapes) or one rounding per element."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import torch
from torch import Tensor

from .._checks import check_kinds, spell
from .._errors import ArgumentError
from .._known import is_empty
from .._load import PACKED
from ..ops import dequantize as _dequantize
from ..ops import fake_quantize as _fake_quantize
from ..ops import per_block as _per_block
from ..ops import qparams as _qparams
from ..ops import quantize as _quantize
from ..ops._granularity import FLOAT8, GRANULARITIES
from ._grouping import Grouping


def _function(module: Any, name: str) -> dict[str, Callable[..., Tensor]]:
    """isobit's function of each grouping."""
    return {n: getattr(_per_block if n == "per_block" else module, name.format(n)) for n in GRANULARITIES}


_FAKE_QUANTIZE = _function(_fake_quantize, "fake_quantize_{}_affine")
_QUANTIZE = _function(_quantize, "quantize_{}")
_DEQUANTIZE = _function(_dequantize, "dequantize_{}")
ROUNDINGS = ("nearest", "reciprocal")
_BYTES = {torch.int8: (-128, 127), torch.uint8: (0, 255)}


def check_options(owner: str, eps: float, rounding: str) -> None:
    """Raises where these are none of a scheme."""
    check_kinds(owner, "f", eps=eps)
    if not 0 <= eps <= torch.finfo(torch.float32).max:
        raise ArgumentError(f"{owner}: eps is {spell(eps)}; want at least 0, and finite in float32")
    check_kinds(owner, "s", rounding=rounding)
    if rounding not in ROUNDINGS:
        raise ArgumentError(f"{owner}: rounding is {spell(rounding)}; want one of {', '.join(ROUNDINGS)}")


def quotient(x: Tensor, number: float) -> Tensor:
    """x / number, rounded once: on a GPU torch multiplies by the reciprocal of a number that is no tensor there."""
    return x / torch.full_like(x, number)


def code_type(owner: str, dtype: Any, name: str = "dtype") -> tuple[torch.dtype, int, int]:
    """The dtype that codes are stored in, and their range. Dtypes are torch's (quint8, int8, int4, float8_e4m3fn),
    torchao's enumeration, or names."""
    text = str(getattr(dtype, "name", dtype)).lower().removeprefix("torch.")
    for float8 in FLOAT8:
        if text == str(float8).removeprefix("torch."):
            most = int(torch.finfo(float8).max)
            return float8, -most, most
    match = re.fullmatch(r"q?(u?)int([1-8])", text)
    if match is None:
        raise ArgumentError(f"{owner}: {name} is {dtype}; want an integer of 1 to 8 bits, or an 8-bit float of torch's")
    unsigned, bits = bool(match[1]), int(match[2])
    packed = getattr(torch, "uint4" if unsigned else "int4", None) if bits == 4 else None
    stored = packed if packed is not None else torch.uint8 if unsigned else torch.int8
    return stored, *((0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1))


def stored_dtype(owner: str, low: int, high: int, dtype: Any) -> torch.dtype | None:
    """The dtype that codes from low to high are stored in: that of the given one, or what holds them; None if none does."""
    for candidate in (torch.int8, torch.uint8) if dtype is None else (dtype,):
        stored, least, most = code_type(owner, candidate)
        if least <= low and high <= most:
            return stored
    if dtype is None:
        return None
    raise ArgumentError(f"{owner}: quant_min and quant_max are {low} and {high}; {dtype} has {least} to {most}")


@dataclass(frozen=True)
class Scheme:
    """Codes of ``dtype`` in [quant_min, quant_max], and how a scale and a zero point are chosen for them.

    Symmetric ranges of signed codes and of floats have the zero point 0, of unsigned ones that in the middle."""

    grouping: Grouping
    quant_min: int
    quant_max: int
    dtype: torch.dtype | None = torch.int8  # None: no type of isobit's holds them
    symmetric: bool = True
    eps: float = 0.0  # no scale is chosen below it
    scale_dtype: torch.dtype | None = None
    rounding: str = "nearest"
    magnitude: tuple[float | None, float | None] = (None, None)  # bounds of the max|x| that a scale is chosen from
    is_plain: bool = field(init=False, repr=False, compare=False)  # as quantize_*_dynamic chooses and rounds bytes

    def __post_init__(self) -> None:
        plain = self.rounding == "nearest" and not self._bounds_magnitude() and not self.middle
        object.__setattr__(self, "is_plain", plain and self.byte_dtype is not None)

    def check(self, owner: str, low: int, high: int) -> Scheme:
        """This scheme, if its codes lie in [low, high] and parameters can be chosen for them."""
        least, most = self.quant_min, self.quant_max
        if not low <= least < most <= high:
            raise ArgumentError(
                f"{owner}: quant_min and quant_max are {least} and {most}; "
                f"want {low} <= quant_min < quant_max <= {high}, the range of {self.dtype}"
            )
        if not least - self.middle <= 0 <= most - self.middle:
            raise ArgumentError(f"{owner}: quant_min and quant_max are {least} and {most}; want 0 between them")
        if self.symmetric and most <= self.middle:
            raise ArgumentError(f"{owner}: no code above {self.middle} in {least} to {most}; want symmetric=False")
        if self._bounds_magnitude() and not self.symmetric:
            raise ArgumentError(f"{owner}: hp_value_lb and hp_value_ub want a symmetric scheme")
        small, large = (
            other if bound is None else bound for bound, other in zip(self.magnitude, (0, inf), strict=True)
        )
        if not 0 <= small <= large:
            raise ArgumentError(f"{owner}: want 0 <= hp_value_lb <= hp_value_ub, not {small} and {large}")
        if self.dtype in FLOAT8 and not self.symmetric:
            raise ArgumentError(f"{owner}: 8-bit float codes have a scale only; want a symmetric scheme")
        return self

    @property
    def middle(self) -> int:
        """The zero point of a symmetric scheme."""
        unsigned = self.quant_min >= 0 and self.dtype not in FLOAT8
        return (self.quant_min + self.quant_max + 1) // 2 if self.symmetric and unsigned else 0

    @property
    def code_dtype(self) -> torch.dtype | None:
        return self.dtype if self.dtype in FLOAT8 else None

    @property
    def byte_dtype(self) -> torch.dtype | None:
        """The dtype of integer codes as a byte each, the scheme's if it is one; None where no byte holds them."""
        if self.dtype in _BYTES or self.dtype in FLOAT8:
            return self.dtype if self.dtype in _BYTES else None
        fits = (d for d, (low, high) in _BYTES.items() if low <= self.quant_min and self.quant_max <= high)
        return next(fits, None)

    def is_int8(self) -> bool:
        """Whether int8 holds the codes, and the zero point is 0 always."""
        return self.code_dtype is None and self.centred and self.quant_min >= -128 and self.quant_max <= 127

    @property
    def centred(self) -> bool:
        """Whether the zero point is 0 always."""
        return self.symmetric and self.middle == 0

    def _bounds_magnitude(self) -> bool:
        return self.magnitude != (None, None)

    def with_dtype(self, dtype: torch.dtype | None) -> Scheme:
        return self if dtype is None else replace(self, dtype=dtype)

    def with_grouping(self, grouping: Grouping) -> Scheme:
        return replace(self, grouping=grouping)

    def zero_point_if_any(self, zero_point: Tensor | None) -> Tensor | None:
        """The zero point, or None where it is 0 always."""
        return None if self.centred else zero_point

    def integer_zero_point(self, zero_point: Tensor | None) -> Tensor | None:
        """A learned zero point as quantize uses it: ``clamp(rint(zp))``, a NaN counting as 0. int32."""
        zero_point = self.zero_point_if_any(zero_point)
        if zero_point is None or zero_point.dtype == torch.int32:
            return zero_point
        if not zero_point.is_floating_point():
            return zero_point.to(torch.int32)
        whole = zero_point.detach().nan_to_num(0.0, float("inf"), float("-inf")).round()
        return whole.clamp(self.quant_min, self.quant_max).to(torch.int32)

    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A scale and an int32 zero point for x: those of choose_qparams, but for bounds of max|x| and a middle."""
        if self._bounds_magnitude() and not (empty := is_empty(x)):
            return self.choose_for_range(*self.grouping.extremes(x if empty is False else self.grouping.with_zeros(x)))
        before, after = self.grouping.arguments()
        return self._finish(*self._chosen(self.grouping.name, x, *before, *after))

    def choose_codes(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | None] | None:
        """The codes of x, a byte each, by the parameters that it would choose, and these, in one pass; None where that
        is not what quantize_*_dynamic does."""
        scale_dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        if not self.is_plain or self.scale_dtype not in (None, scale_dtype):
            return None
        before, after = self.grouping.arguments()
        attributes = (*before, *after, self.quant_min, self.quant_max, self.byte_dtype, self.symmetric, self.eps)
        return _qparams.choose_and_quantize(self.grouping.name, x, *attributes)

    def choose_for_range(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """The same for values from low to high."""
        if self._bounds_magnitude():
            high = torch.maximum(-low, high).clamp(*self.magnitude)
            low = -high
        if low.dim() == 0:  # views would take a third of the time
            return self._finish(*self._chosen("per_tensor", torch.stack([low, high])))
        scale, zero_point = self._chosen("per_token", torch.stack([low, high], -1))
        return self._finish(scale.squeeze(-1), zero_point.squeeze(-1))

    def _chosen(self, name: str, x: Tensor, *where: Any) -> tuple[Tensor, Tensor]:
        bounds = self.quant_min - self.middle, self.quant_max - self.middle
        return _qparams.choose(name, x, where, self.symmetric, self.eps, *bounds)

    def _finish(self, scale: Tensor, zero_point: Tensor) -> tuple[Tensor, Tensor]:
        if self.middle:  # symmetric ranges are chosen a zero point of 0
            zero_point = torch.full_like(zero_point, self.middle)
        return (scale if self.scale_dtype is None else scale.to(self.scale_dtype)), zero_point

    def fake_quantize(self, x: Tensor, scale: Tensor, zero_point: Tensor | None, grad_factor: float = 1.0) -> Tensor:
        before, after = self.grouping.arguments()
        zero_point = self.zero_point_if_any(zero_point)
        bounds = (*before, self.quant_min, self.quant_max, *after)
        function = _FAKE_QUANTIZE[self.grouping.name]
        keywords = {"grad_factor": grad_factor, "rounding": self.rounding, "code_dtype": self.code_dtype}
        return function(x, scale, zero_point, *bounds, **keywords)

    def quantize(self, x: Tensor, scale: Tensor, zero_point: Tensor | None, dtype: torch.dtype | None = None) -> Tensor:
        """Codes, stored in dtype, or else as the scheme says."""
        before, after = self.grouping.arguments()
        zero_point = self.zero_point_if_any(zero_point)
        rest = (*before, self.quant_min, self.quant_max, dtype or self.dtype, *after)
        return _QUANTIZE[self.grouping.name](x, scale, zero_point, *rest, rounding=self.rounding)

    def dequantize(
        self, codes: Tensor, scale: Tensor, zero_point: Tensor | None, out_dtype: torch.dtype, last_dim: int
    ) -> Tensor:
        before, after = self.grouping.arguments()
        zero_point = self.zero_point_if_any(zero_point)
        rest = (*before, self.quant_min, self.quant_max, self.dtype, *after)
        name = "output_dtype" if self.grouping.name in ("per_token", "per_channel_group") else "out_dtype"
        odd = {"last_dim": last_dim} if self.dtype in PACKED else {}
        return _DEQUANTIZE[self.grouping.name](codes, scale, zero_point, *rest, **{name: out_dtype}, **odd)
