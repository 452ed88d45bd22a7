"""Quantize, dequantize, fake-quantize, their backwards, dynamic parameters (contract, section 3)."""

import numpy as np

from .floats import FLOAT8, FLOATS, compute_type, dtype_name, round_float8, scalar, store, store_codes, widen
from .granularity import Groups


class Rule:
    """The parameters of one problem, in its compute type, spread over the elements."""

    def __init__(self, problem, ct, shape, scale, zero_point):
        v = problem.values
        self.ct = ct
        self.groups = Groups(shape, problem.granularity, v)
        # As f64, which holds every i32.
        self.qmin, self.qmax = np.float64(v["qmin"]), np.float64(v["qmax"])
        self.reciprocal = v.get("rounding", "nearest") == "reciprocal"
        self.float8 = v.get("code") if v.get("code") in FLOAT8 else None
        self.scale = widen(scale, ct).reshape(-1)
        self.s = self.groups.spread(self.scale)
        self.z = self.groups.spread(self.usable_zero_point(zero_point))

    def bound(self, t):
        """Into [qmin, qmax]; what lies within stays as it is."""
        low = np.where(t < self.qmin, self.qmin, t.astype(np.float64))
        return np.where(low > self.qmax, self.qmax, low)

    def clamp(self, t):
        """Into [qmin, qmax], never -0."""
        return self.bound(t) + 0.0

    def usable_zero_point(self, zero_point):
        if zero_point is None:
            return np.zeros(self.groups.count, self.ct)
        z = widen(zero_point, self.ct).reshape(-1)
        if dtype_name(zero_point) not in FLOATS:
            return z
        z = np.rint(z)
        return self.clamp(np.where(np.isnan(z), self.ct(0), z)).astype(self.ct)

    def quotient(self, x):
        """x / s, as a division unless the problem asks for the rounded reciprocal."""
        if self.reciprocal:
            return x * (self.ct(1) / self.s)
        return x / self.s

    def quantize(self, x):
        """The codes, exact, as f64."""
        if self.float8:
            return round_float8(self.bound(self.quotient(x)), self.float8)
        t = np.rint(self.quotient(x)) + self.z
        return self.clamp(np.where(np.isnan(t), self.z, t))

    def less_zero(self, q):
        """q - z, rounded once. Of i32 codes it is exact in f64."""
        codes = q if dtype_name(q) == "i32" else widen(q, self.ct)
        return (codes - self.z.astype(np.float64)).astype(self.ct)

    def dequantize(self, q):
        return self.less_zero(q) * self.s

    def classes(self, x):
        """The masks inside, below, above by bounds in the compute type; an element in none of them is nan."""
        low, high = self.ct(self.qmin), self.ct(self.qmax)
        t = self.quotient(x) if self.float8 else np.rint(self.quotient(x)) + self.z
        return (low <= t) & (t <= high), t < low, t > high


def quantize(problem, x, scale, zero_point):
    ct = compute_type(dtype_name(x))
    rule = Rule(problem, ct, x.shape, scale, zero_point)
    return [store_codes(rule.quantize(widen(x, ct)), problem.outputs["q"].dtype)]


def quantize_backward(problem, grad_output, x, scale, zero_point):
    ct = compute_type(dtype_name(x))
    rule = Rule(problem, ct, x.shape, scale, zero_point)
    inside, _, _ = rule.classes(widen(x, ct))
    dx = np.where(inside, widen(grad_output, ct) / rule.s, ct(0))
    return [store(dx, problem.outputs["grad_input"].dtype)]


def dequantize(problem, q, scale, zero_point):
    name = problem.outputs["y"].dtype
    ct = compute_type(name)
    rule = Rule(problem, ct, q.shape, scale, zero_point)
    return [store(rule.dequantize(q), name)]


def dequantize_backward(problem, grad_output, q, scale, zero_point):
    ct = compute_type(dtype_name(grad_output))
    rule = Rule(problem, ct, grad_output.shape, scale, zero_point)
    dy = widen(grad_output, ct)
    out = problem.outputs
    grad_input = grad_scale = grad_zero_point = None
    if out["grad_input"]:
        grad_input = store(dy * rule.s, out["grad_input"].dtype)
    if out["grad_scale"]:
        ds = rule.groups.sums(dy * rule.less_zero(q))
        grad_scale = store(ds, out["grad_scale"].dtype).reshape(scale.shape)
    if out["grad_zero_point"]:
        dz = ct(0) - rule.scale * rule.groups.sums(dy)
        grad_zero_point = store(dz, out["grad_zero_point"].dtype).reshape(zero_point.shape)
    return [grad_input, grad_scale, grad_zero_point]


def fake_quantize(problem, x, scale, zero_point):
    ct = compute_type(dtype_name(x))
    rule = Rule(problem, ct, x.shape, scale, zero_point)
    codes = rule.quantize(widen(x, ct))
    return [store(rule.dequantize(codes), problem.outputs["y"].dtype)]


def fake_quantize_backward(problem, grad_output, x, scale, zero_point):
    ct = compute_type(dtype_name(x))
    rule = Rule(problem, ct, x.shape, scale, zero_point)
    dy, x = widen(grad_output, ct), widen(x, ct)
    inside, below, above = rule.classes(x)
    g = scalar(problem.values.get("grad_factor", 1.0), ct)
    out = problem.outputs
    grad_input = grad_scale = grad_zero_point = None
    if out["grad_input"]:
        grad_input = store(np.where(inside, dy, ct(0)), out["grad_input"].dtype)
    if out["grad_scale"]:
        v = rule.quotient(x)
        whole = round_float8(v, rule.float8).astype(ct) if rule.float8 else np.rint(v)
        e = np.where(inside, whole - v, np.where(below, ct(rule.qmin) - rule.z, ct(rule.qmax) - rule.z))
        terms = np.where(inside | below | above, dy * e, ct(0))
        ds = rule.groups.sums(terms) * g
        grad_scale = store(ds, out["grad_scale"].dtype).reshape(scale.shape)
    if out["grad_zero_point"]:
        outside = rule.groups.sums(np.where(below | above, dy, ct(0)))
        dz = (ct(0) - rule.scale * outside) * g
        grad_zero_point = store(dz, out["grad_zero_point"].dtype).reshape(zero_point.shape)
    return [grad_input, grad_scale, grad_zero_point]


def qparams(problem, x):
    """Scale and zero point of each group, in the compute type."""
    ct = compute_type(dtype_name(x))
    groups = Groups(x.shape, problem.granularity, problem.values)
    qmin, qmax = scalar(problem.values["qmin"], ct), scalar(problem.values["qmax"], ct)
    x, eps = widen(x, ct), scalar(problem.values.get("eps", 0.0), ct)

    def raised(s):
        s = np.where(s == 0, ct(1), s)
        return np.where(s < eps, eps, s)

    if problem.values.get("symmetric", True):
        s = groups.extreme(np.abs(x), np.maximum) / qmax
        return groups, raised(s), np.zeros(groups.count, ct)
    low, high = groups.extreme(x, np.minimum), groups.extreme(x, np.maximum)
    s = (high - low) / (qmax - qmin)
    s = raised(s)
    z = np.rint(qmin - low / s)
    z = np.where(np.isnan(z), ct(0), z)
    return groups, s, np.clip(z, qmin, qmax) + ct(0)


def choose_qparams(problem, x):
    groups, s, z = qparams(problem, x)
    scale = store(s, problem.outputs["scale"].dtype).reshape(groups.shape)
    zero_point = problem.outputs["zero_point"]
    if zero_point:
        zero_point = store_codes(z, zero_point.dtype).reshape(groups.shape)
    return [scale, zero_point]


def dynamic_quantize(problem, x):
    ct = compute_type(dtype_name(x))
    groups, _, z = qparams(problem, x)
    scale, zero_point = choose_qparams(problem, x)
    rule = Rule(problem, ct, x.shape, scale, None)
    rule.z = groups.spread(z)
    q = store_codes(rule.quantize(widen(x, ct)), problem.outputs["q"].dtype)
    return [q, scale, zero_point]
