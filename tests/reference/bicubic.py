"""grid_sample of images with mode=bicubic (contract, section 6), shapes as in grid_sample.py."""

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
    def __init__(self, grid, sizes, problem):
        self.x, self.y = (Axis(grid[..., axis], sizes[axis], problem) for axis in (0, 1))
        self.width = sizes[0]

    def tap(self, i, j):
        """Where the tap of row i and column j is inside, and its pixel."""
        return self.y.inside[i] & self.x.inside[j], self.y.pixel[i] * self.width + self.x.pixel[j]

    def steps(self):
        """For each tap its mask, its pixel and its weight, row by row."""
        for i in range(4):
            for j in range(4):
                inside, pixel = self.tap(i, j)
                yield inside, pixel, self.x.weight[j] * self.y.weight[i]

    def reduce(self, pixels, columns, rows):
        """[N, C, P]: sums of values by the columns' factors, then of those by the rows'."""
        shape = (*pixels.shape[:2], self.x.k.shape[1])
        total = np.zeros(shape, pixels.dtype)
        for i in range(4):
            line = np.zeros(shape, pixels.dtype)
            for j in range(4):
                inside, pixel = self.tap(i, j)
                values = np.take_along_axis(pixels, np.broadcast_to(pixel[:, None, :], shape), axis=2)
                line = np.where(inside[:, None, :], line + values * columns[j][:, None, :], line)
            total = total + line * rows[i][:, None, :]
        return total

    def value(self, pixels):
        return self.reduce(pixels, self.x.weight, self.y.weight)

    def any_tap(self):
        return np.logical_or.reduce([self.tap(i, j)[0] for i in range(4) for j in range(4)])

    def grid_gradient(self, pixels, g):
        seen = self.any_tap()
        slopes = []
        for axis, columns, rows in (
            (self.x, self.x.slope, self.y.weight),
            (self.y, self.x.weight, self.y.slope),
        ):
            total = group(np.moveaxis(g * self.reduce(pixels, columns, rows), 1, 0))
            slopes.append(np.where(seen & axis.live, total * axis.k, g.dtype.type(0)))
        return np.stack(slopes, axis=-1)
