"""Any problem of the library, by its text: the interface that C, C++ and Go have."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

from . import _C
from ._C import plan_call
from ._checks import check_kinds, spell
from ._errors import ArgumentError
from ._explain import renamed

# Whether plan_call runs, too.
_CHECK, _RUN = False, True


class Plan:
    """A problem made ready to run.

    >>> plan = isobit.Plan("quantize_per_tensor x=f32[2] zero_point=none q=s8 qmin=-128 qmax=127")
    >>> codes = torch.empty(2, dtype=torch.int8)
    >>> plan.run(torch.tensor([0.5, -9.0]), torch.tensor(0.25), None, codes)
    >>> codes.tolist()
    [2, -36]

    problem: its text; ``support()``, and OPS.md in the repository, say what there is. row: a row by name,
    such as "go", instead of the best. max_workspace: rows that need more bytes run on fewer threads, or
    are passed over; 0 is no limit. num_threads: 0 follows set_num_threads. A problem that does not exist
    is a ValueError.

    Tensors are anything with ``__dlpack__``: torch's, numpy's. Inputs come first, then outputs, in
    the order of ``describe()["args"]``; None for one that the problem says is ``none``."""

    _made: tuple[int, int, int, tuple[bool, ...]] = (0, 0, 0, ())

    def __init__(self, problem: str, *, row: str | None = None, max_workspace: int = 0, num_threads: int = 0) -> None:
        check_kinds("Plan", "s", problem=problem)
        check_kinds("Plan", "s?", row=row)
        check_kinds("Plan", "i", max_workspace=max_workspace, num_threads=num_threads)
        for name, text in (("problem", problem), ("row", row or "")):
            if "\0" in text or any("\ud800" <= c <= "\udfff" for c in text):
                raise ArgumentError(f"Plan: {name} is {spell(text)}; want text without NUL and surrogates")
        if not 0 <= num_threads <= 1024:
            raise ArgumentError(f"Plan: num_threads is {spell(num_threads)}; want 0 to 1024")
        self._create = (problem, row, max_workspace, num_threads)
        self._make()

    def _make(self) -> None:
        """Makes the plan, or makes it again in a forked child, which has a library of its own."""
        try:
            handle, generation = _C.plan_create(*self._create), _C.generation()
        except (ValueError, RuntimeError) as error:
            raise self._naming(error) from None
        self._made = (handle, generation, 0, ())  # what is to be destroyed, should the rest fail
        self._description: dict[str, Any] = json.loads(_C.plan_describe(handle))
        writes = tuple(arg["direction"] != "in" for arg in self._description["args"])
        self._made = (handle, generation, _C.plan_workspace_size(handle), writes)

    def describe(self) -> dict[str, Any]:
        """What the plan is: problem, category, row, arch, workspace_size, precision_guarantee, and args, a list of
        name, dtype, shape, direction, optional and present."""
        return copy.deepcopy(self._description)

    @property
    def workspace_size(self) -> int:
        """The bytes of workspace that a run needs, and makes itself."""
        return self._made[2]

    def can_implement(self, *tensors: Any) -> None:
        """Raises what run would, without running."""
        try:
            while not plan_call(self._made, tensors, _CHECK):
                self._make()
        except (TypeError, ValueError, RuntimeError) as error:
            raise self._naming(error) from None

    def run(self, *tensors: Any) -> None:
        """Computes. Autograd sees what is written: an output that wants a gradient is refused.

        What is no tensor is a TypeError, one that does not fit a ValueError; then nothing is written."""
        try:
            while not plan_call(self._made, tensors, _RUN):
                self._make()
        except (TypeError, ValueError, RuntimeError) as error:
            raise self._naming(error) from None

    def _naming(self, error: Exception) -> Exception:
        """An error of the library in Python's words, or of the extension, which counts the tensors, with a name."""
        text = renamed(str(error), {"isobit_support": "isobit.support()"})
        found = re.match(r"isobit: tensor (\d+)\b", text)
        if found and int(found[1]) < len(self._description["args"]):
            op, name = self._create[0].split(" ")[0], self._description["args"][int(found[1])]["name"]
            text = f"{op}: {name}{text[found.end() :]}"
        return error if text == str(error) else type(error)(text)

    def __repr__(self) -> str:
        return f"Plan({self._create[0]!r})"

    def __reduce__(self) -> Any:
        problem, row, max_workspace, num_threads = self._create
        return _restore, (problem, row, max_workspace, num_threads)

    def __del__(self) -> None:
        handle, generation = self._made[:2]
        if handle and _C.is_loaded() and generation == _C.generation():
            _C.plan_destroy(handle)


def _restore(problem: str, row: str | None, max_workspace: int, num_threads: int) -> Plan:
    return Plan(problem, row=row, max_workspace=max_workspace, num_threads=num_threads)


def support() -> list[dict[str, Any]]:
    """What runs where: for each operation its op, doc, formulas of the outputs, numerics (the sections of
    NUMERICS.md that say its bits), category, args, attributes, devices and rows, best first."""
    return json.loads(_C.support())


def info() -> dict[str, Any]:
    """The state of the library: version, abi, go, os, arch, isa (the largest instruction set in use), threads,
    parallel (whose they are: "isobit" or "host") and cuda ("available", or why not)."""
    return json.loads(_C.info())
