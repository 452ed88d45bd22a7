"""Training with fake quantization: the start of learned scales, layers of codes, and whole models converted."""

import copy
import pickle

import isobit
import pytest
import torch
from isobit.nn import (
    FakeQuantize,
    FakeQuantizedEmbedding,
    FakeQuantizedLinear,
    LearnableFakeQuantize,
    MinMaxObserver,
    QuantizedLinear,
    WeightOnlyLinear,
    convert,
    prepare,
)
from kit import assert_same, draw
from torch.nn.utils import prune

SYMMETRIC, CHANNEL = torch.per_tensor_symmetric, torch.per_channel_symmetric
PACKED = [getattr(torch, name) for name in ("int8", "uint8", "int4", "uint4") if hasattr(torch, name)]


def test_a_learned_zero_point_is_served_as_the_integer_it_stands_for():
    module = LearnableFakeQuantize(-8, 7, channels=7, learn_zero_point=True)
    with torch.no_grad():
        module.zero_point.copy_(torch.tensor([0.5, 1.5, -2.4, 2.6, -90.0, float("inf"), float("nan")]))
    served = convert(module)
    assert_same(served.zero_point, torch.tensor([0, 2, -2, 3, -8, 7, 0], dtype=torch.int32))
    x = draw(7, 50, spread=9)
    assert_same(served(x), module.eval()(x).detach())


def test_the_start_of_a_learned_scale():
    x = draw(3, 10)
    module = LearnableFakeQuantize(-8, 7, group_size=4, shape=x.shape)
    module(x)
    want = torch.stack([2 * part.abs().mean(1) / 7**0.5 for part in x.split(4, 1)], 1)
    torch.testing.assert_close(module.scale.detach(), want)
    big, starts = draw(2, 100_001), []
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            module = LearnableFakeQuantize()
            module.set_scale(big)
            starts.append(module.scale.detach())
    finally:
        torch.set_num_threads(threads)
    assert_same(starts[1:], starts[:1] * 2)
    for message, keywords in (
        ("want shape", {"group_size": 4}),
        ("want shape", {"block_size": (2, 2)}),
        ("quant_max >= 1, not -8 and 0", {"quant_min": -8, "quant_max": 0}),
        ("one of", {"channels": 3, "group_size": 4, "shape": (3, 4)}),
        ("uint8 has 0 to 255", {"dtype": torch.uint8}),
        ("int8 has -128 to 127", {"quant_max": 200, "dtype": torch.int8}),
        ("scale only", {"dtype": torch.float8_e4m3fn, "learn_zero_point": True}),
    ):
        with pytest.raises(ValueError, match=message):
            LearnableFakeQuantize(**keywords)
    assert LearnableFakeQuantize(channels=1).scale.shape == (1,)
    assert [LearnableFakeQuantize(0, most).dtype for most in (127, 255)] == [torch.int8, torch.uint8]
    with pytest.raises(ValueError, match="no type holds codes of -1000 to 1000"):
        convert(FakeQuantizedLinear(3, 3, weight_fake_quantizer=LearnableFakeQuantize(-1000, 1000)))


@pytest.mark.parametrize("bounds", ((-128, 200), (-200, 127)))
def test_codes_that_no_byte_holds_are_multiplied_as_values(bounds):
    weight, activation = LearnableFakeQuantize(*bounds), FakeQuantize(dtype=torch.int8, qscheme=SYMMETRIC)
    layer = FakeQuantizedLinear(5, 3, weight_fake_quantizer=weight, activation_fake_quantizer=activation)
    y = layer(draw(2, 5))
    assert_same(y, isobit.linear(activation(draw(2, 5)), weight(layer.weight), layer.bias))


@pytest.mark.parametrize("codes", PACKED, ids=str)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=str)
def test_weight_only_linear(codes, dtype):
    symmetric = codes.is_signed and codes != getattr(torch, "uint4", None)
    module = WeightOnlyLinear(21, 5, group_size=8, codes=codes, symmetric=symmetric, dtype=dtype)
    x = draw(2, 3, 21, dtype=dtype).requires_grad_()
    y = module(x)
    q, s, z = isobit.quantize_per_channel_group_dynamic(module.weight, 8, codes, symmetric=symmetric)
    want = isobit.weight_only_linear(x, q, s, z, module.bias, group_size=8, dtype=codes)
    assert_same(y.detach(), want.detach())
    served = convert(torch.nn.Sequential(module))
    assert_same(served[0].weight.codes, q)
    assert_same(served(x).detach(), want.detach())
    dy = draw(2, 3, 5, dtype=dtype)
    got = torch.autograd.grad(y, (x, module.weight, module.bias), dy)
    weight = module.weight_fake_quantizer(module.weight.float())  # not rounded to 16 bits
    linear = isobit.linear(x.float(), weight, module.bias.float())
    assert_same(got, torch.autograd.grad(linear, (x, module.weight, module.bias), dy.float()))


def test_what_a_layer_is_made_with():
    fake = FakeQuantize()
    assert WeightOnlyLinear(21, 5, activation_fake_quantizer=fake).activation_fake_quantizer is fake
    scheme = WeightOnlyLinear(21, 5).weight_fake_quantizer.scheme
    assert (scheme.grouping.where, scheme.dtype, scheme.symmetric) == (128, torch.int8, True)
    fake = FakeQuantize(MinMaxObserver, dtype=torch.int8, qscheme=CHANNEL)
    assert FakeQuantizedLinear(21, 5, weight_fake_quantizer=fake).weight_fake_quantizer.scale.shape == (5,)  # from it


WEIGHTS = {
    "tensor": {"qscheme": SYMMETRIC},
    "channel": {"qscheme": torch.per_channel_affine},
    "column": {"qscheme": CHANNEL, "ch_axis": 1},
    "group": {"qscheme": SYMMETRIC, "group_size": 4},
    "block": {"qscheme": torch.per_tensor_affine, "block_size": (2, 5)},
    "packed": {"qscheme": torch.per_tensor_affine, "dtype": "uint4", "group_size": 4},
    "float8": {"qscheme": CHANNEL, "dtype": torch.float8_e5m2},
}


@pytest.mark.parametrize("inplace", (True, False))
@pytest.mark.parametrize("name", WEIGHTS)
def test_a_model_is_served_with_its_bits(name, inplace):
    torch.manual_seed(0)

    def fake():
        return FakeQuantize(MinMaxObserver, **{"dtype": torch.int8, **WEIGHTS[name]})

    table = FakeQuantizedEmbedding(12, 11, weight_fake_quantizer=fake())
    activation = FakeQuantize(dtype=torch.int8, averaging_constant=0.5)
    linear = FakeQuantizedLinear(11, 6, weight_fake_quantizer=fake(), activation_fake_quantizer=activation)
    learned, shared = LearnableFakeQuantize(channels=6, ch_axis=-1), QuantizedLinear(6, 6)
    model = torch.nn.Sequential(table, linear, torch.nn.ReLU(), learned, shared, shared)
    optimizer = torch.optim.SGD(model.parameters(), 0.02)
    indices = torch.randint(0, 12, (7, 3))
    losses = []
    for _ in range(12):
        optimizer.zero_grad()
        loss = (model(indices) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    assert table.weight.grad.abs().sum() > 0 and linear.weight.grad.abs().sum() > 0
    want = copy.deepcopy(model).eval()(indices).detach()
    served = convert(model, inplace)
    assert_same(served(indices), want)
    assert (model is served) == inplace and (model[0] is table) == (not inplace)
    assert not list(served.parameters()) and served[4] is served[5]
    assert not served.training and model.training == (not inplace)
    codes = served[0].weight.codes
    assert codes.dtype == (torch.uint8 if name in ("packed", "float8") else torch.int8)
    assert_same(served[0].weight(), table.eval().weight_fake_quantizer(table.weight).detach())
    assert_same(pickle.loads(pickle.dumps(served))(indices), want)
    assert_same(convert(served)(indices), want)
    assert_same(torch.compile(served, fullgraph=True, backend="aot_eager")(indices), want)
    for bad in (12, -1):
        with pytest.raises(IndexError):
            served[0](torch.tensor([bad]))


def test_what_converts_keeps_its_hooks():
    layer = FakeQuantizedLinear(4, 3, weight_fake_quantizer=FakeQuantize(dtype=torch.int8, is_dynamic=True))
    x, model = draw(2, 4), torch.nn.Sequential(layer).eval()
    layer.register_forward_pre_hook(lambda m, args, kwargs: ((args[0] + 1,), kwargs), with_kwargs=True)
    layer.register_forward_hook(lambda m, args, y: y * 2)
    assert_same(convert(model)(x), model(x).detach())

    class Mine(FakeQuantizedLinear):
        def forward(self, input):
            return super().forward(input) + 1

    with pytest.raises(TypeError, match="a Mine has a forward of its own"):
        convert(Mine(4, 3))
    prune.l1_unstructured(layer, "weight", 0.5)
    for mode in (torch.no_grad(), torch.enable_grad()):  # with a graph there is no copy
        with mode:
            layer(x)
        with pytest.raises(ValueError, match="weight of a FakeQuantizedLinear is no parameter"):
            convert(model)
    prune.remove(layer, "weight")
    assert_same(convert(model)(x), model(x).detach())


class Halved(FakeQuantize):
    def forward(self, x):
        return super().forward(x) * 0.5


class Doubled(FakeQuantize):  # notes nothing
    def forward(self, x):
        return 2 * x


class Counted(FakeQuantize):
    calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


@pytest.mark.parametrize("compiled", (False, True), ids=("", "compiled"))
def test_a_fake_quantizers_own_forward_runs(compiled):
    """Layers took its scheme and parameters alone: what such a forward computes was passed by."""
    x, layers = draw(4, 21), {}
    for kind in (FakeQuantize, Counted, Halved, Doubled):
        layers[kind] = layer = FakeQuantizedLinear(21, 6, activation_fake_quantizer=kind())
        layer.load_state_dict(layers[FakeQuantize].state_dict())
    run = {k: torch.compile(f, backend="aot_eager", fullgraph=True) if compiled else f for k, f in layers.items()}
    want = run[FakeQuantize](x)
    assert_same(run[Counted](x), want)
    assert layers[Counted].activation_fake_quantizer.calls == 1
    layers[FakeQuantize].activation_fake_quantizer.register_forward_hook(lambda m, args, y: y * 0.5)
    assert_same(run[Halved](x), layers[FakeQuantize](x))
    assert_same(run[Doubled](x), isobit.linear(2 * x, layers[Doubled].weight, layers[Doubled].bias))
    for fake in ("activation_fake_quantizer", "weight_fake_quantizer"):
        with pytest.raises(TypeError, match="a Halved has a forward of its own"):
            convert(FakeQuantizedLinear(21, 6, **{fake: Halved()}))


@pytest.mark.parametrize("base", (FakeQuantize, LearnableFakeQuantize))
def test_parameters_of_a_subclass_are_served(base):
    class Twice(base):
        def parameters_for(self, x):
            return super().parameters_for(x)._replace(scale=self.scale * 2)

    x, model = draw(4, 21), torch.nn.Sequential(Twice(), FakeQuantizedLinear(21, 6, activation_fake_quantizer=Twice()))
    model(x)
    assert_same(convert(model)(x).detach(), model.eval()(x).detach())


def test_a_served_layer_says_what_it_wants():
    int4, tokens = (
        {"dtype": torch.int4, "granularity": "per_channel"},
        {"dtype": torch.int8, "granularity": "per_token"},
    )
    served = convert(prepare(torch.nn.Linear(6, 3), int4))
    with pytest.raises(ValueError, match=r"input has shape \[2, 5\]; want \[..., 6\]"):
        served(draw(2, 5))  # of which a byte of two codes holds the last one, too
    served = convert(prepare(torch.nn.Linear(6, 3), tokens | {"granularity": "per_channel"}, tokens))
    with pytest.raises(RuntimeError, match="activation_fake_quantizer is switched off"):
        served.apply(isobit.nn.disable_fake_quant)(draw(2, 6))


def test_a_served_layer_has_the_attributes_of_the_layer():
    config = {"dtype": "int4", "group_size": 4}
    for layer in (prepare(torch.nn.Linear(7, 3), config), QuantizedLinear(7, 3)):
        served = convert(layer)
        assert (served.in_features, served.out_features) == (7, 3) and "in_features=7, out_features=3" in str(served)
    table = convert(prepare(torch.nn.Embedding(9, 7, padding_idx=2), embedding=config))
    assert (table.num_embeddings, table.embedding_dim, table.padding_idx) == (9, 7, 2)
    weight = convert(prepare(torch.nn.Linear(7, 3), config)).bfloat16().weight
    values = weight()
    assert (weight.shape, weight.dtype, weight.device) == (values.shape, torch.bfloat16, values.device)
    with pytest.raises(TypeError, match=r"linear: a ServedWeight is codes; want the layer called, .* or a filter_fn"):
        torch.nn.functional.linear(draw(2, 7), weight)
    for product in (lambda x: x @ weight, lambda x: weight @ x):  # as Mamba's slow path has
        with pytest.raises(TypeError, match=r"matmul: a ServedWeight is codes"):
            product(draw(3, 3))


@pytest.mark.parametrize("features", ((8, 0), (0, 4), (0, 0)))
def test_layers_without_rows_or_columns(features):
    int8 = {"dtype": torch.int8, "granularity": "per_channel"}
    static = int8 | {"granularity": "per_tensor", "is_dynamic": False}
    tokens = int8 | {"granularity": "per_token"}
    for fakes in ((int8,), (int8, tokens), (int8, static), (static,), ({"dtype": "int4", "group_size": 4},),
                  (int8, {"dtype": "uint8", "granularity": "per_token", "is_symmetric": False}), (LearnableFakeQuantize,)):  # fmt: skip
        layer = prepare(torch.nn.Linear(*features), *fakes)
        for count in (3, 0):
            x = draw(count, features[0]).requires_grad_()
            want = torch.nn.functional.linear(x, layer.weight, layer.bias)  # the bias alone
            for f in (layer, convert(layer)):
                y = f(x)
                assert_same(y.detach(), want.detach())
                assert_same(torch.autograd.grad(y.sum(), x)[0], torch.zeros_like(x))


def test_a_state_of_doubles_loads():
    def make(trained):
        torch.manual_seed(0)
        model = prepare(torch.nn.Linear(8, 4).double(), FakeQuantize.with_args(dtype=torch.qint8))
        if trained:
            model(draw(2, 8).double())
        return convert(model)

    trained, other = make(True), make(False)
    other.load_state_dict(trained.state_dict())
    assert_same(other(draw(3, 8).double()), trained(draw(3, 8).double()))


def test_what_is_switched_off_is_served_as_it_is():
    fake = FakeQuantize(dtype=torch.int8)
    layer = FakeQuantizedLinear(4, 3, activation_fake_quantizer=fake, weight_fake_quantizer=LearnableFakeQuantize())
    model = torch.nn.Sequential(layer, LearnableFakeQuantize()).apply(isobit.nn.disable_fake_quant)
    x = draw(2, 4)
    want = isobit.linear(x, layer.weight, layer.bias)
    assert_same(model(x), want)
    assert not fake.activation_post_process.is_new()
    served = convert(model)
    assert_same(served(x), want.detach())
    assert_same(served[0].weight.codes, layer.weight.detach())
    with pytest.raises(TypeError, match="weight_fake_quantizer is a Linear"):
        FakeQuantizedLinear(4, 3, weight_fake_quantizer=torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="want max_norm=None"):
        FakeQuantizedEmbedding(4, 3, weight_fake_quantizer=LearnableFakeQuantize(), max_norm=1.0)
