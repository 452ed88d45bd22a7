"""Observers with torch.ao's order of arguments for channels."""

from __future__ import annotations

from typing import Any

import torch

from .moving_average_observer import MovingAverageMinMaxObserver
from .observers import EPS, MinMaxObserver


class PerChannelMinMaxObserver(MinMaxObserver):
    """MinMaxObserver with torch.ao's order of arguments for channels: ``ch_axis`` comes first."""

    _version = 3  # of states; in an older one torch.ao's class looks for min_vals

    def __init__(
        self,
        ch_axis: int = 0,
        dtype: torch.dtype = torch.quint8,
        qscheme: torch.qscheme = torch.per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        factory_kwargs: dict[str, Any] | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **keywords: Any,
    ) -> None:
        bounds = reduce_range, quant_min, quant_max
        super().__init__(dtype, qscheme, *bounds, factory_kwargs, eps, is_dynamic, ch_axis=ch_axis, **keywords)


class MovingAveragePerChannelMinMaxObserver(MovingAverageMinMaxObserver):
    """MovingAverageMinMaxObserver with torch.ao's order of arguments for channels."""

    _version = PerChannelMinMaxObserver._version

    def __init__(
        self,
        averaging_constant: float = 0.01,
        ch_axis: int = 0,
        dtype: torch.dtype = torch.quint8,
        qscheme: torch.qscheme = torch.per_channel_affine,
        reduce_range: bool = False,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float = EPS,
        is_dynamic: bool = False,
        **keywords: Any,
    ) -> None:
        bounds = reduce_range, quant_min, quant_max
        super().__init__(averaging_constant, dtype, qscheme, *bounds, eps, is_dynamic, ch_axis=ch_axis, **keywords)
