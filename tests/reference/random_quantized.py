"""Random problems of the contract's section 3, for random_problems."""

import numpy as np

from .floats import FLOAT8, FLOATS
from .granularity import Groups
from .ops import GRANULARITY

# Of integer codes, without those of 4 bits.
RANGES = {"s8": (-128, 127), "u8": (0, 255), "s16": (-(2**15), 2**15 - 1), "u16": (0, 2**16 - 1)}
RANGES["i32"] = (-(2**31), 2**31 - 1)

# What the data of a forward problem are, spelled with their shape or as a type: x computes, code is that of the codes.
FORWARD = {
    "quantize": lambda shaped, x, code: [f"x={shaped(x)}", f"q={code}"],
    "dequantize": lambda shaped, x, code: [f"q={shaped(code)}", f"y={x}"],
    "fake_quantize": lambda shaped, x, code: [f"x={shaped(x)}"],
}


def granularity_field(d, granularity, shape):
    if granularity == "per_channel":
        return [f"axis={int(d.rng.integers(-len(shape), len(shape)))}"]
    if granularity == "per_group":
        return [f"group_size={d.extent(140)}"]
    if granularity == "per_block":
        blocks = [int(d.rng.integers(1, max(n, 1) + 3)) for n in shape]
        return [f"block_size=[{','.join(map(str, blocks))}]"]
    return []


def quantized(d):
    """The fields of a problem of section 3."""
    granularity = GRANULARITY[d.op]
    stem, backward = d.op.split("_per_")[0], d.op.endswith("_backward")
    shape = d.shape(0 if granularity == "per_tensor" else 1, d.one_of(2, 4, 8))
    x = d.float_type()
    code = d.one_of("s8", "u8", "s8", "u8", *(("s16", "u16", "i32") if stem != "fake_quantize" else ()), *FLOATS)
    point = d.one_of("none", "i32", "i64", "s8", "u8", "f32", *FLOATS)
    if code not in FLOATS and point in ("s8", "u8") and point != code:
        point = "i32"
    if stem in ("choose_qparams", "dynamic_quantize"):
        return chosen(d, stem, granularity, x, shape)
    low, high = bounds(d, stem, x, code, point)
    is_stored = stem == "dequantize" or (stem == "quantize" and not backward)
    float8 = None if is_stored or not d.chance(0.2) else d.one_of(*FLOAT8)
    if float8:
        most = {"f8e4m3": 448, "f8e5m2": 57344}[float8]
        low, high = d.one_of((-most, most), (-most, most), (-127, 127), (0, most), (-most, 0), (-3, 5))
        point = "none"
    fields = [*granularity_field(d, granularity, shape), f"qmin={low}", f"qmax={high}"]
    scale = d.one_of("f32", x, *FLOATS)
    fields += [f"scale={scale}", f"zero_point={point}"]
    if float8:
        fields.append(f"code={float8}")
    if stem != "dequantize" and d.chance(0.3):
        fields.append("rounding=reciprocal")
    if backward:
        return fields + gradients(d, stem, x, shape, code, scale, point)
    return fields + FORWARD[stem](lambda dtype: d.spec(dtype, shape), x, code)


def bounds(d, stem, x, code, point):
    """The least and the largest code: mostly of the code's type, now and then as large as x holds exactly."""
    low, high = RANGES.get(code) or ((-256, 256) if point == "i32" else RANGES.get(point, (-256, 256)))
    if code == "i32":  # bounds that an f32 holds, or the last code
        return d.one_of((low, high), (-(2**24), 2**24), (-100, high))
    if d.chance(0.5):
        return sorted(int(v) for v in d.rng.integers(low, high + 1, 2))
    if point in ("s8", "u8"):
        return low, high
    if stem == "fake_quantize":
        return (-(2**23), 2**23) if d.chance(0.3) else (low, high)
    if {x, code} <= {"f32", "f64"} and d.chance(0.3):
        return -(2**24), 2**24
    return low, high


def chosen(d, stem, granularity, x, shape):
    """The fields of a problem that chooses scale and zero point from the data."""
    code = d.one_of("s8", "u8", "s16", "u16")
    low, high = RANGES[code]
    low, high = d.one_of((low, high), (0, high), (max(low, -8), 7), (low, low + 1))
    where = granularity_field(d, granularity, shape)
    symmetric = high > 0 and d.chance(0.5)
    if symmetric and d.chance(0.3):
        low, high = d.one_of((1, 9), (3, 3), (0, 1))
        where = granularity_field(d, granularity, shape)
    fields = [*where, f"qmin={low}", f"qmax={high}"]
    fields += [f"x={d.spec(x, shape)}", f"symmetric={'true' if symmetric else 'false'}"]
    fields += [f"eps={d.one_of(2**-23, 0.01, 1e-40, 3.0)}"] if d.chance(0.3) else []
    fields += [f"q={code}"] if stem == "dynamic_quantize" else []
    fields += [f"scale={d.one_of('f32', *FLOATS)}"] if d.chance(0.3) else []
    kinds = ("i32", "i64", "none") if symmetric else ("i32", "i64")
    return fields + ([f"zero_point={d.one_of(*kinds)}"] if d.chance(0.5) else [])


def gradients(d, stem, x, shape, code, scale, point):
    """What a backward problem has beside the forward's attributes and parameters."""
    fields = [f"grad_output={d.spec(x, shape)}"]
    if stem == "quantize":
        # The gradient has the type of the codes, which need not be that of x.
        return fields + ([f"x={d.one_of(*FLOATS)}"] if d.chance(0.3) else [])
    wanted = [f"grad_scale={scale}"] if d.chance(0.8) else []
    if stem == "dequantize":
        no_codes = not wanted and code != "i32" and d.chance(0.5)
        fields.append("q=none" if no_codes else f"q={code}")
    if point in FLOATS and d.chance(0.8):
        wanted.append(f"grad_zero_point={point}")
    if wanted and d.chance(0.2):
        wanted.append("grad_input=none")
    if stem == "fake_quantize" and d.chance(0.5):
        fields.append(f"grad_factor={d.one_of('0.01', '-2', '0.3333', '1e-20', '0')}")
    return fields + wanted


def fill_quantized(d):
    low, high = d.values["qmin"], d.values["qmax"]
    shape = d.arguments[0][2].shape
    groups = Groups(shape, GRANULARITY[d.op], d.values)
    scale = 2.0 ** d.rng.integers(-8, 3, groups.shape) * d.one_of(1, 0.8, 1 / 3)
    if d.chance(0.1):
        scale = d.rng.choice([0.0, -0.0, -0.5, np.inf, np.nan, 1e-42, 3e38, 1.0], groups.shape)
    spread = np.nan_to_num(scale.reshape(-1), nan=1.0, posinf=1.0)[groups.ids]

    def value(name, spec):
        if name == "scale":
            return one_or_none(d, d.stored(scale, spec.dtype))
        if name == "zero_point":
            return one_or_none(d, zero_points(d, spec.dtype, low, high, groups.shape))
        if name == "q":
            return codes(d, spec.dtype, shape)
        if name != "x" or d.op.startswith(("choose", "dynamic")):
            return d.normal(spec.dtype, shape)
        # Ties, values around the limits and beyond, and any.
        first, last = d.one_of((low, high), np.clip((low, high), -600, 600))
        steps = d.rng.integers(2 * first - 40, 2 * last + 41, shape) * 0.5
        loose = d.rng.standard_normal(shape) * 40
        values = np.where(d.rng.random(shape) < 0.5, steps, loose) * spread
        return d.stored(d.salted(values), spec.dtype)

    return d.each_input(value)


def one_or_none(d, parameter):
    """per_tensor's parameter has the shape [1] or []."""
    if parameter.shape == (1,) and GRANULARITY[d.op] == "per_tensor" and d.chance(0.5):
        return parameter.reshape(())
    if GRANULARITY[d.op] == "per_token" and d.chance(0.3):
        return parameter.reshape((*parameter.shape, 1))
    return parameter


def zero_points(d, dtype, low, high, shape):
    if dtype not in FLOATS:
        return d.stored(d.rng.integers(low, high + 1, shape), dtype)
    values = d.rng.uniform(low - 3, high + 3, shape)
    halves = np.floor(values) + 0.5
    values = np.where(d.rng.random(shape) < 0.3, halves, values)
    return d.stored(d.salted(values), dtype)


def codes(d, dtype, shape):
    low, high = RANGES.get(dtype, (-256, 256))
    values = d.rng.integers(low, high + 1, shape)
    return d.stored(values if dtype not in FLOATS else d.salted(values), dtype)
