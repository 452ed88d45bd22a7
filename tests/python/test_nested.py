"""Nested tensors with a ragged dimension: rows for indices, products of rows."""

import isobit
import pytest
import torch
from kit import assert_same, draw


def test_rows_for_nested_indices():
    nested = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([0, 4, 3])], layout=torch.jagged)
    weight = draw(5, 3).requires_grad_()
    got, want = isobit.embedding(nested, weight), torch.nn.functional.embedding(nested, weight)
    assert got.is_nested and got.shape[0::2] == want.shape[0::2]
    assert_same(got.values().detach(), want.values().detach())
    dy = draw(5, 3, seed=1)
    assert_same(*(torch.autograd.grad(y.values(), (weight,), dy) for y in (got, want)))


def test_nested_indices_of_codes():
    nested = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([0, 4, 3])], layout=torch.jagged)
    trained = isobit.nn.prepare(
        torch.nn.Sequential(torch.nn.Embedding(5, 4)), embedding={"dtype": torch.int4, "group_size": 4}
    )
    served, want = isobit.nn.convert(trained), trained.eval()(nested)
    got = served(nested)
    assert got.is_nested and got.shape[0::2] == want.shape[0::2]
    assert_same(got.values(), want.values().detach())
    codes, scale = torch.arange(20, dtype=torch.int8).view(5, 4), draw(5, 1).abs()
    weights = torch.nested.nested_tensor_from_jagged(draw(5, seed=2), nested.offsets())
    call = {"group_size": 4, "mode": "sum"}
    assert_same(
        isobit.weight_only_embedding_bag(nested, codes, scale, per_sample_weights=weights, **call),
        isobit.embedding_bag(nested, codes * scale, mode="sum", per_sample_weights=weights),
    )
    with pytest.raises(ValueError, match="weight_only_embedding_bag: offsets were given, and input is nested"):
        isobit.weight_only_embedding_bag(nested, codes, scale, offsets=nested.offsets(), **call)
    with pytest.raises(
        ValueError, match="ServedFakeQuantizedEmbedding: input is torch.float32; want one of torch.int32"
    ):
        served(torch.nested.nested_tensor([draw(2), draw(3)], layout=torch.jagged))


def test_products_of_nested_rows():
    rows, w, dy = [draw(2, 6), draw(3, 6, seed=1)], draw(4, 6, seed=2).requires_grad_(), draw(5, 4, seed=3)
    nested = torch.nested.nested_tensor(rows, layout=torch.jagged)
    together = torch.cat(rows)
    compiled = torch.compile(isobit.linear, backend="eager", fullgraph=True)
    for f in (isobit.linear, lambda x, w: isobit.matmul(x, w.t()), compiled):
        y, want = f(nested, w), f(together, w)
        assert y.is_nested and y.shape[:2] == nested.shape[:2]
        assert_same((y + nested[..., :4]).values(), want + together[:, :4])  # of one raggedness
        assert_same(*(torch.autograd.grad(t, w, dy) for t in (y.values(), want)))
    assert_same(isobit.linear(nested.unsqueeze(2), w).values()[:, 0], isobit.linear(together, w))
    with pytest.raises(ValueError, match="linear: out does not go with a nested input"):
        isobit.linear(nested, w, out=torch.empty(0))
    with pytest.raises(ValueError, match="matmul: input is nested with gaps"):
        isobit.matmul(
            torch.nested.narrow(draw(2, 4, 6), 1, torch.zeros(2).long(), torch.tensor([1, 3]), torch.jagged), w.t()
        )
    with pytest.raises(TypeError, match="linear: input is a nested tensor; want a dense tensor"):
        isobit.linear(nested.transpose(1, 2), draw(3, 5))


@pytest.mark.parametrize(
    "activation", (None, {"dtype": torch.int8, "granularity": "per_token"}, isobit.nn.FakeQuantize)
)
def test_prepared_layers_of_nested_rows(activation):
    rows = [draw(2, 6), draw(3, 6, seed=1)]
    nested, together = torch.nested.nested_tensor(rows, layout=torch.jagged), torch.cat(rows)
    layer = isobit.nn.prepare(torch.nn.Linear(6, 4), {"dtype": torch.int8, "granularity": "per_channel"}, activation)
    want, dy = layer(together), draw(5, 4, seed=3)
    for f in (layer, torch.compile(layer, backend="eager", fullgraph=True)):
        y = f(nested)
        assert_same((y + nested[..., :4]).values(), want + together[:, :4])
        assert_same(*(torch.autograd.grad(t, layer.weight, dy, retain_graph=True) for t in (y.values(), want)))
    served = isobit.nn.convert(layer)
    assert_same(served(nested).values(), served(together))
    with pytest.raises(ValueError, match=r"FakeQuantizedLinear: input has shape \[5, 3\]; want \[..., 6\]"):
        layer(nested[..., :3])
