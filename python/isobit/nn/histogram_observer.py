"""The observer that follows how values are distributed."""

from __future__ import annotations

import warnings
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from .._checks import check_kinds
from .._errors import ArgumentError
from ._buffers import write
from ._grouping import Grouping
from ._modules import not_compiled
from ._scheme import quotient
from .observers import EPS, MinMaxObserver

_PARTS = 16  # of a bin, where its elements go over to other bins
_STEPS = 100_000  # the search leaves out one in so many elements at a time
_RUN = 1 << 14  # elements binned at a time, in the cache


class HistogramObserver(MinMaxObserver):
    """Follows how values are distributed, and chooses the range whose codes lose least.

    The arguments are those of ``torch.ao.quantization.HistogramObserver``: the number of ``bins``, then
    MinMaxObserver's; one range for the whole tensor only, and integer codes, else ValueError.

    ``forward(x)`` adds x to a histogram of all that passed, which widens as the range does; infinities are
    left out, with a warning. ``calculate_qparams()`` narrows the range, from the side where more bins hold
    the next 1/100000 of the elements, until the squared error of quant_max - quant_min + 1 even codes over
    the histogram grows, as torch.ao does; then scale and zero point are those of MinMaxObserver for that
    range. Counts are whole numbers (torch.ao: float32, which stops counting at 2^24), so that results do not
    depend on threads, layouts, or the order of batches within one range. Its steps depend on values:
    torch.export does not take it, as it does not torch.ao's."""

    histogram: Tensor
    types_of_data = (*MinMaxObserver.types_of_data, "histogram")
    shared = "none"  # of the counts: that other processes have, too

    def __init__(
        self,
        bins: int = 2048,
        dtype: torch.dtype = torch.quint8,
        qscheme: torch.qscheme = torch.per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict[str, Any] | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **keywords: Any,
    ) -> None:
        bounds = reduce_range, quant_min, quant_max
        super().__init__(dtype, qscheme, *bounds, factory_kwargs, eps, is_dynamic, **keywords)
        check_kinds("HistogramObserver", "i", bins=bins)
        if bins < 1:
            raise ArgumentError(f"HistogramObserver: bins is {bins}; want at least 1")
        if self.scheme.grouping.name != "per_tensor":
            raise ArgumentError(
                f"HistogramObserver: has one range for all elements; want no {self.scheme.grouping.name} scheme"
            )
        if self.scheme.code_dtype is not None:
            raise ArgumentError(
                f"HistogramObserver: dtype is {self.dtype}; want integer codes, which are evenly spaced"
            )
        self.bins = bins
        counts = torch.zeros(bins, dtype=torch.int64, device=self.min_val.device)
        self.register_buffer("histogram", counts)

    @torch.no_grad()
    @not_compiled
    def _observe(self, x: Tensor) -> None:
        if x.is_meta:  # not a fake tensor, whose steps are being recorded
            super()._observe(x)
            return
        values = self._finite(x.detach())
        if values.numel() == 0:
            return
        before = None if self.is_new() else (self.min_val.clone(), self.max_val.clone())
        super()._observe(values)  # writes the range
        ends = self.min_val, self.max_val
        counts = _counts(values, *ends, self.bins)
        if before is not None:
            counts += _widened(self.histogram, *before, *ends)
        write(self.histogram, counts)
        self.shared = "none" if self.shared == "none" else "some"

    def share(self, low: Tensor, high: Tensor, add: Callable[[Tensor], Tensor]) -> None:
        """Takes over what add makes of the counts over a wider range."""
        counts = self.histogram
        if not self.is_new():
            counts = _widened(counts, self.min_val, self.max_val, low, high)
        write(self.histogram, add(counts))
        self.shared = "all"

    @not_compiled
    def choose(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if x.is_meta:
            return super().choose(x)
        values = self._finite(x)
        low, high = self.extremes(values) if values.numel() else (x.new_zeros(()), x.new_zeros(()))
        return self._choose(low, high, _counts(values, low, high, self.bins))

    @torch.no_grad()
    @not_compiled
    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        if self.is_new() or self.min_val.is_meta:
            return super().calculate_qparams()
        return self._choose(self.min_val, self.max_val, self.histogram)

    def reset_min_max_vals(self) -> None:
        super().reset_min_max_vals()
        write(self.histogram, torch.zeros_like(self.histogram))
        self.shared = "none"

    def reset_parameters(self) -> None:
        self.reset_min_max_vals()

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self.shared = "none"

    def _finite(self, x: Tensor) -> Tensor:
        if isinstance(x, FakeTensor):
            raise RuntimeError(
                "HistogramObserver: its steps are data-dependent, which torch.export and make_fx do not record; "
                "want eval() or disable_observer() before, of what is not dynamic"
            )
        if not x.isinf().any():
            return x
        warnings.warn("HistogramObserver: the input has infinities; they are left out", stacklevel=3)
        return x[~x.isinf()]

    def _choose(self, low: Tensor, high: Tensor, histogram: Tensor) -> tuple[Tensor, Tensor]:
        if bool(low < high):  # neither one value nor NaN
            start, end = _least_error(histogram, self.quant_max - self.quant_min + 1)
            bottom, width = low.double(), quotient(high.double() - low.double(), self.bins)
            low, high = ((bottom + width * bin).to(low.dtype) for bin in (start, end + 1))
        return self.scheme.choose_for_range(low, high)

    def extra_repr(self) -> str:
        return f"bins={self.bins}, {super().extra_repr()}"


def _bin_of(x: Tensor, low: Tensor, high: Tensor, bins: int) -> Tensor:
    """The bins of float64 values: ``floor((x - low) * bins / (high - low))``, the last one holding high."""
    at = (x - low.double()).mul_(bins).div_(high.double() - low.double())
    return at.nan_to_num_(0.0).clamp_(0, bins - 1).to(torch.int64)


def _counts(x: Tensor, low: Tensor, high: Tensor, bins: int) -> Tensor:
    counts = torch.zeros(bins, dtype=torch.int64, device=x.device)
    for run in x.reshape(-1).split(_RUN):
        counts += torch.bincount(_bin_of(run.double(), low, high, bins), minlength=bins)
    return counts


def _widened(histogram: Tensor, low: Tensor, high: Tensor, new_low: Tensor, new_high: Tensor) -> Tensor:
    """The histogram over a wider range: 16 parts of each bin, as equal as whole numbers can be, go where the
    middle of the part lies."""
    bins = histogram.numel()
    if bool((low == new_low) & (high == new_high)):
        return histogram
    part = torch.arange(bins * _PARTS, device=histogram.device)
    count, nth = histogram.repeat_interleave(_PARTS), part % _PARTS
    share = count * (nth + 1) // _PARTS - count * nth // _PARTS
    middle = low.double() + (part.double() + 0.5) / _PARTS * quotient(high.double() - low.double(), bins)
    return torch.zeros_like(histogram).scatter_add_(0, _bin_of(middle, new_low, new_high, bins), share)


def _least_error(histogram: Tensor, codes: int) -> tuple[int, int]:
    """The first and the last bin of the range to quantize. The search is torch.ao's; quantiles are compared
    in whole numbers."""
    below = histogram.cumsum(0).tolist()
    total, start, end = below[-1], 0, len(below) - 1
    left, right, least = 0, 0, float("inf")  # steps taken from either side
    while left + right < _STEPS:
        at_left = bisect_left(below, -(-(left + 1) * total // _STEPS), start, end)
        at_right = max(bisect_right(below, (_STEPS - right - 1) * total // _STEPS, start, end + 1) - 1, start)
        if at_left - start > end - at_right:
            left, ends = left + 1, (at_left, end)
        else:
            right, ends = right + 1, (start, at_right)
        if ends == (start, end):
            continue
        error = _error(histogram, *ends, codes)
        if error > least:
            break
        least, (start, end) = error, ends
    return start, end


def _error(histogram: Tensor, start: int, end: int, codes: int) -> float:
    """The squared error where bins start to end are quantized to evenly spaced codes, and the others to the
    nearest of them, in bins and squared bins, as if elements were spread evenly over their bin. float64."""
    width = (end - start + 1) / codes  # of what one code stands for
    begin = torch.arange(len(histogram), dtype=torch.float64, device=histogram.device) - start
    first = quotient(begin, width).floor().clamp(0, codes - 1)
    last = quotient(begin + 1, width).floor().clamp(0, codes - 1)
    from_first = begin - (first + 0.5) * width
    from_last = begin + 1 - (last + 0.5) * width
    half = (width / 2) * (width / 2) * (width / 2)
    cubes = half - from_first * from_first * from_first
    cubes = cubes + (last - first - 1) * (2 * half)
    cubes = cubes + (from_last * from_last * from_last + half)
    return float(Grouping().sums(histogram.double(), quotient(cubes, 3)))
