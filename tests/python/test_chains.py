"""Ops after one another: drawn chains have the same bits and gradients in every way that torch runs them."""

import random
from functools import partial

import isobit
import pytest
import torch
from kit import assert_same, draw
from torch.utils.checkpoint import checkpoint

BAGS = torch.tensor([1, 0, 3, 1, 2]), torch.tensor([0, 1, 1, 3])
CODES = (torch.arange(36) % 15 - 7).to(torch.int8).view(6, 6)


def scale(t):
    return t.abs() * 0.2 + 0.05


def bags(mode, x, weights=None):
    return isobit.embedding_bag(BAGS[0], x, BAGS[1], mode=mode, per_sample_weights=weights)


def sampled(mode, padding, x, grid):
    return isobit.grid_sample(x.reshape(1, 2, 3, 4), grid, mode, padding).reshape(4, 6)


# From [4, 6] to [4, 6], with parameters of these shapes.
STEPS = (
    (lambda x, s, z: isobit.fake_quantize_per_channel_affine(x, scale(s), z, 0, -8, 7), (4,), (4,)),
    (lambda x, s: isobit.fake_quantize_per_token_affine(x, scale(s), None, -8, 7, grad_factor=0.5), (4, 1)),
    (lambda x, s: isobit.fake_quantize_per_channel_group_affine(x, scale(s), None, -8, 7, 4), (4, 2)),
    (lambda x, s: isobit.fake_quantize_per_block_affine(x, scale(s), None, [2, 3], -8, 7), (2, 2)),
    (lambda x, s, z: isobit.dequantize_per_channel(x, scale(s), z, 1, -8, 7, x.dtype), (6,), (6,)),
    (lambda x: isobit.quantize_per_tensor(x, 0.3, None, -8, 7, x.dtype),),
    (isobit.linear, (6, 6), (6,)),
    (isobit.quantized_linear, (6, 6)),
    (lambda x, s, z: isobit.weight_only_linear(x, CODES, s, z, group_size=4), (6, 2), (6, 2)),
    (lambda x, w: isobit.matmul(x.reshape(2, 1, 2, 6), w).sum(1).reshape(4, 6), (2, 6, 6)),
    (lambda x: isobit.embedding(BAGS[0][:4], x),),
    (partial(bags, "mean"),),
    (partial(bags, "max"),),
    (partial(bags, "sum"), (5,)),
    (partial(sampled, "bilinear", "zeros"), (1, 4, 3, 2)),
    (partial(sampled, "bicubic", "reflection"), (1, 4, 3, 2)),
    (lambda x: isobit.affine_grid(x.reshape(4, 2, 3), [4, 1, 1, 3]).reshape(4, 6),),
)


def drawn(seed):
    """A function of tensors, and these: each step's result goes to the next one, a part of the first is added to it."""
    rng = random.Random(seed)
    steps = [rng.choice(STEPS) for _ in range(4)]
    leaves = [draw(4, 6, seed=seed)]
    leaves += [draw(*shape, seed=seed + i, spread=1.0) for i, step in enumerate(steps) for shape in step[1:]]

    def f(x, *parameters):
        rest = iter(parameters)
        for step in steps:
            x = step[0](x, *(next(rest) for _ in step[1:])) + 0.25 * x
        return x

    return f, leaves


def in_autograd(f, leaves, dy, run=None, **keywords):
    leaves = [t.clone().requires_grad_() for t in leaves]
    y = (run or f)(*leaves)
    return y, torch.autograd.grad(y, leaves, dy, **keywords)


def in_batches(f, leaves, dy):
    y, gradients = in_autograd(f, leaves, torch.stack([dy, -dy]), is_grads_batched=True)
    return y, [g[0] for g in gradients]


def of_functions(f, leaves, dy):
    y, vjp = torch.func.vjp(f, *leaves)
    return y, vjp(dy)


def mapped(f, leaves, dy, count=None):
    """Over a batch of each leaf, or of the first so many."""
    dims = [0 if count is None or i < count else None for i in range(len(leaves))]
    batch = [t if d is None else torch.stack([t.flip(0), t]) for t, d in zip(leaves, dims, strict=True)]
    y, gradients = torch.vmap(lambda *t: of_functions(f, t, dy), tuple(dims))(*batch)
    return y[1], [g[1] for g in gradients]


WAYS = {
    "batched gradients": in_batches,
    "graph of gradients": partial(in_autograd, create_graph=True),
    "checkpoint": lambda f, *rest: in_autograd(f, *rest, run=partial(checkpoint, f, use_reentrant=False)),
    "torch.func": of_functions,
    "vmap": mapped,
    "vmap with common parameters": partial(mapped, count=1),
}


@pytest.mark.parametrize("way", WAYS)
def test_chains(way):
    for seed in range(6):
        f, leaves = drawn(seed)
        dy = draw(4, 6, seed=100)
        want = in_autograd(f, leaves, dy)
        got = WAYS[way](f, leaves, dy)
        assert_same((got[0].detach(), *(g.detach() for g in got[1])), (want[0].detach(), *want[1]))
    with torch.inference_mode():
        assert_same(f(*leaves).clone(), want[0].detach())
