"""The steps of gpu_check with streams and graphs."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import torch
from gpu_report import Report
from gpu_steps import SAMPLES, digests, each, to
from torch import Tensor


def check_streams(device: str, report: Report) -> None:
    """Plans run on the caller's stream, after what was put there."""

    def check(name: str) -> str | None:
        op, args = getattr(torch.ops.isobit, name).default, SAMPLES[name]
        values, inputs = to(device, args), cleared(to(device, args))
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            refill(inputs, values)
            late = op(*inputs)
        side.synchronize()
        return None if digests(late) == digests(op(*args)) else "wrong on a side stream"

    each(report, SAMPLES, check)


def check_graphs(device: str, report: Report) -> None:
    """Plans go into a graph that captures. Every replay sees new inputs, and nothing of the one before it."""

    def check(name: str) -> str | None:
        op, args = getattr(torch.ops.isobit, name).default, SAMPLES[name]
        inputs = cleared(to(device, args))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = op(*inputs)
        for values in (args, backwards(args), args):
            refill(inputs, values)
            graph.replay()
            torch.cuda.synchronize(device)
            if digests(captured) != digests(op(*values)):
                return "wrong in a graph"
        return None

    each(report, SAMPLES, check)


def cleared(values: tuple[Any, ...]) -> tuple[Any, ...]:
    for v in values:
        if isinstance(v, Tensor) and v.is_floating_point():
            v.zero_()
    return values


def backwards(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(v.flip(tuple(range(v.dim()))) if isinstance(v, Tensor) else v for v in values)


def refill(into: tuple[Any, ...], values: tuple[Any, ...]) -> None:
    for a, b in zip(into, values, strict=True):
        if isinstance(a, Tensor):
            a.copy_(b)


_CAPTURED_FIRST = """
import isobit, torch
from gpu_steps import SAMPLES, digest, to
torch.cuda.set_device({device!r})
args = SAMPLES["embedding_backward"]
inputs = to({device!r}, args)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    captured = torch.ops.isobit.embedding_backward(*inputs)
graph.replay()
torch.cuda.synchronize()
assert digest(captured) == digest(torch.ops.isobit.embedding_backward(*args)), "wrong in a graph"
"""


def check_capture(device: str, report: Report) -> None:
    """The first call of all, which opens the driver and loads kernels, is within a capture."""
    command = [sys.executable, "-P", "-c", _CAPTURED_FIRST.format(device=device)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError((done.stdout + done.stderr)[-2000:])
