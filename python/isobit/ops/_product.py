"""The product of two float matrices, whose every element is one chain of fused steps: the op behind matmul and linear,
its gradients, and the calls that take no detour over torch's dispatcher."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_dynamo_compiling

from .. import _C
from .._autograd import eager_function, elsewhere
from .._gradient import asked, no_forward_mode, none_for_none, rounded, save_for_jvp, wide_for
from .._known import is_true
from .._op import Op
from .._transforms import is_traced, wants_gradient
from .._vmap import Dims, front

OP = Op(
    "matmul(Tensor input, Tensor other, Tensor? bias) -> Tensor",
    "matmul",
    "input[]/ other[] bias?",
    "",
    "y = input[:-1] other[-1:] : input",
)


def _setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    input, other, bias = inputs
    ctx.bias_type = None if bias is None else bias.dtype
    wanted = ctx.needs_input_grad  # where weights are frozen, no activation is kept for them
    ctx.save_for_backward(input if wanted[1] else None, other if wanted[0] else None)
    save_for_jvp(ctx, input, other)


def _setup_product(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    _setup_context(ctx, inputs, output)
    ctx.other_is_transposed, ctx.in_pairs = _is_transposed(inputs[1]), inputs[1].dim() > 2


def _is_transposed(t: Tensor) -> bool:
    """Whether a tensor is a matrix that lies column after column, as the transpose of a weight does."""
    if t.dim() != 2:
        return False
    down, across = t.stride()
    return is_true(down == 1) and is_true(across == t.shape[0])


def as_matrix(t: Tensor) -> Tensor:
    """[..., K] as [rows, K], whatever is 0, and for every kind of vmap."""
    return _folded(t, 2)


def _folded(t: Tensor, rank: int) -> Tensor:
    """A tensor of so many dimensions, of which the first stands for all that are left over."""
    kept = t.dim() - rank + 1
    return t if t.dim() == rank else t.reshape(math.prod(t.shape[:kept]), *t.shape[kept:])


_unsafe_view = torch.ops.aten._unsafe_view.default


def shaped(y: Tensor, shape: tuple[int, ...]) -> Tensor:
    """What was just computed, in another shape: no view to autograd, as in torch. A function may return it, and writing
    to it costs no copy of the gradient. In a trace it is one: extents of reshape alone follow those of an input."""
    result: Tensor = y.reshape(shape) if is_traced() else _unsafe_view(y, shape)
    return result


def row_sums(grad: Tensor, dtype: torch.dtype) -> Tensor:
    """The sum of the rows of a matrix, from the first to the last: the gradient of a bias of that type."""
    grad = wide_for(dtype, grad)
    return rounded(OP.with_gradient(grad.new_ones(1, grad.shape[0]), grad, None).squeeze(0), dtype)


def product(input: Tensor, other: Tensor, bias: Tensor | None = None) -> Tensor:
    """The product of two matrices, of each pair of some in any number of dimensions, or of rows in any number of
    dimensions and a matrix; and a bias."""
    rank = 2 if other.dim() == 2 else 3  # that the op has
    if input.dim() == rank:
        return OP.with_gradient(input, other, bias)
    y = NotImplemented if is_dynamo_compiling() else _direct(input, other, bias)
    if y is not NotImplemented:
        return y
    pairs = (_folded(input, 3), _folded(other, 3)) if rank == 3 else (as_matrix(input), other)
    return shaped(product(*pairs, bias), (*input.shape[:-1], other.shape[-1]))


def weight_gradient(grad: Tensor, input: Tensor, dtype: torch.dtype) -> Tensor:
    """The gradient of a layer's weight of that type: the product of grad [rows, N] transposed and input [rows, K]."""
    return rounded(product(wide_for(dtype, grad).t(), wide_for(dtype, input)), dtype)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    input, other = ctx.saved_tensors
    wanted = asked(ctx, grad)
    grad_input = _by_transposed(grad, other, ctx.other_is_transposed) if wanted[0] else None
    grad_other = None
    if wanted[1] and ctx.other_is_transposed:  # so is its gradient, as in torch
        grad_other = product(as_matrix(grad).t(), as_matrix(input)).t()
    elif wanted[1]:
        left, right = (input, grad) if ctx.in_pairs else (as_matrix(input), as_matrix(grad))
        grad_other = product(left.transpose(-1, -2), right)
    grad_bias = row_sums(as_matrix(grad), ctx.bias_type) if wanted[2] else None
    return grad_input, grad_other, grad_bias


def _by_transposed(grad: Tensor, other: Tensor, is_transposed: bool) -> Tensor:
    """The product with the transpose of a matrix, or of each of some. Of one matrix there is a call that needs no view of
    it, which takes a third of a small product's time; its own gradient lies in rows, where that of a transpose does not."""
    in_rows = is_transposed and torch.is_grad_enabled()
    y = NotImplemented if in_rows or is_dynamo_compiling() else _transposed(grad, other, None)
    return product(grad, other.transpose(-1, -2)) if y is NotImplemented else y


def _jvp(ctx: Any, input_t: Tensor | None, other_t: Tensor | None, bias_t: Tensor | None) -> Tensor:
    input, other = ctx.saved_tensors
    terms = [] if input_t is None else [OP.apply(input_t, other, None)]
    terms += [] if other_t is None else [OP.apply(input, other_t, None)]
    if bias_t is not None:
        terms.append(bias_t.to(input.dtype).expand(*input.shape[:-1], -1))
    return torch.stack(terms).sum(0) if len(terms) > 1 else terms[0].clone()


def _vmap(size: int, in_dims: Dims, input: Tensor, other: Tensor, bias: Tensor | None) -> Any:
    if in_dims[2] is not None:
        return None
    x = front(input, in_dims[0], size)
    if x.dim() == 3 and in_dims[1] is None:
        return OP.raw(x.flatten(0, 1), other, bias).unflatten(0, (size, x.shape[1])), 0
    w = front(other, in_dims[1], size)
    if x.dim() == 3:
        return OP.raw(x, w, bias), 0
    return OP.raw(x.flatten(0, 1), w.flatten(0, 1), bias).unflatten(0, (size, x.shape[1])), 0


OP.differentiable(_setup_product, _backward, _jvp, again=True)
OP.batched = _vmap
_direct, _transposed = OP.direct, OP.transposed


def _transposed_backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """As `_backward`, of `input @ weight.t()`: by weight itself, with no transpose between."""
    input, weight = ctx.saved_tensors
    wanted = asked(ctx, grad)
    grad_input = product(grad, weight) if wanted[0] else None
    grad = as_matrix(grad)
    grad_weight = product(grad.t(), as_matrix(input)) if wanted[1] else None
    return grad_input, grad_weight, row_sums(grad, ctx.bias_type) if wanted[2] else None


_C.set_function(
    _transposed,
    eager_function(
        "linear",
        takes_tuple=False,
        fast=_transposed,
        otherwise=elsewhere,
        setup_context=_setup_context,
        backward=none_for_none(_transposed_backward),
        jvp=no_forward_mode("isobit::linear"),
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
    if not whole and (input.dim() == 0 or wants_gradient(input, *rest)):
        return NotImplemented
    matrix = input if whole else attempt(as_matrix, input)
    y = matrix if matrix is NotImplemented else attempt(op.direct, matrix, *rest)
    return y if whole or y is NotImplemented else y.reshape(*input.shape[:-1], y.shape[1])


def direct_matrices(input: Any, other: Any, bias: Tensor | None, transposed: bool) -> Any:
    """The direct call of rows and a matrix, which may be transposed first; NotImplemented where there is more to do or to
    say. It comes before all checks, since it makes most of them itself."""
    if (
        is_dynamo_compiling()
        or type(input) not in KINDS
        or type(other) not in KINDS
        or input.dim() == 0
        or other.dim() != 2
        or torch._C._is_any_autocast_enabled()
    ):
        return NotImplemented
    try:
        if not transposed:
            return _direct(input, other, bias)
        y = _transposed(input, other, bias)
        if y is NotImplemented and not is_traced():  # which would record the transpose
            y = _direct(input, other.t(), bias)
        return y
    except (TypeError, ValueError, RuntimeError):
        return NotImplemented


def direct_rows(input: Tensor, other: Tensor, bias: Tensor | None) -> Any:
    """As `direct`; if input is a matrix, with its gradient."""
    y = direct(OP, input, other, bias)
    return attempt(OP.apply, input, other, bias) if y is NotImplemented and input.dim() == 2 else y
