"""Hooks of modules that become others, and of those that a layer asks what their result is made of."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch import Tensor

_HOOKS = [f"_forward{kind}_hooks{which}" for kind in ("", "_pre") for which in ("", "_with_kwargs")]
_notes = threading.local()


def keep_hooks(before: torch.nn.Module, after: torch.nn.Module) -> None:
    """Gives what a module becomes its hooks."""
    for name in (*_HOOKS, "_forward_hooks_always_called"):
        setattr(after, name, getattr(before, name))


def has_forward_hooks(module: torch.nn.Module) -> bool:
    """Whether a layer is to call the module for them. Backward hooks want a gradient to pass by its result."""
    forward = module._forward_hooks or module._forward_pre_hooks
    return bool(forward) and not (module._backward_hooks or module._backward_pre_hooks)


def call_with_notes(module: torch.nn.Module, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor, Any] | None]:
    """module(x), and what its forward noted."""
    _notes.taken, _notes.wanted = None, True
    try:
        return module(x), _notes.taken
    finally:
        _notes.taken, _notes.wanted = None, False


def note(y: Tensor, x: Tensor, parameters: Any) -> None:
    """Notes what a result is made of, where a layer asked."""
    if getattr(_notes, "wanted", False):
        _notes.taken = y, x, parameters
