"""Tensors whose elements do not lie one after the other, beside PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import isobit
import torch
from case import Case, gradients
from cases import decomposed
from scatter_cases import grid_gradients, rotations
from torch import Tensor
from torch.nn import functional

IMAGES = (32, 128, 28, 28)
SAMPLED = (8, 16, 96, 96)


def channels_last(shape: tuple[int, ...]) -> Tensor:
    return torch.randn(shape).to(memory_format=torch.channels_last)


def transposed(shape: tuple[int, ...]) -> Tensor:
    return torch.randn(*shape[:-2], shape[-1], shape[-2]).transpose(-1, -2)


def cropped(shape: tuple[int, ...]) -> Tensor:
    return torch.randn(*shape[:-2], shape[-2] + 4, shape[-1] + 4)[..., 2:-2, 2:-2]


def every_second(shape: tuple[int, ...]) -> Tensor:
    return torch.randn(*shape[:-1], 2 * shape[-1])[..., ::2]


def of_a_sum(shape: tuple[int, ...]) -> Tensor:
    return torch.ones(()).expand(shape)


# How the input and the upstream gradient lie.
LAYOUTS: dict[str, tuple[Callable[[tuple[int, ...]], Tensor], Callable[[tuple[int, ...]], Tensor]]] = {
    "contiguous": (torch.randn, torch.randn),
    "channels last": (channels_last, channels_last),
    "transposed": (transposed, transposed),
    "cropped": (cropped, cropped),
    "every second column": (every_second, every_second),
    "gradient of a sum": (torch.randn, of_a_sum),
}


def learned_case(layout: str, per: str) -> Case:
    """Learned scales, forward and backward, with all gradients."""
    x, dy = (make(IMAGES) for make in LAYOUTS[layout])
    x.requires_grad_()
    count = IMAGES[1] if per == "channel" else 1
    s = (torch.rand(count) * 0.05 + 0.01).requires_grad_()
    z = torch.zeros(count).requires_grad_()
    if per == "channel":
        calls = (
            lambda x, s, z: isobit.fake_quantize_per_channel_affine(x, s, z, 1, -128, 127),
            lambda x, s, z: torch._fake_quantize_learnable_per_channel_affine(x, s, z, 1, -128, 127, 1.0),
        )
    else:
        calls = (
            lambda x, s, z: isobit.fake_quantize_per_tensor_affine(x, s, z, -128, 127),
            lambda x, s, z: torch._fake_quantize_learnable_per_tensor_affine(x, s, z, -128, 127, 1.0),
        )
    moved = 4 * x.numel()
    name = f"LSQ per {per} forward + backward, {layout}"
    return Case(name, 3 * moved, 2 * moved, *(gradients(f, (x, s, z), dy) for f in calls), allocates="both")


def permuted_case(op: str, shape: tuple[int, ...]) -> Case:
    """Codes or images [N, C, H, W], permuted to [N, H, W, C]; PyTorch's result is made contiguous, as isobit's is."""
    count = shape[1]
    s, z = torch.rand(count) * 0.05 + 0.01, torch.zeros(count, dtype=torch.int32)
    x = torch.randn(shape).permute(0, 2, 3, 1)
    name = f"{op}_per_channel of permuted {'x'.join(map(str, shape))}"
    if op == "dequantize":
        q = torch.randint(-128, 128, shape, dtype=torch.int8).permute(0, 2, 3, 1)
        call = lambda: isobit.dequantize_per_channel(q, s, z, 3, -128, 127, torch.int8)  # noqa: E731
        theirs = decomposed.dequantize_per_channel
        eager = lambda: theirs(q, s, z, 3, -128, 127, torch.int8).contiguous()  # noqa: E731
        return Case(name, q.nbytes, 4 * q.numel(), call, eager, allocates="both")
    ours = lambda: isobit.fake_quantize_per_channel_affine(x, s, z, 3, -128, 127)  # noqa: E731
    eager = lambda: torch.fake_quantize_per_channel_affine(x, s, z, 3, -128, 127).contiguous()  # noqa: E731
    return Case(name, x.nbytes, x.nbytes, ours, eager, allocates="both")


def interleaved_case(count: int) -> Case:
    """Images [N, H, W, C] as [N, C, H, W], beside a copy of PyTorch's, which computes nothing."""
    x = torch.rand(8, 224, 224, count).permute(0, 3, 1, 2)
    s, z = torch.rand(count) * 0.05 + 0.01, torch.zeros(count, dtype=torch.int32)
    call = lambda: isobit.fake_quantize_per_channel_affine(x, s, z, 1, -128, 127)  # noqa: E731
    name = f"fake_quantize_per_channel of {count} interleaved channels, beside a copy"
    return Case(name, x.nbytes, x.nbytes, call, x.contiguous, allocates="both")


def sampled_case(layout: str) -> Case:
    """grid_sample's gradients of images and grid."""
    x, dy = (make(SAMPLED) for make in LAYOUTS[layout])
    x.requires_grad_()
    grid = rotations(SAMPLED).requires_grad_()
    moved = 4 * x.numel()
    calls = (grid_gradients(f, x, grid, dy) for f in (isobit.grid_sample, functional.grid_sample))
    return Case(f"grid_sample backward, {layout}", 2 * moved, moved, *calls, allocates="both")


def embedded_case(layout: str) -> Case:
    shape = (8192, 256)
    weight, indices, dy = (
        torch.randn(10_000, 256).requires_grad_(),
        torch.randint(10_000, shape[:1]),
        LAYOUTS[layout][1](shape),
    )
    calls = (gradients(lambda w, f=f: f(indices, w), (weight,), dy) for f in (isobit.embedding, functional.embedding))
    read, written = 2 * 4 * dy.numel(), 4 * (dy.numel() + weight.numel())
    return Case(f"embedding forward + backward, {layout}", read, written, *calls, allocates="both")


def layout_cases() -> list[Callable[[], Case]]:
    learned = [lambda n=n, per=per: learned_case(n, per) for per in ("channel", "tensor") for n in LAYOUTS]
    sampled = [lambda n=n: sampled_case(n) for n in LAYOUTS]
    permuted = [
        lambda o=o, s=s: permuted_case(o, s)
        for o in ("dequantize", "fake_quantize")
        for s in ((8, 64, 56, 56), (8, 3, 224, 224))
    ]
    return (
        learned
        + permuted
        + [lambda n=n: interleaved_case(n) for n in (3, 4)]
        + sampled
        + [lambda n=n: embedded_case(n) for n in LAYOUTS if n != "channels last" and n != "cropped"]
    )
