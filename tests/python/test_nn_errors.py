"""What isobit.nn refuses: a sentence that names the argument, and nothing is seen or changed."""

import copy

import pytest
import torch
from isobit.nn import (
    FakeQuantize,
    FakeQuantizedEmbedding,
    FakeQuantizedLinear,
    HistogramObserver,
    LearnableFakeQuantize,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MSEObserver,
    QuantizedLinear,
    ServedLinear,
    SpatialTransformer,
    WeightOnlyLinear,
    convert,
    prepare,
)
from kit import assert_same, draw
from nn_models import INT8


@pytest.mark.parametrize(
    "bad",
    (torch.arange(6), torch.ones(3, dtype=torch.complex64), torch.ones([1] * 9), None),
    ids=lambda v: getattr(v, "dtype", v),
)
@pytest.mark.parametrize(
    "made",
    (
        LearnableFakeQuantize,
        lambda: LearnableFakeQuantize(start="min_max"),
        FakeQuantize,
        lambda: FakeQuantize(HistogramObserver),
        MinMaxObserver,
        HistogramObserver,
        lambda: FakeQuantizedLinear(6, 2, activation_fake_quantizer=FakeQuantize()),
    ),
)  # fmt: skip
def test_what_a_module_refuses_it_has_not_seen(made, bad):
    module = made()
    before = copy.deepcopy(module.state_dict())
    with pytest.raises((TypeError, ValueError), match=rf"^{type(module).__name__}: input (is|has|must be) "):
        module(bad)
    after = module.state_dict()
    assert all(torch.equal(v, after[k]) for k, v in before.items())


WARP = SpatialTransformer(torch.nn.Flatten())
BATCHED = SpatialTransformer(torch.nn.Unflatten(0, (1, 2)))


def table():
    return convert(prepare(torch.nn.Embedding(4, 3), embedding=INT8))


@pytest.mark.parametrize(
    ("error", "message", "call"),
    (
        (TypeError, "observer is a NoneType", lambda: FakeQuantize(None)),
        (TypeError, "observer is a MinMaxObserver; want a class", lambda: FakeQuantize(MinMaxObserver())),
        (TypeError, "config is a str", lambda: FakeQuantize.from_config("int8")),
        (ValueError, "eps is -1.0", lambda: MinMaxObserver(eps=-1.0)),
        (ValueError, "averaging_constant is 2.0", lambda: MovingAverageMinMaxObserver(2.0)),
        (ValueError, "averaging_constant is nan", lambda: MovingAverageMinMaxObserver(float("nan"))),
        (TypeError, "weight_fake_quantizer is None", lambda: FakeQuantizedEmbedding(3, 4, weight_fake_quantizer=None)),
        (TypeError, "weight_fake_quantizer is a ReLU", lambda: FakeQuantizedLinear(3, 4, weight_fake_quantizer=torch.nn.ReLU())),
        (ValueError, r"shape \[3, 4\] has scales of shape \[4\]; want \[5\]", lambda: LearnableFakeQuantize(channels=5, ch_axis=1)(draw(3, 4))),
        (TypeError, "convert: module must be a torch.nn.Module", lambda: convert(None)),
        (TypeError, "prepare: module must be a torch.nn.Module", lambda: prepare(None, weight=INT8)),
        (TypeError, "MinMaxObserver: eps must be a float", lambda: MinMaxObserver(eps="a")),
        (TypeError, "MinMaxObserver: quant_min must be an int", lambda: MinMaxObserver(quant_min="a")),
        (TypeError, "MinMaxObserver: reduce_range must be a bool", lambda: MinMaxObserver(reduce_range=1)),
        (TypeError, "MinMaxObserver: ch_axis must be an int", lambda: MinMaxObserver(ch_axis="0")),
        (TypeError, "MinMaxObserver: hp_value_ub must be a float", lambda: MinMaxObserver(hp_value_ub="1")),
        (TypeError, "MinMaxObserver: hp_value_lb must be a float", lambda: MinMaxObserver(hp_value_lb="1")),
        (ValueError, "MinMaxObserver: eps is inf", lambda: MinMaxObserver(eps=float("inf"))),
        (ValueError, r"MinMaxObserver: eps is 1e\+300; want at least 0, and finite in float32", lambda: MinMaxObserver(eps=1e300)),
        (TypeError, "MinMaxObserver: group_size must be an int", lambda: MinMaxObserver(group_size=2.5)),
        (TypeError, "MinMaxObserver: quant_max must be an int", lambda: MinMaxObserver(quant_max=True)),
        (TypeError, "MinMaxObserver: is_dynamic must be a bool", lambda: MinMaxObserver(is_dynamic="no")),
        (ValueError, "MinMaxObserver: scale_dtype is torch.int8", lambda: MinMaxObserver(scale_dtype=torch.int8)),
        (TypeError, "MinMaxObserver: rounding must be a str, not None", lambda: MinMaxObserver(rounding=None)),
        (ValueError, "want -128 <= quant_min < quant_max <= 127", lambda: MinMaxObserver(torch.int8, quant_min=0, quant_max=0)),
        (ValueError, "quant_min and quant_max are 1 and 5; want 0 between them", lambda: MinMaxObserver(torch.int8, quant_min=1, quant_max=5)),
        (ValueError, "quant_min and quant_max are -5 and -1; want 0 between them", lambda: MinMaxObserver(torch.int8, quant_min=-5, quant_max=-1)),
        (ValueError, "MinMaxObserver: rounding is 'x'", lambda: MinMaxObserver(rounding="x")),
        (TypeError, "MinMaxObserver: factory_kwargs must be a dict, not int", lambda: MinMaxObserver(factory_kwargs=1)),
        (TypeError, "LearnableFakeQuantize: factory_kwargs must be a dict, not str", lambda: LearnableFakeQuantize(factory_kwargs="cpu")),
        (TypeError, "averaging_constant must be a float", lambda: MovingAverageMinMaxObserver("a")),
        (TypeError, "LearnableFakeQuantize: start must be a str, not 1", lambda: LearnableFakeQuantize(start=1)),
        (ValueError, "8-bit float codes have a scale only", lambda: LearnableFakeQuantize(-448, 448, dtype=torch.float8_e4m3fn, learn_zero_point=True)),
        (ValueError, "LearnableFakeQuantize: rounding is 'x'", lambda: LearnableFakeQuantize(rounding="x")),
        (ValueError, "LearnableFakeQuantize: eps is nan", lambda: LearnableFakeQuantize(eps=float("nan"))),
        (ValueError, r"block_size is \[0, 2\]; want an extent of at least 1", lambda: MinMaxObserver(block_size=[0, 2])(draw(4, 6))),
        (ValueError, "LearnableFakeQuantize: group_size is 0; want", lambda: LearnableFakeQuantize(group_size=0, shape=[4])),
        (TypeError, "from_config: group_size must be an int, not 1.5", lambda: FakeQuantize.from_config(dtype="int4", group_size=1.5)),
        (ValueError, "want one of a channel's axis, group_size", lambda: MinMaxObserver(group_size=4, block_size=(2, 2))),
        (TypeError, "MinMaxObserver: block_size must be", lambda: MinMaxObserver(block_size=3)),
        (TypeError, "from_config: eps must be a", lambda: FakeQuantize.from_config(INT8, eps="")),
        (TypeError, "FakeQuantize: is_dynamic must be a bool, not 'no'", lambda: FakeQuantize(is_dynamic="no")),
        (TypeError, "from_config: is_dynamic must be a bool, not 'no'", lambda: FakeQuantize.from_config(INT8, is_dynamic="no")),
        (TypeError, "from_config: range_learning must be a bool, not 1", lambda: FakeQuantize.from_config(INT8, range_learning=1)),
        (ValueError, "WeightOnlyLinear: codes is torch.float32; want", lambda: WeightOnlyLinear(4, 4, codes=torch.float32)),
        (TypeError, "WeightOnlyLinear: group_size must be an int, not None", lambda: WeightOnlyLinear(4, 4, group_size=None)),
        (ValueError, "WeightOnlyLinear: group_size is 0; want", lambda: WeightOnlyLinear(4, 4, group_size=0)),
        (TypeError, "WeightOnlyLinear: symmetric must be a bool", lambda: WeightOnlyLinear(4, 4, symmetric=1)),
        (TypeError, "FakeQuantizedLinear: exact must be a bool", lambda: FakeQuantizedLinear(4, 4, exact="no")),
        (TypeError, "prepare: exact must be a bool", lambda: prepare(torch.nn.Linear(4, 4), INT8, exact="no")),
        (TypeError, "prepare: inplace must be a bool", lambda: prepare(torch.nn.Linear(4, 4), INT8, inplace=1)),
        (TypeError, "convert: inplace must be a bool", lambda: convert(torch.nn.ReLU(), "yes")),
        (TypeError, "HistogramObserver: bins must be an int, not 2.5", lambda: HistogramObserver(2.5)),
        (ValueError, "HistogramObserver: bins is 0; want at least 1", lambda: HistogramObserver(0)),
        (TypeError, "ServedLinear: weight_codes must be a Tensor, not list", lambda: ServedLinear([1], draw(1))),
        (ValueError, r"ServedLinear: weight_codes has shape \[3\]; want \[N, K\]", lambda: ServedLinear(draw(3).to(torch.int8), draw(1))),
        (ValueError, r"ServedLinear: weight_scale has shape \[3\]; want \[2\]", lambda: ServedLinear(draw(2, 3).to(torch.int8), draw(3))),
        (ValueError, r"ServedLinear: bias has shape \[2, 1\]; want \[2\]", lambda: ServedLinear(draw(2, 3).to(torch.int8), draw(2), draw(2, 1))),
        (TypeError, "ServedLinear: bias must be a Tensor, not list", lambda: ServedLinear(draw(2, 3).to(torch.int8), draw(2), [1, 2])),
        (TypeError, "MSEObserver: steps must be an int", lambda: MSEObserver(steps=1.5)),
        (ValueError, "MSEObserver: steps is 0; want at least 1", lambda: MSEObserver(steps=0)),
        (ValueError, "MSEObserver: smallest is 0.0; want more than 0", lambda: MSEObserver(smallest=0.0)),
        (ValueError, "MSEObserver: smallest is 1.5; want more than 0 and at most 1", lambda: MSEObserver(smallest=1.5)),
        (TypeError, "SpatialTransformer: localisation must be a torch.nn.Module or another callable, not NoneType", lambda: SpatialTransformer(None)),
        (TypeError, "SpatialTransformer: size must be", lambda: SpatialTransformer(torch.nn.Identity(), 7)),
        (ValueError, r"size is \(1,\); want a height", lambda: SpatialTransformer(torch.nn.Identity(), (1,))),
        (ValueError, r"SpatialTransformer: input has shape \[2, 3\]", lambda: SpatialTransformer(torch.nn.Identity())(draw(2, 3))),
        (ValueError, r"localisation gives shape \[1, 27\] for an input of \[1, 3, 3, 3\]; want \[1, 6\] or", lambda: WARP(draw(1, 3, 3, 3))),
        (TypeError, "SpatialTransformer: localisation's result must be a Tensor, not list", lambda: SpatialTransformer(lambda x: [x])(draw(1, 3, 3, 3))),
        (ValueError, r"localisation gives shape \[\] for an input of", lambda: SpatialTransformer(torch.sum)(draw(1, 3, 3, 3))),
        (ValueError, r"localisation gives shape \[1, 2, 1, 2, 3\] for an input of \[2, 1, 2, 3\]; want \[2, 6\] or", lambda: BATCHED(draw(2, 1, 2, 3))),
        (ValueError, r"SpatialTransformer: size is \(0, 3\)", lambda: SpatialTransformer(torch.nn.Identity(), (0, 3))),
        (TypeError, "SpatialTransformer: input must be a Tensor, not NoneType", lambda: SpatialTransformer(torch.nn.Identity())(None)),
        (ValueError, "LearnableFakeQuantize: group_size and block_size want shape", lambda: LearnableFakeQuantize(group_size=4)),
        (ValueError, "LearnableFakeQuantize: group_size and block_size want shape", lambda: LearnableFakeQuantize(block_size=(2, 2))),
        (ValueError, "quant_max >= 1, not -8 and 0", lambda: LearnableFakeQuantize(-8, 0)),
        (TypeError, "MSEObserver: smallest must be a float", lambda: MSEObserver(smallest="a")),
        (TypeError, "FakeQuantizedLinear: input must be a Tensor", lambda: FakeQuantizedLinear(2, 2)(None)),
        (TypeError, "FakeQuantizedEmbedding: input must be a Tensor, not list", lambda: table()([1])),
        (ValueError, "FakeQuantizedEmbedding: input is torch.float32; want one of torch.int32", lambda: table()(draw(2))),
        (IndexError, "FakeQuantizedEmbedding: input is 4 at position 0; want 0 to 3", lambda: table()(torch.tensor([4]))),
        (IndexError, "FakeQuantizedEmbedding: input is -1 at position 0; want 0 to 3", lambda: table()(torch.tensor([-1]))),
    ),
)  # fmt: skip
def test_modules_name_what_is_wrong(error, message, call):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("kind", (torch.nn.Embedding, torch.nn.EmbeddingBag))
@pytest.mark.parametrize("bad", (-1, 4))
def test_an_index_out_of_range_is_one_under_vmap(kind, bad):
    """Where tensors have no values to name, and torch gathers rows another way."""
    layer = convert(prepare(kind(4, 3), embedding=INT8))
    with pytest.raises(IndexError, match="^Served.*: input has an index out of range; want 0 to 3"):
        torch.vmap(layer)(torch.tensor([[[0, 1]], [[2, bad]]]))


def test_a_layer_names_the_input_that_does_not_fit():
    for layer in (prepare(torch.nn.Linear(8, 5), INT8), QuantizedLinear(8, 5).served()):
        for shape in ((3, 7), ()):
            with pytest.raises(ValueError, match=rf"{type(layer).__name__}: input has shape .*; want \[..., 8\]"):
                layer(draw(*shape))


@pytest.mark.parametrize("on", (True, False), ids=("faking", "not faking"))
@pytest.mark.parametrize("kind", (torch.nn.Linear, torch.nn.Embedding, torch.nn.EmbeddingBag))
def test_convert_refuses_hooks_that_make_other_values_of_a_weight(kind, on):
    """What it keeps are the codes of the weight: such values were lost."""
    plain = prepare(kind(8, 4), **{"weight" if kind is torch.nn.Linear else "embedding": LearnableFakeQuantize})
    plain.weight_fake_quantizer(plain.weight), plain.weight_fake_quantizer.enable_fake_quant(on)
    for register, hook in (
        ("register_forward_pre_hook", lambda m, args: (args[0] * 2,)),
        ("register_forward_hook", lambda m, args, y: y.abs()),
        *([("register_forward_hook", lambda m, args, y: args[0])] if on else []),
    ):
        layer = copy.deepcopy(plain)
        getattr(layer.weight_fake_quantizer, register)(lambda m, args, *_: args[0] * 2 if m.training else None)
        convert(layer)
        getattr(layer.weight_fake_quantizer, register)(hook)
        state = copy.deepcopy(layer.state_dict())
        with pytest.raises(ValueError, match="convert: a forward hook of a FakeQuantized.* changes what comes of the"):
            convert(layer, inplace=True)
        assert_same(tuple(layer.state_dict().values()), tuple(state.values()))
