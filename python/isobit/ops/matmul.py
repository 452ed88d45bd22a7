"""matmul: products of float matrices, whose every element is one chain of fused steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .. import _C
from .._autocast import narrowed
from .._autograd import eager_function, elsewhere
from .._checks import check_dense, check_device, check_floats
from .._gradient import asked, no_forward_mode, none_for_none, rounded, save_for_jvp, wide_for
from .._jagged import has_rows, of_values
from .._known import is_true
from .._op import Op
from .._out import copy_out
from .._transforms import check_function, is_traced, wants_derivative
from .._vmap import Dims, front, register

_OP = Op(
    "matmul(Tensor input, Tensor other, Tensor? bias) -> Tensor",
    "matmul",
    "input[] other[] bias?",
    "",
    "y = input[:-1] other[-1:] : input",
)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, other, bias = inputs
    ctx.bias_type = None if bias is None else bias.dtype
    wanted = ctx.needs_input_grad  # where weights are frozen, no activation is kept for them
    ctx.save_for_backward(input if wanted[1] else None, other if wanted[0] else None)
    save_for_jvp(ctx, input, other)


def as_matrix(t: Tensor) -> Tensor:
    """[..., K] as [rows, K], whatever is 0, and for every kind of vmap."""
    return t if t.dim() == 2 else t.reshape(math.prod(t.shape[:-1]), t.shape[-1])


def row_sums(grad: Tensor, dtype: torch.dtype) -> Tensor:
    """The sum of the rows of a matrix, from the first to the last: the gradient of a bias of that type."""
    grad = wide_for(dtype, grad)
    return rounded(_OP.with_gradient(grad.new_ones(1, grad.shape[0]), grad, None).squeeze(0), dtype)


def product(input: Tensor, other: Tensor, bias: Tensor | None = None) -> Tensor:
    """The product of two matrices, or of each pair of some, and a bias."""
    return _OP.with_gradient(input, other, bias)


def weight_gradient(grad: Tensor, input: Tensor, dtype: torch.dtype) -> Tensor:
    """The gradient of a layer's weight of that type: the product of grad [rows, N] transposed and input [rows, K]."""
    return rounded(product(wide_for(dtype, grad).t(), wide_for(dtype, input)), dtype)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    input, other = ctx.saved_tensors
    wanted = asked(ctx, grad)
    grad_input = product(grad, other.transpose(-1, -2)) if wanted[0] else None
    grad_other = product(input.transpose(-1, -2), grad) if wanted[1] else None
    grad_bias = row_sums(as_matrix(grad), ctx.bias_type) if wanted[2] else None
    return grad_input, grad_other, grad_bias


def _jvp(ctx: Any, input_t: Tensor | None, other_t: Tensor | None, bias_t: Tensor | None) -> Tensor:
    input, other = ctx.saved_tensors
    terms = [] if input_t is None else [_OP.apply(input_t, other, None)]
    terms += [] if other_t is None else [_OP.apply(input, other_t, None)]
    if bias_t is not None:
        terms.append(bias_t.to(input.dtype).expand(*input.shape[:-1], -1))
    return torch.stack(terms).sum(0) if len(terms) > 1 else terms[0].clone()


def _vmap(size: int, in_dims: Dims, input: Tensor, other: Tensor, bias: Tensor | None) -> Any:
    if in_dims[2] is not None:
        return None
    x = front(input, in_dims[0], size)
    if x.dim() == 3 and in_dims[1] is None:
        return _OP.raw(x.flatten(0, 1), other, bias).unflatten(0, (size, x.shape[1])), 0
    w = front(other, in_dims[1], size)
    if x.dim() == 3:
        return _OP.raw(x, w, bias), 0
    return _OP.raw(x.flatten(0, 1), w.flatten(0, 1), bias).unflatten(0, (size, x.shape[1])), 0


_OP.differentiable(_setup_context, _backward, _jvp, again=True)
register(_OP, _vmap)
_direct, _transposed = _OP.direct, _OP.transposed


def _transposed_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """As `_backward`, of `input @ weight.t()`: by weight itself, with no transpose between."""
    input, weight = ctx.saved_tensors
    wanted = asked(ctx, grad)
    grad_input = product(grad, weight) if wanted[0] else None
    grad_weight = product(grad.t(), input) if wanted[1] else None
    return grad_input, grad_weight, row_sums(grad, ctx.bias_type) if wanted[2] else None


_C.set_function(
    _transposed,
    eager_function(
        "linear",
        False,
        _transposed,
        elsewhere,
        _setup_context,
        none_for_none(_transposed_backward),
        no_forward_mode("isobit::linear"),
    ),
)


KINDS = (Tensor, torch.nn.Parameter)


def is_eager() -> bool:
    """Whether nobody records the steps that lead to a direct call."""
    return not is_dynamo_compiling() and not is_traced()


def are_plain(input: Any, other: Any) -> bool:
    """Whether these are of the same floats, which nothing converts, so that the direct call may take them."""
    return (
        is_eager()
        and not torch._C._is_any_autocast_enabled()
        and type(input) in KINDS
        and type(other) in KINDS
        and input.dtype == other.dtype
        and input.is_floating_point()
    )


def attempt(call: Callable[..., Any], *args: Any) -> Any:
    """The call; NotImplemented where what follows it has to say why not, in its own words."""
    try:
        return call(*args)
    except (TypeError, ValueError, RuntimeError):
        return NotImplemented


def direct(op: Op, input: Tensor, *rest: Any) -> Any:
    """The direct call for all rows of input; NotImplemented where there is more to do or to say. Rows that are no
    matrix are made one, for nothing if a gradient is wanted: then they are left as they are."""
    whole = input.dim() == 2
    if not whole and (input.dim() == 0 or torch.is_grad_enabled()):
        return NotImplemented
    y = attempt(op.direct, as_matrix(input), *rest)
    return y if whole or y is NotImplemented else y.reshape(*input.shape[:-1], y.shape[1])


def direct_matrices(input: Any, other: Any, bias: Tensor | None, transposed: bool) -> Any:
    """The direct call of two matrices, of which the second may be transposed first; NotImplemented where there is more
    to do or to say. It comes before all checks, since it makes most of them itself."""
    if (
        is_dynamo_compiling()
        or type(input) not in KINDS
        or type(other) not in KINDS
        or input.dim() != 2
        or other.dim() != 2
        or torch._C._is_any_autocast_enabled()
        or (transposed and is_traced())  # which would record the transpose
    ):
        return NotImplemented
    try:
        y = _transposed(input, other, bias) if transposed else NotImplemented
        return _direct(input, other.t() if transposed else other, bias) if y is NotImplemented else y
    except (TypeError, ValueError, RuntimeError):
        return NotImplemented


def direct_rows(input: Tensor, other: Tensor, bias: Tensor | None) -> Any:
    """As `direct`; if input is a matrix, with its gradient."""
    y = direct(_OP, input, other, bias)
    return attempt(_OP.apply, input, other, bias) if y is NotImplemented and input.dim() == 2 else y


def check_alike(op: str, **named: Tensor) -> None:
    (first, x), (second, y) = named.items()
    check_device(op, second, y, first, x.device)
    check_floats(op, **{first: x})
    if x.dtype != y.dtype:
        raise ValueError(f"{op}: {second} is {y.dtype}; want {x.dtype}, as {first} is")


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
        elif input.dim() == other.dim() == 3:
            y = attempt(_OP.fast, input, other, None)
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
        raise ValueError(f"matmul: {name} has shape {list(t.shape)}; want 1 dimension at least")
    x = input[None] if input.dim() == 1 else input
    w = other[:, None] if other.dim() == 1 else other
    if is_true(x.shape[-1] != w.shape[-2]):
        shapes = f"other has shape {list(other.shape)}"
        raise ValueError(f"matmul: {shapes}; want an extent of {x.shape[-1]} to go with input of {list(input.shape)}")
    y = _batched(x, w)
    y = y.squeeze(-1) if other.dim() == 1 else y
    return y.squeeze(-2 if other.dim() > 1 else -1) if input.dim() == 1 else y


def _batched(x: Tensor, w: Tensor) -> Tensor:
    if w.dim() == 2:  # one product of all rows
        return product(as_matrix(x), w).reshape(*x.shape[:-1], w.shape[1])
    try:
        torch.broadcast_shapes(x.shape[:-2], w.shape[:-2])
    except RuntimeError:
        shapes = f"other has dimensions {list(w.shape[:-2])} before its matrices"
        raise ValueError(f"matmul: {shapes}; want ones that go with input's {list(x.shape[:-2])}") from None
    if x.dim() == w.dim() and all(is_true(i == j) for i, j in zip(x.shape[:-2], w.shape[:-2], strict=True)):
        return _in_pairs(x, w)
    if is_dynamo_compiling() or wants_derivative(x, w):
        check_function()
        y: Tensor = (_Broadcast if is_dynamo_compiling() else _Eager).apply(x, w)
        return y
    return _Broadcast.forward(x, w)


def _in_pairs(x: Tensor, w: Tensor) -> Tensor:
    batch, many = x.shape[:-2], math.prod(x.shape[:-2])
    y = product(x.reshape(many, *x.shape[-2:]), w.reshape(many, *w.shape[-2:]))
    return y.reshape(*batch, *y.shape[-2:])


class _Broadcast(torch.autograd.Function):
    """The product of matrices whose batches broadcast. The gradient of a matrix that met several is one chain over
    all of them, row-major: torch's sum over an expanded tensor depends on the number of threads."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, w: Tensor) -> Tensor:
        batch = torch.broadcast_shapes(x.shape[:-2], w.shape[:-2])
        return _in_pairs(x.expand(*batch, *x.shape[-2:]), w.expand(*batch, *w.shape[-2:]))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        save_for_jvp(ctx, *inputs)

    @staticmethod
    @none_for_none
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, w = ctx.saved_tensors
        of_x, of_w = asked(ctx, grad)
        grad_x = _summed_to(x.shape, grad, w.transpose(-1, -2)) if of_x else None
        grad_w = _summed_to(w.shape, x.transpose(-1, -2), grad) if of_w else None
        return grad_x, grad_w


class _Eager(_Broadcast):
    """The same in forward mode, too, which Dynamo does not take."""

    @staticmethod
    def jvp(ctx: Any, x_t: Tensor | None, w_t: Tensor | None) -> Tensor:
        x, w = ctx.saved_tensors
        terms = [] if x_t is None else [_batched(x_t, w)]
        terms += [] if w_t is None else [_batched(x, w_t)]
        return terms[0] + terms[1] if len(terms) > 1 else terms[0]


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
