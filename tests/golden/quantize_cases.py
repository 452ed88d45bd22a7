"""Cases of section 3: quantize, dequantize, fake-quantize, backwards."""

import itertools

import numpy as np
from data import integers, patterns, salted, specials, spelled, stored, uniform
from reference import floats, parse
from reference.granularity import Groups

FLOATS = ("f32", "f64", "f16", "bf16")
# Granularity, its attributes, a shape of a few dozen elements with ragged groups.
GRANULARITIES = [
    ("per_tensor", "", (3, 11)),
    ("per_channel", "axis=1", (2, 3, 5)),
    ("per_channel", "axis=-1", (5, 6)),
    ("per_channel", "axis=0", (3, 2, 2, 2)),
    ("per_token", "", (2, 2, 9)),
    ("per_group", "group_size=4", (3, 10)),
    ("per_group", "group_size=16", (2, 17)),
    ("per_block", "block_size=[2,3]", (5, 7)),
]
SIZES = (1, 2, 15, 16, 17, 31, 63, 64, 65, 128, 257)
# One of each kind of zero point for every combination; within a kind they take turns.
INTEGER_POINTS = itertools.cycle(["i32", "i64", "s8", "i32", "u8"])
FLOAT_POINTS = itertools.cycle(["f32", "f64", "f16", "bf16"])
CODES = itertools.cycle(["s8", "u8", "f32", "s8", "u8", "f64", "f16", "bf16"])
SCALES = itertools.cycle(["f32", "same", "f32", "f64", "same", "f16", "bf16"])


def limits(codes):
    """qmin and qmax that fit the codes' type, narrow enough to clamp some of the data."""
    return (0, 200) if codes == "u8" else (-100, 127)


class Draw:
    """Random parameters and data of one problem."""

    def __init__(self, rng, granularity, attributes, shape, x, scale, zero_point, codes):
        self.rng, self.shape = rng, shape
        self.x_dtype, self.scale_dtype = x, scale
        self.qmin, self.qmax = limits("u8" if zero_point == "u8" else codes)
        self.groups = Groups(shape, granularity, parse_attributes(attributes))
        count = self.groups.shape
        self.scale = stored(2.0 ** rng.integers(-6, 2, count) * rng.choice([1, 0.8, 1 / 3], count), scale)
        self.zero_point = None
        if zero_point:
            point = rng.integers(self.qmin, self.qmax + 1, count).astype(np.float64)
            if zero_point in FLOATS:
                point = rng.choice([point, point + 0.5, point * 0.37, point + 500, point - 500])
            self.zero_point = stored(point, zero_point)

    def data(self, special=0.15):
        """Values of which many are ties, many are beyond the limits and some are special."""
        s = floats.widen(self.scale, np.float64).reshape(-1)[self.groups.ids]
        steps = self.rng.integers(-260, 261, self.shape) * 0.5
        loose = self.rng.standard_normal(self.shape) * 60
        values = np.where(self.rng.random(self.shape) < 0.5, steps, loose) * s
        return stored(salted(values, self.x_dtype, self.rng, special), self.x_dtype)

    def gradient(self, dtype, special=0.1):
        values = salted(self.rng.standard_normal(self.shape), dtype, self.rng, special)
        return stored(values, dtype)

    def codes(self, dtype):
        low, high = limits(dtype)
        if dtype == "s8":
            low, high = -128, 127
        if dtype == "u8":
            low, high = 0, 255
        return stored(self.rng.integers(low, high + 1, self.shape), dtype)

    def bounds(self):
        return f"qmin={self.qmin} qmax={self.qmax}"


def parse_attributes(text):
    return parse(f"op {text}").values if text else {}


def join(*parts):
    return " ".join(p for p in parts if p)


def combinations():
    """Every dtype with every granularity, and for each no, an integer and a float zero point."""
    for x, (granularity, attributes, shape) in itertools.product(FLOATS, GRANULARITIES):
        for point in (None, next(INTEGER_POINTS), next(FLOAT_POINTS)):
            scale = next(SCALES)
            yield x, granularity, attributes, shape, x if scale == "same" else scale, point


def code_type(point):
    code = next(CODES)
    while (point == "u8" and code == "s8") or (point == "s8" and code == "u8"):
        code = next(CODES)
    return code


def quantize(family):
    for x, granularity, attributes, shape, scale, point in combinations():
        for rounding in ("", "rounding=reciprocal"):
            code = code_type(point)
            d = Draw(family.rng(), granularity, attributes, shape, x, scale, point, code)
            types = f"scale={scale} zero_point={point or 'none'}"
            tail = join(attributes, d.bounds(), rounding)
            text = f"quantize_{granularity} x={spelled(x, shape)} {types} q={code} {tail}"
            family.add(text, [d.data(), d.scale, d.zero_point])
            d = Draw(family.rng(), granularity, attributes, shape, x, scale, point, code)
            text = f"quantize_{granularity}_backward grad_output={spelled(x, shape)} {types} {tail}"
            family.add(text, [d.gradient(x), d.data(), d.scale, d.zero_point])
    extremes(family)
    for size in SIZES:
        d = Draw(family.rng(), "per_tensor", "", (size,), "f32", "f32", "i32", "s8")
        text = f"quantize_per_tensor x=f32[{size}] q=s8 {d.bounds()}"
        family.add(text, [d.data(0.05), d.scale, d.zero_point])
    for shape in ((), (0,), (2, 0, 3), (1, 1, 1, 1, 1, 1, 1, 3)):
        d = Draw(family.rng(), "per_tensor", "", shape, "f32", "f32", "i32", "s8")
        text = f"quantize_per_tensor x={spelled('f32', shape)} q=u8 qmin=0 qmax=255"
        family.add(text, [d.data(0), d.scale, stored([7], "i32")])
    for x, scale in itertools.product(("f16", "bf16"), (0.1, 2.0**-7, 3e-5, 300.0)):
        text = f"quantize_per_tensor x={x}[65536] q=s8 qmin=-128 qmax=127"
        family.add(text, [patterns(x, 65536), stored([scale], "f32"), stored([-3], "i32")])
    wider_codes(family, of_codes=False)


def extremes(family):
    """Scales of 0, negative, infinite, NaN and denormal, with every special value."""
    for x in FLOATS:
        values = np.concatenate([specials(x), [1.0, -1.0, 0.5, 1.5, 2.5, -0.25]])
        shape = (len(values),)
        for scale in (0.0, -0.0, -0.5, np.inf, -np.inf, np.nan, 1.0, 1e-42, 3e38):
            inputs = [stored(values, x), stored([scale], "f32")]
            tail = "qmin=-9 qmax=20"
            head = f"x={spelled(x, shape)}"
            family.add(f"quantize_per_tensor {head} q=s8 {tail}", [*inputs, stored([11], "i32")])
            for point in (np.nan, np.inf, -np.inf, -0.0, 0.5, 1.5, -2.5, 1e30):
                if scale in (-0.5, 0.0):
                    text = f"quantize_per_tensor {head} zero_point=f32 q={x} {tail}"
                    family.add(text, [*inputs, stored([point], "f32")])


def dequantize(family):
    for y, granularity, attributes, shape, scale, point in combinations():
        code = code_type(point)
        d = Draw(family.rng(), granularity, attributes, shape, y, scale, point, code)
        types = f"scale={scale} zero_point={point or 'none'}"
        tail = join(attributes, d.bounds())
        text = f"dequantize_{granularity} q={spelled(code, shape)} {types} y={y} {tail}"
        family.add(text, [d.codes(code), d.scale, d.zero_point])
        d = Draw(family.rng(), granularity, attributes, shape, y, scale, point, code)
        learned = f"grad_zero_point={point}" if point in FLOATS else ""
        grads = join(f"grad_scale={scale}", learned)
        head = f"grad_output={spelled(y, shape)} q={code}"
        text = f"dequantize_{granularity}_backward {head} {types} {grads} {tail}"
        family.add(text, [d.gradient(y, 0.02), d.codes(code), d.scale, d.zero_point])
    for scale in (0.0, -0.0, -0.5, np.inf, np.nan, 1e-42, 3e38):
        for y in FLOATS:
            text = f"dequantize_per_tensor q=s8[7] y={y} qmin=-100 qmax=100"
            codes = stored([-128, -100, -1, 5, 6, 100, 127], "s8")
            family.add(text, [codes, stored([scale], "f32"), stored([5], "i32")])
    d = Draw(family.rng(), "per_tensor", "", (33,), "f32", "f32", "f32", "s8")
    text = "dequantize_per_tensor_backward grad_output=f32[33] q=none zero_point=f32"
    parameters = [d.scale, stored([0.5], "f32")]
    family.add(f"{text} grad_zero_point=f32 qmin=-8 qmax=7", [d.gradient("f32", 0), None, *parameters])
    family.add(f"{text} qmin=-8 qmax=7", [d.gradient("f32", 0), None, *parameters])
    text = "dequantize_per_tensor_backward grad_output=f32[33] grad_input=none zero_point=none"
    codes = d.codes("s8")
    family.add(f"{text} grad_scale=f32 qmin=-8 qmax=7", [d.gradient("f32", 0), codes, d.scale, None])
    for size in (*SIZES, 0):
        d = Draw(family.rng(), "per_tensor", "", (size,), "f32", "f32", "f32", "s8")
        text = f"dequantize_per_tensor_backward grad_output=f32[{size}] zero_point=f32"
        text += f" grad_input=none grad_scale=f32 grad_zero_point=f32 {d.bounds()}"
        family.add(text, [d.gradient("f32", 0), d.codes("s8"), d.scale, d.zero_point])
    long_sums(family, "dequantize")
    wider_codes(family, of_codes=True)


def fake_quantize(family):
    for x, granularity, attributes, shape, scale, point in combinations():
        for rounding in ("", "rounding=reciprocal"):
            d = Draw(family.rng(), granularity, attributes, shape, x, scale, point, "s8")
            types = f"scale={scale} zero_point={point or 'none'}"
            tail = join(attributes, d.bounds(), rounding)
            text = f"fake_quantize_{granularity} x={spelled(x, shape)} {types} {tail}"
            family.add(text, [d.data(), d.scale, d.zero_point])
            d = Draw(family.rng(), granularity, attributes, shape, x, scale, point, "s8")
            learned = f"grad_zero_point={point}" if point in FLOATS else ""
            grads = join(f"grad_scale={scale}", learned)
            factor = "" if rounding else "grad_factor=0.01"
            tail = join(attributes, d.bounds(), factor, rounding)
            text = f"fake_quantize_{granularity}_backward grad_output={spelled(x, shape)} {types} {grads} {tail}"
            family.add(text, [d.gradient(x, 0.02), d.data(), d.scale, d.zero_point])
    wide = stored([2.0**23, 2.0**24, -(2.0**23), -(2.0**24), 4194304.5, 0.5, -0.5, 1.5], "f32")
    for point in (-8388608, 8388608, 3):
        text = "fake_quantize_per_tensor x=f32[8] qmin=-8388608 qmax=8388608"
        family.add(text, [wide, stored([1], "f32"), stored([point], "i32")])
    for scale in (0.0, -0.0, -0.5, np.inf, np.nan, 1e-42):
        values = stored([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.0], "f32")
        inputs = [values, stored([scale], "f32"), stored([0.5], "f32")]
        family.add("fake_quantize_per_tensor x=f32[8] zero_point=f32 qmin=-4 qmax=3", inputs)
        text = "fake_quantize_per_tensor_backward grad_output=f32[8] zero_point=f32"
        text += " grad_scale=f32 grad_zero_point=f32 qmin=-4 qmax=3 grad_factor=-1.5"
        family.add(text, [stored(np.arange(1, 9) / 8, "f32"), *inputs])
    for size in (*SIZES, 0):
        d = Draw(family.rng(), "per_tensor", "", (size,), "f32", "f32", "f32", "s8")
        text = f"fake_quantize_per_tensor_backward grad_output=f32[{size}] zero_point=f32"
        text += f" grad_input=none grad_scale=f32 grad_zero_point=f32 {d.bounds()} grad_factor=0.125"
        family.add(text, [d.gradient("f32", 0), d.data(0), d.scale, d.zero_point])
    long_sums(family, "fake_quantize")


def long_sums(family, op):
    """Reductions of many lanes' rounds and of more than one block, in each type."""
    shapes = [
        ("per_tensor", "", (1000,)),
        ("per_tensor", "", (65536,)),
        ("per_tensor", "", (65537,)),
        ("per_tensor", "", (5, 331, 200)),
        ("per_channel", "axis=1", (3, 2, 23, 951)),
        ("per_channel", "axis=-1", (66000, 3)),
        ("per_token", "", (2, 65600)),
    ]
    for number, (granularity, attributes, shape) in enumerate(shapes):
        for dtype in ("f32", FLOATS[1 + number % 3]):
            groups = Groups(shape, granularity, parse_attributes(attributes))
            rng = family.rng()
            scale = stored(rng.uniform(0.01, 0.1, groups.shape), "f32")
            point = stored(rng.uniform(-20, 20, groups.shape), "f32")
            seed = 1000 * len(family.cases) + 1
            dy = uniform(dtype, shape, seed)
            x = uniform(dtype, shape, seed + 1) if op == "fake_quantize" else None
            x = x or integers("s8", shape, seed + 1, -128, 256)
            text = f"{op}_{granularity}_backward grad_output={spelled(dtype, shape)} zero_point=f32"
            outputs = "grad_input=none grad_scale=f32 grad_zero_point=f32"
            family.add(join(text, outputs, attributes, "qmin=-100 qmax=90"), [dy, x, scale, point])


def wider_codes(family, of_codes):
    """Codes of 16 and 32 bits over all of their range: of i32 an f32 holds neither the last one nor all differences."""
    points = itertools.cycle([None, "i32", "f32", "i32", "f32", None, "i32"])
    for number, code in itertools.product(FLOATS, ("s16", "u16", "i32")):
        point = next(points)
        low, high = int(np.iinfo(floats.NUMPY[code]).min), int(np.iinfo(floats.NUMPY[code]).max)
        rng, shape = family.rng(), (3, 20)
        scale = stored(rng.choice([0.5, 0.3, 2.0**-9], 3), "f32")
        zero_point = stored(rng.integers(low, high, 3, endpoint=True), point) if point else None
        tail = f"zero_point={point or 'none'} axis=0 qmin={low} qmax={high}"
        ends = rng.choice([low, low + 1, high - 1, high, 2**24 + 1], shape).clip(low, high)
        any_code = rng.integers(low, high, shape, endpoint=True)
        codes = np.where(rng.random(shape) < 0.3, ends, any_code)
        if not of_codes:
            values = (codes * rng.choice([1, 1.5, -1], shape) + 0.5) * floats.widen(scale, np.float64)[:, None]
            x = stored(salted(values, number, rng), number)
            text = f"quantize_per_channel x={spelled(number, shape)} q={code} {tail}"
            family.add(text, [x, scale, zero_point])
            continue
        q = stored(codes, code)
        family.add(f"dequantize_per_channel q={spelled(code, shape)} y={number} {tail}", [q, scale, zero_point])
        dy = stored(rng.standard_normal(shape), number)
        text = f"dequantize_per_channel_backward grad_output={spelled(number, shape)} q={code} grad_scale=f32 {tail}"
        family.add(text, [dy, q, scale, zero_point])
