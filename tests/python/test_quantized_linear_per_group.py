"""quantized_linear_codes of zero points, groups and packed weights: bits, shapes, and what torch does with it."""

import io
import math

import isobit
import pytest
import torch
from isobit._op import OPS
from kit import FLOATS, NAMES, assert_same, draw, expect, spell
from test_products import ROWS, UNEVEN

M, K, N = 5, 21, 6
WEIGHTS = {torch.int8: "s8", torch.uint8: "u8", torch.int4: "s4", torch.uint4: "u4"}
linear = isobit.quantized_linear_codes


def activations(codes, zero_point=torch.int32, rows=(M,)):
    low = -128 if codes == torch.int8 else 0
    x = draw(*rows, K, spread=90).clamp(low, low + 255).to(codes)
    zero = None if zero_point is None else draw(*rows, seed=1, spread=40).clamp(low, low + 255).to(zero_point)
    return x, draw(*rows, seed=2).abs() + 0.1, zero


def weights(codes, group_size, zero_point=torch.int32):
    """Codes, how they are stored, scales and zero points."""
    symmetric = codes.is_signed and codes != torch.uint4
    w = draw(N, K, seed=3)
    q, scale, zero = isobit.quantize_per_channel_group_dynamic(w, group_size, codes, symmetric=symmetric)
    zero = torch.ones_like(scale, dtype=torch.int32) if zero is None else zero
    if zero_point is None:
        return q, scale, None
    return q, scale, zero.to(zero_point) + (0.4 if zero_point.is_floating_point else 0)


def unpacked(q, codes):
    if codes in (torch.int8, torch.uint8):
        return q
    low, high, wide = (-8, 7, torch.int8) if codes == torch.int4 else (0, 15, torch.uint8)
    values = isobit.dequantize_per_tensor(q, 1.0, None, low, high, codes, last_dim=K)
    return values.to(wide)


def by_the_contract(x, x_scale, x_zero, q, scale, zero, bias, group_size, codes, dtype):
    wide = unpacked(q, codes)
    names = ["x", "x_scale", "x_zero_point", "weight", "weight_scale", "weight_zero_point", "bias"]
    if zero is not None and zero.is_floating_point() and wide is not q:  # bounded by what the packed codes may be
        low, high = (-8, 7) if codes == torch.int4 else (0, 15)
        zero = zero.round().clamp(low, high).to(torch.int32)
    args = x, x_scale, x_zero, wide, scale, zero, bias
    words = (f"{n}={spell(t, n in ('x', 'weight'))}" for n, t in zip(names, args, strict=True))
    return expect(f"quantized_linear_per_group {' '.join(words)} y={spell(dtype)} group_size={group_size}", *args)


@pytest.mark.parametrize("group_size", (1, 8, 21, 100))
@pytest.mark.parametrize("codes", WEIGHTS, ids=str)
@pytest.mark.parametrize("of_x", (torch.int8, torch.uint8), ids=str)
def test_bits(of_x, codes, group_size):
    bias, threads = draw(N, seed=4), torch.get_num_threads()
    for zero_point in (None, torch.int32, torch.float32):
        for dtype in FLOATS:
            x, w = activations(of_x, zero_point), weights(codes, group_size, zero_point)
            want = by_the_contract(*x, *w, bias, group_size, codes, dtype)
            keywords = {"input_zero_point": x[2], "weight_zero_point": w[2], "group_size": group_size}
            try:
                for count in (1, 2):
                    torch.set_num_threads(count)
                    assert_same(linear(*x[:2], *w[:2], bias, dtype, **keywords, weight_dtype=codes), want)
            finally:
                torch.set_num_threads(threads)


def test_one_group_without_zero_points_is_the_plain_product():
    x, w = activations(torch.int8, None), weights(torch.int8, K, None)
    want = linear(*x[:2], *w[:2], dtype=torch.bfloat16)
    for keywords in ({"group_size": K}, {"group_size": 100}, {"weight_dtype": torch.int8}):
        assert_same(linear(*x[:2], *w[:2], dtype=torch.bfloat16, **keywords), want)
    zeros = {"input_zero_point": torch.zeros(M), "weight_zero_point": torch.zeros(N, dtype=torch.int8)}
    for scale in (w[1], w[1][:, 0]):
        for zero in (zeros["weight_zero_point"], zeros["weight_zero_point"][:, None]):
            keywords = zeros | {"weight_zero_point": zero}
            assert_same(linear(*x[:2], w[0], scale, dtype=torch.bfloat16, **keywords), want)


@pytest.mark.parametrize("name", [*ROWS, *UNEVEN])
def test_rows_in_any_number_of_dimensions(name):
    op, x = OPS["quantized_linear_per_group"], (10 * {**ROWS, **UNEVEN}[name]).to(torch.int8)
    k, rows = x.shape[-1], x.shape[:-1]
    w, w_scale, bias = torch.randint(-8, 8, (7, k), dtype=torch.int8), torch.rand(7, -(-k // 4)), draw(7)
    scale, zero = torch.rand(rows), torch.randint(-9, 9, rows)
    rest = w, w_scale, w_scale * 9, bias, 4, torch.int8, k, torch.float32
    expected = op.run(x.reshape(math.prod(rows), k), scale.flatten(), zero.flatten(), *rest).reshape(*rows, 7)
    keywords = {"weight_zero_point": w_scale * 9, "group_size": 4}
    for s in (scale, scale[..., None], torch.stack([scale] * 2, -1)[..., 1]):
        for z in (zero, zero[..., None]):
            y = op.fast(x, s, z, *rest)
            assert name in UNEVEN if y is NotImplemented else torch.equal(y, expected)
            assert_same(linear(x, s, w, w_scale, bias, input_zero_point=z, **keywords), expected)
    for wrong in (torch.rand(*rows, 2), torch.rand(*rows, 1, 1), torch.rand(math.prod(rows) + 1)):
        assert op.fast(x, scale, wrong, *rest) is NotImplemented
        with pytest.raises(isobit.ArgumentError, match="^quantized_linear_codes: input_zero_point has shape"):
            linear(x, scale, w, w_scale, bias, input_zero_point=wrong, **keywords)


def test_rows_that_are_all_quantized_by_one_zero_point():
    (x, scale, zero), w = activations(torch.uint8), weights(torch.int4, 8)
    keywords = {"weight_zero_point": w[2], "group_size": 8, "weight_dtype": torch.int4}
    one = linear(x, scale[0].expand(M), *w[:2], input_zero_point=zero[0].expand(M), **keywords)
    assert_same(one, linear(x, scale[:1].repeat(M), *w[:2], input_zero_point=zero[:1].repeat(M), **keywords))


def test_nothing_to_multiply():
    for rows, n, k in (((2,), 3, 0), ((0,), 3, 4), ((2, 0), 3, 4), ((2,), 0, 4), ((), 3, 0), ((2, 3), 0, 0)):
        x, w, bias = torch.ones(*rows, k, dtype=torch.uint8), torch.ones(n, k, dtype=torch.uint8), draw(n)
        want = torch.nn.functional.linear(x.float() - 3, w.float(), bias)
        keywords = {"input_zero_point": torch.full(rows, 3)}
        for more in ({"group_size": 3}, {}):
            scale = torch.ones(n, -(-k // 3) if more else 1)
            assert_same(linear(x, torch.ones(rows), w, scale, bias, **keywords, **more), want)


def test_what_is_wrong_is_named():
    (x, scale, zero), (w, w_scale, w_zero) = activations(torch.int8), weights(torch.int8, 8)
    packed, some = w.view(torch.uint8), {"group_size": 8}
    for message, call in (
        (r"input_zero_point has shape \[4\]; want \[5\] or \[5, 1\] for input of \[5, 21\]", lambda: linear(x, scale, w, w_scale, input_zero_point=zero[:4], **some)),
        (r"weight_zero_point has shape \[6\]; want \[6, 3\]", lambda: linear(x, scale, w, w_scale, weight_zero_point=w_zero[:, 0], **some)),
        (r"weight_scale has shape \[6, 3\]; want \[6, 1\]", lambda: linear(x, scale, w, w_scale, input_zero_point=zero)),
        (r"weight_scale has shape \[6\]; want \[6, 3\]", lambda: linear(x, scale, w, w_scale[:, 0], **some)),
        ("group_size is 0; want at least 1", lambda: linear(x, scale, w, w_scale, group_size=0)),
        ("input is torch.float32; want one of torch.int8, torch.uint8", lambda: linear(x.float(), scale, w, w_scale, **some)),
        ("weight is torch.float32; want torch.int8 or torch.uint8", lambda: linear(x, scale, w.float(), w_scale, **some)),
        ("weight is torch.int8; want torch.uint8 for weight_dtype=torch.int4", lambda: linear(x, scale, w, w_scale, weight_dtype=torch.int4, **some)),
        (r"weight has shape \[6, 21\]; want 11 along the last dimension, two codes to a byte", lambda: linear(x, scale, packed, w_scale, weight_dtype=torch.int4, **some)),
        ("dtype is torch.int8; want one of torch.float32", lambda: linear(x, scale, w, w_scale, dtype=torch.int8, **some)),
        ("input is torch.uint8; want one of torch.int8", lambda: linear(x.view(torch.uint8), scale, w, w_scale[:, 0])),
    ):  # fmt: skip
        with pytest.raises(isobit.ArgumentError, match=f"^quantized_linear_codes: {message}"):
            call()
    with pytest.raises(
        RuntimeError, match="quantized_linear_codes: input_zero_point is on meta; want cpu, where input"
    ):
        linear(x, scale, w, w_scale, input_zero_point=zero.to("meta"), **some)
    with pytest.raises(RuntimeError, match="quantized_linear_per_group has no derivative, as it serves"):
        linear(x, scale.requires_grad_(), w, w_scale, **some).sum().backward()


ODD = ("abc", [1.0], object(), 2j, torch.Tensor, torch.ones(3).to_sparse(), torch.nested.nested_tensor([torch.ones(3)]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("grouped", (True, False))
@pytest.mark.parametrize("argument", ("input", "input_scale", "weight", "weight_scale", "bias", "input_zero_point", "weight_zero_point", "group_size", "weight_dtype"))  # fmt: skip
def test_what_is_no_tensor_is_named(argument, grouped):
    (x, scale, zero), (w, w_scale, w_zero) = activations(torch.int8), weights(torch.int8, 8 if grouped else K)
    good = {"input": x, "input_scale": scale, "weight": w, "weight_scale": w_scale, "bias": draw(N)}
    good |= {"input_zero_point": zero, "weight_zero_point": w_zero, "group_size": 8 if grouped else None}
    linear(**good)
    for odd in ODD:
        with pytest.raises((TypeError, ValueError, RuntimeError), match=rf"^quantized_linear_codes: {argument}\b"):
            linear(**good | {argument: odd})


def test_an_input_without_dimensions_is_named():
    (x, scale, _), (w, w_scale, _) = activations(torch.int8), weights(torch.int8, 8)
    with pytest.raises(
        isobit.ArgumentError, match=r"^quantized_linear_codes: input has shape \[\]; want \[\.\.\., K\]"
    ):
        linear(x[0, 0], scale[0], w, w_scale, group_size=8)


def test_packed_codes_that_lie_apart():
    (x, scale, zero), (w, w_scale, _) = activations(torch.int8), weights(torch.int4, 8)
    keywords = {"input_zero_point": zero, "group_size": 8, "weight_dtype": torch.int4}
    want = linear(x, scale, w, w_scale, **keywords)
    assert_same(linear(x, scale, w.t().contiguous().t(), w_scale, **keywords), want)
    apart = (t.repeat_interleave(2, -1)[..., ::2] for t in (x, scale, w, w_scale))
    assert_same(linear(*apart, **keywords | {"input_zero_point": zero.repeat_interleave(2)[::2]}), want)


class Served(torch.nn.Module):
    """A product of int8 activations with weights in groups."""

    def __init__(self):
        super().__init__()
        w, scale, zero = weights(torch.uint8, 8)
        for name, t in {"weight": w, "scale": scale, "zero": zero}.items():
            self.register_buffer(name, t)

    def forward(self, x, scale, zero):
        keywords = {"input_zero_point": zero, "weight_zero_point": self.zero, "group_size": 8}
        return linear(x, scale, self.weight, self.scale, None, torch.float16, **keywords) * 2


@pytest.mark.parametrize("zero_point", (torch.int32, torch.float32), ids=NAMES.get)
def test_compiled_exported_and_mapped(zero_point):
    model, x = Served(), activations(torch.uint8, zero_point, (3, M))
    want = model(*x)
    assert_same(torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)(*x), want)
    rows = torch.export.Dim("rows")
    exported = torch.export.export(model, x, dynamic_shapes=({0: rows},) * 3)
    file = io.BytesIO()
    torch.export.save(exported, file)
    file.seek(0)
    program = torch.export.load(file).module()
    assert_same(program(*x), want)
    assert_same(program(*(t[:2] for t in x)), want[:2])
    assert_same(torch.vmap(model)(*x), want)
    assert_same(torch.vmap(model, (0, None, 0))(x[0], x[1][0], x[2])[0], want[0])
    of_weights = torch.vmap(lambda w: linear(*(t[0] for t in x[:2]), w, model.scale, group_size=8))
    both = torch.stack([model.weight, model.weight.flip(0)])
    assert_same(of_weights(both)[1], linear(x[0][0], x[1][0], both[1], model.scale, group_size=8))
