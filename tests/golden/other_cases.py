"""Cases of sections 5 to 8: embedding, affine_grid, quantized_linear, weight_only_linear, matmul."""

import itertools

import numpy as np
from data import integers, salted, spelled, stored, uniform
from quantize_cases import FLOATS, SIZES, join


def normal(rng, dtype, shape, special=0.0):
    return stored(salted(rng.standard_normal(shape), dtype, rng, special), dtype)


def embedding(family):
    for dtype, index in itertools.product(FLOATS, ("i32", "i64")):
        for rows, width, shape in ((5, 3, (4,)), (6, 9, (2, 3)), (1, 1, ()), (4, 2, (0,))):
            rng = family.rng()
            weight = normal(rng, dtype, (rows, width), 0.2)
            kept = stored(rng.integers(0, rows, shape), index)
            wild = stored(rng.integers(-3, rows + 3, shape), index)
            head = f"weight={spelled(dtype, (rows, width))} indices={spelled(index, shape)}"
            family.add(f"embedding {head}", [weight, kept])
            family.add(f"embedding {head} bounds=skip", [weight, wild])
            backward(family, dtype, index, rows, width, shape)
            renorm(family, dtype, index, rows, width, kept)
    for width in SIZES:
        rng = family.rng()
        weight = normal(rng, "f32", (3, width))
        for norm in ("1", "2", "inf"):
            text = f"embedding_renorm weight=f32[3,{width}] indices=i64[2] max_norm=1 norm_type={norm}"
            family.add(text, [weight, stored([2, 0], "i64")])
    special = [[np.nan, 1, 2], [np.inf, 1, 0], [0, -0.0, 0], [1e-40, 2e-40, -1e-40], [2e19, 1, 1], [3, 4, 0]]
    for norm, limit in itertools.product(("1", "2", "inf"), ("0", "0.5", "5")):
        text = f"embedding_renorm weight=f32[6,3] indices=i64[6] max_norm={limit} norm_type={norm}"
        family.add(text, [stored(special, "f32"), stored([5, 4, 3, 2, 1, 0], "i64")])
    for count, rows, dtype in ((256, 1, "f32"), (257, 1, "f32"), (513, 1, "f64"), (700, 1, "f16")):
        many(family, count, rows, 5, dtype)
    for count, rows, dtype in ((1300, 2, "f32"), (1300, 2, "bf16"), (5000, 3, "f32"), (900, 40, "f16")):
        many(family, count, rows, 3, dtype)
    for width in SIZES:
        many(family, 20, 4, width, "f32")


def backward(family, dtype, index, rows, width, shape):
    options = [
        "",
        "padding_idx=0",
        "scale_grad_by_freq=true",
        "accumulate=true",
        f"padding_idx={rows - 1} accumulate=true scale_grad_by_freq=true",
    ]
    for option in options:
        rng = family.rng()
        dy = normal(rng, dtype, (*shape, width), 0.03)
        wild = stored(rng.integers(-1, rows + 1, shape), index)
        first = normal(rng, dtype, (rows, width), 0.2)
        text = f"embedding_backward grad_output={spelled(dtype, (*shape, width))}"
        text += f" indices={spelled(index, shape)} grad_weight={spelled(dtype, (rows, width))}"
        family.add(join(text, option), [dy, wild], initial=[first] if "accumulate" in option else None)


def renorm(family, dtype, index, rows, width, indices):
    rng = family.rng()
    weight = normal(rng, dtype, (rows, width))
    text = f"weight={spelled(dtype, (rows, width))} indices={spelled(index, indices.shape)}"
    for norm in ("", "norm_type=1", "norm_type=inf"):
        family.add(join("embedding_renorm", text, "max_norm=0.75", norm), [weight, indices])


def many(family, count, rows, width, dtype):
    """Long columns of contributions to few rows."""
    seed = 1000 * len(family.cases) + 1
    dy = uniform(dtype, (count, width), seed)
    indices = integers("i64", (count,), seed + 1, 0, rows)
    text = f"embedding_backward grad_output={spelled(dtype, (count, width))} indices=i64[{count}]"
    for option in ("", "scale_grad_by_freq=true"):
        text_rows = f"grad_weight={spelled(dtype, (rows, width))}"
        family.add(join(text, text_rows, option), [dy, indices])


def affine_grid(family):
    sizes = ((3, 4), (1, 1), (1, 5), (6, 1), (2, 2), (1, 65))
    for dtype, align in itertools.product(FLOATS, (False, True)):
        attributes = f"align_corners={'true' if align else 'false'}"
        for h, w in sizes:
            affine_pair(family, dtype, 1 + h % 2, h, w, attributes, 0.1)
    for width in SIZES:
        affine_pair(family, "f32", 1, 1, width, "", 0)
    for dtype, h, w in (
        ("f32", 28, 28),
        ("f64", 33, 31),
        ("f16", 28, 28),
        ("f32", 260, 260),
        ("bf16", 130, 512),
    ):
        shape = (1, h, w, 2)
        dgrid = uniform(dtype, shape, 1000 * len(family.cases) + 1)
        family.add(f"affine_grid_backward grad_grid={spelled(dtype, shape)}", [dgrid])
    theta = uniform("f32", (2, 2, 3), 77, exponent=-23)
    family.add("affine_grid theta=f32[2,2,3] grid=f32[2,64,48,2]", [theta])


def affine_pair(family, dtype, n, h, w, attributes, special):
    rng = family.rng()
    grid = spelled(dtype, (n, h, w, 2))
    theta = normal(rng, dtype, (n, 2, 3), special)
    text = f"affine_grid theta={spelled(dtype, (n, 2, 3))} grid={grid}"
    family.add(join(text, attributes), [theta])
    dgrid = normal(rng, dtype, (n, h, w, 2), special / 5)
    family.add(join(f"affine_grid_backward grad_grid={grid}", attributes), [dgrid])


def quantized_linear(family):
    widths = itertools.cycle((1, 2, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 128, 257, 0))
    shapes = [(1, 1), (2, 3), (3, 17), (4, 4), (1, 33), (7, 5), (0, 3)]
    for (m, n), y in itertools.product(shapes, ("f32", "f32", "f32")):
        linear(family, m, n, next(widths), y, "f32", "f32")
    for y, parameter in itertools.product(FLOATS, ("f32", "same")):
        linear(family, 3, 5, 19, y, y if parameter == "same" else "f32", "f32" if y != "f64" else y)
    for special in (0.0, -0.0, -1.5, np.inf, np.nan, 1e-42, 3e38):
        for bias in ("f32", "none"):
            x, w = stored([[1, -2], [0, 0], [127, 127]], "s8"), stored([[3, 4], [2, 1], [0, 0]], "s8")
            text = f"quantized_linear x=s8[3,2] weight=s8[3,2] bias={bias}"
            scales = stored([special, 0.5, 2], "f32"), stored([1, -0.25, special], "f32")
            values = stored([0, -0.0, 1e30], "f32") if bias == "f32" else None
            family.add(text, [x, scales[0], w, scales[1], values])
    # Above 2**24 an accumulator rounds when it becomes an f32; above 2**31 an int32 would wrap.
    for m, n, k, low, count in ((2, 3, 3000, -128, 256), (2, 2, 5000, 100, 28), (1, 2, 140000, -128, 4)):
        seed = 1000 * len(family.cases) + 1
        x, w = integers("s8", (m, k), seed, low, count), integers("s8", (n, k), seed + 1, low, count)
        one_row, one_column = stored(np.full(m, 0.01), "f32"), stored(np.full(n, 0.3), "f32")
        text = f"quantized_linear x=s8[{m},{k}] weight=s8[{n},{k}]"
        family.add(text, [x, one_row, w, one_column, stored(np.arange(n), "f32")])


def linear(family, m, n, k, y, scale, bias):
    rng = family.rng()
    x, w = (stored(rng.integers(-128, 128, (rows, k)), "s8") for rows in (m, n))
    sx, sw = (stored(rng.uniform(0.001, 0.1, rows), scale) for rows in (m, n))
    kinds = f"x_scale={scale} weight_scale={scale}"
    for b in (bias, "none"):
        values = None if b == "none" else normal(rng, b, (n,))
        text = f"quantized_linear x=s8[{m},{k}] {kinds} weight=s8[{n},{k}] bias={b} y={y}"
        family.add(text, [x, sx, w, sw, values])


def quantized_linear_per_group(family):
    codes = itertools.cycle(itertools.product((("s8", -128), ("u8", 0)), repeat=2))
    points = itertools.cycle(itertools.product(("none", "i32", "f32", "u8"), ("none", "s8", "f16", "i64", "u8")))
    for name, (m, n, k, size) in itertools.product(
        FLOATS, ((2, 3, 70, 32), (5, 9, 33, 40), (9, 17, 64, 16), (1, 4, 7, 1))
    ):
        coded(family, name, (m, n, k), size, *next(codes), *next(points))
    for special in (0.0, -0.0, -1.5, np.inf, np.nan, 1e-42):
        x, w = stored([[1, 2, 0], [0, 200, 255]], "u8"), stored([[1, -2, 0], [0, 127, -128]], "s8")
        text = "quantized_linear_per_group x=u8[2,3] x_zero_point=f16 weight=s8[2,3] weight_zero_point=f32 bias=none group_size=2"
        scales = stored([special, 0.5], "f32"), stored([[special, 1], [1, special]], "f32")
        zeros = stored([np.nan, 1e4], "f16"), stored([[0.5, -np.inf], [np.nan, -1.5]], "f32")
        family.add(text, [x, scales[0], zeros[0], w, scales[1], zeros[1], None])
    # Sums that exceed 32 bits, and integers beyond all codes.
    coded(family, "f32", (1, 2, 140000), 100000, ("u8", 250), ("s8", -128), "none", "none")
    coded(family, "f64", (2, 2, 5), 3, ("s8", -128), ("u8", 0), "i64", "i64", 2**40)
    for k in (0, 1):
        coded(family, "f32", (2, 3, k), 4, ("s8", -128), ("s8", -128), "none", "none")


def coded(family, name, extents, size, x_code, code, x_point, point, apart=1):
    rng = family.rng()
    m, n, k = extents
    groups = (n, -(-k // size))
    (x_type, x_low), (dtype, low) = x_code, code
    x = integers(x_type, (m, k), 1000 * len(family.cases) + 1, x_low, 256 if x_low <= 0 else 6)
    w = integers(dtype, (n, k), 1000 * len(family.cases) + 2, low, 256 if k < 1000 else 5)
    scales = (stored(rng.uniform(0.001, 0.1, shape), "f32") for shape in (m, groups))
    zeros = (
        None if p == "none" else stored(rng.integers(0 if p == "u8" else -20, 20, shape) * apart, p)
        for p, shape in ((x_point, m), (point, groups))
    )
    text = f"quantized_linear_per_group x={x_type}[{m},{k}] x_zero_point={x_point} weight={dtype}[{n},{k}]"
    text += f" weight_zero_point={point} group_size={size} bias={name} y={name}"
    sx, sw = scales
    zx, zw = zeros
    family.add(text, [x, sx, zx, w, sw, zw, normal(rng, name, (n,))])


def weight_only_linear(family):
    points, codes = itertools.cycle(("none", "i32", "f32", "s8")), itertools.cycle((("s8", -128), ("u8", 0)))
    for name, (k, size) in itertools.product(FLOATS, ((70, 32), (33, 40))):
        seed = 1000 * len(family.cases) + 1
        weighed(family, name, (2, 3, k), size, next(codes), next(points), uniform(name, (2, k), seed))
    for special in (0.0, -1.5, np.inf, np.nan, 1e-42):
        w, s = stored([[1, -2, 0], [0, 127, -128]], "s8"), stored([[special, 1], [1, special]], "f32")
        text = "weight_only_linear x=f32[1,3] weight=s8[2,3] weight_zero_point=f16 bias=none group_size=2"
        z = stored([[0.5, 1e4], [np.nan, -1.5]], "f16")
        family.add(text, [stored([[1, -0.0, 2]], "f32"), w, s, z, None])
    # More than a block of a Stripe sum, and weights that meet it in two groups.
    x = uniform("f32", (1, 65700), 1)
    weighed(family, "f32", (1, 1, 65700), 40000, ("s8", -128), "none", x)


def weighed(family, name, extents, size, code, point, x):
    rng = family.rng()
    m, n, k = extents
    dtype, low = code
    groups = (n, -(-k // size))
    w = integers(dtype, (n, k), 1000 * len(family.cases) + 2, low, 256)
    s, b = stored(rng.uniform(0.001, 0.1, groups), "f32"), normal(rng, name, (n,))
    z = None if point == "none" else stored(rng.integers(-20, 20, groups), point)
    text = f"weight_only_linear x={spelled(name, (m, k))} weight={spelled(dtype, (n, k))} group_size={size}"
    family.add(f"{text} weight_zero_point={point} bias={name}", [x, w, s, z, b])


def matmul(family):
    widths = itertools.cycle((1, 7, 8, 15, 16, 17, 32, 33))
    shapes = ((1, 1), (2, 3), (5, 7), (6, 4), (12, 2), (13, 5), (3, 0), (4, 33))
    for (m, k), name in itertools.product(shapes, FLOATS):
        product(family, name, [], m, k, next(widths), "none")
    for name, bias in itertools.product(FLOATS, ("same", "f32", "f64")):
        product(family, name, [2], 3, 9, 5, name if bias == "same" else bias)
    for special in (np.inf, -0.0, np.nan, 1e-42, 3e38, 2.0**-75):
        a, b = (
            stored([[1, special, 2], [-0.0, 0, -0.0]], "f32"),
            stored([[special, 1], [1, -special], [0.5, special]], "f32"),
        )
        family.add("matmul input=f32[2,3] other=f32[3,2] bias=f32", [a, b, stored([-0.0, special], "f32")])
    # What two roundings would get wrong: sums that lie beside a tie by less than float64 shows.
    tie = stored([[1 + 2.0**-23, 2.0**-24, 2.0**-60], [1, 2.0**-24, -(2.0**-70)], [1, -(2.0**-25), 2.0**-90]], "f32")
    family.add("matmul input=f32[3,3] other=f32[3,1]", [tie, stored([[1], [1], [1]], "f32"), None])
    near = stored([[1 + 2.0**-12, 1]], "f32"), stored([[2.0**-12 * (1 + 2.0**-12)], [1]], "f32")
    family.add("matmul input=f32[1,2] other=f32[2,1]", [*near, None])
    for m, k, n in ((150, 260, 40), (3, 600, 70)):
        seed = 1000 * len(family.cases) + 1
        for name in ("f32", "bf16"):
            text = f"matmul input={name}[{m},{k}] other={name}[{k},{n}]"
            family.add(text, [uniform(name, (m, k), seed), uniform(name, (k, n), seed + 1), None])


def product(family, name, batch, m, k, n, bias):
    rng = family.rng()
    a, b = normal(rng, name, (*batch, m, k)), normal(rng, name, (*batch, k, n))
    text = f"matmul input={spelled(name, (*batch, m, k))} other={spelled(name, (*batch, k, n))} bias={bias}"
    family.add(text, [a, b, None if bias == "none" else normal(rng, bias, (n,))])
