"""Within autocast every function gives the type that torch's function of its name gives."""

import itertools

import isobit
import pytest
import torch
import torch.ao.quantization.fx._decomposed  # defines torch.ops.quantized_decomposed
from kit import assert_same, draw
from torch._subclasses.fake_tensor import FakeTensorMode

F, DECOMPOSED = torch.nn.functional, torch.ops.quantized_decomposed
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
IMAGE, GRID, X, W = draw(1, 2, 4, 4), draw(1, 3, 3, 2, spread=0.5), draw(3, 4), draw(5, 4)
IDS, OFFSETS, SCALE = torch.tensor([1, 2, 3]), torch.tensor([0, 2]), torch.rand(4) + 0.1
ZERO = torch.zeros(4, dtype=torch.int32)

# The functions of both, of tensors that come in every type.
PAIRS = {
    "grid_sample": (isobit.grid_sample, lambda x, g: F.grid_sample(x, g, align_corners=False), (IMAGE, GRID)),
    "embedding": (lambda w: isobit.embedding(IDS, w), lambda w: F.embedding(IDS, w), (W,)),
    "embedding_bag": (
        lambda w, f: isobit.embedding_bag(IDS, w, OFFSETS, mode="sum", per_sample_weights=f),
        lambda w, f: F.embedding_bag(IDS, w, OFFSETS, mode="sum", per_sample_weights=f),
        (W, draw(3)),
    ),
    "linear": (isobit.linear, F.linear, (X, W, draw(5))),
    "matmul": (isobit.matmul, torch.matmul, (X, W.t())),
    "fake_quantize": (
        lambda x: isobit.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7),
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7),
        (X,),
    ),
    "fake_quantize of tensors": (
        lambda x: isobit.fake_quantize_per_tensor_affine(x, SCALE[0], ZERO[0], -8, 7),
        lambda x: torch.fake_quantize_per_tensor_affine(x, SCALE[0], ZERO[0], -8, 7),
        (X,),
    ),
    "fake_quantize of channels": (
        lambda x: isobit.fake_quantize_per_channel_affine(x, SCALE, ZERO, 1, -8, 7),
        lambda x: torch.fake_quantize_per_channel_affine(x, SCALE, ZERO, 1, -8, 7),
        (X,),
    ),
    "quantize": (
        lambda x: isobit.quantize_per_channel(x, SCALE, ZERO, 1, -8, 7, torch.int8),
        lambda x: DECOMPOSED.quantize_per_channel(x, SCALE, ZERO, 1, -8, 7, torch.int8),
        (X,),
    ),
}


def answer(f, *args):
    try:
        return f(*args).dtype
    except (RuntimeError, ValueError, AssertionError):
        return "an error"


def differ(ours, theirs, tensors, floats=FLOATS):
    """The types for which the two functions give different ones. What torch refuses, isobit may take."""
    for types in itertools.product(floats, repeat=len(tensors)):
        args = [t.to(dtype) for t, dtype in zip(tensors, types, strict=True)]
        got, want = answer(ours, *args), answer(theirs, *args)
        if want not in (got, "an error"):
            yield types, got, want


@pytest.mark.parametrize("name", PAIRS)
def test_types_are_those_of_torch(name):
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype):
            assert not list(differ(*PAIRS[name]))
            with torch.autocast("cpu", enabled=False):
                assert name == "grid_sample" or not list(differ(*PAIRS[name]))  # which takes a grid of f32 beside f16


@pytest.mark.parametrize("name", ("grid_sample", "linear", "matmul"))
def test_types_on_cuda_are_those_of_torch(name):
    """Of fake tensors: what counts is where they say they are."""
    was, dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
    try:
        torch.set_autocast_enabled("cuda", True)
        for narrow in (torch.float16, torch.bfloat16):
            torch.set_autocast_dtype("cuda", narrow)
            with FakeTensorMode():
                ours, theirs, tensors = PAIRS[name]
                fakes = [torch.empty(t.shape, device="cuda") for t in tensors]
                assert not list(differ(ours, theirs, fakes, (torch.float32, narrow)))
    finally:
        torch.set_autocast_enabled("cuda", was)
        torch.set_autocast_dtype("cuda", dtype)


def test_a_grid_keeps_the_precision_of_theta():
    """torch's eager function, a product, gives 16 bits; compiled, it does not."""
    theta = draw(1, 2, 3)
    want = isobit.affine_grid(theta, [1, 1, 300, 300])
    with torch.autocast("cpu"):
        assert_same(isobit.affine_grid(theta, [1, 1, 300, 300]), want)
        assert_same(isobit.affine_grid(theta.clone().requires_grad_(), [1, 1, 300, 300]), want)
        assert isobit.affine_grid(theta.bfloat16(), [1, 1, 3, 3]).dtype == torch.bfloat16


def test_what_is_widened_has_the_bits_of_float32():
    """In eager and in compiled code; gradients have the types of what they belong to."""
    half, grid = IMAGE.bfloat16(), GRID.bfloat16()

    def sample(image, grid):
        return isobit.grid_sample(image, grid)

    def fake(x):
        return isobit.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7)

    for run in (sample, torch.ops.isobit.grid_sample, torch.compile(sample, fullgraph=True, backend="aot_eager")):
        for g in (grid, GRID):
            leaves = half.clone().requires_grad_(), g.clone().requires_grad_()
            with torch.autocast("cpu", torch.bfloat16):
                y = run(*leaves)
            assert_same(y.detach(), isobit.grid_sample(half.float(), g.float()))
            y.sum().backward()
            assert [leaf.grad.dtype for leaf in leaves] == [torch.bfloat16, g.dtype]
    for run in (fake, torch.compile(fake, fullgraph=True, backend="aot_eager")):
        with torch.autocast("cpu", torch.bfloat16):
            assert_same(run(half), fake(half.float()))
    out = torch.empty(1, 2, 3, 3)
    with torch.autocast("cpu", torch.bfloat16):
        assert isobit.grid_sample(half, grid, out=out) is out
        with pytest.raises(ValueError, match="out is torch.bfloat16; want torch.float32"):
            isobit.grid_sample(half, grid, out=out.bfloat16())
    assert_same(out, isobit.grid_sample(half.float(), grid.float()))


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float32, torch.float64))
def test_a_batch_of_calls_keeps_its_type(dtype):
    """torch.stack, which vmap ends with, takes no float16 where autocast has bfloat16."""
    table, bags = W.to(dtype, copy=True).requires_grad_(), torch.tensor([[[1, 2]], [[3, 0]]])
    want = isobit.embedding_bag(bags.flatten(0, 1), table, mode="sum")[:, None]
    with torch.autocast("cpu", torch.bfloat16):
        y = torch.vmap(lambda bag: isobit.embedding_bag(bag, table, mode="sum"))(bags)
    assert_same(y, want)
    assert_same(*(torch.autograd.grad(t.sum(), table)[0] for t in (y, want)))


def test_products_with_out_are_outside_of_autocast():
    """As torch's calls with out=: the types of the arguments are the result's, in eager code and in compiled code."""
    out, want = torch.empty(3, 5), isobit.matmul(X, W.t())

    def product(out):
        return isobit.matmul(X, W.t(), out=out)

    with torch.autocast("cpu", torch.bfloat16):
        assert torch.matmul(X, W.t(), out=out) is out
        for run in (product, torch.compile(product, fullgraph=True, backend="eager")):
            assert_same(run(torch.empty(3, 5)), want)
        assert_same(isobit.linear(X, W, out=out), want)
        with pytest.raises(ValueError, match="out is torch.bfloat16; want torch.float32"):
            product(torch.empty(3, 5, dtype=torch.bfloat16))
