"""The step of gpu_check that runs every problem of cuda/cases.txt, by the definitions and on a device."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpu_jobs
import torch
from gpu_report import Report
from gpu_steps import digest
from isobit import _load
from isobit.plan import Plan

Random = torch.Generator
DTYPES = {name: dtype for dtype, _, _, name in _load.DTYPES} | {"s4": torch.uint8, "u4": torch.uint8}
SPECIAL = (0.0, -0.0, float("nan"), float("inf"), float("-inf"), 1e-45, -1e-40, 3e38, -65504.0, 0.5, -0.5, 1.5, 2.5)


def expand(text: str) -> Iterator[str]:
    """Replaces each {a|b} by every choice."""
    head, found, rest = text.partition("{")
    if not found:
        yield text
        return
    choices, _, tail = rest.partition("}")
    for choice in choices.split("|"):
        for end in expand(tail):
            yield head + choice + end


def cases(path: str) -> Iterator[str]:
    for line in Path(path).read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            yield from expand(line.strip())


def draw(name: str, dtype: torch.dtype, shape: list[int], text: str, kind: int, random: Random) -> torch.Tensor:
    """One argument of a problem. kind: 0 with special values, 1 without, 2 with hot destinations."""
    if name == "indices":
        return draw_indices(dtype, shape, text, kind, random)
    if name in ("offsets", "chosen"):  # positions of indices; offsets begin at 0 and ascend
        positions = math.prod(map(int, extents(text, "indices")))
        values = (uniform(shape, random) * positions).floor().to(dtype)
        return values.sort().values - values.min() if name == "offsets" else values
    if dtype.itemsize == 1 and dtype.is_floating_point:
        codes = torch.randint(256, shape, generator=random, dtype=torch.uint8).view(dtype)
        return codes if kind == 0 else torch.where(codes.float().isfinite(), codes.float(), 1.0).to(dtype)
    if not dtype.is_floating_point:
        return draw_integers(name, dtype, shape, text, random)
    if name == "q":
        return (uniform(shape, random) * 255 - 128).floor().to(dtype)
    if "scale" in name and "grad" not in name:
        return ((1 + (uniform(shape, random) * 4).floor() / 4) / 16).to(dtype)
    values = draw_grid(shape, kind, random) if name == "grid" else draw_ties(shape, random)
    if kind != 1:
        special = torch.tensor(SPECIAL, dtype=torch.float64)
        picked = special[torch.randint(len(SPECIAL), shape, generator=random)]
        values = torch.where(torch.rand(shape, generator=random) < 0.06, picked, values)
    return values.to(dtype)


def uniform(shape: list[int], random: Random) -> torch.Tensor:
    return torch.rand(shape, generator=random, dtype=torch.float64)


def extents(text: str, name: str) -> list[str]:
    """The shape that a problem's text has for an argument."""
    return text.partition(f"{name}=")[2].partition("[")[2].partition("]")[0].split(",")


def draw_indices(dtype: torch.dtype, shape: list[int], text: str, kind: int, random: Random) -> torch.Tensor:
    """Rows of weight: mostly one row for kind 2, some out of range for kind 0 where the problem skips those."""
    rows = int(extents(text, "weight")[0])
    values = (uniform(shape, random) * rows).floor()
    if kind == 2:
        values = torch.where(torch.rand(shape, generator=random) < 0.9, float(rows // 2), values)
    if kind == 0 and "bounds=error" not in text:
        values = torch.where(torch.rand(shape, generator=random) < 0.05, float(rows + 1), values)
    return values.to(dtype)


def draw_integers(name: str, dtype: torch.dtype, shape: list[int], text: str, random: Random) -> torch.Tensor:
    """Codes of the whole range of their type, or zero points of 4 bits."""
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    if dtype == torch.int64:  # zero points, beyond the codes of any type
        low, high = -300, 300
    if name == "zero_point":
        low, high = 0 if "qmin=0 " in text or dtype == torch.uint8 else -8, 7
    if "140004" in text:  # sums that 32 bits do not hold
        high = low
    return (low + (uniform(shape, random) * (high - low + 1)).floor()).to(dtype)


def draw_grid(shape: list[int], kind: int, random: Random) -> torch.Tensor:
    """Positions in and around the image, some at its ends -1 and 1; for kind 2, all in one place of it."""
    positions = uniform(shape, random)
    whole = (positions * 3).floor()
    if kind == 2:
        return whole / 64
    return torch.where(torch.rand(shape, generator=random) < 0.1, whole - 1, positions * 3 - 1.5)


def draw_ties(shape: list[int], random: Random) -> torch.Tensor:
    """Normal values, and some of a coarse raster, whose quotients by scales are ties."""
    raster = (uniform(shape, random) * 64 - 32).floor() / 32
    normal = torch.randn(shape, generator=random, dtype=torch.float64)
    return torch.where(torch.rand(shape, generator=random) < 0.3, raster, normal)


def place(value: torch.Tensor, device: str, layout: int) -> torch.Tensor:
    """A copy on a device: compact, off its alignment, with its dimensions stored backwards, or its rows apart."""
    if layout == 1:
        memory = torch.empty(value.numel() + 1, dtype=value.dtype, device=device)
        return memory[1:].view(value.shape).copy_(value)
    if layout == 2 and value.dim() > 1:
        order = list(reversed(range(value.dim())))
        memory = torch.empty([value.shape[d] for d in order], dtype=value.dtype, device=device)
        return memory.permute(order).copy_(value)
    if layout == 3:
        memory = torch.empty([*value.shape[:-1], value.shape[-1] + 3], dtype=value.dtype, device=device)
        return memory[..., : value.shape[-1]].copy_(value)
    return value.to(device, copy=True)


def run_problem(definition: Plan, text: str, number: int, device: str) -> tuple[list[str], list[str]]:
    """The digests of a problem's outputs, by the definitions and on the device."""
    plans = definition, Plan(text if device == "cpu" else f"{text} device={device}")
    random = torch.Generator().manual_seed(number)
    reads = "accumulate=true" in text or text.startswith("embedding_renorm ")
    arguments: list[list[Any]] = [[], []]
    outputs: list[list[torch.Tensor]] = [[], []]
    for arg in plans[0].describe()["args"]:
        if not arg["present"]:
            arguments[0].append(None)
            arguments[1].append(None)
            continue
        dtype, shape, is_input = DTYPES[arg["dtype"]], arg["shape"] or [], arg["direction"] == "in"
        value = torch.full(shape, 77, dtype=dtype)
        if is_input or reads:
            value = draw(arg["name"], dtype, shape, text, number // 3 % 3, random)  # each kind with each layout
        layout = number % 3
        if layout == 2 and arg["dtype"] in ("s4", "u4"):
            layout = 3  # rows of packed codes are compact
        for side, where in enumerate(("cpu", device)):
            arguments[side].append(place(value, where, layout))
            if not is_input:
                outputs[side].append(arguments[side][-1])
    for plan, tensors in zip(plans, arguments, strict=True):
        plan.run(*tensors)
    return [digest(t) for t in outputs[0]], [digest(t) for t in outputs[1]]


def check_values(device: str, path: str, part: str, report: Report) -> None:
    """part: which of how many equal parts of the problems, as 0/1. Parts are runs of problems: a kernel is translated
    by the driver in one process or two, which takes longer than all that it computes."""
    ops: dict[str, dict[str, Any]] = report.setdefault("values", {})
    texts = list(cases(path))
    wanted = set(report.matching(texts))
    which, _, parts = part.partition("/")
    for number, text in enumerate(texts):
        if text not in wanted or number * int(parts) // len(texts) != int(which):
            continue
        op = ops.setdefault(text.partition(" ")[0], {"cases": 0, "different": []})
        try:
            definition = Plan(text, row="go")
        except ValueError:
            continue  # a choice that is no valid problem
        op["cases"] += 1
        try:
            want, got = run_problem(definition, text, number, device)
        except Exception as e:
            want, got = [], [f"{type(e).__name__}: {e}"]
        if want != got:
            op["different"].append({"problem": text, "number": number, "want": want, "got": got})
        if number % 100 == 0:
            report.save()
    empty = gpu_jobs.without_a_case(report) if parts == "1" else []  # of parts run_apart asks
    wrong = [f"{name}: {len(op['different'])} of {op['cases']}" for name, op in ops.items() if op["different"]]
    if wrong or empty:
        raise AssertionError(f"different from the CPU: {wrong}; without a valid case: {empty}")
