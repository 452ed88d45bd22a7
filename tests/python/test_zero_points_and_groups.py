"""Linear layers of activations with zero points and weights in groups, as torch.ao's and torchao's schemes have them: exact
integer products, the same trained, in eval mode and served."""

import copy
import io

import isobit
import pytest
import torch
import torch.ao.quantization as ao
from isobit.nn import (
    FakeQuantize,
    FakeQuantizedLinear,
    LearnableFakeQuantize,
    PerChannelMinMaxObserver,
    convert,
    prepare,
)
from kit import assert_same, draw, same

K, N = 300, 40  # the last group of 32 columns has 12
INT8_TOKENS = {"dtype": torch.int8, "granularity": "per_token", "mapping_type": "asymmetric"}
CHANNELS = {"dtype": torch.qint8, "qscheme": torch.per_channel_symmetric}
SCHEMES = {
    "torch.ao's default": (FakeQuantize.with_args(observer=PerChannelMinMaxObserver, **CHANNELS), FakeQuantize),
    "torch.ao's own observers": (
        FakeQuantize.with_args(observer=ao.MovingAveragePerChannelMinMaxObserver, **CHANNELS),
        FakeQuantize.with_args(observer=ao.MovingAverageMinMaxObserver, reduce_range=True),
    ),
    "torchao's 8da4w": ({"dtype": torch.int4, "group_size": 32}, INT8_TOKENS),
    "unsigned weights": (FakeQuantize.with_args(observer=PerChannelMinMaxObserver, qscheme=torch.per_channel_affine), FakeQuantize.with_args(is_dynamic=True)),
    "unsigned groups": ({"dtype": torch.uint4, "group_size": 7, "is_symmetric": False}, INT8_TOKENS),
    "learned": (
        {"dtype": torch.int4, "group_size": 32, "is_symmetric": False, "range_learning": True},
        LearnableFakeQuantize.with_args(quant_min=0, quant_max=255, learn_zero_point=True, start="min_max"),
    ),
}  # fmt: skip
each_scheme = pytest.mark.parametrize("name", SCHEMES)


def trained_layer(name, dtype=torch.float32):
    """After a step, in eval mode, with what was wanted of it."""
    torch.manual_seed(0)
    layer = prepare(torch.nn.Linear(K, N), *SCHEMES[name]).to(dtype)
    optimizer = torch.optim.SGD(layer.parameters(), 0.01)
    for seed in range(2):
        layer(inputs(dtype, seed)).square().mean().backward()
        optimizer.step()
    return layer


def inputs(dtype=torch.float32, seed=0):
    return (draw(4, 3, K, seed=seed) + 1).to(dtype)


def values_of(layer, x):
    """Fake-quantized input and weight, in float64."""
    return layer.activation_fake_quantizer(x.double()), layer.weight_fake_quantizer(layer.weight.double())


@each_scheme
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16, torch.float64), ids=str)
def test_training_eval_and_serving_have_one_value(name, dtype):
    layer, x, threads = trained_layer(name, dtype), inputs(dtype), torch.get_num_threads()
    layer.apply(isobit.nn.disable_observer)
    want, served = layer(x).detach(), convert(layer)
    assert served.product == "integer_groups" and "product=integer_groups" in str(served)
    assert_same(layer.eval()(x).detach(), want)
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            assert_same(served(x), want)
            assert_same(layer(x).detach(), want)
    finally:
        torch.set_num_threads(threads)
    assert_same(served(x[1, 2]), layer(x[1, 2]).detach())


@each_scheme
def test_the_value_is_that_of_a_linear_layer(name):
    """But for roundings of float32: one of each sum and each product of scales, and one for each group that is added."""
    layer = trained_layer(name).eval()
    x, w = (t.detach() for t in values_of(layer, inputs()))
    bias = layer.bias.detach().double()
    exact, terms = torch.nn.functional.linear(x, w, bias), torch.nn.functional.linear(x.abs(), w.abs(), bias.abs())
    groups = layer.weight_fake_quantizer.scale.numel() // N if name != "unsigned groups" else -(-K // 7)
    bound = (max(groups, 1) + 12) * 2**-24 * 2
    # Scales of the layer in float64 are those in float32 where they come with the data.
    error = (convert(layer)(inputs()).double() - exact).abs()
    assert (error <= bound * terms).all(), (error / terms).max() / bound


@each_scheme
def test_gradients_are_those_of_a_linear_layer_of_the_values(name):
    layer, dy = trained_layer(name).eval(), draw(4, 3, N, seed=3)
    leaves = [inputs().requires_grad_(), *layer.parameters()]
    got = torch.autograd.grad(layer(leaves[0]), leaves, dy)
    x, w = layer.activation_fake_quantizer(leaves[0]), layer.weight_fake_quantizer(layer.weight)
    assert_same(got, torch.autograd.grad(isobit.linear(x, w, layer.bias), leaves, dy))
    served, leaf = convert(layer), inputs().requires_grad_()
    assert_same(torch.autograd.grad(served(leaf), leaf, dy)[0], got[0])


@each_scheme
def test_compiled_exported_saved_and_loaded(name):
    layer, x = trained_layer(name), inputs()
    served = convert(layer)
    want = served(x)
    assert_same(torch.compile(served, fullgraph=True, backend="aot_eager", dynamic=True)(x), want)
    assert_same(torch.compile(layer.eval(), fullgraph=True, backend="aot_eager")(x).detach(), want)
    file = io.BytesIO()
    torch.export.save(torch.export.export(served, (x,), dynamic_shapes=({0: torch.export.Dim("rows")},)), file)
    file.seek(0)
    program = torch.export.load(file).module()
    for rows in (x, x[:2]):
        assert_same(program(rows), served(rows))
    fresh = convert(prepare(torch.nn.Linear(K, N), *SCHEMES[name]).eval())
    fresh.load_state_dict(served.state_dict())
    assert_same(fresh(x), want)
    assert_same(copy.deepcopy(served)(x), want)
    assert_same(torch.vmap(served)(x), torch.stack([served(rows) for rows in x]))


@each_scheme
def test_states_are_those_that_products_of_values_had(name):
    """Packed codes stay so, and codes keep their sign: what was saved before loads."""
    layer = trained_layer(name)
    state = convert(layer).state_dict()
    layer.activation_fake_quantizer = None
    values = convert(layer)
    assert values.product == "codes"
    for key in ("weight.codes", "weight.scale", "weight.zero_point"):
        assert (key in state) == (key in values.state_dict())
        assert key not in state or key == "weight.scale" or assert_same(state[key], values.state_dict()[key]) is None


def test_a_served_layer_whose_quantizer_is_switched_off_multiplies_values():
    for name in SCHEMES:
        layer = trained_layer(name).eval()
        served, x = convert(layer), inputs()
        for model in (layer, served):
            model.activation_fake_quantizer.disable_fake_quant()
        assert_same(served(x), layer(x).detach())
        served.activation_fake_quantizer.enable_fake_quant()
        served.activation_fake_quantizer.register_forward_hook(lambda m, args, y: y * 0.5)
        layer.activation_fake_quantizer.enable_fake_quant()
        layer.activation_fake_quantizer.register_forward_hook(lambda m, args, y: y * 0.5)
        assert_same(served(x), layer(x).detach())


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float64), ids=str)
def test_codes_that_come_with_their_parameters_are_those_that_they_make(dtype):
    """Of dynamic quantization a served layer chooses and rounds in one pass."""
    x = inputs(dtype)
    for dtypes in ({"dtype": torch.int8}, {"dtype": torch.uint8}, {"dtype": "int4"}, {"dtype": "uint6", "eps": 0.5}):
        for granularity in ("per_token", "per_tensor"):
            by = FakeQuantize.from_config(**dtypes, granularity=granularity, is_symmetric=False)
            codes, parameters = by.codes_for(x)
            assert_same(parameters[:2], by.parameters_for(x)[:2])
            assert (codes is None) == (dtype == torch.float64)  # in which the configuration wants no scale
            assert codes is None or same(codes, by.scheme.quantize(x, *parameters[:2], by.scheme.byte_dtype))
    middle = FakeQuantize.with_args(is_dynamic=True, dtype=torch.quint8, qscheme=torch.per_tensor_symmetric)()
    assert middle.codes_for(x)[0] is None  # whose zero point is no chosen one


def test_codes_of_seven_bits_and_zero_points_beyond_them():
    """Learned zero points are bounded by the codes there are, not by those that their bytes have."""
    activation = LearnableFakeQuantize(0, 100, learn_zero_point=True)
    weight = LearnableFakeQuantize(-4, 3, channels=N, learn_zero_point=True, dtype=torch.int8)
    layer = FakeQuantizedLinear(K, N, activation_fake_quantizer=activation, weight_fake_quantizer=weight)
    layer(inputs())
    for learned in (120.0, -9.0, 3.5, float("nan"), float("inf")):
        with torch.no_grad():
            activation.zero_point.fill_(learned)
            weight.zero_point.fill_(learned)
        served = convert(layer.eval())
        assert served.product == "integer_groups"
        y = layer(inputs()).detach()
        assert_same(served(inputs()), y)
        x, w = (t.detach() for t in values_of(layer, inputs()))
        torch.testing.assert_close(
            y.double(), torch.nn.functional.linear(x, w, layer.bias.double()), rtol=1e-5, atol=1e-3
        )
