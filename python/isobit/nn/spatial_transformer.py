"""A spatial transformer over affine_grid and grid_sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._checks import check_dense, check_kinds, spell
from .._errors import ArgumentError
from ..ops.affine_grid import affine_grid
from ..ops.grid_sample import grid_sample

# torch.fx.symbolic_trace records the call.
torch.fx.wrap("affine_grid")
torch.fx.wrap("grid_sample")


def _check_image(input: Tensor) -> None:
    if isinstance(input, torch.fx.Proxy):
        return
    check_dense("SpatialTransformer", input=input)
    if input.dim() != 4:
        raise ArgumentError(f"SpatialTransformer: input has shape {list(input.shape)}; want [N, C, H, W]")


def _maps(theta: Any, input: Tensor) -> Tensor:
    """What localisation found, as [N, 2, 3]."""
    if not isinstance(theta, torch.fx.Proxy):
        check_dense("SpatialTransformer", **{"localisation's result": theta})
        if theta.dim() == 0 or theta.shape[0] != input.shape[0] or theta.numel() != 6 * input.shape[0]:
            raise ArgumentError(
                f"SpatialTransformer: localisation gives shape {list(theta.shape)} for an input of {list(input.shape)}; "
                f"want [{input.shape[0]}, 6] or [{input.shape[0]}, 2, 3]"
            )
    return theta.reshape(-1, 2, 3)


class SpatialTransformer(torch.nn.Module):
    """Warps an image by an affine map that ``localisation`` finds in it.

    localisation: a module, or another callable, from [N, C, H, W] to [N, 6] or [N, 2, 3]. Its last layer should start
    with a weight of 0 and ``identity()`` as its bias, so that training starts from no warp.
    size: the result's (H, W); the input's unless given. The other arguments are grid_sample's."""

    def __init__(
        self,
        localisation: Callable[[Tensor], Tensor],
        size: tuple[int, int] | None = None,
        *,
        mode: str = "bilinear",
        padding_mode: str = "zeros",
        align_corners: bool = False,
    ) -> None:
        super().__init__()
        if not callable(localisation):
            kind = type(localisation).__name__
            raise TypeError(
                f"SpatialTransformer: localisation must be a torch.nn.Module or another callable, not {kind}"
            )
        check_kinds("SpatialTransformer", "l?", size=size)
        if size is not None and (len(size) != 2 or min(size) < 1):
            raise ArgumentError(f"SpatialTransformer: size is {spell(size)}; want a height and a width of at least 1")
        self.localisation = localisation
        self.size = size
        self.mode = mode
        self.padding_mode = padding_mode
        self.align_corners = align_corners

    @staticmethod
    def identity() -> Tensor:
        """The map that changes nothing, [6]."""
        return torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0])

    def forward(self, input: Tensor) -> Tensor:
        _check_image(input)
        return self.warp(input, _maps(self.localisation(input), input))

    def warp(self, input: Tensor, theta: Tensor) -> Tensor:
        """The input under given maps [N, 2, 3]."""
        _check_image(input)
        height, width = self.size or input.shape[-2:]
        grid = affine_grid(theta, [input.shape[0], input.shape[1], height, width], self.align_corners)
        return grid_sample(input, grid, self.mode, self.padding_mode, self.align_corners)

    def extra_repr(self) -> str:
        return (
            f"size={self.size}, mode={self.mode}, padding_mode={self.padding_mode}, align_corners={self.align_corners}"
        )
