"""Section 7 against rationals."""

from fractions import Fraction

import numpy as np

from reference import exact, floats, run

SEED = 20260106


def test_each_step_rounds_once():
    rng = np.random.default_rng(SEED)
    m, n, k = 3, 4, 700
    x = rng.integers(-128, 128, (m, k)).astype(np.int8)
    w = rng.integers(-128, 128, (n, k)).astype(np.int8)
    x[0], w[0] = -128, -128
    sx, sw, bias = (rng.random(i).astype(np.float32) for i in (m, n, n))
    for name in floats.FLOATS:
        ct = "f64" if name == "f64" else "f32"
        text = f"quantized_linear x=s8[{m},{k}] weight=s8[{n},{k}] y={name}"
        (y,) = run(text, [x, sx, w, sw, bias])
        wide = floats.widen(y, np.float64)
        for i, j in np.ndindex(m, n):
            acc = sum(int(a) * int(b) for a, b in zip(x[i], w[j], strict=True))
            scale = exact.round_to(Fraction(float(sx[i])) * Fraction(float(sw[j])), ct)
            product = exact.round_to(exact.round_to(Fraction(acc), ct) * scale, ct)
            want = exact.round_to(product + Fraction(float(bias[j])), ct)
            assert exact.equal(wide[i, j], exact.round_to(want, name))


def test_wide_sums_are_exact_integers():
    k = 140000
    x, w = np.full((1, k), -128, np.int8), np.full((1, k), -128, np.int8)
    one = np.ones(1, np.float32)
    (y,) = run(f"quantized_linear x=s8[1,{k}] weight=s8[1,{k}] bias=none", [x, one, w, one, None])
    assert k * 128 * 128 > 2**31 and y[0, 0] == np.float32(k * 128 * 128)
