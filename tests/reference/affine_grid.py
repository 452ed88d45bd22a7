"""affine_grid and its backward (contract, section 6)."""

import numpy as np

from .floats import compute_type, dtype_name, store, widen
from .sums import stripe


def base(size, align_corners, ct):
    """The base coordinates of one axis."""
    i = np.arange(size, dtype=np.int64)
    if not align_corners:
        return (2 * i + 1).astype(ct) / ct(size) - ct(1)
    if size == 1:
        return np.zeros(1, ct)
    return (2 * i).astype(ct) / ct(size - 1) - ct(1)


def bases(sizes, align_corners, ct):
    """Per axis x, y[, z], its base coordinate at every output position of `sizes` ([D,] H, W)."""
    return [
        np.broadcast_to(
            base(size, align_corners, ct).reshape([-1 if a == axis else 1 for a in range(len(sizes))]),
            sizes,
        )
        for axis, size in reversed(list(enumerate(sizes)))
    ]


def affine_grid(problem, theta):
    spec = problem.outputs["grid"]
    ct = compute_type(dtype_name(theta))
    sizes = spec.shape[1:-1]
    axes = bases(sizes, problem.values.get("align_corners", False), ct)
    t = widen(theta, ct)
    grid = np.empty(spec.shape, ct)
    for n in range(spec.shape[0]):
        for row in range(len(sizes)):
            out = t[n, row, 0] * axes[0] + t[n, row, 1] * axes[1]
            if len(sizes) == 3:
                out = out + t[n, row, 2] * axes[2]
            grid[n, ..., row] = out + t[n, row, len(sizes)]
    return [store(grid, spec.dtype)]


def affine_grid_backward(problem, grad_grid):
    ct = compute_type(dtype_name(grad_grid))
    n, *sizes, rows = grad_grid.shape
    axes = bases(sizes, problem.values.get("align_corners", False), ct)
    axes.append(np.ones(sizes, ct))
    dgrid = widen(grad_grid, ct)
    theta = np.empty((n, rows, rows + 1), ct)
    for image in range(n):
        for row in range(rows):
            for column, b in enumerate(axes):
                theta[image, row, column] = stripe((dgrid[image, ..., row] * b).reshape(-1))
    return [store(theta, problem.outputs["grad_theta"].dtype)]
