"""Cases of section 5's bags of embeddings."""

import itertools

import numpy as np
from data import integers, reference, spelled, stored, uniform
from other_cases import normal
from quantize_cases import FLOATS, SIZES, join

MODES = ("sum", "mean", "max", "weighted")
# The bags of 9 positions: offsets, or the shape of two-dimensional indices.
BAGS = {
    "": [0, 3, 3, 8],  # with an empty bag and a last one of one position
    "include_last_offset=true": [0, 0, 4, 7],  # the last two positions are in no bag
    "rows": (3, 3),
}


def embedding_bag(family):
    index = itertools.cycle(("i32", "i64", "i64", "i32", "i32"))
    option = itertools.cycle(("", "padding_idx=1", "", "padding_idx=1", "padding_idx=1"))
    for dtype, mode, (kind, bags) in itertools.product(FLOATS, MODES, BAGS.items()):
        three(family, dtype, next(index), mode, kind, bags, next(option))
    for count, dtype in itertools.product((256, 257, 513, 1100), ("f32", "bf16")):
        crowded(family, dtype, count)
    for width in SIZES:
        wide(family, width)
    equals(family)


def three(family, dtype, index, mode, kind, bags, option):
    """Forward, backward, and with weights their gradient: 4 rows of 3 columns."""
    rng = family.rng()
    weighted, word = mode == "weighted", "sum" if mode == "weighted" else mode
    if kind == "rows":
        shape, offsets, count, keys = bags, None, bags[0], option
    else:
        shape, offsets = (9,), stored(bags, "i64" if index == "i32" else "i32")
        count, keys = len(bags) - bool(kind), join(kind, option).strip()
        keys = join(f"offsets={spelled(reference.dtype_name(offsets), (len(bags),))}", keys)
    factors = normal(rng, dtype, shape, 0.1) if weighted else None
    weight, dy = normal(rng, dtype, (4, 3), 0.15), normal(rng, dtype, (count, 3), 0.05)
    kept, wild = stored(rng.integers(0, 4, shape), index), stored(rng.integers(-1, 6, shape), index)
    head = f"weight={spelled(dtype, (4, 3))} indices={spelled(index, shape)}"
    more = f"mode={word}" + (f" per_sample_weights={dtype}" if weighted else "")
    noted = " chosen=i64" if mode == "max" else ""
    family.add(join("embedding_bag", head, keys, more + noted), [weight, kept, offsets, factors])
    skip = join("embedding_bag", head, keys, more + noted, "bounds=skip")
    family.add(skip, [weight, wild, offsets, factors])
    chosen = reference.run(skip, [weight, wild, offsets, factors])[1]
    text = f"embedding_bag_backward grad_output={spelled(dtype, (count, 3))} indices={spelled(index, shape)}"
    text = join(text, keys, f"grad_weight={spelled(dtype, (4, 3))}", more + noted)
    inputs = [dy, wild, offsets, factors, chosen]
    family.add(text, inputs)
    family.add(join(text, "accumulate=true"), inputs, initial=[normal(rng, dtype, (4, 3), 0.2)])
    if mode != "max":
        family.add(join(text, "scale_grad_by_freq=true"), inputs)
    if weighted:
        text = f"embedding_bag_per_sample_weights_backward grad_output={spelled(dtype, (count, 3))} {head}"
        family.add(join(text, keys), [dy, weight, wild, offsets])


def crowded(family, dtype, count):
    """One bag of many positions, and one row that many positions name."""
    seed = 1000 * len(family.cases) + 1
    weight, dy = uniform(dtype, (5, 3), seed), uniform(dtype, (2, 3), seed + 1)
    factors, index = uniform(dtype, (count,), seed + 2), integers("i64", (count,), seed + 3, 0, 2)
    offsets = stored([0, 1], "i64")
    head, bags = f"indices=i64[{count}]", "offsets=i64[2]"
    for more, psw in (("mode=sum", None), ("", None), (f"mode=sum per_sample_weights={dtype}", factors)):
        family.add(join(f"embedding_bag weight={dtype}[5,3]", head, bags, more), [weight, index, offsets, psw])
        text = join(f"embedding_bag_backward grad_output={dtype}[2,3]", head, bags, f"grad_weight={dtype}[5,3]", more)
        family.add(text, [dy, index, offsets, psw, None])


def wide(family, width):
    seed = 1000 * len(family.cases) + 1
    weight, dy = uniform("f32", (6, width), seed), uniform("f32", (2, width), seed + 1)
    index, factors = integers("i64", (2, 9), seed + 2, 0, 6), uniform("f32", (2, 9), seed + 3)
    for mode in ("sum", "mean", "max"):
        family.add(f"embedding_bag weight=f32[6,{width}] indices=i64[2,9] mode={mode}", [weight, index, None, None])
    text = f"embedding_bag_backward grad_output=f32[2,{width}] indices=i64[2,9] grad_weight=f32[6,{width}]"
    family.add(text, [dy, index, None, None, None])
    family.add(f"{text} mode=sum per_sample_weights=f32", [dy, index, None, factors, None])
    text = (
        f"embedding_bag_per_sample_weights_backward grad_output=f32[2,{width}] weight=f32[6,{width}] indices=i64[2,9]"
    )
    family.add(text, [dy, weight, index, None])


def weight_only_embedding_bag(family):
    """Bags of codes in groups of columns: rows of 5 columns, then rows of several vectors."""
    codes, points = itertools.cycle(("s8", "u8", "u8")), itertools.cycle(("none", "i32", "f32", "u8", "bf16"))
    for dtype, mode, (kind, bags) in itertools.product(FLOATS, MODES, BAGS.items()):
        rng = family.rng()
        shape, offsets, keys = (9,), stored(bags, "i64"), join(f"offsets=i64[{len(bags)}]", kind)
        if kind == "rows":
            shape, offsets, keys = bags, None, ""
        factors = normal(rng, dtype, shape, 0.1) if mode == "weighted" else None
        more = f"mode=sum per_sample_weights={dtype}" if mode == "weighted" else f"mode={mode}"
        given = [stored(rng.integers(-1, 5, shape), "i64"), offsets, factors]
        text = join(f"indices={spelled('i64', shape)}", keys, more, f"bounds=skip y={dtype} group_size=2")
        add_bags_of_codes(family, rng, text, (4, 5), 2, next(codes), next(points), given)
    for dtype, width, mode in itertools.product(("f32", "bf16"), (64, 100), ("sum", "max")):
        index = integers("i64", (2, 300), 1000 * len(family.cases) + 1, 0, 6)
        text = f"indices=i64[2,300] mode={mode} y={dtype} group_size=32"
        add_bags_of_codes(family, family.rng(), text, (6, width), 32, next(codes), next(points), [index, None, None])


def add_bags_of_codes(family, rng, text, shape, group_size, code, point, bags):
    """A case with the scales and zero points of a table of codes drawn beside it."""
    rows, width = shape
    groups = (rows, -(-width // group_size))
    weight = integers(code, shape, 1000 * len(family.cases) + 2, -128 if code == "s8" else 0, 256)
    scale = stored(rng.uniform(0.001, 0.1, groups), "f32")
    zero = None if point == "none" else stored(rng.integers(0, 20, groups), point)
    text = join(f"weight_only_embedding_bag weight={spelled(code, shape)} weight_zero_point={point}", text)
    family.add(text, [weight, *bags, scale, zero])


def equals(family):
    """max of equals, of both zeros, of infinities and of NaN."""
    rows = [[0.0, -0.0, -np.inf, 2], [-0.0, 0.0, -np.inf, np.nan], [-1, -1, np.inf, np.nan], [0.0, 0.0, np.nan, 3]]
    for index in ([0, 1, 2], [1, 0, 3], [0, 0, 1], [3, 2, 1], [1, 1, 2], [2, 2, 0]):
        inputs = [stored(rows, "f32"), stored([index], "i64"), None, None]
        family.add("embedding_bag weight=f32[4,4] indices=i64[1,3] chosen=i64 mode=max", inputs)
