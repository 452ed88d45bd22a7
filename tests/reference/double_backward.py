"""The gradients of grid_sample's gradients (contract, section 6), shapes as in grid_sample.py."""

import numpy as np

from . import bicubic
from .floats import compute_type, dtype_name, store
from .grid_sample import Taps, flat_grid, flat_image, image_gradient, mode_of, sample, slopes
from .sums import group


def grid_sample_double_backward(problem, grad_output, image, grid, of_input, of_grid):
    ct = compute_type(dtype_name(image))
    sizes = image.shape[:1:-1]
    pixels, g, where = flat_image(image, ct), flat_image(grad_output, ct), flat_grid(grid, ct)
    u = None if of_input is None else flat_image(of_input, ct)
    v = None if of_grid is None else flat_grid(of_grid, ct)
    rule = None
    if mode_of(problem) != "nearest":
        rule = {"bilinear": Linear, "bicubic": Cubic}[mode_of(problem)](where, sizes, problem)

    def by_output():
        y = np.zeros(g.shape, ct)
        if u is not None:
            y = y + sample(problem, u, where, sizes)
        if v is not None:
            one = np.ones((g.shape[0], 1, g.shape[2]), ct)
            for c in range(g.shape[1]):
                of_channel = slopes(problem, pixels[:, c : c + 1], one, where, sizes)
                for axis in range(len(sizes)):
                    y[:, c] = y[:, c] + of_channel[..., axis] * v[..., axis]
        return y

    def by_input():
        steps = [] if rule is None or v is None else list(rule.steps(rule.shifts(v)))
        return image_gradient(steps, g, pixels.shape)

    def by_grid():
        d = np.zeros(where.shape, ct)
        if u is not None:
            d = slopes(problem, u, g, where, sizes)
        if v is None or rule is None:
            return d
        q, any_tap = rule.shifts(v), rule.any_tap()
        for axis in range(len(sizes)):
            total = np.zeros(where.shape[:2], ct)
            for other in range(len(sizes)):
                h = rule.second(pixels, g, min(axis, other), max(axis, other))
                if h is not None:
                    total = np.where(rule.live[other], total + q[other] * h, total)
            moved = d[..., axis] + total * rule.k[axis]
            d[..., axis] = np.where(any_tap & rule.live[axis], moved, d[..., axis])
        return d

    names = {
        "grad_grad_output": (by_output, grad_output),
        "grad_input": (by_input, image),
        "grad_grid": (by_grid, grid),
    }
    return [
        store(f(), problem.outputs[name].dtype).reshape(like.shape) if problem.outputs[name] else None
        for name, (f, like) in names.items()
    ]


class Rule:
    """What the modes have in common: k and where it counts, for each axis."""

    def shifts(self, v):
        return [np.where(live, v[..., a] * self.k[a], k.dtype.type(0)) for a, (live, k) in self.axes()]

    def axes(self):
        return enumerate(zip(self.live, self.k, strict=True))

    def along(self, q, derivatives):
        """The derivative of a weight along q, from its derivatives along the axes."""
        total = np.zeros_like(q[0])
        for shift, derivative in zip(q, derivatives, strict=True):
            total = total + shift * derivative
        return total


class Linear(Rule):
    def __init__(self, where, sizes, problem):
        self.taps = Taps(where, sizes, problem)
        self.k, self.live = self.taps.k, self.taps.live

    def any_tap(self):
        return np.logical_or.reduce(list(self.taps.inside.values()))

    def derivative(self, corner, axis):
        weight = None
        for other, side in enumerate(corner):
            if other != axis:
                distance = self.taps.far[other] if side else self.taps.near[other]
                weight = distance if weight is None else weight * distance
        return weight if corner[axis] else -weight

    def steps(self, q):
        for corner in self.taps.corners:
            derivatives = [self.derivative(corner, axis) for axis in range(len(q))]
            yield self.taps.inside[corner], self.taps.index[corner], self.along(q, derivatives)

    def second(self, pixels, g, a, b):
        if a == b:
            return None
        third = ({0, 1, 2} - {a, b}).pop() if len(self.k) == 3 else None

        def total(side):
            def value(far_a, far_b):
                corner = [side] * len(self.k)
                corner[a], corner[b] = far_a, far_b
                return self.taps.values(pixels, tuple(corner))

            return group(np.moveaxis(g * ((value(1, 1) - value(0, 1)) - (value(1, 0) - value(0, 0))), 1, 0))

        if third is None:
            return total(0)
        return total(0) * self.taps.near[third] + total(1) * self.taps.far[third]


class Cubic(Rule):
    def __init__(self, where, sizes, problem):
        self.taps = bicubic.Taps(where, sizes, problem)
        self.k, self.live = [a.k for a in self.taps.axes], [a.live for a in self.taps.axes]

    def any_tap(self):
        return self.taps.any_tap()

    def steps(self, q):
        for number in self.taps.numbers:
            derivatives = [self.taps.weight(number, axis) for axis in self.taps.axes]
            yield *self.taps.tap(number), self.along(q, derivatives)

    def second(self, pixels, g, a, b):
        factors = [(axis.weight, axis.slope, axis.bend)[(i == a) + (i == b)] for i, axis in enumerate(self.taps.axes)]
        return group(np.moveaxis(g * self.taps.reduce(pixels, factors), 1, 0))
