"""Section 3 against rationals: each rounding on its own, by values that are exact."""

import math
from fractions import Fraction

import numpy as np
import pytest

from reference import BF16, dtype_name, exact, floats, parse, run
from reference.granularity import Groups

SEED = 20260103


def exact_code(x, s, z, qmin, qmax, name):
    """The code of a finite x with s > 0: x / s rounded once, rint, + z, clamp."""
    v = exact.round_to(Fraction(x) / Fraction(s), name)
    if isinstance(v, float):
        return qmax if v > 0 else qmin
    return max(qmin, min(qmax, exact.half_even(v) + z))


def finite(array):
    wide = floats.widen(array, np.float64)
    return np.flatnonzero(np.isfinite(wide)), wide


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("scale", [0.1, 0.0625, 3e-5, 1.0, 977.0])
def test_every_half_value_through_quantize(name, scale):
    bits = np.arange(65536, dtype=np.uint16)
    x = BF16(bits) if name == "bf16" else bits.view(np.float16)
    s = np.array([scale], np.float32)
    text = f"quantize_per_tensor x={name}[65536] q=s8 qmin=-128 qmax=127"
    (q,) = run(text, [x, s, np.array([5], np.int32)])
    at, wide = finite(x)
    for i in at[::5]:
        assert q[i] == exact_code(wide[i], float(s[0]), 5, -128, 127, "f32"), wide[i]
    assert (q[np.isnan(wide)] == 5).all()
    assert (q[wide == np.inf] == 127).all() and (q[wide == -np.inf] == -128).all()


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_quotients_and_ties(name):
    kind = np.float32 if name == "f32" else np.float64
    rng = np.random.default_rng(SEED)
    halves = (np.arange(-300, 300) * 0.5).astype(kind)
    for s in (kind(1), kind(0.25), kind(0.1), kind(1 / 3), kind(7e-3)):
        x = halves * s
        x = np.concatenate([x, np.nextafter(x, kind(np.inf)), np.nextafter(x, kind(-np.inf))])
        x = np.concatenate([x, (rng.standard_normal(300) * 40 * s).astype(kind)])
        text = f"quantize_per_tensor x={name}[{len(x)}] q=u8 scale={name} qmin=3 qmax=250"
        (q,) = run(text, [x, np.array([s], kind), np.array([100], np.int32)])
        assert [int(v) for v in q] == [exact_code(float(v), float(s), 100, 3, 250, name) for v in x]


def test_dequantize_is_exact_but_for_one_product_and_one_store():
    codes = np.arange(-128, 128).astype(np.int8)
    for scale in (0.1, 1e-39, 3e38, 0.007):
        s = np.array([scale], np.float32)
        for name in floats.FLOATS:
            ct = "f64" if name == "f64" else "f32"
            text = f"dequantize_per_tensor q=s8[256] y={name} qmin=-128 qmax=127"
            (y,) = run(text, [codes, s, np.array([-7], np.int32)])
            for code, got in zip(codes, floats.widen(y, np.float64), strict=True):
                want = exact.round_to((int(code) + 7) * Fraction(float(s[0])), ct)
                if not isinstance(want, float):
                    want = exact.round_to(want, name)
                assert exact.equal(got, want)


@pytest.mark.parametrize(
    "granularity",
    [
        "per_tensor",
        "per_channel axis=1",
        "per_channel axis=-1",
        "per_token",
        "per_group group_size=4",
        "per_block block_size=[2,1,3]",
    ],
)
def test_fake_quantize_is_the_two_plans_in_a_row(granularity):
    kind, _, attributes = granularity.partition(" ")
    rng = np.random.default_rng(SEED)
    x = (rng.standard_normal((3, 4, 10)) * 3).astype(np.float32)
    x.flat[:6] = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40]
    groups = Groups(x.shape, kind, parse(f"{kind} {attributes}".strip()).values)
    s = (rng.random(groups.shape) * 0.1 + 0.01).astype(np.float32)
    z = rng.integers(-128, 128, groups.shape).astype(np.int32)
    tail = f"{attributes} qmin=-128 qmax=127".strip()
    (q,) = run(f"quantize_{kind} x=f32[3,4,10] q=s8 {tail}", [x, s, z])
    (want,) = run(f"dequantize_{kind} q=s8[3,4,10] y=f32 {tail}", [q, s, z])
    (got,) = run(f"fake_quantize_{kind} x=f32[3,4,10] {tail}", [x, s, z])
    assert got.tobytes() == want.tobytes()


def test_groups_name_the_parameter_of_each_element():
    shape = (2, 3, 5)
    for index in np.ndindex(shape):
        a, b, c = index
        want = {
            ("per_tensor", ()): (0,),
            ("per_channel", (("axis", 1),)): (b,),
            ("per_channel", (("axis", -3),)): (a,),
            ("per_token", ()): (a, b),
            ("per_group", (("group_size", 2),)): (a, b, c // 2),
            ("per_block", (("block_size", (1, 2, 3)),)): (a, b // 2, c // 3),
        }
        for (kind, values), place in want.items():
            groups = Groups(shape, kind, dict(values))
            assert np.unravel_index(groups.ids[index], groups.shape) == place


def test_special_scales_and_values():
    x = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], np.float32)
    text = "quantize_per_tensor x=f32[7] q=s8 qmin=-100 qmax=100"
    z = np.array([9], np.int32)
    want = [
        (0.0, [9, 9, 100, -100, 100, -100, 9]),
        (-0.0, [9, 9, -100, 100, -100, 100, 9]),
        (-1.0, [9, 9, 8, 10, -100, 100, 9]),
        (math.inf, [9, 9, 9, 9, 9, 9, 9]),
        (math.nan, [9] * 7),
    ]
    for scale, codes in want:
        (q,) = run(text, [x, np.array([scale], np.float32), z])
        assert q.tolist() == codes, scale


def test_float_zero_points_are_rounded_and_clamped():
    x = np.zeros(8, np.float32)
    zp = np.array([0.5, 1.5, -0.4, np.nan, np.inf, -np.inf, 300.0, -2.5], np.float32)
    text = "quantize_per_channel x=f32[8] q=f32 zero_point=f32 axis=0 qmin=-10 qmax=20"
    (q,) = run(text, [x, np.ones(8, np.float32), zp])
    assert q.tolist() == [0, 2, 0, 0, 20, -10, 20, -2] and not np.signbit(q[:4]).any()
    (q,) = run(text.replace("qmin=-10", "qmin=3"), [x, np.ones(8, np.float32), zp])
    assert q.tolist() == [3, 3, 3, 3, 20, 3, 20, 3]


def test_lsq_terms():
    """e = r - x/s inside, the bound less z outside, nothing for nan; by hand."""
    x = np.array([0.3, -10.0, 10.0, np.nan, np.inf, 3.5], np.float32)
    dy = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0], np.float32)
    text = (
        "fake_quantize_per_tensor_backward grad_output=f32[6] zero_point=f32 grad_scale=f32 "
        "grad_zero_point=f32 qmin=-4 qmax=3 grad_factor=0.5"
    )
    s, z = np.array([0.5], np.float32), np.array([-1.2], np.float32)
    dx, ds, dz = run(text, [dy, x, s, z])
    # 0.3 / 0.5 = 0.6 -> 1, + z = 0: inside; 3.5 / 0.5 = 7 - 1 = 6: above
    e = np.float32(1) - np.float32(0.3) / np.float32(0.5)
    inside = np.float32(1) * e
    total = ((inside + np.float32(2 * -3)) + np.float32(4 * 4)) + np.float32(16 * 4) + np.float32(32 * 4)
    assert dx.tolist() == [1, 0, 0, 0, 0, 0] and not np.signbit(dx).any()
    assert abs(ds[0] - total * np.float32(0.5)) < 1e-5
    assert dz[0] == -0.5 * (2 + 4 + 16 + 32) * 0.5


def test_backward_of_the_two_plans_gives_the_chain():
    """Float codes carry the straight-through gradient: dq * then dx = (dy * s) / s inside."""
    rng = np.random.default_rng(SEED)
    x = (rng.standard_normal(50) * 2).astype(np.float64)
    s, dy = np.array([0.05]), rng.standard_normal(50)
    kinds = "scale=f64 zero_point=none qmin=-20 qmax=20"
    (q,) = run(f"quantize_per_tensor x=f64[50] q=f64 {kinds}", [x, s, None])
    text = f"dequantize_per_tensor_backward grad_output=f64[50] q=f64 grad_scale=f64 {kinds}"
    dq, ds, _ = run(text, [dy, q, s, None])
    (dx,) = run(f"quantize_per_tensor_backward grad_output=f64[50] x=f64 {kinds}", [dq, x, s, None])
    inside = np.abs(np.rint(x / s)) <= 20
    assert np.allclose(dx, np.where(inside, dy, 0), rtol=1e-15)
    assert np.isclose(ds[0], np.sum(dy * q), rtol=1e-13)


def test_dynamic_parameters():
    x = np.array(
        [
            [1.0, -2.0, 0.5],
            [0.0, -0.0, 0.0],
            [3.0, 4.0, 5.0],
            [-1.0, -1.0, -3.0],
            [np.nan, 1.0, 2.0],
            [np.inf, 1.0, -1.0],
            [-np.inf, 0.0, 0.0],
            [1e-45, 0.0, 0.0],
        ],
        np.float32,
    )
    s, none = run("choose_qparams_per_token x=f32[8,3] qmin=-127 qmax=127", [x])
    assert none is None
    assert s[:4].tolist() == [np.float32(v) / np.float32(127) for v in (2, 127, 5, 3)]
    assert np.isnan(s[4]) and s[5] == np.inf and s[6] == np.inf and s[7] == 1
    s, z = run("choose_qparams_per_token x=f32[8,3] symmetric=false qmin=0 qmax=255", [x])
    assert s[1] == 1 and s[2] == np.float32(5) / np.float32(255) and s[7] == 1
    assert z.tolist() == [170, 0, 0, 255, 0, 0, 0, 0]
    q, s2, z2 = run("dynamic_quantize_per_token x=f32[8,3] q=u8 symmetric=false qmin=0 qmax=255", [x])
    assert np.array_equal(s, s2, equal_nan=True) and np.array_equal(z, z2)
    (want,) = run("quantize_per_token x=f32[8,3] q=u8 qmin=0 qmax=255", [x, s, z])
    assert np.array_equal(q, want) and dtype_name(q) == "u8"
    # At least eps, before z: of the third row it is 5 / 255, of the first 3 / 255.
    raised, z = run("choose_qparams_per_token x=f32[8,3] symmetric=false qmin=0 qmax=255 eps=0.015625", [x])
    assert raised[0] == 1 / 64 and raised[1] == 1 and raised[2] == s[2] and np.isnan(raised[4]) and raised[5] == np.inf
    assert z.tolist() == [128, 0, 0, 192, 0, 0, 0, 0]


def test_reciprocal_differs_and_is_the_rounded_product():
    x = np.arange(1, 5001).astype(np.float32) * np.float32(0.035)
    s = np.array([0.07], np.float32)
    text = "quantize_per_tensor x=f32[5000] q=f32 zero_point=none qmin=-10000 qmax=10000"
    (near,) = run(text, [x, s, None])
    (other,) = run(text + " rounding=reciprocal", [x, s, None])
    inverse = exact.round_to(1 / Fraction(float(s[0])), "f32")
    want = [exact.half_even(exact.round_to(Fraction(float(v)) * inverse, "f32")) for v in x]
    assert other.tolist() == want
    assert not np.array_equal(near, other)
