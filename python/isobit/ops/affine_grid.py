"""affine_grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .._checks import check_dense, check_kinds
from .._errors import ArgumentError
from .._op import Op
from .._out import write_out
from .._transforms import is_traced
from .._vmap import vmap_fold

_FORWARD = Op(
    "affine_grid(Tensor theta, SymInt[] size, bool align_corners=False) -> Tensor",
    "affine_grid",
    "theta[]",
    "size:L align_corners:b",
    "grid[] = theta[:1] size[2:] theta[1:-1] : theta",
)
_BACKWARD = Op(
    "affine_grid_backward(Tensor grad_grid, SymInt[] theta_shape, bool align_corners=False) -> Tensor",
    "affine_grid_backward",
    "grad_grid[]",
    "theta_shape:L align_corners:b",
    "grad_theta = theta_shape : grad_grid",
)


def _adjoint(grad: Tensor, shape: Any, size: Any, corners: bool) -> Tensor:
    return _BACKWARD.with_gradient(grad, list(shape), corners)


def _adjoint_of_gradient(grad: Tensor, shape: Any, theta: Any, corners: bool) -> Tensor:
    return _FORWARD.with_gradient(grad, [shape[0], 1, *shape[1:-1]], corners)


def _batched(size: int, args: list[Any]) -> None:
    args[1] = [size * args[1][0], *args[1][1:]]


_FORWARD.linear(_adjoint)
_BACKWARD.linear(_adjoint_of_gradient)
vmap_fold(_FORWARD, data=(0,))  # size says how many pixels: theta, how many grids
vmap_fold(_BACKWARD, data=(0,), change=_batched)

_direct = _FORWARD.direct


def _check_size(theta: Tensor, size: Sequence[int]) -> None:
    if not isinstance(size, Sequence) or isinstance(size, (str, bytes)):
        raise TypeError(f"affine_grid: size must be a sequence of ints, not {type(size).__name__}")
    if len(size) not in (4, 5):
        raise NotImplementedError(f"affine_grid: size is {list(size)}; want [N, C, H, W] or [N, C, D, H, W]")
    if any(isinstance(extent, int) and extent < 0 for extent in size):
        raise ArgumentError(f"affine_grid: size is {list(size)}; want no negative extent")
    want = [size[0], len(size) - 2, len(size) - 1]
    if list(theta.shape) != want:
        check_kinds("affine_grid", "L", size=list(size))
        raise ArgumentError(f"affine_grid: theta has shape {list(theta.shape)}; want {want} for size {list(size)}")


def affine_grid(
    theta: Tensor,
    size: Sequence[int],
    align_corners: bool | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The grid [N, H, W, 2] of the affine maps ``theta`` [N, 2, 3], for grid_sample; of volumes [N, D, H, W, 3]
    from [N, 3, 4]. ``size`` is that of the samples, [N, C, H, W] or [N, C, D, H, W].

    As ``torch.nn.functional.affine_grid``; ``align_corners`` is False unless given, and extents may be 0, which
    torch refuses. Within autocast the grid keeps theta's type: the 8 bits of bfloat16 would misplace pixels of a
    large image."""
    corners = align_corners is not None and align_corners
    if out is None and not is_dynamo_compiling():
        y = _direct(theta, size, corners)
        if y is not NotImplemented and size[0] == theta.shape[0] and size[1] >= 0:  # the plan knows nothing of these
            return y
    check_dense("affine_grid", theta=theta)
    if is_traced():  # where extents are tensors
        size = [int(extent) for extent in size]
    _check_size(theta, size)
    if out is not None:
        y = NotImplemented if is_dynamo_compiling() else _FORWARD.fast(theta, size, corners, out)
        return write_out(_FORWARD, out, theta, size, corners) if y is NotImplemented else y
    return _FORWARD.apply(theta, list(size), corners)


def affine_grid_backward(grad_grid: Tensor, align_corners: bool | None = None) -> Tensor:
    """The gradient of theta, [N, 2, 3], from that of the grid, [N, H, W, 2]; or [N, 3, 4] from [N, D, H, W, 3]; in
    grad_grid's dtype. Each element is a sum over positions of grad_grid times a base coordinate, or 1."""
    check_dense("affine_grid_backward", grad_grid=grad_grid)
    if grad_grid.dim() == 0:
        raise ArgumentError("affine_grid_backward: grad_grid has shape []; want [N, H, W, 2] or [N, D, H, W, 3]")
    rank = grad_grid.shape[-1]
    corners = align_corners is not None and align_corners
    return _BACKWARD.with_gradient(grad_grid, [grad_grid.shape[0], rank, rank + 1], corners)
