"""Derivatives in every mode: by finite differences, of the second order, and where there are none."""

import math

import isobit
import pytest
import torch
from kit import assert_same, draw
from torch.autograd import gradcheck, gradgradcheck


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


def test_a_result_in_place_leaves_the_tangent_of_its_bias():
    """With one row that tangent lies as the result's does."""
    tangent = torch.ones(4)
    with torch.autograd.forward_ad.dual_level():
        bias = torch.autograd.forward_ad.make_dual(torch.zeros(4), tangent)
        isobit.linear(torch.ones(1, 3), torch.ones(4, 3), bias).mul_(2)
    assert tangent.tolist() == [1.0] * 4


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


def test_no_derivative_beyond_that_of_fake_quantize_s_gradient():
    x, dy, v = (f64(4, seed=seed) for seed in range(3))
    y = isobit.fake_quantize_per_tensor_affine(x, 0.5, 1, -8, 7)
    (dx,) = torch.autograd.grad(y, x, dy, create_graph=True)
    (by_dy,) = torch.autograd.grad(dx, dy, v, create_graph=True)
    for leaf in (x, dy, v):
        with pytest.raises(RuntimeError, match="affine has no third derivative: it can be differentiated twice"):
            torch.autograd.grad(by_dy.sum(), leaf, allow_unused=True, retain_graph=True)
    codes = isobit.dequantize_per_tensor(x, 0.5, 1, -8, 7, torch.float64)
    messages = ((y, "affine's gradient has no derivative in forward mode"), (codes, "tensor has no second derivative"))
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(dy, v)
        for result, message in messages:
            with pytest.raises(NotImplementedError, match=message):
                torch.autograd.grad(result, x, dual, create_graph=True)


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
