"""What embeddings of fake-quantized weights become for inference: tables of codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._checks import check_dense
from .._errors import ArgumentError, IndexOutOfRange
from .._jagged import is_jagged, of_values
from ..ops.embedding_bag import unnested
from ._buffers import member
from ._fake_quantizer import FakeQuantizer
from ._modules import leaf
from .served_weight import ServedWeight

_INDICES = (torch.int32, torch.int64)


class _ServedTable(torch.nn.Module):
    """Rows of codes, which are dequantized where they are asked for."""

    def __init__(self, weight: Tensor, weight_by: FakeQuantizer | None, padding_idx: int | None = None) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = weight.shape
        self.padding_idx = padding_idx
        self.weight = ServedWeight(weight, weight_by)

    def _check(self, input: Tensor) -> None:
        owner = type(self).__name__
        check_dense(owner, input=input)
        if input.dtype not in _INDICES:
            raise ArgumentError(f"{owner}: input is {input.dtype}; want one of {', '.join(map(str, _INDICES))}")

    def _named(self, function: Callable[..., Tensor], input: Tensor, *args: Any) -> Tensor:
        try:
            return function(input, *args)
        except (IndexError, RuntimeError) as error:
            mapped = torch._C._are_functorch_transforms_active()  # vmap gathers, which says so in a RuntimeError
            if not isinstance(error, IndexError) and not (mapped and "out of bounds" in str(error)):
                raise
            came, last = "has an index out of range", self.num_embeddings - 1
            if not mapped:  # else tensors have no values
                at = int(((input < 0) | (input > last)).flatten().int().argmax())
                came = f"is {int(input.flatten()[at])} at position {at}"
            raise IndexOutOfRange(f"{type(self).__name__}: input {came}; want 0 to {last}") from None

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


@leaf
class ServedFakeQuantizedEmbedding(_ServedTable):
    """What FakeQuantizedEmbedding becomes: ``forward(input)`` gathers rows of codes, and dequantizes them.
    An index that is negative or too large is an IndexError that names its position and value."""

    def forward(self, input: Tensor) -> Tensor:
        if is_jagged(input):
            return of_values(type(self).__name__, self.forward, input, None)
        self._check(input)
        return self._named(member(self, "weight").rows, input)


@leaf
class ServedFakeQuantizedEmbeddingBag(_ServedTable):
    """What FakeQuantizedEmbeddingBag becomes: ``forward(input, offsets, per_sample_weights)`` gives the sum,
    mean or max of each bag's rows of codes, dequantized, with the gradient of per_sample_weights.
    An index that is negative or too large is an IndexError that names its position and value."""

    def __init__(
        self,
        weight: Tensor,
        weight_by: FakeQuantizer | None,
        padding_idx: int | None = None,
        mode: str = "mean",
        include_last_offset: bool = False,
    ) -> None:
        super().__init__(weight, weight_by, padding_idx)
        self.mode, self.include_last_offset = mode, include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        include_last_offset = self.include_last_offset
        if is_jagged(input):
            name = type(self).__name__
            input, offsets, per_sample_weights = unnested(name, input, offsets, per_sample_weights)
            include_last_offset = True
        self._check(input)
        given = input, offsets, self.mode, per_sample_weights, include_last_offset, self.padding_idx
        return self._named(member(self, "weight").bags, *given)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode!r}"
