"""What fake-quantizing modules become for inference: buffers of codes, scales and zero points."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from .._jagged import has_rows, of_values
from ._buffers import member
from ._fake_quantizer import FakeQuantizer, Parameters
from ._hooks import keep_hooks
from ._linear import LINEAR, Operand, product_of, served_linear, straight_through
from ._modules import check_features, leaf
from ._scheme import Scheme
from ._states import refuse_other_codes, resize_for_loading, save_words, words_for_values
from .served_weight import ServedWeight, copied, scheme_of


def served_with_hooks(by: FakeQuantizer | None) -> FakeQuantizer | None:
    """What a layer's fake-quantizer of activations becomes."""
    if by is None:
        return None
    result = by.served()
    keep_hooks(by, result)
    return result


def operand_for(layer: Any, input: Tensor, coded: bool) -> Operand:
    """What comes into a served layer, as its product takes it. coded: codes may come with their scale, row-major."""
    integer = layer.product in ("integer", "integer_groups")
    x = Operand.of(layer._modules.get("activation_fake_quantizer"), input, integer and coded)
    if layer.product == "integer" and x.scheme is None:
        raise RuntimeError(
            f"{type(layer).__name__}: the activation_fake_quantizer is switched off, or a hook of it returned other values; "
            "want its own: the product is one of its codes"
        )
    return x


class ServedFakeQuantize(FakeQuantizer):
    """Fake quantization by fixed parameters: what FakeQuantize and LearnableFakeQuantize become.

    ``forward(x)`` has the bits of what it was made from in eval mode."""

    scale: Tensor
    zero_point: Tensor | None
    types_of_data = ("scale",)

    def __init__(self, scheme: Scheme, scale: Tensor, zero_point: Tensor | None) -> None:
        super().__init__()
        self.scheme = scheme
        self.register_buffer("scale", copied(scale))
        self.register_buffer("zero_point", copied(scheme.integer_zero_point(zero_point)))

    def parameters_for(self, x: Tensor) -> Parameters:
        if self.scale.numel():
            return Parameters(self.scale, self.zero_point)
        shape = self.scheme.grouping.parameter_shape(x.shape)
        middle = torch.full(shape, self.scheme.middle, dtype=torch.int32, device=x.device)
        return Parameters(self.scale.new_ones(shape), middle)

    def served(self) -> ServedFakeQuantize:
        return self

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        save_words(destination, prefix, words_for_values(self.scheme))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, metadata: Any, *args: Any) -> None:
        refuse_other_codes(self, state_dict, prefix, "scale", metadata, words_for_values(self.scheme), args[-1])
        resize_for_loading(self, state_dict, prefix, "scale", "zero_point")
        super()._load_from_state_dict(state_dict, prefix, metadata, *args)

    def extra_repr(self) -> str:
        return str(self.scheme)


@leaf
class ServedFakeQuantizedLinear(torch.nn.Module):
    """What FakeQuantizedLinear becomes. ``weight`` holds codes; ``forward(input)``, of [..., K], gives
    [..., N] with the bits of the trained layer in eval mode, and the same gradient of input. It has no parameters."""

    bias: Tensor | None

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        weight_by: FakeQuantizer | None,
        input_by: FakeQuantizer | None,
        exact: bool = True,
    ) -> None:
        super().__init__()
        self.activation_fake_quantizer = served_with_hooks(input_by)
        self.product = product_of(scheme_of(input_by), scheme_of(weight_by), exact)
        self.weight = ServedWeight(weight, weight_by, torch.int8 if self.product == "integer" else None)
        self.register_buffer("bias", copied(bias))
        self.out_features, self.in_features = weight.shape

    def forward(self, input: Tensor) -> Tensor:
        if has_rows(input):
            return of_values(type(self).__name__, partial(ServedFakeQuantizedLinear.forward, self), input, None)
        check_features(self, input, self.in_features)
        w: ServedWeight = member(self, "weight")
        x, bias = operand_for(self, input, coded=True), member(self, "bias")
        if self.product in LINEAR:
            return LINEAR[self.product](x.values(), w(), bias)
        # Of values that are no codes, as where the quantizer is switched off.
        kind = "codes" if x.scheme is None and self.product == "integer_groups" else self.product
        weight = *w.exportable(member(w, "codes")), member(w, "scale"), member(w, "zero_point"), bias
        if kind == "codes" or not x.wants_gradient():  # weight_only_linear has the gradient itself
            return served_linear(kind, x, *weight)
        value = served_linear(kind, x.detached(), *weight)
        wide = torch.promote_types(w.dtype, torch.float32)
        return straight_through(x.widest().values(), w.values(wide), None, value)

    def extra_repr(self) -> str:
        features = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{features}, product={self.product}, bias={self.bias is not None}"
