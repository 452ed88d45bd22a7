"""Float arithmetic in rationals, for the reference's own tests: slow, and nothing to trust but
Python's integers. A value is a Fraction, or a float for the infinities and NaN."""

import math
from fractions import Fraction

# significand bits with the hidden one, exponent of the least normal, exponent of the largest
FORMATS = {
    "f64": (53, -1022, 1023),
    "f32": (24, -126, 127),
    "f16": (11, -14, 15),
    "bf16": (8, -126, 127),
}


def half_even(x):
    """The whole number nearest to a Fraction, ties to even."""
    floor = x.numerator // x.denominator
    rest = x - floor
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and floor % 2):
        return floor + 1
    return floor


def exponent(x):
    """The e with 2**e <= |x| < 2**(e + 1)."""
    x = abs(x)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if x >= Fraction(2) ** e else e - 1


def round_to(x, name):
    """A Fraction rounded once to a format, ties to even; too large a one becomes infinite."""
    if x == 0:
        return Fraction(0)
    bits, least, most = FORMATS[name]
    unit = Fraction(2) ** (max(exponent(x), least) - (bits - 1))
    rounded = half_even(x / unit) * unit
    if rounded != 0 and exponent(rounded) > most:
        return math.inf if x > 0 else -math.inf
    return rounded


def equal(value, exact):
    """Whether a numpy float is the value of a Fraction or an infinity (signs of zero aside)."""
    value = float(value)
    if isinstance(exact, float) or not math.isfinite(value):
        return value == exact
    return Fraction(value) == exact
