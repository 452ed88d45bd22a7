"""What is known of values and extents: of values in eager code on a CPU, of extents unless they are symbols."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from ._transforms import is_plain


def holds_nowhere(condition: torch.Tensor) -> bool:
    """Whether eager code finds a condition to be False everywhere, without waiting for a GPU: what would be chosen
    by it need not be computed."""
    if not is_plain(condition) or not condition.is_cpu:
        return False
    return not (condition if condition.numel() == 1 else condition.any())


@functools.lru_cache(maxsize=64)
def _number(value: float, dtype: torch.dtype) -> torch.Tensor:
    with torch.inference_mode(False):
        return torch.full((), value, dtype=dtype, device="cpu")


def number(value: float, t: torch.Tensor) -> Any:
    """A number that goes with t in arithmetic: in eager code on a CPU a tensor of t's type, which takes half the time
    of one that torch makes, with the same bits."""
    return _number(value, t.dtype) if is_plain(t) and t.is_cpu else value


def is_true(condition: Any) -> bool:
    """Whether a comparison of extents is known to hold. Of a symbol whose value is known only when the program runs, as
    that of the rows that a mask picks, it is not. torch.jit.trace has tensors for extents."""
    if not is_dynamo_compiling() and not isinstance(condition, torch.SymBool):
        return bool(condition)
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    return bool(guard_or_false(condition))


def is_empty(x: torch.Tensor) -> bool | None:
    """Whether x has no elements; None where that is known only when the program runs."""
    count = x.numel()
    return True if is_true(count == 0) else False if is_true(count > 0) else None
