"""Products of batches that broadcast: the gradient of a matrix that met several is one chain over all of them."""

import isobit
import pytest
import torch
from kit import assert_same, draw
from torch.autograd import forward_ad
from torch.nn.functional import linear

SHAPES = [
    ((2, 3), (4, 3, 2)),
    ((3,), (4, 3, 2)),
    ((4, 2, 3), (1, 3, 2)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((5, 1, 2, 3), (1, 4, 3, 2)),
    ((2, 1, 2, 3), (2, 0, 3, 2)),
]


def factors(shapes):
    return [draw(*s).double().requires_grad_() for s in shapes]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_derivatives(shapes):
    x, w = factors(shapes)
    torch.testing.assert_close(isobit.matmul(x, w), torch.matmul(x, w))
    assert torch.autograd.gradcheck(isobit.matmul, (x, w), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(isobit.matmul, (x, w))


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_same_gradients_everywhere(shapes):
    x, w = factors(shapes)
    dy = torch.randn_like(isobit.matmul(x, w))
    want = torch.autograd.grad(isobit.matmul(x, w), (x, w), dy)
    compiled = torch.compile(isobit.matmul, fullgraph=True, backend="aot_eager")
    loss = torch.func.grad(lambda x, w: (isobit.matmul(x, w) * dy).sum(), (0, 1))
    batch = torch.func.vmap(loss, (0, None))(torch.stack([x.detach()] * 2), w.detach())
    for got in (
        torch.autograd.grad(compiled(x, w), (x, w), dy),
        loss(x.detach(), w.detach()),
        (batch[0][0], batch[1][1]),
    ):
        for a, b in zip(got, want, strict=True):
            assert_same(a, b)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_is_one_product(dtype):
    x, w, dy = (draw(*s).to(dtype) for s in ((2, 3), (70, 3, 4), (70, 2, 4)))
    x.requires_grad_()
    isobit.matmul(x, w).backward(dy)
    # The matrices side by side, and their products with them.
    assert_same(x.grad, isobit.matmul(dy.movedim(0, 1).reshape(2, 280), w.transpose(1, 2).reshape(280, 3)))


def test_threads_change_nothing():
    a, b, dy = draw(1, 1, 1).requires_grad_(), draw(100_000, 1, 1), draw(100_000, 1, 1)
    before, seen = torch.get_num_threads(), set()
    try:
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            seen.add(torch.autograd.grad(isobit.matmul(a, b), a, dy)[0].item())
    finally:
        torch.set_num_threads(before)
    assert len(seen) == 1


def test_forward_mode_of_dual_tensors():
    """Eager, without a transform of torch.func around it."""
    x, w, bias = (draw(*shape, dtype=torch.float64, seed=seed) for seed, shape in enumerate(((3, 4), (5, 4), (5,))))
    products = (lambda x, w, b: isobit.matmul(x, w.mT) + b, lambda x, w, b: x @ w.mT + b)
    for ours, theirs in (products, (isobit.linear, linear)):
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(t, t.cos()) for t in (x, w, bias)]
            got, want = (forward_ad.unpack_dual(f(*duals)) for f in (ours, theirs))
        torch.testing.assert_close(tuple(got), tuple(want))


@pytest.mark.parametrize("other", ((1, 3, 2), (1, 4, 3, 2)))
def test_batches_of_as_many_as_a_mask_picks(other):
    """Whether such a batch is one matrix, which another would be broadcast with, no one knows before it runs."""

    class Model(torch.nn.Module):
        def forward(self, x, w, mask, same):
            products = isobit.matmul(x[mask][:, None, None], w)
            return products, isobit.matmul(x[mask].t(), x[same])

    x, w, mask = draw(5, 3), draw(*other), torch.tensor([True, False, True, True, True])
    model = Model()
    program = torch.export.export(model, (x, w, mask, mask), strict=False).module()
    for picked in (mask, ~mask | (x[:, 0] > 0), torch.ones(5, dtype=torch.bool)):
        if picked.sum() > 1:  # torch, too, takes it for more than one
            for got, want in zip(program(x, w, picked, picked), model(x, w, picked, picked), strict=True):
                assert_same(got, want)


@pytest.mark.parametrize("weight", ((4,), (1, 4), (5, 4)))
@pytest.mark.parametrize("shape", ((1, 1), (1, 1, 1)))
def test_extents_of_1_before_a_bias(weight, shape):
    """As of F.linear, up to as many as the result has."""
    x, w, bias = draw(2, 2, 3, 4), draw(*weight), draw(*shape).requires_grad_()
    y = isobit.linear(x, w, bias)
    assert_same(y.detach(), isobit.linear(x, w, bias.detach().reshape(())))
    assert torch.allclose(y, linear(x, w, bias))
    dy = draw(*y.shape, seed=3)
    (got,), (want,) = (torch.autograd.grad(f(x, w, bias), bias, dy) for f in (isobit.linear, linear))
    assert got.shape == want.shape and torch.allclose(got, want, atol=1e-5)
    with pytest.raises(ValueError, match="^linear: bias has shape"):
        isobit.linear(x[0, 0, 0], w, bias[None, None])
