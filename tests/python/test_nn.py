"""isobit.nn."""

import copy
from pathlib import Path

import isobit
import pytest
import torch
from isobit.nn import (
    Embedding,
    EmbeddingBag,
    FakeQuantize,
    LearnableFakeQuantize,
    QuantizedLinear,
    SpatialTransformer,
    convert,
    prepare,
)
from kit import FLOATS, NAMES, assert_same, draw
from torch._subclasses.fake_tensor import FakeTensorMode


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("bias", (True, False))
def test_the_served_layer_has_the_trained_bits(dtype, bias):
    layer = QuantizedLinear(37, 11, bias=bias).to(dtype)
    x = draw(3, 5, 37, dtype=dtype)
    served = layer.served()
    assert_same(served(x), layer(x))
    assert {t.dtype for n, t in served.state_dict().items() if n == "weight_codes"} == {torch.int8}
    assert not list(served.parameters())
    with torch.no_grad():
        assert_same(served(x), layer(x))


def test_quantized_linear_trains():
    torch.manual_seed(0)
    layer = torch.nn.Sequential(QuantizedLinear(8, 16), torch.nn.ReLU(), QuantizedLinear(16, 1))
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.02)
    x = draw(256, 8, spread=1)
    y = (x[:, :1] * x[:, 1:2]).sin()
    losses = []
    for _ in range(150):
        loss = torch.nn.functional.mse_loss(layer(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]


def test_embedding_is_torchs():
    for keywords in ({}, {"padding_idx": 2}, {"max_norm": 1.0}, {"scale_grad_by_freq": True}, {"sparse": True}):
        torch.manual_seed(0)
        ours = Embedding(7, 4, **keywords)
        torch.manual_seed(0)
        torchs = torch.nn.Embedding(7, 4, **keywords)
        indices = torch.tensor([[1, 2, 2], [5, 2, 1]])
        a, b = ours(indices), torchs(indices)
        assert torch.allclose(a, b)
        a.sin().sum().backward()
        b.sin().sum().backward()
        assert torch.allclose(ours.weight.grad.to_dense(), torchs.weight.grad.to_dense())


@pytest.mark.parametrize("channels", (None, 6))
def test_fake_quantize(channels):
    module = LearnableFakeQuantize(-8, 7, channels=channels, ch_axis=1, learn_zero_point=True)
    x = draw(5, 6, 4).requires_grad_()
    y = module(x)
    assert module.initialized and (module.scale > 0).all() and (module.channels, module.ch_axis) == (channels, 1)
    y.square().sum().backward()
    assert x.grad is not None and module.scale.grad.abs().sum() > 0 and module.zero_point.grad is not None
    codes = (y / module.scale.reshape(1, -1, 1)).detach()
    assert (codes - codes.round()).abs().max() < 1e-4
    before = module.scale.detach().clone()
    module.eval()(x * 9)
    assert_same(module.scale.detach(), before)
    with pytest.raises(ValueError, match="quant_min"):
        LearnableFakeQuantize(7, -8)


def test_values_and_codes_are_rounded_as_the_scheme_says():
    x, results = torch.arange(-100.0, 101.0) * 0.015, []  # halfway between codes
    for rounding in ("nearest", "reciprocal"):
        fake = FakeQuantize(dtype=torch.int8, rounding=rounding).apply(isobit.nn.disable_observer)
        learned = LearnableFakeQuantize(rounding=rounding).apply(isobit.nn.disable_observer)
        for module in (fake, learned):
            module.scale.detach().fill_(0.03)
        bounds = fake.scale, None, -128, 127
        results.append(isobit.fake_quantize_per_tensor_affine(x, *bounds, rounding=rounding))
        assert_same((fake(x), learned(x).detach()), results[-1:] * 2)
        codes = fake.scheme.quantize(x, fake.scale, fake.zero_point)
        assert_same(codes, isobit.quantize_per_tensor(x, *bounds, torch.int8, rounding=rounding))
    assert not torch.equal(*results)


def test_fake_quantize_with_a_buffer():
    module = LearnableFakeQuantize(learn_scale=False)
    assert not list(module.parameters())
    module(draw(4, 4))
    assert "scale" in module.state_dict()


def test_spatial_transformer_starts_from_no_warp():
    last = torch.nn.Linear(36, 6)
    torch.nn.init.zeros_(last.weight)
    module = SpatialTransformer(torch.nn.Sequential(torch.nn.Flatten(), last))
    with torch.no_grad():
        last.bias.copy_(module.identity())
    x = draw(3, 1, 6, 6)
    assert torch.allclose(module(x), x, atol=1e-5)
    module.size = (3, 4)
    assert module(x).shape == (3, 1, 3, 4)
    assert SpatialTransformer(module.localisation, (1, 1))(x).shape == (3, 1, 1, 1)
    corners = SpatialTransformer(module.localisation, (2, 2), align_corners=True)(x)
    assert torch.allclose(corners, x[..., ::5, ::5], atol=1e-5)
    assert_same(torch.fx.symbolic_trace(module)(x), module(x))
    module(x).square().sum().backward()
    assert last.weight.grad.abs().sum() > 0


def test_in_bfloat16_and_compiled():
    model = torch.nn.Sequential(
        QuantizedLinear(6, 5), LearnableFakeQuantize(channels=5, ch_axis=1), QuantizedLinear(5, 2)
    )
    x = draw(4, 6)
    model(x)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_same(compiled(x), model(x))
    half = model.bfloat16()
    assert half(x.bfloat16()).dtype == torch.bfloat16
    assert isobit.nn.__all__


@pytest.mark.parametrize("kind", (isobit.nn.Linear, isobit.nn.QuantizedLinear))
def test_linear_layers_are_torchs(kind):
    """Built, saved, traced and exported as torch.nn.Linear is, whose state they take."""
    theirs = torch.nn.Linear(6, 4)
    ours = kind(6, 4)
    ours.load_state_dict(theirs.state_dict())
    x = draw(3, 2, 6)
    want = ours(x)
    assert (want - theirs(x)).abs().max() < 0.2 and isinstance(ours, torch.nn.Linear)
    model = torch.nn.Sequential(ours)
    batch = torch.export.Dim("batch")
    exported = torch.export.export(model, (x,), dynamic_shapes=({0: batch},)).module()
    for other in (torch.fx.symbolic_trace(model), torch.jit.trace(model, x), exported, copy.deepcopy(model)):
        assert_same(other(x).detach(), want.detach())
    assert_same(exported(x[:2]).detach(), want[:2].detach())


def asks_for_huge_pages(t):
    """Whether memory in the middle of t asks Linux for them."""
    at = t.data_ptr() + t.nbytes // 2
    for line in Path("/proc/self/smaps").read_text().splitlines():
        word = line.split()[0]
        if "-" in word:
            begin, end = (int(address, 16) for address in word.split("-"))
        elif word == "VmFlags:" and begin <= at < end:
            return "hg" in line.split()
    return False


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="Linux has no huge pages here")
def test_large_tables_are_in_huge_pages():
    large = 1 << 19  # rows: more memory than malloc keeps for later
    config = {"dtype": torch.int8, "granularity": "per_channel"}
    try:
        for on in (False, True):
            isobit.set_huge_pages(on)
            for kind in (Embedding, EmbeddingBag):
                layer = kind(large, 80)
                served = convert(prepare(torch.nn.Sequential(layer), embedding=config))[0]
                for table in (layer.weight, served.weight.codes):
                    assert asks_for_huge_pages(table) == on
    finally:
        isobit.set_huge_pages(True)
    with FakeTensorMode():
        assert Embedding(large, 80).weight.shape == (large, 80)
    assert Embedding(large, 80, device="meta").weight.is_meta
