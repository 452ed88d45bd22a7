"""The types that tensors have within autocast, where torch's function of the same name converts its own."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor


def _is_on(kind: str) -> bool:
    return kind in ("cpu", "cuda") and torch.is_autocast_enabled(kind)


def suspended(kind: str) -> AbstractContextManager[Any]:
    """Without autocast on a device of that kind: torch's calls with out= convert nothing."""
    return torch.autocast(kind, enabled=False) if _is_on(kind) else nullcontext()


def narrowed(*tensors: Tensor | None) -> tuple[Any, ...]:
    """As torch's products: the type that autocast was asked for. float64 stays what it is."""
    first = tensors[0]
    assert first is not None
    kind = first.device.type
    if not _is_on(kind):
        return tensors
    narrow = torch.get_autocast_dtype(kind)
    return tuple(
        t if t is None or t.dtype == torch.float64 or not t.is_floating_point() else t.to(narrow) for t in tensors
    )


def stacked(tensors: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    """torch.stack of tensors of one type. Within autocast it takes, of floats narrower than float32, autocast's alone."""
    first = tensors[0]
    kind, dtype = first.device.type, first.dtype
    if not _is_on(kind) or not dtype.is_floating_point:
        return torch.stack(tensors)
    if dtype in (torch.float32, torch.float64, torch.get_autocast_dtype(kind)):
        return torch.stack(tensors)
    return torch.stack([t.float() for t in tensors]).to(dtype)


def widened(*tensors: Tensor, promotes_on: str = "") -> tuple[Tensor, ...]:
    """As torch's functions that autocast gives float32 in place of 16-bit types: always on the CPU, and on a device
    that promotes where one of the tensors is float32."""
    kind = tensors[0].device.type
    is_wide = kind == "cpu" or (kind == promotes_on and any(t.dtype == torch.float32 for t in tensors))
    if not is_wide or not _is_on(kind):
        return tensors
    return tuple(t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in tensors)
