"""The base of the modules that fake-quantize."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ._buffers import FollowsData, has_value, version_of, write
from ._grouping import Grouping
from ._hooks import TakesNotes, has_forward_hooks, note
from ._modules import Partial, check_input, leaf, taken_for
from ._scheme import Scheme


class Parameters(NamedTuple):
    """What fake_quantize takes beside the data; grad_factor is LSQ's, for the gradients of scale and zero point."""

    scale: Tensor
    zero_point: Tensor | None
    grad_factor: float = 1.0


_FLAGS = ("fake_quant_enabled", "observer_enabled")


@leaf
@taken_for("FakeQuantizeBase")
class FakeQuantizer(TakesNotes, FollowsData):
    """Base of the modules that fake-quantize: they differ in where scale and zero point come from.

    ``scheme`` says which codes there are. ``fake_quant_enabled`` and ``observer_enabled`` switch the module's two
    duties: buffers of one uint8, as torch.ao's. Compiled code follows the methods that switch them, and what a state
    loads; not what is written into the buffers. Other code follows that, too, where torch counts it as a write: not
    torch.distributed.broadcast of a buffer, nor ``.data``."""

    scheme: Scheme
    scale: Tensor
    zero_point: Any  # a Tensor, or None where it is 0 always

    def __init__(self, device: Any = None) -> None:
        super().__init__()
        self._on = dict.fromkeys(_FLAGS, True)
        self._seen: dict[str, tuple[Tensor, int | None]] = {}  # a flag that was looked into, and its version
        for name in _FLAGS:
            self.register_buffer(name, torch.ones(1, dtype=torch.uint8, device=device))
            self._switch(name, True)

    @classmethod
    def with_args(cls, **keywords: Any) -> Partial:
        """A constructor of this class with these arguments given."""
        return Partial(cls, **keywords)

    def parameters_for(self, x: Tensor) -> Parameters:
        """The scale and the zero point that x is quantized by now."""
        raise NotImplementedError

    def codes_for(self, x: Tensor) -> tuple[Tensor | None, Parameters]:
        """The same, with codes of x, a byte each, where they come with them."""
        return None, self.parameters_for(x)

    def parameters_of_rows(self, weight: Tensor, which: Tensor, rows: Tensor) -> tuple[Grouping, Parameters]:
        """Of some rows of a matrix, by number, and their values: how they are grouped, and what they are quantized by."""
        grouping, at = self.scheme.grouping.of_rows(which)
        scale, zero_point, factor = self.parameters_for(weight)
        if at is not None:
            scale = scale.index_select(0, at)
            zero_point = None if zero_point is None else zero_point.index_select(0, at)
        return grouping, Parameters(scale, zero_point, factor)

    def forward(self, x: Tensor) -> Tensor:
        faking = self.is_faking()
        if not faking and not (self.training and self.is_observing()):
            return x
        check_input(self, x)
        parameters = self.parameters_for(x)
        y = self.scheme.fake_quantize(x, *parameters) if faking else x
        if self.has_own_call():
            note(self, y, x, parameters)
        return y

    def has_own_call(self) -> bool:
        """Whether a layer is to call the module: for its hooks, or a forward of a subclass, which may do otherwise."""
        return has_forward_hooks(self) or type(self).forward is not FakeQuantizer.forward

    def reset_parameters(self) -> None:
        for name, on in self._on.items():
            self._switch(name, on)

    def _switch(self, name: str, on: bool) -> None:
        flag = self._buffers[name]
        assert flag is not None
        write(flag, torch.full_like(flag, on))
        self._on[name], self._seen[name] = on, (flag, version_of(flag))

    def _is_on(self, name: str) -> bool:
        """What a flag holds. On a GPU looking waits: it is looked into when it was written since, by whomever; where
        one cannot look, as in compiled code, what was seen before holds."""
        if not torch.compiler.is_compiling():
            flag = self._buffers[name]
            seen, version = self._seen.get(name, (None, None))
            assert flag is not None
            if (flag is not seen or version is None or flag._version != version) and has_value(flag):
                self._on[name], self._seen[name] = bool(flag.any()), (flag, version_of(flag))
        return self._on[name]

    def __getstate__(self) -> dict[str, Any]:
        # Of a copy's flags nothing was seen: their versions begin anew.
        return {**super().__getstate__(), "_on": dict(self._on), "_seen": {}}

    def is_faking(self) -> bool:
        return self._is_on("fake_quant_enabled")

    def is_observing(self) -> bool:
        return self._is_on("observer_enabled")

    def enable_fake_quant(self, enabled: bool = True) -> None:
        self._switch("fake_quant_enabled", bool(enabled))

    def disable_fake_quant(self) -> None:
        self.enable_fake_quant(False)

    def enable_observer(self, enabled: bool = True) -> None:
        self._switch("observer_enabled", bool(enabled))

    def disable_observer(self) -> None:
        self.enable_observer(False)

    @property
    def quant_min(self) -> int:
        return self.scheme.quant_min

    @property
    def quant_max(self) -> int:
        return self.scheme.quant_max

    @torch.no_grad()
    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """Scale, and zero point as the int32 that it stands for, as they are now."""
        zero_point, scale = self.scheme.integer_zero_point(self.zero_point), self.scale.detach()
        return scale, torch.zeros_like(scale, dtype=torch.int32) if zero_point is None else zero_point

    def served(self) -> FakeQuantizer:
        """What this module becomes for inference: the same values with the parameters as they are."""
        raise NotImplementedError

    def expect(self, shape: Sequence[int]) -> None:
        """Tells the module the shape of what it will quantize, where that is known before it comes."""

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in _FLAGS:  # absent from a state_dict of parameters alone
            state_dict.setdefault(prefix + name, self._buffers[name])
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._seen = {}  # a tensor whose contents were swapped may have the version that was seen
        for name in self._on:
            self._is_on(name)  # for compiled code


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


def checked(layer: torch.nn.Module, name: str, by: Any) -> Any:
    """What a layer was given as its fake-quantizer ``name``; TypeError where it is none."""
    if by is not None and not isinstance(by, FakeQuantizer):
        owner, kind = type(layer).__name__, type(by).__name__
        raise TypeError(f"{owner}: {name} is a {kind}; want LearnableFakeQuantize, FakeQuantize or None")
    return by
