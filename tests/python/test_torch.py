"""The ops as torch sees them: opcheck, torch.compile, autocast, fake tensors."""

import isobit
import pytest
import torch
from isobit._op import OPS
from kit import assert_same, draw
from programs import GRID, IDX, IMAGE, PROGRAMS, G, Q, R, S, T, X, Z, leaves, spatial
from torch.library import opcheck


def samples():
    """Arguments for each raw op."""
    i8 = torch.int8
    for name, s, before, after in (
        ("per_tensor", S[0], (), ()),
        ("per_channel", S, (0,), ()),
        ("per_token", T, (), ()),
        ("per_channel_group", G, (), (3,)),
        ("per_block", G[:2], ([2, 3],), ()),
    ):
        z = torch.zeros_like(s)
        yield f"quantize_{name}", (X, s, None, *before, *R, i8, *after)
        yield f"quantize_{name}", (X, s, z, *before, *R, torch.float32, *after)
        yield f"quantize_{name}_backward", (X, X, s, None, *before, *R, *after)
        yield f"dequantize_{name}", (Q, s, z, *before, *R, i8, *after)
        yield f"dequantize_{name}", (Q, s, None, *before, *R, i8, *after, torch.bfloat16)
        yield f"dequantize_{name}_backward", (X, Q, s, z, *before, *R, *after, True, True, True)
        yield f"fake_quantize_{name}_affine", (X, s, z, *before, *R, *after)
        tail = (*before, *R, *after, "nearest", 0.5, True, True, True)
        yield f"fake_quantize_{name}_affine_backward", (X, X, s, z, *tail)
        if name != "per_token":
            where = (*before, *after)
            yield f"choose_qparams_{name}", (X, *where, *R)
            yield f"quantize_{name}_dynamic", (X, *where, *R, i8, False)
    yield "choose_qparams_per_token", (X, *R)
    yield "choose_qparams_per_token", (X, *R, False)
    yield "quantize_per_token_dynamic", (X, *R, i8)
    yield "quantize_per_token_dynamic", (X, *R, i8, False)
    yield "quantize_per_token_dynamic", (X, -8, 7, torch.int4)
    yield "quantize_per_channel_group", (X[:, :5], G, None, -8, 7, torch.int4, 3)
    packed = X.view(torch.uint8)[:, :3].contiguous()
    yield "dequantize_per_channel_group", (packed, G, None, -8, 7, torch.int4, 3, torch.float32, 5)
    yield "dequantize_per_token_backward", (X[:, :5], packed, T, None, 0, 15, True, True, False, torch.uint4)
    yield "weight_only_linear", (X, Q[:3], G[:3], Z[:3, None].expand(3, 2).float(), X[0, :3], 3, i8, 6)
    yield "weight_only_linear", (X[:, :5], packed, G, None, None, 3, torch.int4, 5)
    yield "matmul", (X, draw(6, 3), X[0, :3])
    yield "matmul", (IMAGE[0], draw(3, 5, 2), None)
    yield "embedding", (X, IDX)
    yield "embedding_backward", (draw(2, 2, 6), IDX, 5)
    yield "embedding_renorm_", (X, IDX, 1.5)
    runs, factors = torch.tensor([0, 1, 1]), torch.ones(2, 2)
    yield "embedding_bag", (X, IDX, None, None, 2)
    yield "embedding_bag", (X, IDX[0], runs, None, 2, "sum", 3, True)
    yield "embedding_bag", (X, IDX, None, factors, 2, "sum")
    yield "embedding_bag", (X, IDX, None, None, 2, "max", -1, False, False, False, True)
    yield "weight_only_embedding_bag", (Q, IDX, None, None, G[:4].expand(4, 2), None, 2, 3, i8, torch.float32)
    some = IDX[0], runs, factors[0], G, None, 2, 3, torch.int4, torch.float32, "sum", 3, True, 5
    yield "weight_only_embedding_bag", (packed, *some)
    yield "embedding_bag_backward", (X[:2], IDX, None, None, None, 5)
    yield "embedding_bag_backward", (X[:3], IDX[0], runs, factors[0], None, 5, "sum", 1)
    yield "embedding_bag_backward", (X[:2], IDX, None, None, torch.ones(2, 6).long(), 5, "max")
    yield "embedding_bag_per_sample_weights_backward", (X[:3], X, IDX[0], runs)
    yield "grid_sample", (IMAGE, GRID)
    yield "grid_sample", (IMAGE, GRID, "nearest", "border", True)
    yield "grid_sample", (IMAGE, GRID, "bicubic", "reflection", False)
    yield "grid_sample_backward", (draw(2, 3, 3, 3), IMAGE, GRID)
    yield "grid_sample_backward", (draw(2, 3, 3, 3), IMAGE, GRID, "bicubic")
    yield "grid_sample_backward", (draw(2, 3, 3, 3), IMAGE, GRID, "bilinear", "zeros", False, False, True)
    given = draw(2, 3, 3, 3), IMAGE, GRID
    yield "grid_sample_double_backward", (*given, IMAGE.sin(), GRID.cos())
    yield "grid_sample_double_backward", (*given, None, GRID.cos(), "bicubic", "border", True)
    yield "grid_sample_double_backward", (*given, IMAGE.sin(), None, "nearest", "zeros", False, True, False, True)
    yield "affine_grid", (draw(2, 2, 3), [2, 3, 4, 5])
    yield "affine_grid_backward", (draw(2, 4, 5, 2), [2, 2, 3])
    yield "quantized_linear_codes", (Q, S, Q[:3], S[:3], None, torch.float32)
    of_x, of_weight = (Q, S, S.int()), (Q[:3], G[:3], Z[:3, None].expand(3, 2).float(), X[0, :3])
    yield "quantized_linear_per_group", (*of_x, *of_weight, 3, i8, 6, torch.bfloat16)
    yield "quantized_linear_per_group", (Q[:, :5], S, None, packed, G, None, None, 3, torch.int4, 5, torch.float32)


SAMPLES = list(samples())


def test_every_op_has_a_sample():
    assert {name for name, _ in SAMPLES} == set(OPS), "samples() has arguments for each op"


DIFFERENTIABLE = {n for n in OPS if not n.endswith(("_backward", "_dynamic")) and not n.startswith("choose")} - {
    "embedding_renorm_",
    "quantized_linear_codes",
    "quantized_linear_per_group",
    "weight_only_embedding_bag",
}


@pytest.mark.parametrize(("name", "args"), SAMPLES, ids=[f"{n}-{i}" for i, (n, _) in enumerate(SAMPLES)])
def test_opcheck(name, args):
    op = getattr(torch.ops.isobit, name).default
    codes = name.startswith("quantize") and any(
        a in (torch.int8, torch.int4) for a in args if isinstance(a, torch.dtype)
    )
    chosen = name.startswith("choose") or name.endswith("_dynamic")  # whose results are constants
    opcheck(op, leaves(args, chosen or (name in DIFFERENTIABLE and not codes)))
    if chosen:
        assert not any(t.requires_grad for t in op(*leaves(args, True)))
    if args[0].dim() == 2 and not name.endswith("_") and args[0].dtype != torch.uint8:  # dense, but not row-major
        permuted = (args[0].t().contiguous().t(), *args[1:])
        opcheck(op, leaves(permuted, False))


def test_fakes_lie_as_results_do():
    """Fake and real outputs have the same strides, whatever the inputs' layout."""
    from torch._subclasses import FakeTensorMode

    for name, args in SAMPLES:
        if name.endswith("_") or torch.uint8 in (a.dtype for a in args if isinstance(a, torch.Tensor)):
            continue
        op = getattr(torch.ops.isobit, name).default
        args = tuple(
            a.transpose(0, -1).contiguous().transpose(0, -1) if isinstance(a, torch.Tensor) and a.dim() > 1 else a
            for a in args
        )
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            fake = op(*(mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in args))
        real = op(*args)
        pairs = [(fake, real)] if isinstance(real, torch.Tensor) else zip(fake, real, strict=True)
        for f, r in pairs:
            assert (f.shape, f.stride(), f.dtype) == (r.shape, r.stride(), r.dtype), name


@pytest.mark.parametrize("backend", ("aot_eager", "inductor"))
@pytest.mark.parametrize("name", PROGRAMS)
def test_compile_gives_eager_bits(name, backend):
    if backend == "inductor" and name not in ("fake_quantize", "spatial", "quantized_linear"):
        pytest.skip("a C++ compilation each: a sample")
    function, args = PROGRAMS[name]
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    eager_in, compiled_in = leaves(args, True), leaves(args, True)
    y, c = function(*eager_in), compiled(*compiled_in)
    assert_same(c, y)
    if not y.requires_grad:
        return
    dy = draw(*y.shape, seed=9)
    want = torch.autograd.grad(y, eager_in, dy, allow_unused=True)
    assert_same(torch.autograd.grad(c, compiled_in, dy, allow_unused=True), want)


def test_compile_with_dynamic_shapes():
    compiled = torch.compile(spatial, fullgraph=True, backend="aot_eager", dynamic=True)
    for size in (4, 7, 5):
        image, theta = draw(2, 3, size, size), draw(2, 2, 3, spread=0.5)
        assert_same(compiled(image, theta), spatial(image, theta))
    embed = torch.compile(isobit.embedding, fullgraph=True, backend="aot_eager", dynamic=True)
    for size in (3, 5):
        weight = draw(size, 4).requires_grad_()
        indices = torch.arange(size).flip(0)
        (want,) = torch.autograd.grad(isobit.embedding(indices, weight).sum(), weight)
        assert_same(torch.autograd.grad(embed(indices, weight).sum(), weight)[0], want)


def test_compile_out_and_max_norm():
    def program(x, out, weight):
        isobit.fake_quantize_per_tensor_affine(x, 0.5, 0, -8, 7, out=out)
        return isobit.embedding(IDX, weight, max_norm=1.0)

    compiled = torch.compile(program, fullgraph=True, backend="aot_eager")
    results = []
    for f in (program, compiled):
        out, weight = torch.empty_like(X), X.clone()
        results.append((f(X, out, weight), out, weight))
    assert_same(*results)


def test_export():
    class Model(torch.nn.Module):
        def forward(self, x):
            return isobit.fake_quantize_per_channel_affine(x, S, Z, 0, -8, 7)

    program = torch.export.export(Model(), (X,))
    assert "isobit.fake_quantize_per_channel_affine" in str(program.graph)
    assert_same(program.module()(X), Model()(X))


def test_autocast():
    image, grid = IMAGE.clone().requires_grad_(), GRID.bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        y = isobit.grid_sample(image, grid)
        assert_same(torch.ops.isobit.grid_sample(image.detach(), grid.detach()), y)
        assert isobit.quantized_linear(X.bfloat16(), draw(3, 6)).dtype == torch.bfloat16
    assert y.dtype == torch.float32
    assert_same(y, isobit.grid_sample(image, grid.float()))
    y.sum().backward()
    assert image.grad.dtype == torch.float32 and grid.grad.dtype == torch.bfloat16
    with pytest.raises(ValueError, match="grid"):
        isobit.grid_sample(IMAGE, GRID.bfloat16())
