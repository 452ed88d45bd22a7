"""What the processes of a group observed, brought together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from .._errors import ArgumentError
from ._modules import check_module
from .fake_quantize import FakeQuantize
from .histogram_observer import HistogramObserver
from .moving_average_observer import MovingAverageMinMaxObserver
from .observers import MinMaxObserver


@torch.no_grad()
def synchronize_observers(module: torch.nn.Module, group: Any = None) -> None:
    """Gives every observer in module what those of all processes of a group saw, and fake-quantizers the scale and the
    zero point that follow. All processes call it, with the same observers; group is a torch.distributed one.

    It is for data parallelism, before a model is evaluated, saved or converted: fully_shard leaves each process its own
    statistics, and DistributedDataParallel gives all those of the first one. The range of a MinMaxObserver becomes the
    smallest and the largest value of all processes; counts of a HistogramObserver are added up over that range. Moving
    averages, MSEObserver's too, become their mean, computed in float64: the average that one observer would have of
    the mean of the processes' ranges, since what it would have of the widest ones is no longer known. Processes that
    saw nothing do not count.

    Counts are shared once: after it, where more were added, ValueError until ``reset_min_max_vals()``. ValueError, too,
    where observers or the shapes of their ranges differ between processes; TypeError for torch.ao's observers: on
    every process, and before anything is changed. Switches and learned scales stay as they are."""
    check_module("synchronize_observers", module)
    observers = {name: part for name, part in module.named_modules() if isinstance(part, MinMaxObserver)}
    fakes = [part for part in module.modules() if isinstance(part, FakeQuantize) and not part.is_dynamic]
    for fake in fakes:
        observer = fake.activation_post_process
        if not isinstance(observer, MinMaxObserver):
            kind = type(observer).__name__
            raise TypeError(f"synchronize_observers: an observer is torch.ao's {kind}; want one of isobit.nn's")
    # Each process looks at what all of them have, so that none is left waiting where they disagree.
    mine = [_Outline.of(name, observer) for name, observer in observers.items()]
    of_all: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(of_all, mine, group)
    if not of_all:  # this process is not of the group, as torch has warned
        return
    _check_same(of_all)
    found = [_joined(outlines) for outlines in zip(*of_all, strict=True)]
    for observer, outline in zip(observers.values(), found, strict=True):
        if outline.shape is not None and outline.shared == "none":
            _join(observer, outline, group)
    for fake in fakes:
        if not fake.activation_post_process.is_new():
            fake.take_parameters()


class _Outline(NamedTuple):
    """An observer as other processes have to know it."""

    name: str
    kind: str
    bins: int | None  # of a histogram
    shared: str
    shape: list[int] | None  # of the range; None where nothing was seen
    dtype: torch.dtype

    @classmethod
    def of(cls, name: str, observer: MinMaxObserver) -> _Outline:
        bins, shared = (observer.bins, observer.shared) if isinstance(observer, HistogramObserver) else (None, "none")
        shape = None if observer.is_new() else list(observer.min_val.shape)
        return cls(name, type(observer).__name__, bins, shared, shape, observer.min_val.dtype)


def _check_same(of_all: list[list[_Outline]]) -> None:
    """Raises where processes have other observers."""
    for process, outlines in enumerate(of_all):
        for mine, other in zip(of_all[0], outlines, strict=False):
            if mine[:3] != other[:3]:
                a, b = (
                    f"{o.name!r}, a {o.kind}{'' if o.bins is None else f' of {o.bins} bins'}" for o in (mine, other)
                )
                raise ArgumentError(f"synchronize_observers: process 0 has {a}, process {process} {b}; want the same")
        if len(of_all[0]) != len(outlines):
            counts = f"process 0 has {len(of_all[0])} observers, process {process} {len(outlines)}"
            raise ArgumentError(f"synchronize_observers: {counts}; want the same")


def _joined(outlines: Sequence[_Outline]) -> _Outline:
    """The outline of an observer that saw what all processes saw."""
    result = outlines[0]
    for other in outlines[1:]:
        if result.shape is not None and other.shape not in (None, result.shape):
            shapes = f"ranges of shape {list(result.shape)} and {list(other.shape)}"
            raise ArgumentError(f"synchronize_observers: {result.name!r} has {shapes}; want the same on all processes")
        dtype = torch.promote_types(result.dtype, other.dtype)
        shape = other.shape if result.shape is None else result.shape
        result = result._replace(shape=shape, dtype=dtype)
    if {outline.shared for outline in outlines} not in ({"none"}, {"all"}):
        raise ArgumentError(
            f"synchronize_observers: {result.name!r} has counts that were shared, and others; want one call, after all "
            "batches, or reset_min_max_vals() before more of them"
        )
    return result


def _join(observer: MinMaxObserver, outline: _Outline, group: Any) -> None:
    if observer.is_new():
        observer._start(outline.shape)
    low, high = observer.min_val.to(outline.dtype), observer.max_val.to(outline.dtype)
    low, high = (_mean if isinstance(observer, MovingAverageMinMaxObserver) else _widest)(low, high, group)
    if isinstance(observer, HistogramObserver):
        observer.share(low, high, lambda counts: _reduced(counts, dist.ReduceOp.SUM, group))
    observer.set_range(low, high)


def _reduced(x: Tensor, op: Any, group: Any) -> Tensor:
    x = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(x, op, group)
    return x


def _widest(low: Tensor, high: Tensor, group: Any) -> tuple[Tensor, Tensor]:
    """The smallest and the largest of all processes. A NaN, with which backends do as they like, goes apart."""
    ends = torch.stack([-low, high])
    isnan = ends.isnan()
    ends = ends.masked_fill((low > high) | isnan, -torch.inf)
    ends, isnan = _reduced(torch.stack([ends, isnan.to(ends.dtype)]), dist.ReduceOp.MAX, group)
    ends = ends.masked_fill(isnan > 0, torch.nan)
    return -ends[0], ends[1]


def _mean(low: Tensor, high: Tensor, group: Any) -> tuple[Tensor, Tensor]:
    """The mean of what processes saw."""
    seen = ~(low > high)  # also of a NaN
    sums = torch.stack([torch.where(seen, low, 0), torch.where(seen, high, 0), seen.to(low.dtype)]).double()
    least, most, count = _reduced(sums, dist.ReduceOp.SUM, group)
    return (least / count).to(low.dtype), (most / count).to(low.dtype)
