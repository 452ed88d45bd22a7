"""What modules share: how torch.fx and torch.ao take their classes, constructors with arguments, checks of inputs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar

import torch
from torch import Tensor

from .._checks import MAX_DIMS, check_dense, check_floats
from .._errors import ArgumentError

_Module = TypeVar("_Module", bound=torch.nn.Module)

is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # in newer versions of torch


class Partial(partial):  # type: ignore[type-arg]
    """A constructor with some arguments given; ``with_args`` gives more, as torch.ao's do."""

    def with_args(self, **keywords: Any) -> Partial:
        return Partial(self, **keywords)

    @property
    def __name__(self) -> str:
        """Its class's, which torchao's prepare_pt2e looks for channels in."""
        return self.func.__name__


def not_compiled(method: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a method whose steps depend on values eagerly: one break in a compiled graph, not one at every question.
    torch.compiler.disable as a decorator would do, but it imports the compiler, which takes seconds."""

    @wraps(method)
    def call(*args: Any) -> Any:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(method)(*args)
        return method(*args)

    return call


def leaf(kind: type[_Module]) -> type[_Module]:
    """Has torch.fx.symbolic_trace record a module of this class as one call."""
    forward = kind.forward

    @wraps(forward)
    def call(module: torch.nn.Module, *args: Any, **keywords: Any) -> Any:
        for given in (*args, *keywords.values()):
            if isinstance(given, torch.fx.Proxy):
                if type(module).forward is not call or module._forward_hooks or module._forward_pre_hooks:
                    raise TypeError(
                        f"{type(module).__name__}: torch.fx would record a forward or hooks of its own twice; "
                        "want a Tracer whose is_leaf_module takes it"
                    )
                tracer: Any = given.tracer
                return tracer.create_proxy("call_module", tracer.path_of_module(module) or "itself", args, keywords)
        return forward(module, *args, **keywords)

    kind.forward = call
    kind.itself = property(lambda module: module)  # type: ignore[attr-defined]  # where it is all that is traced
    return kind


def taken_for(name: str) -> Callable[[type[_Module]], type[_Module]]:
    """Has torch.ao take a class for its own of this name: what its switches and its prepare_fx ask for. And torchao's
    PT2E, from the first module of the class on that is made after its import, as prepare_pt2e makes them."""

    def register(kind: type[_Module]) -> type[_Module]:
        ao = getattr(getattr(torch, "ao", None), "quantization", None)
        if hasattr(ao, name):
            getattr(ao, name).register(kind)
        start = kind.__init__

        @wraps(start)
        def init(self: torch.nn.Module, *args: Any, **keywords: Any) -> None:
            pt2e = sys.modules.get("torchao.quantization.pt2e")
            if hasattr(pt2e, name):
                getattr(pt2e, name).register(kind)
            start(self, *args, **keywords)

        kind.__init__ = init  # type: ignore[method-assign]
        return kind

    return register


def check_module(owner: str, module: Any) -> None:
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"{owner}: module must be a torch.nn.Module, not {type(module).__name__}")


def check_input(module: torch.nn.Module, x: Any) -> None:
    """Raises where x cannot be quantized: before it changes what the module keeps."""
    owner = type(module).__name__
    check_dense(owner, input=x)
    check_floats(owner, input=x)
    if x.dim() > MAX_DIMS:
        raise ArgumentError(f"{owner}: input has {x.dim()} dimensions; want at most {MAX_DIMS}")


def check_features(module: torch.nn.Module, x: Any, features: int) -> None:
    """Raises where x is not an input of a linear layer of so many."""
    owner = type(module).__name__
    if not isinstance(x, Tensor):
        raise TypeError(f"{owner}: input must be a Tensor, not {type(x).__name__}")
    if x.dim() == 0 or x.shape[-1] != features:
        raise ArgumentError(f"{owner}: input has shape {list(x.shape)}; want [..., {features}]")


def check_channels(module: torch.nn.Module, x: Tensor, channels: int, dims: int) -> None:
    """Raises where x is not an input of a convolution over so many dimensions."""
    if x.dim() not in (dims + 1, dims + 2) or x.shape[-dims - 1] != channels:
        want = f"[{channels}, {', '.join('DHW'[-dims:] if dims > 1 else 'L')}]"
        raise ArgumentError(
            f"{type(module).__name__}: input has shape {list(x.shape)}; want {want}, or a batch of such, [N, {want[1:]}"
        )
