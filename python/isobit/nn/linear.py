"""Linear layers: of floats, and of int8 codes, as they train and as they serve."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._checks import check_dense
from .._errors import ArgumentError
from .._gradient import widest
from .._transforms import wants_derivative
from ..ops.dequantize import dequantize_per_token
from ..ops.linear import linear
from ..ops.quantize_dynamic import quantize_per_token_dynamic
from ..ops.quantized_linear import _HIGH, _LOW, quantized_linear, quantized_linear_codes
from ._buffers import FollowsData
from ._linear import straight_through
from ._modules import check_features, leaf
from ._states import refuse_other_codes

torch.fx.wrap("linear")
torch.fx.wrap("quantized_linear")


class Linear(torch.nn.Linear):
    """A torch.nn.Linear with the bits of isobit.linear, and of its gradients."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


class QuantizedLinear(torch.nn.Linear):
    """A torch.nn.Linear for quantization-aware training: see isobit.quantized_linear.

    ``served()`` is the same layer with its weight as codes; ``export()`` the tensors that a C++ or
    Go program needs. Both give this layer's bits."""

    def forward(self, input: Tensor) -> Tensor:
        return quantized_linear(input, self.weight, self.bias)

    @torch.no_grad()
    def export(self) -> dict[str, Tensor]:
        """weight_codes int8 [N, K], weight_scale [N] (float32; float64 of a float64 layer) and, where there is one, bias [N]."""
        codes, scale, _ = quantize_per_token_dynamic(self.weight, torch.int8, quant_min=_LOW, quant_max=_HIGH)
        tensors = {"weight_codes": codes, "weight_scale": scale.reshape(-1)}
        if self.bias is not None:
            tensors["bias"] = self.bias.clone()
        return tensors

    def served(self) -> ServedLinear:
        """This layer for inference."""
        return ServedLinear(**self.export())


@leaf
class ServedLinear(FollowsData):
    """A linear layer of int8 codes: what QuantizedLinear becomes for inference, with the same gradient of input.

    The arguments are what ``QuantizedLinear.export()`` gives: weight_codes int8 [N, K], weight_scale [N], bias [N]."""

    weight_codes: Tensor
    weight_scale: Tensor
    bias: Tensor | None
    types_of_data = ("weight_scale",)

    def __init__(self, weight_codes: Tensor, weight_scale: Tensor, bias: Tensor | None = None) -> None:
        super().__init__()
        per_row = {"weight_scale": weight_scale} | ({} if bias is None else {"bias": bias})
        check_dense("ServedLinear", weight_codes=weight_codes, **per_row)
        if weight_codes.dim() != 2:
            raise ArgumentError(f"ServedLinear: weight_codes has shape {list(weight_codes.shape)}; want [N, K]")
        self.out_features, self.in_features = weight_codes.shape
        n = self.out_features
        for name, t in per_row.items():
            if t.shape != (n,) and (name == "bias" or t.shape != (n, 1)):
                raise ArgumentError(f"ServedLinear: {name} has shape {list(t.shape)}; want [{n}]")
        self.register_buffer("weight_codes", weight_codes)
        self.register_buffer("weight_scale", weight_scale)
        self.register_buffer("bias", bias)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, metadata: Any, *args: Any) -> None:
        refuse_other_codes(self, state_dict, prefix, "weight_codes", metadata, {}, args[-1])
        super()._load_from_state_dict(state_dict, prefix, metadata, *args)

    def forward(self, input: Tensor) -> Tensor:
        check_features(self, input, self.in_features)
        plain = input.detach()
        codes, scale, _ = quantize_per_token_dynamic(plain, torch.int8, quant_min=_LOW, quant_max=_HIGH)
        y = quantized_linear_codes(codes, scale, self.weight_codes, self.weight_scale, self.bias, input.dtype)
        if not wants_derivative(input):
            return y
        weight = dequantize_per_token(
            self.weight_codes, self.weight_scale, None, _LOW, _HIGH, torch.int8, widest(input).dtype
        )
        return straight_through(input, weight, None, y)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
