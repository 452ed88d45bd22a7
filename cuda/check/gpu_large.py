"""The step of gpu_check that compares results of the sizes that matter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import isobit
import torch
from gpu_report import Report
from gpu_steps import R, digests, each, random, to
from torch import Tensor

Problem = tuple[Callable[..., Any], tuple[Tensor, ...]]
VOCABULARY = 50257


def uniform(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(5))


def zipf(count: int) -> Tensor:
    return (VOCABULARY ** uniform(count)).long() - 1


def embedding(scale: int) -> Problem:
    ids = zipf((2 << 20) // scale)
    return lambda dy, i: isobit.embedding_backward(dy, i, VOCABULARY), (random(len(ids), 64), ids)


def largest_of_bags(scale: int) -> Problem:
    def gradient(w: Tensor, ids: Tensor, dy: Tensor) -> Tensor:
        w = w.requires_grad_()
        return torch.autograd.grad(isobit.embedding_bag(ids, w, mode="max"), w, dy)[0]

    ids = zipf((2 << 20) // scale).view(-1, 16)
    return gradient, (random(VOCABULARY, 32), ids, random(len(ids), 32, seed=1))


def sampled(shape: tuple[int, int, int, int], spread: float, scale: int) -> Problem:
    """Gradients of grid_sample; a small spread puts all positions into one cell."""
    n, c, h, w = shape[0], shape[1], shape[2] // scale, shape[3] // scale
    grid = 0.1 + spread * (2 * uniform(n, h, w, 2) - 1)
    return isobit.grid_sample_backward, (random(n, c, h, w), random(n, c, h, w, seed=1), grid)


def lsq(scale: int) -> Problem:
    shape = 4096 // scale, 16384
    s, z = uniform(shape[0]) / 16 + 0.01, torch.zeros(shape[0])

    def gradients(dy: Tensor, x: Tensor, s: Tensor, z: Tensor) -> Any:
        return isobit.fake_quantize_per_channel_affine_backward(dy, x, s, z, 0, *R, grad_factor=0.01)

    return gradients, (random(*shape), random(*shape, seed=1), s, z)


# Name: what makes the function and its inputs, whose size a scale divides.
PROBLEMS: dict[str, Callable[[int], Problem]] = {
    "embedding_backward Zipf": embedding,
    "embedding_bag_backward max, Zipf": largest_of_bags,
    "grid_sample_backward 16x3x512x512": partial(sampled, (16, 3, 512, 512), 1.1),
    "grid_sample_backward 16x3x512x512 in one cell": partial(sampled, (16, 3, 512, 512), 1e-4),
    "grid_sample_backward 16x64x128x128": partial(sampled, (16, 64, 128, 128), 1.1),
    "grid_sample_backward 1x3x1080x1920": partial(sampled, (1, 3, 1080, 1920), 1.1),
    "fake_quantize_backward LSQ 4096x16384": lsq,
}


def check_large(device: str, report: Report) -> None:
    """Twice: what one run leaves in memory must not matter to the next."""

    def check(name: str) -> str | None:
        function, inputs = PROBLEMS[name](16 if device == "cpu" else 1)
        moved, want = to(device, inputs), digests(function(*inputs))
        runs = [digests(function(*moved)) == want for _ in range(2)]
        return None if all(runs) else f"of two runs these are the CPU's: {runs}"

    each(report, PROBLEMS, check)
