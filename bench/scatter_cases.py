"""Embeddings and grid_sample, with their backwards, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import isobit
import torch
from case import Call, Case, gradients
from torch.nn import functional


def embedding_case(vocabulary: int, draw: str, dtype: torch.dtype = torch.float32) -> Case:
    """Forward and backward of 8,192 tokens with 768 elements each."""
    tokens, width = 8192, 768
    weight = torch.randn(vocabulary, width).to(dtype).requires_grad_()
    if draw == "zipf":
        ranks = torch.arange(1, vocabulary + 1, dtype=torch.float64)
        indices = torch.multinomial(1 / ranks, tokens, replacement=True)
    else:
        indices = torch.randint(vocabulary, (tokens,))
    dy = torch.randn(tokens, width).to(dtype)
    return Case(
        f"embedding forward + backward V={vocabulary} {draw} {dtype}".replace("torch.", ""),
        2 * dy.nbytes,
        dy.nbytes + weight.nbytes,
        gradients(lambda w: isobit.embedding(indices, w), (weight,), dy),
        gradients(lambda w: functional.embedding(indices, w), (weight,), dy),
        allocates="both",
    )


def backward_alone(y: torch.Tensor, inputs: torch.Tensor | tuple[torch.Tensor, ...], dy: torch.Tensor) -> Call:
    """The gradients of inputs, without the forward."""
    return lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True)


def bag_case(mode: str, width: int, backward: bool, dtype: torch.dtype = torch.float32) -> Case:
    """2,048 bags of 20 rows out of 100,000, or their gradient alone.

    Mode "weighted" is the sum with per_sample_weights; its gradient is that of the weights.
    """
    vocabulary, bags, length = 100_000, 2048, 20
    weight = torch.randn(vocabulary, width).to(dtype)
    indices, offsets = torch.randint(vocabulary, (bags * length,)), torch.arange(0, bags * length, length)
    factors = torch.rand(bags * length).to(dtype) if mode == "weighted" else None
    wanted = weight if factors is None else factors
    wanted.requires_grad_(backward)
    dy = torch.randn(bags, width).to(dtype)
    read, written = indices.numel() * width * dy.element_size(), dy.nbytes
    keywords = {"mode": "sum", "per_sample_weights": factors} if mode == "weighted" else {"mode": mode}
    calls = [
        lambda f=f: f(indices, weight, offsets, **keywords) for f in (isobit.embedding_bag, functional.embedding_bag)
    ]
    if backward:
        read, written = read + dy.nbytes, wanted.nbytes
        calls = [backward_alone(f(), wanted, dy) for f in calls]
    name = f"embedding_bag {mode} {'backward' if backward else 'forward'} D={width} {dtype}".replace("torch.", "")
    return Case(name, read, written, *calls, allocates="both")


def rotations(shape: tuple[int, ...], zoom: float = 1) -> torch.Tensor:
    """A grid of small rotations over images of shape N, C, H, W or volumes of N, C, D, H, W."""
    theta = torch.tensor([[0.99, -0.05, 0.01], [0.05, 0.99, 0.02]])
    if len(shape) == 5:
        theta = torch.tensor([[0.99, -0.05, 0.02, 0.01], [0.05, 0.99, 0.03, 0.02], [-0.02, -0.03, 0.99, 0.01]])
    return functional.affine_grid(zoom * theta.repeat(shape[0], 1, 1), list(shape), align_corners=False)


def grid_gradients(
    f: Callable[..., torch.Tensor],
    x: torch.Tensor,
    grid: torch.Tensor,
    dy: torch.Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> Call:
    """The backward alone."""
    return backward_alone(f(x, grid, mode=mode, padding_mode=padding_mode, align_corners=False), (x, grid), dy)


def grid_case(
    shape: tuple[int, ...],
    backward: bool,
    dtype: torch.dtype = torch.float32,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    zoom: float = 1,
) -> Case:
    """Images or volumes on a grid of rotations; the backward gives both gradients."""
    x = torch.randn(shape).to(dtype)
    grid = rotations(shape, zoom).to(dtype)
    dy = torch.randn(shape).to(dtype)
    words = (
        [mode] * (mode != "bilinear") + [padding_mode] * (padding_mode != "zeros") + [f"zoom {zoom:g}"] * (zoom != 1)
    )
    what = " ".join([*words, "backward" if backward else "forward"])
    name = f"grid_sample {what} {'x'.join(map(str, shape))} {dtype}".replace("torch.", "")
    if not backward:
        calls = [
            lambda f=f: f(x, grid, mode=mode, padding_mode=padding_mode, align_corners=False)
            for f in (isobit.grid_sample, functional.grid_sample)
        ]
        return Case(name, x.nbytes + grid.nbytes, dy.nbytes, *calls, allocates="both")
    x.requires_grad_()
    grid.requires_grad_()
    calls = [grid_gradients(f, x, grid, dy, mode, padding_mode) for f in (isobit.grid_sample, functional.grid_sample)]
    return Case(name, x.nbytes + grid.nbytes + dy.nbytes, x.nbytes + grid.nbytes, *calls, allocates="both")


def points_case(shape: tuple[int, ...], points: int, backward: bool) -> Case:
    """Some points of each image of a batch, anywhere in it."""
    x = torch.randn(shape).requires_grad_(backward)
    grid = (torch.rand(shape[0], 1, points, 2) * 2 - 1).requires_grad_(backward)
    dy = torch.randn(*shape[:2], 1, points)
    name = f"grid_sample {'backward' if backward else 'forward'} {'x'.join(map(str, shape))} at {points} points float32"
    functions = (isobit.grid_sample, functional.grid_sample)
    if not backward:
        calls = [lambda f=f: f(x, grid, align_corners=False) for f in functions]
        return Case(name, grid.nbytes + 4 * dy.nbytes, dy.nbytes, *calls, allocates="both")
    calls = [grid_gradients(f, x, grid, dy) for f in functions]
    return Case(name, grid.nbytes + 5 * dy.nbytes, x.nbytes + grid.nbytes, *calls, allocates="both")


def second_case(shape: tuple[int, ...], dtype: torch.dtype = torch.float32, mode: str = "bilinear") -> Case:
    """Forward, both gradients, and the gradients of their squares' sum."""
    x = torch.randn(shape).to(dtype).requires_grad_()
    grid = rotations(shape).to(dtype).requires_grad_()
    dy = torch.randn(shape).to(dtype).requires_grad_()

    def call(f: Callable[..., torch.Tensor]) -> Call:
        def run() -> tuple[torch.Tensor, ...]:
            y = f(x, grid, mode=mode, padding_mode="zeros", align_corners=False)
            of_x, of_grid = torch.autograd.grad(y, (x, grid), dy, create_graph=True)
            return torch.autograd.grad(of_x.square().sum() + of_grid.square().sum(), (x, grid, dy), allow_unused=True)

        return run

    words = " ".join([mode] * (mode != "bilinear") + ["twice"])
    name = f"grid_sample {words} {'x'.join(map(str, shape))} {dtype}".replace("torch.", "")
    read, written = 3 * x.nbytes + 2 * grid.nbytes, 4 * x.nbytes + 2 * grid.nbytes
    return Case(name, read, written, call(isobit.grid_sample), call(functional.grid_sample), allocates="both")


def affine_case(shape: tuple[int, ...], backward: bool) -> Case:
    """affine_grid for images or volumes."""
    dims = len(shape) - 2
    theta = torch.randn(shape[0], dims, dims + 1)
    grid = functional.affine_grid(theta, list(shape), align_corners=False)
    name = f"affine_grid {'backward' if backward else 'forward'} {'x'.join(map(str, shape))} float32"
    if not backward:
        calls = [
            lambda f=f: f(theta, list(shape), align_corners=False) for f in (isobit.affine_grid, functional.affine_grid)
        ]
        return Case(name, theta.nbytes, grid.nbytes, *calls, allocates="both")
    theta.requires_grad_()
    calls = [
        backward_alone(f(theta, list(shape), align_corners=False), (theta,), grid)
        for f in (isobit.affine_grid, functional.affine_grid)
    ]
    return Case(name, grid.nbytes, theta.nbytes, *calls, allocates="both")


def max_norm_case(rows: int, columns: int, count: int) -> Case:
    """embedding with max_norm: each side scales a weight of its own, once."""
    indices = torch.randint(rows, (count,))

    def call(f: Callable[..., torch.Tensor]) -> Call:
        weight = torch.randn(rows, columns)
        return lambda: f(indices, weight, max_norm=1.0)

    calls = [call(isobit.embedding), call(functional.embedding)]
    read = count * columns * 4
    return Case(f"embedding max_norm {rows}x{columns}, {count} indices", 2 * read, read, *calls, allocates="both")


def scatter_cases() -> list[Callable[[], Case]]:
    few, many, both = (1, 3, 512, 512), (8, 16, 64, 64), (False, True)
    masks = (8, 1, 224, 224)
    volumes = [(2, 4, 32, 32, 32), (1, 1, 64, 64, 64)]
    shapes = [(16, 3, 512, 512), (16, 64, 128, 128), (1, 3, 1080, 1920), (256, 1, 28, 28)]
    return [
        lambda: embedding_case(1000, "uniform"),
        lambda: embedding_case(50257, "uniform"),
        lambda: embedding_case(50257, "zipf"),
        lambda: embedding_case(50257, "uniform", torch.bfloat16),
        *(
            lambda m=m, b=b, d=d: bag_case(m, 64, b, d)
            for d in (torch.float32, torch.bfloat16)
            for m in ("sum", "weighted", "mean", "max")
            for b in both
        ),
        *(lambda d=d: bag_case("max", 8, True, d) for d in (torch.float32, torch.bfloat16)),
        *(lambda w=w, d=d: bag_case("sum", w, False, d) for w in (8, 50) for d in (torch.float32, torch.bfloat16)),
        *(lambda s=s, b=b: grid_case(s, b) for s in shapes for b in both),
        lambda: grid_case((16, 64, 128, 128), True, torch.bfloat16),
        *(
            lambda s=s, n=n, b=b: points_case(s, n, b)
            for s, n in (((16, 1, 32, 32), 7), ((256, 1, 28, 28), 7), ((32, 1, 28, 28), 100), ((16, 1, 128, 128), 100))
            for b in both
        ),
        *(
            lambda s=s, b=b, m=m: grid_case(s, b, mode=m)
            for m in ("bicubic", "nearest")
            for s in (few, many)
            for b in both
        ),
        *(
            lambda s=s, b=b, m=m: grid_case(s, b, mode=m)
            for m in ("bilinear", "nearest")
            for s in volumes
            for b in both
        ),
        *(
            lambda s=s, b=b, d=d: grid_case(s, b, d, mode="bicubic")
            for s, d in ((many, torch.float64), (volumes[0], torch.float32), (volumes[0], torch.float64))
            for b in both
        ),
        *(lambda b=b: grid_case(masks, b, mode="nearest") for b in both),
        *(lambda b=b: grid_case(many, b, padding_mode="reflection") for b in both),
        *(lambda s=s: grid_case(s, True, padding_mode="border", zoom=4) for s in (few, many, masks)),
        *(lambda s=s, b=b: grid_case(s, b, torch.float64) for s in (few, many, masks) for b in both),
        *(lambda s=s: second_case(s) for s in (few, many, (16, 64, 128, 128), volumes[0])),
        *(lambda m=m: second_case(many, mode=m) for m in ("nearest", "bicubic")),
        lambda: second_case(many, torch.float64),
        *(lambda s=s, b=b: affine_case(s, b) for s in ((16, 3, 224, 224), volumes[0]) for b in both),
        lambda: max_norm_case(30000, 768, 1024),
    ]
