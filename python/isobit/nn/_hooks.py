"""Hooks of modules that become others, and of those that a layer asks what their result is made of."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor
from torch.utils.hooks import BackwardHook

_HOOKS = [f"_forward{kind}_hooks{which}" for kind in ("", "_pre") for which in ("", "_with_kwargs")]
_notes = threading.local()


def keep_hooks(before: torch.nn.Module, after: torch.nn.Module) -> None:
    """Gives what a module becomes its hooks."""
    for name in (*_HOOKS, "_forward_hooks_always_called"):
        setattr(after, name, getattr(before, name))


def has_forward_hooks(module: torch.nn.Module) -> bool:
    """Whether there is one that a call runs."""
    return bool(module._forward_hooks or module._forward_pre_hooks)


def backward_hook(module: torch.nn.Module) -> BackwardHook | None:
    """What has a module's full backward hooks run, where a layer computes in its place: as in the module's own call,
    its input and its result pass by it."""
    if not (module._backward_hooks or module._backward_pre_hooks):
        return None
    full, _ = module._get_backward_hooks()
    return BackwardHook(module, full, module._get_backward_pre_hooks())


def call_with_notes(module: torch.nn.Module, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor, Any] | None]:
    """module(x), without its backward hooks, and what its forward noted."""
    backward = module._backward_hooks, module._backward_pre_hooks
    module._backward_hooks, module._backward_pre_hooks = OrderedDict(), OrderedDict()
    # What the layer asked for whose hook called this module's.
    outer = getattr(_notes, "taken", None), getattr(_notes, "wanted", False)
    _notes.taken, _notes.wanted = None, True
    try:
        return module(x), _notes.taken
    finally:
        module._backward_hooks, module._backward_pre_hooks = backward
        _notes.taken, _notes.wanted = outer


def note(y: Tensor, x: Tensor, parameters: Any) -> None:
    """Notes what a result is made of, where a layer asked."""
    if getattr(_notes, "wanted", False):
        _notes.taken = y, x, parameters
