"""What gradients share: saved arguments, and that they are differentiated once, or twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.autograd.function import BackwardCFunction
from torch.compiler import is_dynamo_compiling

from ._transforms import forward_levels


def save_values(ctx: Any, *values: Any) -> None:
    """Saves tensors, and Python numbers that stand for tensors, for `saved_values` in the backward."""
    for v in values:
        if v is not None and not isinstance(v, torch.Tensor):
            ctx.others, tensors = _apart(values)
            ctx.save_for_backward(*tensors)
            return
    ctx.others = None
    ctx.save_for_backward(*values)


def _apart(values: tuple[Any, ...]) -> tuple[list[Any], list[Any]]:
    """What is no tensor, and what is one, with None for the other. In a loop, which takes half of two comprehensions'
    time, and that was a tenth of a small forward's."""
    others, tensors = list(values), list(values)
    for i, v in enumerate(values):
        of = others if isinstance(v, torch.Tensor) else tensors
        of[i] = None
    return others, tensors


def saved_values(ctx: Any) -> Sequence[Any]:
    if ctx.others is None:
        return ctx.saved_tensors
    return [*map(_present, ctx.saved_tensors, ctx.others)]


def _present(tensor: torch.Tensor | None, other: Any) -> Any:
    return other if tensor is None else tensor


def save_for_jvp(ctx: Any, *tensors: Any) -> None:
    """ctx.save_for_forward, only where there may be dual tensors, since it is slow. The jvp then has None for an absent
    tangent, not zeros, whose products with infinities are NaN; the backward wants `none_for_none`."""
    if forward_ad._current_level >= 0 or (torch._C._are_functorch_transforms_active() and forward_levels()):
        ctx.save_for_forward(*tensors)
        ctx.set_materialize_grads(False)


def none_for_none(backward: Callable[..., Any]) -> Callable[..., Any]:
    """A backward that gives no gradients where all that come are None."""

    def wrapped(ctx: Any, *grads: Any) -> Any:
        if grads[0] is None and all(g is None for g in grads):
            return (None,) * len(ctx.needs_input_grad)
        return backward(ctx, *grads)

    return wrapped


_MANY = 1 << 14  # elements of an upstream gradient, of products


def asked(ctx: Any, grad: torch.Tensor, many: int = _MANY) -> tuple[bool, ...]:
    """Which gradients this pass asks for: ctx.needs_input_grad without the inputs that autograd.grad leaves out, as
    torch's own functions have it. For backwards in which each gradient is as much work as the others. Of fewer than
    many elements, computing one takes no longer than asking: 10 us for a leaf of autograd.grad, which torch answers by
    an exception."""
    wanted: tuple[bool, ...] = ctx.needs_input_grad
    if is_dynamo_compiling() or type(grad) is not torch.Tensor or grad.numel() < many:
        return wanted
    if wanted.count(True) == 1:  # else this pass would not have come here
        return wanted
    if not isinstance(ctx, BackwardCFunction):  # all, too, where the gradients may be differentiated themselves
        return wanted
    found = (_is_executed(node) for node, _ in ctx.next_functions if node is not None)
    return tuple(w and next(found) for w in wanted)


def _is_executed(node: torch.autograd.graph.Node) -> bool:
    try:
        return torch._C._will_engine_execute_node(node)
    except RuntimeError:  # a leaf that autograd.grad is asked for
        return True


def saving(count: int) -> Callable[[Any, tuple[Any, ...], Any], None]:
    """A setup_context that saves the first inputs, for `saved_values`, and has the others as ctx.attributes."""

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        save_values(ctx, *inputs[:count])
        ctx.attributes = inputs[count:]

    return setup_context


def no_forward_mode(name: str, instead: str = "reverse mode has: backward, jacrev") -> Callable[..., Any]:
    """A jvp that says that there is none."""

    def jvp(*_: Any) -> Any:
        raise NotImplementedError(f"{name} has no derivative in forward mode; {instead}")

    return jvp


class _Rounded(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        near = t.float()
        bits = near.view(torch.int32)
        # What float32 cannot hold becomes the odd one of its neighbours, which no 16-bit type has or ties at.
        odd = torch.where(near.abs() > t.abs(), bits - 1, bits + 1)
        return torch.where((near != t) & (bits & 1 == 0), odd, bits).view(torch.float32).to(dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.dtype = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return grad, None  # which autograd converts

    @staticmethod
    def jvp(ctx: Any, tangent: torch.Tensor, _: Any) -> torch.Tensor:
        return rounded(tangent, ctx.dtype)


def rounded(t: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """t.to(dtype), rounded once: torch takes float64 to 16 bits by way of float32."""
    y: torch.Tensor = _Rounded.apply(t, dtype) if t.dtype == torch.float64 and dtype.itemsize == 2 else t.to(dtype)
    return y


def widest(t: torch.Tensor) -> torch.Tensor:
    """t in the type that it computes in: float32 for 16 bits."""
    return t.float() if t.dtype.itemsize == 2 else t


def wide_for(dtype: torch.dtype, t: torch.Tensor) -> torch.Tensor:
    """t as what a gradient of this dtype is computed from: widened where the types differ, so that the gradient is
    rounded once."""
    return t if t.dtype == dtype else widest(t)


class Frame:
    """An autograd context with other saved tensors; wanted: of which, and of which upstream gradients, a gradient's
    gradient is wanted."""

    def __init__(self, ctx: Any, saved: tuple[Any, ...], wanted: tuple[bool, ...] | None = None) -> None:
        self._ctx = ctx
        self.saved_tensors = saved
        if wanted is not None:
            self.wanted = wanted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


class _Gradient(torch.autograd.Function):
    """A backward as a function of the upstream gradients and the saved tensors, so that autograd and
    torch.func see what it depends on, and differentiating it is an error, or what `second` says."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rule: _Rule, outer: Any, saved_count: int, *tensors: Any) -> tuple[torch.Tensor, ...]:
        """outer: the context of the op whose gradient this is; tensors: what it saved, then upstream gradients."""
        outputs = rule.backward(Frame(outer, tensors[:saved_count]), *tensors[saved_count:])
        return tuple(t for t in outputs if t is not None)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.rule, ctx.outer, ctx.saved_count = inputs[:3]
        ctx.set_materialize_grads(False)
        if ctx.rule.second is not None:
            ctx.save_for_backward(*inputs[3:])
            save_for_jvp(ctx, *inputs[3:])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if ctx.rule.second is None:
            raise RuntimeError(ctx.rule.refusal)
        saved, upstream = ctx.saved_tensors[: ctx.saved_count], ctx.saved_tensors[ctx.saved_count :]
        present = [g for g in grads if g is not None]
        if not present:
            return (None,) * (3 + len(ctx.saved_tensors))

        # rule.second and rule.third have None for what is absent; autograd's functions have tensors only.
        rule, count = ctx.rule, len(upstream)
        is_output: list[bool] = []

        def second(frame: Any, *tensors: Any) -> Any:
            rest = iter(tensors[count:])
            all_grads = [g if g is None else next(rest) for g in grads]
            outputs = rule.second(frame, tensors[:count], all_grads)
            is_output[:] = [t is not None for t in outputs]
            return outputs

        def third(frame: Any, tensors: Any, by_outputs: Any) -> Any:
            rest = iter(by_outputs)
            by_grads = rule.third(frame, tensors[:count], [next(rest) if there else None for there in is_output])
            return *[None] * (ctx.saved_count + count), *(
                d for g, d in zip(grads, by_grads, strict=True) if g is not None
            )

        if rule.third is not None and torch.is_grad_enabled():
            refused = [_Refused.apply(t, TWICE.format(rule.name)) for t in (*saved, *upstream)]
            saved, upstream = tuple(refused[: ctx.saved_count]), refused[ctx.saved_count :]
        frame = Frame(ctx.outer, saved, tuple(ctx.needs_input_grad[3:]))
        differentiated = once(rule.name, second, third if rule.third else None, refusal=TWICE)
        return None, None, None, *differentiated(frame, *upstream, *present)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        rule = ctx.rule
        if rule.second is None:
            raise NotImplementedError(rule.refusal)
        if rule.third is None:
            no_forward_mode(f"isobit::{rule.name}'s gradient")()
        saved, upstream = ctx.saved_tensors[: ctx.saved_count], ctx.saved_tensors[ctx.saved_count :]
        return rule.third(Frame(ctx.outer, saved), upstream, tangents[3:])


@dataclass(frozen=True)
class _Rule:  # no tuple, which torch.func would take apart
    name: str
    backward: Callable[..., Any]
    second: Callable[..., Any] | None
    refusal: str
    third: Callable[..., Any] | None = None


class _Refused(torch.autograd.Function):
    """A tensor as it is, that nothing is differentiated by."""

    generate_vmap_rule = True

    @staticmethod
    def forward(t: torch.Tensor, refusal: str) -> torch.Tensor:
        return t.view_as(t)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.refusal = inputs[1]

    @staticmethod
    def backward(ctx: Any, _: Any) -> Any:
        raise RuntimeError(ctx.refusal)

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        raise NotImplementedError(ctx.refusal)


ONCE = "isobit::{} has no second derivative: it can be differentiated once"
# Of a gradient that is called by name.
DETACHED = f"{ONCE} (torch.compile asks for it unless what the gradient is computed from is detached)"
TWICE = "isobit::{} has no third derivative: it can be differentiated twice"


def once(
    name: str,
    backward: Callable[..., Any],
    second: Callable[..., Any] | None = None,
    third: Callable[..., Any] | None = None,
    refusal: str = ONCE,
) -> Callable[..., Any]:
    """Makes differentiating a gradient an error. torch's once_differentiable cuts the gradient off from the
    inputs, so that torch.func, and autograd.grad with allow_unused, take its derivative for 0.

    second(ctx, upstream gradients, gradients of what backward gave), if there is one, differentiates it: it gives a
    gradient, where ctx.wanted says so, for each tensor that was saved and for each upstream gradient.
    third(ctx, upstream gradients, gradients of what second gave), if there is one, differentiates second by the
    gradients it was given, in which it is linear: it gives one for each, which is backward's own derivative in forward
    mode."""

    @none_for_none
    def differentiable(ctx: Any, *grads: Any) -> Any:
        if not torch.is_grad_enabled() or is_dynamo_compiling():
            return backward(ctx, *grads)
        absent: list[bool] = []

        def noted(frame: Any, *grads: Any) -> Any:
            outputs = backward(frame, *grads)
            absent[:] = [t is None for t in outputs]
            return outputs

        saved = ctx.saved_tensors
        outputs = iter(
            _Gradient.apply(_Rule(name, noted, second, refusal.format(name), third), ctx, len(saved), *saved, *grads)
        )
        return tuple(None if none else next(outputs) for none in absent)

    return differentiable
