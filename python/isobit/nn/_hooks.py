"""Hooks of modules that become others, and of those that a layer asks what their result is made of."""

from __future__ import annotations

import threading
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
    if not _has_backward_hooks(module):
        return None
    full, _ = module._get_backward_hooks()
    return BackwardHook(module, full, module._get_backward_pre_hooks())


def call_with_notes(module: torch.nn.Module, x: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor, Any] | None]:
    """module(x), without the hooks that backward_hook runs, and what its forward noted."""
    # What the layer asked for whose hook called this module's.
    outer = getattr(_notes, "taken", None), getattr(_notes, "wanted", None)
    _notes.taken, _notes.wanted = None, module
    try:
        return module(x), _notes.taken
    finally:
        _notes.taken, _notes.wanted = outer


def note(module: torch.nn.Module, *made_of: Any) -> None:
    """Notes what a module's result is made of, where a layer asked."""
    if getattr(_notes, "wanted", None) is module:
        _notes.taken = made_of


class TakesNotes(torch.nn.Module):
    """A module that call_with_notes calls: what it looks for backward hooks with finds none in that thread."""

    def _get_backward_hooks(self) -> Any:
        return ([], []) if _are_run_by_layer(self) else super()._get_backward_hooks()

    def _get_backward_pre_hooks(self) -> Any:
        return [] if _are_run_by_layer(self) else super()._get_backward_pre_hooks()


def _has_backward_hooks(module: torch.nn.Module) -> bool:
    every = torch.nn.modules.module  # has those of all modules
    own = module._backward_hooks or module._backward_pre_hooks
    return bool(own or every._global_backward_hooks or every._global_backward_pre_hooks)


def _are_run_by_layer(module: torch.nn.Module) -> bool:
    return getattr(_notes, "wanted", None) is module and _has_backward_hooks(module)
