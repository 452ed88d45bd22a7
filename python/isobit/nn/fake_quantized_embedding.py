"""Embeddings whose weights are fake-quantized in training, and are served as codes."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from .._errors import ArgumentError
from ..ops.embedding import embedding
from ..ops.embedding_bag import embedding_bag
from ._fake_quantizer import FakeQuantizer, checked
from ._modules import leaf
from .embedding import Embedding, EmbeddingBag
from .served_embedding import ServedFakeQuantizedEmbedding, ServedFakeQuantizedEmbeddingBag


class _FakeQuantizedTable(torch.nn.Module):
    """What both share: a ``weight_fake_quantizer`` that the weight passes through."""

    max_norm: float | None
    sparse: bool
    weight: Tensor

    def _quantize_by(self, weight: FakeQuantizer) -> None:
        owner = type(self).__name__
        if self.max_norm is not None or self.sparse:
            raise ArgumentError(f"{owner}: want max_norm=None and sparse=False")
        if weight is None:
            raise TypeError(f"{owner}: weight_fake_quantizer is None; want a module")
        self.weight_fake_quantizer = checked(self, "weight_fake_quantizer", weight)
        weight.expect(self.weight.shape)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, *args: Any, weight_fake_quantizer: FakeQuantizer, **keywords: Any
    ) -> Any:
        """The layer of these weights; the arguments are those of from_pretrained of torch.nn's class."""
        plain: Any = super().from_pretrained  # type: ignore[misc]
        made = partial(cls, weight_fake_quantizer=weight_fake_quantizer)
        return plain.__func__(made, embeddings, freeze, *args, **keywords)


@leaf
class FakeQuantizedEmbedding(_FakeQuantizedTable, Embedding):  # type: ignore[misc]  # from_pretrained
    """An isobit.nn.Embedding whose weight passes through ``weight_fake_quantizer``, a LearnableFakeQuantize or
    FakeQuantize module. ``served()``, and convert, keep codes, and dequantize the rows that are
    asked for, with the bits of eval mode. There is no max_norm, which would change the weight below its
    codes, and no sparse gradient: ValueError."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        weight_fake_quantizer: FakeQuantizer,
    ) -> None:
        given = padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, _freeze
        super().__init__(num_embeddings, embedding_dim, *given, device, dtype)
        self._quantize_by(weight_fake_quantizer)

    def forward(self, input: Tensor) -> Tensor:
        weight = self.weight_fake_quantizer(self.weight)
        return embedding(input, weight, self.padding_idx, scale_grad_by_freq=self.scale_grad_by_freq)

    def served(self) -> ServedFakeQuantizedEmbedding:
        """This layer for inference: its weight as codes."""
        return ServedFakeQuantizedEmbedding(self.weight, self.weight_fake_quantizer, self.padding_idx)


@leaf
class FakeQuantizedEmbeddingBag(_FakeQuantizedTable, EmbeddingBag):  # type: ignore[misc]  # from_pretrained
    """An isobit.nn.EmbeddingBag whose weight passes through ``weight_fake_quantizer``, as that of
    FakeQuantizedEmbedding does."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        weight_fake_quantizer: FakeQuantizer,
    ) -> None:
        given = max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight, include_last_offset, padding_idx
        super().__init__(num_embeddings, embedding_dim, *given, device, dtype)
        self._quantize_by(weight_fake_quantizer)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return embedding_bag(
            input,
            self.weight_fake_quantizer(self.weight),
            offsets,
            scale_grad_by_freq=self.scale_grad_by_freq,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def served(self) -> ServedFakeQuantizedEmbeddingBag:
        """This layer for inference: its weight as codes."""
        given = self.padding_idx, self.mode, self.include_last_offset
        return ServedFakeQuantizedEmbeddingBag(self.weight, self.weight_fake_quantizer, *given)
