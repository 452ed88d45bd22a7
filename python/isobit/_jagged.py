"""Nested tensors in the jagged layout: what rows of any length have in common is computed at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ._errors import ArgumentError


def is_jagged(t: Any) -> bool:
    return isinstance(t, Tensor) and t.layout == torch.jagged


def has_rows(t: Any) -> bool:
    """Whether t is jagged, but not along its last dimension."""
    return is_jagged(t) and t._ragged_idx < t.dim() - 1


def of_values(op: str, call: Callable[[Tensor], Tensor], input: Any, out: Tensor | None) -> Tensor:
    """The result for the values of input, nested as input is."""
    if out is not None:
        raise ArgumentError(f"{op}: out does not go with a nested input; use the result")
    if input.lengths() is not None:
        raise ArgumentError(f"{op}: input is nested with gaps between its rows; want it contiguous")
    y: Tensor = torch.nested.nested_tensor_from_jagged(
        call(input.values()), input.offsets(), jagged_dim=input._ragged_idx
    )
    return y
