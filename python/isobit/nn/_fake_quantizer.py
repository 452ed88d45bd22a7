"""What the modules that fake-quantize have in common."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from .._explain import check_dense
from .._vmap import MOST_DIMS
from ..ops.quantized_linear import FLOATS
from ._scheme import Scheme

is_exporting = getattr(torch.compiler, "is_exporting", lambda: False)  # in newer versions of torch


class Partial(partial):  # type: ignore[type-arg]
    """A constructor with some arguments given; ``with_args`` gives more, as torch.ao's do."""

    def with_args(self, **keywords: Any) -> Partial:
        return Partial(self, **keywords)


def has_value(x: Tensor) -> bool:
    """Whether x can be asked what it holds: a meta or fake tensor cannot, nor one of a torch.func transform."""
    return not (x.is_meta or isinstance(x, FakeTensor) or torch._C._functorch.is_functorch_wrapped_tensor(x))


def check_module(owner: str, module: Any) -> None:
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"{owner}: module must be a torch.nn.Module, not {type(module).__name__}")


def check_input(module: torch.nn.Module, x: Any) -> None:
    """Raises where x cannot be quantized: before it changes what the module keeps."""
    owner = type(module).__name__
    check_dense(owner, input=x)
    if x.dtype not in FLOATS:
        raise ValueError(f"{owner}: input is {x.dtype}; want one of {', '.join(map(str, FLOATS))}")
    if x.dim() > MOST_DIMS:
        raise ValueError(f"{owner}: input has {x.dim()} dimensions; want at most {MOST_DIMS}")


def check_features(module: torch.nn.Module, x: Any, features: int) -> None:
    """Raises where x is not an input of a linear layer of so many."""
    owner = type(module).__name__
    if not isinstance(x, Tensor):
        raise TypeError(f"{owner}: input must be a Tensor, not {type(x).__name__}")
    if x.dim() == 0 or x.shape[-1] != features:
        raise ValueError(f"{owner}: input has shape {list(x.shape)}; want [..., {features}]")


def set_buffer(module: torch.nn.Module, name: str, value: Tensor) -> None:
    """Writes a buffer in place, or anew where its shape or its type comes with the data."""
    buffer = getattr(module, name)
    if buffer.shape == value.shape and buffer.dtype == value.dtype:
        buffer.copy_(value)
        return
    fresh = value.detach().clone()  # not an alias: the next write is in place
    if not torch.compiler.is_compiling():
        fresh = _lasting(module, name, fresh)
    setattr(module, name, fresh)


def _lasting(module: torch.nn.Module, name: str, value: Tensor) -> Tensor:
    """The value as a tensor that can be used, and written, when the mode it was computed in has ended."""
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        owner = type(module).__name__
        raise RuntimeError(
            f"{owner}: vmap and torch.func's transforms cannot set {name}; observe before, or disable_observer()"
        )
    if not value.is_inference():
        return value
    with torch.inference_mode(False):
        return torch.empty_like(value).copy_(value)


def resize_for_loading(module: torch.nn.Module, state_dict: dict[str, Any], prefix: str, *names: str) -> None:
    """Gives buffers whose shapes come with the data those of what will be loaded, and its types."""
    for name in names:
        saved, buffer = state_dict.get(prefix + name), getattr(module, name)
        if saved is not None and buffer is not None and (saved.shape, saved.dtype) != (buffer.shape, buffer.dtype):
            setattr(module, name, torch.empty_like(saved, device=buffer.device))


class Parameters(NamedTuple):
    scale: Tensor
    zero_point: Tensor | None
    grad_factor: float = 1.0


_FLAGS = ("fake_quant_enabled", "observer_enabled")


class FakeQuantizer(torch.nn.Module):
    """Base of the modules that fake-quantize: they differ in where scale and zero point come from.

    ``scheme`` says which codes there are. ``fake_quant_enabled`` and ``observer_enabled`` switch the
    module's two duties; a state_dict has them as torch.ao does, as tensors of one uint8."""

    scheme: Scheme

    def __init__(self) -> None:
        super().__init__()
        self.fake_quant_enabled = True
        self.observer_enabled = True

    @classmethod
    def with_args(cls, **keywords: Any) -> Partial:
        """A constructor of this class with these arguments given."""
        return Partial(cls, **keywords)

    def parameters_for(self, x: Tensor) -> Parameters:
        """The scale and the zero point that x is quantized by now."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Tensor:
        if not self.fake_quant_enabled and not (self.training and self.observer_enabled):
            return x
        check_input(self, x)
        parameters = self.parameters_for(x)
        return self.scheme.fake_quantize(x, *parameters) if self.fake_quant_enabled else x

    def enable_fake_quant(self, enabled: bool = True) -> None:
        self.fake_quant_enabled = bool(enabled)

    def disable_fake_quant(self) -> None:
        self.fake_quant_enabled = False

    def enable_observer(self, enabled: bool = True) -> None:
        self.observer_enabled = bool(enabled)

    def disable_observer(self) -> None:
        self.observer_enabled = False

    @property
    def quant_min(self) -> int:
        return self.scheme.quant_min

    @property
    def quant_max(self) -> int:
        return self.scheme.quant_max

    def served(self) -> torch.nn.Module:
        """What this module becomes for inference: the same values with the parameters as they are."""
        raise NotImplementedError

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name in _FLAGS:
            destination[prefix + name] = torch.tensor([getattr(self, name)], dtype=torch.uint8)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in _FLAGS:  # absent from a state_dict of parameters alone
            saved = state_dict.pop(prefix + name, None)
            if saved is not None:
                setattr(self, name, bool(saved.any()))
        super()._load_from_state_dict(state_dict, prefix, *args)


def _for_each(method: str) -> Callable[[torch.nn.Module], None]:
    def switch(module: torch.nn.Module) -> None:
        if isinstance(module, FakeQuantizer):
            getattr(module, method)()

    switch.__name__ = switch.__qualname__ = method
    switch.__doc__ = f"Calls {method} of a fake-quantizing module: ``model.apply(isobit.nn.{method})``."
    return switch


enable_fake_quant = _for_each("enable_fake_quant")
disable_fake_quant = _for_each("disable_fake_quant")
enable_observer = _for_each("enable_observer")
disable_observer = _for_each("disable_observer")
