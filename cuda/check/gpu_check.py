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
import os
import platform
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import gpu_jobs
import gpu_large
import gpu_steps
import gpu_streams
import gpu_times
import gpu_values
import isobit
import torch
from gpu_report import Report


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
    steps: dict[str, Callable[[], None]] = {
        "values": partial(gpu_values.check_values, args.device, args.cases, args.part, report)
    }
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
