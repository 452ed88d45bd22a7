"""Sparse gradients of embeddings: the rows that indices name, each once."""

from __future__ import annotations

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.compiler import is_dynamo_compiling
from torch.fx.experimental.proxy_tensor import get_proxy_mode

# Marking rows is faster than sorting indices: up to so many rows for an index, from so many indices on, or where a row
# is left out.
_DENSE = 20
_MANY = 256


def check_unmapped(op: str, *tensors: Tensor) -> None:
    """Raises within vmap, which has no batches of sparse tensors."""
    if not is_dynamo_compiling() and any(_is_mapped(t) for t in tensors):
        raise NotImplementedError(f"{op}: vmap has no sparse gradients; want sparse=False")


def _is_mapped(t: Tensor) -> bool:
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(t) and not functorch.is_batchedtensor(t):
        t = functorch.get_unwrapped(t)
    return functorch.is_batchedtensor(t)


def distinct(indices: Tensor, rows: int, left_out: int | None) -> tuple[Tensor, Tensor]:
    """The rows that indices name, ascending, and for each index which of them it is: -1 of the one left out."""
    if not _has_values(indices):  # as if no two were equal
        return indices.flatten(), indices
    count = indices.numel()
    known = not isinstance(indices, FakeTensor) and (left_out is None or left_out >= 0)
    if known and rows <= _DENSE * count and (count >= _MANY or left_out is not None):
        at = indices.flatten().long()
        named = torch.zeros(rows, dtype=torch.bool, device=at.device).index_fill_(0, at, True)
        if left_out is not None:
            named[left_out] = False
        found = named.nonzero().squeeze(1)
        place = at.new_empty(rows)
        if left_out is not None:
            place[left_out] = -1
        place.scatter_(0, found, torch.arange(found.numel(), device=at.device))
        return found, place.index_select(0, at).reshape(indices.shape)
    found, position = torch.unique(indices, sorted=True, return_inverse=True)
    if left_out is not None:
        others = found != left_out
        place = (others.cumsum(0) - 1).masked_fill(~others, -1)
        found, position = found[others.nonzero().squeeze(1)], place[position]
    return found, position


def _has_values(indices: Tensor) -> bool:
    """Whether indices can be read: not on meta, and of fake tensors only where make_fx records what it will run."""
    return not (indices.is_meta or (isinstance(indices, FakeTensor) and get_proxy_mode() is None))


def coalesced(found: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A sparse gradient of ascending rows."""
    # Indices with a stride of 2: autograd clones such a gradient into a leaf's .grad, and the clone stays coalesced. Of
    # contiguous ones it would make a new tensor, which torch takes for uncoalesced.
    apart = torch.empty_strided((1, found.numel()), (1, 2), dtype=torch.int64, device=found.device).copy_(found)
    return torch.sparse_coo_tensor(apart, values, shape, is_coalesced=True, check_invariants=False)
