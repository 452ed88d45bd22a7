"""Cases of parameters that are chosen of the data, and of codes by them."""

import itertools

import numpy as np
from data import salted, spelled, stored
from quantize_cases import FLOATS, GRANULARITIES, SIZES, join


def qparams(family):
    for x, (granularity, attributes, shape) in itertools.product(FLOATS, GRANULARITIES):
        for symmetric, special in itertools.product((True, False), (0, 0.1)):
            rng = family.rng()
            values = rng.standard_normal(shape) * rng.choice([1e-3, 1, 100]) + rng.choice([0, 0, 3])
            values = stored(salted(values, x, rng, special), x)
            code = "s8" if symmetric else "u8"
            bounds = "qmin=-127 qmax=127" if symmetric else "qmin=0 qmax=255"
            kind = "symmetric=true" if symmetric else "symmetric=false zero_point=" + rng.choice(["i32", "i64"])
            head = f"{granularity} x={spelled(x, shape)}"
            family.add(join(f"choose_qparams_{head}", kind, attributes, bounds), [values])
            family.add(join(f"dynamic_quantize_{head} q={code}", kind, attributes, bounds), [values])
    rows = [
        [0, 0, 0],
        [-0.0, 0, -0.0],
        [1, 2, 3],
        [-1, -2, -3],
        [np.nan, 1, 2],
        [np.inf, 1, 2],
        [-np.inf, 1, 2],
        [np.inf, -np.inf, 0],
        [1e-45, 0, 0],
        [-1e-45, 0, 0],
        [3e38, -3e38, 0],
        [-1, 0.0039, 1],
        [1e-37, 1e-38, 1e-39],
        [255, 0, -0.5],
        [254.5, 0, -0.5],
    ]
    # Ties of qmin - lo / s, at odd qmin: s is 1, or a power of two.
    ties = np.array([[-10.5, 243.5], [-11.5, 242.5], [-0.5, 253.5], [-253.5, 0.5], [-127.5, 126.5]])
    for size, (low, high) in itertools.product((1.0, 2.0**-9), ((-127, 127), (-128, 126))):
        for op in ("choose_qparams_per_token x=f32[5,2]", "dynamic_quantize_per_token x=f32[5,2] q=s8"):
            family.add(f"{op} symmetric=false qmin={low} qmax={high}", [stored(ties * size, "f32")])
    # The scale's type need not follow that of x.
    for x, scale, kind in itertools.product(FLOATS, FLOATS, ("symmetric=true", "symmetric=false")):
        values = stored(family.rng().standard_normal((4, 9)) * 3, x)
        text = f"dynamic_quantize_per_token x={x}[4,9] q=s8 scale={scale} {kind} qmin=-128 qmax=127"
        family.add(text, [values])
        text = f"choose_qparams_per_tensor x={x}[4,9] scale={scale} {kind} qmin=-128 qmax=127"
        family.add(text, [values])
    for bounds in ("qmin=-128 qmax=127", "qmin=-100 qmax=100", "qmin=0 qmax=9"):
        for x, kind in itertools.product(("f32", "f64", "bf16"), ("symmetric=true", "symmetric=false")):
            for op in ("choose_qparams_per_token x=%s", "dynamic_quantize_per_token x=%s q=s8"):
                family.add(join(op % spelled(x, (len(rows), 3)), kind, bounds), [stored(rows, x)])
    for width in SIZES:
        x = stored(family.rng().standard_normal((3, width)), "f32")
        for kind in ("symmetric=true", "symmetric=false"):
            text = f"dynamic_quantize_per_token x=f32[3,{width}] q=s8 {kind} qmin=-128 qmax=127"
            family.add(text, [x])
