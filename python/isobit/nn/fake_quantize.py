from __future__ import annotations

import math

import torch
from torch import Tensor

from ..ops.fake_quantize import fake_quantize_per_channel_affine, fake_quantize_per_tensor_affine


class FakeQuantize(torch.nn.Module):
    """Fake quantization with a learned step size (LSQ).

    One scale, or ``channels`` of them along ``ch_axis``. Until the first batch has set them, scales
    are 1; LSQ's ``2 * mean|x| / sqrt(quant_max)`` of that batch is the start. The zero point is
    learned where ``learn_zero_point``, else 0. ``learn_scale=False`` keeps the scale a buffer."""

    initialized: Tensor

    def __init__(
        self,
        quant_min: int = -128,
        quant_max: int = 127,
        *,
        channels: int | None = None,
        ch_axis: int = 0,
        learn_scale: bool = True,
        learn_zero_point: bool = False,
        rounding: str = "nearest",
    ) -> None:
        super().__init__()
        if not quant_min < quant_max or quant_max < 1:
            raise ValueError(
                f"FakeQuantize: want quant_min < quant_max and quant_max >= 1, not {quant_min} and {quant_max}"
            )
        self.quant_min = quant_min
        self.quant_max = quant_max
        self.channels = channels
        self.ch_axis = ch_axis
        self.rounding = rounding
        scale = torch.ones(1 if channels is None else channels)
        if learn_scale:
            self.scale = torch.nn.Parameter(scale)
        else:
            self.register_buffer("scale", scale)
        self.zero_point = torch.nn.Parameter(torch.zeros_like(scale)) if learn_zero_point else None
        self.register_buffer("initialized", torch.tensor(False))

    @torch.no_grad()
    def set_scale(self, x: Tensor) -> None:
        """Sets the scales from a batch."""
        size = x.abs().to(self.scale.dtype)
        size = size[None] if self.channels is None else size.movedim(self.ch_axis, 0)
        size = size.flatten(1).mean(1)
        scale = 2 * size / math.sqrt(self.quant_max)
        self.scale.copy_(torch.where(scale > 0, scale, torch.ones_like(scale)))
        self.initialized.fill_(True)

    def forward(self, x: Tensor) -> Tensor:
        if self.training and not torch.compiler.is_compiling() and not self.initialized:
            self.set_scale(x)
        n = x.numel() // self.scale.numel()
        factor = 1 / math.sqrt(max(n * self.quant_max, 1))
        if self.channels is None:
            return fake_quantize_per_tensor_affine(
                x,
                self.scale,
                self.zero_point,
                self.quant_min,
                self.quant_max,
                grad_factor=factor,
                rounding=self.rounding,
            )
        return fake_quantize_per_channel_affine(
            x,
            self.scale,
            self.zero_point,
            self.ch_axis,
            self.quant_min,
            self.quant_max,
            grad_factor=factor,
            rounding=self.rounding,
        )

    def extra_repr(self) -> str:
        return (
            f"quant_min={self.quant_min}, quant_max={self.quant_max}, channels={self.channels}, ch_axis={self.ch_axis}"
        )
