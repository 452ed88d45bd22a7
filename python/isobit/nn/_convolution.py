"""The product of a fake-quantized convolution: one of patches, the same in training and in serving."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .._autocast import narrowed
from .._errors import ArgumentError
from .._gradient import rounded, widest
from .._load import PACKED
from .._transforms import is_plain, wants_derivative
from ..ops._product import product
from ..ops.linear import linear
from ..ops.quantized_linear import quantized_linear_codes
from ..ops.weight_only_linear import weight_only_linear
from ._convolution_gradient import straight_through
from ._convolution_of_codes import Codes, convolution_of_codes, is_quick
from ._fake_quantizer import FakeQuantizer
from ._grouping import Grouping
from ._linear import Operand, in_groups, product_of
from ._scheme import Scheme
from ._window import MOST, Window, as_rows, convolved, memory_format

_WEIGHTS = (Grouping(), Grouping("per_channel", 0))
_MERGED = 64  # channels
INTEGER = ("integer", "integer_groups")


def check_weight(owner: str, by: FakeQuantizer | None) -> None:
    """Raises where a weight's scales are not those of rows of patches."""
    if by is not None and by.scheme.grouping not in _WEIGHTS:
        raise ArgumentError(
            f"{owner}: the weight has scales {by.scheme.grouping}; want one, or one for each output channel: per_tensor, "
            "or per_channel of axis 0"
        )


def product_of_patches(x: Scheme | None, weight: Scheme | None, groups: int, exact: bool) -> str:
    """As `product_of`. Scales of an input's lines are none of patches, so that its values are multiplied; so are those
    of the weight where there are groups, which one product of floats takes all at once."""
    whole = x is not None and x.grouping.name == "per_tensor"
    kind = product_of(x if whole else None, weight, exact)
    return "float" if kind == "codes" and groups > 1 else kind


def codes_of_input(x: Operand, window: Window) -> Codes:
    """The codes of an input with one scale."""
    assert x.scheme is not None and x.scale is not None
    return Codes(window.batch(x.as_codes()), x.scale, x.scheme.integer_zero_point(x.zero_point))


def _merged(codes: Tensor, window: Window) -> tuple[Tensor, Window]:
    """The weight of fewer groups of more channels, with codes of 0 between what were groups: of few channels each, so
    integer products take a part of the time."""
    groups, rows, columns = window.groups, *codes.shape
    places = math.prod(window.kernel)
    own = columns // places
    together = max(b for b in range(1, max(_MERGED // max(own, 1), 1) + 1) if groups % b == 0)
    if together == 1:
        return codes, window
    wide = codes.reshape(groups // together, together, rows // groups, places, 1, own)
    wide = wide * torch.eye(together, dtype=codes.dtype, device=codes.device).reshape(1, together, 1, 1, together, 1)
    return wide.reshape(rows, together * columns), window._replace(groups=groups // together)


def _part(t: Tensor | None, at: slice) -> Tensor | None:
    return None if t is None else t[at]


def integer_convolution(x: Codes, weight: Codes, bias: Tensor | None, window: Window, dtype: torch.dtype) -> Tensor:
    """The product of patches of codes [N, C, ...] and the codes [O, K] of a weight."""
    if is_quick(x, weight, window):
        return convolution_of_codes(x, weight, bias, window, dtype)
    codes, outputs = weight.codes, weight.codes.shape[0]
    if weight.zero_point is None and weight.packed is None:
        codes, window = _merged(codes, window)
    x_scale, scales, zero = x.scale.reshape(1), weight.scale.reshape(-1).expand(outputs), x.bounded()
    zeros = None if weight.zero_point is None else weight.zero_point.reshape(-1).expand(outputs)
    plain = x.is_int8() and weight.is_int8()

    def of_rows(rows: Tensor, at: slice) -> Tensor:
        count = rows.shape[0]
        given = x_scale.expand(count), codes[at], scales[at], _part(bias, at)
        if plain:
            return quantized_linear_codes(rows, *given, dtype)
        of_input = None if zero is None else zero.expand(count)
        keywords: Any = {"input_zero_point": of_input, "weight_zero_point": _part(zeros, at)}
        return quantized_linear_codes(rows, *given, dtype, **keywords, weight_dtype=weight.packed or codes.dtype)

    return convolved(x.codes, outputs, window, of_rows, zero)


def codes_convolution(
    x: Tensor,
    scheme: Scheme,
    codes: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    bias: Tensor | None,
    window: Window,
) -> Tensor:
    """The product of patches of values and the codes of a weight."""
    columns = math.prod(window.kernel) * (x.shape[1] // window.groups)
    size, scale, zero_point = in_groups(scheme, codes.shape[0], columns, scale, zero_point)

    def of_rows(rows: Tensor, at: slice) -> Tensor:
        given = codes[at], scale[at], _part(zero_point, at), _part(bias, at)
        return weight_only_linear(rows, *given, group_size=size, dtype=scheme.dtype)

    return convolved(x, codes.shape[0], window, of_rows)


def float_convolution(x: Tensor, weight: Tensor, bias: Tensor | None, window: Window) -> Tensor:
    """The product of patches of values and the rows of a weight's."""
    if window.groups > 1:
        return grouped(x, weight, bias, window)

    def of_rows(rows: Tensor, at: slice) -> Tensor:
        return linear(rows, weight[at], _part(bias, at))

    return convolved(x, weight.shape[0], window, of_rows)


def grouped(x: Tensor, weight: Tensor, bias: Tensor | None, window: Window) -> Tensor:
    """The same of groups: those of all images are one product, in which patches are columns. The chains are linear's."""
    groups, (outputs, columns) = window.groups, weight.shape
    wide = widest(weight).reshape(groups, outputs // groups, columns)
    patches = window.patches(torch.nn.functional.pad(widest(x), window.padding).contiguous().movedim(1, -1))
    positions = patches.shape[1 : 1 + window.dims]

    def of(patches: Tensor) -> Tensor:
        images = patches.shape[0]
        order = (0, -2, *range(1 + window.dims, 1 + 2 * window.dims), -1, *range(1, 1 + window.dims))
        these = patches.unflatten(-1, (groups, -1)).permute(order)
        these = these.reshape(images * groups, columns, math.prod(positions))
        y = product(wide.expand(images, *wide.shape).flatten(0, 1), these)
        y = y.reshape(images, outputs, *positions)
        return rounded(y if bias is None else y + bias.to(y.dtype).reshape(-1, *(1,) * window.dims), x.dtype)

    step = max(MOST // max(patches[:1].numel() * patches.itemsize, 1), 1)
    parts = [of(some) for some in patches.split(step)] if is_plain(x) and len(patches) > step else [of(patches)]
    return (parts[0] if len(parts) == 1 else torch.cat(parts)).contiguous(memory_format=memory_format(x))


def trained_convolution(x: Operand, weight: Operand, bias: Tensor | None, window: Window, exact: bool) -> Tensor:
    """The convolution of a layer in training: the value that serving computes, with straight-through gradients."""
    kind, bare = product_of_patches(x.scheme, weight.scheme, window.groups, exact), window.bare()
    values = None if kind in INTEGER else window.batch(x.values())
    if kind == "torch":
        assert values is not None
        return bare.by_torch(values, weight.values(), bias)
    wants = x.wants_gradient() or weight.wants_gradient() or wants_derivative(bias)
    if kind == "float":
        values, kernels, bias = narrowed(values, weight.values(), bias)
        plain = None if bias is None else bias.detach()
        value = float_convolution(values.detach(), as_rows(kernels.detach()), plain, bare)
        return straight_through(values, kernels, bias, value, bare) if wants else value
    fixed = weight.detached()
    assert fixed.scheme is not None and fixed.scale is not None
    narrow = kind == "integer" or fixed.scheme.dtype in PACKED  # codes that end here are not packed
    scheme = fixed.scheme.with_dtype(torch.int8 if narrow else None)
    codes = scheme.quantize(as_rows(fixed.tensor), fixed.scale, fixed.zero_point)
    plain, zero_point = None if bias is None else bias.detach(), scheme.integer_zero_point(fixed.zero_point)
    if values is None:
        by = Codes(codes, fixed.scale, zero_point)
        value = integer_convolution(codes_of_input(x.detached(), window), by, plain, bare, x.tensor.dtype)
    else:
        value = codes_convolution(values.detach(), scheme, codes, fixed.scale, zero_point, plain, bare)
    if not wants:
        return value
    factor = window.batch(x.widest().values()) if values is None else values
    return straight_through(factor, weight.widest().values(), bias, value, bare)
