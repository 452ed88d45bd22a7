"""What fake-quantized convolutions become for inference: rows of codes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._autocast import narrowed
from .._load import PACKED
from ._buffers import member
from ._convolution import (
    INTEGER,
    codes_convolution,
    codes_of_input,
    float_convolution,
    integer_convolution,
    product_of_patches,
)
from ._convolution_gradient import straight_through
from ._convolution_of_codes import Codes
from ._fake_quantizer import FakeQuantizer
from ._linear import Operand
from ._modules import check_channels, check_input, leaf
from ._window import Window, as_kernels, as_rows, memory_format
from .served import operand_for, served_with_hooks
from .served_weight import ServedWeight, copied, scheme_of

_EXTENTS = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")


class ServedKernels(ServedWeight):
    """A convolution's weight as codes [O, K], each place in the kernel with its channels together. Called, it gives the
    values that they stand for as [O, C, *kernel], which is its ``shape``."""

    def __init__(self, weight: Tensor, by: FakeQuantizer | None, stored_as: torch.dtype | None = None) -> None:
        super().__init__(as_rows(weight), by, stored_as)
        self.shape = weight.shape

    def _words(self) -> dict[str, Any]:
        return {**super()._words(), "shape": list(self.shape)}

    def values(self, dtype: torch.dtype) -> Tensor:
        return as_kernels(self.rows_of(dtype), self.shape[2:])


@leaf
class ServedFakeQuantizedConv(torch.nn.Module):
    """What FakeQuantizedConv1d, FakeQuantizedConv2d and FakeQuantizedConv3d become. ``weight`` holds codes;
    ``forward(input)`` has the bits of the trained layer in eval mode, and the same gradient of input. It has no
    parameters."""

    bias: Tensor | None
    in_channels: int

    def __init__(
        self, layer: Any, weight_by: FakeQuantizer | None, input_by: FakeQuantizer | None, exact: bool = True
    ) -> None:
        super().__init__()
        self.activation_fake_quantizer = served_with_hooks(input_by)
        self.product = product_of_patches(scheme_of(input_by), scheme_of(weight_by), layer.groups, exact)
        self.weight = ServedKernels(layer.weight, weight_by, torch.int8 if self.product == "integer" else None)
        self.register_buffer("bias", copied(layer.bias))
        for name in _EXTENTS:
            setattr(self, name, getattr(layer, name))

    def forward(self, input: Tensor) -> Tensor:
        window = Window.of(self)
        check_input(self, input)
        check_channels(self, input, self.in_channels, window.dims)
        window.check(type(self).__name__, input)
        y = self._convolved(operand_for(self, input, coded=input.is_contiguous()), window)
        return y if input.dim() == window.dims + 2 else y.squeeze(0)

    def _convolved(self, x: Operand, window: Window) -> Tensor:
        w, bias, bare = member(self, "weight"), member(self, "bias"), window.bare()
        wants, kind = x.wants_gradient(), self.product
        if kind == "integer_groups" and x.scheme is None:  # of values that are no codes
            kind = product_of_patches(None, w.scheme, bare.groups, True)
        if kind in INTEGER:
            scheme, codes = w.exportable(member(w, "codes"))
            packed = scheme.dtype if scheme.dtype in PACKED else None
            weight = Codes(codes, member(w, "scale"), member(w, "zero_point"), packed)
            value = integer_convolution(codes_of_input(x.detached(), window), weight, bias, bare, x.tensor.dtype)
            if not wants:
                return value
            wide = torch.promote_types(w.dtype, torch.float32)
            return straight_through(window.batch(x.widest().values()), w.values(wide), None, value, bare)
        values = window.batch(x.values())
        if kind == "torch":
            return bare.by_torch(values, w().clone(memory_format=memory_format(values)), bias)  # torch asks how it lies
        if kind == "float":
            values, rows, bias = narrowed(values, w.rows_of(w.dtype), bias)
            value = float_convolution(values.detach(), rows, bias, bare)
            kernels = as_kernels(rows, w.shape[2:]) if wants else None
        else:
            scheme, codes = w.exportable(member(w, "codes"))
            value = codes_convolution(values.detach(), scheme, codes, member(w, "scale"), w.zero_point, bias, bare)
            kernels = w.values(torch.promote_types(w.dtype, torch.float32)) if wants else None
        return value if kernels is None else straight_through(values, kernels, None, value, bare)

    def extra_repr(self) -> str:
        extents = ", ".join(f"{name}={getattr(self, name)!r}" for name in _EXTENTS)
        return f"{extents}, product={self.product}, bias={self.bias is not None}"
