"""Where the kernel of a convolution looks: patches of its input, and what their gradients are added up to."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor

from .._errors import ArgumentError
from .._transforms import is_plain

_CONVOLUTIONS = (torch.nn.functional.conv1d, torch.nn.functional.conv2d, torch.nn.functional.conv3d)
MOST = 1 << 26  # bytes of patches and results at once
_TURNED = 1 << 22  # the same where results go into another order: they are in a cache then

# Rows of patches [rows, K], and which output channels they are for, to [rows, those].
Product = Callable[[Tensor, slice], Tensor]


class Window(NamedTuple):
    """A convolution's extents, an element a dimension. padding is as torch.nn.functional.pad takes it: from the last
    dimension, before and after each; mode is torch's padding_mode."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    mode: str = "zeros"

    @classmethod
    def of(cls, layer: Any) -> Self:
        """That of a layer with the attributes of torch's."""
        kernel, dilation, given = layer.kernel_size, layer.dilation, layer.padding
        padding: list[int] = []
        for i in reversed(range(len(kernel))):
            total = dilation[i] * (kernel[i] - 1) if given == "same" else 0 if given == "valid" else 2 * given[i]
            padding += [total // 2, total - total // 2]
        return cls(
            tuple(kernel), tuple(layer.stride), tuple(padding), tuple(dilation), layer.groups, layer.padding_mode
        )

    @property
    def dims(self) -> int:
        return len(self.kernel)

    def batch(self, x: Tensor) -> Tensor:
        """x as a batch of images with their padding, if that is not of zeros."""
        x = x if x.dim() == self.dims + 2 else x[None]
        if self.mode == "zeros" or not any(self.padding):
            return x
        values = x if x.is_floating_point() else x.float()  # of codes torch copies few
        padded = torch.nn.functional.pad(values, self.padding, self.mode)
        return padded.to(x.dtype).contiguous(memory_format=memory_format(x))

    def bare(self) -> Window:
        """The same for what `batch` gave."""
        return self if self.mode == "zeros" else self._replace(padding=(0,) * len(self.padding), mode="zeros")

    def check(self, owner: str, x: Tensor) -> None:
        """Raises where the kernel does not fit into an input with this padding."""
        extents = x.shape[-self.dims :]
        padded = [e + a + b for e, a, b in zip(extents, self.padding[-2::-2], self.padding[::-2], strict=True)]
        if any(e < d * (k - 1) + 1 for e, d, k in zip(padded, self.dilation, self.kernel, strict=True)):
            reach = [d * (k - 1) + 1 for d, k in zip(self.dilation, self.kernel, strict=True)]
            raise ArgumentError(
                f"{owner}: input has shape {list(x.shape)}, {padded} with its padding; want at least {reach}, as far "
                "as the kernel reaches"
            )

    def by_torch(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """torch's convolution of a batch, whose bits are torch's."""
        x, padding = self.evenly_padded(x)
        convolve = _CONVOLUTIONS[self.dims - 1]
        return convolve(x, weight, bias, self.stride, padding, self.dilation, self.groups)

    def evenly_padded(self, x: Tensor) -> tuple[Tensor, tuple[int, ...]]:
        """x, and the padding of each dimension that torch's convolutions are told: what differs at the ends is there."""
        before, after = self.padding[-2::-2], self.padding[::-2]
        if before == after:
            return x, before
        return torch.nn.functional.pad(x, self.padding), (0,) * self.dims

    def flat(self) -> Self:
        """The same of a line, taken for an image of one row."""
        kernel, stride, dilation = ((1, *extents) for extents in (self.kernel, self.stride, self.dilation))
        return self._replace(kernel=kernel, stride=stride, padding=(*self.padding, 0, 0), dilation=dilation)

    def positions(self, extents: Sequence[int]) -> list[int]:
        """How often the kernel fits along each dimension of an image of these extents."""
        around = zip(self.padding[-2::-2], self.padding[::-2], strict=True)
        whole = [e + a + b for e, (a, b) in zip(extents, around, strict=True)]
        each = zip(whole, self.dilation, self.kernel, self.stride, strict=True)
        return [(e - d * (k - 1) - 1) // s + 1 for e, d, k, s in each]

    def thinned(self, x: Tensor) -> tuple[Tensor, Window]:
        """The same convolution of what it meets of x alone, where the kernel is a point: less is copied."""
        if math.prod(self.kernel) > 1 or any(self.padding):
            return x, self
        steps = tuple(slice(None, None, s) for s in self.stride)
        return x[(slice(None), slice(None), *steps)], self._replace(stride=(1,) * self.dims)

    def padded(self, x: Tensor, zero: Tensor | None = None) -> Tensor:
        """x [N, C, ...] with its zeros around, as [N, ..., C] in that order, so that patches are of long runs. zero: the
        code of 0, if another."""
        y = x.movedim(1, -1)
        if not any(self.padding):
            return y.contiguous()
        around = (0, 0, *self.padding)
        if zero is None:
            return torch.nn.functional.pad(y, around).contiguous()
        if is_plain(x):
            return torch.nn.functional.pad(y, around, value=int(zero)).contiguous()
        inside = torch.nn.functional.pad(torch.ones_like(y, dtype=torch.bool), around)
        return torch.where(inside, torch.nn.functional.pad(y, around), zero.to(y.dtype)).contiguous()

    def patches(self, x: Tensor) -> Tensor:
        """The patches of what `padded` gave: a view [N, *positions, *kernel, C]."""
        for i, (kernel, stride, dilation) in enumerate(zip(self.kernel, self.stride, self.dilation, strict=True), 1):
            x = x.unfold(i, dilation * (kernel - 1) + 1, stride)
            x = x if dilation == 1 else x[..., ::dilation]
        return x.movedim(1 + self.dims, -1)

    def places(self) -> Iterator[tuple[int, ...]]:
        """The places in a kernel, in order."""
        return itertools.product(*map(range, self.kernel))

    def seen_from(self, offset: tuple[int, ...], x: Tensor, positions: tuple[int, ...]) -> Tensor:
        """The elements [N, *positions, C] of what `padded` gave that one place in the kernel meets."""
        for i, (at, stride, dilation) in enumerate(zip(offset, self.stride, self.dilation, strict=True)):
            start = at * dilation
            x = x[(slice(None),) * (1 + i) + (slice(start, start + stride * (positions[i] - 1) + 1, stride),)]
        return x

    def inside(self, x: Tensor) -> Tensor:
        """What `padded` gave, or its gradient, without the zeros around."""
        for i, (before, after) in enumerate(zip(self.padding[-2::-2], self.padding[::-2], strict=True), 1):
            x = x.narrow(i, before, x.shape[i] - before - after)
        return x


def as_rows(weight: Tensor) -> Tensor:
    """A weight [O, C, *kernel] as [O, K], in the order of patches: each place in the kernel has its channels together."""
    return weight.movedim(1, -1).flatten(1)


def as_kernels(rows: Tensor, kernel: tuple[int, ...]) -> Tensor:
    """The other way."""
    places = math.prod(kernel)
    return rows.reshape(rows.shape[0], *kernel, rows.shape[1] // places).movedim(-1, 1)


def memory_format(x: Tensor) -> torch.memory_format:
    """That of a result for x: channels last for such, as torch's."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim(), torch.contiguous_format)
    return last if not x.is_contiguous() and x.is_contiguous(memory_format=last) else torch.contiguous_format


def convolved(x: Tensor, outputs: int, window: Window, product: Product, zero: Tensor | None = None) -> Tensor:
    """The convolution of x [N, C, ...] with a product of patches, [N, outputs, ...]. zero: as `Window.padded` has it."""
    lies, dims, groups = memory_format(x), window.dims, window.groups
    x, window = window.thinned(x)
    padded = window.padded(x, zero)
    own, each, plain = padded.shape[-1] // groups, outputs // groups, is_plain(x)
    most = _TURNED if lies == torch.contiguous_format else MOST
    parts, y = [], None
    for g in range(groups):
        channels = slice(g * each, (g + 1) * each)
        some = padded if groups == 1 else padded[..., g * own : (g + 1) * own].contiguous()
        patches = window.patches(some)
        pieces = _pieces(patches, dims, each, most) if plain else [()]
        for at in pieces:
            these = patches[at]
            rows = these.reshape(math.prod(these.shape[: 1 + dims]), math.prod(these.shape[1 + dims :]))
            part = product(rows, channels).reshape(*these.shape[: 1 + dims], each)
            if not plain or groups * len(pieces) == 1:
                parts.append(part)
                continue
            if y is None:
                y = part.new_empty(patches.shape[0], outputs, *patches.shape[1 : 1 + dims])
                y = torch.empty_like(y, memory_format=lies)
            y.movedim(1, -1)[at][..., channels].copy_(part)
    if y is not None:
        return y
    y = parts[0] if groups == 1 else torch.cat(parts, -1)
    return y.movedim(-1, 1).contiguous(memory_format=lies)


def _pieces(patches: Tensor, dims: int, outputs: int, most: int) -> list[Any]:
    """Parts of patches that are worth a copy each: some images, or some lines of one. No bit depends on them."""
    images, lines = patches.shape[:2]
    row = math.prod(patches.shape[1 + dims :]) * patches.itemsize + outputs * 4
    line = max(math.prod(patches.shape[2 : 1 + dims]) * row, 1)
    if line * lines * images <= most:
        return [()]
    step = most // (line * lines)
    if step:
        return [(slice(n, n + step),) for n in range(0, images, step)]
    step = max(most // line, 1)
    return [(slice(n, n + 1), slice(i, i + step)) for n in range(images) for i in range(0, lines, step)]
