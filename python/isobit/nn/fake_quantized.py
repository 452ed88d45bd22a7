"""Linear layers whose weights, and activations, are fake-quantized in training, and are served as codes."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from .._checks import check_kinds
from .._jagged import has_rows, of_values
from ._fake_quantizer import FakeQuantizer, checked
from ._grouping import Grouping
from ._linear import Operand, trained_linear
from ._modules import check_features, check_input, leaf
from ._scheme import code_type
from .fake_quantize import FakeQuantize
from .served import ServedFakeQuantizedLinear


@leaf
class FakeQuantizedLinear(torch.nn.Linear):
    """A torch.nn.Linear for quantization-aware training, whose forward is the product that serving runs.

    ``activation_fake_quantizer`` and ``weight_fake_quantizer`` are LearnableFakeQuantize or FakeQuantize
    modules, or None for a side that is not quantized. The layer asks them for scale and zero point
    (``parameters_for``), and calls them only where they have forward hooks: those see the values, full backward hooks
    their gradients (float32 beside 16-bit layers), and change no bit unless they return others. In serving the weight's
    do not run. They decide the product:
    - int8 codes with zero points of 0, one scale for the input or one a token, and one for the weight or
      one a row: isobit.quantized_linear_codes, exact integers;
    - other codes of up to 8 bits for the input, zero points or not, and codes of 4 or 8 bits for the weight, a scale for
      the weight, a row, or a group along a row: the same with zero points and groups;
    - such a weight, and an input that is not quantized so: isobit.weight_only_linear of the input's values;
    - all else: isobit.linear of the values;
    - ``exact=False``: torch's linear of the values, which trades the bits for the speed of its 16-bit types.

    ``forward(input)``: float [..., in_features] to [..., out_features] of input's dtype; within autocast
    products of values have autocast's, as torch's linear, products of codes input's still. Gradients are those
    of a linear layer of the fake-quantized input and weight. ``served()``, and convert, keep the weight as
    codes, with the bits of eval mode."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        activation_fake_quantizer: FakeQuantizer | None = None,
        weight_fake_quantizer: FakeQuantizer | None = None,
        exact: bool = True,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self._quantize_by(weight_fake_quantizer, activation_fake_quantizer, exact)

    def _quantize_by(self, weight: FakeQuantizer | None, activation: FakeQuantizer | None, exact: bool) -> None:
        self.activation_fake_quantizer = checked(self, "activation_fake_quantizer", activation)
        self.weight_fake_quantizer = checked(self, "weight_fake_quantizer", weight)
        check_kinds(type(self).__name__, "b", exact=exact)
        self.exact = exact
        if weight is not None:
            weight.expect(self.weight.shape)

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear, **keywords: Any) -> FakeQuantizedLinear:
        """The layer with the parameters of another, which it shares."""
        layer = cls(linear.in_features, linear.out_features, device="meta", **keywords)
        layer.weight, layer.bias = linear.weight, linear.bias
        return layer.train(linear.training)

    def forward(self, input: Tensor) -> Tensor:
        if has_rows(input):
            return of_values(type(self).__name__, partial(FakeQuantizedLinear.forward, self), input, None)
        if self.activation_fake_quantizer is not None:
            check_input(self, input)
        check_features(self, input, self.in_features)
        x = Operand.of(self.activation_fake_quantizer, input)
        return trained_linear(x, Operand.of(self.weight_fake_quantizer, self.weight), self.bias, self.exact)

    def served(self) -> ServedFakeQuantizedLinear:
        """This layer for inference: its weight as codes."""
        fakes = self.weight_fake_quantizer, self.activation_fake_quantizer
        return ServedFakeQuantizedLinear(self.weight, self.bias, *fakes, exact=self.exact)


class WeightOnlyLinear(FakeQuantizedLinear):
    """A FakeQuantizedLinear for weights of few bits and float inputs.

    Codes of dtype ``codes`` (torch.int8, torch.uint8; torch.int4 and torch.uint4, served two to a byte)
    share a scale among ``group_size`` along a row, chosen anew from the weight at every step; without
    ``symmetric`` they have a zero point, too."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        group_size: int = 128,
        codes: torch.dtype = torch.int8,
        symmetric: bool = True,
        activation_fake_quantizer: FakeQuantizer | None = None,
        exact: bool = True,
    ) -> None:
        owner = type(self).__name__
        code_type(owner, codes, "codes")
        check_kinds(owner, "b", symmetric=symmetric)
        check_kinds(owner, "i", group_size=group_size)
        Grouping.of(owner, None, group_size, None)  # its size is checked in the name of this layer
        fake = FakeQuantize.from_config(dtype=codes, group_size=group_size, is_symmetric=symmetric)
        super().__init__(
            in_features,
            out_features,
            bias,
            device,
            dtype,
            activation_fake_quantizer=activation_fake_quantizer,
            weight_fake_quantizer=fake,
            exact=exact,
        )
