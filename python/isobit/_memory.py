"""Memory of large outputs, and where elements begin."""

from __future__ import annotations

from typing import Any

import torch

from . import _C


def set_huge_pages(on: bool) -> None:
    """Whether new outputs and workspaces of 4 MiB and more on the CPU ask Linux for pages of 2 MiB (on at the start).

    A large tensor is new memory from the system each time, and its page faults cost more than most
    ops: with huge pages there are fewer. Only pages that lie wholly within a tensor are asked for. It
    never changes a result, and has no effect where transparent huge pages are set to never."""
    if not isinstance(on, bool):
        raise TypeError(f"set_huge_pages: on must be a bool, not {on!r}")
    _C.set_huge_pages(on)


def get_huge_pages() -> bool:
    """What set_huge_pages set."""
    return _C.get_huge_pages()


def is_at_odd_address(t: torch.Tensor) -> bool:
    """Whether elements begin anywhere, as torch.frombuffer and NumPy have them."""
    return t.data_ptr() % t.element_size() != 0


def at_even_addresses(args: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    """An op's arguments, whose first `count` are its inputs, with copies of inputs that lie at odd addresses."""
    even = (a.clone() if isinstance(a, torch.Tensor) and is_at_odd_address(a) else a for a in args[:count])
    return (*even, *args[count:])
