"""The gradient of a convolution of values: those of linear layers, one for each place in the kernel, and so in one order."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from .._composite import Composite
from .._gradient import asked, no_forward_mode, once, rounded, widest
from .._transforms import is_plain
from ..ops._product import product, row_sums
from ._window import Window, as_kernels, memory_format

_PATCHES = 1 << 24  # bytes of patches in one product, unless its columns were few
_FEW = 16


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, bias, _, kernel, stride, padding, dilation, groups = inputs
    wanted = ctx.needs_input_grad
    ctx.save_for_backward(x if wanted[1] else None, weight if wanted[0] else None)
    ctx.window = Window(tuple(kernel), tuple(stride), tuple(padding), tuple(dilation), groups)
    ctx.types = x.dtype, weight.dtype, None if bias is None else bias.dtype
    ctx.shape, ctx.lies = x.shape, memory_format(x)


@partial(once, "FakeQuantizedConv")
def _backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    x_type, weight_type, bias_type = ctx.types
    grad = widest(grad_y).movedim(1, -1).contiguous()
    grad_x = grad_w = grad_b = None
    wanted = asked(ctx, grad_y)
    if wanted[0]:
        grad_x = rounded(_of_input(grad, weight.to(grad.dtype), ctx.shape, ctx.window), x_type)
        grad_x = grad_x.contiguous(memory_format=ctx.lies)
    if wanted[1]:
        grad_w = rounded(_of_weight(grad, x.to(grad.dtype), ctx.window), weight_type)
    if wanted[2]:
        grad_b = row_sums(_rows(grad), bias_type)
    return grad_x, grad_w, grad_b, *(None,) * 6


# The value that serving computes, which is new, with the gradient of a convolution of input and weight.
_straight_through = Composite(
    "straight_through_convolution(Tensor input, Tensor weight, Tensor? bias, Tensor value, int[] kernel, int[] stride, "
    "int[] padding, int[] dilation, int groups) -> Tensor",
    lambda x, weight, bias, value, *window: value.detach(),
    _setup,
    _backward,
    no_forward_mode("a convolution of codes"),
)


def straight_through(x: Tensor, weight: Tensor, bias: Tensor | None, value: Tensor, window: Window) -> Tensor:
    """value, with the gradient of the convolution of x [N, C, ...] and weight [O, C / groups, *kernel]."""
    y: Tensor = _straight_through(x, weight, bias, value, *map(list, window[:4]), window.groups)
    return y


def _rows(t: Tensor) -> Tensor:
    """[N, *positions, channels] as a matrix."""
    return t.reshape(math.prod(t.shape[:-1]), t.shape[-1])


def _of_input(grad: Tensor, weight: Tensor, shape: Any, window: Window) -> Tensor:
    """The gradient of x [N, C, ...]: for each place in the kernel, in order, that of a linear layer is added where the
    place has met x. grad: [N, *positions, O]."""
    groups, channels, outputs, total = window.groups, shape[1], grad.shape[-1], None
    places = weight.unflatten(0, (groups, -1)).movedim((0, 1, 2), (-3, -2, -1)).contiguous()
    each = grad.reshape(math.prod(grad.shape[:-1]), groups, outputs // groups).transpose(0, 1)
    for place in window.places():
        if channels == groups == outputs and is_plain(grad):  # where the product has one term
            part = grad * places[place].flatten()
        else:
            part = product(each, places[place]).transpose(0, 1).reshape(*grad.shape[:-1], channels)
        if total is None:
            around = zip(shape[2:], window.padding[-2::-2], window.padding[::-2], strict=True)
            total = part.new_zeros(shape[0], *(sum(extents) for extents in around), channels)
        window.seen_from(place, total, grad.shape[1:-1]).add_(part)
    assert total is not None
    return window.inside(total).movedim(-1, 1)


def _of_weight(grad: Tensor, x: Tensor, window: Window) -> Tensor:
    """The gradient of a weight [O, C / groups, *kernel]: each element is one sum over all positions of all images."""
    groups, dims, outputs, channels = window.groups, window.dims, grad.shape[-1], x.shape[1]
    patches, rows = window.patches(window.padded(x)), math.prod(grad.shape[:-1])
    of_each = channels == groups == outputs  # channels have no sums together
    depth = dims if of_each else _depth(window, channels // groups, patches.numel() * x.itemsize) if is_plain(x) else 0
    each = grad.reshape(rows, groups, outputs // groups).movedim(0, -1)
    parts = []
    for place in itertools.product(*map(range, window.kernel[:depth])):
        some = patches[(slice(None),) * (1 + dims) + place]
        if of_each:
            parts.append(row_sums(_rows(grad * some), grad.dtype)[:, None])
            continue
        some = some if groups == 1 else some.unflatten(-1, (groups, -1)).movedim(-2, 0)
        some = some.reshape(groups, rows, math.prod(window.kernel[depth:]) * channels // groups)
        parts.append(product(each, some).flatten(0, 1))
    return as_kernels(torch.cat(parts, 1), window.kernel)


def _depth(window: Window, channels: int, size: int) -> int:
    """How many dimensions of the kernel have a product for each of their places: no bit depends on it."""
    for depth in range(window.dims):
        once, then = (math.prod(window.kernel[d:]) * channels for d in (depth, depth + 1))
        if then < _FEW or size * once <= _PATCHES * math.prod(window.kernel) * channels:
            return depth
    return window.dims
