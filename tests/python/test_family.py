"""The family beyond torch's own granularities and codes: blocks, dynamic parameters, 8-bit floats, weight-only layers."""

import isobit
import numpy as np
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines torch.ops.quantized_decomposed
from kit import FLOATS, NAMES, assert_same, draw, expect, layouts, spell, to_reference
from reference.sums import stripe

INT4, UINT4 = getattr(torch, "int4", None), getattr(torch, "uint4", None)
RANGE = "qmin=-128 qmax=127"
# Shape and block size; blocks that do not divide, that cover all, of one element.
BLOCKS = (
    ((6, 8), (2, 4)),
    ((5, 7), (2, 3)),
    ((3, 4, 9), (1, 4, 5)),
    ((4, 6), (9, 9)),
    ((2, 3), (1, 1)),
    ((0, 4), (2, 2)),
)


def grid(shape, block):
    return tuple(-(-d // b) for d, b in zip(shape, block, strict=True))


def parameters(shape, zero_type=torch.int32):
    zero = None if zero_type is None else (draw(*shape, seed=6) * 4).to(zero_type)
    return draw(*shape, seed=5).abs() * 0.1 + 0.02, zero


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize(("shape", "block"), BLOCKS, ids=str)
def test_per_block(dtype, shape, block):
    x, dy = draw(*shape, dtype=dtype, special=True), draw(*shape, dtype=dtype, special=True, seed=2)
    where = f"block_size=[{','.join(map(str, block))}] {RANGE}"
    for zero_type in (torch.int32, torch.float32, None):
        s, z = parameters(grid(shape, block), zero_type)
        at = (s, z, block, -128, 127)
        words = f"scale=f32 zero_point={spell(zero_type)} {where}"
        q = isobit.quantize_per_block(x, *at, torch.int8)
        assert_same(q, expect(f"quantize_per_block x={spell(x, True)} q=s8 {words}", x, s, z))
        y = isobit.dequantize_per_block(q, *at, torch.int8, out_dtype=dtype)
        assert_same(y, expect(f"dequantize_per_block q={spell(q, True)} y={spell(dtype)} {words}", q, s, z))
        assert_same(isobit.fake_quantize_per_block_affine(x, *at), y)
        for _, view in layouts(x):
            assert_same(isobit.quantize_per_block(view, *at, torch.int8), q)
        words = f"grad_output={spell(dy, True)} {words}"
        got = isobit.quantize_per_block_backward(dy, x, *at)
        assert_same(got, expect(f"quantize_per_block_backward {words}", dy, x, s, z))
        words += f" grad_scale=f32 grad_zero_point={'f32' if zero_type == torch.float32 else 'none'}"
        got = isobit.fake_quantize_per_block_affine_backward(dy, x, *at, grad_factor=0.5)
        assert_same(got, expect(f"fake_quantize_per_block_backward {words} grad_factor=0.5", dy, x, s, z))
        got = isobit.dequantize_per_block_backward(dy, q, *at)
        assert_same(got, expect(f"dequantize_per_block_backward {words}", dy, q, s, z))


def test_per_block_gradients():
    x, dy = draw(5, 7).requires_grad_(), draw(5, 7, seed=2)
    s, z = (t.requires_grad_() for t in parameters((3, 3), torch.float32))
    y = isobit.fake_quantize_per_block_affine(x, s, z, [2, 3], -8, 7, grad_factor=0.5)
    want = isobit.fake_quantize_per_block_affine_backward(dy, x, s, z, [2, 3], -8, 7, grad_factor=0.5)
    assert_same(torch.autograd.grad(y, (x, s, z), dy), want)
    codes = isobit.quantize_per_block(x, s, z, [2, 3], -8, 7, torch.float32)
    y = isobit.dequantize_per_block(codes, s, z, [2, 3], -8, 7, torch.float32)
    dq, ds, dz = isobit.dequantize_per_block_backward(dy, codes, s, z, [2, 3], -8, 7)
    dx = isobit.quantize_per_block_backward(dq, x, s, z, [2, 3], -8, 7)
    assert_same(torch.autograd.grad(y, (x, s, z), dy), (dx, ds, dz))


# Granularity: arguments of a function, words of a problem.
GRANULARITIES = {
    "per_tensor": ((), ""),
    "per_channel": ((-2,), "axis=-2"),
    "per_token": ((), ""),
    "per_channel_group": ((4,), "group_size=4"),
    "per_block": (((1, 2, 4),), "block_size=[1,2,4]"),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("name", GRANULARITIES)
def test_parameters_from_data(name, dtype):
    where, words = GRANULARITIES[name]
    plan = name.replace("channel_group", "group")
    x = draw(2, 3, 9, dtype=dtype)
    x[0, 1] = 0
    x[1, 2, 8] = float("nan")
    parameter = "f64" if dtype == torch.float64 else "f32"
    for codes in (torch.int8, torch.uint8, torch.int16, torch.uint16):
        low, high = torch.iinfo(codes).min, torch.iinfo(codes).max
        for symmetric, eps in ((True, 0.0), (False, 0.0), (True, 0.02), (False, 0.02)):
            zero = "none" if symmetric else "i32"
            text = f"x={spell(x, True)} scale={parameter} zero_point={zero} qmin={low} qmax={high} {words}"
            text += f" symmetric={str(symmetric).lower()} eps={eps}"
            keywords = {"symmetric": symmetric, "eps": eps}
            dynamic = getattr(isobit, f"quantize_{name}_dynamic")
            got = dynamic(x, *where, codes, **keywords)
            want = expect(f"dynamic_quantize_{plan} {text} q={spell(codes)}", x)
            want = tuple(None if w is None else w.reshape(g.shape) for w, g in zip(want, got, strict=True))
            assert_same(got, want)
            for _, view in layouts(x):
                assert_same(dynamic(view, *where, codes, **keywords), want)
            if name == "per_token":
                continue
            scale, zero_point = getattr(isobit, f"choose_qparams_{name}")(x, *where, codes, **keywords)
            assert_same(scale, want[1])
            assert_same(zero_point, torch.zeros_like(scale, dtype=torch.int32) if symmetric else want[2])


def weight_only(x, codes, s, z, bias, group_size):
    """The contract's rule: dequantized weights, products summed in Stripe order, then the bias."""
    bounds = (-128, 127) if codes.dtype == torch.int8 else (0, 255)
    w = isobit.dequantize_per_channel_group(codes, s, z, *bounds, codes.dtype, group_size, torch.float32)
    terms = to_reference(x.float()[:, None, :] * w)
    y = torch.tensor(np.array([[stripe(row) for row in rows] for rows in terms]))
    return y if bias is None else y + bias


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=NAMES.get)
@pytest.mark.parametrize("group_size", (16, 25, 100))
def test_weight_only_linear(dtype, group_size):
    x, w, bias = draw(3, 70, dtype=dtype), draw(5, 70, seed=1), draw(5, seed=2)
    for codes, symmetric in ((torch.int8, True), (torch.uint8, False), (INT4, True), (UINT4, False)):
        if codes is None:
            continue
        q, s, z = isobit.quantize_per_channel_group_dynamic(w, group_size, codes, symmetric=symmetric)
        wide, low, high = q, *((0, 255) if codes == torch.uint8 else (-128, 127))
        if codes in (INT4, UINT4):
            wide, (low, high) = {INT4: (torch.int8, (-8, 7)), UINT4: (torch.uint8, (0, 15))}[codes]
            wide = isobit.quantize_per_channel_group(w, s, z, low, high, wide, group_size)
        for b in (bias, None):
            y = isobit.weight_only_linear(x, q, s, z, b, group_size=group_size, dtype=codes)
            assert y.dtype == dtype
            assert_same(y, weight_only(x, wide, s, z, b, group_size).to(dtype))
        leaf, scale, b = x.clone().requires_grad_(), s.clone().requires_grad_(), bias.clone().requires_grad_()
        dy = draw(3, 5, dtype=dtype, seed=3)
        y = isobit.weight_only_linear(leaf, q, scale, z, b, group_size=group_size, dtype=codes)
        dx, ds, db = torch.autograd.grad(y, (leaf, scale, b), dy)
        compute = torch.promote_types(dtype, torch.float32)  # in which nothing is rounded on the way
        full = isobit.dequantize_per_channel_group(wide, s, z, low, high, wide.dtype, group_size, compute)
        assert_same(dx, isobit.matmul(dy.to(compute), full).to(dtype))
        dw = isobit.matmul(dy.to(compute).t(), x.to(compute))
        want = isobit.dequantize_per_channel_group_backward(dw, wide, s, z, low, high, group_size)
        assert_same((ds, db), (want[1], isobit.matmul(torch.ones(3), dy.float())))
    stacked = x.reshape(3, 1, 70).expand(3, 2, 70)
    y = isobit.weight_only_linear(stacked, q, s, z, group_size=group_size, dtype=codes)
    assert_same(y[:, 1], isobit.weight_only_linear(x, q, s, z, group_size=group_size, dtype=codes))


def programs():
    x, s = draw(4, 6), draw(2, 2, seed=5).abs() + 0.2
    yield (
        "block",
        lambda x, s: isobit.fake_quantize_per_block_affine(x, s, None, [2, 3], -8, 7, grad_factor=0.5),
        (x, s),
    )
    f8 = torch.float8_e4m3fn
    yield "f8", lambda x: isobit.fake_quantize_per_tensor_affine(x, 0.1, None, -448, 448, code_dtype=f8) * 2, (x,)
    yield "dynamic", lambda x: isobit.quantize_per_block_dynamic(x, [2, 3], symmetric=False)[1] + 1, (x,)
    yield "choose", lambda x: isobit.choose_qparams_per_channel(x, 1)[0] * 2, (x,)
    if INT4 is None:
        return

    def round_trip(x, s):
        q = isobit.quantize_per_channel_group(x, s, None, -8, 7, INT4, 4)
        return isobit.dequantize_per_channel_group(q, s, None, -8, 7, INT4, 4, last_dim=x.shape[-1])

    group = draw(4, 2, seed=5).abs() + 0.2
    yield "packed", round_trip, (draw(4, 7), group)
    q = isobit.quantize_per_channel_group(x, group, None, -8, 7, INT4, 4)
    yield (
        "linear",
        lambda x, s, b: isobit.weight_only_linear(x, q, s, None, b, group_size=4, dtype=INT4),
        (x, group, s.flatten()),
    )


@pytest.mark.parametrize(("function", "args"), [pytest.param(f, a, id=n) for n, f, a in programs()])
def test_compiled(function, args):
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    ours, theirs = ([a.clone().requires_grad_() for a in args] for _ in range(2))
    y, c = function(*ours), compiled(*theirs)
    assert_same(c, y)
    if y.requires_grad:
        dy = draw(*y.shape, seed=9)
        wants = torch.autograd.grad(y, ours, dy, allow_unused=True)
        assert_same(torch.autograd.grad(c, theirs, dy, allow_unused=True), wants)


def test_vmap():
    batch, s = draw(3, 4, 6), draw(2, 2, seed=5).abs() + 0.2

    def block(x):
        return isobit.fake_quantize_per_block_affine(x, s, None, [2, 3], -8, 7)

    assert_same(torch.vmap(block)(batch), torch.stack([block(x) for x in batch]))
    for f in (isobit.quantize_per_channel_dynamic, isobit.quantize_per_block_dynamic):
        where = (1,) if f is isobit.quantize_per_channel_dynamic else ([2, 3],)
        got = torch.vmap(lambda x, f=f, w=where: f(x, *w, symmetric=False))(batch)
        rows = [f(x, *where, symmetric=False) for x in batch]
        assert_same(got, tuple(torch.stack(r) for r in zip(*rows, strict=True)))


def test_vmap_of_as_many_dimensions_as_there_can_be():
    batch = draw(2, 1, 1, 1, 1, 1, 1, 1, 3)
    for call in (
        lambda x: isobit.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7),
        lambda x: isobit.fake_quantize_per_channel_affine(x, torch.ones(3), None, 7, -8, 7),
        lambda x: isobit.quantize_per_token_dynamic(x, torch.int8)[0],
        lambda x: isobit.embedding(x[..., 0].abs().long(), torch.arange(60.0).view(20, 3)),
    ):
        assert_same(torch.vmap(call)(batch), torch.stack([call(x) for x in batch]))


def test_huge_pages():
    """A switch that changes no result."""
    x = draw(1300, 1100)
    assert isobit.get_huge_pages()
    want = isobit.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)
    try:
        isobit.set_huge_pages(False)
        assert not isobit.get_huge_pages()
        assert_same(isobit.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127), want)
    finally:
        isobit.set_huge_pages(True)
    with pytest.raises(TypeError, match="bool"):
        isobit.set_huge_pages(1)


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("codes", (torch.int16, torch.uint16, torch.int32), ids=str)
def test_wider_codes(codes, dtype):
    """Also the ends of int32, of which a float32 holds neither the last nor every difference."""
    low, high = torch.iinfo(codes).min, torch.iinfo(codes).max
    x = torch.tensor([float("inf"), -float("inf"), float("nan"), 0.5, -7.5, 3e4, 7e4, -3e9, 3e9]).to(dtype).expand(2, 9)
    s, z = torch.tensor([0.5, 1.0]), torch.tensor([3, 12345], dtype=torch.int32)
    words = f"scale=f32 zero_point=i32 axis=0 qmin={low} qmax={high}"
    q = isobit.quantize_per_channel(x, s, z, 0, low, high, codes)
    assert_same(q, expect(f"quantize_per_channel x={spell(x, True)} q={spell(codes)} {words}", x, s, z))
    assert q[:, :2].tolist() == [[high, low]] * 2
    y = isobit.dequantize_per_channel(q, s, z, 0, low, high, codes, out_dtype=dtype)
    assert_same(y, expect(f"dequantize_per_channel q={spell(q, True)} y={spell(dtype)} {words}", q, s, z))
    dy = draw(2, 9, dtype=dtype)
    got = isobit.dequantize_per_channel_backward(dy, q, s, z, 0, low, high)
    text = f"grad_output={spell(dy, True)} q={spell(codes)} grad_input={spell(dtype)} grad_scale=f32 {words}"
    assert_same(got[:2], expect(f"dequantize_per_channel_backward {text}", dy, q, s, z)[:2])


def test_wider_codes_are_those_of_torch():
    """The codes of torch's qint32 and of quantized_decomposed, with ties and scales that are exact."""
    x = torch.arange(-40, 40).float() * 0.25
    # PyTorch 2.13 rounds after it has added the zero point: an even one leaves ties where they are.
    zero = 8 if torch.__version__.startswith("2.13.") else 7
    want = torch.quantize_per_tensor(x, 0.5, zero, torch.qint32).int_repr()
    assert torch.equal(isobit.quantize_per_tensor(x, 0.5, zero, -(2**31), 2**31 - 1, torch.int32), want)
    decomposed = torch.ops.quantized_decomposed
    for dtype in (torch.int16, torch.int32):
        want = decomposed.quantize_per_tensor(x, 0.5, 7, -30000, 30000, dtype)
        codes = isobit.quantize_per_tensor(x, 0.5, 7, -30000, 30000, dtype)
        assert_same(codes, want)
        want = decomposed.dequantize_per_tensor(codes, 0.5, 7, -30000, 30000, dtype)
        assert_same(isobit.dequantize_per_tensor(codes, 0.5, 7, -30000, 30000, dtype), want)
