"""Embeddings whose weights are fake-quantized in training, and are served as codes."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from .._errors import ArgumentError
from .._jagged import is_jagged, of_values
from .._transforms import is_plain
from ..ops._sparse import distinct
from ..ops.embedding import embedding
from ..ops.embedding_bag import embedding_bag, unnested
from ._buffers import has_value
from ._fake_quantizer import FakeQuantizer, checked
from ._hooks import backward_hook
from ._modules import leaf, not_compiled
from .embedding import Embedding, EmbeddingBag
from .served_embedding import ServedFakeQuantizedEmbedding, ServedFakeQuantizedEmbeddingBag

_INDICES = (torch.int32, torch.int64)

# Tables of fewer elements take less time as a whole, as do those of less than so many rows for each index.
_SMALL = 1 << 19
_ROWS = 5


class _FakeQuantizedTable(torch.nn.Module):
    """What both share: a ``weight_fake_quantizer`` that the weight passes through, all of it or the rows in use."""

    max_norm: float | None
    padding_idx: int | None
    sparse: bool
    weight: Tensor
    weight_fake_quantizer: FakeQuantizer

    def _quantize_by(self, weight: FakeQuantizer) -> None:
        owner = type(self).__name__
        if self.max_norm is not None:
            raise ArgumentError(f"{owner}: want max_norm=None")
        if weight is None:
            raise TypeError(f"{owner}: weight_fake_quantizer is None; want a module")
        self.weight_fake_quantizer = checked(self, "weight_fake_quantizer", weight)
        weight.expect(self.weight.shape)

    def _table(self, input: Tensor) -> tuple[Tensor, Tensor, int | None]:
        """What to look up in what: input, the fake-quantized weight and padding_idx; or the same of the rows in use."""
        named = self._rows_of(input) if self._takes_rows(input) else None
        return (input, self.weight_fake_quantizer(self.weight), self.padding_idx) if named is None else named

    def _takes_rows(self, input: Tensor) -> bool:
        """Whether to fake-quantize the rows in use alone: for a sparse gradient, and where it takes less time."""
        by, (rows, columns) = self.weight_fake_quantizer, self.weight.shape
        if by.has_own_call() or backward_hook(by) is not None or not by.is_faking():  # hooks see the whole
            return False
        if not isinstance(input, Tensor) or input.dtype not in _INDICES:
            return False
        if self.sparse:
            return True
        if not is_plain(input) or not input.is_cpu:
            return False
        # Of parameters that rows share, a row's part of the gradient would be added up in another order.
        return rows * columns >= _SMALL and rows >= _ROWS * input.numel() > 0 and by.scheme.grouping.is_by_row()

    @not_compiled  # how many rows there are depends on the indices
    def _rows_of(self, input: Tensor) -> tuple[Tensor, Tensor, int | None] | None:
        """Where input's rows lie among those that it names, these, fake-quantized, and which is the padding. A row comes
        once, so that its gradient has the sums, and the bits, of the whole table's. None for indices out of range, which
        the table names, and those without values."""
        by, weight = self.weight_fake_quantizer, self.weight
        if not has_value(input):
            return None
        if input.numel():
            least, most = input.aminmax()
            if least < 0 or most >= weight.shape[0]:
                return None
        found, position = distinct(input, weight.shape[0], None)
        rows = embedding(found, weight, sparse=self.sparse)
        grouping, parameters = by.parameters_of_rows(weight, found, rows)
        padding = None if self.padding_idx is None else (found == self.padding_idx).nonzero()
        return (
            position.to(input.dtype),
            by.scheme.with_grouping(grouping).fake_quantize(rows, *parameters),
            int(padding) if padding is not None and padding.numel() else None,
        )

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
    FakeQuantize module: of a large table the rows in use alone, where rows share no parameters, with the same
    bits. With ``sparse=True`` it is they always, so that the gradient of the weight is sparse (in compiled code a graph
    break), unless weight_fake_quantizer has hooks or is switched off: hooks see the whole. ``served()``, and convert, keep
    codes, and dequantize the rows that are asked for, with the bits of eval mode. There is no max_norm, which would
    change the weight below its codes: ValueError."""

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
        if is_jagged(input):
            return of_values(type(self).__name__, self.forward, input, None)
        input, table, padding_idx = self._table(input)
        return embedding(input, table, padding_idx, scale_grad_by_freq=self.scale_grad_by_freq)

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
        include_last_offset = self.include_last_offset
        if is_jagged(input):
            name = type(self).__name__
            input, offsets, per_sample_weights = unnested(name, input, offsets, per_sample_weights)
            include_last_offset = True
        input, table, padding_idx = self._table(input)
        return embedding_bag(
            input,
            table,
            offsets,
            scale_grad_by_freq=self.scale_grad_by_freq,
            mode=self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )

    def served(self) -> ServedFakeQuantizedEmbeddingBag:
        """This layer for inference: its weight as codes."""
        given = self.padding_idx, self.mode, self.include_last_offset
        return ServedFakeQuantizedEmbeddingBag(self.weight, self.weight_fake_quantizer, *given)
