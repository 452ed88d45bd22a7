"""Embedding, its backward, and max_norm (contract, section 5)."""

import numpy as np

from .floats import BF16, compute_type, dtype_name, scalar, store, widen
from .sums import chunk, stripe


def out_of_range(indices, rows):
    return (indices < 0) | (indices >= rows)


def embedding(problem, weight, indices):
    """Copies of rows; with bounds=skip a zero row for an index out of range."""
    rows, width = weight.shape
    bad = out_of_range(indices, rows)
    if bad.any() and problem.values.get("bounds", "error") != "skip":
        raise IndexError(f"an index is outside [0, {rows})")
    raw = weight.bits if isinstance(weight, BF16) else weight
    y = np.zeros((*indices.shape, width), raw.dtype)
    y[~bad] = raw[indices[~bad]]
    return [BF16(y) if isinstance(weight, BF16) else y]


def embedding_backward(problem, grad_output, indices, initial):
    v = problem.values
    spec = problem.outputs["grad_weight"]
    rows, width = spec.shape
    ct = compute_type(spec.dtype)
    dy = widen(grad_output, ct).reshape(indices.size, width)
    flat = indices.reshape(-1)
    kept = ~out_of_range(flat, rows) & (flat != v.get("padding_idx", -1))
    grad = np.zeros((rows, width), ct)
    for row in range(rows):
        positions = np.flatnonzero(kept & (flat == row))
        total = chunk(dy[positions], np.zeros(width, ct))
        if v.get("scale_grad_by_freq", False) and len(positions):
            total = total / ct(len(positions))
        grad[row] = total
    if v.get("accumulate", False):
        grad = widen(initial[0], ct) + grad
    return [store(grad, spec.dtype)]


def embedding_renorm(problem, weight, indices):
    """Rows whose norm exceeds max_norm, scaled down to it; each named row once."""
    v = problem.values
    name = dtype_name(weight)
    ct = compute_type(name)
    rows = weight.shape[0]
    bad = out_of_range(indices, rows)
    if bad.any() and v.get("bounds", "error") != "skip":
        raise IndexError(f"an index is outside [0, {rows})")
    values = widen(weight, ct).copy()
    max_norm = scalar(v["max_norm"], ct)
    p = v.get("norm_type", 2)
    for row in np.unique(indices[~bad]):
        x = values[row]
        if p == 2:
            norm = np.sqrt(stripe(x * x))
        elif p == 1:
            norm = stripe(np.abs(x))
        elif p == float("inf"):
            norm = np.maximum.reduce(np.abs(x), initial=ct(0))
        else:
            raise NotImplementedError("other norms are close, not exact")
        if norm > max_norm:
            values[row] = x * (max_norm / (norm + ct(1e-7)))
    return [store(values, name)]
