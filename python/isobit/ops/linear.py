"""linear: the product of a float linear layer."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .._autocast import narrowed
from .._checks import check_dense, check_device, check_floats
from .._errors import ArgumentError
from .._gradient import widest
from .._jagged import has_rows, of_values
from .._out import copy_out
from ._product import are_plain, as_matrix, attempt, direct_matrices, direct_rows, product, shaped
from .matmul import check_alike


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``, as ``torch.nn.functional.linear``: input [..., K], weight [N, K] or [K], bias [N] or
    [1, N], or one element for all; [..., N] in input's dtype, which is weight's, too. Of a jagged input so is the result.

    Every element is one chain of fused steps over K, as in `matmul`, to which the bias is added once. ``out`` takes a
    copy of the result. torch's FlopCounterMode counts it, matmul and their gradients where it is told how:
    ``custom_mapping={torch.ops.isobit.matmul: lambda x, y, *_, **__: 2 * math.prod(x) * y[-1]}``.

    >>> weight, bias = torch.tensor([[3.0, 4.0], [5.0, 6.0]]), torch.tensor([0.5, 0.0])
    >>> isobit.linear(torch.tensor([[1.0, 2.0]]), weight, bias).tolist()
    [[11.5, 17.0]]
    """
    if out is None and (y := direct_matrices(input, weight, bias, transposed=True)) is not NotImplemented:
        return y
    if out is None and are_plain(input, weight) and weight.dim() == 2:
        transposed = attempt(weight.t)
        y = NotImplemented if transposed is NotImplemented else direct_rows(input, transposed, bias)
        if y is not NotImplemented:
            return y
    if has_rows(input):
        return of_values("linear", lambda values: linear(values, weight, bias), input, out)
    if bias is None:
        check_dense("linear", input=input, weight=weight)
    else:
        check_dense("linear", input=input, weight=weight, bias=bias)
    if out is not None:
        return copy_out("linear", out, linear, input, weight, bias)
    input, weight, bias = narrowed(input, weight, bias)
    check_alike("linear", input=input, weight=weight)
    if input.dim() == 0:
        raise ArgumentError("linear: input has shape []; want [..., K]")
    if weight.dim() not in (1, 2) or weight.shape[-1] != input.shape[-1]:
        k = input.shape[-1]
        raise ArgumentError(f"linear: weight has shape {list(weight.shape)}; want [N, {k}] or [{k}]")
    matrix = weight if weight.dim() == 2 else weight[None]
    if bias is not None:
        check_device("linear", "bias", bias, "input", input.device)
        check_floats("linear", bias=bias)
        bias = _bias_row(bias, weight, input.dim() + weight.dim() - 2)
    y = product(as_matrix(input), matrix.t(), bias)
    return shaped(y, (*input.shape[:-1], *weight.shape[:-1]))  # () of two vectors


def _bias_row(bias: Tensor, weight: Tensor, dims: int) -> Tensor:
    """A bias of linear as [N]: one element is spread by a product, which sums its gradient in one order. dims: the
    result's, as many of which a bias may have where all but the last of a matrix's are 1."""
    before = bias.dim() - weight.dim() + 1
    if 1 < bias.dim() <= max(dims, weight.dim()) and math.prod(bias.shape[:before]) == 1:
        bias = bias.reshape(bias.shape[before:])
    if bias.shape == weight.shape[:-1]:
        return bias if bias.dim() else bias[None]
    if weight.dim() == 1 or bias.shape not in ((), (1,)):
        n = weight.shape[0]
        want = f"[{n}], [1, {n}], [1] or []" if weight.dim() == 2 else "[]"
        raise ArgumentError(f"linear: bias has shape {list(bias.shape)}; want {want}")
    wide = widest(bias.to(torch.promote_types(bias.dtype, weight.dtype)))  # its gradient is rounded at the end
    return product(wide.reshape(1, 1), wide.new_ones(1, weight.shape[0]))[0]
