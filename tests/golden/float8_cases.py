"""Cases of section 3's 8-bit floats: fake-quantize by them, and the gradients."""

import itertools

import numpy as np
from data import stored
from quantize_cases import FLOATS
from reference.floats import FLOAT8

# What rounds to few digits: ties, the ends of the range, the smallest numbers, zeros of both signs.
VALUES = [
    0.0,
    -0.0,
    1e-30,
    -1e-30,
    17.0,
    -19.0,
    447.0,
    465.0,
    -1e6,
    2.0**-10,
    3 * 2.0**-10,
    5 * 2.0**-17,
    np.nan,
    np.inf,
]


def float8(family):
    numbers, scales = itertools.cycle(FLOATS), itertools.cycle((1, -0.3))
    for code, bounds in itertools.product(FLOAT8, ((-448, 448), (0, 448), (-17, 0))):
        attributes = f"zero_point=none qmin={bounds[0]} qmax={bounds[1]} code={code}"
        number, scale = next(numbers), stored([next(scales)], "f32")
        family.add(f"fake_quantize_per_tensor x={number}[14] {attributes}", [stored(VALUES, number), scale, None])
        dy = stored(family.rng().standard_normal(14), number)
        upstream, finite = f"grad_output={number}[14]", np.nan_to_num(VALUES, posinf=1e3)
        text = f"fake_quantize_per_tensor_backward {upstream} grad_scale=f32 {attributes}"
        family.add(text, [dy, stored(finite, number), scale, None])
        text = f"quantize_per_tensor_backward {upstream} x=f32 rounding=reciprocal {attributes}"
        family.add(text, [dy, stored(VALUES, "f32"), scale, None])
