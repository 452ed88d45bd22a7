"""The observer of a moving average."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._checks import check_kinds
from .._errors import ArgumentError
from .._known import number
from ._buffers import member
from .observers import EPS, MinMaxObserver


class MovingAverageMinMaxObserver(MinMaxObserver):
    """As MinMaxObserver, with a range that moves toward that of each batch by ``averaging_constant``:
    ``min_val + averaging_constant * (low - min_val)``, each step rounded. The first batch sets it.

    Where a checkpoint is compiled with what is in it, PyTorch (2.15) computes again from the buffers that the forward
    has written, those of its own modules, too: by a range that moved once more. Call ``disable_observer()`` for it."""

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
        **keywords: Any,
    ) -> None:
        super().__init__(dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps, is_dynamic=is_dynamic, **keywords)
        check_kinds(type(self).__name__, "f", averaging_constant=averaging_constant)
        if not 0 <= averaging_constant <= 1:
            raise ArgumentError(f"{type(self).__name__}: averaging_constant is {averaging_constant}; want 0 to 1")
        self.averaging_constant = averaging_constant

    def merge(self, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
        c, least, most = self.averaging_constant, member(self, "min_val"), member(self, "max_val")
        if c == 0:  # not even by an infinity, which times 0 is a NaN
            return least, most
        down, up = low - least, high - most
        c = number(c, down)
        return least + c * down, most + c * up
