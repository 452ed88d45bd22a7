"""Embedding, its backward, and max_norm (contract, section 5)."""

import numpy as np

from .floats import BF16, compute_type, dtype_name, scalar, store, widen
from .linear import weights
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


def bag_positions(problem, indices, offsets, rows):
    """For each bag the positions of the flattened indices that it keeps."""
    v = problem.values
    flat = indices.reshape(-1)
    if offsets is None:
        edges = np.arange(indices.shape[0] + 1) * indices.shape[1]
    else:
        edges = list(offsets) if v.get("include_last_offset", False) else [*offsets, flat.size]
        if edges[0] != 0 and len(offsets):
            raise IndexError("offsets do not begin at 0")
    for begin, end in zip(edges, edges[1:], strict=False):
        if not begin <= end <= flat.size:
            raise IndexError("offsets descend or exceed the indices")
    kept = ~out_of_range(flat, rows) & (flat != v.get("padding_idx", -1))
    return [[p for p in range(begin, end) if kept[p]] for begin, end in zip(edges, edges[1:], strict=False)]


def embedding_bag(problem, weight, indices, offsets, per_sample_weights):
    """Per bag the sum, mean or largest of the rows that it names."""
    v = problem.values
    rows, width = weight.shape
    if out_of_range(indices, rows).any() and v.get("bounds", "error") != "skip":
        raise IndexError(f"an index is outside [0, {rows})")
    name = dtype_name(weight)
    ct = compute_type(name)
    values, flat = widen(weight, ct), indices.reshape(-1)
    bags = bag_positions(problem, indices, offsets, rows)
    y, chosen = np.zeros((len(bags), width), ct), np.full((len(bags), width), -1, np.int64)
    mode = v.get("mode", "mean")
    for bag, positions in enumerate(bags):
        terms = values[flat[positions].astype(np.int64)]
        if per_sample_weights is not None:
            terms = terms * widen(per_sample_weights, ct).reshape(-1)[positions][:, None]
        if mode == "max":
            for column in range(width if positions else 0):
                best = first_largest(terms[:, column])
                y[bag, column], chosen[bag, column] = terms[best, column], positions[best]
            continue
        total = chunk(terms, np.zeros(width, ct))
        y[bag] = total / ct(len(positions)) if mode == "mean" and positions else total
    return [store(y, name), chosen if "chosen" in v else None]


def weight_only_embedding_bag(problem, weight, indices, offsets, per_sample_weights, scale, zero_point):
    """Bags of the rows that codes stand for."""
    name = problem.outputs["y"].dtype
    table = weights(problem, compute_type(name), weight, scale, zero_point)
    return embedding_bag(problem, store(table, name), indices, offsets, per_sample_weights)[:1]


def first_largest(values):
    """The place of the first NaN, or else of the first of the largest."""
    nans = np.flatnonzero(np.isnan(values))
    return nans[0] if len(nans) else np.flatnonzero(values == values.max())[0]


def embedding_bag_backward(problem, grad_output, indices, offsets, per_sample_weights, chosen, initial):
    v = problem.values
    spec = problem.outputs["grad_weight"]
    rows, width = spec.shape
    ct = compute_type(spec.dtype)
    dy, flat = widen(grad_output, ct), indices.reshape(-1)
    terms = [[] for _ in range(rows)]  # of each row, with the columns that they belong to
    for bag, positions in enumerate(bag_positions(problem, indices, offsets, rows)):
        for p in positions:
            term = dy[bag]
            if v.get("mode", "mean") == "mean":
                term = term / ct(len(positions))
            if per_sample_weights is not None:
                term = term * widen(per_sample_weights, ct).reshape(-1)[p]
            terms[flat[p]].append((term, chosen is None or chosen[bag] == p))
    grad = np.zeros((rows, width), ct)
    for row in range(rows):
        if chosen is None:
            grad[row] = chunk([term for term, _ in terms[row]], np.zeros(width, ct))
        else:
            for c in range(width):
                grad[row, c] = chunk([term[c] for term, columns in terms[row] if columns[c]], ct(0))
        if v.get("scale_grad_by_freq", False) and terms[row]:
            grad[row] = grad[row] / ct(len(terms[row]))
    if v.get("accumulate", False):
        grad = widen(initial[0], ct) + grad
    return [store(grad, spec.dtype)]


def embedding_bag_per_sample_weights_backward(problem, grad_output, weight, indices, offsets):
    name = dtype_name(weight)
    ct = compute_type(name)
    dy, values, flat = widen(grad_output, ct), widen(weight, ct), indices.reshape(-1)
    grad = np.zeros(flat.size, ct)
    for bag, positions in enumerate(bag_positions(problem, indices, offsets, weight.shape[0])):
        for p in positions:
            grad[p] = stripe(dy[bag] * values[flat[p]])
    return [store(grad.reshape(indices.shape), name)]


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
        elif p == float("-inf"):
            norm = np.minimum.reduce(np.abs(x), initial=ct("inf"))
        elif p == 0:
            norm = stripe((x != 0).astype(ct))
        else:
            raise NotImplementedError("other norms are close, not exact")
        if norm > max_norm:
            values[row] = x * (max_norm / (norm + ct(1e-7)))
    return [store(values, name)]
