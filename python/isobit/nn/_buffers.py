"""Buffers and parameters that modules write: in place where they can, of types that come with the data."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor


def device_of(owner: str, factory_kwargs: Any) -> Any:
    """The device that torch.ao's factory_kwargs name, None where they do not. Types come with the data."""
    if not isinstance(factory_kwargs, dict | None):
        raise TypeError(f"{owner}: factory_kwargs must be a dict, not {type(factory_kwargs).__name__}")
    return torch.nn.factory_kwargs(factory_kwargs).get("device")


def has_value(x: Tensor) -> bool:
    """Whether x can be asked what it holds: a meta or fake tensor cannot, nor one of a torch.func transform."""
    return not (x.is_meta or isinstance(x, FakeTensor) or torch._C._functorch.is_functorch_wrapped_tensor(x))


def member(module: torch.nn.Module, name: str) -> Any:
    """module.name, of a buffer or a submodule, in a tenth of the time that Module.__getattr__ takes: Python calls that only
    after its own look-up has failed."""
    for members in (module._buffers, module._modules):
        if name in members:
            return members[name]
    return getattr(module, name)


def version_of(t: Tensor) -> int | None:
    """How often a tensor was written, if torch counts."""
    return None if torch.compiler.is_compiling() or t.is_inference() else t._version


def write(t: Tensor, value: Tensor) -> None:
    """Writes a tensor in place, also one that was made in inference mode."""
    if torch.compiler.is_compiling():
        t.detach().copy_(value)  # code that PyTorch 2.8 compiles does not write to float64 [] itself
    elif t.is_inference():
        with torch.inference_mode():
            t.copy_(value)
    else:
        t.copy_(value)


def assign(module: torch.nn.Module, name: str, value: Tensor) -> None:
    """Writes a parameter or a buffer in place; what torch.nn.utils.parametrize made of it through its right_inverse."""
    _assign(module, name, getattr(module, name), value)


def _assign(module: torch.nn.Module, name: str, now: Tensor, value: Tensor) -> None:
    by: Any = module._modules.get("parametrizations")
    if by is None or name not in by:
        write(now, value)
        return
    value, by = value.to(now.dtype), by[name]
    if not torch.compiler.is_compiling():
        setattr(module, name, value)
        return
    for step in reversed(by):  # Dynamo does not take what setattr does
        value = step.right_inverse(value)
    if by.is_tensor:
        write(by.original, value)
        return
    for i, part in enumerate(value):
        write(getattr(by, f"original{i}"), part)


def set_buffer(module: torch.nn.Module, name: str, value: Tensor) -> None:
    """Writes a buffer in place, or anew where its shape or its type comes with the data."""
    buffer, compiling = member(module, name), torch.compiler.is_compiling()
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    if not compiling and wrapped(value) and not wrapped(buffer):
        owner = type(module).__name__
        raise RuntimeError(
            f"{owner}: vmap and torch.func's transforms cannot set {name}; observe before, or disable_observer()"
        )
    if buffer.shape == value.shape and buffer.dtype == value.dtype:
        _assign(module, name, buffer, value)
        return
    fresh = value.detach().clone()  # not an alias: the next write is in place
    if not compiling and fresh.is_inference():  # it is written when the mode it was computed in has ended
        with torch.inference_mode(False):
            fresh = torch.empty_like(fresh).copy_(fresh)
    setattr(module, name, fresh)


def set_flag(module: torch.nn.Module, name: str) -> None:
    """Makes an attribute True, once: Module.__setattr__ takes its time. Compiled code does not look at what it was, or
    it would be compiled anew."""
    if torch.compiler.is_compiling() or getattr(module, name) is not True:
        setattr(module, name, True)


class FollowsData(torch.nn.Module):
    """A module with buffers whose types come with the data: ``to(dtype)``, ``half()`` and their like leave them as
    they are, so that a second conversion, or one before a state is loaded, makes no difference."""

    types_of_data: tuple[str, ...] = ()

    def reset_parameters(self) -> None:
        """Forgets what was seen: called where ``to_empty`` gives a module that was on meta new memory, and to be called
        where it gives another new memory, as of torch's modules."""

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        before = [(name, old) for name, old in self._buffers.items() if old is not None]
        super()._apply(fn, recurse)
        lost = False
        for name, old in before:
            new = self._buffers[name]
            assert new is not None
            lost |= old.is_meta and not new.is_meta
            if name in self.types_of_data and new.dtype != old.dtype:
                self._buffers[name] = old.to(new.device)
        if lost:
            self.reset_parameters()
        return self
