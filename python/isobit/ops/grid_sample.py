"""grid_sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .._autocast import widened
from .._checks import check_dense, spell
from .._errors import ArgumentError
from .._gradient import asked, save_for_jvp
from .._op import LIBRARY, Op
from .._out import write_out
from .._vmap import vmap_fold

_ATTRIBUTES = "str mode='bilinear', str padding_mode='zeros', bool align_corners=False"
_SAMPLE = Op(
    f"grid_sample(Tensor input, Tensor grid, {_ATTRIBUTES}) -> Tensor",
    "grid_sample",
    "input[]~ grid[]~",
    "mode:s padding_mode:s align_corners:b",
    "y = input[:2] grid[1:-1] : input",
)
_SAMPLE_BACKWARD = Op(
    f"grid_sample_backward(Tensor grad_output, Tensor input, Tensor grid, {_ATTRIBUTES}, "
    "bool want_input=True, bool want_grid=True) -> (Tensor, Tensor)",
    "grid_sample_backward",
    "grad_output[] input[] grid[]",
    "mode:s padding_mode:s align_corners:b want_input:w want_grid:w",
    "grad_input = input : input if want_input",
    "grad_grid = grid : grid if want_grid",
)
_SAMPLE_DOUBLE = Op(
    "grid_sample_double_backward(Tensor grad_output, Tensor input, Tensor grid, Tensor? grad_grad_input, "
    f"Tensor? grad_grad_grid, {_ATTRIBUTES}, bool want_grad_output=True, bool want_input=True, bool want_grid=True) "
    "-> (Tensor, Tensor, Tensor)",
    "grid_sample_double_backward",
    "grad_output[] input[] grid[] grad_grad_input? grad_grad_grid?",
    "mode:s padding_mode:s align_corners:b want_grad_output:w want_input:w want_grid:w",
    "grad_grad_output = grad_output : grad_output if want_grad_output",
    "grad_input = input : input if want_input",
    "grad_grid = grid : grid if want_grid",
)


def _sample_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:2])
    save_for_jvp(ctx, *inputs[:2])
    ctx.attributes = inputs[2:]


def _sample_backward(ctx: Any, grad_output: Tensor) -> tuple[Any, ...]:
    wants = asked(ctx, grad_output, many=1 << 16)[:2]
    grads = _SAMPLE_BACKWARD.with_gradient(grad_output, *ctx.saved_tensors, *ctx.attributes, *wants)
    return (*grads, None, None, None)


def _sample_second(ctx: Any, upstream: tuple[Tensor], grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    given = iter(grads)
    of_input, of_grid = (next(given) if wanted else None for wanted in ctx.needs_input_grad[:2])
    by_input, by_grid, by_output = ctx.wanted
    tensors, wants = (*upstream, *ctx.saved_tensors), (by_output, by_input, by_grid)
    d_output, d_input, d_grid = _second(tensors, of_input, of_grid, ctx.attributes, wants)
    return d_input, d_grid, d_output


def _second(
    tensors: Sequence[Tensor], of_input: Tensor | None, of_grid: Tensor | None, attributes: Any, wants: tuple[bool, ...]
) -> tuple[Tensor | None, ...]:
    """The gradients of grad_output, input and grid from those of grid_sample_backward's results."""
    if of_grid is not None:
        return _SAMPLE_DOUBLE(*tensors, of_input, of_grid, *attributes, *wants)
    # The same from ops that have fast rows: this gradient does not depend on input.
    grad_output, _, grid = tensors
    d_output = _SAMPLE(of_input, grid, *attributes) if wants[0] else None
    if d_output is not None and attributes[0] == "nearest":
        d_output.add_(0.0)  # a sum is never -0
    d_grid = _SAMPLE_BACKWARD(grad_output, of_input, grid, *attributes, False, True)[1] if wants[2] else None
    return d_output, None, d_grid


def _along(tensors: Sequence[Tensor], attributes: Any, given: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """How grid_sample_backward's results change along tangents of its arguments. Second derivatives are symmetric: along
    those of input and grid they do by what is given to these, to which that of grad_output adds its own gradients."""
    by_output, by_input, by_grid = given
    d_input = d_grid = None
    if by_input is not None or by_grid is not None:
        _, d_input, d_grid = _second(tensors, by_input, by_grid, attributes, (False, True, True))
        if d_input is None:
            d_input = torch.zeros_like(tensors[1])
    if by_output is not None:
        first = _SAMPLE_BACKWARD.with_gradient(by_output, *tensors[1:], *attributes, True, True)
        d_input, d_grid = (f if d is None else d + f for d, f in zip((d_input, d_grid), first, strict=True))
    return d_input, d_grid


def _sample_third(ctx: Any, upstream: tuple[Tensor], grads: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    by_input, by_grid, by_output = grads
    changes = _along((*upstream, *ctx.saved_tensors), ctx.attributes, (by_output, by_input, by_grid))
    return tuple(d for d, wanted in zip(changes, ctx.needs_input_grad, strict=False) if wanted)


def _backward_setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:3])
    save_for_jvp(ctx, *inputs[:3])
    ctx.attributes, ctx.wants = inputs[3:6], inputs[6:]
    ctx.set_materialize_grads(False)


def _backward_backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
    of_input, of_grid = (g if wanted else None for g, wanted in zip(grads, ctx.wants, strict=True))
    if of_input is None and of_grid is None:
        return (None,) * 8
    wants = tuple(ctx.needs_input_grad[:3])
    return *_second(ctx.saved_tensors, of_input, of_grid, ctx.attributes, wants), *[None] * 5


def _backward_jvp(ctx: Any, *tangents: Any) -> tuple[Tensor | None, ...]:
    changes = _along(ctx.saved_tensors, ctx.attributes, tangents[:3])
    return tuple(d if wanted else None for d, wanted in zip(changes, ctx.wants, strict=True))


def _sample_jvp(ctx: Any, image: Tensor | None, shift: Tensor | None, *_: Any) -> Tensor:
    """The tangent of the result, of those of input and grid: computed in the compute type, rounded once."""
    input, grid = ctx.saved_tensors
    wide = torch.promote_types(input.dtype, torch.float32)
    tangent = input.new_zeros((), dtype=wide)
    if image is not None:
        tangent = tangent + _SAMPLE.apply(image.to(wide), grid.to(wide), *ctx.attributes)
    if shift is not None:  # the slopes of a channel are the gradient of the grid where it is the only one
        planes = input.to(wide).flatten(0, 1)[:, None]
        grids = grid.to(wide).repeat_interleave(input.shape[1], 0)
        ones = planes.new_ones(*planes.shape[:2], *grid.shape[1:-1])
        slopes = _SAMPLE_BACKWARD.with_gradient(ones, planes, grids, *ctx.attributes, False, True)[1]
        slopes = slopes.unflatten(0, input.shape[:2])
        for axis in range(grid.shape[-1]):
            tangent = tangent + slopes[..., axis] * shift[:, None, ..., axis].to(wide)
    return tangent.to(input.dtype)


_SAMPLE.differentiable(_sample_setup, _sample_backward, _sample_jvp, _sample_second, _sample_third)
_SAMPLE_BACKWARD.differentiable(_backward_setup, _backward_backward, _backward_jvp)
_SAMPLE_DOUBLE.not_differentiable()
vmap_fold(_SAMPLE, data=(0, 1))
vmap_fold(_SAMPLE_BACKWARD, data=(0, 1, 2))
vmap_fold(_SAMPLE_DOUBLE, data=(0, 1, 2, 3, 4))


def _within_autocast(input: Tensor, grid: Tensor) -> tuple[Tensor, ...]:
    return widened(input, grid, promotes_on="cuda")


def _autocast(key: str) -> None:
    """Autocast for who calls torch.ops.isobit.grid_sample itself."""
    keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))

    def kernel(input: Tensor, grid: Tensor, *attributes: Any) -> Tensor:
        tensors = _within_autocast(input, grid)
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return _SAMPLE.raw(*tensors, *attributes)

    LIBRARY.impl("grid_sample", kernel, key)


_autocast("AutocastCPU")
_autocast("AutocastCUDA")

_sample = _SAMPLE.direct


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """``input`` [N, C, H, W] read at the positions ``grid`` [N, OH, OW, 2]: [N, C, OH, OW] in input's dtype.
    Or volumes [N, C, D, H, W] at positions [N, OD, OH, OW, 3].

    As ``torch.nn.functional.grid_sample``; ``align_corners`` is False unless given. mode: bilinear,
    nearest or bicubic; padding_mode: zeros, border or reflection. A float32 grid may go with a
    16-bit image; within autocast both are float32, on CUDA where one of them is. A position that is NaN or
    infinite reads nothing (zeros) or a pixel of the border (bicubic with reflection: pixel 0 and those around
    it). Extents of images are at most 2^24 where float32 computes, whose pixels it tells apart.

    >>> to_the_right = torch.tensor([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.0]]])
    >>> grid = isobit.affine_grid(to_the_right, [1, 1, 2, 2])
    >>> isobit.grid_sample(torch.tensor([[[[0.0, 1.0], [2.0, 3.0]]]]), grid).tolist()
    [[[[0.5, 0.5], [2.5, 1.5]]]]
    """
    corners = align_corners is not None and align_corners
    if not is_dynamo_compiling():
        y = _sample(input, grid, mode, padding_mode, corners, out)
        if y is not NotImplemented:
            return y
    check_dense("grid_sample", input=input, grid=grid)
    input, grid = _within_autocast(input, grid)
    if out is not None:
        return write_out(_SAMPLE, out, input, grid, mode, padding_mode, corners)
    return _SAMPLE.apply(input, grid, mode, padding_mode, corners)


def _mask(op: str, mask: Any, *names: str) -> tuple[bool, ...]:
    wants = tuple(mask) if isinstance(mask, Sequence) else ()
    if len(wants) != len(names) or not all(isinstance(w, bool) for w in wants) or not any(wants):
        want = f"want {len(names)} bools, for {', '.join(names[:-1])} and {names[-1]}, one of them True"
        raise ArgumentError(f"{op}: output_mask is {spell(mask)}; {want}")
    return wants


def grid_sample_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
    output_mask: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of input and grid, in their shapes and dtypes, from that of the samples, [N, C, OH, OW] or
    [N, C, OD, OH, OW]; None for one that output_mask leaves out. The other arguments are grid_sample's."""
    wants = _mask("grid_sample_backward", output_mask, "input", "grid")
    corners = align_corners is not None and align_corners
    return _SAMPLE_BACKWARD.with_gradient(grad_output, input, grid, mode, padding_mode, corners, *wants)


def grid_sample_double_backward(
    grad_output: Tensor,
    input: Tensor,
    grid: Tensor,
    grad_grad_input: Tensor | None,
    grad_grad_grid: Tensor | None,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
    output_mask: Sequence[bool] = (True, True, True),
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of grad_output, input and grid, in their shapes and dtypes, from those of what
    ``grid_sample_backward`` gives, one of which may be None; None for one that output_mask leaves out. With L the
    sum of each of its results times what is given for it: the derivatives of L. The others are grid_sample's."""
    wants = _mask("grid_sample_double_backward", output_mask, "grad_output", "input", "grid")
    corners = align_corners is not None and align_corners
    given = (grad_output, input, grid, grad_grad_input, grad_grad_grid)
    return _SAMPLE_DOUBLE(*given, mode, padding_mode, corners, *wants)
