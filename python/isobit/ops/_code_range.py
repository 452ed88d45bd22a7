"""The codes that a dtype has."""

from __future__ import annotations

from collections.abc import Collection

import torch

from .._checks import spell
from .._errors import ArgumentError
from .._load import DTYPES

# The ranges of codes; those of 4 bits have a dtype in newer versions of torch only.
RANGES = {
    dtype: (-(1 << bits - 1), (1 << bits - 1) - 1) if code == 0 else (0, (1 << bits) - 1)
    for dtype, code, bits, _ in DTYPES
    if bits <= 16 and code <= 1
}


def check_code_dtype(op: str, dtype: torch.dtype, known: Collection[torch.dtype] = RANGES) -> None:
    """Raises where a dtype is none of those that are known."""
    if isinstance(dtype, torch.dtype) and dtype in known:
        return
    wanted = f"one of {', '.join(map(str, known))}"
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{op}: dtype must be {wanted}, not {spell(dtype)}")
    raise ArgumentError(f"{op}: dtype is {dtype}; want {wanted}")


def code_range(op: str, dtype: torch.dtype, low: int | None = None, high: int | None = None) -> tuple[int, int]:
    """quant_min and quant_max where they are given, else those of dtype."""
    check_code_dtype(op, dtype)
    least, most = RANGES[dtype]
    return least if low is None else low, most if high is None else high
