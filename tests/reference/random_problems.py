"""Random problems with their inputs, for comparing an implementation with the reference."""

import math
from functools import partial

import numpy as np

from . import floats, random_embedding
from .floats import FLOATS
from .ops import GRANULARITY, OPS, arguments
from .problem import parse
from .random_quantized import codes, fill_quantized, quantized

EXTENTS = (1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 129, 257)
TINY = [0.0, -0.0, 0.0, -0.0, 1e-45, -1e-40, 6e-8, -1e-5, 1e-310]
HUGE = [np.inf, -np.inf, np.nan, 65504.0, 3e38, -1e30, 1e300]


class Draw:
    """One problem: its text, its inputs, and for an accumulating op the outputs' first values."""

    def __init__(self, rng, op=None):
        self.rng = rng
        # One NaN hides a whole sum: most problems are without the huge ones.
        self.special = rng.choice([0, 0, 0.02, 0.3])
        self.specials = TINY if rng.random() < 0.6 else TINY + HUGE
        # The ops without granularities are few: draw them as often as the others together.
        ops = sorted(PLAIN) if rng.random() < 0.5 else sorted(OPS)
        self.op = op or rng.choice(ops)
        if self.op in GRANULARITY:
            self.fields = quantized(self)
        else:
            self.fields = PLAIN[self.op](self)
        rng.shuffle(self.fields)
        self.text = " ".join([self.op, *self.fields])
        self.arguments = arguments(self.text)
        self.values = parse(self.text).values
        self.inputs = FILL.get(self.op, fill_quantized)(self)
        self.initial = None
        if self.values.get("accumulate"):
            spec = self.arguments[-1][2]
            self.initial = [self.normal(spec.dtype, spec.shape, 1.0)]

    def one_of(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def chance(self, share):
        return self.rng.random() < share

    def float_type(self):
        return self.one_of("f32", "f32", *FLOATS)

    def shape(self, low, high, limit=4000):
        """A shape of low to high dimensions; now and then one large enough for several blocks."""
        rank = int(self.rng.integers(low, high + 1))
        shape = [1] * rank
        order = [int(axis) for axis in self.rng.permutation(rank)]
        if rank and limit == 4000 and self.chance(0.02):
            shape[order.pop()] = int(self.rng.integers(20_000, 140_000))
            limit = 200_000
        for axis in order:
            left = limit // math.prod(shape)
            shape[axis] = self.extent(left)
        if rank and self.chance(0.05):
            shape[self.rng.integers(rank)] = 0
        return shape

    def extent(self, most=257):
        return int(self.rng.choice([e for e in EXTENTS if e <= most]))

    def spec(self, dtype, shape):
        return f"{dtype}[{','.join(map(str, shape))}]"

    def stored(self, values, dtype):
        with np.errstate(all="ignore"):
            if dtype in FLOATS:
                return floats.store(np.asarray(values, np.float64), dtype)
            return np.asarray(values).astype(floats.NUMPY[dtype])

    def salted(self, values):
        """Some values replaced by special ones."""
        flat = np.array(values, np.float64).reshape(-1)
        at = self.rng.random(flat.size) < self.special
        flat[at] = self.rng.choice(self.specials, at.sum())
        return flat.reshape(np.shape(values))

    def normal(self, dtype, shape, size=None):
        size = 10.0 ** self.rng.integers(-3, 3) if size is None else size
        return self.stored(self.salted(self.rng.standard_normal(shape) * size), dtype)

    def each_input(self, value):
        """value(name, spec) of each input; None of one that is absent."""
        inputs = ((name, spec) for name, direction, spec in self.arguments if direction != "out")
        return [None if spec is None else value(name, spec) for name, spec in inputs]

    def given(self, name):
        return next(spec for n, _, spec in self.arguments if n == name)


# Sampling


def sampling_attributes(d):
    mode, padding = d.one_of("bilinear", "nearest", "bicubic"), d.one_of("zeros", "border", "reflection")
    align = d.one_of("true", "false")
    return [f"mode={mode}", f"padding_mode={padding}", f"align_corners={align}"]


def sampling_shapes(d):
    axes = d.one_of(2, 2, 2, 3)
    image = d.float_type()
    grid = d.one_of(image, "f32") if image in ("f16", "bf16") else image
    n, channels = d.one_of(1, 1, 2, 3), d.one_of(1, 2, 3, 8, 15, 16, 17, 33)
    most = 9 if axes == 2 else 4
    sizes = [d.extent(most) for _ in range(axes)]
    out = [d.extent(most) for _ in range(axes)]
    if axes == 2 and d.chance(0.2):
        # Wide enough for whole vectors.
        sizes, out = [d.extent(40), d.extent(40)], [d.extent(9), d.extent(129)]
        channels = d.one_of(1, 2, 3)
    elif d.chance(0.25):
        channels, sizes, out = 1, [1, *sizes[1:]], [d.extent(40), *out[1:-1], 40]
    return image, grid, [n, channels, *sizes], [n, *out, axes]


def grid_sample(d):
    image, grid, image_shape, grid_shape = sampling_shapes(d)
    return [
        f"input={d.spec(image, image_shape)}",
        f"grid={d.spec(grid, grid_shape)}",
        *sampling_attributes(d),
    ]


def grid_sample_backward(d):
    image, grid, image_shape, grid_shape = sampling_shapes(d)
    gradient = [*image_shape[:2], *grid_shape[1:-1]]
    fields = [f"grad_output={d.spec(image, gradient)}", f"input={d.spec(image, image_shape)}"]
    fields += [f"grid={d.spec(grid, grid_shape)}", *sampling_attributes(d)]
    return fields + d.one_of([], [], ["grad_input=none"], ["grad_grid=none"])


def grid_sample_double_backward(d):
    fields = [f for f in grid_sample_backward(d) if not f.endswith("=none")]
    fields += d.one_of([], [], ["grad_grad_input=none"], ["grad_grad_grid=none"])
    return fields + d.one_of([], [], ["grad_grad_output=none"], ["grad_input=none"], ["grad_grid=none"])


def fill_sampling(d):
    sizes = d.given("input").shape[:1:-1]

    def value(name, spec):
        if name != "grid":
            return d.normal(spec.dtype, spec.shape)
        values = d.rng.uniform(-1.6, 1.6, spec.shape) * d.one_of(0.5, 1, 1, 3)
        for axis, size in enumerate(sizes):
            at = d.rng.integers(-4, 4 * size + 4, spec.shape[:-1]) / 4
            exact = at * 2 / max(size - 1, 1) - 1 if d.values["align_corners"] else (2 * at + 1) / size - 1
            pick = d.rng.random(spec.shape[:-1]) < 0.3
            values[..., axis] = np.where(pick, exact, values[..., axis])
        return d.stored(d.salted(values), spec.dtype)

    return d.each_input(value)


def affine_sizes(d):
    sizes = [d.extent(), d.extent(40)] if d.chance(0.7) else [d.extent(9), d.extent(9), d.extent(9)]
    return d.float_type(), d.one_of(0, 1, 2, 3), sizes, f"align_corners={d.one_of('true', 'false')}"


def affine_grid(d):
    dtype, n, sizes, align = affine_sizes(d)
    axes = len(sizes)
    theta, grid = d.spec(dtype, [n, axes, axes + 1]), d.spec(dtype, [n, *sizes, axes])
    return [f"theta={theta}", f"grid={grid}", align]


def affine_grid_backward(d):
    dtype, n, sizes, align = affine_sizes(d)
    return [f"grad_grid={d.spec(dtype, [n, *sizes, len(sizes)])}", align]


def fill_plain(d):
    return d.each_input(lambda _, spec: d.normal(spec.dtype, spec.shape))


# Linear


def quantized_linear(d):
    m, n, k = d.one_of(0, 1, 2, 5, d.extent(40)), d.extent(140), d.one_of(0, d.extent(), d.extent(), 3000)
    y = d.float_type()
    fields = [f"x={d.spec('s8', [m, k])}", f"weight={d.spec('s8', [n, k])}", f"y={y}"]
    fields += [f"x_scale={d.one_of('f32', *FLOATS)}", f"weight_scale={d.one_of('f32', *FLOATS)}"]
    return [*fields, f"bias={d.one_of('f32', y, 'none', *FLOATS)}"]


POINTS = ("none", "i32", "i64", "s8", "u8", *FLOATS)


def quantized_linear_per_group(d):
    m, n, k = d.one_of(0, 1, 2, 5, 40), d.extent(80), d.one_of(0, d.extent(), d.extent(), 300)
    fields = [f"x={d.spec(d.one_of('s8', 'u8'), [m, k])}", f"weight={d.spec(d.one_of('s8', 'u8'), [n, k])}"]
    fields += [f"{name}_scale={d.one_of('f32', *FLOATS)}" for name in ("x", "weight")]
    fields += [f"{name}_zero_point={d.one_of(*POINTS)}" for name in ("x", "weight")]
    y = d.float_type()
    return [
        *fields,
        f"group_size={d.one_of(32, 64, d.extent())}",
        f"bias={d.one_of('f32', y, 'none', *FLOATS)}",
        f"y={y}",
    ]


def weight_only_linear(d):
    m, n, k = d.one_of(0, 1, 2, 5), d.extent(40), d.one_of(0, d.extent(), d.extent(), 1000)
    x = d.float_type()
    fields = [f"x={d.spec(x, [m, k])}", f"weight={d.spec(d.one_of('s8', 'u8'), [n, k])}"]
    fields += [f"weight_scale={d.one_of('f32', *FLOATS)}", f"group_size={d.one_of(32, 64, d.extent())}"]
    fields += [f"weight_zero_point={d.one_of(*POINTS)}"]
    return [*fields, f"bias={d.one_of('f32', x, 'none', *FLOATS)}"]


def matmul(d):
    m, n, k = d.one_of(0, 1, 2, 5, d.extent(40)), d.extent(140), d.one_of(0, d.extent(), d.extent(), 600)
    name = d.float_type()
    if name == "f64":  # in rationals
        m, n, k = min(m, 3), min(n, 20), min(k, 50)
    batch = d.one_of([], [], [0], [1], [3])
    fields = [f"input={d.spec(name, [*batch, m, k])}", f"other={d.spec(name, [*batch, k, n])}"]
    return [*fields, f"bias={d.one_of('none', name, *FLOATS)}"]


def fill_linear(d):
    return d.each_input(
        lambda _, spec: (d.normal if spec.dtype in FLOATS else partial(codes, d))(spec.dtype, spec.shape)
    )


PLAIN = {
    **random_embedding.PLAIN,
    "grid_sample": grid_sample,
    "grid_sample_backward": grid_sample_backward,
    "grid_sample_double_backward": grid_sample_double_backward,
    "affine_grid": affine_grid,
    "affine_grid_backward": affine_grid_backward,
    "quantized_linear": quantized_linear,
    "quantized_linear_per_group": quantized_linear_per_group,
    "weight_only_linear": weight_only_linear,
    "matmul": matmul,
}
FILL = {
    **dict.fromkeys(random_embedding.PLAIN, random_embedding.fill),
    "grid_sample": fill_sampling,
    "grid_sample_backward": fill_sampling,
    "grid_sample_double_backward": fill_sampling,
    "affine_grid": fill_plain,
    "affine_grid_backward": fill_plain,
    "quantized_linear": fill_linear,
    "quantized_linear_per_group": fill_linear,
    "weight_only_linear": fill_linear,
    "matmul": fill_linear,
}
