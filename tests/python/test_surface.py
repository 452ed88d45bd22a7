"""The Python surface where features meet: second derivatives, forward mode, empty extents, odd arguments."""

from functools import partial

import isobit
import numpy as np
import pytest
import torch
from kit import assert_same, draw

X, S, Z = draw(3, 4), torch.tensor([0.1, 0.2, 0.3]), torch.zeros(3, dtype=torch.int32)
INT8 = (-128, 127, torch.int8)


def fake(x, s, **keywords):
    return isobit.fake_quantize_per_channel_affine(x, s, None, 0, -8, 7, **keywords)


TWICE = {
    "fake_quantize": fake,
    "quantize": lambda x, s: isobit.quantize_per_channel(x, s, None, 0, -8, 7, torch.float32),
    "dequantize": lambda x, s: isobit.dequantize_per_channel(x, s, None, 0, -8, 7, torch.float32),
    "quantized_linear": lambda x, s: isobit.quantized_linear(x, torch.ones(5, 4) * s[0]),
    "weight_only_linear": lambda x, s: isobit.weight_only_linear(
        x, torch.ones(3, 4, dtype=torch.int8), s[:, None], group_size=4
    ),
}


@pytest.mark.parametrize("name", TWICE)
def test_a_second_derivative_is_an_error_and_never_zero(name):
    def loss(x, s):
        return TWICE[name](x, s).square().sum()

    match = "has no second derivative"
    for arg in {"quantize": (0,), "quantized_linear": (0,), "fake_quantize": (1,)}.get(name, (0, 1)):
        with pytest.raises(RuntimeError, match=match):
            torch.func.grad(lambda *a, arg=arg: torch.func.grad(loss, arg)(*a).square().sum(), arg)(X, S)
        with pytest.raises(RuntimeError, match=match):
            torch.func.jacrev(torch.func.jacrev(loss, arg), arg)(X, S)
        leaves = [X.clone().requires_grad_(), S.clone().requires_grad_()]
        (grad,) = torch.autograd.grad(loss(*leaves), leaves[arg], create_graph=True)
        with pytest.raises(RuntimeError, match=match):
            torch.autograd.grad(grad.square().sum(), leaves[arg], allow_unused=True, retain_graph=True)
        with pytest.raises(RuntimeError, match=match):
            grad.square().sum().backward()
    if name == "fake_quantize":  # by the upstream gradient and by x it has one, where scales are not learned
        return
    upstream = torch.ones_like(TWICE[name](X, S)).requires_grad_()
    x = X.clone().requires_grad_()
    (grad,) = torch.autograd.grad(TWICE[name](x, S), x, upstream, create_graph=True)
    with pytest.raises(RuntimeError, match=match):
        torch.autograd.grad(grad.sum(), upstream, allow_unused=True)


def test_serving_has_no_derivative():
    codes, scale = torch.ones(2, 4, dtype=torch.int8), torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="quantized_linear_codes has no derivative, as it serves"):
        isobit.quantized_linear_codes(codes, scale, codes, scale).sum().backward()


def test_linear_layers_of_nothing():
    """No columns, no rows, no outputs: what torch's linear answers, with gradients."""
    codes = {"dtype": torch.int8}
    for rows, n, k in (((2,), 3, 0), ((0,), 3, 4), ((2, 0), 3, 4), ((2,), 0, 4), ((), 3, 0), ((2, 3), 0, 0)):
        x, w = torch.ones(*rows, k, requires_grad=True), torch.ones(n, k, requires_grad=True)
        bias = torch.ones(n, requires_grad=True)
        y = isobit.quantized_linear(x, w, bias)
        assert_same(y.detach(), torch.nn.functional.linear(x, w, bias).detach())
        y.sum().backward()
        want = torch.autograd.grad(torch.nn.functional.linear(x, w, bias).sum(), (x, w, bias))
        assert_same((x.grad, w.grad, bias.grad), want)
        served = isobit.quantized_linear_codes(
            torch.ones(*rows, k, **codes), torch.ones(rows), torch.ones(n, k, **codes), torch.ones(n, 1), bias
        )
        assert served.shape == y.shape
        scale = torch.ones(n, -(-k // 3), requires_grad=True)
        y = isobit.weight_only_linear(x, torch.ones(n, k, **codes), scale, None, bias, group_size=3)
        assert_same(y.detach(), torch.nn.functional.linear(x, w, bias).detach())
        y.sum().backward()
        assert scale.grad.shape == scale.shape
    layer = isobit.nn.QuantizedLinear(4, 3)
    assert layer(torch.ones(0, 4)).shape == layer.served()(torch.ones(0, 4)).shape == (0, 3)
    for f in (isobit.quantized_linear, lambda x, w: isobit.weight_only_linear(x, w, torch.ones(3, 1), group_size=4)):
        weight = torch.ones(3, 4) if f is isobit.quantized_linear else torch.ones(3, 4, **codes)
        assert torch.vmap(f, (0, None))(torch.ones(0, 2, 4), weight).shape == (0, 2, 3)
    indices = torch.ones(2, dtype=torch.int64)
    assert torch.vmap(isobit.embedding, (None, 0))(indices, torch.ones(0, 3, 4)).shape == (0, 2, 4)


def test_scales_of_other_rows_are_refused():
    """Ten scales for five by two rows have to lie as the rows do."""
    x, w = torch.ones(5, 2, 4, dtype=torch.int8), torch.ones(3, 4, dtype=torch.int8)
    good = isobit.quantized_linear_codes(x, torch.ones(5, 2), w, torch.ones(3))
    assert_same(isobit.quantized_linear_codes(x, torch.ones(5, 2, 1), w, torch.ones(3, 1)), good)
    for x_scale in (torch.ones(2, 5), torch.ones(10), torch.ones(5, 1, 2)):
        with pytest.raises(ValueError, match=r"input_scale has shape .*; want \[5, 2\] or \[5, 2, 1\]"):
            isobit.quantized_linear_codes(x, x_scale, w, torch.ones(3))
    with pytest.raises(ValueError, match="weight_scale has shape"):
        isobit.quantized_linear_codes(x, torch.ones(5, 2), w, torch.ones(1, 3))


def test_odd_arguments_are_named():
    q, fq = isobit.quantize_per_tensor, isobit.fake_quantize_per_tensor_affine
    for error, message, call in (
        (TypeError, "dtype must be a torch.dtype, not None", lambda: q(X, 0.1, 0, -8, 7, None)),
        (TypeError, "rounding must be a str, not None", lambda: fq(X, 0.1, 0, -8, 7, rounding=None)),
        (TypeError, "dtype must be a torch.dtype, not None; want torch.int8, that of input", lambda: isobit.dequantize_per_tensor(X.to(torch.int8), 0.1, 0, -8, 7, None)),
        (ValueError, "zero_point is 1180591620717411303424; want an int64", lambda: q(X, 0.1, 2**70, *INT8)),
        (TypeError, "scale must be a Tensor or a number, not complex64", lambda: q(X, np.complex64(1), 0, *INT8)),
        (TypeError, "scale must be a Tensor or a number, not ndarray", lambda: q(X, np.ones(1), 0, *INT8)),
        (TypeError, "zero_point must be a Tensor, a number or None, not str_", lambda: q(X, 0.1, np.str_("1"), *INT8)),
        (ValueError, "scale is an int of 1329 bits; want a float64", lambda: q(X, 10**400, 0, *INT8)),
        (TypeError, "zero_point is torch.uint32; want one of torch.int32, torch.int64", lambda: q(X, 0.1, torch.tensor(1, dtype=torch.uint32), *INT8)),
        (TypeError, "input is torch.complex64", lambda: q(X.to(torch.complex64), 0.1, 0, *INT8)),
        (TypeError, "choose_qparams_per_tensor: input must be a Tensor, not list", lambda: isobit.choose_qparams_per_tensor([1.0])),
        (TypeError, "quantize_per_token_dynamic: input must be a Tensor", lambda: isobit.quantize_per_token_dynamic(None)),
        (TypeError, "dtype must be one of torch.int8, torch.int16, torch.int4, not None", lambda: isobit.choose_qparams_per_token(X, None)),
        (TypeError, "block_size must be a list of ints, not None", lambda: isobit.choose_qparams_per_block(X, None)),
        (TypeError, "block_size must be a list of ints, not list", lambda: isobit.choose_qparams_per_block(X, [None, X])),
        (ValueError, "block_size has an item that is no int64; want ints", lambda: isobit.choose_qparams_per_block(X, [2, 2**63])),
        (ValueError, r"block_size is \[1, 1, .*; want one extent", lambda: isobit.choose_qparams_per_block(X, [1] * 8)),
        (TypeError, "dtype is torch.complex64; want one of torch.int8, torch.uint8", lambda: isobit.weight_only_linear(X, X, S[:, None], group_size=4, dtype=torch.complex64)),
        (TypeError, "block_size must be a list of ints, not list", lambda: isobit.choose_qparams_per_block(X, [None, 10**5000])),
        (TypeError, "choose_qparams_per_tensor: dtype must be one of torch.int8, .* not 'int8'", lambda: isobit.choose_qparams_per_tensor(X, "int8")),
        (ValueError, "choose_qparams_per_token: dtype is torch.uint8; want one of torch.int8, torch.int16", lambda: isobit.choose_qparams_per_token(X, torch.uint8)),
        (ValueError, "choose_qparams_per_token_asymmetric: input is torch.int32; want", lambda: isobit.choose_qparams_per_token_asymmetric(X.int(), torch.int8)),
        (TypeError, "code_dtype must be None, torch.float8_e4m3fn or torch.float8_e5m2, not 'f8e4m3'", lambda: fq(X, 0.1, 0, -8, 7, code_dtype="f8e4m3")),
        (ValueError, "code_dtype is torch.int8; want None, torch.float8_e4m3fn", lambda: fq(X, 0.1, 0, -8, 7, code_dtype=torch.int8)),
        (ValueError, "dequantize_per_tensor: input is torch.int64; want one of torch.int8", lambda: isobit.dequantize_per_tensor(X.long(), 0.1, 0, *INT8)),
        (TypeError, "dequantize_per_tensor: input is torch.complex64; want one of torch.int8", lambda: isobit.dequantize_per_tensor(X.to(torch.complex64), 0.1, 0, *INT8)),
        (ValueError, r"quantize_per_tensor: input has shape \[\]; want at least one dimension to pack", lambda: q(X[0, 0], 0.1, 0, -8, 7, torch.int4)),
        (ValueError, r"dequantize_per_tensor: input has shape \[\]; want at least one dimension to pack", lambda: isobit.dequantize_per_tensor(torch.tensor(1, dtype=torch.uint8), 0.1, 0, -8, 7, torch.int4)),
        (ValueError, r"weight_only_linear: weight has shape \[3, 4\]; want 2 along the last dimension, two codes", lambda: isobit.weight_only_linear(X, X.to(torch.uint8), S[:, None], group_size=4, dtype=torch.int4)),
        (ValueError, r"quantized_linear: weight has shape \[4\]; want \[N, 4\]", lambda: isobit.quantized_linear(X, X[0])),
        (ValueError, r"quantized_linear: weight has shape \[1, 3, 4\]; want \[N, 4\]", lambda: isobit.quantized_linear(X, X[None])),
        (ValueError, "quantized_linear: bias is torch.int8; want", lambda: isobit.quantized_linear(X, X, torch.ones(3, dtype=torch.int8))),
        (ValueError, "input has 9 dimensions; want at most 8", lambda: isobit.quantize_per_tensor_backward(X, X.reshape(3, 4, *[1] * 7), 0.1, 0, -8, 7)),
        (ValueError, "choose_qparams_per_channel_group: group_size is 0; want", lambda: isobit.choose_qparams_per_channel_group(X, 0)),
        (ValueError, r"choose_qparams_per_block: block_size is \[0, 2\]; want", lambda: isobit.choose_qparams_per_block(X, [0, 2])),
        (TypeError, "quantized_linear: input must be a Tensor, not list", lambda: isobit.quantized_linear([1.0], X)),
        (ValueError, r"quantized_linear: input has shape \[\]", lambda: isobit.quantized_linear(torch.tensor(1.0), X)),
        (TypeError, "weight_only_linear: weight must be a Tensor", lambda: isobit.weight_only_linear(X, None, S, group_size=4)),
        (ValueError, "scales has shape", lambda: isobit.quantize_per_token(X, torch.ones(5), None, *INT8)),
        (ValueError, r"quantize_per_channel_group: zero_points has shape \[1\]", lambda: isobit.quantize_per_channel_group(X, torch.ones(3, 1), torch.zeros(1), *INT8)),
        (ValueError, "zero_points is 300 at position 1", lambda: isobit.quantize_per_token(X, torch.ones(3), torch.tensor([0, 300, 0]), *INT8)),
        (ValueError, "dtype is torch.int64; want one of torch.int8", lambda: q(X, 0.1, 0, -8, 7, torch.int64)),
        (ValueError, f"quant_min is {-(2**63)}; torch.int8 starts", lambda: q(X, 0.1, 0, -(2**63), 7, torch.int8)),
        (ValueError, f"quant_min is {-(2**63) - 1}; want an int64", lambda: q(X, 0.1, 0, -(2**63) - 1, 7, torch.int8)),
        (ValueError, f"quant_max is {2**63}; want an int64", lambda: q(X, 0.1, 0, -8, 2**63, torch.int8)),
        (ValueError, "quant_min is -129; torch.int8 starts", lambda: q(X, 0.1, 0, -129, 7, torch.int8)),
        (ValueError, "quant_min is -129; torch.int8 starts", lambda: isobit.choose_qparams_per_tensor(X, quant_min=-129)),
        (TypeError, "grad_factor must be a float, not '1'", lambda: fq(X, 0.1, 0, -8, 7, grad_factor="1")),
        (TypeError, "max_norm must be a number, not '1'", lambda: isobit.embedding(torch.tensor([1]), X.clone(), None, "1")),
        (TypeError, "sparse must be a bool, not 'no'", lambda: isobit.embedding(torch.tensor([1]), X, sparse="no")),
        (TypeError, "align_corners must be a bool, not 'no'", lambda: isobit.grid_sample(X[None, None], torch.zeros(1, 1, 1, 2), align_corners="no")),
        (ValueError, "output_mask is", lambda: isobit.grid_sample_backward(X, X, X, output_mask=(True,))),
        (ValueError, "output_mask is .* want 3 bools", lambda: isobit.grid_sample_double_backward(X, X, X, X, X, output_mask=(True,))),
        (ValueError, "size is .*; want no negative", lambda: isobit.affine_grid(draw(2, 2, 3), [2, 1, -4, 5])),
        (TypeError, "size must be a sequence of ints", lambda: isobit.affine_grid(draw(2, 2, 3), 5)),
        (TypeError, "size must be a sequence of ints, not str", lambda: isobit.affine_grid(draw(2, 2, 3), "abcd")),
        (TypeError, "grad_grid must be a Tensor", lambda: isobit.affine_grid_backward([1])),
        (ValueError, r"grad_grid has shape \[\]", lambda: isobit.affine_grid_backward(torch.tensor(1.0))),
        (TypeError, "padding_idx must be an int, not 1.0", lambda: isobit.embedding(torch.tensor([1]), draw(3, 4), 1.0)),
        (ValueError, "padding_idx is 1; there are no rows", lambda: isobit.embedding(torch.tensor([1]), draw(0, 4), 1)),
        (TypeError, "weight is torch.bool; want one of torch.float32", lambda: isobit.embedding(torch.tensor([1]), torch.ones(3, 4, dtype=torch.bool))),
        (ValueError, "num_weights is -1", lambda: isobit.embedding_backward(draw(1, 4), torch.tensor([0]), -1)),
        (ValueError, r"matmul: other has shape \[\]; want 1 dimension", lambda: isobit.matmul(X, S[0])),
        (ValueError, r"matmul: input has shape \[\]; want 1 dimension", lambda: isobit.matmul(S[0], X)),
        (ValueError, r"matmul: other has shape \[2, 4\]; want an extent of 4 to go with input of \[3, 4\]", lambda: isobit.matmul(X, X[:2])),
        (ValueError, r"matmul: other has dimensions \[3\] before .* input's \[2\]", lambda: isobit.matmul(torch.ones(2, 3, 4), torch.ones(3, 4, 5))),
        (ValueError, "matmul: input is torch.int32; want one of torch.float32", lambda: isobit.matmul(X.int(), X.int().t())),
        (ValueError, "matmul: input is torch.int32; want one of torch.float32", lambda: isobit.matmul(X.int(), X.t())),
        (TypeError, "linear: input is torch.bool; want one of torch.float32", lambda: isobit.linear(X.bool(), X)),
        (ValueError, "linear: weight is torch.int32; want torch.float32, as input is", lambda: isobit.linear(X, X.int())),
        (ValueError, r"linear: input has shape \[\]; want", lambda: isobit.linear(S[0], X)),
        (ValueError, "^linear: bias is torch.int32; want one of torch.float32", lambda: isobit.linear(X, X, Z)),
        (TypeError, "^linear: bias is torch.bool; want one of torch.float32", lambda: isobit.linear(X, X, Z.bool())),
        (ValueError, r"weight_only_linear: input has shape \[\]", lambda: isobit.weight_only_linear(S[0], X.to(torch.int8), S, group_size=4)),
    ):  # fmt: skip
        with pytest.raises(error, match=message) as raised:
            call()
        assert isinstance(raised.value, TypeError) == (error is TypeError), message  # a dtype that no op takes is both


def test_vmap_speaks_of_the_tensors_without_the_batch():
    for message, f in (
        (r"axis is 2; want -2 to 1 for shape \[3, 4\]", lambda x: isobit.quantize_per_channel(x, S, None, 2, *INT8)),
        (r"axis is -3; want -2 to 1 for shape \[3, 4\]", lambda x: isobit.quantize_per_channel(x, S, None, -3, *INT8)),
        (r"block_size is \[2\]; want one .* \[3, 4\]", lambda x: isobit.quantize_per_block(x, S, None, [2], *INT8)),
        (r"block_size is \[2\]; want one .* \[3, 4\]", lambda x: isobit.choose_qparams_per_block(x, [2])),
    ):
        with pytest.raises(ValueError, match=message):
            torch.vmap(f)(draw(2, 3, 4))


def test_numbers_of_numpy():
    want = isobit.quantize_per_tensor(X, float(np.float32(0.1)), 3, *INT8)
    for scale in (np.float32(0.1), np.float64(np.float32(0.1)), np.array(0.1, np.float32)):
        for zero_point in (np.int64(3), np.int32(3), np.array(3)):
            assert_same(isobit.quantize_per_tensor(X, scale, zero_point, *INT8), want)
    of_long = isobit.quantize_per_tensor(X, np.longdouble(np.float32(0.1)), np.longdouble(3), *INT8)
    assert_same(of_long, want)
    most = np.finfo(np.longdouble).max
    if most > np.finfo(np.float64).max:  # no long double of this machine's is a double
        with pytest.raises(ValueError, match=r"quantize_per_tensor: scale is 1.18.*e\+4932; want a float64"):
            isobit.quantize_per_tensor(X, most, 0, *INT8)


def test_numbers_through_torchs_dispatcher():
    """vmap goes through it: as the direct call has them."""
    third, infinite = np.longdouble(1) / 3, np.longdouble("inf")
    for scale, zero_point in ((0.1, 3), (1, 3), (np.float32(0.1), np.int64(3)), (third, np.array(3)), (infinite, 0)):
        f = partial(isobit.quantize_per_tensor, scale=scale, zero_point=zero_point, quant_min=-8, quant_max=7, dtype=torch.int8)  # fmt: skip
        assert_same(torch.vmap(f)(X), f(X))
    for message, scale, zero_point in (
        ("scale is an int of 1329 bits; want a float64", 10**400, 0),
        ("zero_point is 9223372036854775808; want an int64", 0.1, 2**63),
        ("zero_point is -9223372036854775809; want an int64", 0.1, -(2**63) - 1),
        ("zero_point is 9223372036854775807", 0.1, 2**63 - 1),
        ("zero_point is -9223372036854775808", 0.1, -(2**63)),
    ):
        for call in (isobit.quantize_per_tensor, torch.vmap(isobit.quantize_per_tensor, (0, *[None] * 5))):
            with pytest.raises(ValueError, match=message) as raised:
                call(X, scale, zero_point, *INT8)
            assert ("want an int64" in message) == ("want an int64" in str(raised.value))


FORWARD = TWICE | {
    "embedding_bag": lambda x, s: isobit.embedding_bag(torch.tensor([[1, 0]]), x),
    "embedding_sparse": lambda x, s: torch.func.vjp(lambda w: isobit.embedding(IDS, w, sparse=True), X)[1](x)[
        0
    ].to_dense(),
    "fake_quantize_backward": lambda x, s: isobit.fake_quantize_per_channel_affine_backward(x, x, s, None, 0, -8, 7)[0],
    "grid_sample_double_backward": lambda x, s: isobit.grid_sample_double_backward(
        *[x[None, None]] * 2, GRID, x[None, None], None
    )[0],
    "raw": lambda x, s: torch.ops.isobit.fake_quantize_per_channel_affine(x, s, None, 0, -8, 7),
    "raw linear": lambda x, s: torch.ops.isobit.embedding(x, IDS),
}
IDS, GRID = torch.tensor([0, 2, 2]), torch.zeros(1, 3, 4, 2)


@pytest.mark.parametrize("name", FORWARD)
def test_forward_mode_is_an_error_and_never_nothing(name):
    """Where there is no forward-mode derivative, a dual tensor must not come out as one without a tangent."""
    ad = torch.autograd.forward_ad
    with pytest.raises(NotImplementedError, match="forward mode|has no second derivative"):
        torch.func.jvp(lambda x: FORWARD[name](x, S), (X,), (X,))
    with ad.dual_level():
        assert_same(FORWARD[name](X, S), FORWARD[name](X, S))  # no dual tensors: as ever
        with pytest.raises(NotImplementedError, match="forward mode|has no second derivative"):
            FORWARD[name](ad.make_dual(X, torch.ones_like(X)), S)
        for x, out in ((ad.make_dual(X, X), torch.empty(3, 4)), (X, ad.make_dual(torch.empty(3, 4), X))):
            with pytest.raises(RuntimeError, match="out= does not work with forward-mode"):
                fake(x, S, out=out)


@pytest.mark.parametrize("device", ("cpu", "meta"))
def test_tensors_have_up_to_eight_dimensions(device):
    x = X.reshape(1, 1, 3, 1, 1, 1, 1, 4).to(device)
    for y in (
        fake(x.movedim(2, 0), S.to(device)).movedim(0, 2),
        isobit.quantize_per_channel(x, S.to(device), None, 2, *INT8),
    ):
        assert y.shape == x.shape and y.device == x.device
    codes = isobit.quantize_per_tensor(x, torch.ones((), device=device), None, -8, 7, torch.int4)
    assert codes.shape == (1, 1, 3, 1, 1, 1, 1, 2)
    with pytest.raises(ValueError, match="input has 9 dimensions; want at most 8"):
        fake(x[None], S.to(device))
    empty = torch.empty(3, 0, 4, device=device)
    assert fake(empty, S.to(device)).stride() == empty.stride() == (4, 4, 1)


@pytest.mark.parametrize("rank", (1, 2, 8))
def test_parameters_of_a_whole_tensor_may_have_any_dimensions(rank):
    """One element each, as amax(keepdim=True) makes: torch asks no more. Their gradients are shaped alike."""
    one, codes = [1] * rank, X.to(torch.int8)
    s, z = torch.full(one, 0.5), torch.full(one, 2, dtype=torch.int32)
    for f, x, end in (
        (isobit.quantize_per_tensor, X, INT8),
        (isobit.dequantize_per_tensor, codes, INT8),
        (isobit.fake_quantize_per_tensor_affine, X, INT8[:2]),
    ):
        assert_same(f(x, s, z, *end), f(x, 0.5, 2, *end))
    assert_same(
        isobit.fake_quantize_per_tensor_affine(X, s, z, -8, 7), torch.fake_quantize_per_tensor_affine(X, s, z, -8, 7)
    )
    learned = [torch.full(one, 0.5, requires_grad=True), torch.full([], 0.5, requires_grad=True)]
    for leaf in learned:
        isobit.fake_quantize_per_tensor_affine(X, leaf, None, -8, 7).sum().backward()
    assert_same(learned[0].grad, learned[1].grad.reshape(one))
    compiled = torch.compile(isobit.fake_quantize_per_tensor_affine, backend="eager", fullgraph=True)
    assert_same(compiled(X, s, None, -8, 7), isobit.fake_quantize_per_tensor_affine(X, 0.5, None, -8, 7))
    with pytest.raises(ValueError, match=r"scale has shape \[2, 1\]; want \[\] or \[1\]"):
        isobit.fake_quantize_per_tensor_affine(X, torch.ones(2, 1), None, -8, 7)
