"""Quantization as PyTorch users write it, out of elementwise ops: what torch.compile makes one loop of."""

from __future__ import annotations

import torch
from torch import Tensor


def along(v: Tensor, axis: int, dims: int) -> Tensor:
    return v.reshape(-1, *[1] * (dims - axis - 1))


def quantize(x: Tensor, s: Tensor, z: Tensor, axis: int) -> Tensor:
    """The usual composite of quantize_per_channel."""
    s, z = along(s, axis, x.ndim), along(z, axis, x.ndim)
    return torch.clamp(torch.round(x.float() / s) + z, -128, 127).to(torch.int8)


def dequantize(q: Tensor, s: Tensor, z: Tensor, axis: int) -> Tensor:
    return (q.float() - along(z, axis, q.ndim)) * along(s, axis, q.ndim)


def fake_quantize(x: Tensor, s: Tensor, z: Tensor) -> Tensor:
    r = torch.clamp(torch.round(x / s[:, None]) + z[:, None], -128, 127)
    return (r - z[:, None]) * s[:, None]


class Straight(torch.autograd.Function):
    """The usual straight-through composite, for torch.compile."""

    @staticmethod
    def forward(ctx: object, x: Tensor, s: Tensor, z: Tensor) -> Tensor:
        t = torch.round(x / s[:, None]) + z[:, None]
        ctx.save_for_backward((t >= -128) & (t <= 127))
        return (torch.clamp(t, -128, 127) - z[:, None]) * s[:, None]

    @staticmethod
    def backward(ctx: object, dy: Tensor) -> tuple[Tensor, None, None]:
        (inside,) = ctx.saved_tensors
        return torch.where(inside, dy, 0.0), None, None


class Nothing(torch.autograd.Function):
    """A gradient that takes no time: what is left is torch's own."""

    @staticmethod
    def forward(ctx: object, *inputs: Tensor) -> Tensor:
        ctx.gradients = tuple(t if wanted else None for t, wanted in zip(inputs, ctx.needs_input_grad, strict=True))
        return inputs[0].detach()

    @staticmethod
    def backward(ctx: object, dy: Tensor) -> tuple[Tensor | None, ...]:
        return ctx.gradients


class Least(torch.autograd.Function):
    """Saves what a gradient needs, and has an op of torch's in place of each of isobit's, which makes all results."""

    @staticmethod
    def forward(ctx: object, *inputs: Tensor) -> Tensor:
        ctx.save_for_backward(*inputs)
        return torch.neg(inputs[0])

    @staticmethod
    def backward(ctx: object, dy: Tensor) -> tuple[Tensor | None, ...]:
        rest = zip(ctx.saved_tensors[1:], ctx.needs_input_grad[1:], strict=True)
        return torch.neg(dy), *(torch.empty_like(t) if wanted else None for t, wanted in rest)


class Learned(torch.autograd.Function):
    """LSQ with all three gradients, for torch.compile."""

    @staticmethod
    def forward(ctx: object, x: Tensor, s: Tensor, z: Tensor) -> Tensor:
        ctx.save_for_backward(x, s, z)
        zr = torch.round(z)[:, None]
        return (torch.clamp(torch.round(x / s[:, None]) + zr, -128, 127) - zr) * s[:, None]

    @staticmethod
    def backward(ctx: object, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, s, z = ctx.saved_tensors
        zr = torch.round(z)[:, None]
        u = x / s[:, None]
        r = torch.round(u)
        below, above = r + zr < -128, r + zr > 127
        outside = below | above
        e = torch.where(below, -128 - zr, torch.where(above, 127 - zr, r - u))
        dz = -s * torch.where(outside, dy, 0.0).sum(1)
        return torch.where(outside, 0.0, dy), (dy * e).sum(1), dz


def dynamic(x: Tensor) -> tuple[Tensor, Tensor]:
    s = x.abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
    return torch.clamp(torch.round(x / s), -128, 127).to(torch.int8), s
