"""8-bit float codes: values, gradients, zero points, bounds."""

import isobit
import numpy as np
import pytest
import torch
from kit import assert_same, draw


@pytest.mark.parametrize("dtype", (torch.float8_e4m3fn, torch.float8_e5m2))
def test_float8(dtype):
    most = int(torch.finfo(dtype).max)
    x, s = draw(6, 9, spread=300.0, special=True), draw(6, seed=5).abs() + 0.5
    at = (0, -most, most)
    u = x / s[:, None]
    q = isobit.quantize_per_channel(x, s, None, *at, dtype)
    assert_same(q.float(), u.clamp(-most, most).to(dtype).float())
    y = isobit.dequantize_per_channel(q, s, None, *at, dtype)
    assert_same(y, q.float() * s[:, None])
    assert_same(isobit.fake_quantize_per_channel_affine(x, s, None, *at, code_dtype=dtype), y)
    inside = (u >= -most) & (u <= most)
    dy = draw(6, 9, seed=2)
    got = isobit.quantize_per_channel_backward(dy, x, s, None, *at, code_dtype=dtype)
    assert_same(got, torch.where(inside, dy / s[:, None], 0.0))
    leaves = x.clone().requires_grad_(), s.clone().requires_grad_()
    z = isobit.fake_quantize_per_channel_affine(*leaves, None, *at, code_dtype=dtype)
    dx, ds = torch.autograd.grad(z, leaves, dy)
    assert_same(dx, torch.where(inside, dy, 0.0))
    want = isobit.fake_quantize_per_channel_affine_backward(dy, x, s, None, *at, code_dtype=dtype)
    assert_same((dx, ds), want[:2])
    assert isobit.dequantize_per_channel_backward(dy, q, s, None, *at)[1].shape == s.shape


@pytest.mark.parametrize("dtype", (torch.float8_e4m3fn, torch.float8_e5m2))
def test_float8_bounds_may_be_floats(dtype):
    """As torch.finfo has them."""
    x, dy, s = draw(4, 6, spread=300.0), draw(4, 6), torch.full((2, 2), 0.5)
    low, high = torch.finfo(dtype).min, torch.finfo(dtype).max
    want, got = ((s, None, (2, 3), *bounds) for bounds in ((int(low), int(high)), (low, high)))
    q = isobit.quantize_per_block(x, *want, dtype)
    assert_same(isobit.quantize_per_block(x, *got, dtype).float(), q.float())
    assert_same(isobit.dequantize_per_block(q, *got, dtype), isobit.dequantize_per_block(q, *want, dtype))
    for op, first, keywords in (
        (isobit.fake_quantize_per_block_affine, (x,), {"code_dtype": dtype}),
        (isobit.fake_quantize_per_block_affine_backward, (dy, x), {"code_dtype": dtype, "grad_factor": 0.5}),
        (isobit.quantize_per_block_backward, (dy, x), {"code_dtype": dtype}),
        (isobit.dequantize_per_block_backward, (dy, q), {}),
    ):
        assert_same(op(*first, *got, **keywords), op(*first, *want, **keywords))
    with pytest.raises(TypeError, match="quant_min must be an int, not -0.5"):
        isobit.quantize_per_block(x, s, None, (2, 3), -0.5, 1, dtype)


def test_float8_zero_points():
    """None, 0 and integers that are all 0 mean the same; nothing else is taken."""
    x, f8 = draw(4, 6), torch.float8_e4m3fn
    want = isobit.quantize_per_tensor(x, 0.1, None, -448, 448, f8)
    for zero in (0, np.int64(0), torch.tensor(0), torch.zeros(1, dtype=torch.int32)):
        assert_same(isobit.quantize_per_tensor(x, 0.1, zero, -448, 448, f8).float(), want.float())
        isobit.dequantize_per_tensor(want, 0.1, zero, -448, 448, f8)
        isobit.fake_quantize_per_tensor_affine(x, 0.1, zero, -448, 448, code_dtype=f8)
    with pytest.raises(ValueError, match=r"zero_points has shape \[3\]; want \[4\], as scales has, or None"):
        isobit.quantize_per_channel(x, torch.ones(4), torch.zeros(3, dtype=torch.int32), 0, -448, 448, f8)
    for zero in (1, np.int8(1), torch.tensor(1), torch.tensor(0.0), torch.tensor(False), torch.tensor(0j)):
        with pytest.raises(ValueError, match="scale only"):
            isobit.quantize_per_tensor(x, 0.1, zero, -448, 448, f8)
        with pytest.raises(ValueError, match="scale only"):
            isobit.fake_quantize_per_tensor_affine(x, 0.1, zero, -448, 448, code_dtype=f8)
    with pytest.raises(ValueError, match="code_dtype"):
        isobit.fake_quantize_per_tensor_affine(x, 0.1, None, -8, 7, code_dtype=torch.int8)
