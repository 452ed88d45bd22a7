"""The product of a fake-quantized linear layer: the same in training and in serving."""

from __future__ import annotations

from functools import partial
from math import ceil
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.hooks import BackwardHook

from .._composite import Composite
from .._gradient import asked, no_forward_mode, once, rounded, wide_for, widest
from .._load import PACKED
from .._transforms import wants_derivative
from ..ops._product import as_matrix, product, row_sums, weight_gradient
from ..ops.linear import linear
from ..ops.quantized_linear import quantized_linear_codes
from ..ops.weight_only_linear import weight_only_linear
from ._fake_quantizer import FakeQuantizer
from ._hooks import backward_hook, call_with_notes
from ._scheme import Scheme

_BYTES = {torch.int8, torch.uint8, *PACKED}

# One scale, or one for each row: what the integer product takes. A channel of x is a column.
_ROWS = ("per_tensor", "per_token")


class Operand(NamedTuple):
    """A float tensor and how it is quantized, if it is."""

    tensor: Tensor
    scheme: Scheme | None = None
    scale: Tensor | None = None
    zero_point: Tensor | None = None
    grad_factor: float = 1.0
    hook: BackwardHook | None = None  # what the values pass by
    codes: Tensor | None = None  # a byte each, where they came with the scale

    @classmethod
    def of(cls, by: FakeQuantizer | None, tensor: Tensor, coded: bool = False) -> Operand:
        """coded: whether the product is one of codes."""
        if by is None:
            return cls(tensor)
        if not by.is_faking():
            return cls(by(tensor))  # it may observe
        hook = backward_hook(by)
        passed = tensor if hook is None else hook.setup_input_hook((tensor,))[0]
        if not by.has_own_call():
            codes, parameters = by.codes_for(tensor) if coded else (None, by.parameters_for(tensor))
            return cls(passed, by.scheme, *parameters, hook, codes)
        values, noted = call_with_notes(by, passed)
        if noted is None or noted[0] is not values:  # what a hook made of them
            return cls(values if hook is None else hook.setup_output_hook(values))
        _, x, (scale, zero_point, grad_factor) = noted
        return cls(x, by.scheme, scale, zero_point, grad_factor, hook)

    def values(self) -> Tensor:
        """What the codes stand for, with the gradient of fake_quantize. Asked for once, as its hooks run once."""
        if self.scheme is None or self.scale is None:
            return self.tensor
        values = self.scheme.fake_quantize(self.tensor, self.scale, self.zero_point, self.grad_factor)
        return values if self.hook is None else self.hook.setup_output_hook(values)

    def widest(self) -> Operand:
        """The same codes, whose values and gradients are not rounded to 16 bits."""
        return Operand(widest(self.tensor), self.scheme, self.scale, self.zero_point, self.grad_factor, self.hook)

    def detached(self) -> Operand:
        """The same values, from which no gradient goes back."""
        scale, zero_point = (t if t is None else t.detach() for t in (self.scale, self.zero_point))
        return Operand(self.tensor.detach(), self.scheme, scale, zero_point, self.grad_factor, codes=self.codes)

    def as_codes(self) -> Tensor:
        """The codes, a byte each."""
        assert self.scheme is not None and self.scale is not None
        if self.codes is not None:
            return self.codes
        return self.scheme.quantize(self.tensor, self.scale, self.zero_point, self.scheme.byte_dtype)

    def by_row(self, parameters: Tensor) -> Tensor:
        """The scale or the zero point of each row."""
        # By the scheme: how many rows there are may not be known yet.
        if self.scheme is None or self.scheme.grouping.name != "per_tensor":
            return parameters
        rows = self.tensor.shape[:-1]
        return parameters.expand(rows) if rows else parameters.reshape(())

    def wants_gradient(self) -> bool:
        return wants_derivative(self.tensor, self.scale, self.zero_point)


def product_of(x: Scheme | None, weight: Scheme | None, exact: bool) -> str:
    """Which product serves: ``integer`` is isobit.quantized_linear_codes of int8 codes, ``integer_groups`` the same of
    any bytes, with zero points and groups, ``codes`` isobit.weight_only_linear, ``float`` isobit.linear of the values,
    ``torch`` torch's, whose bits are torch's."""
    if not exact:
        return "torch"
    if weight is None or not weight.grouping.shares_along_rows():
        return "float"
    if x is None or x.grouping.name not in _ROWS:
        return "codes" if weight.dtype in _BYTES else "float"
    if x.is_int8() and weight.is_int8() and weight.grouping.name in (*_ROWS, "per_channel"):
        return "integer"
    if weight.dtype not in _BYTES:
        return "float"
    return "codes" if x.byte_dtype is None else "integer_groups"


# Products of values.
LINEAR = {"float": linear, "torch": torch.nn.functional.linear}


def in_groups(
    scheme: Scheme, rows: int, columns: int, scale: Tensor, zero_point: Tensor | None
) -> tuple[int, Tensor, Tensor | None]:
    """The size of a matrix's groups along its rows, and its parameters by row and group."""
    per_tensor = scheme.grouping.name == "per_tensor"
    where = scheme.grouping.where
    size = where[1] if isinstance(where, tuple) else where if scheme.grouping.name == "per_channel_group" else None
    groups = 1 if size is None else ceil(columns / size)

    def of_groups(parameters: Tensor) -> Tensor:
        of_rows = parameters.expand(rows, 1) if per_tensor else parameters.reshape(rows, groups)
        return of_rows if columns else of_rows[:, :0]

    return size or max(columns, 1), of_groups(scale), None if zero_point is None else of_groups(zero_point)


def served_linear(
    kind: str,
    x: Operand,
    scheme: Scheme,
    codes: Tensor,
    scale: Tensor,
    zero_point: Tensor | None,
    bias: Tensor | None,
) -> Tensor:
    """The product of x and the weight of these codes [N, K]. No gradient reaches the weight."""
    if kind == "integer":
        return _integer_product(x, codes, scale, bias)
    size, scale, zero_point = in_groups(scheme, codes.shape[0], x.tensor.shape[-1], scale, zero_point)
    if kind == "codes":
        keywords: Any = {"group_size": size, "dtype": scheme.dtype}
        return weight_only_linear(x.values(), codes, scale, zero_point, bias, **keywords)
    assert x.scheme is not None and x.scale is not None
    x_zero = x.scheme.integer_zero_point(x.zero_point)
    return quantized_linear_codes(
        x.as_codes(),
        x.by_row(x.scale),
        codes,
        scale,
        bias,
        x.tensor.dtype,
        input_zero_point=None if x_zero is None else x.by_row(x_zero),
        weight_zero_point=zero_point,
        group_size=size,
        weight_dtype=scheme.dtype,
    )


def _integer_product(x: Operand, codes: Tensor, scale: Tensor, bias: Tensor | None) -> Tensor:
    """The product of int8 codes, and of x's."""
    assert x.scale is not None
    scales = scale if scale.numel() != 1 else scale.reshape(1).expand(codes.shape[0])
    return quantized_linear_codes(x.as_codes(), x.by_row(x.scale), codes, scales, bias, x.tensor.dtype)


def _setup_straight(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, bias, _ = inputs
    wanted = ctx.needs_input_grad
    ctx.save_for_backward(x if wanted[1] else None, weight if wanted[0] else None)
    ctx.types = x.dtype, weight.dtype, None if bias is None else bias.dtype


@partial(once, "FakeQuantizedLinear")
def _straight_backward(ctx: Any, grad_y: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    x_type, weight_type, bias_type = ctx.types
    flat = as_matrix(grad_y)
    grad_x = grad_w = grad_b = None
    wanted = asked(ctx, grad_y)
    if wanted[0]:
        wide = wide_for(weight.dtype, flat)
        grad_x = rounded(product(wide, weight.to(wide.dtype)), x_type).reshape(*grad_y.shape[:-1], weight.shape[1])
    if wanted[1]:
        grad_w = weight_gradient(flat, as_matrix(x), weight_type)
    if wanted[2]:
        grad_b = row_sums(flat, bias_type)
    return grad_x, grad_w, grad_b, None


# The value that serving computes, which is new, with the gradient of linear(input, weight, bias).
straight_through = Composite(
    "straight_through_linear(Tensor input, Tensor weight, Tensor? bias, Tensor value) -> Tensor",
    lambda x, weight, bias, value: value.detach(),
    _setup_straight,
    _straight_backward,
    no_forward_mode("a linear layer of codes"),
)


def trained_linear(x: Operand, weight: Operand, bias: Tensor | None, exact: bool) -> Tensor:
    """The product of a layer in training: the value that serving computes, with straight-through gradients."""
    kind = product_of(x.scheme, weight.scheme, exact)
    if kind in LINEAR:
        return LINEAR[kind](x.values(), weight.values(), bias)
    # Detached rather than under no_grad, which torch.export cannot save.
    fixed = weight.detached()
    assert fixed.scheme is not None and fixed.scale is not None
    # Codes that end here are not packed.
    narrow = kind == "integer" or fixed.scheme.dtype in PACKED
    scheme = fixed.scheme.with_dtype(torch.int8 if narrow else None)
    values = x.values() if kind == "codes" else None
    plain = (x if values is None else Operand(values)).detached()
    codes = scheme.quantize(fixed.tensor, fixed.scale, fixed.zero_point)
    bias_value = None if bias is None else bias.detach()
    # That of the scheme's codes: weight_only_linear would take a float one for any that their type holds.
    zero_point = scheme.integer_zero_point(fixed.zero_point)
    value = served_linear(kind, plain, scheme, codes, fixed.scale, zero_point, bias_value)
    if not (x.wants_gradient() or weight.wants_gradient() or wants_derivative(bias)):
        return value
    factor = x.widest().values() if values is None else values
    return straight_through(factor, weight.widest().values(), bias, value)
