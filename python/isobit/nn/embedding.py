"""torch.nn.Embedding over isobit's op."""

from __future__ import annotations

import torch
from torch import Tensor

from ..ops.embedding import embedding


class Embedding(torch.nn.Embedding):
    """torch.nn.Embedding with isobit's forward and gradient: sums in float32 for 16-bit weights,
    the same for every number of threads, and errors that name a bad index."""

    def forward(self, input: Tensor) -> Tensor:
        return embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )
