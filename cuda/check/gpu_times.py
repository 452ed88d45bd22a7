"""The measurements of gpu_check, beside torch's eager ops and torch.compile."""

from __future__ import annotations

import time
from typing import Any

import isobit
import torch
from gpu_cases import Call, R, cases, sizes
from gpu_report import Report


def elapsed(call: Call, on_gpu: bool, seconds: float = 0.2) -> float:
    """Median time of a call, in microseconds."""
    for _ in range(3):
        call()
    if not on_gpu:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            call()
            times.append((time.perf_counter() - start) * 1e6)
        return sorted(times)[len(times) // 2]
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    count = max(5, min(200, int(seconds / max(time.perf_counter() - start, 1e-6))))
    events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    for event in events[:-1]:
        event.record()
        call()
    events[-1].record()
    torch.cuda.synchronize()
    times = sorted(a.elapsed_time(b) * 1e3 for a, b in zip(events[:-1], events[1:], strict=True))
    return times[count // 2]


def overhead(call: Call, on_gpu: bool) -> float:
    """Time that a call keeps the host, in microseconds."""
    best = float("inf")
    for _ in range(20):
        if on_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(50):
            call()
        best = min(best, (time.perf_counter() - start) / 50 * 1e6)
    return best


def copy_bandwidth(device: str, n: int, on_gpu: bool) -> float:
    """Bytes per microsecond of a copy of n floats, each counted twice."""
    x = torch.randn(n, device=device)
    y = torch.empty_like(x)
    return 8 * n / elapsed(lambda: y.copy_(x), on_gpu)


def put(row: dict[str, Any], key: str, call: Call, on_gpu: bool) -> None:
    """Measures into a row, or notes why that failed."""
    try:
        row[key] = elapsed(call, on_gpu)
    except Exception as e:
        row[f"{key}_error"] = str(e)[:300]


def measure(device: str, report: Report) -> None:
    torch.set_float32_matmul_precision("highest")  # no TF32
    on_gpu = device != "cpu"
    copy = copy_bandwidth(device, sizes(device)[0], on_gpu)
    report["copy_gb_per_s"] = copy / 1e3
    rows: list[dict[str, Any]] = report.setdefault("times", [])
    for name, ours, theirs, size in cases(device):
        row: dict[str, Any] = {"name": name}
        rows.append(row)
        put(row, "us", ours, on_gpu)
        if size and "us" in row:
            row["of_copy"] = size / row["us"] / copy
        if theirs:
            put(row, "torch_us", theirs, on_gpu)
        report.save()
    small = torch.randn(8, 8, device=device)
    s, z = torch.ones(8, device=device), torch.zeros(8, dtype=torch.int32, device=device)
    own = overhead(lambda: isobit.fake_quantize_per_channel_affine(small, s, z, 0, *R), on_gpu)
    torchs = overhead(lambda: torch.fake_quantize_per_channel_affine(small, s, z, 0, *R), on_gpu)
    rows.append({"name": "host time of a small fake_quantize_per_channel", "us": own, "torch_us": torchs})
    if failed := [row["name"] for row in rows if "us" not in row]:
        raise AssertionError(f"these failed: {failed}")


def measure_compiled(device: str, report: Report, seconds: float = 200) -> None:
    """torch.compile beside measure's rows, as far as time allows. It needs a compiler, which the machine may lack."""
    rows: list[dict[str, Any]] = report.setdefault("times", [])
    end = time.perf_counter() + seconds
    for name, _, theirs, _ in cases(device):
        if theirs is None:
            continue
        row = next((row for row in rows if row["name"] == name), None)
        if row is None:
            rows.append(row := {"name": name})
        if time.perf_counter() > end:
            row["compiled_us_error"] = "no time was left"
            continue
        torch._dynamo.reset()
        put(row, "compiled_us", torch.compile(theirs), device != "cpu")
        report.save()
