"""Values of codes and products, bit for bit against tests/reference, in every layout."""

import isobit
import numpy as np
import pytest
import torch
from kit import FLOATS, NAMES, assert_same, draw, expect, layouts, spell

INT8 = "qmin=-128 qmax=127"


class Family:
    """How the functions of one granularity are called, and the problem that they stand for."""

    def __init__(self, name, plan, parameter_shape, attributes, before=(), after=()):
        self.name, self.plan = name, plan
        self.parameter_shape = parameter_shape
        self.attributes = attributes
        self.before, self.after = before, after

    def __repr__(self):
        return self.name

    def call(self, prefix, *tensors, dtype=(), suffix="", **keywords):
        affine = "_affine" if prefix.startswith("fake") else ""
        function = getattr(isobit, f"{prefix}_{self.name}{affine}{suffix}")
        return function(*tensors, *self.before, -128, 127, *dtype, *self.after, **keywords)

    def problem(self, op, tensors, **more):
        words = [f"{op.replace('@', self.plan)}"]
        words += [f"{k}={spell(v, shape=i == 0)}" for i, (k, v) in enumerate(tensors.items())]
        words += [f"{k}={spell(v) if isinstance(v, torch.dtype) or v is None else v}" for k, v in more.items()]
        return " ".join([*words, *self.attributes, INT8])


FAMILIES = (
    Family("per_tensor", "per_tensor", lambda s: (), ()),
    Family("per_channel", "per_channel", lambda s: (s[0],), ("axis=0",), before=(0,)),
    Family("per_channel", "per_channel", lambda s: (s[-1],), ("axis=-1",), before=(-1,)),
    Family("per_token", "per_token", lambda s: s[:-1], ()),
    Family("per_channel_group", "per_group", lambda s: (*s[:-1], -(-s[-1] // 5)), ("group_size=5",), after=(5,)),
)


def parameters(family, shape, scale_type=torch.float32, zero_type=torch.int32):
    n = family.parameter_shape(shape)
    scale = draw(*n, seed=5).abs() * 0.1 + 0.02
    zero = None if zero_type is None else (draw(*n, seed=6) * 4).to(zero_type)
    return scale.to(scale_type), zero


ZERO_TYPES = (torch.int32, torch.int64, torch.float32, None)
SHAPES = ((6, 7), (3, 2, 11), (2, 3, 4, 5), (1, 1), (0, 4), (4, 0), (64, 33))


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
class TestQuantizeFamily:
    @pytest.mark.parametrize("shape", SHAPES, ids=str)
    def test_forward(self, family, dtype, shape):
        x = draw(*shape, dtype=dtype, special=True)
        for zero_type in ZERO_TYPES:
            scale, zero = parameters(family, shape, zero_type=zero_type)
            words = {"x": x, "scale": scale, "zero_point": zero}
            for q_type in (torch.int8, dtype):
                want = expect(family.problem("quantize_@", words, q=q_type), x, scale, zero)
                assert_same(family.call("quantize", x, scale, zero, dtype=(q_type,)), want)
            want = expect(family.problem("fake_quantize_@", words), x, scale, zero)
            assert_same(family.call("fake_quantize", x, scale, zero), want)

    def test_layouts(self, family, dtype):
        x = draw(4, 3, 5, 6, dtype=dtype, special=True)
        scale, zero = parameters(family, x.shape)
        words = {"x": x, "scale": scale, "zero_point": zero}
        want = expect(family.problem("quantize_@", words, q=torch.int8), x, scale, zero)
        fake = expect(family.problem("fake_quantize_@", words), x, scale, zero)
        for name, y in layouts(x):
            q = family.call("quantize", y, scale, zero, dtype=(torch.int8,))
            assert q.stride() == torch.empty_like(y).stride(), name
            assert_same(q, want)
            values = family.call("fake_quantize", y, scale, zero)
            assert values.stride() == q.stride(), name
            assert_same(values, fake)
            out = torch.empty_like(want.transpose(0, 1)).transpose(0, 1)
            assert family.call("quantize", y, scale, zero, dtype=(torch.int8,), out=out) is out
            assert_same(out, want)

    def test_expanded(self, family, dtype):
        x = draw(1, 6, dtype=dtype).expand(5, 6)
        scale, zero = parameters(family, x.shape)
        words = {"x": x, "scale": scale, "zero_point": zero}
        assert_same(
            family.call("fake_quantize", x, scale, zero),
            expect(family.problem("fake_quantize_@", words), x, scale, zero),
        )
        one = scale.reshape(-1)[0].expand(scale.shape)
        words["scale"] = one
        assert_same(
            family.call("fake_quantize", x, one, zero),
            expect(family.problem("fake_quantize_@", words), x, one, zero),
        )

    def test_scale_dtypes(self, family, dtype):
        x = draw(6, 7, dtype=dtype)
        for scale_type in FLOATS:
            scale, zero = parameters(family, x.shape, scale_type)
            words = {"x": x, "scale": scale, "zero_point": zero}
            for rounding in ("nearest", "reciprocal"):
                want = expect(family.problem("quantize_@", words, q=torch.int8, rounding=rounding), x, scale, zero)
                assert_same(family.call("quantize", x, scale, zero, dtype=(torch.int8,), rounding=rounding), want)

    def test_dequantize(self, family, dtype):
        shape = (6, 11)
        q = (draw(*shape) * 30).clamp(-128, 127).to(torch.int8)
        for zero_type in ZERO_TYPES:
            scale, zero = parameters(family, shape, zero_type=zero_type)
            for codes in (q, q.to(dtype)):
                words = {"q": codes, "scale": scale, "zero_point": zero}
                want = expect(family.problem("dequantize_@", words, y=dtype), codes, scale, zero)
                for _, view in layouts(codes):
                    got = self.dequantize(family, view, scale, zero, dtype)
                    assert got.stride() == torch.empty_like(view).stride()
                    assert_same(got, want)

    @staticmethod
    def dequantize(family, codes, scale, zero, dtype):
        if family.name in ("per_tensor", "per_channel"):
            return family.call("dequantize", codes, scale, zero, dtype=(codes.dtype,), out_dtype=dtype)
        return family.call("dequantize", codes, scale, zero, dtype=(codes.dtype,), output_dtype=dtype)

    def test_backwards(self, family, dtype):
        x = draw(6, 11, dtype=dtype, special=True, seed=1)
        dy = draw(6, 11, dtype=dtype, special=True, seed=2)
        for zero_type in ZERO_TYPES:
            scale, zero = parameters(family, x.shape, zero_type=zero_type)
            learned = torch.float32 if zero_type == torch.float32 else None
            words = {"grad_output": dy, "x": x, "scale": scale, "zero_point": zero}
            for _, g in layouts(dy):
                want = expect(family.problem("quantize_@_backward", words), g, x, scale, zero)
                assert_same(family.call("quantize", g, x, scale, zero, suffix="_backward"), want)
                wants = {"grad_scale": torch.float32, "grad_zero_point": learned}
                want = expect(
                    family.problem("fake_quantize_@_backward", words, **wants, grad_factor=0.25), g, x, scale, zero
                )
                got = family.call("fake_quantize", g, x, scale, zero, suffix="_backward", grad_factor=0.25)
                assert_same(got, want)
                q = family.call("quantize", x.nan_to_num(0), scale, zero, dtype=(torch.int8,))
                deq = {"grad_output": dy, "q": q, "scale": scale, "zero_point": zero}
                want = expect(family.problem("dequantize_@_backward", deq, **wants), g, q, scale, zero)
                assert_same(family.call("dequantize", g, q, scale, zero, suffix="_backward"), want)


def test_numbers_as_parameters():
    x = draw(5, 9, special=True)
    scale, zero = torch.tensor(0.07, dtype=torch.float64), torch.tensor(3)
    for call in (isobit.quantize_per_tensor, isobit.fake_quantize_per_tensor_affine):
        more = (torch.int8,) if call is isobit.quantize_per_tensor else ()
        assert_same(call(x, 0.07, 3, -128, 127, *more), call(x, scale, zero, -128, 127, *more))
        assert_same(call(x, 1, None, -128, 127, *more), call(x, 1.0, 0, -128, 127, *more))
        for wrong in (True, np.True_):
            with pytest.raises(TypeError, match=": zero_point must be a Tensor, a number or None, not True$"):
                call(x, 0.07, wrong, -128, 127, *more)
    q = isobit.quantize_per_tensor(x, 0.07, 3, -128, 127, torch.int8)
    y = isobit.dequantize_per_tensor(q, 0.07, 3, -128, 127, torch.int8)
    assert_same(y, isobit.dequantize_per_tensor(q, scale, zero, -128, 127, torch.int8))
    assert y.dtype == torch.float32


def test_unsigned_codes():
    x, scale, zero = draw(6, 9, special=True), draw(6).abs() + 0.1, torch.full((6,), 100)
    words = "scale=f32 zero_point=i64 qmin=0 qmax=255 axis=0"
    q = isobit.quantize_per_channel(x, scale, zero, 0, 0, 255, torch.uint8)
    assert_same(q, expect(f"quantize_per_channel x=f32[6,9] q=u8 {words}", x, scale, zero))
    y = isobit.dequantize_per_channel(q, scale, zero, 0, 0, 255, torch.uint8)
    assert_same(y, expect(f"dequantize_per_channel q=u8[6,9] y=f32 {words}", q, scale, zero))


@pytest.mark.parametrize("code", (torch.int16, torch.uint16, torch.int32), ids=NAMES.get)
def test_gradients_of_wide_codes_in_16_bits(code):
    """Codes beyond the whole numbers of their gradient's type have one."""
    x, dy = draw(4, 6).bfloat16() * 1e5, draw(4, 6, seed=1).half()
    s, at = torch.tensor([0.5, 1.0, 2.0, 4.0]), (0, torch.iinfo(code).min, torch.iinfo(code).max)
    assert isobit.quantize_per_channel(x, s, None, *at, code).dtype == code
    dx = isobit.quantize_per_channel_backward(dy, x, s, None, *at)
    t = (x.float() / s[:, None]).round()
    want = torch.where((t >= at[1]) & (t <= at[2]), dy.float() / s[:, None], 0.0)
    assert dx.count_nonzero() and torch.equal(dx, want.bfloat16())


def test_rank_zero():
    x = torch.tensor(2.6)
    assert isobit.quantize_per_tensor(x, 0.5, 0, -128, 127, torch.int8).shape == ()
    assert isobit.fake_quantize_per_tensor_affine(x, 0.5, 0, -128, 127).item() == 2.5


def test_agrees_with_torch_by_reciprocal():
    """The option that exists to match PyTorch's CPU bits does, on values in range."""
    x = draw(64, 64, spread=1.0)
    scale = draw(64, seed=3).abs() * 0.1 + 0.02
    zero = torch.zeros(64, dtype=torch.int32)
    got = isobit.fake_quantize_per_channel_affine(x, scale, zero, 0, -128, 127, rounding="reciprocal")
    assert torch.equal(got, torch.fake_quantize_per_channel_affine(x, scale, zero, 0, -128, 127))


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
def test_qparams(dtype):
    for shape in ((5, 9), (2, 3, 17), (4, 1), (0, 3)):
        x = draw(*shape, dtype=dtype, seed=3)
        if x.numel() > 9:
            x[0] = 0
            x.reshape(-1)[-1] = float("nan")
        for name, y in layouts(x):
            parameter = torch.float64 if dtype == torch.float64 else torch.float32
            words = f"x={spell(x, True)} scale={spell(parameter)}"
            scale, zero = isobit.choose_qparams_per_token(y, torch.int8)
            want = expect(f"choose_qparams_per_token {words} zero_point=none symmetric=true {INT8}", x)
            assert_same(scale, want[0].reshape(scale.shape))
            assert scale.shape == (*shape[:-1], 1), name
            assert zero.dtype == torch.int32 and not zero.any()
            got = isobit.choose_qparams_per_token_asymmetric(y, torch.int8)
            want = expect(f"choose_qparams_per_token {words} zero_point=i32 symmetric=false {INT8}", x)
            assert_same(got, tuple(w.reshape(scale.shape) for w in want))
            q, scale, zero = isobit.quantize_per_token_dynamic(y)
            assert zero is None
            assert_same(q, isobit.quantize_per_token(y, scale, None, -128, 127, torch.int8))
            q, scale, zero = isobit.quantize_per_token_dynamic(y, torch.uint8, symmetric=False)
            assert_same(q, isobit.quantize_per_token(y, scale, zero, 0, 255, torch.uint8))


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
def test_quantized_linear(dtype):
    x, weight, bias = draw(5, 70, dtype=dtype), draw(9, 70, dtype=dtype, seed=1), draw(9, dtype=dtype, seed=2)
    for b in (bias, None):
        y = isobit.quantized_linear(x, weight, b)
        xc, xs, _ = isobit.quantize_per_token_dynamic(x)
        wc, ws, _ = isobit.quantize_per_token_dynamic(weight)
        assert xc.min() >= -127 and wc.min() >= -127
        xs, ws = xs.reshape(-1), ws.reshape(-1)
        words = (
            f"x={spell(xc, True)} x_scale={spell(xs)} weight={spell(wc, True)} weight_scale={spell(ws)} "
            f"bias={spell(b)} y={spell(dtype)}"
        )
        want = expect(f"quantized_linear {words}", xc, xs, wc, ws, b)
        assert_same(y, want)
        assert_same(isobit.quantized_linear_codes(xc, xs, wc, ws, b, dtype), want)
        reference = torch.nn.functional.linear(x.double(), weight.double(), None if b is None else b.double())
        assert (y.double() - reference).abs().max() < 0.05 * reference.abs().max()
    stacked = x.reshape(5, 1, 70).expand(5, 2, 70)
    assert_same(isobit.quantized_linear(stacked, weight, bias)[:, 1], isobit.quantized_linear(x, weight, bias))


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("special", (False, True))
def test_products(dtype, special):
    """Of vectors, matrices and batches, as torch.matmul has them."""
    k = 9 if special else 70
    x, w = draw(2, 3, k, dtype=dtype, special=special), draw(k, 5, dtype=dtype, seed=1, special=special)
    want = expect(f"matmul input={NAMES[dtype]}[6,{k}] other={spell(w, True)}", x.reshape(6, k), w, None)
    assert_same(isobit.matmul(x, w), want.reshape(2, 3, 5))
    assert_same(isobit.matmul(x[0, 1], w), want[1])
    assert_same(isobit.matmul(x, w[:, 2].clone()), want.reshape(2, 3, 5)[..., 2])
    assert_same(isobit.matmul(x[0, 0], w[:, 0]), want[0, 0])
    assert_same(
        isobit.matmul(x.transpose(0, 1).unsqueeze(1), w.expand(4, k, 5)),
        want.reshape(2, 3, 5).transpose(0, 1).unsqueeze(1).expand(3, 4, 2, 5),
    )
    both = torch.stack([w, w.flip(1)])
    assert_same(isobit.matmul(x, both), torch.stack([want[:3], isobit.matmul(x[1], w.flip(1))]))
    out = torch.empty(2, 3, 5, dtype=dtype)
    assert isobit.matmul(x, w, out=out) is out
    assert_same(out, want.reshape(2, 3, 5))
    bias = draw(5, dtype=dtype, seed=2)
    words = f"input={NAMES[dtype]}[6,{k}] other={spell(w, True)} bias={spell(bias)}"
    assert_same(isobit.linear(x, w.t(), bias).reshape(6, 5), expect(f"matmul {words}", x.reshape(6, k), w, bias))
    assert_same(isobit.linear(x, w[:, 0].clone(), bias[0]), isobit.linear(x, w.t(), bias)[..., 0])
    layer = isobit.nn.Linear(k, 5, dtype=dtype)
    assert_same(layer(x), isobit.linear(x, layer.weight, layer.bias))


@pytest.mark.parametrize("dtype", (torch.float8_e4m3fn, torch.float8_e5m2))
def test_float8_codes(dtype):
    x = draw(8, 16, spread=10)
    most = torch.finfo(dtype).max
    q = isobit.quantize_per_channel(x, torch.full((8,), 0.5), None, 0, -int(most), int(most), dtype)
    assert q.dtype == dtype
    y = isobit.dequantize_per_channel(q, torch.full((8,), 0.5), None, 0, -int(most), int(most), dtype)
    assert_same(y, q.float() * 0.5)
    assert (y - x).abs().max() <= x.abs().max() * (0.07 if dtype == torch.float8_e4m3fn else 0.13)
