"""The convolution of codes of a few channels at a time: by torch's of floats, which is exact in any order, as no sum of
such codes leaves the integers that an f32 holds."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from .._known import number
from .._op import LIBRARY
from .._transforms import is_plain, within_torch_func
from ..ops.dequantize import dequantize_per_channel, dequantize_per_tensor
from ._window import Window, as_kernels, memory_format

_HELD = 1 << 24  # up to it every integer is an f32
_PRODUCT = 1 << 14  # the most that two int8 codes give
_FEW = 16  # channels of a group: of more, products of patches take less time
_FEWER, _FEW_COLUMNS = 4, 100  # the same without groups
_PIECE = 1 << 21  # bytes of codes and sums at once, where there are many: they are in a cache then
_CACHE = 1 << 22
_BY_ONEDNN = torch.backends.mkldnn.is_available()

LIBRARY.define(
    "convolution_of_codes(Tensor input, Tensor input_scale, Tensor weight, Tensor weight_scale, Tensor? bias, "
    "SymInt[] kernel, SymInt[] stride, SymInt[] padding, SymInt[] dilation, SymInt groups, ScalarType dtype) -> Tensor",
    tags=torch.Tag.pt2_compliant_tag,
)
_OP = torch.ops.isobit.convolution_of_codes.default


def is_quick(x: Tensor, columns: int, window: Window) -> bool:
    """Whether the convolution of x with a weight [O, columns] is exact this way, and takes less time."""
    exact, channels = columns * _PRODUCT <= _HELD, columns // math.prod(window.kernel)
    few = channels <= _FEW if window.groups > 1 else channels <= _FEWER and columns <= _FEW_COLUMNS
    if not (exact and few and _BY_ONEDNN and x.is_cpu):
        return False
    return is_plain(x) or (is_compiling() and not within_torch_func())


def convolution_of_codes(
    x: Tensor, x_scale: Tensor, codes: Tensor, scale: Tensor, bias: Tensor | None, window: Window, dtype: torch.dtype
) -> Tensor:
    """quantized_linear's product of patches of int8 codes [N, C, ...] and the codes [O, K] of a weight. scale: one, or
    one for each output channel."""
    given = x, x_scale, codes, scale, bias
    if is_plain(x):
        return _computed(*given, *window[:5], dtype)
    y: Tensor = _OP(*given, *map(list, window[:4]), window.groups, dtype)
    return y


def _empty(x: Tensor, codes: Tensor, window: Window, dtype: torch.dtype) -> Tensor:
    shape = x.shape[0], codes.shape[0], *window.positions(x.shape[2:])
    return torch.empty(shape, dtype=dtype, device=x.device, memory_format=memory_format(x))


def _fake(x: Tensor, x_scale: Tensor, codes: Tensor, scale: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
    *window, dtype = rest
    return _empty(x, codes, Window(*window), dtype)


def _computed(x: Tensor, x_scale: Tensor, codes: Tensor, scale: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
    *extents, dtype = rest
    window, wide = Window(*extents), torch.promote_types(dtype, torch.float32)
    y = result = _empty(x, codes, window, dtype)
    if result.numel() == 0:
        return result
    kernels, scales = as_kernels(codes, window.kernel), _dequantized(scale.reshape(-1), x_scale, wide)
    scales = scales.expand(codes.shape[0])
    if window.dims == 1:
        x, y, kernels, window = x[:, :, None], y[:, :, None], kernels[:, :, None], window.flat()
    bias = None if bias is None else bias.to(wide).reshape(-1, *(1,) * window.dims)
    lies = torch.channels_last if window.dims == 2 else torch.channels_last_3d
    size = 4 * (x[0].numel() + y[0].numel())
    step = len(x) if size * len(x) <= _CACHE else max(_PIECE // size, 1)
    room = torch.empty((min(step, len(x)), *x.shape[1:]), dtype=torch.float32, device=x.device, memory_format=lies)
    kernels, one = kernels.float().contiguous(memory_format=lies), number(1.0, room)
    pieces = [(x, y)] if step == len(x) else zip(x.split(step), y.split(step), strict=True)
    for some, to in pieces:
        sums = _sums(_dequantized(some, one, torch.float32, room[: len(some)]), kernels, window)
        made = to if bias is None or dtype == wide else torch.empty_like(to, dtype=wide)
        dequantize_per_channel(sums, scales, None, 1, 0, 1, sums.dtype, out_dtype=made.dtype, out=made)
        if bias is not None:
            made += bias
        if made is not to:
            to.copy_(made)
    return result


def _dequantized(codes: Tensor, scale: Tensor, dtype: torch.dtype, out: Tensor | None = None) -> Tensor:
    """codes * scale, rounded once, in any order of elements."""
    return dequantize_per_tensor(codes, scale, None, 0, 1, codes.dtype, out_dtype=dtype, out=out)


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
