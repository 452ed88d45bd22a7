"""Fake-quantized tables of which only the rows in use are fake-quantized: with the bits of the whole."""

import isobit
import pytest
import torch
from isobit.nn import (
    FakeQuantize,
    FakeQuantizedEmbedding,
    FakeQuantizedEmbeddingBag,
    LearnableFakeQuantize,
    MinMaxObserver,
    convert,
    fake_quantized_embedding,
    prepare,
)
from kit import assert_same, draw

ROWS, COLUMNS = 50, 12
INDICES = torch.randint(0, ROWS, (7, 5), generator=torch.Generator().manual_seed(3))
INT8 = {"dtype": torch.int8, "granularity": "per_channel"}

BY_ROW = {
    "chosen": lambda: FakeQuantize.from_config(INT8),
    "chosen by group": lambda: FakeQuantize.from_config(dtype=torch.int4, group_size=4, is_symmetric=False),
    "chosen, float8": lambda: FakeQuantize.from_config(dtype=torch.float8_e4m3fn, granularity="per_channel"),
    "observed": lambda: FakeQuantize(MinMaxObserver, dtype=torch.qint8, qscheme=torch.per_channel_symmetric),
    "learned": lambda: LearnableFakeQuantize(-128, 127, channels=ROWS, learn_zero_point=True),
    "learned by group": lambda: LearnableFakeQuantize(-8, 7, group_size=4, shape=[ROWS, COLUMNS]),
    "learned by block": lambda: LearnableFakeQuantize(-8, 7, block_size=[1, 6], shape=[ROWS, COLUMNS]),
}
SHARED = {
    "chosen": lambda: FakeQuantize.from_config(dtype=torch.int8, granularity="per_tensor"),
    "learned": lambda: LearnableFakeQuantize(-128, 127),
    "learned along columns": lambda: LearnableFakeQuantize(-128, 127, channels=COLUMNS, ch_axis=1),
    "learned by block": lambda: LearnableFakeQuantize(-8, 7, block_size=[5, 6], shape=[ROWS, COLUMNS]),
}
LAYERS = {
    "embedding": (FakeQuantizedEmbedding, {}, ()),
    "by frequency": (FakeQuantizedEmbedding, {"scale_grad_by_freq": True}, ()),
    "with padding": (FakeQuantizedEmbedding, {"padding_idx": int(INDICES[2, 1])}, ()),
    "padding that does not occur": (FakeQuantizedEmbedding, {"padding_idx": 49}, ()),
    "bags": (FakeQuantizedEmbeddingBag, {"mode": "sum"}, (None, draw(7, 5))),
    "means": (FakeQuantizedEmbeddingBag, {"padding_idx": int(INDICES[0, 0]), "include_last_offset": True}, (torch.tensor([0, 4, 4, 30]),)),
    "maxima": (FakeQuantizedEmbeddingBag, {"mode": "max"}, ()),
}  # fmt: skip


def taking(monkeypatch, rows):
    """Has tables taken as a whole, or by the rows in use."""
    monkeypatch.setattr(fake_quantized_embedding, "_SMALL", 0 if rows else 1 << 60)
    monkeypatch.setattr(fake_quantized_embedding, "_ROWS", 0 if rows else 5)


def trained(name, by, dtype=torch.float32, indices=INDICES, **keywords):
    """The result of a layer, and its gradients."""
    kind, own, rest = LAYERS[name]
    torch.manual_seed(0)
    layer = kind(ROWS, COLUMNS, dtype=dtype, weight_fake_quantizer=by(), **own, **keywords)
    if rest[:1] != (None,) and rest:
        indices, rest = indices.flatten(), tuple(t.to(indices.dtype) for t in rest)
    rest = tuple(
        t.detach().to(dtype, copy=True).requires_grad_() if t is not None and t.is_floating_point() else t for t in rest
    )
    layer(indices[:1].flatten()[None])  # observes, or starts
    y = layer(indices, *rest)
    y.backward(draw(*y.shape).to(dtype))
    gradients = [p.grad.to_dense() if p.grad.is_sparse else p.grad for p in layer.parameters()]
    assert layer.weight.grad.is_sparse == keywords.get("sparse", False)
    return y, *gradients, *(t.grad for t in rest if t is not None and t.requires_grad)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float64))
@pytest.mark.parametrize("fake", BY_ROW)
@pytest.mark.parametrize("name", LAYERS)
def test_rows_in_use_have_the_bits_of_the_whole(name, fake, dtype, monkeypatch):
    for indices in (INDICES, INDICES.int()):
        taking(monkeypatch, rows=False)
        whole = trained(name, BY_ROW[fake], dtype, indices)
        sparse = trained(name, BY_ROW[fake], dtype, indices, sparse=True)
        taking(monkeypatch, rows=True)
        for want, *came in zip(whole, sparse, trained(name, BY_ROW[fake], dtype, indices), strict=True):
            for y in came:
                assert_same(y, want)


@pytest.mark.parametrize("fake", SHARED)
@pytest.mark.parametrize("name", LAYERS)
def test_sparse_gradients_where_rows_share_parameters(name, fake, monkeypatch):
    """The sum of a shared scale's gradient is one of the rows in use, in another order: a dense table is taken whole."""
    taking(monkeypatch, rows=True)
    whole, sparse = trained(name, SHARED[fake]), trained(name, SHARED[fake], sparse=True)
    assert_same(sparse[0], whole[0])
    assert_same(sparse[1], whole[1])
    for y, want in zip(sparse[2:], whole[2:], strict=True):
        torch.testing.assert_close(y, want)


def test_a_large_table_is_not_written_as_a_whole(monkeypatch):
    layer = FakeQuantizedEmbedding(1 << 15, 16, weight_fake_quantizer=FakeQuantize.from_config(INT8))
    seen = []
    rounded = type(layer.weight_fake_quantizer.scheme).fake_quantize
    monkeypatch.setattr(
        type(layer.weight_fake_quantizer.scheme),
        "fake_quantize",
        lambda scheme, x, *rest: seen.append(len(x)) or rounded(scheme, x, *rest),
    )
    layer(torch.tensor([5, 7, 5]))
    layer(torch.arange(1 << 14))  # of most rows
    layer.weight_fake_quantizer.register_forward_hook(lambda module, args, y: None)
    layer(torch.tensor([5, 7, 5]))
    assert seen == [2, 1 << 15, 1 << 15]


@pytest.mark.parametrize("register", ("register_forward_hook", "register_full_backward_hook"))
def test_hooks_see_the_whole_table(register):
    layer = FakeQuantizedEmbedding(9, 4, sparse=True, weight_fake_quantizer=FakeQuantize.from_config(INT8))
    shapes = []
    hook = getattr(layer.weight_fake_quantizer, register)(lambda module, a, b: shapes.append(a[0].shape))
    layer(torch.tensor([3, 3])).sum().backward()
    assert shapes == [(9, 4)] and not layer.weight.grad.is_sparse
    hook.remove()
    layer.weight.grad = None
    layer(torch.tensor([3, 3])).sum().backward()
    assert layer.weight.grad.is_sparse


@pytest.mark.parametrize("sparse", (False, True))
def test_what_is_no_row_is_named(sparse, monkeypatch):
    taking(monkeypatch, rows=True)
    layer = FakeQuantizedEmbedding(9, 4, sparse=sparse, weight_fake_quantizer=FakeQuantize.from_config(INT8))
    with pytest.raises(IndexError, match="embedding: input is 9 at position 1; want 0 to 8"):
        layer(torch.tensor([3, 9]))
    with pytest.raises(IndexError, match="embedding: input is -1 at position 2; want 0 to 8"):
        layer(torch.tensor([3, 3, -1]))
    with pytest.raises(ValueError, match="input is torch.float32"):
        layer(torch.tensor([3.0]))
    assert layer(torch.empty(0, 2, dtype=torch.int64)).shape == (0, 2, 4)


def test_a_sparse_model_trains_and_serves():
    """As one whose gradients are dense, and of which SGD writes rows without a gradient, too."""
    torch.manual_seed(0)
    layers = torch.nn.Embedding(30, 8), torch.nn.EmbeddingBag(30, 8, mode="sum")
    results = []
    for sparse in (False, True):
        model = torch.nn.ModuleList(
            [type(m)(30, 8, sparse=sparse, **({} if i == 0 else {"mode": "sum"})) for i, m in enumerate(layers)]
        )
        model.load_state_dict(torch.nn.ModuleList(layers).state_dict())
        model = prepare(model, embedding=INT8)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(3):
            optimizer.zero_grad()
            x = torch.randint(0, 30, (4, 3), generator=torch.Generator().manual_seed(step))
            (model[0](x).sum(1) * model[1](x)).square().sum().backward()
            assert model[0].weight.grad.is_sparse == sparse
            optimizer.step()
        served = convert(model)
        assert_same(served[1](x), model.eval()[1](x))
        results.append([served[0](x), *(p.detach() for p in model.parameters())])
    for dense, sparse in zip(*results, strict=True):
        assert_same(sparse, dense)


def test_nested_and_compiled():
    layer = FakeQuantizedEmbedding(9, 4, sparse=True, weight_fake_quantizer=FakeQuantize.from_config(INT8))
    nested = torch.nested.nested_tensor([torch.tensor([1, 2]), torch.tensor([8])], layout=torch.jagged)
    assert_same(layer(nested).values(), layer(torch.tensor([1, 2, 8])))
    bags = FakeQuantizedEmbeddingBag(9, 4, sparse=True, weight_fake_quantizer=FakeQuantize.from_config(INT8))
    assert_same(bags(nested), bags(torch.tensor([1, 2, 8]), torch.tensor([0, 2])))
    x = torch.tensor([[1, 2], [2, 8]])
    y = torch.compile(layer, backend="aot_eager")(x)
    assert_same(y, layer(x))
    y.sum().backward()
    assert layer.weight.grad.is_sparse
    assert_same(isobit.nn.convert(layer)(x), y.detach())
