"""The ops as torch sees them: opcheck, torch.compile, vmap and torch.func, autocast, fake tensors."""

import isobit
import pytest
import torch
from isobit._op import OPS
from kit import assert_same, draw
from torch.func import grad, jacrev, vmap
from torch.library import opcheck

X = draw(4, 6)
S, Z = torch.full((4,), 0.5), torch.zeros(4, dtype=torch.int32)
T, G = torch.full((4, 1), 0.5), torch.full((4, 2), 0.5)
Q = X.to(torch.int8)
R = (-128, 127)
IDX = torch.tensor([[1, 0], [3, 3]])
IMAGE, GRID = draw(2, 3, 4, 5), draw(2, 3, 3, 2, spread=0.5)


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


SAMPLES = list(samples())


def test_every_op_has_a_sample():
    assert {name for name, _ in SAMPLES} == set(OPS)


DIFFERENTIABLE = {n for n in OPS if not n.endswith(("_backward", "_dynamic")) and not n.startswith("choose")} - {
    "embedding_renorm_",
    "quantized_linear_codes",
}


def leaves(args, requires_grad):
    return tuple(
        a.clone().requires_grad_(requires_grad and a.is_floating_point()) if isinstance(a, torch.Tensor) else a
        for a in args
    )


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


def spatial(image, theta):
    return isobit.grid_sample(image, isobit.affine_grid(theta, image.shape), padding_mode="border")


# Name: function, inputs (float ones require a gradient).
PROGRAMS = {
    "fake_quantize": (
        lambda x, s, z: isobit.fake_quantize_per_channel_affine(x, s, z, 0, -8, 7, grad_factor=0.5),
        (X, S, Z.float()),
    ),
    "fake_quantize_by_number": (lambda x: isobit.fake_quantize_per_tensor_affine(x, 0.3, 1, -8, 7) * 2, (X,)),
    "per_token": (lambda x: isobit.fake_quantize_per_token_affine(x, T, None, -8, 7), (X,)),
    "group": (lambda x: isobit.fake_quantize_per_channel_group_affine(x, G, None, -8, 7, 3), (X,)),
    "codes": (
        lambda x, s: isobit.dequantize_per_channel(
            isobit.quantize_per_channel(x, s, None, 0, -8, 7, torch.float32), s, None, 0, -8, 7, torch.float32
        ),
        (X, S),
    ),
    "integer_codes": (lambda x: isobit.quantize_per_channel(x, S, Z, 0, -8, 7, torch.int8).float() * 1.5, (X.clone(),)),
    "dynamic": (lambda x: isobit.quantize_per_token_dynamic(x)[1] * 2, (X,)),
    "embedding": (lambda w: isobit.embedding(IDX, w, padding_idx=-1).sin(), (X,)),
    "bag": (lambda w: isobit.embedding_bag(IDX, w, padding_idx=-1).sin(), (X,)),
    "bag_max": (lambda w: isobit.embedding_bag(IDX, w, mode="max").sin(), (X,)),
    "bag_weighted": (lambda w, p: isobit.embedding_bag(IDX, w, mode="sum", per_sample_weights=p), (X, draw(2, 2))),
    "spatial": (spatial, (IMAGE, draw(2, 2, 3, spread=0.5))),
    "quantized_linear": (isobit.quantized_linear, (X, draw(3, 6), draw(3))),
    "linear": (isobit.linear, (X, draw(3, 6), draw(3))),
    "matmul": (isobit.matmul, (X, draw(2, 6, 3))),
}


@pytest.mark.parametrize("backend", ("aot_eager", "inductor"))
@pytest.mark.parametrize("name", PROGRAMS)
def test_compile_gives_eager_bits(name, backend):
    if backend == "inductor" and name not in ("fake_quantize", "spatial", "quantized_linear"):
        pytest.skip("a C++ compilation each: a sample")
    function, args = PROGRAMS[name]
    torch._dynamo.reset()
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
    torch._dynamo.reset()
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
    torch._dynamo.reset()

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


BATCHED = (
    "fake_quantize",
    "fake_quantize_by_number",
    "per_token",
    "codes",
    "spatial",
    "bag",
    "bag_max",
    "bag_weighted",
    "linear",
    "matmul",
)


@pytest.mark.parametrize("name", BATCHED)
def test_vmap_and_gradients(name):
    function, args = PROGRAMS[name]
    args = tuple(a.detach() for a in args)
    batch = torch.stack([args[0], args[0] * 0.5, args[0] + 1])
    rest = args[1:]
    dims = (0, *[None] * len(rest))
    assert_same(vmap(function, dims)(batch, *rest), torch.stack([function(b, *rest) for b in batch]))
    inner = vmap(function, (1, *[None] * len(rest)), 1)(batch.movedim(0, 1), *rest)
    assert_same(inner, torch.stack([function(b, *rest) for b in batch], 1))

    def loss(*a):
        return function(*a).square().sum()

    want = torch.stack([grad(loss)(b, *rest) for b in batch])
    leaf = args[0].clone().requires_grad_()
    assert_same(grad(loss)(args[0], *rest), torch.autograd.grad(loss(leaf, *rest), leaf)[0])
    assert_same(vmap(grad(loss), dims)(batch, *rest), want)
    assert_same(grad(lambda b: vmap(function, dims)(b, *rest).square().sum())(batch), want)
    torch._dynamo.reset()
    compiled = torch.compile(lambda *a: grad(loss)(*a), fullgraph=True, backend="aot_eager")
    assert_same(compiled(args[0], *rest), want[0])
    if rest:
        every = tuple(torch.stack([a, a * 1.5, a * 0.5]) for a in rest)
        got = vmap(function)(batch, *every)
        assert_same(got, torch.stack([function(*a) for a in zip(batch, *every, strict=True)]))


def test_the_ops_of_torch_within_its_transforms():
    """torch.library gives its own ops no derivative there."""
    ops = torch.ops.isobit
    for raw, f in (
        (lambda x: ops.matmul(x, x.t(), None), lambda x: isobit.matmul(x, x.t())),
        (lambda x: ops.embedding(x, IDX), lambda x: isobit.embedding(IDX, x)),
        (
            lambda x: ops.fake_quantize_per_tensor_affine(x, *ops.choose_qparams_per_tensor(x, *R), *R),
            lambda x: isobit.fake_quantize_per_tensor_affine(x, *isobit.choose_qparams_per_tensor(x), *R),
        ),
    ):
        for transform in (jacrev, lambda f: jacrev(lambda x: f(x).sin().sum())):
            assert_same(transform(raw)(X), transform(f)(X))
            assert_same(vmap(transform(raw))(X[None]), transform(f)(X)[None])
    assert_same(
        jacrev(jacrev(lambda x: ops.matmul(x, x.t(), None).sin().sum()))(X),
        jacrev(jacrev(lambda x: isobit.matmul(x, x.t()).sin().sum()))(X),
    )
    with pytest.raises(RuntimeError, match="backward has no second derivative"):
        jacrev(jacrev(lambda x: ops.fake_quantize_per_tensor_affine(x, S[0], None, *R).sin().sum()))(X)


@pytest.mark.parametrize("name", (*BATCHED, "dynamic", "dynamic_of_blocks", "quantized_linear"))
def test_vmap_within_vmap(name):
    of_blocks = lambda x: isobit.quantize_per_block_dynamic(x, [2, 3], symmetric=True)[0] * 2  # noqa: E731
    function, args = (PROGRAMS | {"dynamic_of_blocks": (of_blocks, (X,))})[name]
    first, *rest = (a.detach() for a in args)
    batch = torch.stack([torch.stack([first * (3 * i + j + 1) for j in range(3)]) for i in range(2)])
    dims = (0, *[None] * len(rest))
    got = vmap(vmap(function, dims), dims)(batch, *rest)
    assert_same(got, torch.stack([torch.stack([function(b, *rest) for b in row]) for row in batch]))


def test_vmap_of_embedding_and_linear():
    indices = torch.randint(0, 4, (5, 3))
    assert_same(vmap(isobit.embedding, (0, None))(indices, X), isobit.embedding(indices, X))
    weights = torch.stack([X, X + 1])
    assert_same(
        vmap(isobit.embedding, (None, 0))(IDX, weights), torch.stack([isobit.embedding(IDX, w) for w in weights])
    )
    x, w, b = draw(3, 4, 6), draw(5, 6), draw(5)
    assert_same(vmap(isobit.quantized_linear, (0, None, None))(x, w, b), isobit.quantized_linear(x, w, b))


def test_jacobian():
    weight = draw(3, 2)
    jacobian = jacrev(lambda w: isobit.embedding(torch.tensor([2, 0]), w))(weight)
    want = torch.zeros(2, 2, 3, 2)
    for i, row in enumerate((2, 0)):
        for d in range(2):
            want[i, d, row, d] = 1
    assert_same(jacobian, want)


def test_jacobian_of_a_batch_of_tangents():
    x, w = draw(2, 1, 3, 4), draw(3, 4, 2)
    jacobian = torch.autograd.functional.jacobian
    forward = jacobian(lambda t: isobit.matmul(t, w), x, vectorize=True, strategy="forward-mode")
    assert_same(forward, jacobian(lambda t: isobit.matmul(t, w), x))


def test_the_gradient_of_embeddings_gradient_leaves_out_what_it_does():
    grad, indices = draw(4, 3).requires_grad_(), torch.tensor([0, -1, 5, 2])
    for keywords in ({}, {"padding_idx": 2}, {"scale_grad_by_freq": True}):
        (second,) = torch.autograd.grad(isobit.embedding_backward(grad, indices, 5, **keywords).sum(), grad)
        want = torch.tensor([1.0, 0.0, 0.0, float("padding_idx" not in keywords)])
        assert_same(second, want[:, None].expand(4, 3))
    (second,) = torch.autograd.grad(isobit.embedding_backward(grad, indices, 0).sum(), grad)
    assert_same(second, torch.zeros(4, 3))


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
