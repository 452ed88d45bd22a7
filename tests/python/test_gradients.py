"""Gradients through autograd: against the backward ops of tests/reference, and by finite differences."""

import math

import isobit
import pytest
import torch
from kit import FLOATS, NAMES, assert_same, draw, expect, spell
from torch.autograd import gradcheck, gradgradcheck

RANGE = "qmin=-8 qmax=7"


def grad(y, inputs, dy):
    return torch.autograd.grad(y, inputs, dy)


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
class TestAgainstReference:
    def test_fake_quantize(self, dtype):
        x = draw(5, 12, dtype=dtype).requires_grad_()
        scale = (draw(5, seed=1).abs() + 0.2).requires_grad_()
        zero = draw(5, seed=2).requires_grad_()
        dy = draw(5, 12, dtype=dtype, seed=3)
        y = isobit.fake_quantize_per_channel_affine(x, scale, zero, 0, -8, 7, grad_factor=0.5)
        words = f"grad_output={spell(dy, True)} scale=f32 zero_point=f32 axis=0 {RANGE} grad_factor=0.5"
        text = f"fake_quantize_per_channel_backward {words} grad_scale=f32 grad_zero_point=f32"
        assert_same(grad(y, (x, scale, zero), dy), expect(text, dy, x, scale, zero))

    def test_fake_quantize_of_one_input_at_a_time(self, dtype):
        x, scale, zero = draw(5, 12, dtype=dtype), draw(5, seed=1).abs() + 0.2, draw(5, seed=2)
        dy = draw(5, 12, dtype=dtype, seed=3)
        full = isobit.fake_quantize_per_channel_affine_backward(dy, x, scale, zero, 0, -8, 7)
        for i in range(3):
            inputs = [t.clone() for t in (x, scale, zero)]
            inputs[i].requires_grad_()
            y = isobit.fake_quantize_per_channel_affine(*inputs, 0, -8, 7)
            assert_same(grad(y, (inputs[i],), dy), (full[i],))

    def test_quantize_to_float_codes(self, dtype):
        x = draw(5, 12, dtype=dtype).requires_grad_()
        scale = draw(5, 1, seed=1).abs() + 0.2
        dy = draw(5, 12, dtype=dtype, seed=3)
        q = isobit.quantize_per_token(x, scale, None, -8, 7, dtype)
        assert q.dtype == dtype
        text = f"quantize_per_token_backward grad_output={spell(dy, True)} scale=f32 zero_point=none {RANGE}"
        assert_same(grad(q, (x,), dy), (expect(text, dy, x, scale, None),))

    def test_codes_of_another_dtype(self, dtype):
        """The gradient of codes is rounded once, to their dtype, not to that of the result before."""
        scale, dy = torch.tensor([0.1, 0.3]), draw(2, 12, dtype=dtype, seed=3)
        for codes in (torch.float32, torch.bfloat16):
            q = torch.ones(2, 12, dtype=codes, requires_grad=True)
            y = isobit.dequantize_per_channel(q, scale, None, 0, -8, 7, codes, out_dtype=dtype)
            compute = torch.float64 if dtype == torch.float64 else torch.float32
            want = (dy.to(compute) * scale[:, None].to(compute)).to(codes)
            assert_same(grad(y, (q,), dy), (want,))

    def test_codes_and_back(self, dtype):
        """quantize to float codes and dequantize are fake_quantize, with its gradient of the input."""
        x = draw(5, 12, dtype=dtype).requires_grad_()
        scale, zero = draw(5, seed=1).abs() + 0.2, torch.arange(5)
        q = isobit.quantize_per_channel(x, scale, zero, 0, -8, 7, dtype)
        y = isobit.dequantize_per_channel(q, scale, zero, 0, -8, 7, dtype, out_dtype=dtype)
        assert_same(y, isobit.fake_quantize_per_channel_affine(x, scale, zero, 0, -8, 7))
        (dx,) = grad(y, (x,), torch.ones_like(y))
        fake = isobit.fake_quantize_per_channel_affine(x, scale, zero, 0, -8, 7)
        assert dx.dtype == dtype
        assert torch.allclose(dx, grad(fake, (x,), torch.ones_like(y))[0], rtol=2**-7)

    def test_dequantize(self, dtype):
        q = torch.randint(-8, 8, (5, 12), dtype=torch.int8)
        scale = (draw(5, seed=1).abs() + 0.2).requires_grad_()
        zero = draw(5, seed=2).requires_grad_()
        dy = draw(5, 12, dtype=dtype, seed=3)
        y = isobit.dequantize_per_channel(q, scale, zero, 0, -8, 7, torch.int8, out_dtype=dtype)
        words = f"grad_output={spell(dy, True)} q=s8 scale=f32 zero_point=f32 axis=0 {RANGE}"
        text = f"dequantize_per_channel_backward {words} grad_input=none grad_scale=f32 grad_zero_point=f32"
        assert_same(grad(y, (scale, zero), dy), expect(text, dy, q, scale, zero)[1:])

    def test_embedding(self, dtype):
        weight = draw(11, 6, dtype=dtype).requires_grad_()
        indices = torch.randint(0, 11, (40, 3))
        dy = draw(40, 3, 6, dtype=dtype, seed=3)
        for padding in (None, 4, -1):
            for frequency in (False, True):
                y = isobit.embedding(indices, weight, padding, scale_grad_by_freq=frequency)
                row = -1 if padding is None else padding % 11
                want = isobit.embedding_backward(dy, indices, 11, row, frequency)
                assert_same(grad(y, (weight,), dy), (want,))
            sparse = grad(isobit.embedding(indices, weight, padding, sparse=True), (weight,), dy)[0]
            assert sparse.is_sparse and sparse.is_coalesced()
            assert_same(sparse.to_dense(), isobit.embedding_backward(dy, indices, 11, row, False))
            rows = sparse.indices()[0]
            assert bool((rows[1:] > rows[:-1]).all())
            isobit.embedding(indices, weight, padding, sparse=True).backward(dy)
            assert weight.grad.is_coalesced()  # accumulating into a leaf must not lose the flag
            weight.grad = None

    def test_spatial_transformer(self, dtype):
        image = draw(2, 3, 6, 7, dtype=dtype).requires_grad_()
        theta = draw(2, 2, 3, dtype=dtype, spread=0.6, seed=1).requires_grad_()
        dy = draw(2, 3, 5, 4, dtype=dtype, seed=3)
        grid = isobit.affine_grid(theta, [2, 3, 5, 4])
        y = isobit.grid_sample(image, grid, padding_mode="border")
        words = f"{spell(dy, True)} input={spell(image, True)} grid={spell(grid, True)} padding_mode=border"
        d_image, d_grid = expect(f"grid_sample_backward grad_output={words}", dy, image, grid)
        d_theta = expect(f"affine_grid_backward grad_grid={spell(d_grid, True)}", d_grid)
        assert_same(grad(y, (image, theta), dy), (d_image, d_theta))

    @pytest.mark.parametrize("linear", (isobit.linear, isobit.quantized_linear))
    def test_linear(self, dtype, linear):
        """Of quantized layers with the values that codes stand for, which are rounded in the compute type only."""
        x = draw(2, 3, 8, dtype=dtype).requires_grad_()
        weight = draw(5, 8, dtype=dtype, seed=1).requires_grad_()
        bias = draw(5, dtype=dtype, seed=2).requires_grad_()
        dy = draw(2, 3, 5, dtype=dtype, seed=3)
        dx, dw, db = grad(linear(x, weight, bias), (x, weight, bias), dy)

        compute = torch.promote_types(dtype, torch.float32)

        def values(t):
            if linear is isobit.linear:
                return t.to(compute)
            codes, scale, _ = isobit.quantize_per_token_dynamic(t)
            return isobit.dequantize_per_token(codes, scale, None, -127, 127, torch.int8, compute)

        rows = dy.reshape(6, 5).to(compute)
        assert_same(dx.reshape(6, 8), product(rows, values(weight)).to(dtype))
        assert_same(dw, product(rows.t(), values(x).reshape(6, 8)).to(dtype))
        assert_same(db, product(torch.ones(1, 6, dtype=compute), rows)[0].to(dtype))

    def test_matmul(self, dtype):
        a, b = draw(2, 3, 4, dtype=dtype).requires_grad_(), draw(2, 4, 5, dtype=dtype, seed=1).requires_grad_()
        dy = draw(2, 3, 5, dtype=dtype, seed=3)
        da, db = grad(isobit.matmul(a, b), (a, b), dy)
        assert_same(da, product(dy, b.mT))
        assert_same(db, product(a.mT, dy))


def product(a, b):
    return expect(f"matmul input={spell(a, True)} other={spell(b, True)}", a, b, None)


def f64(*shape, seed=0, spread=1.0):
    return draw(*shape, dtype=torch.float64, seed=seed, spread=spread).requires_grad_()


class TestByFiniteDifferences:
    def test_dequantize(self):
        q, scale, zero = f64(4, 6), f64(4, seed=1), torch.arange(4)

        def call(q, scale):
            return isobit.dequantize_per_channel(q, scale, zero, 0, -8, 7, torch.float64, out_dtype=torch.float64)

        assert gradcheck(call, (q, scale))

    def test_fake_quantize_away_from_rounding(self):
        """Outside the range the result moves with the scale alone: (qmin or qmax - z) * scale."""
        x = torch.tensor([[-90.0, 90.0]], dtype=torch.float64, requires_grad=True)
        scale = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
        assert gradcheck(lambda x, s: isobit.fake_quantize_per_channel_affine(x, s, None, 0, -8, 7), (x, scale))

    @pytest.mark.parametrize("padding", (None, 2))
    def test_embedding(self, padding):
        indices = torch.tensor([[0, 3, 3], [1, 0, 4]])
        mask = torch.ones(2, 3, 1, dtype=torch.float64)
        if padding is not None:
            indices[0, 1] = padding
            mask = (indices != padding).double()[..., None]
        assert gradcheck(lambda w: isobit.embedding(indices, w, padding) * mask, (f64(5, 3),))

    @pytest.mark.parametrize("mode", ("bilinear", "bicubic"))
    @pytest.mark.parametrize("padding", ("zeros", "border", "reflection"))
    @pytest.mark.parametrize("corners", (False, True))
    def test_grid_sample(self, mode, padding, corners):
        grid = f64(2, 3, 4, 2, seed=1, spread=0.45)
        assert gradcheck(lambda x, g: isobit.grid_sample(x, g, mode, padding, corners), (f64(2, 2, 5, 6), grid))
        volume, grid = f64(1, 2, 4, 3, 5), f64(1, 2, 1, 3, 3, seed=1, spread=0.45)
        assert gradcheck(lambda x, g: isobit.grid_sample(x, g, mode, padding, corners), (volume, grid))

    def test_grid_sample_nearest(self):
        grid = draw(1, 3, 4, 2, dtype=torch.float64, spread=0.45)
        assert gradcheck(lambda x: isobit.grid_sample(x, grid, mode="nearest"), (f64(1, 2, 5, 6),))

    @pytest.mark.parametrize("corners", (False, True))
    def test_affine_grid(self, corners):
        for theta, size in ((f64(2, 2, 3), [2, 1, 3, 4]), (f64(2, 3, 4), [2, 1, 2, 3, 4])):

            def call(t, size=size):
                return isobit.affine_grid(t, size, corners)

            assert gradcheck(call, (theta,), check_forward_ad=True)
            assert gradgradcheck(call, (theta,), check_fwd_over_rev=True)
            forward = torch.func.jacfwd(torch.func.jacrev(lambda t: call(t).square().sum()))(theta.detach())
            assert torch.allclose(
                forward, torch.func.jacrev(torch.func.jacrev(lambda t: call(t).square().sum()))(theta)
            )

    @pytest.mark.parametrize("padding", (None, 2))
    @pytest.mark.parametrize("frequency", (False, True))
    def test_second_of_embedding(self, padding, frequency):
        """By the upstream gradient: torch's does not divide by frequencies."""
        indices, weight = torch.tensor([[0, 3, 3], [2, 0, 2]]), f64(5, 3)

        def gradient(dy):
            y = isobit.embedding(indices, weight, padding, scale_grad_by_freq=frequency)
            return torch.autograd.grad(y, weight, dy, create_graph=True)

        assert gradcheck(gradient, (f64(2, 3, 3, seed=1),), check_forward_ad=True)
        assert gradgradcheck(gradient, (f64(2, 3, 3, seed=1),))

    @pytest.mark.parametrize("mode", ("bilinear", "nearest"))
    @pytest.mark.parametrize("padding", ("zeros", "border", "reflection"))
    def test_second_of_grid_sample(self, mode, padding):
        """The gradient of the image depends on the grid and the upstream gradient."""
        grid = f64(2, 3, 4, 2, seed=1, spread=0.45)

        def gradient(image, grid, dy):
            y = isobit.grid_sample(image, grid, mode, padding)
            return torch.autograd.grad(y, image, dy, create_graph=True)

        assert gradcheck(gradient, (f64(2, 2, 5, 6), grid, f64(2, 2, 3, 4, seed=2)), check_batched_grad=True)

    def test_quantized_linear_bias(self):
        x, w = draw(3, 4, dtype=torch.float64), draw(5, 4, dtype=torch.float64)
        assert gradcheck(lambda b: isobit.quantized_linear(x, w, b), (f64(5),))


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("other", FLOATS, ids=NAMES.get)
class TestMixedTypes:
    """A gradient is rounded once, to the type of what it is the gradient of."""

    def rounded(self, t, dtype):
        """By numbers: torch goes from float64 to 16 bits by way of float32."""
        if t.dtype != torch.float64 or dtype.itemsize > 2:
            return t.to(dtype)
        digits, least = (11, -14) if dtype == torch.float16 else (8, -126)
        exponent = torch.frexp(t)[1].clamp(least + 1)
        step = torch.ldexp(torch.ones_like(t), exponent - digits)
        return ((t / step).round() * step).to(dtype)

    def upstream(self, *shape, dtype, other):
        """Beside what lies halfway between neighbours of the other type, in float64 by less than float32 can tell."""
        dy = draw(*shape, dtype=torch.float64).to(torch.bfloat16).double()
        return (dy * (1 + torch.finfo(other).eps / 2) * (1 + 2**-40)).to(dtype)

    @pytest.mark.parametrize("linear", (isobit.linear, isobit.quantized_linear))
    def test_bias(self, dtype, other, linear):
        x, weight, bias = draw(3, 8, dtype=dtype), draw(5, 8, dtype=dtype, seed=1), draw(5).to(other).requires_grad_()
        for dy in (draw(3, 5, dtype=dtype, seed=3), self.upstream(3, 5, dtype=dtype, other=other).tril()):
            (db,) = grad(linear(x, weight, bias), (bias,), dy)
            wide = dy.to(torch.promote_types(dtype, torch.float32))
            assert_same(db, self.rounded(product(wide.new_ones(1, 3), wide)[0], other))

    def test_weight_of_quantized_linear(self, dtype, other):
        x, weight = draw(3, 8, dtype=dtype), draw(5, 8, seed=1).to(other).requires_grad_()
        dy = draw(3, 5, dtype=dtype, seed=3)
        (dw,) = grad(isobit.quantized_linear(x, weight), (weight,), dy)
        codes, scale, _ = isobit.quantize_per_token_dynamic(x, quant_min=-127, quant_max=127)
        wide = torch.promote_types(dtype, torch.float32)
        values = isobit.dequantize_per_token(codes, scale, None, -127, 127, torch.int8, wide)
        assert_same(dw, self.rounded(product(dy.to(wide).t(), values), other))

    def test_float_codes(self, dtype, other):
        codes = draw(4, 6).round().to(other).requires_grad_()
        dy = self.upstream(4, 6, dtype=dtype, other=other)
        y = isobit.dequantize_per_tensor(codes, 0.25, None, -8, 7, other, out_dtype=dtype)
        assert_same(grad(y, (codes,), dy)[0], self.rounded(dy.to(torch.promote_types(dtype, torch.float32)) / 4, other))


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("wide", (False, True), ids=("", "f32 grid"))
def test_tangents_are_rounded_once(dtype, wide):
    image, grid = draw(2, 3, 5, 6, dtype=dtype), draw(2, 4, 4, 2, spread=0.6, seed=1).to(dtype)
    if wide and dtype.itemsize == 2:
        grid = grid.float() + 2**-11
    given = (image, grid, image.cos(), grid.sin())
    _, tangent = torch.func.jvp(isobit.grid_sample, given[:2], given[2:])
    _, want = torch.func.jvp(isobit.grid_sample, *(tuple(t.double() for t in pair) for pair in (given[:2], given[2:])))
    assert tangent.dtype == dtype
    torch.testing.assert_close(tangent, want.to(dtype), rtol=torch.finfo(dtype).eps, atol=2e-5)


class Nothing(torch.autograd.Function):
    """The same, without a gradient."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return None


def test_a_tangent_that_is_absent_has_no_term():
    """Zeros in its place, times an infinity, would make NaN of the other tangent."""
    inf = torch.full((2, 3, 3), math.inf)
    image, batch = inf[None], draw(4, 1, 3, 3)
    for f, x, want in (
        (lambda t: isobit.grid_sample(t, torch.zeros(1, 1, 2, 2)), image, torch.ones(1, 2, 1, 2)),
        (lambda t: isobit.matmul(t, torch.ones(3, 4)), inf[0], torch.full((3, 4), 3.0)),
        (lambda t: isobit.matmul(t, torch.ones(4, 1, 3, 4)), inf, torch.full((4, 2, 3, 4), 3.0)),
        (lambda t: isobit.linear(t, torch.ones(4, 3)), inf, torch.full((2, 3, 4), 3.0)),
    ):
        assert_same(torch.func.jvp(f, (x,), (torch.ones_like(x),))[1], want)
        assert_same(torch.vmap(lambda t, f=f, x=x: torch.func.jvp(f, (x,), (t,))[1])(torch.ones(1, *x.shape))[0], want)
    weight, theta = draw(5, 2), draw(1, 2, 3)
    with torch.autograd.forward_ad.dual_level():
        for f, x in (
            (lambda t: isobit.grid_sample(t, torch.zeros(1, 1, 2, 2)), draw(1, 2, 3, 3)),
            (lambda t: isobit.matmul(t, batch), draw(2, 3, 3)),
            (lambda t: isobit.linear(t, weight), draw(3, 2)),
            (lambda t: isobit.embedding(torch.tensor([1, 2]), t), weight),
            (lambda t: isobit.embedding_bag(torch.tensor([[1, 2]]), t), weight),
            (lambda t: isobit.affine_grid(t, [1, 1, 2, 2]), theta),
        ):
            leaf = x.clone().requires_grad_()
            assert torch.autograd.grad(Nothing.apply(f(leaf)).sum(), leaf, allow_unused=True) == (None,)


def test_affine_grid_of_several_losses():
    """Its backward saves no tensor, and runs again without retain_graph, as torch's does."""
    theta, x, sums = draw(1, 2, 3), draw(1, 1, 4, 4), []
    for ops in (isobit, torch.nn.functional):
        leaf = theta.clone().requires_grad_()
        grid = ops.affine_grid(leaf, x.shape, align_corners=False)
        for weight in (1.0, 2.0):
            (ops.grid_sample(x, grid, align_corners=False) * weight).sum().backward()
        sums.append(leaf.grad)
    torch.testing.assert_close(*sums)


@pytest.mark.parametrize("channels", (False, True))
def test_second_of_fake_quantize(channels):
    """As torch's, but for signs of zeros: the straight-through gradient is linear in the upstream one. So
    gradient penalties work."""
    scale, zero = torch.tensor([0.5, 0.25, 0.75, 1]), torch.tensor([0, 1, -2, 3], dtype=torch.int32)

    def fake(ops, x):
        if channels:
            return ops.fake_quantize_per_channel_affine(x * x, scale, zero, 1, -8, 7)
        return ops.fake_quantize_per_tensor_affine(x * x, 0.5, 1, -8, 7)

    def second(ops):
        x, dy = draw(3, 4, spread=2).requires_grad_(), draw(3, 4, seed=1).requires_grad_()
        (dx,) = torch.autograd.grad(fake(ops, x), x, dy, create_graph=True)
        return torch.autograd.grad(dx.exp().sum(), (x, dy))

    def nested(ops):
        first = torch.func.grad(lambda x: fake(ops, x).sin().sum())
        return torch.func.grad(lambda x: first(x).square().sum())(draw(3, 4, spread=2))

    torch.testing.assert_close(second(isobit), second(torch), rtol=0, atol=0)
    torch.testing.assert_close(nested(isobit), nested(torch), rtol=0, atol=0)
    x, learned = f64(3, 4, spread=4), torch.tensor(0.5, requires_grad=True)
    (dx,) = torch.autograd.grad(
        isobit.fake_quantize_per_tensor_affine(x * x, learned, None, -8, 7).sum(), x, create_graph=True
    )
    with pytest.raises(RuntimeError, match="no second derivative: .* where scale or zero_point is learned"):
        dx.sum().backward()

    def gradient(dy):
        y = isobit.fake_quantize_per_token_affine(x, torch.ones(3), None, -8, 7)
        return torch.autograd.grad(y, x, dy, create_graph=True)

    assert gradcheck(gradient, (f64(3, 4, seed=1),), check_batched_grad=True)


def test_no_second_derivative():
    """An error, be it the upstream gradient or an input that the gradient depends on."""
    x, dy = draw(3, 4).requires_grad_(), draw(3, 4).requires_grad_()
    y = isobit.quantize_per_tensor(x, 0.5, None, -8, 7, torch.float32)
    (dx,) = torch.autograd.grad(y, x, dy, create_graph=True)
    with pytest.raises(RuntimeError, match="can be differentiated once"):
        dx.sum().backward()
    weight = draw(5, 8).requires_grad_()
    y = isobit.quantized_linear(draw(3, 8), weight)
    (dw,) = torch.autograd.grad(y, weight, draw(3, 5).requires_grad_(), create_graph=True)
    with pytest.raises(RuntimeError, match=r"differentiated once|once_differentiable"):
        dw.sum().backward()
    raw = torch.ops.isobit.quantize_per_tensor_backward(x, x, torch.tensor(0.5), None, -8, 7)
    with pytest.raises(RuntimeError, match="can be differentiated once"):
        raw.sum().backward()


def test_raw_ops_have_gradients():
    x = draw(3, 4).requires_grad_()
    scale = torch.tensor(0.5)
    y = torch.ops.isobit.fake_quantize_per_tensor_affine(x, scale, None, -8, 7)
    want = torch.autograd.grad(isobit.fake_quantize_per_tensor_affine(x, scale, None, -8, 7).sum(), x)
    assert_same(torch.autograd.grad(y.sum(), x), want)


def test_integers_carry_no_gradient():
    x = draw(3, 4).requires_grad_()
    q = isobit.quantize_per_tensor(x, 0.5, 0, -8, 7, torch.int8)
    assert not q.requires_grad
    assert not isobit.quantize_per_token_dynamic(x)[1].requires_grad
    assert not isobit.choose_qparams_per_token(x, torch.int8)[0].requires_grad


def test_float_codes_carry_a_gradient_to_the_input_alone():
    x, scale, zero_point = (torch.tensor(v, requires_grad=True) for v in (0.7, 0.5, 1.0))
    assert isobit.quantize_per_tensor(x, scale, zero_point, -8, 7, torch.float32).requires_grad
    assert not isobit.quantize_per_tensor(x.detach(), scale, zero_point, -8, 7, torch.float32).requires_grad


def test_lsq_trains():
    """A scale that starts far off finds a value with a lower error."""
    x = draw(4, 256, spread=1.0)
    scale = torch.full((4,), 0.5, requires_grad=True)
    optimizer = torch.optim.Adam([scale], lr=0.01)
    errors = []
    for _ in range(60):
        y = isobit.fake_quantize_per_channel_affine(x, scale, None, 0, -8, 7, grad_factor=1 / math.sqrt(256 * 7))
        loss = (y - x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        errors.append(loss.item())
    assert errors[-1] < 0.8 * errors[0]
