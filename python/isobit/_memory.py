"""Memory of large outputs, and where elements begin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from . import _C
from ._checks import check_kinds


def set_huge_pages(on: bool) -> None:
    """Whether new outputs, workspaces and tables of isobit.nn's embeddings, of 4 MiB and more on the CPU, ask Linux for
    pages of 2 MiB (on at the start).

    A large tensor is new memory from the system each time, and its page faults cost more than most
    ops: with huge pages there are fewer. Rows of a table that no cache holds are found sooner. Only pages that lie wholly within a tensor are asked for. It
    never changes a result, and has no effect where transparent huge pages are set to never."""
    check_kinds("set_huge_pages", "b", on=on)
    _C.set_huge_pages(on)


def get_huge_pages() -> bool:
    """What set_huge_pages set."""
    return _C.get_huge_pages()


def is_at_odd_address(t: torch.Tensor) -> bool:
    """Whether its address is no multiple of an element's size, as torch.frombuffer and NumPy allow."""
    return t.data_ptr() % t.element_size() != 0


def at_even_addresses(call: Callable[[tuple[Any, ...]], Any], inputs: Any, args: tuple[Any, ...]) -> Any:
    """call of an op's arguments, with aligned copies of the inputs at odd addresses; those that are written are copied
    back."""
    even = [a.clone() if isinstance(a, torch.Tensor) and is_at_odd_address(a) else a for a in args[: len(inputs)]]
    results = call((*even, *args[len(inputs) :]))
    for item, original, copied in zip(inputs, args, even, strict=False):
        if item.written and copied is not original:
            original.copy_(copied)
    return results
