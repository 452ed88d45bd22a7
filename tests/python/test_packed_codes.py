"""4-bit codes: bytes of two, wherever they lie."""

import isobit
import pytest
import torch
from kit import assert_same, draw

INT4 = getattr(torch, "int4", None)
pytestmark = pytest.mark.skipif(INT4 is None, reason="this torch has no torch.int4")


def pack(codes):
    """Two codes to a byte, the lower half first, each row on its own."""
    low, high = codes[..., 0::2], codes[..., 1::2]
    high = torch.nn.functional.pad(high, (0, low.shape[-1] - high.shape[-1]))
    return (low.to(torch.uint8) & 15) | ((high.to(torch.uint8) & 15) << 4)


@pytest.mark.parametrize("shape", ((5, 7), (3, 2, 8), (4, 1), (9,), (2, 0)), ids=str)
@pytest.mark.parametrize("codes", ("int4", "uint4"))
def test_packed_codes_are_bytes_of_two(shape, codes):
    dtype, wide = getattr(torch, codes), {"int4": torch.int8, "uint4": torch.uint8}[codes]
    low, high = (-8, 7) if codes == "int4" else (0, 15)
    x = draw(*shape, special=True)
    block = (1,) * (len(shape) - 1) + (3,)
    for name, where, s_shape in (
        ("per_tensor", (), ()),
        ("per_token", (), (*shape[:-1], 1)),
        ("per_block", (block,), [-(-d // b) for d, b in zip(shape, block, strict=True)]),
    ):
        s = draw(*s_shape, seed=5).abs() * 0.3 + 0.2
        z = torch.full_like(s, 2).int()
        at = (s, z, *where, low, high)
        whole = getattr(isobit, f"quantize_{name}")(x, *at, wide)
        packed = getattr(isobit, f"quantize_{name}")(x, *at, dtype)
        assert_same(packed, pack(whole))
        out = torch.zeros_like(packed)
        assert getattr(isobit, f"quantize_{name}")(x, *at, dtype, out=out) is out
        assert_same(out, packed)
        back = getattr(isobit, f"dequantize_{name}")
        assert_same(back(packed, *at, dtype, last_dim=shape[-1]), back(whole, *at, wide))
        if shape[-1] % 2 == 0:
            assert_same(back(packed, *at, dtype), back(whole, *at, wide))
        for last_dim in (None, shape[-1])[shape[-1] % 2 :]:  # meta tensors are told the same shape
            assert back(*(t.to("meta") for t in (packed, s, z)), *at[2:], dtype, last_dim=last_dim).shape == shape
        dy = draw(*shape, seed=7)
        got = getattr(isobit, f"dequantize_{name}_backward")(dy, packed, *at, dtype=dtype)
        assert_same(got, getattr(isobit, f"dequantize_{name}_backward")(dy, whole, *at))
        scale = s.clone().requires_grad_()
        y = back(packed, scale, *at[1:], dtype, last_dim=shape[-1])
        assert_same(torch.autograd.grad(y, scale, dy)[0], got[1])
    q, s, z = isobit.quantize_per_token_dynamic(x, dtype, symmetric=codes == "int4")
    assert_same(q, isobit.quantize_per_token(x, s, z, low, high, dtype))


def test_packed_codes_refuse():
    s = torch.tensor(0.5)
    packed = torch.zeros(3, 4, dtype=torch.uint8)
    with pytest.raises(ValueError, match="dimension"):
        isobit.quantize_per_tensor(torch.tensor(1.0), 0.5, None, -8, 7, INT4)
    with pytest.raises(ValueError, match="last_dim is 9; want 7 or 8"):
        isobit.dequantize_per_tensor(packed, s, None, -8, 7, INT4, last_dim=9)
    with pytest.raises(ValueError, match=r"input is torch.int8; want torch.uint8 for dtype=torch.int4"):
        isobit.dequantize_per_tensor(packed.char(), s, None, -8, 7, INT4)
    with pytest.raises(ValueError, match="quant_max"):
        isobit.quantize_per_tensor(torch.ones(4), 0.5, None, -8, 8, INT4)


def test_packed_codes_that_lie_apart():
    """Transposed bytes are read by row like others, also those that vmap makes of a batch along the last dimension."""
    x, s = draw(3, 7), draw(3, seed=1).abs() + 0.5
    packed = isobit.quantize_per_channel(x, s, None, 0, -8, 7, INT4)
    at = (s, None, 0, -8, 7, INT4)
    want = isobit.dequantize_per_channel(packed, *at, last_dim=7)
    apart = packed.t().contiguous().t()
    assert_same(isobit.dequantize_per_channel(apart, *at, last_dim=7), want)
    got = isobit.dequantize_per_channel_backward(x, apart, *at[:-1], dtype=INT4)
    assert_same(got, isobit.dequantize_per_channel_backward(x, packed, *at[:-1], dtype=INT4))
    out = torch.zeros_like(packed.t()).t()
    assert isobit.quantize_per_channel(x, *at, out=out) is out
    assert_same(out, packed)
    scale = torch.ones(3, 2)
    y = isobit.weight_only_linear(x, apart, scale, group_size=4, dtype=INT4)
    assert_same(y, isobit.weight_only_linear(x, packed, scale, group_size=4, dtype=INT4))
    both = torch.stack((packed, packed), -1)
    y = torch.vmap(lambda q: isobit.dequantize_per_channel(q, *at, last_dim=7), -1)(both)
    assert_same(y[1], want)
