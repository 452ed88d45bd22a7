"""Sparse gradients of embeddings: the rows that indices name, each once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode


def distinct(indices: Tensor) -> tuple[Tensor, Tensor]:
    """The rows that indices name, ascending, and for each index which of them it is."""
    if not has_values(indices):  # as if no two were equal
        return indices.flatten(), indices
    found, position = torch.unique(indices, sorted=True, return_inverse=True)
    return found, position


def has_values(indices: Tensor) -> bool:
    """Whether indices can be read: not on meta, and of fake tensors only where make_fx records what it will run."""
    return not (indices.is_meta or (isinstance(indices, FakeTensor) and get_proxy_mode() is None))


def coalesced(found: Tensor, values: Tensor, shape: tuple[int, int], left_out: int | None) -> Tensor:
    """A sparse gradient of ascending rows, without one that is left out."""
    if left_out is not None and has_values(found):
        rest = (found != left_out).nonzero().squeeze(1)
        found, values = found[rest], values[rest]
    # Indices with a stride of 2: autograd clones such a gradient into a leaf's .grad, and the clone stays coalesced. Of
    # contiguous ones it would make a new tensor, which torch takes for uncoalesced.
    apart = torch.empty_strided((1, found.numel()), (1, 2), dtype=torch.int64, device=found.device).copy_(found)
    return torch.sparse_coo_tensor(apart, values, shape, is_coalesced=True, check_invariants=False)
