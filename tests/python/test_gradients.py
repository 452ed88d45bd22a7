"""Gradients through autograd, bit for bit: against the backward ops of tests/reference, and of mixed types."""

import isobit
import pytest
import torch
from kit import FLOATS, NAMES, assert_same, draw, expect, spell

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


@pytest.mark.parametrize("learned", (False, True), ids=("", "learned"))
@pytest.mark.parametrize("axis", (0, 1))
def test_channels_last_stay_so(axis, learned):
    """Forward, backward and compiled, with the bits of row-major tensors."""
    x = draw(4, 8, 3, 5).to(memory_format=torch.channels_last).requires_grad_()
    scale, dy = (draw(x.shape[axis], seed=1).abs() + 0.2).requires_grad_(learned), draw(4, 8, 3, 5, seed=2)

    def faked(x, scale):
        return isobit.fake_quantize_per_channel_affine(x, scale, None, axis, -8, 7)

    compiled = torch.compile(faked, fullgraph=True, backend="aot_eager")
    rows = x.detach().contiguous().requires_grad_()
    wanted = (scale,) if learned else ()
    y = faked(rows, scale)
    want = (y, *grad(y, (rows, *wanted), dy))
    for function in (faked, compiled):
        y = function(x, scale)
        got = (y, *grad(y, (x, *wanted), dy.to(memory_format=torch.channels_last)))
        assert [t.stride() for t in got[:2]] == [x.stride()] * 2
        assert_same(got, want)


def product(a, b):
    return expect(f"matmul input={spell(a, True)} other={spell(b, True)}", a, b, None)


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


CODES = torch.arange(40).view(5, 8).to(torch.int8)
PRODUCTS = {
    "linear": isobit.linear,
    "quantized_linear": isobit.quantized_linear,
    "weight_only_linear": lambda x, scale: isobit.weight_only_linear(x, CODES, scale.abs(), group_size=1),
    "matmul": lambda x, weight: isobit.matmul(x, weight.t()),
    "matmul of a vector": lambda x, weight: isobit.matmul(x, weight[0]),
    "matmul of batches": lambda x, weight: isobit.matmul(x, weight.t().expand(3, -1, -1)),
    "matmul that broadcasts": lambda x, weight: isobit.matmul(x, torch.stack([weight.t(), weight.t().cos()])[:, None]),
}


@pytest.mark.parametrize("shape", ((8,), (3, 8), (3, 2, 8), (1, 3, 2, 8)), ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_what_products_give_is_no_view_and_may_be_written_to(name, shape):
    """As of torch's: what is written to a view costs its gradient a copy, and is an error where a function made it."""
    grads = []
    for relu in (torch.relu, torch.relu_):
        leaves = draw(*shape).requires_grad_(), draw(5, 8, seed=1).requires_grad_()
        y = PRODUCTS[name](*leaves)
        assert not y._is_view()
        grads.append(torch.autograd.grad(relu(y).sum(), leaves))
    assert_same(*grads)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(PRODUCTS.keys() - {"matmul of batches"}))
def test_a_trace_of_products_takes_any_number_of_rows(name):
    weight, x = draw(5, 8, seed=1), draw(7, 2, 8)
    traced = torch.jit.trace(lambda x: PRODUCTS[name](x, weight), x[:3])
    assert_same(traced(x), PRODUCTS[name](x, weight))
