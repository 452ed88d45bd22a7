"""Corners in which isobit's functions are torch's of the same name: what is kept for gradients, no dimensions, none."""

import itertools

import isobit
import pytest
import torch
from kit import assert_same, draw

F = torch.nn.functional
CODES = torch.arange(40).view(5, 8).to(torch.int8)
LINEAR = {
    "linear": (lambda *t: isobit.linear(*t), (draw(6, 8), draw(5, 8), draw(5))),
    "matmul": (lambda x, w: isobit.matmul(x, w.t()), (draw(6, 8), draw(5, 8))),
    "quantized_linear": (lambda *t: isobit.quantized_linear(*t), (draw(6, 8), draw(5, 8), draw(5))),
    "weight_only_linear": (
        lambda x, scale, bias: isobit.weight_only_linear(x, CODES, scale, None, bias, group_size=4),
        (draw(6, 8), draw(5, 2), draw(5)),
    ),
}


def gradients(f, tensors, wanted):
    """Those that are wanted, and the shapes of what was kept for them."""
    kept, leaves = [], [t.clone().requires_grad_(wants) for t, wants in zip(tensors, wanted, strict=True)]
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(tuple(t.shape)), t)[1], lambda t: t):
        y = f(*leaves)
    return torch.autograd.grad(y.sin().sum(), [t for t in leaves if t.requires_grad]), kept


@pytest.mark.parametrize("name", LINEAR)
def test_what_no_gradient_needs_is_not_kept(name):
    """Of frozen weights, no activation is kept; what other gradients are wanted changes no bit."""
    f, tensors = LINEAR[name]
    x = tuple(tensors[0].shape)
    every, _ = gradients(f, tensors, [True] * len(tensors))
    for wanted in itertools.product((True, False), repeat=len(tensors)):
        if any(wanted):
            got, kept = gradients(f, tensors, wanted)
            assert_same(got, [g for g, wants in zip(every, wanted, strict=True) if wants])
            assert (x in kept) <= wanted[1], (wanted, kept)


def test_products_of_vectors_have_no_dimensions():
    v, w, bias = draw(4), draw(4, seed=1), torch.tensor(0.5)
    for f, g, args in (
        (isobit.linear, F.linear, (v, w)),
        (isobit.linear, F.linear, (v, w, bias)),
        (isobit.matmul, torch.matmul, (v, w)),
    ):
        leaves = [t.clone().requires_grad_() for t in args]
        y = f(*leaves)
        assert y.shape == () and torch.allclose(y, g(*args))
        got, want = (torch.autograd.grad(h(*leaves).sin(), leaves) for h in (f, g))
        assert all(map(torch.allclose, got, want))
        assert torch.vmap(f)(*(torch.stack([t, t]) for t in args)).shape == (2,)


def test_batches_of_nothing():
    """vmap over no elements, which torch's functions have for products alone."""
    for f, args in (
        (isobit.linear, (draw(3, 4), draw(5, 4), draw(5))),
        (isobit.matmul, (draw(3, 4), draw(4, 5))),
        (isobit.grid_sample, (draw(1, 2, 3, 3), draw(1, 2, 2, 2))),
        (lambda x: isobit.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7), (draw(3, 4),)),
    ):
        assert torch.vmap(f)(*(t[None][:0] for t in args)).shape == (0, *f(*args).shape)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group_size", (None, 4))
def test_a_prepared_layer_that_is_frozen_or_traced(group_size):
    """Traced code serves, whether or not gradients are on; of a frozen weight no activation is kept."""
    weight = {"dtype": torch.int8, "granularity": "per_channel"} if group_size is None else {"dtype": torch.int4, "group_size": 4}  # fmt: skip
    layer, x = isobit.nn.prepare(torch.nn.Linear(8, 5), weight=weight).eval(), draw(6, 8)
    want = layer(x)
    assert_same(torch.jit.trace(layer, x)(x), want.detach())

    def run(x, w, b):
        return torch.func.functional_call(layer, {"weight": w, "bias": b}, (x,))

    tensors = (x, layer.weight.detach(), layer.bias.detach())
    every, _ = gradients(run, tensors, (True, True, True))
    got, kept = gradients(run, tensors, (True, False, True))
    assert_same(got, (every[0], every[2]))
    assert (6, 8) not in kept
    got, kept = gradients(run, tensors, (False, True, False))
    assert_same(got, every[1:2])
