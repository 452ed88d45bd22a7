"""out=, and the outputs of plans: what they may be, and what autograd sees of them."""

import isobit
import numpy as np
import pytest
import torch
from kit import assert_same, draw
from torch._subclasses.fake_tensor import FakeTensorMode

X, S, Z = draw(3, 4), torch.tensor([0.1, 0.2, 0.3]), torch.zeros(3, dtype=torch.int32)
INT8 = (-128, 127, torch.int8)
PLAN = isobit.Plan("fake_quantize_per_tensor x=f32[3,4] zero_point=none qmin=-8 qmax=7")


class Sub(torch.Tensor):
    pass


def fake(x, s, **keywords):
    return isobit.fake_quantize_per_channel_affine(x, s, None, 0, -8, 7, **keywords)


OUTS = {
    "fake_quantize": lambda out: fake(X, S, out=out),
    "quantize": lambda out: isobit.quantize_per_tensor(X, 0.1, 0, -8, 7, torch.float32, out=out),
    "dequantize": lambda out: isobit.dequantize_per_channel(X.to(torch.int8), S, Z, 0, *INT8, out=out),
    "grid_sample": lambda out: isobit.grid_sample(X[None, None], torch.zeros(1, 3, 4, 2), out=out[None, None]),
    "embedding": lambda out: isobit.embedding(torch.tensor([1, 0, 2]), X, out=out),
    "affine_grid": lambda out: isobit.affine_grid(draw(1, 2, 3), [1, 1, 2, 3], out=out.view(1, 2, 3, 2)),
    "matmul": lambda out: isobit.matmul(X, draw(4, 4), out=out),
    "linear": lambda out: isobit.linear(X, draw(4, 4), X.new_ones(4), out=out),
    "quantized_linear": lambda out: isobit.quantized_linear(X, draw(4, 4), out=out),
    "quantized_linear_codes": lambda out: isobit.quantized_linear_codes(
        *isobit.quantize_per_token_dynamic(X)[:2], torch.ones(4, 4, dtype=torch.int8), torch.ones(4), out=out
    ),
    "quantized_linear_codes in groups": lambda out: isobit.quantized_linear_codes(
        X.to(torch.uint8),
        S,
        torch.ones(4, 2, dtype=torch.uint8),
        torch.ones(4, 2),
        input_zero_point=Z,
        group_size=2,
        weight_dtype=torch.int4,
        out=out,
    ),
    "weight_only_linear": lambda out: isobit.weight_only_linear(
        X, torch.ones(4, 4, dtype=torch.int8), torch.ones(4, 1), group_size=4, out=out
    ),
    "embedding with max_norm": lambda out: isobit.embedding(torch.tensor([1, 0, 2]), X.clone(), max_norm=1.0, out=out),
    "plan": lambda out: PLAN.run(X, S[0], None, out),
    "plan, of a subclass": lambda out: PLAN.run(X, S[0], None, out.as_subclass(Sub)),
    "subclass": lambda out: fake(X, S, out=out.as_subclass(Sub)),
}


@pytest.mark.parametrize("name", OUTS)
def test_writing_out_is_seen_by_autograd(name):
    """A tensor that a backward needs is an error once it was written, not a wrong gradient."""
    leaf, out = draw(3, 4, seed=1).requires_grad_(), torch.ones(3, 4)
    loss = (leaf * out).sum()
    before = out._version
    OUTS[name](out)
    assert out._version > before
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("name", OUTS)
def test_out_that_autograd_does_not_let_go(name):
    """A tensor from inference mode is written there alone, a leaf where no gradient is wanted: as by torch's out=."""
    with torch.inference_mode():
        out = torch.full((3, 4), 77.0)
    with pytest.raises(RuntimeError, match="is an inference tensor; want a clone"):
        OUTS[name](out)
    assert (out == 77).all()
    with torch.inference_mode():
        OUTS[name](out)
    leaf = torch.full((3, 4), 77.0, requires_grad=True)
    for odd in (leaf, leaf * 1):
        with pytest.raises(RuntimeError, match="out= does not work where a gradient is wanted|requires a gradient"):
            OUTS[name](odd)
    assert (leaf == 77).all()
    with torch.no_grad():
        OUTS[name](leaf)
    assert_same(leaf.detach(), out.clone())


@pytest.mark.parametrize("name", sorted(OUTS.keys() - {"affine_grid", "plan", "plan, of a subclass", "subclass"}))
def test_out_without_elements_becomes_the_result(name):
    """As torch's functions resize it, on meta, too."""
    out = torch.empty(0)
    assert_same(OUTS[name](out), OUTS[name](torch.empty(3, 4)))
    assert name == "grid_sample" or out.shape == (3, 4)
    x, out = X.to("meta"), torch.empty(0, 9, device="meta")
    assert isobit.linear(x, x, out=out).shape == out.shape == (3, 3)


def test_a_plan_does_not_write_what_wants_a_gradient():
    plan, out = isobit.Plan("quantize_per_tensor x=f32[3,4] q=f32 zero_point=none qmin=-8 qmax=7"), torch.empty(3, 4)
    for call in (plan.can_implement, plan.run):
        with pytest.raises(RuntimeError, match="an output requires a gradient"):
            call(X, S[0], None, out.requires_grad_())
    with torch.no_grad():
        plan.run(X, S[0], None, out)
    assert_same(out.detach(), isobit.quantize_per_tensor(X, S[0], None, -8, 7, torch.float32))
    with pytest.raises(ValueError, match="n is 1099511627776; want"):
        isobit.set_num_threads(2**40)  # not 0, which is what is left of it in an int


def test_out_is_what_the_result_would_be():
    """Of its dtype and shape, on its device, in eager code as in compiled code."""
    quantize = isobit.quantize_per_channel
    for error, message, out in (
        (ValueError, r"out is torch.float32; want torch.int8", torch.empty(3, 4)),
        (ValueError, r"out is torch.complex64; want torch.int8", torch.empty(3, 4, dtype=torch.complex64)),
        (ValueError, r"out has shape \[4, 3\]; want \[3, 4\]", torch.empty(4, 3, dtype=torch.int8)),
        (ValueError, r"out is torch.int16; want torch.int8", torch.empty(0, dtype=torch.int16)),
        (
            ValueError,
            r"out has shape \[0\]; want \[3, 4\], to which it cannot be resized",
            torch.from_numpy(np.empty(0, np.int8)),
        ),
        (RuntimeError, r"out is on meta; want cpu, where input is", torch.empty(3, 4, dtype=torch.int8, device="meta")),
        (TypeError, r"out is a sparse or blocked tensor \(torch.sparse_coo\); want", torch.zeros(3, 4).to_sparse()),
        (TypeError, r"out is a nested tensor; want a dense tensor", torch.nested.nested_tensor([X[0], X[1, :2]])),
        (TypeError, r"out must be a Tensor, not ndarray", np.empty((3, 4), np.int8)),
        (
            ValueError,
            r"out has strides \[0, 1\] with which elements may overlap",
            torch.empty(4, dtype=torch.int8).expand(3, 4),
        ),
        (
            TypeError,
            r"out is a quantized tensor \(torch.qint8\); want",
            torch.quantize_per_tensor(X, 0.1, 0, torch.qint8),
        ),
    ):
        with pytest.raises(error, match=message) as raised:
            quantize(X, S, Z, 0, *INT8, out=out)
        assert "quantize_per_channel: " in str(raised.value) and "\n" not in str(raised.value)
    with pytest.raises(ValueError, match=r"out is torch\.bfloat16; want torch\.float32"):
        isobit.dequantize_per_channel(X.to(torch.int8), S, Z, 0, *INT8, out=torch.empty(3, 4, dtype=torch.bfloat16))
    both = draw(4, 4)
    with pytest.raises(ValueError, match="out overlaps input in memory"):
        fake(both[:3], S, out=both[1:])
    packed = torch.empty(3, 3, dtype=torch.uint8)
    x = draw(3, 5)
    assert isobit.quantize_per_tensor(x, 0.5, None, -8, 7, torch.int4, out=packed) is packed
    with pytest.raises(ValueError, match=r"out has shape \[3, 5\]; want \[3, 3\]"):
        isobit.quantize_per_tensor(x, 0.5, None, -8, 7, torch.int4, out=torch.empty(3, 5, dtype=torch.uint8))
    weight, indices = draw(5, 3), torch.tensor([[1, 2], [4, 0]])
    for keywords in ({}, {"max_norm": 0.5}, {"padding_idx": 1}):
        before, rows = weight.clone(), torch.empty(2, 2, 3)
        with pytest.raises(ValueError, match=r"embedding: out has shape \[2, 3\]; want \[2, 2, 3\]"):
            isobit.embedding(indices, weight, out=torch.empty(2, 3), **keywords)
        assert_same(weight, before)
        assert isobit.embedding(indices, weight.clone(), out=rows, **keywords) is rows
        assert_same(rows, isobit.embedding(indices, weight.clone(), **keywords))
    with pytest.raises(ValueError, match="embedding: input is 9 at position"):
        isobit.embedding(torch.tensor([9]), weight, out=rows.resize_(0))
    assert rows.shape == (0,)
    with pytest.raises(RuntimeError, match="out= does not work within vmap"):
        torch.vmap(lambda x: fake(x, S, out=torch.empty(3, 4)))(draw(2, 3, 4))


def test_out_that_plans_do_not_write_as_it_lies():
    """Packed codes along which bytes lie apart, and negative views: they take a copy, as any layout does."""
    want = isobit.quantize_per_tensor(X, 0.5, None, -8, 7, torch.int4)
    for out in (torch.zeros(3, 4, dtype=torch.uint8)[:, ::2], torch.zeros(2, 3, dtype=torch.uint8).t()):
        assert isobit.quantize_per_tensor(X, 0.5, None, -8, 7, torch.int4, out=out) is out
        assert_same(out.clone(), want)
    with pytest.raises(ValueError, match=r"out has strides \[2, 0\] with which elements may overlap"):
        out = torch.zeros(3, 2, dtype=torch.uint8)[:, :1].expand(3, 2)
        isobit.quantize_per_tensor(X, 0.5, None, -8, 7, torch.int4, out=out)
    byte, x = torch.zeros((), dtype=torch.uint8), torch._neg_view(torch.tensor(-2.0))
    assert isobit.quantize_per_tensor(x, 0.5, 0, 0, 255, torch.uint8, out=byte) is byte and byte == 4
    out = torch.zeros(3, 4, dtype=torch.complex64).conj().imag
    assert out.is_neg()
    assert_same(fake(X, S, out=out).clone(), fake(X, S))
    for device in ("meta", "cpu"):
        with FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(ValueError, match="elements may overlap"):
            fake(X.to(device), S.to(device), out=torch.empty(1, 4, device=device).expand(3, 4))


def test_out_of_negative_views():
    """As without out=, and as torch's functions take them."""
    image, grid, theta, weight = (
        torch._neg_view(draw(*shape)) for shape in ((1, 2, 3, 4), (1, 2, 2, 2), (1, 2, 3), (5, 4))
    )
    for f in (
        lambda **out: fake(torch._neg_view(X), S, **out),
        lambda **out: isobit.quantize_per_tensor(torch._neg_view(X), 0.5, None, -8, 7, torch.int8, **out),
        lambda **out: isobit.grid_sample(image, grid, **out),
        lambda **out: isobit.affine_grid(theta, [1, 1, 2, 2], **out),
        lambda **out: isobit.embedding(torch.tensor([3, 1]), weight, **out),
        lambda **out: isobit.embedding(torch.tensor([3, 1]), weight, max_norm=9.0, **out),
        lambda **out: isobit.matmul(torch._neg_view(X), X.t(), **out),
    ):
        want = f()
        out = torch.zeros_like(want)
        assert f(out=out) is out
        assert_same(out, want)


def test_out_for_codes_of_what_wants_a_gradient():
    """Integers carry none, with out= as without: so torch's argmax(x, out=) takes any x."""
    x, s, out = X.clone().requires_grad_(), S.clone().requires_grad_(), torch.empty(3, 4, dtype=torch.int8)
    assert isobit.quantize_per_channel(x, s, None, 0, *INT8, out=out) is out
    assert_same(out, isobit.quantize_per_channel(X, S, None, 0, *INT8))


def test_out_of_products_overlaps_nothing():
    x, w = draw(4, 6), draw(3, 6)
    for out in (torch.zeros(9).as_strided((4, 3), (1, 1)), torch.zeros(3).expand(4, 3), torch.zeros(3).expand(2, 3)):
        with pytest.raises(ValueError, match=r"linear: out has strides \[\d, 1\] with which elements may overlap"):
            isobit.linear(x[: len(out)], w, out=out)
        assert not out.any()
    out = torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"linear: out has shape \[2, 3\]; want \[4, 3\]"):
        isobit.linear(x, w, out=out)
    assert out.shape == (2, 3) and not out.any()
    out = torch.zeros(3, 8)[:, ::2].t()
    assert_same(isobit.linear(x, w, out=out), isobit.linear(x, w))


@pytest.mark.parametrize("n", (1, 6))
def test_out_of_products_has_memory(n):
    """Torch's copy_ to a storage that was given back, as FSDP does between layers, ends the process."""
    out = torch.zeros(n, n)
    out.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="matmul: out has no memory"):
        isobit.matmul(draw(n, 8), draw(8, n), out=out)
    out.untyped_storage().resize_(out.nbytes)
    assert isobit.matmul(draw(n, 8), draw(8, n), out=out) is out


def test_out_is_no_zero_tensor():
    """Torch's own, which autograd makes of gradients that are 0, has no memory."""
    out = torch._efficientzerotensor((4, 6), dtype=torch.int8)
    with pytest.raises(RuntimeError, match="^quantize_per_tensor: out is a ZeroTensor, .* want a clone of it"):
        isobit.quantize_per_tensor(X, 0.5, 0, -8, 7, torch.int8, out=out)
    with pytest.raises(RuntimeError, match="^matmul: out is a ZeroTensor, .* want a clone of it"):
        isobit.matmul(draw(6, 8), draw(8, 5), out=torch._efficientzerotensor((6, 5)))
