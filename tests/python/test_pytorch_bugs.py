"""Where PyTorch 2.15 is wrong or surprising on the CPU, isobit is not. One named case for each."""

import isobit
import pytest
import torch

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("mode", ("bilinear", "nearest"))
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
def test_grid_sample_of_a_large_half_precision_plane(dtype, mode):
    """torch: 16-bit gather offsets wrap for planes of 182x182 and more; most pixels are wrong."""
    x = torch.randn(1, 1, 256, 256, generator=torch.Generator().manual_seed(0)).to(dtype)
    grid = isobit.affine_grid(torch.eye(2, 3)[None], [1, 1, 256, 256])
    got = isobit.grid_sample(x, grid, mode)
    assert (got.float() - isobit.grid_sample(x.float(), grid, mode)).abs().max() <= 2**-6
    assert (got.float() - x.float()).abs().max() <= 2**-4
    grad, _ = isobit.grid_sample_backward(torch.ones_like(got), x, grid, mode)
    assert (grad.float() - 1).abs().max() <= 2**-6


@pytest.mark.parametrize("mode", ("bilinear", "bicubic"))
def test_grid_sample_of_nan_and_infinite_coordinates(mode):
    """torch: NaN output with zeros padding, and a crash with border padding."""
    x = torch.randn(1, 1, 4, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    grid = torch.tensor([[[[NAN, 0.0], [INF, 0.2], [-INF, NAN]]]], requires_grad=True)
    for padding in ("zeros", "border", "reflection"):
        y = isobit.grid_sample(x, grid, mode, padding)
        assert y.isfinite().all()
        if padding == "zeros":
            assert not y.any()
        d_x, d_grid = torch.autograd.grad(y.sum(), (x, grid))
        assert d_x.isfinite().all() and d_grid.isfinite().all()
        assert not d_grid[grid.isnan() | grid.isinf()].any()


def test_learned_scale_gradient_of_every_thread_count():
    """torch: _fake_quantize_learnable_per_tensor_affine's scale gradient changes with the threads."""
    x = torch.randn(4, 1 << 18, generator=torch.Generator().manual_seed(0))
    dy = torch.full_like(x, 0.3)
    grads = []
    try:
        for n in (1, 2, 3):
            isobit.set_num_threads(n)
            grads.append(isobit.fake_quantize_per_tensor_affine_backward(dy, x, torch.tensor(0.05), None, -128, 127)[1])
    finally:
        isobit.set_num_threads(None)
    assert grads[0] == grads[1] == grads[2]


@pytest.mark.parametrize("zero", (-3.0, -1.6, 3.0))
def test_learned_negative_zero_point(zero):
    """torch: per tensor, the backward uses another zero point than the forward."""
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0)) * 3
    results = []
    for per_channel in (False, True):
        leaf = x.clone().requires_grad_()
        s = torch.tensor([0.05], requires_grad=True)
        z = torch.tensor([zero], requires_grad=True)
        if per_channel:
            y = isobit.fake_quantize_per_channel_affine(leaf[None], s, z, 0, -128, 127)[0]
        else:
            y = isobit.fake_quantize_per_tensor_affine(leaf, s, z, -128, 127)
        results.append([y.detach(), *torch.autograd.grad(y, (leaf, s, z), torch.ones_like(y))])
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def test_quantize_of_a_large_negative_value():
    """torch: quantize_per_tensor(-1e30, 1, -5) is +127."""
    assert (
        isobit.quantize_per_tensor(torch.tensor([-1e30] * 16), 1.0, -5, -128, 127, torch.int8).unique().item() == -128
    )


@pytest.mark.parametrize("function", ("per_tensor", "per_channel"))
def test_quantize_of_special_values(function):
    """torch: NaN, +Inf and 1e30 depend on the granularity and on the element's position."""
    x = torch.tensor([[NAN, INF, -INF, -1e30, 1e30]] * 4)
    if function == "per_tensor":
        q = isobit.quantize_per_tensor(x, 1.0, -5, -128, 127, torch.int8)
    else:
        q = isobit.quantize_per_channel(x, torch.ones(4), torch.full((4,), -5), 0, -128, 127, torch.int8)
    assert q.tolist() == [[-5, 127, -128, -128, 127]] * 4


def test_fake_quantize_of_infinity():
    """torch: fake_quantize_per_channel_affine of +Inf and 1e30 is -128."""
    x = torch.tensor([[NAN, INF, -INF, 1e30]])
    want = [0.0, 127.0, -128.0, 127.0]
    assert isobit.fake_quantize_per_tensor_affine(x[0], 1.0, 0, -128, 127).tolist() == want
    zero = torch.tensor([0], dtype=torch.int32)
    assert isobit.fake_quantize_per_channel_affine(x, torch.ones(1), zero, 0, -128, 127)[0].tolist() == want


@pytest.mark.parametrize(("dtype", "n"), ((torch.bfloat16, 1000), (torch.float16, 5000)))
def test_embedding_gradient_of_a_hot_row(dtype, n):
    """torch: sums in 16 bits stop at 256 and 2048."""
    w = torch.zeros(10, 4, dtype=dtype, requires_grad=True)
    isobit.embedding(torch.zeros(n, dtype=torch.long), w).sum().backward()
    assert w.grad[0].tolist() == [torch.tensor(float(n)).to(dtype).item()] * 4
    assert not w.grad[1:].any()


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_bags_end_where_the_last_offset_says(dtype):
    """torch: in float64 the last bag goes on to the end of the input, in float32 it does not."""
    ends = torch.tensor([0, 1, 2])
    y = isobit.embedding_bag(torch.arange(4), torch.eye(4, dtype=dtype), ends, mode="sum", include_last_offset=True)
    assert y.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]


def test_a_nan_is_the_largest_of_a_bag():
    """torch: it is only where it comes first."""
    w = torch.tensor([[NAN], [1.0], [2.0]])
    bags = torch.tensor([[0, 1, 2], [1, 0, 2], [1, 2, 0]])
    assert isobit.embedding_bag(bags, w, mode="max").isnan().all()


@pytest.mark.parametrize("mode", ("sum", "mean"))
def test_bag_gradient_of_a_hot_row(mode):
    """torch: sums in 16 bits stop at 256."""
    w = torch.zeros(2, 4, dtype=torch.bfloat16, requires_grad=True)
    isobit.embedding_bag(torch.zeros(1000, 1, dtype=torch.long), w, mode=mode).sum().backward()
    assert w.grad[0].tolist() == [1000.0] * 4


def test_infinite_gradient_outside_the_range():
    """torch: multiplied by a mask of 0 it is NaN."""
    x = torch.tensor([1000.0, 0.0], requires_grad=True)
    isobit.fake_quantize_per_tensor_affine(x, 1.0, 0, -128, 127).backward(torch.tensor([INF, 1.0]))
    assert x.grad.tolist() == [0.0, 1.0]


def test_ties_divide():
    """torch: 42 % of the values (k + 0.5) * scale quantize otherwise than by division."""
    s = torch.tensor(0.1)
    x = (torch.arange(-100, 100).float() + 0.5) * 0.1
    want = torch.clamp(torch.round(x / s), -128, 127).to(torch.int8)
    assert torch.equal(isobit.quantize_per_tensor(x, s, None, -128, 127, torch.int8), want)


def test_float64_keeps_its_precision():
    """torch: fake_quantize of float64 multiplies by a float32 scale."""
    x = torch.tensor([0.3], dtype=torch.float64)
    assert isobit.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127).item() == 3 * 0.1


def test_per_token_rounds_before_it_adds():
    """torch.ops.quantized_decomposed.quantize_per_token adds the zero point first: 0.5 + 1 is 2."""
    x, s, z = torch.tensor([[0.5]]), torch.tensor([[1.0]]), torch.tensor([[1]])
    assert isobit.quantize_per_token(x, s, z, -128, 127, torch.int8).item() == 1
    assert isobit.quantize_per_channel(x, s[0], z[0], 0, -128, 127, torch.int8).item() == 1
