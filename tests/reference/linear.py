"""Quantized linear (contract, section 7): exact integer sums, then three rounded steps, or Stripe sums over
dequantized weights; and matrix products (section 8): a chain of fused steps."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np

from . import exact
from .floats import compute_type, store, widen
from .quantize import Rule
from .sums import stripe


def quantized_linear(problem, x, x_scale, weight, weight_scale, bias):
    name = problem.outputs["y"].dtype
    ct = compute_type(name)
    acc = x.astype(np.int64) @ weight.astype(np.int64).T
    scales = widen(x_scale, ct).reshape(-1, 1) * widen(weight_scale, ct).reshape(1, -1)
    y = acc.astype(ct) * scales
    if bias is not None:
        y = y + widen(bias, ct).reshape(1, -1)
    return [store(y, name)]


def quantized_linear_per_group(problem, x, x_scale, x_zero, weight, scale, zero, bias):
    name = problem.outputs["y"].dtype
    ct = compute_type(name)
    x, x_scale = less(ct, x, x_zero), widen(x_scale, ct)
    size, y = problem.values["group_size"], np.zeros((x.shape[0], weight.shape[0]), ct)
    scale, zero = widen(scale, ct), None if zero is None else widen(zero, ct)
    for g, k in enumerate(range(0, x.shape[1], size)):
        w = less(ct, weight[:, k : k + size], None if zero is None else zero[:, g])
        term = (x[:, k : k + size] @ w.T).astype(ct) * (x_scale[:, None] * scale[None, :, g])
        y = y + term if g else term
    if bias is not None:
        y = y + widen(bias, ct)
    return [store(y, name)]


def less(ct, codes, zero):
    """Codes less their zero points, which are bounded by all codes of the type, as integers."""
    codes_of, codes = np.iinfo(codes.dtype), codes.astype(np.int64)
    if zero is None:
        return codes
    zero = np.nan_to_num(np.rint(widen(zero, ct)), nan=0, posinf=codes_of.max, neginf=codes_of.min)
    return codes - np.clip(zero, codes_of.min, codes_of.max).astype(np.int64)[:, None]


def weights(problem, ct, weight, scale, zero_point):
    """What codes in groups along their rows stand for."""
    codes = np.iinfo(weight.dtype)
    values = {"qmin": codes.min, "qmax": codes.max, "group_size": problem.values["group_size"]}
    groups = SimpleNamespace(values=values, granularity="per_group")
    return Rule(groups, ct, weight.shape, scale, zero_point).dequantize(weight)


def weight_only_linear(problem, x, weight, scale, zero_point, bias):
    name = problem.outputs["y"].dtype
    ct = compute_type(name)
    y = stripe(widen(x, ct)[:, None, :] * weights(problem, ct, weight, scale, zero_point))
    if bias is not None:
        y = y + widen(bias, ct)
    return [store(y, name)]


def matmul(problem, a, b, bias):
    name = problem.outputs["y"].dtype
    ct = compute_type(name)
    a, b = widen(a, ct), widen(b, ct)
    y = np.zeros((*a.shape[:-1], b.shape[-1]), ct)
    for k in range(a.shape[-1]):
        y = fused(a[..., k, None], b[..., k, None, :], y)
    if bias is not None:
        with np.errstate(all="ignore"):
            y = y + widen(bias, ct)
    return [store(y, name)]


def fused(a, b, c):
    """a * b + c, rounded once."""
    a, b, c = np.broadcast_arrays(a, b, c)
    with np.errstate(all="ignore"):
        if c.dtype == np.float32:
            return fused32(a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64))
        out = a * b + c  # right where something is infinite or NaN
    for i in np.ndindex(out.shape):
        if np.isfinite(a[i]) and np.isfinite(b[i]) and np.isfinite(c[i]):
            total = exact.round_to(Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i])), "f64")
            # A chain begins with +0, so that a zero is +0 unless a sum of zeros says otherwise.
            out[i] = float(total) if total != 0 else out[i] * 0
    return out


def fused32(product, c):
    """The exact product plus c as float32: the sum in float64 is cut towards zero with the last bit set
    where it is not exact, so that no tie is lost."""
    total = product + c
    part = total - product
    rest = (product - (total - part)) + (c - part)
    bits = np.ascontiguousarray(total).view(np.int64)
    away = (rest != 0) & np.isfinite(rest) & ((rest > 0) != (total > 0))
    bits = np.where((rest != 0) & np.isfinite(rest), (bits - away) | 1, bits)
    return bits.view(np.float64).astype(np.float32).reshape(total.shape)
