"""Products of more dimensions than two, which the direct call folds where one stride leads through what is before the
matrices: those of the folded tensors, with their gradients."""

import math

import isobit
import pytest
import torch
from isobit._op import OPS
from torch import randn

MATMUL = OPS["matmul"]
ROWS = {  # beside a matrix: in order, with gaps, expanded, with extents of 1, empty, of one row
    "rows": randn(2, 3, 5),
    "four dimensions": randn(2, 3, 4, 5),
    "columns apart": randn(2, 3, 10)[..., ::2],
    "rows apart": randn(2, 3, 8)[..., :5],
    "extents of 1": randn(3, 1, 5).transpose(0, 1),
    "expanded": randn(5).expand(2, 3, 5),
    "across": randn(5, 2, 3).permute(1, 2, 0),
    "a vector": randn(5),
    "a vector in three dimensions": randn(1, 1, 5),
    "no columns": randn(2, 3, 0),
}
UNEVEN = {  # through which no one stride leads
    "transposed": randn(3, 2, 5).transpose(0, 1),
    "expanded within": randn(2, 1, 5).expand(2, 3, 5),
    "every second row": randn(2, 7, 5)[:, 1::3],
}
PAIRS = {
    "pairs": (randn(2, 3, 4, 5), randn(2, 3, 5, 6)),
    "five dimensions": (randn(2, 1, 3, 4, 5), randn(2, 1, 3, 5, 6)),
    "transposed matrices": (randn(2, 3, 5, 4).mT, randn(2, 3, 6, 5).mT),
    "expanded": (randn(4, 5).expand(2, 3, 4, 5), randn(2, 3, 5, 6)),
}
UNEVEN_PAIRS = {
    "heads": (randn(2, 4, 3, 5).transpose(1, 2), randn(2, 6, 3, 5).transpose(1, 2).mT),
    "one of them": (randn(2, 3, 4, 5), randn(3, 2, 5, 6).transpose(0, 1)),
}


def folded(t, rank):
    kept = t.dim() - rank + 1
    return t.reshape(math.prod(t.shape[:kept]), *t.shape[kept:])


def check(f, g, *tensors):
    """That f and g give the same bits and gradients, the second ones too, of each choice of leaves."""
    assert torch.equal(f(*tensors), g(*tensors))
    for which in range(1, 1 << len(tensors)):
        inputs = [t.detach().requires_grad_(bool(which >> i & 1)) for i, t in enumerate(tensors)]
        leaves = [t for t in inputs if t.requires_grad]
        results = f(*inputs), g(*inputs)
        upstream = randn(results[0].shape).requires_grad_()
        grads = [torch.autograd.grad(y, leaves, upstream, create_graph=True) for y in results]
        assert all(map(torch.equal, *grads))
        second = [torch.autograd.grad(grad, [*leaves, upstream], grads[0], allow_unused=True) for grad in grads]
        for a, b in zip(*second, strict=True):
            assert a is b is None or torch.equal(a, b)


@pytest.mark.parametrize("name", [*ROWS, *UNEVEN])
def test_rows_in_any_number_of_dimensions(name):
    x = {**ROWS, **UNEVEN}[name]
    w, bias = randn(7, x.shape[-1]), randn(7)
    for call, matrix in ((MATMUL.fast, w.t()), (MATMUL.transposed, w)):
        y = call(x, matrix, bias)
        assert (y is NotImplemented) == (name in UNEVEN)
        assert name in UNEVEN or torch.equal(folded(y, 2), MATMUL.run(folded(x, 2), w.t(), bias))
    shape = (*x.shape[:-1], 7)
    check(isobit.linear, lambda x, w, bias: isobit.linear(folded(x, 2), w, bias).reshape(shape), x, w, bias)
    check(isobit.matmul, lambda x, w: isobit.matmul(folded(x, 2), w).reshape(shape), x, w.t())
    codes, scale = torch.randint(-8, 8, w.shape, dtype=torch.int8), torch.rand(7, -(-w.shape[1] // 4))
    if w.shape[1]:
        f = isobit.weight_only_linear
        y = f(x, codes, scale, None, bias, group_size=4)
        assert torch.equal(y, f(folded(x, 2), codes, scale, None, bias, group_size=4).reshape(shape))


@pytest.mark.parametrize("name", [*ROWS, *UNEVEN])
def test_codes_of_rows_and_their_scales_in_any_number_of_dimensions(name):
    op, x = OPS["quantized_linear_codes"], (10 * {**ROWS, **UNEVEN}[name]).to(torch.int8)
    w, bias = torch.randint(-8, 8, (7, x.shape[-1]), dtype=torch.int8), randn(7)
    rows, w_scale = x.shape[:-1], torch.rand(7)
    x_scale = torch.rand(rows)
    expected = op.run(folded(x, 2), x_scale.flatten(), w, w_scale, bias, torch.float32).reshape(*rows, 7)
    for scale in (x_scale, x_scale[..., None], torch.stack([x_scale] * 2, -1)[..., 1]):
        for of_w in (w_scale, w_scale[:, None]):
            args = scale, w, of_w, bias, torch.float32
            y = op.fast(x, *args)
            assert name in UNEVEN if y is NotImplemented else torch.equal(y, expected)
            assert torch.equal(isobit.quantized_linear_codes(x, *args), expected)
    wrong = torch.rand(*rows, 2), torch.rand(*rows, 1, 1), torch.rand(math.prod(rows) + 1), torch.rand(1, *rows)
    for scale in wrong:
        if scale.shape not in (rows, (*rows, 1)):
            assert op.fast(x, scale, w, w_scale, bias, torch.float32) is NotImplemented
    assert op.fast(x, x_scale, w, torch.rand(1, 7), bias, torch.float32) is NotImplemented


@pytest.mark.parametrize("name", [*PAIRS, *UNEVEN_PAIRS])
def test_pairs_in_any_number_of_dimensions(name):
    x, w = {**PAIRS, **UNEVEN_PAIRS}[name]
    y = MATMUL.fast(x, w, None)
    assert (y is NotImplemented) == (name in UNEVEN_PAIRS)
    assert name in UNEVEN_PAIRS or torch.equal(folded(y, 3), MATMUL.run(folded(x, 3), folded(w, 3), None))
    shape = (*x.shape[:-1], w.shape[-1])
    check(isobit.matmul, lambda x, w: isobit.matmul(folded(x, 3), folded(w, 3)).reshape(shape), x, w)


def test_what_is_no_pair_is_for_python():
    x = randn(2, 3, 4, 5)
    for w in (randn(1, 3, 5, 6), randn(3, 5, 6), randn(3, 2, 5, 6), randn(5), randn(2, 2, 3, 5, 6)):
        assert MATMUL.fast(x, w, None) is NotImplemented


def test_strides_as_large_as_anyone_likes_lead_nowhere():
    """Where nothing lies in memory; a product of these and extents would be too large for an int, or by chance right."""
    for rows, stride in ((3, 2**62), (9, 2**61)):
        x, w = torch.empty(0).as_strided((2, rows, 0), (stride, stride, 1)), torch.empty(0, 7)
        assert MATMUL.fast(x, w, None) is NotImplemented
        assert torch.equal(isobit.matmul(x, w), torch.zeros(2, rows, 7))
    x = torch.empty(1, 1, 0).expand(2**31, 2**32, 0)
    assert MATMUL.fast(x, torch.empty(0, 0), None) is NotImplemented


@pytest.mark.parametrize("name", ("rows", "across", "transposed"))
def test_second_gradients_of_matrices_lie_as_these(name):
    x, w = {**ROWS, **UNEVEN}[name].detach().requires_grad_(), randn(7, 5).requires_grad_()
    for f, other in ((isobit.linear, w), (lambda x, w: isobit.matmul(x, w.t()), w), (isobit.matmul, w.t().clone())):
        other = other.detach().requires_grad_()
        (grad,) = torch.autograd.grad(f(x, other).square().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(grad.sum(), other)
        assert second.stride() == other.stride()


def test_gradients_of_folded_products_where_a_mode_is_active():
    """There the steps go by torch's dispatcher, whose op has two or three dimensions."""
    for x, w in (PAIRS["pairs"], (ROWS["four dimensions"], randn(5, 6))):
        leaves = [t.detach().requires_grad_() for t in (x, w)]
        y = isobit.matmul(*leaves)
        expected = torch.autograd.grad(y, leaves, y, retain_graph=True)
        with torch.profiler.profile():
            assert all(map(torch.equal, torch.autograd.grad(y, leaves, y), expected))


def test_what_torch_calls_has_no_more_dimensions_than_fake_tensors_tell():
    w, codes = randn(7, 5), torch.ones(7, 5, dtype=torch.int8)
    for name, *args in (
        ("matmul", randn(2, 3, 5), w.t(), None),
        ("matmul", *PAIRS["pairs"], None),
        ("weight_only_linear", randn(2, 3, 5), codes, torch.rand(7, 1), None, None, 5, torch.int8, 5),
        ("quantized_linear_codes", codes, torch.rand(7, 1), codes, torch.rand(7), None, torch.float32),
        ("quantized_linear_codes", codes[None], torch.rand(1, 7), codes, torch.rand(7), None, torch.float32),
    ):
        assert OPS[name].fast(*args) is not NotImplemented
        with pytest.raises(ValueError, match="; want"):
            OPS[name].raw(*args)
    x = torch.ones((), dtype=torch.int8)
    for scale in (torch.ones(()), torch.ones(1)):
        assert OPS["quantized_linear_codes"].fast(x, scale, codes, torch.rand(7), None, torch.float32) is NotImplemented
