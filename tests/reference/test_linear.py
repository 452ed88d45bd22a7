"""Sections 7 and 8 against rationals."""

from fractions import Fraction

import numpy as np

from reference import exact, floats, linear, run

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


def test_chains_round_once_a_step():
    rng = np.random.default_rng(SEED)
    for name in floats.FLOATS:
        ct = "f64" if name == "f64" else "f32"
        a, b = (floats.store(rng.normal(size=s) * 2.0 ** rng.integers(-9, 9, s), name) for s in ((2, 30), (30, 3)))
        (y,) = run(f"matmul input={name}[2,30] other={name}[30,3]", [a, b, None])
        for i, j in np.ndindex(2, 3):
            total = Fraction(0)
            for k in range(30):
                factors = floats.widen(a, np.float64)[i, k], floats.widen(b, np.float64)[k, j]
                total = exact.round_to(Fraction(float(factors[0])) * Fraction(float(factors[1])) + total, ct)
            assert exact.equal(floats.widen(y, np.float64)[i, j], exact.round_to(total, name))


def test_fused_steps_lose_no_tie():
    rng = np.random.default_rng(SEED + 1)
    bits = rng.integers(0, 2**24, (3, 20000)).astype(np.float64) * 2.0 ** rng.integers(-40, 2, (3, 20000))
    a, b, c = (bits * rng.choice([-1, 1], (3, 20000))).astype(np.float32)
    c[:9000] = (-(a.astype(np.float64) * b) * (1 + 2.0**-23 * rng.integers(-3, 4, 20000)))[:9000].astype(np.float32)
    got = linear.fused(a, b, c)
    for i in range(20000):
        want = exact.round_to(Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i])), "f32")
        assert exact.equal(got[i], want), (a[i], b[i], c[i])
