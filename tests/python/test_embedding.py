"""embedding: by the reference, max_norm, padding, and the gradient of its gradient."""

import isobit
import pytest
import torch
from kit import FLOATS, NAMES, assert_same, draw, expect, layouts, spell


@pytest.mark.filterwarnings("ignore")
def test_vmap_over_tables_with_max_norm():
    tables, indices = draw(3, 6, 4), torch.tensor([[1, 2], [5, 0], [1, 1]])
    want = tables.clone()
    each = torch.stack([isobit.embedding(i, t, max_norm=1.0) for i, t in zip(indices, want, strict=True)])
    got = tables.movedim(0, 1).clone()
    assert_same(torch.vmap(lambda i, t: isobit.embedding(i, t, max_norm=1.0), in_dims=(0, 1))(indices, got), each)
    assert_same(got.movedim(1, 0), want)
    with pytest.raises(RuntimeError, match="embedding_renorm_: vmap over indices cannot write"):
        torch.vmap(lambda i: isobit.embedding(i, got[:, 0].clone(), max_norm=1.0))(indices)


def test_a_gradient_for_padding_below_zero_is_as_without():
    dy, indices = draw(3, 2), torch.tensor([1, 2, 0])
    for padding_idx in ((), (-7,)):
        got = isobit.embedding_backward(dy, indices, 5, *padding_idx)
        assert_same(got, torch.zeros(5, 2).index_copy(0, indices, dy))


def test_an_inference_tensor_is_not_scaled_outside():
    with torch.inference_mode():
        weight = draw(6, 4)
    with pytest.raises(RuntimeError, match="embedding_renorm_: weight is an inference tensor"):
        isobit.embedding_renorm_(weight, torch.tensor([1]), 0.1)


@pytest.mark.parametrize("inference", (False, True))
def test_no_weight_to_scale(inference):
    """torch's dispatcher takes None for a Tensor."""
    with torch.inference_mode(inference), pytest.raises(TypeError, match="embedding_renorm_: weight must be a Tensor"):
        torch.ops.isobit.embedding_renorm_(None, torch.tensor([1]), 0.1)


def test_max_norm_in_forward_mode():
    weight, indices, ones = draw(4, 3), torch.tensor([0, 2]), torch.ones(4, 3)

    def f(of, x):
        return of.embedding(indices, x * 1, max_norm=1.0)

    got, want = (torch.func.jvp(lambda x, of=of: f(of, x), (weight,), (ones,)) for of in (isobit, torch.nn.functional))
    torch.testing.assert_close(got, want)
    with pytest.raises(NotImplementedError, match="embedding_renorm_: weight has a tangent"):
        torch.func.jvp(lambda x: isobit.embedding_renorm_(x * 1, indices, 1.0), (weight,), (ones,))


def test_max_norm_of_a_negative_view():
    """Its elements lie with the other sign: rows are scaled, and stay a view of what they were one of."""
    indices = torch.tensor([3, 1, 3])
    pairs = draw(5, 3, 2) * 9
    for treat in (
        lambda t: isobit.embedding_renorm_(t, indices, 1.0),
        lambda t: isobit.embedding(indices, t, max_norm=1.0),
        lambda t: isobit.embedding_bag(indices, t, torch.tensor([0, 1]), max_norm=1.0),
    ):
        plain = torch.view_as_complex(pairs.clone()).conj()
        negative = plain.imag
        want = negative.resolve_neg()
        assert negative.is_neg() and not want.is_neg()
        version = negative._version
        assert_same(treat(negative).resolve_neg(), treat(want))
        assert_same(negative.resolve_neg(), want)
        assert_same(plain.imag.resolve_neg(), want)
        assert negative._version > version


def test_the_gradient_of_embeddings_gradient_leaves_out_what_it_does():
    grad, indices = draw(4, 3).requires_grad_(), torch.tensor([0, -1, 5, 2])
    for keywords in ({}, {"padding_idx": 2}, {"scale_grad_by_freq": True}):
        y, v = isobit.embedding_backward(grad, indices, 5, **keywords), torch.ones(5, 3, requires_grad=True)
        (second,) = torch.autograd.grad(y, grad, v, create_graph=True)
        want = torch.tensor([1.0, 0.0, 0.0, float("padding_idx" not in keywords)])
        assert_same(second.detach(), want[:, None].expand(4, 3))
        assert_same(
            torch.autograd.grad(second, v, grad.detach())[0], y.detach()
        )  # linear in both: whose gradient is it
    (second,) = torch.autograd.grad(isobit.embedding_backward(grad, indices, 0).sum(), grad)
    assert_same(second, torch.zeros(4, 3))


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("index", (torch.int32, torch.int64), ids=NAMES.get)
def test_embedding(dtype, index):
    weight = draw(13, 6, dtype=dtype, special=True)
    for shape in ((4, 5), (7,), (), (0,), (2, 0, 3)):
        indices = torch.randint(0, 13, shape, dtype=index)
        words = f"weight={spell(weight, True)} indices={spell(indices, True)}"
        want = expect(f"embedding {words}", weight, indices)
        for _, w in layouts(weight):
            assert_same(isobit.embedding(indices, w), want)
        for padding in (None, 3, -2):
            assert_same(isobit.embedding(indices, weight, padding), want)
        dy = draw(*shape, 6, dtype=dtype, seed=4)
        for padding in (-1, 3):
            for frequency in (False, True):
                text = (
                    f"embedding_backward grad_output={spell(dy, True)} indices={spell(indices, True)} "
                    f"grad_weight={spell(weight, True)} padding_idx={padding} scale_grad_by_freq={str(frequency).lower()}"
                )
                want_grad = expect(text, dy, indices)
                assert_same(isobit.embedding_backward(dy, indices, 13, padding, frequency), want_grad)


@pytest.mark.parametrize("norm_type", (0.0, 1.0, 2.0, float("inf"), float("-inf")))
def test_embedding_renorm(norm_type):
    weight = draw(9, 33)
    weight[3, 5] = 0
    indices = torch.tensor([[0, 3], [3, 8]])
    max_norm = 2.5 if norm_type >= 0 else 1e-3
    words = f"weight={spell(weight, True)} indices={spell(indices, True)} max_norm={max_norm} norm_type={norm_type:g}"
    want = expect(f"embedding_renorm {words}", weight, indices)
    torch.testing.assert_close(want, torch.embedding_renorm_(weight.clone(), indices, max_norm, norm_type))
    version = weight._version
    y = isobit.embedding(indices, weight, max_norm=max_norm, norm_type=norm_type)
    assert_same(weight, want)
    assert_same(y, want[indices])
    assert weight._version > version


def test_sparse_gradients_leave_out_a_padding_row_of_0():
    weight, indices = draw(5, 3).requires_grad_(), torch.tensor([0, 3, 0, 1])
    for sparse in (True, False):
        weight.grad = None
        isobit.embedding(indices, weight, 0, sparse=sparse).sum().backward()
        assert_same(weight.grad.to_dense(), torch.tensor([0.0, 1, 0, 1, 0])[:, None].expand(5, 3))
        assert not sparse or weight.grad.indices().tolist() == [[1, 3]]
    with pytest.raises(RuntimeError, match="embedding: scale_grad_by_freq does not work with a sparse gradient"):
        isobit.embedding(indices, weight, scale_grad_by_freq=True, sparse=True).sum().backward()


@pytest.mark.parametrize("padding_idx", [None, 0, -1])
@pytest.mark.parametrize(("rows", "times"), [(40, 32), (40, 1), (8000, 32)])  # marked; sorted, as few or far apart
def test_a_sparse_gradient_is_the_dense_one(rows, times, padding_idx):
    weight, indices = draw(rows, 3).requires_grad_(), torch.tensor([7, 0, rows - 1, 7, 3, 0, 3, 7] * times)
    dy = draw(len(indices), 3)
    found = [i for i in (0, 3, 7, rows - 1) if padding_idx is None or i != padding_idx % rows]
    bags = {"offsets": torch.tensor([0, 3, 3, 7]), "mode": "mean"}
    for f, grad, more in ((isobit.embedding, dy, {}), (isobit.embedding_bag, dy[:4], bags)):
        for dtype in (torch.int32, torch.int64):
            given = (indices.to(dtype), weight)
            dense, sparse = (
                torch.autograd.grad(f(*given, padding_idx=padding_idx, sparse=s, **more), weight, grad)[0]
                for s in (False, True)
            )
            assert sparse.indices().tolist() == [found]
            assert_same(sparse.to_dense(), dense)


@pytest.mark.filterwarnings("ignore:Error detected")
@pytest.mark.filterwarnings("error:Dynamo does not know")
def test_what_is_not_compiled_is_left_to_python():
    """A sparse gradient, which torch.compile fails at: it then looks at every function on the way."""
    torch._dynamo.utils.counters.clear()
    weight, bags = draw(5, 2).requires_grad_(), torch.tensor([[0, 3]])
    torch.compile(isobit.embedding_bag, backend="aot_eager")(bags, weight, sparse=True).sum().backward()
    assert weight.grad.is_sparse
    assert not torch._dynamo.utils.counters["graph_break"]
