"""vmap and the transforms of torch.func."""

import isobit
import pytest
import torch
from kit import assert_same, draw
from programs import IDX, PROGRAMS, R, S, X
from torch.func import grad, jacrev, jvp, vmap
from torch.utils._python_dispatch import TorchDispatchMode

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


@pytest.mark.parametrize(
    "call",
    (
        lambda t: torch.ops.isobit.grid_sample(None, t),
        lambda t: torch.ops.isobit.quantize_per_token(None, t, None, 0, 9, torch.int8),
    ),
)
def test_vmap_of_no_tensor(call):
    """torch's dispatcher takes None for a Tensor."""
    with pytest.raises(TypeError, match=": input must be a tensor, not NoneType"):
        vmap(call)(torch.ones(3, 2))


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
    compiled = torch.compile(lambda *a: grad(loss)(*a), fullgraph=True, backend="aot_eager")
    assert_same(compiled(args[0], *rest), want[0])
    if rest:
        every = tuple(torch.stack([a, a * 1.5, a * 0.5]) for a in rest)
        got = vmap(function)(batch, *every)
        assert_same(got, torch.stack([function(*a) for a in zip(batch, *every, strict=True)]))


@pytest.mark.parametrize("kind", ("quantized_linear", "matmul", "layer"))
def test_compiled_transforms_of_what_other_ops_compute(kind):
    """Dynamo of an autograd.Function takes the derivative of its forward there: 0, without a word."""
    weight, int8 = draw(3, 6), {"dtype": torch.int8, "granularity": "per_token"}
    layer = isobit.nn.prepare(torch.nn.Linear(6, 3), weight=int8, activation=int8).requires_grad_(False).eval()
    f = {
        "quantized_linear": lambda x: isobit.quantized_linear(x, weight),
        "matmul": lambda x: isobit.matmul(x, weight.t().expand(3, 1, 6, 3)),
        "layer": lambda x: layer(x),
    }[kind]
    x, compile = draw(2, 5, 6), {"backend": "aot_eager", "fullgraph": True}
    for call in (grad(lambda x: f(x).square().sum()), grad(lambda x: vmap(f)(x).square().sum())):
        torch._dynamo.reset()
        assert_same(torch.compile(call, **compile)(x), call(x))
    forward = torch.compile(lambda x: jvp(f, (x,), (x.cos(),)), **compile)
    if kind == "matmul":
        assert_same(forward(x), jvp(f, (x,), (x.cos(),)))
    else:
        with pytest.raises(Exception, match="has no derivative in forward mode"):
            forward(x)


def test_sparse_gradients_through_vmap_are_refused():
    table, bags = draw(5, 4), torch.tensor([[0, 1], [2, 2]])
    for name, f in (
        ("embedding", lambda w, i: isobit.embedding(i, w, sparse=True)),
        ("embedding_bag", lambda w, i: isobit.embedding_bag(i[None], w, sparse=True)),
    ):
        gradient = grad(lambda w, i, f=f: f(w, i).sum())
        with pytest.raises(NotImplementedError, match=f"^{name}: vmap has no sparse gradients; want sparse=False"):
            vmap(gradient, (None, 0))(table, bags)
        assert gradient(table, bags[0]).is_sparse


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


class Calls(TorchDispatchMode):
    """The names of the ops that run."""

    def __enter__(self):
        self.names = []
        return super().__enter__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


ROWS, COLUMNS, BLOCKS = draw(4).abs() + 0.1, draw(6).abs() + 0.1, draw(2, 2).abs() + 0.1
ONE_CALL = {
    "per_tensor": lambda x: isobit.fake_quantize_per_tensor_affine(x, 0.1, 0, *R),
    "axis 0": lambda x: isobit.fake_quantize_per_channel_affine(x, ROWS, None, 0, *R),
    "axis 1": lambda x: isobit.fake_quantize_per_channel_affine(x, COLUMNS, None, 1, *R),
    "axis -1": lambda x: isobit.fake_quantize_per_channel_affine(x, COLUMNS, None, -1, *R),
    "axis -2": lambda x: isobit.fake_quantize_per_channel_affine(x, ROWS, None, -2, *R),
    "per_token": lambda x: isobit.fake_quantize_per_token_affine(x, ROWS, None, *R),
    "blocks": lambda x: isobit.fake_quantize_per_block_affine(x, BLOCKS, None, [2, 3], *R),
    "grid_sample": lambda x: isobit.grid_sample(x[None, None], torch.zeros(1, 2, 2, 2)),
    "matmul": lambda x: isobit.matmul(x, x.new_ones(6, 2)),
    "quantized_linear_codes": lambda x: isobit.quantized_linear_codes(
        x.to(torch.int8), ROWS, torch.ones(2, 6, dtype=torch.int8), ROWS[:2]
    ),
    "quantized_linear_codes in groups": lambda x: isobit.quantized_linear_codes(
        x.to(torch.int8), ROWS, torch.ones(2, 6, dtype=torch.int8), BLOCKS, input_zero_point=x[:, 0], group_size=3
    ),
}


@pytest.mark.parametrize("name", ONE_CALL)
def test_a_batch_is_one_call(name):
    f, batch = ONE_CALL[name], draw(3, 4, 6)
    for dim in (0, 1):
        with Calls() as calls:
            got = vmap(f, dim)(batch.movedim(0, dim))
        assert sum(n.startswith("isobit::") for n in calls.names) == 1
        assert_same(got, torch.stack([f(x) for x in batch]))


@pytest.mark.parametrize("name", (*BATCHED, "linear_of_rows", "linear_of_a_row"))
def test_vmap_of_no_examples(name):
    linears = {f"linear_of_{what}": (isobit.linear, (x, X, S)) for what, x in (("rows", X[None]), ("a_row", X[0]))}
    function, args = (PROGRAMS | linears)[name]
    want = function(*args)
    none = tuple(a.detach()[None][:0] for a in args)
    assert vmap(function)(*none).shape == (0, *want.shape)
    gradients = vmap(grad(lambda *a: function(*a).sum(), tuple(range(len(none)))))(*none)
    assert [g.shape for g in gradients] == [a.shape for a in none]


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


@pytest.mark.parametrize("empty", (torch.zeros(0, 3), torch.zeros(2, 3, 0)))
def test_functionalize_differentiates_what_has_no_elements(empty):
    x, w = empty.clone().requires_grad_(), draw(empty.shape[-1], 4)
    for f in (
        lambda x: isobit.matmul(x, w),
        lambda x: isobit.linear(x, w.t()),
        lambda x: isobit.fake_quantize_per_tensor_affine(x, 0.5, 0, -8, 7),
        lambda x: isobit.fake_quantize_per_tensor_affine(x, 0.5, None, -8, 7, code_dtype=torch.float8_e4m3fn),
    ):
        y = torch.func.functionalize(f)(x)
        assert y.requires_grad and torch.autograd.grad(y.sum(), x)[0].shape == x.shape
