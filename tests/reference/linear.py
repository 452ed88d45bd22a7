"""Quantized linear (contract, section 7): exact integer sums, then three rounded steps."""

import numpy as np

from .floats import compute_type, store, widen


def quantized_linear(problem, x, x_scale, weight, weight_scale, bias):
    name = problem.outputs["y"].dtype
    ct = compute_type(name)
    acc = x.astype(np.int64) @ weight.astype(np.int64).T
    scales = widen(x_scale, ct).reshape(-1, 1) * widen(weight_scale, ct).reshape(1, -1)
    y = acc.astype(ct) * scales
    if bias is not None:
        y = y + widen(bias, ct).reshape(1, -1)
    return [store(y, name)]
