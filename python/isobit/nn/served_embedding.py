"""What embeddings of fake-quantized weights become for inference: tables of codes."""

from __future__ import annotations

import torch
from torch import Tensor

from .._checks import check_dense
from ..ops.embedding_bag import embedding_bag, unnested
from ._fake_quantizer import FakeQuantizer
from ._modules import leaf
from .served import ServedWeight

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
            raise ValueError(f"{owner}: input is {input.dtype}; want one of {', '.join(map(str, _INDICES))}")

    def _rows(self, input: Tensor) -> Tensor:
        try:
            return self.weight.rows(input)
        except IndexError:
            owner = type(self).__name__
            raise IndexError(f"{owner}: input has an index out of range; want 0 to {self.num_embeddings - 1}") from None

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


@leaf
class ServedFakeQuantizedEmbedding(_ServedTable):
    """What FakeQuantizedEmbedding becomes: ``forward(input)`` gathers rows of codes, and dequantizes them.
    An index that is negative or too large is an IndexError."""

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        return self._rows(input)


@leaf
class ServedFakeQuantizedEmbeddingBag(_ServedTable):
    """What FakeQuantizedEmbeddingBag becomes: ``forward(input, offsets, per_sample_weights)`` gathers rows of codes,
    dequantizes them, and gives each bag's sum, mean or max, with the gradient of per_sample_weights.
    An index that is negative or too large is an IndexError."""

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
        if isinstance(input, Tensor) and input.layout == torch.jagged:
            input, offsets, per_sample_weights = unnested(input, offsets, per_sample_weights)
            include_last_offset = True
        self._check(input)
        # A table of the rows that occur, one for each position, and the padding's row after them.
        named, padding_idx = input.reshape(-1), None
        position = torch.arange(named.numel(), dtype=input.dtype, device=input.device).reshape(input.shape)
        if self.padding_idx is not None:
            padding_idx = named.numel()
            position = position.masked_fill(input == self.padding_idx, padding_idx)
            named = torch.cat([named, named.new_full((1,), self.padding_idx)])
        return embedding_bag(
            position,
            self._rows(named),
            offsets,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode={self.mode!r}"
