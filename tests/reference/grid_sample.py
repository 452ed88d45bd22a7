"""grid_sample in two and three dimensions and its backward (contract, section 6); bicubic.py has its own taps.

Everything before the channels is computed for all output positions at once, flattened row-major:
arrays of shape [N, P]. An image is [N, C, S...] and its axes are named from the last to the first
x, y, z, as in a grid's last dimension.
"""

import itertools
import math

import numpy as np

from . import bicubic
from .floats import compute_type, dtype_name, store, widen
from .sums import chunk, group


def coordinate(g, size, align_corners):
    """A grid value as a pixel coordinate, and k, the derivative."""
    ct = g.dtype.type
    if align_corners:
        return ((g + ct(1)) / ct(2)) * ct(size - 1), np.full_like(g, ct(size - 1) / ct(2))
    return ((g + ct(1)) * ct(size) - ct(1)) / ct(2), np.full_like(g, ct(size) / ct(2))


def clip(c, k, live, size):
    """Border's clip: at or beyond an edge k is 0; NaN is pixel 0. `live` is False where k is 0."""
    ct = c.dtype.type
    last = ct(size - 1)
    live = live & (c > 0) & (c < last)
    c = np.where(np.isnan(c) | (c < 0), ct(0), np.where(c > last, last, c))
    return c, k, live


def reflect(c, k, size, align_corners):
    ct = c.dtype.type
    low = ct(0) if align_corners else ct(-0.5)
    span = ct(size - 1) if align_corners else ct(size)
    a = np.abs(c - low)
    out, k, live = c.copy(), k.copy(), np.ones(c.shape, bool)
    for at in np.ndindex(c.shape):
        flips = exact_quotient(a[at], span)
        if flips is None or flips >= 2**23:
            out[at], live[at] = ct(0), False
            continue
        extra = np.fmod(a[at], span)
        out[at] = extra + low if flips % 2 == 0 else (span - extra) + low
        if (flips % 2 == 1) != (c[at] < low):
            k[at] = -k[at]
    return clip(out, k, live, size)


def exact_quotient(a, span):
    """The whole number of times that span fits in a, or None where there is none."""
    if span == 0 or not np.isfinite(a):
        return None
    (an, ad), (sn, sd) = a.as_integer_ratio(), span.as_integer_ratio()
    return (an * sd) // (ad * sn)


def padded(g, size, problem):
    """The padded coordinate, k, and where k is not set to 0."""
    align = problem.values.get("align_corners", False)
    c, k = coordinate(g, size, align)
    mode = problem.values.get("padding_mode", "zeros")
    live = np.ones(c.shape, bool)
    if mode == "border":
        return clip(c, k, live, size)
    if mode == "reflection":
        return reflect(c, k, size, align)
    return c, k, live


class Taps:
    """The taps of every output position of a [N, P, axes] grid over an image's sizes (x first).

    A tap is a corner (dx, dy[, dz]) of 0 (near) or 1 (far); tap order is nw, ne, sw, se, the top
    plane first. Each has its mask `inside`, its flat pixel `index` and its weight.
    """

    def __init__(self, grid, sizes, problem):
        self.sizes = sizes
        self.near, self.far, self.k, self.live, index, inside = [], [], [], [], [], []
        for axis, size in enumerate(sizes):
            c, k, live = padded(grid[..., axis], size, problem)
            ct = c.dtype.type
            first = np.floor(c)
            self.far.append(c - first)
            self.near.append((first + ct(1)) - c)
            self.k.append(k)
            self.live.append(live)
            both = [first, first + ct(1)]
            inside.append([(p >= 0) & (p <= size - 1) for p in both])
            index.append([np.where(ok, p, 0).astype(np.int64) for p, ok in zip(both, inside[-1], strict=True)])
        self.corners = [c[::-1] for c in itertools.product((0, 1), repeat=len(sizes))]
        self.inside = {c: self.all_inside(inside, c) for c in self.corners}
        self.index = {c: self.flat_index(index, c) for c in self.corners}
        self.weight = {c: self.weight_of(c) for c in self.corners}

    def all_inside(self, inside, corner):
        masks = [inside[axis][side] for axis, side in enumerate(corner)]
        return np.logical_and.reduce(masks)

    def flat_index(self, index, corner):
        flat = np.zeros_like(index[0][0])
        for axis in reversed(range(len(corner))):
            flat = flat * self.sizes[axis] + index[axis][corner[axis]]
        return flat

    def weight_of(self, corner):
        """(x distance * y distance) * z distance, from the opposite side of each axis."""
        weight = None
        for axis, side in enumerate(corner):
            distance = self.far[axis] if side else self.near[axis]
            weight = distance if weight is None else weight * distance
        return weight

    def values(self, pixels, corner):
        """[N, C, P] pixels of a tap, 0 where it is outside. pixels: [N, C, S]."""
        n, c, _ = pixels.shape
        at = np.broadcast_to(self.index[corner][:, None, :], (n, c, self.index[corner].shape[1]))
        inside = self.inside[corner][:, None, :]
        if pixels.shape[2] == 0:
            return np.zeros(at.shape, pixels.dtype)
        return np.where(inside, np.take_along_axis(pixels, at, axis=2), pixels.dtype.type(0))


def nearest_taps(grid, sizes, problem):
    """The mask and the flat pixel of the one tap of each output position."""
    inside, flat = None, None
    for axis in reversed(range(len(sizes))):
        c, _, _ = padded(grid[..., axis], sizes[axis], problem)
        p = np.rint(c)
        ok = (p >= 0) & (p <= sizes[axis] - 1)
        at = np.where(ok, p, 0).astype(np.int64)
        inside = ok if inside is None else inside & ok
        flat = at if flat is None else flat * sizes[axis] + at
    return inside, flat


def flat_grid(grid, ct):
    n, *spatial, axes = grid.shape
    return widen(grid, ct).reshape(n, math.prod(spatial), axes)


def flat_image(image, ct):
    n, c, *spatial = image.shape
    return widen(image, ct).reshape(n, c, math.prod(spatial))


def mode_of(problem):
    return problem.values.get("mode", "bilinear")


def sample(problem, pixels, where, sizes):
    """The values [N, C, P] at positions where [N, P, axes]."""
    n, c, _ = pixels.shape
    y = np.zeros((n, c, where.shape[1]), pixels.dtype)
    if mode_of(problem) == "bicubic":
        return bicubic.Taps(where, sizes, problem).value(pixels)
    if mode_of(problem) == "nearest":
        inside, flat = nearest_taps(where, sizes, problem)
        if pixels.shape[2]:
            at = np.broadcast_to(flat[:, None, :], y.shape)
            y = np.where(inside[:, None, :], np.take_along_axis(pixels, at, axis=2), pixels.dtype.type(0))
        return y
    taps = Taps(where, sizes, problem)
    for corner in taps.corners:
        term = taps.values(pixels, corner) * taps.weight[corner][:, None, :]
        y = np.where(taps.inside[corner][:, None, :], y + term, y)
    return y


def slopes(problem, pixels, g, where, sizes):
    """dgrid [N, P, axes]."""
    if mode_of(problem) == "bicubic":
        return bicubic.Taps(where, sizes, problem).grid_gradient(pixels, g)
    if mode_of(problem) == "nearest":
        return np.zeros(where.shape, pixels.dtype)
    return grid_gradient(Taps(where, sizes, problem), pixels, g)


def tap_steps(problem, where, sizes):
    """For each tap its mask, its pixel and its weight (nearest: None)."""
    if mode_of(problem) == "bicubic":
        return list(bicubic.Taps(where, sizes, problem).steps())
    if mode_of(problem) == "nearest":
        return [(*nearest_taps(where, sizes, problem), None)]
    taps = Taps(where, sizes, problem)
    return [(taps.inside[c], taps.index[c], taps.weight[c]) for c in taps.corners]


def grid_sample(problem, image, grid):
    ct = compute_type(dtype_name(image))
    y = sample(problem, flat_image(image, ct), flat_grid(grid, ct), image.shape[:1:-1])
    return [store(y, problem.outputs["y"].dtype).reshape((*image.shape[:2], *grid.shape[1:-1]))]


def grid_sample_backward(problem, grad_output, image, grid):
    ct = compute_type(dtype_name(image))
    sizes = image.shape[:1:-1]
    pixels, where = flat_image(image, ct), flat_grid(grid, ct)
    g = flat_image(grad_output, ct)
    out = problem.outputs
    grad_input = grad_grid = None
    if out["grad_input"]:
        di = image_gradient(tap_steps(problem, where, sizes), g, pixels.shape)
        grad_input = store(di, out["grad_input"].dtype).reshape(image.shape)
    if out["grad_grid"]:
        grad_grid = store(slopes(problem, pixels, g, where, sizes), out["grad_grid"].dtype).reshape(grid.shape)
    return [grad_input, grad_grid]


def image_gradient(steps, g, shape):
    """Each pixel's contributions g * w (nearest: g) by output position, then by tap."""
    n, c, p = g.shape
    zero = np.zeros(c, g.dtype)
    out = np.zeros(shape, g.dtype)
    for image in range(n):
        contributions = {}
        for position in range(p):
            for inside, index, weight in steps:
                if inside[image, position]:
                    term = g[image, :, position]
                    if weight is not None:
                        term = term * weight[image, position]
                    contributions.setdefault(int(index[image, position]), []).append(term)
        for pixel, terms in contributions.items():
            out[image, :, pixel] = chunk(terms, zero)
    return out


def grid_gradient(taps, pixels, g):
    """dgrid: per axis, the differences between far and near taps, summed over channels, weighted
    by the distances of the other axes, times k."""
    axes = len(taps.sizes)
    v = {c: taps.values(pixels, c) for c in taps.corners}

    def total(far, near):
        return group(np.moveaxis(g * (v[far] - v[near]), 1, 0))

    def plane(z):
        """(N * sy + S * ty) and (W * sx + E * tx) of one z plane; z is () in two dimensions."""
        nw, ne, sw, se = (0, 0, *z), (1, 0, *z), (0, 1, *z), (1, 1, *z)
        north, south = total(ne, nw), total(se, sw)
        west, east = total(sw, nw), total(se, ne)
        dx = north * taps.near[1] + south * taps.far[1]
        dy = west * taps.near[0] + east * taps.far[0]
        return dx, dy

    if axes == 2:
        slopes = list(plane(()))
    else:
        top, bottom = plane((0,)), plane((1,))
        slopes = [t * taps.near[2] + b * taps.far[2] for t, b in zip(top, bottom, strict=True)]
        dz = np.zeros_like(slopes[0])
        for x, y in ((0, 0), (1, 0), (0, 1), (1, 1)):
            weight = (taps.far[0] if x else taps.near[0]) * (taps.far[1] if y else taps.near[1])
            dz = dz + total((x, y, 1), (x, y, 0)) * weight
        slopes.append(dz)
    any_tap = np.logical_or.reduce(list(taps.inside.values()))
    zero = g.dtype.type(0)
    return np.stack([np.where(any_tap & taps.live[a], slopes[a] * taps.k[a], zero) for a in range(axes)], axis=-1)
