"""What gradients share: saved arguments, and that they are differentiated once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling


def keep(ctx: Any, *values: Any) -> None:
    """Saves tensors, and Python numbers that stand for tensors, for `kept` in the backward."""
    ctx.others = None
    for v in values:
        if v is not None and not isinstance(v, torch.Tensor):
            ctx.others = [None if isinstance(v, torch.Tensor) else v for v in values]
            values = tuple(v if isinstance(v, torch.Tensor) else None for v in values)
            break
    ctx.save_for_backward(*values)


def kept(ctx: Any) -> Sequence[Any]:
    if ctx.others is None:
        return ctx.saved_tensors
    return [o if t is None else t for t, o in zip(ctx.saved_tensors, ctx.others, strict=True)]


def saving(count: int) -> Callable[[Any, tuple[Any, ...], Any], None]:
    """A setup_context that saves the first inputs, for `kept`, and has the others as ctx.attributes."""

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        keep(ctx, *inputs[:count])
        ctx.attributes = inputs[count:]

    return setup_context


def without_autocast(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps autocast away from the products of a backward, which torch computes. Eager code calls a backward
    outside of autocast, compiled code as the forward was called: both shall give the same bits."""

    def plain(ctx: Any, grad: torch.Tensor, *grads: Any) -> Any:
        kind = grad.device.type
        if not torch.is_autocast_enabled(kind):
            return backward(ctx, grad, *grads)
        with torch.autocast(kind, enabled=False):
            return backward(ctx, grad, *grads)

    return plain


class _Frame:
    """An autograd context with other saved tensors."""

    def __init__(self, ctx: Any, saved: tuple[Any, ...]) -> None:
        self._ctx = ctx
        self.saved_tensors = saved

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


class _Gradient(torch.autograd.Function):
    """A backward as a function of the upstream gradients and the saved tensors, so that autograd and
    torch.func see what it depends on, and differentiating it is an error."""

    generate_vmap_rule = True

    @staticmethod
    def forward(name: str, backward: Any, ctx: Any, saved: int, *tensors: Any) -> tuple[torch.Tensor, ...]:
        outputs = backward(_Frame(ctx, tensors[:saved]), *tensors[saved:])
        return tuple(t for t in outputs if t is not None)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.name = inputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(ONCE.format(ctx.name))


def once(name: str, backward: Callable[..., Any]) -> Callable[..., Any]:
    """Makes differentiating a gradient an error. torch's once_differentiable cuts the gradient off from the
    inputs, so that torch.func, and autograd.grad with allow_unused, take its derivative for 0."""

    def differentiable(ctx: Any, *grads: Any) -> Any:
        if is_dynamo_compiling() or not torch.is_grad_enabled():
            return backward(ctx, *grads)
        absent: list[bool] = []

        def noted(frame: Any, *grads: Any) -> Any:
            outputs = backward(frame, *grads)
            absent[:] = [t is None for t in outputs]
            return outputs

        saved = ctx.saved_tensors
        outputs = iter(_Gradient.apply(name, noted, ctx, len(saved), *saved, *grads))
        return tuple(None if none else next(outputs) for none in absent)

    return differentiable


ONCE = "isobit::{} has no second derivative: isobit's ops can be differentiated once"
