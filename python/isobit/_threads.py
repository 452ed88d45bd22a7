"""The number of threads."""

from __future__ import annotations

from . import _C
from ._checks import check_kinds, spell
from ._errors import ArgumentError


def set_num_threads(n: int | None) -> None:
    """The number of threads that a call may use, this one included. None, which is how isobit
    starts, follows torch.get_num_threads(). It never changes a result."""
    check_kinds("set_num_threads", "i?", n=n)
    if n is not None and not 1 <= n <= 1024:
        raise ArgumentError(f"set_num_threads: n is {spell(n)}; want 1 to 1024")
    _C.set_num_threads(0 if n is None else n)


def get_num_threads() -> int:
    """The number of threads that a call may use: torch's, unless set_num_threads set one."""
    return _C.get_num_threads()
