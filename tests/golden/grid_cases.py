"""Cases of grid_sample and its gradients."""

import itertools

import numpy as np
from data import spelled, stored, uniform
from other_cases import normal
from quantize_cases import FLOATS, SIZES, join

MODES = ("bilinear", "nearest")
PADDINGS = ("zeros", "border", "reflection")
# Image and grid types.
PAIRS = [("f32", "f32"), ("f64", "f64"), ("f16", "f16"), ("bf16", "bf16"), ("f16", "f32"), ("bf16", "f32")]
CHANNELS = itertools.cycle((1, 3, 15, 16, 17, 2, 33))
IMAGES = itertools.cycle(((3, 4), (1, 1), (2, 5), (4, 1), (1, 3), (2, 2)))
OUTPUTS = itertools.cycle(((3, 3), (2, 4), (1, 5), (5, 1)))


def points(rng, dtype, shape, sizes, align):
    """Grid values: inside, at pixel centres and halves between, on borders, outside, special."""
    grid = rng.uniform(-1.3, 1.3, shape)
    kind = rng.random(shape)
    for axis, size in enumerate(sizes):
        at = rng.integers(-2, 2 * size + 2, shape[:-1]) / 2  # pixels and halves
        exact = at * 2 / max(size - 1, 1) - 1 if align else (2 * at + 1) / size - 1
        grid[..., axis] = np.where(kind[..., axis] < 0.35, exact, grid[..., axis])
    far = [5.5, -7.25, 300.0, -1e4, 6e4, 1e9, -1e9, 3e30, np.inf, -np.inf, np.nan]
    chosen = rng.choice(far + [-1.0, 1.0, 0.0, -0.0] * 2, shape)
    return stored(np.where(kind > 0.8, chosen, grid), dtype)


def grid_sample(family):
    for mode, padding, align in itertools.product(MODES, PADDINGS, (False, True)):
        attributes = f"mode={mode} padding_mode={padding} align_corners={'true' if align else 'false'}"
        for image, grid in PAIRS:
            channels, sizes, out = next(CHANNELS), next(IMAGES), next(OUTPUTS)
            one(family, image, grid, (1 + channels % 2, channels, *sizes), out, attributes, align)
        for sizes in ((1, 1), (1, 4), (3, 1), (5, 5)):
            one(family, "f32", "f32", (1, 2, *sizes), (4, 5), attributes, align, special=0.06)
        crowded(family, attributes)
        edges(family, attributes)
    for channels in (1, 3, 15, 16, 17, 33, 64):
        one(family, "f32", "f32", (1, channels, 3, 3), (2, 3), "", False)
    for shape, out in (((0, 2, 3, 3), (2, 2)), ((1, 0, 3, 3), (2, 2)), ((1, 2, 3, 3), (0, 2))):
        one(family, "f32", "f32", shape, out, "", False)
    for width in SIZES:
        one(family, "f32", "f32", (1, 1, 2, 7), (1, width), "padding_mode=reflection", False)


def grid_sample_bicubic(family):
    for padding, align in itertools.product(PADDINGS, (False, True)):
        attributes = f"mode=bicubic padding_mode={padding} align_corners={'true' if align else 'false'}"
        for image, grid in PAIRS:
            channels, sizes, out = next(CHANNELS), next(IMAGES), next(OUTPUTS)
            one(family, image, grid, (1 + channels % 2, channels, *sizes), out, attributes, align)
        for channels, sizes in ((2, (1, 1)), (1, (1, 4)), (3, (3, 1)), (1, (5, 5))):
            one(family, "f32", "f32", (1, channels, *sizes), (3, 11), attributes, align, special=0.03)
        for channels, sizes in ((5, (4, 6)), (17, (6, 9))):
            one(family, "f32", "f32", (1, channels, *sizes), (3, 11), attributes, align)
        crowded(family, attributes)
        edges(family, attributes)


def one(family, image, grid, shape, out, attributes, align, special=0.0):
    """The forward and the backward of one problem."""
    rng = family.rng()
    n, channels, *sizes = shape
    where = points(rng, grid, (n, *out, len(sizes)), sizes[::-1], align)
    pixels = normal(rng, image, shape, special)
    head = f"input={spelled(image, shape)} grid={spelled(grid, where.shape)}"
    family.add(join("grid_sample", head, attributes), [pixels, where])
    dy = normal(rng, image, (n, channels, *out), special / 2)
    text = f"grid_sample_backward grad_output={spelled(image, dy.shape)} {head}"
    which = ("", "grad_grid=none", "", "grad_input=none")[len(family.cases) // 2 % 4]
    family.add(join(text, which, attributes), [dy, pixels, where])


def edges(family, attributes):
    """Grid values just beside -1, 1 and 0, and reflections around 2**22 and 2**23 flips."""
    for dtype in FLOATS:
        ulp = {"f32": 2.0**-24, "f64": 2.0**-53, "f16": 2.0**-11, "bf16": 2.0**-8}[dtype]
        steps = np.array([-4, -2, -1, -0.5, 0, 0.5, 1, 2, 4]) * ulp
        near = np.concatenate([steps - 1, steps + 1, [ulp**2, -(ulp**2)]])
        many = np.array([2.0**22, 2.0**23, 2.0**24, 3 * 2.0**24])
        flips = np.concatenate([many + d for d in (-3, -2, -1, -0.5, 0, 0.5, 1, 2, 3)])
        for size in {"f32": (2, 4), "f64": (4,)}.get(dtype, (2,)):
            folded = dtype in ("f32", "f64") and "reflection" in attributes
            values = np.concatenate([near, flips, -flips]) if folded else near
            rng = family.rng()
            where = np.full((1, 1, len(values), 2), 0.125)
            where[0, 0, :, 0] = values
            pixels = normal(rng, dtype, (1, 1, 2, size))
            grid = stored(where, dtype)
            shape = (1, 1, 1, len(values))
            head = f"input={spelled(dtype, (1, 1, 2, size))} grid={spelled(dtype, where.shape)}"
            family.add(join("grid_sample", head, attributes), [pixels, grid])
            text = f"grid_sample_backward grad_output={spelled(dtype, shape)} {head}"
            family.add(join(text, attributes), [normal(rng, dtype, shape), pixels, grid])


def crowded(family, attributes):
    """More than 256 and more than 512 contributions to one pixel."""
    for dtype, shape, out in (
        ("f32", (1, 2, 1, 1), (1, 300)),
        ("f32", (1, 1, 2, 1), (30, 40)),
        ("f16", (2, 1, 1, 2), (7, 100)),
    ):
        seed = 1000 * len(family.cases) + 1
        pixels = uniform(dtype, shape, seed)
        where = uniform(dtype, (shape[0], *out, 2), seed + 1, exponent=-7 if dtype == "f16" else -23)
        dy = uniform(dtype, (*shape[:2], *out), seed + 2)
        text = f"grid_sample_backward grad_output={spelled(dtype, (*shape[:2], *out))}"
        text += f" input={spelled(dtype, shape)} grid={spelled(dtype, (shape[0], *out, 2))} grad_grid=none"
        family.add(join(text, attributes), [dy, pixels, where])


def grid_sample_3d(family):
    for mode, padding, align in itertools.product(MODES, PADDINGS, (False, True)):
        attributes = f"mode={mode} padding_mode={padding} align_corners={'true' if align else 'false'}"
        for image, grid in PAIRS[:4]:
            one(family, image, grid, (1, next(CHANNELS) % 5 + 1, 2, 3, 2), (2, 1, 3), attributes, align)
        one(family, "f32", "f32", (2, 17, 3, 1, 2), (1, 2, 2), attributes, align)


def grid_sample_tricubic(family):
    for padding, align in itertools.product(PADDINGS, (False, True)):
        attributes = f"mode=bicubic padding_mode={padding} align_corners={'true' if align else 'false'}"
        for _ in range(3):
            (image, grid), channels = next(TYPES), next(CHANNELS) % 5 + 1
            one(family, image, grid, (1, channels, 2, 3, 2), (2, 1, 3), attributes, align)
        one(family, "f32", "f32", (1, 17, 3, 1, 5), (1, 2, 2), attributes, align)
        one(family, "f32", "f32", (2, 1, 4, 2, 1), (2, 1, 4), attributes, align, special=0.04)
        for _ in range(2):
            (image, grid), channels = next(TYPES), next(CHANNELS) % 5 + 1
            double(family, image, grid, (1, channels, 2, 3, 2), (2, 1, 3), attributes, align)
        double(family, "f32", "f32", (1, 17, 1, 4, 3), (1, 2, 2), attributes, align)
        double(family, "f32", "f32", (2, 1, 1, 4, 5), (1, 2, 3), attributes, align, special=0.04)
    for padding in PADDINGS[1:]:  # more blocks of positions than one, more chunks of contributions
        attributes = f"mode=bicubic padding_mode={padding}"
        one(family, "f32", "f32", (1, 2, 1, 1, 2), (1, 2, 70), attributes, False)
        double(family, "f32", "f32", (1, 1, 2, 1, 1), (1, 2, 70), attributes, False)
    for shape, out in (((0, 2, 3, 3, 3), (2, 2, 1)), ((1, 0, 3, 3, 3), (2, 2, 1)), ((1, 2, 3, 3, 3), (0, 2, 1))):
        one(family, "f32", "f32", shape, out, "mode=bicubic", False)
        double(family, "f32", "f32", shape, out, "mode=bicubic", False)


TYPES = itertools.cycle(PAIRS)
ABSENT = itertools.cycle(
    ("", "grad_grad_input=none", "", "grad_grad_grid=none", "grad_input=none grad_grid=none", "grad_grad_output=none")
)


def grid_sample_double(family):
    for mode, padding, align in itertools.product(("bilinear", "bicubic", "nearest"), PADDINGS, (False, True)):
        attributes = f"mode={mode} padding_mode={padding} align_corners={'true' if align else 'false'}"
        for _ in range(4):
            (image, grid), channels, sizes, out = next(TYPES), next(CHANNELS), next(IMAGES), next(OUTPUTS)
            double(family, image, grid, (1, channels, *sizes), out, attributes, align)
        for sizes in ((1, 1), (1, 4), (5, 5)):
            double(family, "f32", "f32", (2, 1, *sizes), (1, 5), attributes, align, special=0.04)
        if mode != "bicubic":
            for image, grid in (next(TYPES), next(TYPES)):
                double(family, image, grid, (1, next(CHANNELS) % 5 + 1, 2, 3, 2), (2, 1, 3), attributes, align)
            double(family, "f32", "f32", (1, 17, 3, 1, 2), (1, 2, 2), attributes, align)
    for mode in ("bilinear", "bicubic"):  # more than 512 contributions to a pixel
        double(family, "f32", "f32", (1, 1, 1, 2), (1, 600), f"mode={mode} padding_mode=reflection", False)
    for shape, out in (((0, 2, 3, 3), (2, 2)), ((1, 0, 3, 3), (2, 2)), ((1, 2, 3, 3), (0, 2))):
        double(family, "f32", "f32", shape, out, "", False)


def double(family, image, grid, shape, out, attributes, align, special=0.0):
    rng = family.rng()
    n, channels, *sizes = shape
    where = points(rng, grid, (n, *out, len(sizes)), sizes[::-1], align)
    pixels, u = (normal(rng, image, shape, special) for _ in range(2))
    dy, v = normal(rng, image, (n, channels, *out), special / 2), normal(rng, grid, where.shape, special)
    absent = next(ABSENT)
    inputs = [None if f"{name}=none" in absent else t for name, t in (("grad_grad_input", u), ("grad_grad_grid", v))]
    head = f"input={spelled(image, shape)} grid={spelled(grid, where.shape)}"
    text = f"grid_sample_double_backward grad_output={spelled(image, dy.shape)} {head}"
    family.add(join(text, absent, attributes), [dy, pixels, where, *inputs])
