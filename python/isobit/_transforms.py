"""What torch is doing around a call: whether derivatives are wanted, which transforms are active."""

from __future__ import annotations

from typing import Any

import torch
from torch.compiler import is_dynamo_compiling


def wants_gradient(*values: Any) -> bool:
    return torch.is_grad_enabled() and any(isinstance(v, torch.Tensor) and v.requires_grad for v in values)


def wants_derivative(*values: Any) -> bool:
    """Whether a derivative by one of these may be asked for, which requires_grad does not say of tangents, nor of
    the tensors of torch.func's transforms."""
    if is_dynamo_compiling():
        return wants_gradient(*values) or within_torch_func()
    if is_traced():
        return False
    if torch._C._are_functorch_transforms_active():
        return any(_wants_beneath(v) for v in values)
    return wants_gradient(*values) or has_tangent(*values)


def within_torch_func() -> bool:
    """Whether any of torch.func's transforms is active; known where a graph is made."""
    return torch._C._are_functorch_transforms_active()


within_torch_func._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _wants_beneath(value: Any) -> bool:
    """The same of one value within transforms: functionalize's tensors do not say it of those that they stand for."""
    if not isinstance(value, torch.Tensor):
        return False
    if torch._is_functional_tensor(value):
        value = torch._from_functional_tensor(value)
    return torch._C._functorch.is_functorch_wrapped_tensor(value) or wants_gradient(value) or has_tangent(value)


def is_traced() -> bool:
    """Whether torch.jit.trace records: what it records serves, and has no gradient."""
    return torch._C._get_tracing_state() is not None


def is_watched() -> bool:
    """Whether a trace or a dispatch mode, as of make_fx and of selective checkpoints, takes down each op."""
    return is_traced() or torch._C._len_torch_dispatch_stack() > 0


def is_plain(x: torch.Tensor) -> bool:
    """Whether eager code computes with x, and nothing maps or takes down what it does."""
    return type(x) is torch.Tensor and not (
        is_dynamo_compiling() or is_watched() or torch._C._are_functorch_transforms_active()
    )


def is_recomputed() -> bool:
    """Whether a backward pass runs a forward again, as torch.utils.checkpoint has it do: with grad mode, in which hooks
    that are shown gradients do not run."""
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1 and torch.is_grad_enabled()


def _transforms() -> list[Any]:
    """Which of torch.func's transforms are active, from the outermost to the innermost."""
    return [i.key() for i in torch._C._functorch.get_interpreter_stack() or ()]


def is_functionalized() -> bool:
    return _transforms()[-1] == torch._C._functorch.TransformType.Functionalize


def forward_levels() -> int:
    """How many of the active transforms are forward mode: a jvp sees the tensors of one of them."""
    return _transforms().count(torch._C._functorch.TransformType.Jvp)


def has_tangent(*values: Any) -> bool:
    ad = torch.autograd.forward_ad
    if ad._current_level < 0:
        return False
    return any(isinstance(v, torch.Tensor) and _is_dual(v) for v in values)


def _is_dual(value: torch.Tensor) -> bool:
    try:
        return torch.autograd.forward_ad.unpack_dual(value).tangent is not None
    except RuntimeError:  # a batch of tangents, as of torch.autograd.functional.jacobian(vectorize=True)
        return True
