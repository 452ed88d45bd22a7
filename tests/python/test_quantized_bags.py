"""Embedding bags of fake-quantized weights: trained, and served as codes with the same bits."""

import copy
import pickle

import isobit
import pytest
import torch
from isobit.nn import (
    FakeQuantize,
    FakeQuantizedEmbeddingBag,
    LearnableFakeQuantize,
    MinMaxObserver,
    ServedFakeQuantizedEmbeddingBag,
    convert,
    disable_fake_quant,
    prepare,
)
from kit import assert_same, draw
from nn_models import INT8

ROWS, COLUMNS = 12, 11
CONFIGS = {
    "rows": INT8,
    "packed groups": {"dtype": "uint4", "group_size": 4, "is_symmetric": False},
    "learned": {"dtype": "int4", "group_size": 4, "range_learning": True, "is_dynamic": False},
    "float8": {"dtype": torch.float8_e4m3fn, "granularity": "per_row"},
    "tensor": FakeQuantize.with_args(observer=MinMaxObserver, dtype=torch.uint8, qscheme=torch.per_tensor_affine),
    "switched off": lambda: FakeQuantize(dtype=torch.int8).apply(disable_fake_quant),
}
INDICES = torch.tensor([3, 3, 0, 11, 5, 2, 2, 3, 7, 0, 4, 2])
# Bags: of a 2-D input, by offsets (one is empty, one is padding alone), by offsets with the last one.
BAGS = {
    "rows": ({}, (INDICES.reshape(4, 3),)),
    "offsets": ({"padding_idx": 2}, (INDICES, torch.tensor([0, 5, 5, 7]))),
    "last offset": ({"include_last_offset": True, "padding_idx": -9}, (INDICES.int(), torch.tensor([0, 4, 12]).int())),
    "no indices": ({"padding_idx": 0}, (INDICES[:0], torch.tensor([0, 0]))),
}


def layer(config, mode="sum", dtype=torch.float32, **keywords):
    torch.manual_seed(0)
    plain = torch.nn.EmbeddingBag(ROWS, COLUMNS, mode=mode, dtype=dtype, **keywords)
    made = prepare(plain, embedding=config)
    assert type(made) is FakeQuantizedEmbeddingBag and type(plain) is torch.nn.EmbeddingBag
    return made


@pytest.mark.parametrize("mode", ("sum", "mean", "max"))
@pytest.mark.parametrize("bags", BAGS)
@pytest.mark.parametrize("config", CONFIGS)
def test_bags_are_served_with_their_bits(config, bags, mode):
    for dtype in (torch.float32, torch.bfloat16):
        keywords, given = BAGS[bags]
        trained = layer(CONFIGS[config], mode, dtype, **keywords)
        optimizer = torch.optim.SGD(trained.parameters(), 0.1)
        trained(*given).sum().backward()
        assert trained.weight.grad.shape == (ROWS, COLUMNS)
        optimizer.step()
        served = convert(trained)
        assert type(served) is ServedFakeQuantizedEmbeddingBag and not list(served.parameters())
        want = trained.eval()(*given).detach()
        weight = trained.weight_fake_quantizer(trained.weight).detach()
        theirs = torch.nn.functional.embedding_bag(given[0], weight.float(), *given[1:], mode=mode, **keywords)
        torch.testing.assert_close(want.float(), theirs, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=1e-5)
        assert_same(served(*given), want)
        assert_same(pickle.loads(pickle.dumps(served))(*given), want)
        other = layer(CONFIGS[config], mode, dtype, **keywords)
        other(*given)  # as it was before the step
        other = convert(other)
        other.load_state_dict(served.state_dict())
        assert_same(other(*given), want)


@pytest.mark.parametrize("padding_idx", (None, 2))
def test_weights_of_samples_and_their_gradient(padding_idx):
    trained = layer(INT8, padding_idx=padding_idx).eval()
    served, offsets, results = convert(trained), torch.tensor([0, 5, 5, 7]), []
    for by in (trained, served):
        weights = draw(len(INDICES)).requires_grad_()
        y = by(INDICES, offsets, weights)
        results.append((y.detach(), *torch.autograd.grad(y.square().sum(), weights)))
    assert_same(*results)


def test_a_padding_row_without_numbers_is_left_out():
    """All positions of the padding share one row of the table that is dequantized."""
    trained = layer(INT8, mode="max", padding_idx=3).eval()
    trained.weight.data[3] = torch.nan
    assert_same(convert(trained)(INDICES.reshape(4, 3)), trained(INDICES.reshape(4, 3)).detach())


COLUMNWISE = FakeQuantize.with_args(dtype=torch.int8, qscheme=torch.per_channel_symmetric, ch_axis=1)


@pytest.mark.parametrize(("config", "dtype"), ((INT8, torch.float64), (COLUMNWISE, torch.float32)))
def test_bags_that_are_not_summed_as_codes(config, dtype):
    trained = layer(config, dtype=dtype)
    trained(INDICES.reshape(4, 3))
    trained.eval()
    assert_same(convert(trained)(INDICES.reshape(4, 3)), trained(INDICES.reshape(4, 3)).detach())


def test_jagged_bags():
    trained = layer(INT8, padding_idx=2).eval()
    nested = torch.nested.nested_tensor_from_jagged(INDICES, torch.tensor([0, 4, 4, 12]))
    want = trained(INDICES, torch.tensor([0, 4, 4])).detach()
    for by in (trained, convert(trained)):
        assert_same(by(nested).detach(), want)


def test_bags_of_codes_in_exported_compiled_and_traced_programs():
    given = INDICES, torch.tensor([0, 5, 5, 7])
    for config in ("rows", "packed groups"):
        served = convert(layer(CONFIGS[config], padding_idx=2))
        want = served(*given)
        assert_same(torch.export.export(served, given).module()(*given), want)
        assert_same(torch.compile(served, backend="aot_eager", fullgraph=True)(*given), want)
        assert_same(torch.fx.symbolic_trace(served)(*given), want)


def test_a_pretrained_table_of_bags():
    weight, fake = draw(9, 4), FakeQuantize(MinMaxObserver)
    bags = FakeQuantizedEmbeddingBag.from_pretrained(weight, mode="sum", padding_idx=2, weight_fake_quantizer=fake)
    assert bags.weight.data_ptr() == weight.data_ptr() and not bags.weight.requires_grad and bags.padding_idx == 2
    assert_same(bags(torch.tensor([[1, 2], [2, 3]])), fake.eval()(weight)[[1, 3]])


def served():
    return convert(layer(INT8))


@pytest.mark.parametrize(
    ("error", "message", "call"),
    (
        (TypeError, "FakeQuantizedEmbeddingBag: weight_fake_quantizer is None; want a module", lambda: FakeQuantizedEmbeddingBag(3, 4, weight_fake_quantizer=None)),
        (TypeError, "FakeQuantizedEmbeddingBag: weight_fake_quantizer is a ReLU", lambda: FakeQuantizedEmbeddingBag(3, 4, weight_fake_quantizer=torch.nn.ReLU())),
        (ValueError, "FakeQuantizedEmbeddingBag: want max_norm=None", lambda: FakeQuantizedEmbeddingBag(3, 4, 1.0, weight_fake_quantizer=LearnableFakeQuantize())),
        (ValueError, "has max_norm", lambda: layer(INT8, max_norm=1.0)),
        (TypeError, "FakeQuantizedEmbeddingBag: input must be a Tensor, not list", lambda: served()([[1]])),
        (ValueError, "FakeQuantizedEmbeddingBag: input is torch.float32; want one of torch.int32", lambda: served()(draw(2, 2))),
        (IndexError, "FakeQuantizedEmbeddingBag: input is 12 at position 2; want 0 to 11", lambda: served()(torch.tensor([[11, 0], [12, -1]]))),
        (IndexError, "FakeQuantizedEmbeddingBag: input is -1 at position 3; want 0 to 11", lambda: served()(torch.tensor([[0, 11], [3, -1]]))),
        (ValueError, "offsets", lambda: served()(INDICES)),
        (ValueError, "offsets", lambda: served()(INDICES.reshape(4, 3), torch.tensor([0]))),
        (ValueError, "embedding_bag: offsets is 1 at position 0", lambda: served()(INDICES, torch.tensor([1, 2]))),
        (ValueError, "per_sample_weights", lambda: served()(INDICES, torch.tensor([0]), draw(3))),
    ),
)  # fmt: skip
def test_bags_name_what_is_wrong(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_a_model_with_bags_and_lookups_is_prepared():
    model = torch.nn.ModuleList([torch.nn.Embedding(4, 3), torch.nn.EmbeddingBag(4, 3)])
    prepared = prepare(model, embedding=INT8, filter_fn=lambda m, name: name == "1")
    assert [type(m) for m in prepared] == [torch.nn.Embedding, FakeQuantizedEmbeddingBag]
    twice = copy.deepcopy(prepared)
    assert_same(twice[1](torch.tensor([[1, 2]])).detach(), prepared[1](torch.tensor([[1, 2]])).detach())


CODES = {torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int4: (-8, 7), torch.uint4: (0, 15)}


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("columns", (11, 64))
def test_bags_of_codes_are_those_of_the_dequantized_table(dtype, columns):
    """With every gradient, of short bags and of one of more than a chunk."""
    size, rows = 16, 700
    table, zero = draw(ROWS, columns), torch.randint(0, 5, (ROWS, -(-columns // size)), dtype=torch.int32)
    scale = draw(*zero.shape).abs() + 0.1
    codes = isobit.quantize_per_channel_group(table, scale, zero, *CODES[dtype], dtype, size)
    input, offsets = torch.randint(ROWS, (rows,)), torch.tensor([0, 3, 3, 40, 400])
    for zero_point in (None, zero, zero.float()):
        leaves = [t.requires_grad_() for t in (draw(rows), scale.clone(), zero.float()) if zero_point is not zero]
        weights, s = leaves[:2] if leaves else (draw(rows), scale)
        z = leaves[2] if leaves and zero_point is not None else zero_point
        for output_dtype in (torch.float32, torch.bfloat16):
            factors = weights.to(output_dtype)
            keys = {"mode": "sum", "per_sample_weights": factors, "padding_idx": 3}
            values = isobit.dequantize_per_channel_group(
                codes, s, z, *CODES[dtype], dtype, size, output_dtype=output_dtype, last_dim=columns
            )
            want = isobit.embedding_bag(input, values, offsets, **keys)
            given = {"group_size": size, "dtype": dtype, "output_dtype": output_dtype, "last_dim": columns}
            y = isobit.weight_only_embedding_bag(input, codes, s, z, offsets, **given, **keys)
            with torch.no_grad():
                assert_same(isobit.weight_only_embedding_bag(input, codes, s, z, offsets, **given, **keys), want)
            assert_same(y.detach(), want.detach())
            if leaves:
                wanted = leaves[: 2 + (z is not None)]
                found = torch.autograd.grad(y.float().square().sum(), wanted)
                assert_same(found, torch.autograd.grad(want.float().square().sum(), wanted))


@pytest.mark.parametrize("wanted", ("", "per_sample_weights", "weight_scale", "weight_zero_point"))
@pytest.mark.parametrize(
    ("bad", "message"),
    (
        ({"input": torch.tensor([1, 5, 0])}, "input is 5 at position 1; want 0 to 4"),
        ({"input": draw(3)}, "input is torch.float32; want one of torch.int32"),
        ({"offsets": torch.tensor([1, 2])}, "offsets is 1 at position 0; want 0 to 0"),
        ({"per_sample_weights": draw(3).double()}, "per_sample_weights is torch.float64; want torch.float32"),
        ({"weight_scale": draw(7, 2)}, r"weight_scale has shape \[7, 2\]; want \[5, 2\]"),
        ({"weight_zero_point": draw(9, 2)}, r"weight_zero_point has shape \[9, 2\]; want \[5, 2\]"),
        ({"group_size": 0}, "group_size is 0; want at least 1"),
        ({"output_dtype": torch.int8}, "output_dtype is torch.int8; want one of torch.float32"),
    ),
)
def test_bags_of_codes_name_what_is_wrong(bad, message, wanted):
    """With and without a gradient, whose steps are other ops with arguments of other names."""
    given = {
        "input": torch.tensor([1, 2, 0]),
        "weight": torch.ones(5, 6, dtype=torch.int8),
        "weight_scale": draw(5, 2),
        "weight_zero_point": draw(5, 2),
        "offsets": torch.tensor([0, 2]),
        "group_size": 3,
        "mode": "sum",
        "per_sample_weights": draw(3),
    } | bad
    if wanted:
        given[wanted] = given[wanted].clone().requires_grad_()
    with pytest.raises((ValueError, IndexError), match=f"weight_only_embedding_bag: {message}"):
        isobit.weight_only_embedding_bag(**given)


def test_bags_of_codes_say_that_there_is_no_forward_mode():
    codes, scale = torch.ones(5, 6, dtype=torch.int8), draw(5, 2)

    def bags(weights):
        return isobit.weight_only_embedding_bag(
            torch.tensor([[1, 2]]), codes, scale, group_size=3, mode="sum", per_sample_weights=weights
        )

    with pytest.raises(NotImplementedError, match="weight_only_embedding_bag has no derivative in forward mode"):
        torch.func.jvp(bags, (draw(1, 2),), (draw(1, 2),))
