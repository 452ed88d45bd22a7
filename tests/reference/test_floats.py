"""numpy's float operations and the conversions, against rationals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from reference import exact, floats

SEED = 20260101


def patterns(name, count, rng):
    """Random bit patterns of a float dtype and its edges, all finite."""
    kind, unsigned = (np.float32, np.uint32) if name == "f32" else (np.float64, np.uint64)
    raw = rng.integers(0, 2 ** (32 if name == "f32" else 64), count, dtype=unsigned).view(kind)
    near = rng.integers(-64, 65, count).astype(kind) / kind(8)
    info = np.finfo(kind)
    tiny = [info.smallest_subnormal, info.tiny, info.max, 1, 2, 3, 0.5, 1.5]
    edges = np.array(tiny + [-t for t in tiny], kind)
    values = np.concatenate([raw, near, edges])
    values = values[np.isfinite(values)]
    rng.shuffle(values)
    return values


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_numpy_rounds_each_operation_once(name):
    rng = np.random.default_rng(SEED)
    a, b = patterns(name, 1500, rng), patterns(name, 1500, rng)
    n = min(len(a), len(b))
    a, b = a[:n], b[:n]
    with np.errstate(all="ignore"):
        results = {"+": a + b, "-": a - b, "*": a * b, "/": a / b}
    for i in range(n):
        x, y = Fraction(float(a[i])), Fraction(float(b[i]))
        want = {"+": x + y, "-": x - y, "*": x * y, "/": x / y if y else None}
        for operation, value in want.items():
            if value is not None:
                got = results[operation][i]
                assert got.dtype == a.dtype
                assert exact.equal(got, exact.round_to(value, name)), (operation, a[i], b[i])


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_square_roots_are_the_nearest(name):
    values = np.abs(patterns(name, 800, np.random.default_rng(SEED)))
    roots = np.sqrt(values)
    for value, root in zip(values, roots, strict=True):
        below = Fraction(float(np.nextafter(root, root.dtype.type(0))))
        above = Fraction(float(np.nextafter(root, root.dtype.type(np.inf))))
        middle = Fraction(float(root))
        x = Fraction(float(value))
        assert ((below + middle) / 2) ** 2 <= x <= ((middle + above) / 2) ** 2


def test_rint_takes_ties_to_even():
    ties = np.arange(-1001, 1001) * 0.5
    for kind in (np.float32, np.float64):
        got = np.rint(ties.astype(kind))
        assert [int(v) for v in got] == [exact.half_even(Fraction(float(t))) for t in ties]
        edge = kind(2**22 + 0.5) if kind == np.float32 else kind(2**51 + 0.5)
        assert np.rint(edge) == exact.half_even(Fraction(float(edge)))
    assert np.signbit(np.rint(np.float32(-0.25)))


def half_values(name):
    bits = np.arange(65536, dtype=np.uint16)
    if name == "bf16":
        return floats.BF16(bits), bits
    return bits.view(np.float16), bits


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("ct", [np.float32, np.float64])
def test_every_half_value_survives_widening(name, ct):
    values, bits = half_values(name)
    back = floats.store(floats.widen(values, ct), name)
    got = np.frombuffer(floats.bits_of(back), np.uint16)
    nan = np.isnan(floats.widen(values, ct))
    assert np.array_equal(got[~nan], bits[~nan])
    assert np.isnan(floats.widen(back, ct))[nan].all()
    assert nan.sum() == (2 * (2**10 - 1) if name == "f16" else 2 * (2**7 - 1))


@pytest.mark.parametrize("name", ["f16", "bf16"])
@pytest.mark.parametrize("ct", [np.float32, np.float64])
def test_rounding_to_half_types_at_every_boundary(name, ct):
    """Midpoints between all neighbours, the values just beside them, and the overflow edge."""
    values, _ = half_values(name)
    wide = floats.widen(values, np.float64)
    line = np.unique(wide[np.isfinite(wide)])
    bits, _, most = exact.FORMATS[name]
    beyond = 2.0 ** (most + 1)
    line = np.concatenate([line, [beyond, -beyond]])
    line.sort()
    middles = ((line[1:] + line[:-1]) / 2).astype(ct)
    points = np.concatenate([middles, np.nextafter(middles, ct(np.inf)), np.nextafter(middles, ct(-np.inf))])
    points = points[np.isfinite(points)]
    with np.errstate(all="ignore"):
        got = floats.widen(floats.store(points, name), np.float64)
    for value, rounded in zip(points[::7], got[::7], strict=True):
        assert exact.equal(rounded, exact.round_to(Fraction(float(value)), name)), value
    # The rest by the order alone: the nearer neighbour, and on a tie the even one.
    fine = np.isfinite(got)
    error = np.abs(got[fine] - points[fine].astype(np.float64))
    at = np.clip(np.searchsorted(line, points[fine].astype(np.float64)), 1, len(line) - 1)
    nearest = np.minimum(
        np.abs(line[at] - points[fine].astype(np.float64)),
        np.abs(line[at - 1] - points[fine].astype(np.float64)),
    )
    assert np.array_equal(error, nearest)
    assert bits in (8, 11)


def test_f64_to_bf16_rounds_once():
    """Just above a tie by less than an f32 can say: through f32 alone this would round down."""
    value = np.array([1 + 2**-8 + 2**-40, 1 + 2**-8, 1 + 2**-8 - 2**-40, 2**-133 * 0.5, 2**-134 + 2**-160])
    got = floats.store(value, "bf16").to_f32().astype(np.float64)
    want = [float(exact.round_to(Fraction(float(v)), "bf16")) for v in value]
    assert got.tolist() == want


def test_signs_and_specials_of_conversions():
    special = np.array([-0.0, 0.0, np.inf, -np.inf, np.nan, 1e39, -1e39, 65519.996, 65520.0])
    with np.errstate(all="ignore"):
        for name in ("f16", "bf16", "f32"):
            got = floats.widen(floats.store(special, name), np.float64)
            assert np.signbit(got[0]) and not np.signbit(got[1])
            assert got[2] == np.inf and got[3] == -np.inf and np.isnan(got[4])
            assert got[5] == np.inf and got[6] == -np.inf
        half = floats.store(special, "f16").astype(np.float64)
    assert half[7] == 65504 and half[8] == np.inf


def test_integers_round_once_to_floats():
    for value in (2**24 + 1, 2**53 + 1, 2**63 - 1, -(2**62) - 2**38 - 1, 2**40 + 2**16, 2**40 + 2**16 + 1):
        array = np.array([value], np.int64)
        for name, ct in (("f32", np.float32), ("f64", np.float64)):
            assert exact.equal(floats.widen(array, ct)[0], exact.round_to(Fraction(value), name))


def test_bits_and_back():
    rng = np.random.default_rng(SEED)
    for name in floats.FLOATS + floats.INTEGERS:
        size = 2 if name == "bf16" else np.dtype(floats.NUMPY[name]).itemsize
        data = rng.bytes(6 * size)
        assert floats.bits_of(floats.array_of_bits(data, name, (2, 3))) == data


def test_same_bits_knows_zero_signs_and_nans():
    a = np.array([0.0, -0.0, np.nan, 1.0], np.float32)
    b = np.array([-0.0, -0.0, -np.nan, 1.0], np.float32)
    assert floats.same_bits(a, b).tolist() == [False, True, True, True]
    assert math.isnan(float(b[2]))


@pytest.mark.parametrize("name", floats.FLOAT8)
def test_float8_takes_the_nearest_number_and_the_even_one_of_two(name):
    digits, least = floats.FLOAT8[name]
    numbers = sorted({k * 2.0 ** (e - digits + 1) for e in range(least, 8) for k in range(2**digits)})
    for a, b in itertools.pairwise(numbers):
        even = a if a / (b - a) % 2 == 0 else b
        between = np.array([a, 0.75 * a + 0.25 * b, 0.5 * a + 0.5 * b, 0.25 * a + 0.75 * b])
        want = np.array([a, a, even, b])
        for sign in (1, -1):
            got = floats.round_float8(sign * between, name)
            assert np.array_equal(got, sign * want) and np.array_equal(np.signbit(got), np.signbit(sign * want))
    assert np.isnan(floats.round_float8([np.nan], name)).all()
