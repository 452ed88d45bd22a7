"""Numbers of Python and of numpy that stand for tensors."""

from __future__ import annotations

import math
from typing import Any

from ._checks import is_numpy_number, spell
from ._errors import ArgumentError
from ._signature import NUMBER_AS_FLOAT, NUMBER_AS_IS


def scalar_value(named: str, kind: int, value: Any) -> Any:
    """What the tensor that stands for a number will hold: a float where its kind says so. Other values stay as they are."""
    number = _of_numpy(named, value) if is_numpy_number(value) else value
    if isinstance(number, bool) and kind == NUMBER_AS_IS:  # torch refuses it for an int, and takes it for a float
        raise TypeError(f"{named} must be a Tensor, a number or None, not {number}")
    if isinstance(number, int) and kind == NUMBER_AS_FLOAT:
        try:
            return float(number)
        except OverflowError:
            raise ArgumentError(f"{named} is an int of {number.bit_length()} bits; want a float64") from None
    if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63:
        raise ArgumentError(f"{named} is {spell(number)}; want an int64")
    return number


def _of_numpy(named: str, value: Any) -> int | float:
    """A number of numpy's as Python's. A long double may be larger than any float of Python's."""
    number = value.item()
    if isinstance(number, (int, float)):
        return number
    narrowed = float(number)
    if math.isinf(narrowed) and number != narrowed:
        raise ArgumentError(f"{named} is {number!s}; want a float64")
    return narrowed
