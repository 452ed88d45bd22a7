"""grid_sample with mode=bicubic (contract, section 6), shapes as in grid_sample.py."""

import itertools

import numpy as np

from . import grid_sample as geometry
from .sums import group


def outer(u):
    a = u.dtype.type(-0.75)
    return ((a * u - 5 * a) * u + 8 * a) * u - 4 * a


def inner(u):
    a, one = u.dtype.type(-0.75), u.dtype.type(1)
    return (((a + 2 * one) * u - (a + 3 * one)) * u) * u + one


def outer_slope(u):
    a = u.dtype.type(-0.75)
    return ((3 * a) * u - 10 * a) * u + 8 * a


def inner_slope(u):
    a, two = u.dtype.type(-0.75), u.dtype.type(2)
    return ((3 * (a + two)) * u - 2 * (a + two + 1)) * u


def outer_bend(u):
    a = u.dtype.type(-0.75)
    return (6 * a) * u - 10 * a


def inner_bend(u):
    a, two = u.dtype.type(-0.75), u.dtype.type(2)
    return (6 * (a + two)) * u - 2 * (a + two + 1)


def padded_place(place, size, problem):
    """The places of taps under the padding's rule, and where they are inside the image."""
    mode = problem.values.get("padding_mode", "zeros")
    live = np.ones(place.shape, bool)
    if mode == "border":
        place, _, _ = geometry.clip(place, place, live, size)
    elif mode == "reflection":
        place, _, _ = geometry.reflect(place, place, size, problem.values.get("align_corners", False))
    inside = (place >= 0) & (place <= size - 1)
    return np.where(inside, np.floor(place), 0).astype(np.int64), inside


class Axis:
    """One axis: four taps with pixels, weights and slopes, from x0 - 1 on."""

    def __init__(self, g, size, problem):
        mode = problem.values.get("padding_mode", "zeros")
        c, self.k = geometry.coordinate(g, size, problem.values.get("align_corners", False))
        one = c.dtype.type(1)
        self.live = np.isfinite(c)
        end = one * (size - 1) if mode == "border" else 0 * one
        c = np.where(self.live, c, np.where(c > 0, end, 0 * one))
        first = np.floor(c)
        t = c - first
        s = one - t
        self.weight = [outer(t + one), inner(t), inner(s), outer(s + one)]
        self.slope = [outer_slope(t + one), inner_slope(t), -inner_slope(s), -outer_slope(s + one)]
        self.bend = [outer_bend(t + one), inner_bend(t), inner_bend(s), outer_bend(s + one)]
        self.pixel, self.inside = [], []
        for step in (-1, 0, 1, 2):
            pixel, inside = padded_place(first + step * one, size, problem)
            self.pixel.append(pixel)
            self.inside.append(inside & (self.live | (mode != "zeros")))


class Taps:
    """The taps of every output position; each has a number along x, y[, z]."""

    def __init__(self, grid, sizes, problem):
        self.axes = [Axis(grid[..., axis], size, problem) for axis, size in enumerate(sizes)]
        self.sizes = sizes
        self.numbers = [n[::-1] for n in itertools.product(range(4), repeat=len(sizes))]

    def tap(self, number):
        """Where a tap is inside, and its pixel."""
        inside, pixel = True, 0
        for axis, size, i in zip(self.axes[::-1], self.sizes[::-1], number[::-1], strict=True):
            inside, pixel = inside & axis.inside[i], pixel * size + axis.pixel[i]
        return inside, pixel

    def weight(self, number, along=None):
        """(wx * wy) * wz, with the derivative along an axis."""
        weight = None
        for axis, i in zip(self.axes, number, strict=True):
            factor = (axis.slope if axis is along else axis.weight)[i]
            weight = factor if weight is None else weight * factor
        return weight

    def steps(self):
        """For each tap its mask, its pixel and its weight, row by row, plane by plane."""
        for number in self.numbers:
            yield *self.tap(number), self.weight(number)

    def reduce(self, pixels, factors, outer=()):
        """[N, C, P]: sums along x of values by its factors, then along y of those by its, then along z.
        outer: the numbers along the axes that are not summed yet."""
        axis = len(factors) - len(outer) - 1
        shape = (*pixels.shape[:2], self.axes[0].k.shape[1])
        total = np.zeros(shape, pixels.dtype)
        for i in range(4):
            factor = factors[axis][i][:, None, :]
            if axis:
                total = total + self.reduce(pixels, factors, (i, *outer)) * factor
                continue
            inside, pixel = self.tap((i, *outer))
            values = np.take_along_axis(pixels, np.broadcast_to(pixel[:, None, :], shape), axis=2)
            total = np.where(inside[:, None, :], total + values * factor, total)
        return total

    def value(self, pixels):
        return self.reduce(pixels, [axis.weight for axis in self.axes])

    def any_tap(self):
        return np.logical_or.reduce([self.tap(number)[0] for number in self.numbers])

    def grid_gradient(self, pixels, g):
        seen = self.any_tap()
        slopes = []
        for axis in self.axes:
            factors = [a.slope if a is axis else a.weight for a in self.axes]
            total = group(np.moveaxis(g * self.reduce(pixels, factors), 1, 0))
            slopes.append(np.where(seen & axis.live, total * axis.k, g.dtype.type(0)))
        return np.stack(slopes, axis=-1)
