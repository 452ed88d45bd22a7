"""matmul: products of vectors, of matrices and of batches of them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .._autocast import narrowed
from .._checks import check_dense, check_device, check_floats
from .._composite import Composite
from .._errors import ArgumentError
from .._gradient import asked, none_for_none, save_for_jvp
from .._jagged import has_rows, of_values
from .._known import is_true
from .._out import copy_out
from .._transforms import wants_derivative
from ._product import KINDS, OP, are_plain, as_matrix, attempt, direct_matrices, direct_rows, product, shaped


def check_alike(op: str, **named: Tensor) -> None:
    (first, x), (second, y) = named.items()
    check_device(op, second, y, first, x.device)
    check_floats(op, **{first: x})
    if x.dtype != y.dtype:
        raise ArgumentError(f"{op}: {second} is {y.dtype}; want {x.dtype}, as {first} is")


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two tensors, as ``torch.matmul``: of vectors, of matrices, or of the matrices that the last two
    dimensions hold, with the others broadcast.

    Every element is one chain ``acc = fma(input[m, k], other[k, n], acc)`` over k ascending from 0, in float32 for
    16-bit types: the same bits for every shape around it, on every machine. Both are of one float dtype, which is
    the result's, too (within autocast, and without ``out``: autocast's). ``out`` takes a copy of the result. The
    gradients are such products, too, of a broadcast matrix one over all the matrices that it met."""
    if out is None and (y := direct_matrices(input, other, None, transposed=False)) is not NotImplemented:
        return y
    if out is None and are_plain(input, other):
        y = NotImplemented
        if other.dim() == 2:
            y = direct_rows(input, other, None)
        elif other.dim() == 1 and input.dim():
            y = direct_matrices(input, other[:, None], None, transposed=False)
            y = y if y is NotImplemented else shaped(y, input.shape[:-1])
        elif input.dim() == other.dim() > 2:
            y = attempt(OP.direct, input, other, None)
            if y is NotImplemented and input.shape[:-2] == other.shape[:-2]:  # which may lie apart: they are copied
                y = attempt(product, input, other)
        if y is not NotImplemented:
            return y
    if has_rows(input) and type(other) in KINDS and other.dim() == 2:
        return of_values("matmul", lambda values: matmul(values, other), input, out)
    check_dense("matmul", input=input, other=other)
    if out is not None:
        return copy_out("matmul", out, matmul, input, other)
    input, other = narrowed(input, other)
    check_alike("matmul", input=input, other=other)
    if input.dim() == 0 or other.dim() == 0:
        name, t = ("input", input) if input.dim() == 0 else ("other", other)
        raise ArgumentError(f"matmul: {name} has shape {list(t.shape)}; want 1 dimension at least")
    x = input[None] if input.dim() == 1 else input
    w = other[:, None] if other.dim() == 1 else other
    if is_true(x.shape[-1] != w.shape[-2]):
        shapes = f"other has shape {list(other.shape)}"
        raise ArgumentError(
            f"matmul: {shapes}; want an extent of {x.shape[-1]} to go with input of {list(input.shape)}"
        )
    y = _batched(x, w)
    if input.dim() > 1 and other.dim() > 1:
        return y
    rows, columns = y.shape[-2:-1] if input.dim() > 1 else (), y.shape[-1:] if other.dim() > 1 else ()
    return shaped(y, (*y.shape[:-2], *rows, *columns))


def _batched(x: Tensor, w: Tensor) -> Tensor:
    if w.dim() == 2:  # one product of all rows
        return shaped(product(as_matrix(x), w), (*x.shape[:-1], w.shape[1]))
    try:
        torch.broadcast_shapes(x.shape[:-2], w.shape[:-2])
    except RuntimeError:
        shapes = f"other has dimensions {list(w.shape[:-2])} before its matrices"
        raise ArgumentError(f"matmul: {shapes}; want ones that go with input's {list(x.shape[:-2])}") from None
    if x.dim() == w.dim() and all(is_true(i == j) for i, j in zip(x.shape[:-2], w.shape[:-2], strict=True)):
        return product(x, w)
    y: Tensor = (_BROADCAST if wants_derivative(x, w) else _broadcast)(x, w)
    return y


def _broadcast(x: Tensor, w: Tensor) -> Tensor:
    batch = torch.broadcast_shapes(x.shape[:-2], w.shape[:-2])
    return product(x.expand(*batch, *x.shape[-2:]), w.expand(*batch, *w.shape[-2:]))


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)
    save_for_jvp(ctx, *inputs)


@none_for_none
def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, w = ctx.saved_tensors
    of_x, of_w = asked(ctx, grad)
    grad_x = _summed_to(x.shape, grad, w.transpose(-1, -2)) if of_x else None
    grad_w = _summed_to(w.shape, x.transpose(-1, -2), grad) if of_w else None
    return grad_x, grad_w


def _jvp(ctx: Any, x_t: Tensor | None, w_t: Tensor | None) -> Tensor:
    x, w = ctx.saved_tensors
    terms = [] if x_t is None else [_batched(x_t, w)]
    terms += [] if w_t is None else [_batched(x, w_t)]
    return terms[0] + terms[1] if len(terms) > 1 else terms[0]


# The product of matrices whose batches broadcast. The gradient of a matrix that met several is one chain over all of
# them, row-major: torch's sum over an expanded tensor depends on the number of threads.
_BROADCAST = Composite(
    "broadcast_matmul(Tensor input, Tensor other) -> Tensor", _broadcast, _setup_context, _backward, _jvp
)


def _summed_to(shape: torch.Size, left: Tensor, right: Tensor) -> Tensor:
    """The products of two batches of matrices, summed over the batch dimensions that have the extent 1 in shape. These
    become part of the inner dimension, so that a sum is one chain."""
    rank = max(left.dim(), right.dim()) - 2
    left, right = (t.reshape(*[1] * (rank + 2 - t.dim()), *t.shape) for t in (left, right))
    own = (*[1] * (rank + 2 - len(shape)), *shape)
    summed = [i for i in range(rank) if own[i] == 1 and (left.shape[i] != 1 or right.shape[i] != 1)]
    rest = [i for i in range(rank) if i not in summed]
    inner = math.prod([left.shape[i] for i in summed]) * left.shape[-1]
    left = left.permute(*rest, rank, *summed, rank + 1)
    right = right.permute(*rest, *summed, rank, rank + 1)
    y = _batched(
        left.reshape(*left.shape[: len(rest) + 1], inner),
        right.reshape(*right.shape[: len(rest)], inner, right.shape[-1]),
    )
    return y.reshape(shape)
