"""Importing this module tells torch.distributed.tensor how isobit's ops are sharded.

A shard computes the elements of a result that are whole there: rows of a batch, channels, output features, an
embedding's columns. Sums are never taken in parts, whose order would depend on the number of processes: what they are
of is gathered. So a DTensor's values have the bits of one process."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor._op_schema import RuntimeSchemaInfo
from torch.distributed.tensor.experimental import register_sharding

from ._load import PACKED
from ._op import OPS, Op
from .ops._granularity import GRANULARITIES, Granularity

# A letter for each dimension of the inputs, then of the outputs, as in einsum. A call may be sharded along a letter that
# every output has, unless it is a capital. Where the number of dimensions varies, a function of the inputs gives the text.
_LETTERS: dict[str, str | Callable[..., str]] = {
    "matmul": lambda x, *_: "bmk,bkn,n->bmn" if x.ndim == 3 else "mk,kn,n->mn",
    "quantized_linear_codes": "mk,m,nk,n,n->mn",
    "quantized_linear_per_group": "mk,m,m,nk,ng,ng,n->mn",
    "weight_only_linear": "mk,nk,ng,ng,n->mn",
    "embedding": lambda weight, indices: f"Vy,{_letters_of(indices)}->{_letters_of(indices)}y",
    "embedding_backward": lambda grad, indices: f"{_letters_of(indices)}y,{_letters_of(indices)}->Vy",
    "embedding_bag": "Vy,I,O,W->By,By",
    "embedding_bag_backward": "By,I,O,W,By->Vy",
    "grid_sample": lambda image, grid: _like_samples(image, grid, "input grid -> output"),
    "grid_sample_backward": lambda _, image, grid: _like_samples(image, grid, "output input grid -> input grid"),
    "grid_sample_double_backward": lambda _, image, grid, *__: _like_samples(
        image, grid, "output input grid input grid -> output input grid"
    ),
}
# Ops over elements that share a scale: _of_groups. Other ops are not sharded: their attributes are extents of the whole, as
# affine_grid's, or they sum over columns.


def _letters_of(t: Any) -> str:
    return ascii_lowercase[: t.ndim]


def _like_samples(image: Any, grid: Any, words: str) -> str:
    """The letters of arguments and results that are like the samples, the image or the grid."""
    positions = "pqr"[: grid.ndim - 2]
    like = {"output": "nc" + positions, "input": "ncHWD"[: image.ndim], "grid": f"n{positions}X"}
    return "->".join(",".join(like[word] for word in some.split()) for some in words.split("->"))


def _of_groups(op: Op, granularity: Granularity, args: tuple[Any, ...]) -> str:
    """The letters of arguments and results that are like the data or like its parameters."""
    attributes = args[len(op.signature.inputs) :]
    data = _letters_of(args[0])
    if granularity.block:  # in which no shard may end: only where it has one element is that so for every length
        data = "".join(c if b == 1 else c.upper() for c, b in zip(data, attributes[0], strict=True))
    if granularity.group or any(a in PACKED for a in attributes if isinstance(a, torch.dtype)):
        data = data[:-1] + data[-1:].upper()
    if granularity.block:
        parameters = "".join(c if c.islower() else "Z" for c in data)
    else:
        parameters = data[attributes[0]] if granularity.axis else data[:-1] + "Z" if granularity.rows else "Z"
    names = [item.name for item in op.signature.inputs], [o.name for o in op.signature.outputs]
    like = ((parameters if name.endswith(("scale", "zero_point")) else data for name in some) for some in names)
    return "->".join(map(",".join, like))


def _letters(op: Op, args: tuple[Any, ...]) -> str:
    rule = _LETTERS.get(op.name)
    if rule is None:
        for granularity in GRANULARITIES.values():
            if f"_{granularity.plan}" in op.plan:
                return _of_groups(op, granularity, args)
        return "->"
    return rule if isinstance(rule, str) else rule(*args[: len(op.signature.inputs)])


def _shardings(op: Op, *args: Any) -> list[tuple[list[Any], list[Any]]]:
    """What register_sharding asks for: placements of the results, and of the arguments that they follow from."""
    args = op.complete(args)
    count = len(op.signature.inputs)
    of_inputs, of_results = (text.split(",") for text in _letters(op, args).split("->"))
    is_there = [o.wanted(args[count:]) for o in op.signature.outputs]
    common = set.intersection(*(set(letters) for letters, there in zip(of_results, is_there, strict=True) if there))

    def along(letter: str) -> tuple[list[Any], list[Any]]:
        def placed(letters: str, there: Any) -> Shard | Replicate | None:
            return Shard(letters.index(letter)) if there and letter in letters else Replicate()

        results = [placed(*pair) for pair in zip(of_results, is_there, strict=True)]
        tensors = [hasattr(a, "placements") for a in args]
        pairs = zip_longest(of_inputs, tensors, fillvalue="")
        return results, [placed(letters, there=True) if there else None for letters, there in pairs]

    return [along(letter) for letter in ("no", *sorted(common - set(ascii_uppercase)))]


for _op in OPS.values():
    if _op.signature.outputs:  # not embedding_renorm_, which writes its argument
        register_sharding(_op.raw)(partial(_shardings, _op))
        # All attributes tell calls apart, not only those from the first int on.
        _info = RuntimeSchemaInfo(len(_op.signature.inputs), needs_pytree=True)
        DTensor._op_dispatcher.sharding_propagator.op_to_schema_info[_op.raw] = _info
