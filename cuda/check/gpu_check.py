"""Compares a GPU's results with the CPU's, then measures. cuda/gpu-check.sh runs it.

It needs torch and a GPU, and nothing else (no Go, no compiler, no network). Steps:
values    every problem of CASES (cuda/cases.txt) on both devices, bit for bit
gradients programs with autograd on both devices, bit for bit
products  large matrix products on both devices, bit for bit
large     gradients of large problems on both devices, twice, bit for bit
opcheck   torch's own check of ops, on CUDA tensors
streams   work on a side stream
graphs    a captured graph that is replayed, with one input after another
capture   a process whose first call is captured
errors    tensors of several devices
bounds    an index out of bounds
times     beside torch, with the bandwidth of a copy in the same run
compiled  torch.compile's times

Each step is a process of its own, and values are several (--jobs), but for the times, which are
taken with nothing beside them.

--match TEXT checks only what has TEXT in its name (of values: the problem), so that a slow tool can watch:
compute-sanitizer --target-processes all --tool racecheck cuda/gpu-check.sh --only values --match 'matmul input=f32['

With --device cpu the CPU's best rows stand in for a GPU, against the definitions, and what needs
a GPU is left out. What fails does not stop what comes after it: a GPU may be at hand once.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gpu_jobs
import gpu_large
import gpu_steps
import gpu_streams
import gpu_times
import isobit
import torch
from gpu_report import Report
from gpu_steps import digest
from isobit.plan import Plan

DTYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
DTYPES |= {"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2, "s4": torch.uint8, "u4": torch.uint8}
DTYPES |= {
    "s8": torch.int8,
    "u8": torch.uint8,
    "s16": torch.int16,
    "u16": torch.uint16,
    "i32": torch.int32,
    "i64": torch.int64,
}
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


def draw(
    name: str, dtype: torch.dtype, shape: list[int], text: str, kind: int, random: torch.Generator
) -> torch.Tensor:
    """One argument of a problem. kind: 0 with special values, 1 without, 2 with hot destinations."""
    uniform = torch.rand(shape, generator=random, dtype=torch.float64)
    if name == "indices":
        rows = int(text.partition("weight=")[2].partition("[")[2].partition(",")[0])
        values = (uniform * rows).floor()
        if kind == 2:
            values = torch.where(torch.rand(shape, generator=random) < 0.9, float(rows // 2), values)
        if kind == 0 and "bounds=error" not in text:
            values = torch.where(torch.rand(shape, generator=random) < 0.05, float(rows + 1), values)
        return values.to(dtype)
    if name in ("offsets", "chosen"):  # positions of indices; offsets begin at 0 and ascend
        positions = math.prod(
            int(n) for n in text.partition("indices=")[2].partition("[")[2].partition("]")[0].split(",")
        )
        values = (uniform * positions).floor().to(dtype)
        return values.sort().values - values.min() if name == "offsets" else values
    if dtype.itemsize == 1 and dtype.is_floating_point:
        codes = torch.randint(256, shape, generator=random, dtype=torch.uint8).view(dtype)
        return codes if kind == 0 else torch.where(codes.float().isfinite(), codes.float(), 1.0).to(dtype)
    if not dtype.is_floating_point:
        low, high = (-8, 7) if name == "zero_point" else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
        low = 0 if name == "zero_point" and ("qmin=0 " in text or dtype == torch.uint8) else low
        if "140004" in text:  # sums that 32 bits do not hold
            high = low
        return (low + (uniform * (high - low + 1)).floor()).to(dtype)
    if name == "q":
        return (uniform * 255 - 128).floor().to(dtype)
    if "scale" in name and "grad" not in name:
        return ((1 + (uniform * 4).floor() / 4) / 16).to(dtype)
    if name == "grid":
        whole = (uniform * 3).floor()
        inner = torch.where(torch.rand(shape, generator=random) < 0.1, whole - 1, uniform * 3 - 1.5)  # -1 and 1: ends
        values = whole / 64 if kind == 2 else inner
    else:
        ties = (uniform * 64 - 32).floor() / 32
        normal = torch.randn(shape, generator=random, dtype=torch.float64)
        values = torch.where(torch.rand(shape, generator=random) < 0.3, ties, normal)
    if kind != 1:
        special = torch.tensor(SPECIAL, dtype=torch.float64)
        picked = special[torch.randint(len(SPECIAL), shape, generator=random)]
        values = torch.where(torch.rand(shape, generator=random) < 0.06, picked, values)
    return values.to(dtype)


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
    wanted, texts = set(report.matching(cases(path))), list(cases(path))
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


def summary(report: Report) -> str:
    lines = [f"{report['device_name']}; torch {report['torch']}; {json.dumps(report['info'].get('cuda', ''))}"]
    for name, op in report.get("values", {}).items():
        lines.append(f"  {name:44} {op['cases']:5} cases, {len(op['different'])} different")
    if "times" in report:
        lines.append(f"  {'microseconds':50}{'isobit':>10}{'torch':>10}{'compiled':>10}  of copy")
    for row in report.get("times", []):
        times = "".join(
            f"{row[key]:10.1f}" if row.get(key) else f"{'-':>10}" for key in ("us", "torch_us", "compiled_us")
        )
        share = f"{row['of_copy']:6.2f}" if row.get("of_copy") else f"{'-':>6}"
        lines.append(f"  {row['name']:50}{times}{share}")
    for name, step in report["steps"].items():
        lines.append(f"{name:10} {step['result']} ({step['seconds']:.1f} s)")
    return "\n".join(lines)


def no_gpu(device: str) -> str | None:
    """Why a check on a device cannot start."""
    if not torch.version.cuda:
        return f"this torch ({torch.__version__}) is built without CUDA"
    if not torch.cuda.is_available():
        return f"no GPU: torch {torch.__version__} finds none ({isobit.info()['cuda']})"
    try:
        index = torch.device(device).index or 0
    except RuntimeError as e:
        return f"--device: {e}"
    if index >= torch.cuda.device_count():
        return f"no GPU {device}: torch finds {torch.cuda.device_count()}"
    state = isobit.info()["cuda"]
    return None if state == "available" else f"isobit has no CUDA: {state}"


# Name: the step, and whether it needs a GPU.
STEPS: dict[str, tuple[Callable[[str, Report], None], bool]] = {
    "gradients": (gpu_steps.check_gradients, False),
    "products": (gpu_steps.check_products, False),
    "large": (gpu_large.check_large, False),
    "opcheck": (gpu_steps.check_ops, False),
    "streams": (gpu_streams.check_streams, True),
    "graphs": (gpu_streams.check_graphs, True),
    "capture": (gpu_streams.check_capture, True),
    "errors": (gpu_steps.check_errors, True),
    "bounds": (gpu_steps.check_out_of_bounds, False),
    "times": (gpu_times.measure, False),
    "compiled": (gpu_times.measure_compiled, True),
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="cuda/gpu-check.sh", description=__doc__.split("\n")[0])
    parser.add_argument("cases", help="cuda/cases.txt")
    parser.add_argument("out", help="where the JSON goes")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--only", help="names of steps, with commas between them")
    parser.add_argument("--match", default="", help="check only what has this in its name")
    parser.add_argument("--jobs", type=int, help="processes side by side; 1: all in this one (default: 1 on a CPU)")
    parser.add_argument("--part", default="0/1", help="which of how many parts of values")
    args = parser.parse_args(argv)
    on_gpu = args.device != "cpu"
    jobs = args.jobs or (min(12, os.cpu_count() or 1) if on_gpu else 1)
    if on_gpu and (why := no_gpu(args.device)):
        print(f"gpu-check: {why}; --device cpu tries this program without one", file=sys.stderr)
        return 2
    report = Report(torch=torch.__version__, python=platform.python_version(), device=args.device)
    report.path, report.match = Path(args.out), args.match
    report["info"], report["steps"] = isobit.info(), {}
    report["device_name"] = torch.cuda.get_device_name(args.device) if on_gpu else "CPU"
    if on_gpu:
        torch.cuda.set_device(args.device)
    steps: dict[str, Callable[[], None]] = {"values": partial(check_values, args.device, args.cases, args.part, report)}
    for name, (later, needs_gpu) in STEPS.items():
        if on_gpu or not needs_gpu:
            steps[name] = partial(later, args.device, report)
    steps = {name: step for name, step in steps.items() if not args.only or name in args.only.split(",")}
    if jobs > 1:
        arguments = ["--device", args.device, "--match", args.match, args.cases]
        gpu_jobs.run_apart(arguments, list(steps), jobs, report, limit=300)
        steps = {}
    for name, step in steps.items():
        start, result = time.perf_counter(), "passed"
        try:
            step()
        except Exception as e:
            result = f"FAILED: {e}"
            report.setdefault("traces", {})[name] = traceback.format_exc()
        report["steps"][name] = {"result": result, "seconds": time.perf_counter() - start}
        print(f"{name}: {result}", flush=True)
        report.save()
    print(summary(report))
    return int(any(step["result"] != "passed" for step in report["steps"].values()))


if __name__ == "__main__":
    sys.exit(main())
