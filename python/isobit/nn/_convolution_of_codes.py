"""The convolution of codes of a few channels at a time: by torch's of floats, which is exact in any order, as no sum of
such codes leaves the integers that an f32 holds."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.compiler import is_compiling

from .._op import LIBRARY
from .._transforms import is_plain, within_torch_func
from ..ops.dequantize import dequantize_per_channel, dequantize_per_tensor
from ._window import Window, as_kernels, memory_format

_HELD = 1 << 24  # up to it every integer is an f32
_CODE, _DIFFERENCE = 128, 255  # the largest int8 code, and a byte less a zero point
_FEW = 16  # channels of a group: of more, products of patches take less time
_FEWER, _FEW_COLUMNS = 4, 100  # the same without groups
_PIECE = 1 << 21  # bytes of codes and sums at once, where there are many: they are in a cache then
_CACHE = 1 << 22
_ONE = torch.ones(1, dtype=torch.float32, device="cpu")
_BY_ONEDNN = torch.backends.mkldnn.is_available()

LIBRARY.define(
    "convolution_of_codes(Tensor input, Tensor input_scale, Tensor? input_zero_point, Tensor weight, "
    "Tensor weight_scale, Tensor? weight_zero_point, Tensor? bias, SymInt[] kernel, SymInt[] stride, "
    "SymInt[] padding, SymInt[] dilation, SymInt groups, ScalarType dtype) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)
_OP = torch.ops.isobit.convolution_of_codes.default


class Codes(NamedTuple):
    """Bytes, a scale, and maybe an integer zero point: of an input [N, C, ...] one, of a weight [O, K] one, or one for
    each row. packed: the dtype of a weight's, where a byte holds two."""

    codes: Tensor
    scale: Tensor
    zero_point: Tensor | None = None
    packed: torch.dtype | None = None

    def is_int8(self) -> bool:
        """Whether these are what quantized_linear multiplies."""
        return self.zero_point is None and self.packed is None and self.codes.dtype == torch.int8

    def largest(self) -> int:
        """The largest number that a code stands for, before its scale."""
        return _CODE if self.is_int8() else _DIFFERENCE

    def bounded(self) -> Tensor | None:
        """The zero point within the range of the codes' dtype, as products have it: [1] or [O]."""
        if self.zero_point is None or self.packed is not None:
            return self.zero_point
        of = torch.iinfo(self.codes.dtype)
        return self.zero_point.reshape(-1).clamp(of.min, of.max)


def is_quick(x: Codes, weight: Codes, window: Window) -> bool:
    """Whether the convolution is exact this way, and takes less time."""
    columns, channels = weight.codes.shape[1], x.codes.shape[1] // window.groups
    exact = columns * x.largest() * weight.largest() <= _HELD
    few = channels <= _FEW if window.groups > 1 else channels <= _FEWER and columns <= _FEW_COLUMNS
    if not (exact and few and weight.packed is None and _BY_ONEDNN and x.codes.is_cpu):
        return False
    return is_plain(x.codes) or (is_compiling() and not within_torch_func())


def convolution_of_codes(x: Codes, weight: Codes, bias: Tensor | None, window: Window, dtype: torch.dtype) -> Tensor:
    """The product of patches by quantized_linear, or quantized_linear_per_group of one group."""
    given = x.codes, x.scale, x.bounded(), weight.codes, weight.scale, weight.bounded(), bias
    if is_plain(x.codes):
        return _computed(*given, *window[:5], dtype)
    y: Tensor = _OP(*given, *map(list, window[:4]), window.groups, dtype)
    return y


def _empty(x: Tensor, codes: Tensor, window: Window, dtype: torch.dtype) -> Tensor:
    shape = x.shape[0], codes.shape[0], *window.positions(x.shape[2:])
    return torch.empty(shape, dtype=dtype, device=x.device, memory_format=memory_format(x))


def _fake(x: Tensor, x_scale: Tensor, x_zero: Tensor | None, codes: Tensor, *rest: Any) -> Tensor:
    *window, dtype = rest[3:]
    return _empty(x, codes, Window(*window), dtype)


def _computed(
    x: Tensor,
    x_scale: Tensor,
    x_zero: Tensor | None,
    codes: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    bias: Tensor | None,
    *rest: Any,
) -> Tensor:
    *extents, dtype = rest
    window, wide = Window(*extents), torch.promote_types(dtype, torch.float32)
    y = result = _empty(x, codes, window, dtype)
    if result.numel() == 0:
        return result
    scales = _less(scale.reshape(-1), None, wide, x_scale).expand(codes.shape[0])
    kernels = as_kernels(_less_by_row(codes, zero_point), window.kernel)
    if window.dims == 1:
        x, y, kernels, window = x[:, :, None], y[:, :, None], kernels[:, :, None], window.flat()
    bias = None if bias is None else bias.to(wide).reshape(-1, *(1,) * window.dims)
    lies = torch.channels_last if window.dims == 2 else torch.channels_last_3d
    size = 4 * (x[0].numel() + y[0].numel())
    step = len(x) if size * len(x) <= _CACHE else max(_PIECE // size, 1)
    room = torch.empty((min(step, len(x)), *x.shape[1:]), dtype=torch.float32, device=x.device, memory_format=lies)
    kernels = kernels.contiguous(memory_format=lies)
    pieces = [(x, y)] if step == len(x) else zip(x.split(step), y.split(step), strict=True)
    for some, to in pieces:
        sums = _sums(_less(some, x_zero, torch.float32, out=room[: len(some)]), kernels, window)
        made = to if bias is None or dtype == wide else torch.empty_like(to, dtype=wide)
        dequantize_per_channel(sums, scales, None, 1, 0, 1, sums.dtype, out_dtype=made.dtype, out=made)
        if bias is not None:
            made += bias
        if made is not to:
            to.copy_(made)
    return result


def _less(
    codes: Tensor,
    zero_point: Tensor | None,
    dtype: torch.dtype,
    scale: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Codes less their zero point, times a scale, rounded once."""
    one = _ONE if scale is None else scale
    return dequantize_per_tensor(codes, one, zero_point, *_range(codes), codes.dtype, out_dtype=dtype, out=out)


def _less_by_row(codes: Tensor, zero_point: Tensor | None) -> Tensor:
    if zero_point is None:
        return codes.float()
    rows = len(codes)
    return dequantize_per_channel(codes, _ONE.expand(rows), zero_point.expand(rows), 0, *_range(codes), codes.dtype)


def _range(codes: Tensor) -> tuple[int, int]:
    if codes.is_floating_point():
        return 0, 1
    of = torch.iinfo(codes.dtype)
    return of.min, of.max


def _sums(codes: Tensor, kernels: Tensor, window: Window) -> Tensor:
    """The integers, as floats. Neither way goes through fractions, as Winograd's would: oneDNN is asked for the direct
    one, and of f64 torch has no other. Zeros are added, so that no sum is -0."""
    zeros = kernels.new_zeros(kernels.shape[0])
    if not torch._C._get_mkldnn_enabled():
        return window.by_torch(codes.double(), kernels.double(), zeros.double())
    codes, padding = window.evenly_padded(codes)
    return torch.mkldnn_convolution(codes, kernels, zeros, padding, window.stride, window.dilation, window.groups)


LIBRARY.impl("convolution_of_codes", _computed, "CPU")
torch.library.register_fake("isobit::convolution_of_codes", _fake, lib=LIBRARY)
