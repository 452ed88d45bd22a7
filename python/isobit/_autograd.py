"""Ops in autograd: functions for direct calls, and the kernels of torch.ops' ops, torch.library's and one for within
torch.func, where that raises an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd.function import _SingleLevelFunction

from ._load import Elsewhere
from ._transforms import wants_gradient

Kernel = Callable[..., Any]


def function_named(op: str, **methods: Any) -> type[torch.autograd.Function]:
    attributes = {name: staticmethod(m) if callable(m) else m for name, m in methods.items()}
    return type(f"isobit_{op}", (torch.autograd.Function,), attributes)


def elsewhere(*args: Any) -> Any:
    """What a direct call does where it cannot be one: see Elsewhere."""
    raise Elsewhere


def leave_to_python(function: Kernel) -> None:
    """Has Dynamo leave a function, and what it calls, alone: below a frame that it could not compile, it would try each
    one, anew for every shape."""
    eval_frame = torch._C._dynamo.eval_frame
    if hasattr(eval_frame, "set_code_exec_strategy"):  # private
        skip = eval_frame._FrameAction.SKIP
        eval_frame.set_code_exec_strategy(function.__code__, eval_frame._FrameExecStrategy(skip, skip))


def eager_function(
    op: str,
    takes_tuple: bool,
    fast: Kernel,
    otherwise: Kernel,
    setup_context: Kernel,
    backward: Kernel,
    jvp: Kernel,
) -> Kernel:
    """The apply of a function without torch.func's part. takes_tuple: its arguments are the inputs and, as the last one,
    the tuple of all arguments, since autograd looks at each that it is given. otherwise: called where fast gives
    NotImplemented."""

    def forward(ctx: Any, *args: Any) -> Any:
        args = args[-1] if takes_tuple else args
        y = fast(*args)
        if y is NotImplemented:
            y = otherwise(*args)
        setup_context(ctx, args, y)
        return y

    leave_to_python(forward)
    function = function_named(op, forward=forward, backward=backward, jvp=jvp)
    function._backward_cls.apply = backward  # type: ignore[attr-defined]  # torch's own looks it up in each call
    apply: Kernel = super(torch.autograd.Function, function).apply  # type: ignore[misc]
    return apply


def is_transformed(args: tuple[Any, ...]) -> bool:
    """Whether one of torch.func's transforms differentiates a call."""
    return torch._C._are_functorch_transforms_active() and wants_gradient(*args)


def within_transforms(op: Any, backward: Kernel, setup_context: Callable[..., None] | None = None) -> Kernel:
    """kernel(*args, keyset): one level of torch.func differentiates, and hands on to the next, as torch's ops do."""

    def forward(ctx: Any, *args_and_keyset: Any) -> Any:
        *args, keyset = args_and_keyset
        with torch.enable_grad(), torch._C._AutoDispatchBelowAutograd():  # other levels record, too
            y = op.redispatch(keyset & torch._C._after_autograd_keyset, *args)
        if setup_context:
            setup_context(ctx, tuple(args), y)
        return y

    rules = {
        "forward": staticmethod(forward),
        "backward": staticmethod(lambda ctx, *grads: (*backward(ctx, *grads), None)),
    }
    function: Any = type(f"isobit_{op._opname}", (_SingleLevelFunction,), rules)

    def kernel(*args: Any) -> Any:
        with enable_single_level_autograd_function():
            return function.apply(*args)

    return kernel


def refuse(message: str) -> Kernel:
    """A backward that says that there is none."""

    def backward(ctx: Any, *grads: Any) -> Any:
        raise RuntimeError(message)

    return backward
