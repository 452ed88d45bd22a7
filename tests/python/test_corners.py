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
            assert (5,) not in kept  # nor a bias, which may change before the backward


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


@pytest.mark.parametrize("shape", ((), (1,)))
@pytest.mark.parametrize("kind", (torch.float32, torch.bfloat16, torch.float64))
def test_a_bias_of_one_element_is_for_all(shape, kind):
    """As of F.linear. Its gradient is one chain, rounded once."""
    x, w, bias = draw(2, 3, 4, dtype=kind), draw(5, 4, dtype=kind), draw(*shape).to(kind).requires_grad_()
    dy = draw(2, 3, 5, dtype=kind, seed=1)
    y = isobit.linear(x, w, bias)
    assert_same(y.detach(), isobit.linear(x, w, bias.detach().expand(5)))
    wide = dy.reshape(6, 5).to(torch.promote_types(kind, torch.float32))
    rows = isobit.matmul(wide.new_ones(1, 6), wide)
    want = isobit.matmul(rows, wide.new_ones(5, 1)).reshape(shape).to(kind)
    assert_same(torch.autograd.grad(y, bias, dy), (want,))
    compiled = torch.compile(isobit.linear, backend="aot_eager", fullgraph=True)
    assert_same(torch.autograd.grad(compiled(x, w, bias), bias, dy), (want,))
    for weight, b, message in (
        (w, draw(2).to(kind), r"\[2\]; want \[5\], \[1, 5\], \[1\] or \[\]"),
        (w, draw(2, 5).to(kind), r"\[2, 5\]; want \[5\], "),
        (w[0], bias[None, None, None], r"want \[\]$"),
    ):
        with pytest.raises(ValueError, match=f"^linear: bias has shape .*{message}"):
            isobit.linear(x, weight, b)


def test_a_bias_may_be_a_row():
    """As of F.linear: [1, N] is [N], and has a gradient of its own shape."""
    w, bias = draw(5, 4), draw(1, 5, seed=2).requires_grad_()
    for x in (draw(4), draw(3, 4), draw(2, 3, 4), draw(0, 4)):
        y = isobit.linear(x, w, bias)
        assert y.shape == (*x.shape[:-1], 5)  # as F.linear's, which 2.8 has for matrices alone
        assert_same(y.detach(), isobit.linear(x, w, bias.detach()[0]))
        dy = torch.ones_like(y)
        want = torch.autograd.grad(isobit.linear(x, w, flat := bias.detach()[0].requires_grad_()), flat, dy)[0]
        assert_same(torch.autograd.grad(y, bias, dy), (want[None],))
    assert_same(isobit.linear(draw(3, 4), w, bias.detach()[:, :1]), isobit.linear(draw(3, 4), w, bias.detach()[0, 0]))
    batches = torch.vmap(isobit.linear, (0, None, 0))(draw(2, 3, 4), w, torch.stack([bias.detach()] * 2))
    assert_same(batches, isobit.linear(draw(2, 3, 4), w, bias.detach()))


def test_batches_of_nothing():
    """vmap over no elements, which torch's functions have for products alone."""
    for f, args in (
        (isobit.linear, (draw(3, 4), draw(5, 4), draw(5))),
        (isobit.matmul, (draw(3, 4), draw(4, 5))),
        (isobit.grid_sample, (draw(1, 2, 3, 3), draw(1, 2, 2, 2))),
        (lambda x: isobit.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7), (draw(3, 4),)),
        (lambda x: isobit.choose_qparams_per_channel(x, 0), (draw(3, 4),)),
    ):
        want = f(*args)
        for dim in (0, 1):
            got = torch.vmap(f, dim)(*(t.unsqueeze(dim).narrow(dim, 0, 0) for t in args))
            for g, w in zip(*((y if isinstance(y, tuple) else (y,)) for y in (got, want)), strict=True):
                assert (g.shape, g.dtype) == ((0, *w.shape), w.dtype)


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


def test_gradients_of_16_bits_are_rounded_once():
    """Weights that codes stand for, and the weight's gradient that those of scales come from, were 16 bits wide."""
    x, dy = draw(64, 32, dtype=torch.bfloat16), draw(64, 8, dtype=torch.bfloat16, seed=1)
    codes = draw(8, 32, seed=2).mul(30).clamp(-128, 127).to(torch.int8)
    scale = (draw(8, 2, seed=3).abs() + 0.1).requires_grad_()
    leaf = x.clone().requires_grad_()
    dx, ds = torch.autograd.grad(isobit.weight_only_linear(leaf, codes, scale, group_size=16), (leaf, scale), dy)
    w = codes.double() * scale.detach().double().repeat_interleave(16, 1)
    torch.testing.assert_close(dx, (dy.double() @ w).to(dx.dtype), rtol=2**-8, atol=1e-2)
    want = ((dy.double().t() @ x.double()) * codes).reshape(8, 2, 16).sum(-1)
    torch.testing.assert_close(ds.double(), want, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_doubles_become_16_bits_in_one_rounding(dtype):
    """Beside a tie, which a float32 would be."""
    rounded = isobit._gradient.rounded
    values = torch.arange(0x3C00, 0x3C40, dtype=torch.int16).view(dtype)
    low, high = values[:-1], values[1:]
    tie = (low.double() + high.double()) / 2
    even = torch.where(torch.arange(len(tie)) % 2 == 0, low, high)
    for t, want in ((tie * (1 + 2**-40), high), (tie * (1 - 2**-40), low), (tie, even)):
        for sign in (1, -1):
            assert_same(rounded(sign * t, dtype), sign * want)
            assert_same(torch.func.jvp(lambda t: rounded(t, dtype), (t,), (sign * t,))[1], sign * want)
    x, w, dy = (draw(*shape, dtype=torch.float64) for shape in ((3, 4), (5, 4), (3, 5)))
    bias, v = draw(5, dtype=dtype).requires_grad_(), draw(5, dtype=dtype, seed=1)

    def by_bias(dy):
        return torch.autograd.grad(isobit.linear(x, w, bias), bias, dy, create_graph=True)[0]

    want = v.double().expand(3, 5)  # of the sum of rows, which is rounded
    assert_same(torch.autograd.grad(by_bias(dy.requires_grad_()), dy, v), (want,))
    assert_same(torch.func.vjp(lambda t: rounded(t, dtype), tie)[1](even), (even.double(),))
    assert_same(torch.func.jvp(lambda b: isobit.linear(x, w, b), (bias.detach(),), (v,))[1], want)


def test_forward_mode_over_forward_mode():
    """A jvp sees the tensors of one level: products and grids had 0 for what it did not see."""
    w, grid, image = draw(2, 2), draw(1, 3, 3, 2, spread=0.4), draw(1, 2, 4, 4)
    for f, x in ((lambda x: isobit.matmul(x, x), w), (lambda x: isobit.grid_sample(image, x), grid)):
        with pytest.raises(NotImplementedError, match="has one derivative in forward mode"):
            torch.func.jacfwd(torch.func.jacfwd(lambda x, f=f: f(x).square().sum()))(x)
    for ours, theirs in (
        (lambda t: isobit.affine_grid(t, [1, 1, 2, 2], False), lambda t: torch.nn.functional.affine_grid(t, [1, 1, 2, 2], False)),
        (lambda t: isobit.embedding(torch.tensor([1, 1]), t[0]), lambda t: t[0][[1, 1]]),
    ):  # fmt: skip
        got, want = (
            torch.func.jacfwd(torch.func.jacfwd(lambda t, f=f: f(t).pow(3).sum()))(draw(1, 2, 3))
            for f in (ours, theirs)
        )
        torch.testing.assert_close(got, want)


@pytest.mark.filterwarnings("ignore")
def test_a_traced_grid_of_an_images_size():
    theta, image = draw(1, 2, 3), draw(1, 1, 3, 4)
    traced = torch.jit.trace(lambda t, i: isobit.affine_grid(t, i.size()), (theta, image))
    assert_same(traced(theta, image), isobit.affine_grid(theta, image.size()))


def test_plans_that_were_not_made_and_what_they_hand_out(capfd):
    for args, keywords in (((), {}), (("x",), {"foo": 1})):
        with pytest.raises(TypeError):
            isobit.Plan(*args, **keywords)
    assert capfd.readouterr().err == ""
    plan = isobit.Plan("quantize_per_tensor x=f32[4] zero_point=none q=s8 qmin=-128 qmax=127")
    plan.describe()["args"].clear()
    assert plan.describe()["args"]

    class Odd:
        def __dlpack__(self, **_):
            pass

        def __dlpack_device__(self):
            return [1, 0]

    with pytest.raises(TypeError, match="quantize_per_tensor: x: its __dlpack_device__ gave .*; want two ints"):
        plan.run(Odd(), torch.ones(()), None, torch.empty(4, dtype=torch.int8))


@pytest.mark.parametrize("grad", (False, True))
@pytest.mark.filterwarnings("ignore")  # torch's, of what is in beta
def test_batches_that_have_no_matrix(grad):
    """torch fails to make one of sparse and of nested tensors, in its own words."""
    x, w, codes, scale = draw(3, 2, 4), draw(5, 4), torch.zeros(5, 4, dtype=torch.int8), torch.ones(5, 1)
    calls = {
        "linear": lambda t: isobit.linear(t, w),
        "matmul": lambda t: isobit.matmul(t, w.t()),
        "weight_only_linear": lambda t: isobit.weight_only_linear(t, codes, scale, group_size=4),
    }
    for batch in (x.to_sparse(), x.to_sparse_csr(), torch.nested.nested_tensor([draw(2, 4), draw(3, 4)])):
        for name, call in calls.items():
            with torch.set_grad_enabled(grad), pytest.raises(TypeError, match=f"^{name}: input is a (sparse|nested)"):
                call(batch)


def test_linear_layers_name_their_own_arguments():
    x, w = draw(3, 4), draw(5, 4)
    nested = torch.nested.nested_tensor([draw(4), draw(4)])
    with pytest.raises(TypeError, match="^linear: weight is a nested tensor"):
        isobit.linear(x, nested)
    with pytest.raises(ValueError, match=r"^linear: weight has shape \[1, 5, 4\]; want \[N, 4\] or \[4\]"):
        isobit.linear(x, w[None])
    with pytest.raises(ValueError, match=r"^quantized_linear: bias has shape \[4\]; want \[5\]"):
        isobit.quantized_linear(x, w, draw(4))
    with pytest.raises(TypeError, match="^quantized_linear: bias must be a Tensor"):
        isobit.quantized_linear(x, w, 1.0)


@pytest.mark.parametrize("code", (torch.int8, torch.uint8, torch.int4))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.bfloat16))
def test_zero_points_of_a_weight_only_layers_gradient_are_any_integers(code, dtype):
    """The backward refused, beyond the codes' range, what the forward takes."""
    x, dy = draw(3, 7, dtype=dtype), draw(3, 5, dtype=dtype, seed=1)
    scale, zero = (draw(5, 2, seed=2).abs() + 0.1).requires_grad_(), torch.tensor([300, -129, 2**40, 16, -(2**33)])
    zero = zero[:, None].expand(5, 2).contiguous()
    codes = draw(5, 7, seed=3).mul(9).abs().clamp(0, 7).to(torch.uint8)
    wide = codes.double()
    if code == torch.int4:
        codes = isobit.quantize_per_tensor(codes.float(), 1.0, None, -8, 7, code)
    leaf = x.clone().requires_grad_()

    def run(x, s):
        return isobit.weight_only_linear(x, codes.to(torch.int8) if code == torch.int8 else codes, s, zero, group_size=4, dtype=code)  # fmt: skip

    got = torch.autograd.grad(run(leaf, scale), (leaf, scale), dy)
    steps = (wide - zero.repeat_interleave(4, 1)[:, :7].double()).to(torch.float64)
    w = steps * scale.detach().double().repeat_interleave(4, 1)[:, :7]
    tolerance = {"rtol": 2**-7, "atol": 0} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 0}
    torch.testing.assert_close(got[0].double(), dy.double() @ w, **tolerance)
    each = (dy.double().t() @ x.double()) * steps
    torch.testing.assert_close(got[1].double(), torch.stack([each[:, :4].sum(1), each[:, 4:].sum(1)], 1), rtol=1e-3, atol=1e-3)  # fmt: skip
    _, vjp = torch.func.vjp(run, x, scale.detach())
    assert_same(vjp(dy), got)
    if dtype == torch.float32:
        compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
        assert_same(torch.autograd.grad(compiled(leaf, scale), (leaf, scale), dy), got)


def at_odd_address(t):
    """As torch.frombuffer makes tensors of bytes in a file or a message, and torch's functions take them."""
    odd = torch.frombuffer(bytearray(t.nbytes + 1), dtype=t.dtype, count=t.numel(), offset=1).view(t.shape)
    return odd.copy_(t)


def test_tensors_at_odd_addresses():
    indices, scale = torch.tensor([[1, 0], [2, 2]]), torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6])
    image, grid = draw(1, 2, 3, 4), draw(1, 2, 2, 2)
    for f, tensors in (
        (lambda x, s: isobit.fake_quantize_per_token_affine(x, s, None, -8, 7), (draw(6, 8), scale)),
        (lambda x: isobit.quantize_per_token_dynamic(x)[0], (draw(6, 8),)),
        (isobit.embedding, (indices, draw(5, 8))),
        (isobit.embedding_bag, (indices, draw(5, 8))),
        (isobit.grid_sample, (image, grid)),
        *LINEAR.values(),
    ):
        odd = [at_odd_address(t) for t in tensors]
        want = f(*tensors)
        assert_same(f(*odd), want)
        leaves = [t.requires_grad_() for t in odd if t.is_floating_point()]
        y = f(*odd)
        assert_same(y.detach(), want)
        if y.requires_grad:
            y.sum().backward()
            assert all(leaf.grad is not None for leaf in leaves)
    x = draw(6, 8)
    for f in (
        lambda out: isobit.fake_quantize_per_token_affine(x, scale, None, -8, 7, out=out),
        lambda out: isobit.matmul(x, draw(8, 8), out=out),
    ):
        out = at_odd_address(torch.zeros(6, 8))
        assert f(out) is out
        assert_same(out, f(None))
    for f in (
        lambda weight: isobit.embedding_renorm_(weight, indices, 0.5),
        lambda weight: isobit.embedding(indices, weight, max_norm=0.5),
        lambda weight: isobit.embedding(indices, weight, max_norm=0.5, out=torch.empty(2, 2, 8)),
        lambda weight: isobit.embedding_bag(indices, weight, max_norm=0.5),
    ):
        weight, odd = x.clone(), at_odd_address(x)
        assert_same(f(odd), f(weight))
        assert_same(odd, weight)
        assert not torch.equal(odd, x)
        with pytest.raises(IndexError, match="want 0 to 5"):
            isobit.embedding_renorm_(odd, torch.tensor([0, 6]), 0.1)
        assert_same(odd, weight)
