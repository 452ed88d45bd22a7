"""Fake quantization by the parameters of an observer."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._checks import check_kinds
from .._errors import ArgumentError
from .._known import is_empty
from .._transforms import is_recomputed, wants_derivative
from . import torchao_config
from ._buffers import device_of, has_value, member, set_buffer, set_flag
from ._fake_quantizer import FakeQuantizer, Parameters
from ._grouping import Grouping
from ._scheme import Scheme, code_type
from ._states import resize_for_loading
from .learnable_fake_quantize import LearnableFakeQuantize
from .moving_average_observer import MovingAverageMinMaxObserver
from .observers import KNOWN, PER_CHANNEL, SYMMETRIC, MinMaxObserver, is_new


def scheme_of(observer: Any) -> Scheme:
    """The scheme of an observer, also of one of torch.ao's."""
    if isinstance(observer, MinMaxObserver):
        return observer.scheme
    try:
        stored, low, high = code_type("FakeQuantize", observer.dtype)
        axis = observer.ch_axis if observer.qscheme in PER_CHANNEL else None
        bounds = int(observer.quant_min), int(observer.quant_max)
        symmetric = observer.qscheme in SYMMETRIC
        if observer.qscheme not in KNOWN:
            raise ArgumentError(
                f"FakeQuantize: qscheme is {observer.qscheme}; want one of {', '.join(map(str, KNOWN))}"
            )
        if symmetric and low >= 0:
            symmetric = False  # torch.ao has a middle of its own
    except (AttributeError, TypeError) as missing:
        raise TypeError(
            f"FakeQuantize: observer is a {type(observer).__name__}; want one of isobit.nn's, or a module with "
            f"torch.ao's dtype, qscheme, quant_min, quant_max and calculate_qparams ({missing})"
        ) from None
    grouping = Grouping() if axis is None else Grouping("per_channel", axis)
    return Scheme(grouping, *bounds, stored, symmetric).check("FakeQuantize", low, high)


class FakeQuantize(FakeQuantizer):
    """Fake quantization by the scale and the zero point that an observer chooses.

    The arguments are those of ``torch.ao.quantization.FakeQuantize``: observer is a class, or a constructor
    that ``with_args`` made, called with ``observer_kwargs`` (dtype, qscheme, reduce_range, eps, ch_axis, shape, ...:
    see MinMaxObserver; torch.ao's observers, such as its HistogramObserver, work, too). ``is_dynamic``
    chooses anew for every input, and follows nothing. ``from_config`` takes torchao's arguments.

    ``forward(x)``: x of any float dtype; in training mode the observer sees x first, unless
    ``disable_observer()``; then the result is isobit's fake_quantize of x (shape and dtype of x), unless
    ``disable_fake_quant()``. In eval mode nothing is observed, nor where torch.utils.checkpoint runs a forward
    again. The gradient is the straight-through estimate, 0 where x fell outside the range. ``scale`` and
    ``zero_point`` (int32) are buffers, with one element for each channel, group or block, one for the whole, and
    empty before the first batch where their number is not known yet, from ``shape`` or as a layer's weight has it.
    States of torch.ao's FakeQuantize load, and load there. Without a first batch the scale is 1, with a warning.
    The scale has the type that the data gives it, whatever ``to(dtype)`` makes of the model. ``convert`` makes of
    it a module with the parameters as they are."""

    scale: Tensor
    zero_point: Tensor
    types_of_data = ("scale",)
    _has_observed = False  # or has parameters from elsewhere, as far as one has looked

    def __init__(
        self,
        observer: Any = MovingAverageMinMaxObserver,
        quant_min: int | None = None,
        quant_max: int | None = None,
        is_dynamic: bool = False,
        **observer_kwargs: Any,
    ) -> None:
        device = device_of("FakeQuantize", observer_kwargs.get("factory_kwargs"))
        super().__init__(device)
        check_kinds("FakeQuantize", "b", is_dynamic=is_dynamic)
        if isinstance(observer, torch.nn.Module) or not callable(observer):
            kind = type(observer).__name__
            raise TypeError(f"FakeQuantize: observer is a {kind}; want a class, or what with_args made of one")
        for name, value in (("quant_min", quant_min), ("quant_max", quant_max)):
            if value is not None:
                observer_kwargs[name] = value
        self.activation_post_process = made = observer(**observer_kwargs)
        self.scheme = scheme_of(made)
        if is_dynamic and not hasattr(self.activation_post_process, "choose"):
            raise TypeError(f"FakeQuantize: {type(self.activation_post_process).__name__} cannot be dynamic")
        if not is_dynamic and self.scheme.grouping.name == "per_token":
            raise ArgumentError("FakeQuantize: tokens differ from batch to batch; want is_dynamic=True")
        self.is_dynamic = is_dynamic
        self.register_buffer("scale", torch.empty(0, dtype=torch.float32, device=device))
        self.register_buffer("zero_point", torch.empty(0, dtype=torch.int32, device=device))
        if isinstance(made, MinMaxObserver):
            self._reserve(made.min_val.shape)
        elif self.scheme.grouping.name == "per_tensor":
            self._reserve(())

    @classmethod
    def from_config(cls, config: Any = None, *, shape: Sequence[int] | None = None, **keywords: Any) -> FakeQuantizer:
        """The module of a torchao IntxFakeQuantizeConfig or Float8FakeQuantizeConfig, or of their arguments
        by name or in a dict: dtype, granularity, group_size, mapping_type or is_symmetric, scale_precision,
        zero_point_precision, is_dynamic, eps, hp_value_lb, hp_value_ub. Scales are isobit's: ``max|x| / quant_max``
        where symmetric. ``shape`` is that of what is quantized, where it is known.

        With ``range_learning`` it is a LearnableFakeQuantize, which wants shape unless it is per tensor: scales, and
        zero points where not symmetric, start at the range of the first batch and are learned by LSQ. is_dynamic is
        False then, and True otherwise, unless given.

        ValueError for what there is not: a ``zero_point_domain`` of FLOAT, as of tinygemm's int4 weights, whose zero
        point is a value, not a code, so that 0 may have none; and learned ranges per token, of which there would
        be as many as a batch has."""
        fields = torchao_config.fields_of(config, **keywords)
        if fields["range_learning"]:
            return LearnableFakeQuantize(**torchao_config.learned(fields, shape))
        return cls(**torchao_config.observed(fields, shape))

    def _reserve(self, shape: Sequence[int]) -> None:
        """Makes room for parameters, as they are before the first batch."""
        self.scale = self.scale.new_ones(shape or [1])  # as in the states of torch.ao
        self.zero_point = self.zero_point.new_full(shape or [1], self.scheme.middle)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.scale.fill_(1)
        self.zero_point.fill_(self.scheme.middle)
        self._has_observed = False

    def expect(self, shape: Sequence[int]) -> None:
        observer = self.activation_post_process
        if self.scale.numel() or self.is_dynamic:
            return
        self._reserve(self.scheme.grouping.parameter_shape(shape))
        if isinstance(observer, MinMaxObserver):
            observer.expect(shape)

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.activation_post_process.dtype
        return dtype

    @property
    def qscheme(self) -> torch.qscheme:
        qscheme: torch.qscheme = self.activation_post_process.qscheme
        return qscheme

    @property
    def is_per_channel(self) -> bool:
        return self.qscheme in PER_CHANNEL

    @property
    def ch_axis(self) -> int:
        """The axis of channels; -1 where there are none, as in torch.ao's."""
        return int(self.activation_post_process.ch_axis) if self.is_per_channel else -1

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """The observer's scale and zero point, as the module keeps them."""
        scale, zero_point = member(self, "activation_post_process").calculate_qparams()
        if zero_point.dtype != torch.int32:
            zero_point = zero_point.to(torch.int32)
        scale, zero_point = (t if t.dim() else t.reshape(1) for t in (scale, zero_point))
        return scale, zero_point

    def observe(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Shows x to the observer, unless it saw it, and takes over its parameters."""
        if is_recomputed():
            return self.calculate_qparams()
        member(self, "activation_post_process")(x.detach())
        return self.take_parameters()

    def take_parameters(self) -> tuple[Tensor, Tensor]:
        """Takes over the observer's scale and zero point, for inputs that it does not see."""
        scale, zero_point = self.calculate_qparams()
        set_buffer(self, "scale", scale)
        set_buffer(self, "zero_point", zero_point)
        set_flag(self, "_has_observed")
        return scale, zero_point

    def parameters_for(self, x: Tensor) -> Parameters:
        if self.is_dynamic:
            return Parameters(*self.activation_post_process.choose(x.detach()))
        if self.training and self.is_observing() and not is_empty(x):
            # These, not the buffers: autograd keeps them, and the next batch writes over the buffers.
            return Parameters(*self.observe(x))
        if not self._has_observed and not is_empty(x):
            self._look()
        scale, zero_point = member(self, "scale"), member(self, "zero_point")
        shape = None if self._has_observed and scale.numel() else self.scheme.grouping.parameter_shape(x.shape)
        if shape is not None and math.prod(shape) != scale.numel():  # not known yet, or of another weight it is for
            return Parameters(scale.new_ones(shape), zero_point.new_full(shape, self.scheme.middle))
        if wants_derivative(x):  # autograd keeps what is used of them, and the next batch writes over it
            scale = scale.clone()
            if not self.scheme.centred:
                zero_point = zero_point.clone()
        return Parameters(scale, zero_point)

    def codes_for(self, x: Tensor) -> tuple[Tensor | None, Parameters]:
        if self._chooses_by_scheme():
            chosen = self.scheme.choose_codes(x)
            if chosen is not None:
                return chosen[0], Parameters(*chosen[1:])
        return super().codes_for(x)

    def parameters_of_rows(self, weight: Tensor, which: Tensor, rows: Tensor) -> tuple[Grouping, Parameters]:
        if not self.scheme.grouping.is_by_row() or not self._chooses_by_scheme():
            return super().parameters_of_rows(weight, which, rows)
        grouping, _ = self.scheme.grouping.of_rows(which)
        return grouping, Parameters(*self.scheme.with_grouping(grouping).choose(rows.detach()))

    def _chooses_by_scheme(self) -> bool:
        """Whether parameters are what the scheme chooses for each input: another class, or another observer in the place
        of the first, may choose otherwise."""
        if not self.is_dynamic or type(self).parameters_for is not FakeQuantize.parameters_for:
            return False
        observer = member(self, "activation_post_process")
        kind, ours = type(observer), MinMaxObserver
        as_ours = getattr(kind, "choose", None) is ours.choose and kind.extremes is ours.extremes
        return as_ours and observer.scheme is self.scheme

    def _look(self) -> None:
        """Warns where nothing was seen, which one cannot ask in compiled code."""
        if torch.compiler.is_compiling() or not has_value(self.scale):
            return
        self._has_observed = not is_new(self.activation_post_process) or bool((self.scale != 1).any())
        if not self._has_observed:
            warnings.warn("FakeQuantize has seen nothing yet: its scale is 1", stacklevel=3)

    def served(self) -> FakeQuantizer:
        from .served import ServedFakeQuantize

        if not self.is_faking() or self.is_dynamic or type(self).parameters_for is not FakeQuantize.parameters_for:
            return self
        return ServedFakeQuantize(self.scheme, self.scale, self.zero_point)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        if self.is_dynamic:  # and keeps nothing: some, as accelerate, do not save what is empty
            for name, own in self.named_buffers():
                state_dict.setdefault(prefix + name, own)
        resize_for_loading(self, state_dict, prefix, "scale", "zero_point")
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._has_observed = False

    def extra_repr(self) -> str:
        return f"is_dynamic={self.is_dynamic}, {self.scheme}"
