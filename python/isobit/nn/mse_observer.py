"""The observer that takes the range with the least squared error."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._checks import check_kinds
from .._errors import ArgumentError
from .moving_average_observer import MovingAverageMinMaxObserver
from .observers import EPS


class MSEObserver(MovingAverageMinMaxObserver):
    """As MovingAverageMinMaxObserver, of the range that loses least: of ``steps`` ranges, from the whole one
    of a batch evenly down to ``smallest`` of it, that with the least sum of squared errors, the wider one of
    equals. The errors are isobit's fake_quantize and its Stripe sums, so that every machine takes the same."""

    def __init__(
        self,
        averaging_constant: float = 0.01,
        dtype: torch.dtype = torch.quint8,
        qscheme: torch.qscheme = torch.per_tensor_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        *,
        steps: int = 40,
        smallest: float = 0.2,
        **keywords: Any,
    ) -> None:
        bounds = reduce_range, quant_min, quant_max
        super().__init__(averaging_constant, dtype, qscheme, *bounds, eps, is_dynamic, **keywords)
        check_kinds("MSEObserver", "i", steps=steps)
        check_kinds("MSEObserver", "f", smallest=smallest)
        if steps < 1:
            raise ArgumentError(f"MSEObserver: steps is {steps}; want at least 1")
        if not 0 < smallest <= 1:
            raise ArgumentError(f"MSEObserver: smallest is {smallest}; want more than 0 and at most 1")
        self.steps = steps
        self.smallest = smallest

    def extremes(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().to(torch.promote_types(x.dtype, torch.float32))
        whole_low, whole_high = low, high = self.scheme.grouping.extremes(x)
        least = self._loss(x, low, high)
        for i in range(1, self.steps):
            factor = 1 - (1 - self.smallest) * i / (self.steps - 1)
            narrow = whole_low * factor, whole_high * factor
            loss = self._loss(x, *narrow)
            better = loss < least
            least = torch.where(better, loss, least)
            low, high = torch.where(better, narrow[0], low), torch.where(better, narrow[1], high)
        return low, high

    def _loss(self, x: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """The sum of squared errors of each block."""
        error = self.scheme.fake_quantize(x, *self.scheme.choose_for_range(low, high)) - x
        return self.scheme.grouping.sums(error, error).reshape(low.shape)
