"""Observers: modules that look at what passes and choose a scale and a zero point for it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .._checks import FLOATS, check_kinds
from .._errors import ArgumentError
from .._known import holds_nowhere, is_empty
from .._transforms import is_recomputed
from ._buffers import FollowsData, device_of, has_value, member, set_buffer, set_flag
from ._grouping import Grouping, check_shape
from ._modules import Partial, check_input, leaf, taken_for
from ._scheme import Scheme, check_options, code_type
from ._states import resize_for_loading, saved_tensor

SYMMETRIC = (torch.per_tensor_symmetric, torch.per_channel_symmetric)
PER_CHANNEL = (torch.per_channel_affine, torch.per_channel_symmetric)
KNOWN = (torch.per_tensor_affine, *SYMMETRIC, torch.per_channel_affine)
EPS = torch.finfo(torch.float32).eps
LARGEST = torch.finfo(torch.float32).max


def is_new(observer: torch.nn.Module) -> bool:
    """Whether an observer, ours or torch.ao's, has seen nothing, as far as one can tell: its range is empty."""
    low, high = (getattr(observer, name, None) for name in ("min_val", "max_val"))
    if not isinstance(low, Tensor) or not isinstance(high, Tensor):
        return False
    return low.numel() == 0 or (has_value(low) and bool((low > high).any()))


@leaf
@taken_for("ObserverBase")
class MinMaxObserver(FollowsData):
    """Follows the smallest and the largest value that passed.

    The arguments are those of ``torch.ao.quantization.MinMaxObserver``. dtype: that of the codes, quint8,
    qint8, any integer of 1 to 8 bits, or an 8-bit float; its range is quant_min to quant_max unless they
    are given, and both are halved with ``reduce_range``. A per-channel ``qscheme`` has a range for each index
    along ``ch_axis``; ``group_size`` asks for one for each so many elements along the last dimension, and
    ``block_size`` for one for each block. With ``shape``, that of what it will see, their number is known before
    the first batch, as torch.distributed.checkpoint.load and swa_utils.AveragedModel want it, and another is an
    error, of a batch and of a state. Scales are rounded to
    ``scale_dtype`` if there is one; ``rounding`` is fake_quantize's. ``hp_value_lb`` and ``hp_value_ub`` bound the
    ``max|x|`` that a symmetric scale is chosen from, as torchao's. ``is_dynamic`` is kept for torch.ao's
    LearnableFakeQuantize, which asks for it.

    ``forward(x)`` observes x, of any float dtype, and answers it; where torch.utils.checkpoint runs a forward
    again, it only answers it (but in a compiled module within an eager checkpoint, which does not know: compile the
    module that checkpoints). ``calculate_qparams()`` answers scale and zero point: what isobit's
    choose_qparams would for that range, so ``max|x| / quant_max`` where symmetric (torch.ao: ``max|x| /
    ((quant_max - quant_min) / 2)``), with a scale of at least ``eps``; a range of nothing but 0 has the scale
    1. A NaN makes the scale NaN until ``reset_min_max_vals()``. min_val and max_val, and so the results, do not
    depend on threads or layouts. Raises ValueError for codes, a scheme or a grouping that there is not, and
    where x has other numbers of channels or blocks than before."""

    min_val: Tensor
    max_val: Tensor
    types_of_data: tuple[str, ...] = ("min_val", "max_val")
    _has_seen: bool | None = False  # None: only batches that may have been empty, in compiled code

    def __init__(
        self,
        dtype: torch.dtype = torch.quint8,
        qscheme: torch.qscheme = torch.per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict[str, Any] | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        *,
        ch_axis: int = 0,
        group_size: int | None = None,
        block_size: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
        grouping: Grouping | None = None,
        scale_dtype: torch.dtype | None = None,
        rounding: str = "nearest",
        hp_value_lb: float | None = None,
        hp_value_ub: float | None = None,
    ) -> None:
        super().__init__()
        owner = type(self).__name__
        check_kinds(owner, "b", reduce_range=reduce_range, is_dynamic=is_dynamic)
        check_kinds(owner, "i?", quant_min=quant_min, quant_max=quant_max)
        check_kinds(owner, "i", ch_axis=ch_axis)
        check_kinds(owner, "f?", hp_value_lb=hp_value_lb, hp_value_ub=hp_value_ub)
        check_shape(owner, shape)
        check_options(owner, eps, rounding)
        if scale_dtype is not None and scale_dtype not in FLOATS:
            raise ArgumentError(f"{owner}: scale_dtype is {scale_dtype!r}; want one of {', '.join(map(str, FLOATS))}")
        if qscheme not in KNOWN:
            raise ArgumentError(f"{owner}: qscheme is {qscheme}; want one of {', '.join(map(str, KNOWN))}")
        stored, low, high = code_type(owner, dtype)
        bounds = low if quant_min is None else quant_min, high if quant_max is None else quant_max
        least, most = (b // 2 if reduce_range else b for b in bounds)
        if grouping is None:
            whole = group_size is None and block_size is None
            grouping = Grouping.of(owner, ch_axis if qscheme in PER_CHANNEL and whole else None, group_size, block_size)
        self.dtype = dtype
        self.qscheme = qscheme
        self.ch_axis = ch_axis
        self.is_dynamic = is_dynamic
        self.scheme = Scheme(
            grouping,
            least,
            most,
            stored,
            qscheme in SYMMETRIC,
            eps,
            scale_dtype,
            rounding,
            (hp_value_lb, hp_value_ub),
        ).check(owner, low, high)
        device = device_of(owner, factory_kwargs)
        self.register_buffer("min_val", torch.empty(0, device=device))
        self.register_buffer("max_val", torch.empty(0, device=device))
        self.shape = None if shape is None else list(shape)
        self._start()

    @classmethod
    def with_args(cls, **keywords: Any) -> Partial:
        """A constructor of this class with these arguments given."""
        return Partial(cls, **keywords)

    @property
    def quant_min(self) -> int:
        return self.scheme.quant_min

    @property
    def quant_max(self) -> int:
        return self.scheme.quant_max

    def extremes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The range of one batch."""
        return self.scheme.grouping.extremes(x)

    def merge(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        """What was seen, with the range of a new batch."""
        return torch.minimum(member(self, "min_val"), low), torch.maximum(member(self, "max_val"), high)

    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Scale and zero point of x alone."""
        if type(self).extremes is MinMaxObserver.extremes or is_empty(x):
            return self.scheme.choose(x)
        return self.scheme.choose_for_range(*self.extremes(x))

    def is_new(self) -> bool:
        """Whether nothing was seen. On a GPU it waits, until something was."""
        if member(self, "min_val").numel() == 0:  # also where it was emptied by hand
            self._has_seen = False
        elif not self._has_seen and not torch.compiler.is_compiling():
            self._has_seen = has_value(self.min_val) and not is_new(self)
        return self._has_seen is False

    def expect(self, shape: Sequence[int]) -> None:
        """Tells the observer the shape of what it will see."""
        if self.is_new():
            self._start(self.scheme.grouping.parameter_shape(shape))

    def set_range(self, low: Tensor, high: Tensor) -> None:
        """Has seen values from low to high."""
        set_buffer(self, "min_val", low)
        set_buffer(self, "max_val", high)
        set_flag(self, "_has_seen")

    def _said(self) -> list[int] | None:
        """The shape of ranges that the argument ``shape`` has."""
        return None if self.shape is None else self.scheme.grouping.parameter_shape(self.shape)

    def _start(self, shape: Sequence[int] | None = None) -> None:
        """The range of nothing, from the largest number down to the smallest; of no elements where their number is not
        known. An average of such ranges is one; of infinities it would be a NaN."""
        if shape is None:
            shape = self._said()
        if shape is None:
            shape = () if self.scheme.grouping.name == "per_tensor" else (0,)
        self.min_val = self.min_val.new_full(shape, LARGEST, dtype=torch.float32)
        self.max_val = self.max_val.new_full(shape, -LARGEST, dtype=torch.float32)
        self._has_seen = False

    def forward(self, x: Tensor) -> Tensor:
        check_input(self, x)
        if not is_recomputed():
            self._observe(x)
        return x

    def _observe(self, x: Tensor) -> None:
        empty = is_empty(x)
        if empty:
            return
        low, high = self.extremes(x.detach())  # rather than under no_grad, which torch.export cannot save
        least, most = member(self, "min_val"), member(self, "max_val")
        nothing = low > high if empty is None else None  # compiled code finds out whether anything came
        if low.shape == least.shape:
            new = least > most  # the range of nothing, whoever wrote it
            merged = self.merge(low, high)
            if holds_nowhere(new):
                low, high = merged
            else:
                low, high = torch.where(new, low, merged[0]), torch.where(new, high, merged[1])
        elif not self.is_new() or self._said() not in (None, list(low.shape)):
            had, said = f", those before had {list(least.shape)}", f"; want {self._said()}, as shape={self.shape} has"
            raise ArgumentError(
                f"{type(self).__name__}: an input of shape {list(x.shape)} has ranges of shape {list(low.shape)}"
                f"{had if self.shape is None else said}"  # dynamo, which writes symbols, adds no strings
            )
        elif nothing is not None:
            least, most = low.new_tensor(LARGEST), high.new_tensor(-LARGEST)
        if nothing is None:
            self.set_range(low, high)
            return
        seen = self._has_seen or None
        self.set_range(torch.where(nothing, least, low), torch.where(nothing, most, high))
        self._has_seen = seen

    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """(scale, zero_point): float32 (float64 of float64 data) and int32, [] or one for each range."""
        if self.is_new():
            warnings.warn(f"{type(self).__name__} has seen nothing yet: its scale is 1", stacklevel=2)
            shape = self.min_val.shape if self.min_val.numel() else ()
            return self.min_val.new_ones(shape), self.min_val.new_full(shape, self.scheme.middle, dtype=torch.int32)
        scale, zero_point = self.scheme.choose_for_range(member(self, "min_val"), member(self, "max_val"))
        if self._has_seen is None:
            new = self.min_val > self.max_val
            return torch.where(new, 1, scale), torch.where(new, self.scheme.middle, zero_point)
        return scale, zero_point

    def reset_min_max_vals(self) -> None:
        """Forgets what was seen, its type and, but for what ``shape`` said, the number of its channels, too."""
        self._start()

    def reset_parameters(self) -> None:
        self._start(self.min_val.shape)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        state_dict.pop(prefix + "eps", None)  # torch.ao has it as a buffer
        for name in ("min_val", "max_val"):
            saved = saved_tensor(state_dict, prefix + name)
            if saved is None or saved.numel() == 0 or self._said() in (None, list(saved.shape)):
                resize_for_loading(self, state_dict, prefix, name)
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._has_seen = False
        self.is_new()  # for compiled code

    def extra_repr(self) -> str:
        s = self.scheme
        kind = f"dtype={self.dtype}, qscheme={self.qscheme}, granularity={s.grouping}"
        return f"{kind}, quant_min={s.quant_min}, quant_max={s.quant_max}"
