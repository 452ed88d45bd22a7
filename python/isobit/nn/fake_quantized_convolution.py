"""Convolutions whose weights, and activations, are fake-quantized in training, and are served as codes."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor

from .._checks import check_kinds
from ._convolution import check_weight, trained_convolution
from ._fake_quantizer import FakeQuantizer, checked
from ._linear import Operand
from ._modules import check_channels, check_input, leaf
from ._window import Window
from .served_convolution import ServedFakeQuantizedConv


@leaf
class _FakeQuantizedConv(torch.nn.modules.conv._ConvNd):
    """What the three share: the arguments of torch's class, then fake-quantizers."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        activation_fake_quantizer: FakeQuantizer | None = None,
        weight_fake_quantizer: FakeQuantizer | None = None,
        exact: bool = True,
    ) -> None:
        given = stride, padding, dilation, groups, bias, padding_mode, device, dtype
        start: Any = super().__init__  # Conv1d's and so on
        start(in_channels, out_channels, kernel_size, *given)
        self._quantize_by(weight_fake_quantizer, activation_fake_quantizer, exact)

    def _quantize_by(self, weight: FakeQuantizer | None, activation: FakeQuantizer | None, exact: bool) -> None:
        owner = type(self).__name__
        self.activation_fake_quantizer = checked(self, "activation_fake_quantizer", activation)
        self.weight_fake_quantizer = checked(self, "weight_fake_quantizer", weight)
        check_kinds(owner, "b", exact=exact)
        check_weight(owner, weight)
        self.exact = exact
        if weight is not None:
            weight.expect(self.weight.shape)

    @classmethod
    def from_conv(cls, conv: Any, **keywords: Any) -> Self:
        """The layer with the parameters of another, which it shares."""
        kind = next(kind for kind in (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d) if issubclass(cls, kind))
        if not isinstance(conv, kind):
            raise TypeError(f"{cls.__name__}: conv is a {type(conv).__name__}; want a torch.nn.{kind.__name__}")
        extents = conv.stride, conv.padding, conv.dilation, conv.groups, conv.bias is not None, conv.padding_mode
        layer = cls(conv.in_channels, conv.out_channels, conv.kernel_size, *extents, "meta", **keywords)
        layer.weight, layer.bias = conv.weight, conv.bias
        return layer.train(conv.training)

    def forward(self, input: Tensor) -> Tensor:
        owner, window = type(self).__name__, Window.of(self)
        check_input(self, input)
        check_channels(self, input, self.in_channels, window.dims)
        window.check(owner, input)
        x = Operand.of(self.activation_fake_quantizer, input)
        y = trained_convolution(x, Operand.of(self.weight_fake_quantizer, self.weight), self.bias, window, self.exact)
        return y if input.dim() == window.dims + 2 else y.squeeze(0)

    def served(self) -> ServedFakeQuantizedConv:
        """This layer for inference: its weight as codes."""
        fakes = self.weight_fake_quantizer, self.activation_fake_quantizer
        return ServedFakeQuantizedConv(self, *fakes, exact=self.exact)


class FakeQuantizedConv1d(_FakeQuantizedConv, torch.nn.Conv1d):
    """A torch.nn.Conv1d for quantization-aware training: see FakeQuantizedConv2d."""


class FakeQuantizedConv2d(_FakeQuantizedConv, torch.nn.Conv2d):
    """A torch.nn.Conv2d for quantization-aware training, whose forward is the product that serving runs.

    ``activation_fake_quantizer`` and ``weight_fake_quantizer`` are LearnableFakeQuantize or FakeQuantize modules, or
    None for a side that is not quantized; hooks of theirs run as in FakeQuantizedLinear. The weight has one scale, or one
    for each output channel (``per_channel`` of axis 0): ValueError otherwise. The convolution is a product of rows,
    the patches [kernel, in_channels / groups] that the kernel meets (after fake quantization, padding is 0), and the weight
    [out_channels, K] in that order:
    - codes of up to 8 bits for both, one scale for the input: isobit.quantized_linear_codes, exact integers, with zero
      points where there are any;
    - codes of 4 or 8 bits for the weight alone, without groups: isobit.weight_only_linear of the input's values;
    - all else: isobit.linear of the values;
    - ``exact=False``: torch's convolution of the values, whose bits are torch's.

    ``forward(input)``: float [N, C, H, W] or [C, H, W] to [N, out_channels, ...] of input's dtype, channels last where
    input is (then nothing is copied but patches); within autocast, products of values have autocast's. Gradients are those
    of a convolution of the fake-quantized input and weight: for each place in the kernel that of a linear layer, of
    16-bit types in float32; the input's are added up place by place. They can be differentiated once. Exact convolutions of
    single channels (groups=in_channels) take two to four times torch's time.
    ``served()``, and convert, keep the weight as codes, with the bits of eval mode."""


class FakeQuantizedConv3d(_FakeQuantizedConv, torch.nn.Conv3d):
    """A torch.nn.Conv3d for quantization-aware training: see FakeQuantizedConv2d."""
