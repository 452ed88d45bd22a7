"""Any problem of the library, by its text: the interface that C, C++ and Go have."""

from __future__ import annotations

import json
from itertools import compress
from typing import Any

import torch

from . import _C
from ._load import increment_version


class Plan:
    """A problem made ready to run.

    >>> plan = Plan("quantize_per_tensor x=f32[4] zero_point=none q=s8 qmin=-128 qmax=127")
    >>> plan.run(x, scale, None, q)

    Tensors are anything with ``__dlpack__``: torch's, numpy's. Inputs come first, then outputs, in
    the order of ``describe()["args"]``; None for one that the problem says is ``none``."""

    def __init__(self, problem: str, *, row: str | None = None, max_workspace: int = 0, num_threads: int = 0) -> None:
        self._create = (problem, row, max_workspace, num_threads)
        self._generation = 0
        self._handle = 0
        self.describe()

    def _ready(self) -> int:
        """The handle. A forked child has a library of its own, and needs a new one."""
        if self._generation != _C.generation():
            self._handle = _C.plan_create(*self._create)
            self._generation = _C.generation()
            self._description: dict[str, Any] = json.loads(_C.plan_describe(self._handle))
            self._writes = tuple(arg["direction"] != "in" for arg in self._description["args"])
        return self._handle

    def describe(self) -> dict[str, Any]:
        """What the plan is: problem, category, row, arch, workspace_size, precision_guarantee, and args, a list of
        name, dtype, shape, direction, optional and present."""
        self._ready()
        return self._description

    @property
    def workspace_size(self) -> int:
        return _C.plan_workspace_size(self._ready())

    def can_implement(self, *tensors: Any) -> None:
        """Raises what run would, without running."""
        handle = self._ready()
        _C.plan_call(handle, tensors, self._writes, False)

    def run(self, *tensors: Any) -> None:
        """Computes. Autograd sees what is written: a tensor that wants a gradient is refused."""
        handle = self._ready()
        written = [t for t in compress(tensors, self._writes) if t is not None and isinstance(t, torch.Tensor)]
        if torch.is_grad_enabled():
            for t in written:
                if t.requires_grad:
                    raise RuntimeError(f"{self!r}: an output requires a gradient; use torch.no_grad()")
        _C.plan_call(handle, tensors, self._writes, True)
        if written:
            increment_version(tuple(written))

    def __repr__(self) -> str:
        return f"Plan({self._create[0]!r})"

    def __reduce__(self) -> Any:
        problem, row, max_workspace, num_threads = self._create
        return _restore, (problem, row, max_workspace, num_threads)

    def __del__(self) -> None:
        if self._handle and _C.is_loaded() and self._generation == _C.generation():
            _C.plan_destroy(self._handle)


def _restore(problem: str, row: str | None, max_workspace: int, num_threads: int) -> Plan:
    return Plan(problem, row=row, max_workspace=max_workspace, num_threads=num_threads)


def support() -> list[dict[str, Any]]:
    """What runs where: for each operation its op, category, args, attributes, devices and rows, best first."""
    return json.loads(_C.support())


def info() -> dict[str, Any]:
    """The state of the library: version, abi, go, os, arch, isa (the largest instruction set in use), threads,
    parallel (whose they are: "isobit" or "host") and cuda ("available", or why not)."""
    return json.loads(_C.info())
