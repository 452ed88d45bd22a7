"""FakeQuantize: torchao's configurations, range learning, and its switches."""

import copy
import warnings
from types import SimpleNamespace

import isobit
import pytest
import torch
from isobit.nn import FakeQuantize, LearnableFakeQuantize
from kit import assert_same, draw, same

of = FakeQuantize.from_config
X = draw(5, 10)


class PerGroup:
    group_size = 4


class PerRow:
    def __init__(self, dim):
        self.dim = dim


class Config(SimpleNamespace):
    """As torchao's, whose group_size and is_symmetric raise where they do not repeat the other fields."""

    @property
    def is_symmetric(self):
        raise ValueError

    group_size = is_symmetric


CONFIG = Config(
    dtype=SimpleNamespace(name="INT4"),
    granularity=PerGroup(),
    mapping_type=SimpleNamespace(name="SYMMETRIC"),
    zero_point_domain=SimpleNamespace(name="INT"),
    is_dynamic=True,
    range_learning=False,
)
CONFIG_INT8 = {"dtype": torch.int8, "granularity": "per_channel"}
GROUPS = {"dtype": "int4", "group_size": 4}
WAYS = {
    "object": lambda: of(CONFIG),
    "object without granularity": lambda: of(SimpleNamespace(**GROUPS)),
    "keywords": lambda: of(**GROUPS),
    "dict": lambda: of(GROUPS),
    "domain NONE": lambda: of(**GROUPS, zero_point_domain=SimpleNamespace(name="NONE")),
    "granularity by name": lambda: of(**GROUPS, granularity="per_group", is_symmetric=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_configuration_comes_in_every_way(way):
    s, _ = isobit.choose_qparams_per_channel_group(X, 4, quant_min=-8, quant_max=7)
    assert_same(WAYS[way]()(X), isobit.fake_quantize_per_channel_group_affine(X, s, None, -8, 7, 4))


def test_a_configuration_of_tokens():
    s, z = isobit.choose_qparams_per_token_asymmetric(X, torch.uint8)
    fake = of(dtype=torch.uint8, granularity="per_token", mapping_type="asymmetric", zero_point_domain="int")
    assert_same(fake(X), isobit.fake_quantize_per_token_affine(X, s, z, 0, 255))
    assert_same(fake.eval()(X), fake.train()(X))
    # torchao's Int8DynActInt4WeightQATQuantizer has it so
    floats = of(dtype=torch.uint8, granularity="per_token", is_symmetric=False, zero_point_precision=torch.float32)
    assert_same(floats(X), fake(X))
    s = isobit.choose_qparams_per_token(X, torch.int8)[0].bfloat16()
    fake = of(dtype=torch.int8, granularity="per_token", scale_precision=torch.bfloat16)
    assert_same(fake(X), isobit.fake_quantize_per_token_affine(X, s, None, -128, 127))
    assert of(dtype="int4", granularity=PerRow(-1)).scheme.grouping.name == "per_token"


def test_a_configuration_of_channels():
    fake = of(dtype=torch.int8, granularity="per_channel", is_symmetric=False, eps=1.0)
    s, z = fake.activation_post_process.choose(X)
    assert_same(fake(X), isobit.fake_quantize_per_channel_affine(X, s, z, 0, -128, 127))
    assert (s >= 1).all()
    assert of(dtype="int4", granularity="per_channel", is_symmetric=False).qscheme == torch.per_channel_affine
    assert "per_channel_symmetric, granularity=per_channel(0)," in repr(of(dtype="int4", granularity="per_channel"))


def test_a_configuration_that_is_not_dynamic_keeps_the_first_batch():
    fake = of(dtype="uint2", granularity="per_channel", is_symmetric=False, is_dynamic=False)
    assert (fake.quant_min, fake.quant_max) == (0, 3)
    first = fake(X)
    fake(X * 5)
    fake(X * torch.inf)
    assert_same(fake(X), first)


def test_a_configuration_of_8_bit_floats():
    fake = of(dtype=torch.float8_e4m3fn, granularity="per_tensor")
    scale = X.abs().max() / 448
    want = isobit.fake_quantize_per_tensor_affine(X, scale, None, -448, 448, code_dtype=torch.float8_e4m3fn)
    assert_same(fake(X), want)
    for bounds in ((0.5, 1.0), (None, 2.0), (40.0, None)):  # torchao's
        fake = of(dtype=torch.float8_e4m3fn, granularity="per_token", hp_value_lb=bounds[0], hp_value_ub=bounds[1])
        scale = X.abs().amax(-1, keepdim=True).clamp(*bounds) / 448
        assert_same(fake.activation_post_process.choose(X)[0], scale)
    assert "per_tensor_symmetric, granularity=per_token," in repr(fake)


def test_what_is_no_configuration():
    with pytest.raises(TypeError, match="config is a object; want torchao's Intx"):
        of(object())
    for message, bad in (
        (r"PerRow\(dim=0\); want dim=-1", {"granularity": PerRow(0)}),
        ("zero_point_domain is none; want INT", {"group_size": 4, "is_symmetric": False, "zero_point_domain": "none"}),
        ("8-bit float", {"dtype": torch.float32}),
        ("granularity is 'per_what'", {"granularity": "per_what"}),
        ("granularity is None", {}),
        ("conflict|want one", {"granularity": "per_token", "group_size": 3}),
        ("what is not a field; want", {"what": 1}),
        ("mapping_type is X", {"group_size": 4, "mapping_type": "X"}),
        ("not both", {"group_size": 4, "mapping_type": "SYMMETRIC", "is_symmetric": True}),
        ("zero_point_domain", {"group_size": 4, "zero_point_domain": "FLOAT"}),
        ("zero_point_precision is torch.bool", {"group_size": 4, "zero_point_precision": torch.bool}),
        ("is_dynamic=True", {"granularity": "per_token", "is_dynamic": False}),
        ("want a symmetric scheme", {"group_size": 4, "is_symmetric": False, "hp_value_lb": 1.0}),
        ("want 0 <= hp_value_lb <= hp_value_ub", {"group_size": 4, "hp_value_lb": 2.0, "hp_value_ub": 1.0}),
        ("want 0 <= hp_value_lb <= hp_value_ub", {"group_size": 4, "hp_value_lb": 2.0, "hp_value_ub": 0.0}),
    ):
        with pytest.raises(ValueError, match=message):
            of(**{"dtype": "int4", **bad})


def test_a_scale_has_the_type_of_the_data():
    x, fake = draw(64, 16), FakeQuantize(dtype=torch.qint8, averaging_constant=1.0)
    fake(x)
    for dtype in (torch.bfloat16, torch.float64, torch.float32):
        y = fake.to(dtype).train()(x.to(dtype))
        assert_same(y, fake.eval()(x.to(dtype)))


def test_switches():
    fake = FakeQuantize(quant_min=-128, quant_max=127, dtype=torch.int8, averaging_constant=0.5)
    with pytest.warns(UserWarning, match="nothing yet"):
        assert_same(fake.eval()(torch.tensor([1.2, 300.0])), torch.tensor([1.0, 127.0]))
    given = copy.deepcopy(fake)
    given.scale.fill_(2.0)
    with warnings.catch_warnings(action="error"):
        assert_same(given(torch.tensor([1.2, 300.0])), torch.tensor([2.0, 254.0]))
    x = draw(6, 7).requires_grad_()
    y = fake.train()(x)
    parameters = isobit.choose_qparams_per_tensor(x, symmetric=False)
    assert_same(y, isobit.fake_quantize_per_tensor_affine(x, *parameters, -128, 127))
    assert_same(fake.calculate_qparams(), tuple(p.reshape(1) for p in parameters))
    later = fake(x * 3)  # a second use before the first one's backward
    (y.sum() + later.sum()).backward()
    assert x.grad.min() >= 0 and x.grad.max() == 4
    assert fake.scale > parameters[0]
    scale = fake.scale.clone()
    fake.eval()(x * 9)
    model = torch.nn.Sequential(fake, LearnableFakeQuantize()).train().apply(isobit.nn.disable_observer)
    model(x * 9)
    assert not model[1].initialized
    assert_same(fake.scale, scale)
    model.apply(isobit.nn.disable_fake_quant)
    assert model(x) is x
    model.apply(isobit.nn.enable_observer)
    assert model(x * 9) is not x and fake.scale > scale and model[1].initialized
    state = copy.deepcopy(model.state_dict())
    model.apply(isobit.nn.enable_fake_quant)
    other = torch.nn.Sequential(FakeQuantize(dtype=torch.int8), LearnableFakeQuantize())
    other.load_state_dict(state)
    assert not other[0].fake_quant_enabled and other[0].observer_enabled
    other.apply(isobit.nn.enable_fake_quant)
    assert_same(other.eval()(x), model.eval()(x))


def test_range_learning():
    class PerBlock:
        block_size = (2, 8)

    x = draw(4, 16) + 1e-3
    of = FakeQuantize.from_config
    learn = {"range_learning": True, "is_dynamic": False}
    for where, name, at in (
        ({"group_size": 8}, "per_channel_group", (8,)),
        ({"granularity": "per_channel"}, "per_channel", (0,)),
        ({"granularity": "per_tensor"}, "per_tensor", ()),
        ({"granularity": PerBlock(), "dtype": "int8"}, "per_block", ([2, 8],)),
    ):
        for symmetric in (True, False):
            fake = of(**{"dtype": "int4", **where, **learn}, is_symmetric=symmetric, shape=x.shape)
            assert isinstance(fake, LearnableFakeQuantize) and (fake.zero_point is None) == symmetric
            if name == "per_tensor":
                fake(torch.empty(0, 16))  # sets nothing
            fake(x), fake(x * 5)  # the first sets all
            codes = torch.int8 if name == "per_block" else getattr(torch, "int4", None)
            bounds = {} if name == "per_block" else {"quant_min": -8, "quant_max": 7}
            choose = getattr(isobit, f"choose_qparams_{name}")
            s, z = choose(x, *at, dtype=torch.int8, symmetric=symmetric, **bounds)
            assert_same(fake.scale.detach(), s.reshape(fake.scale.shape))
            if not symmetric:
                assert_same(fake.zero_point.detach(), z.float().reshape(fake.scale.shape))
            assert fake.scheme.dtype in (codes, torch.int8)
            fake(x * 2).square().sum().backward()
            assert all(p.grad.abs().sum() > 0 for p in fake.parameters())
            again = of(**{"dtype": "int4", **where, **learn}, is_symmetric=symmetric, shape=x.shape)
            again.load_state_dict(fake.state_dict())
            assert_same(again(x), fake(x))
            assert_same(isobit.nn.convert(fake)(x), fake.eval()(x).detach())
    with pytest.raises(ValueError, match=r"shape \[3, 16\] has scales of shape \[3, 2\]; want \[4, 2\]"):
        of(dtype="int4", group_size=8, shape=x.shape, **learn)(x[:3])
    fake = of(dtype=torch.float8_e4m3fn, granularity="per_tensor", **learn)
    assert fake.scheme.code_dtype == torch.float8_e4m3fn
    for message, bad in (
        ("is_dynamic is True; want False with range_learning", {"is_dynamic": True}),
        ("scale_precision is torch.bfloat16", {"scale_precision": torch.bfloat16}),
        ("hp_value_ub is 1.0; want None", {"hp_value_ub": 1.0}),
        ("wants is_symmetric=False", {"dtype": torch.uint8}),
        ("tokens differ", {"group_size": None, "granularity": "per_token"}),
        ("wants shape", {"shape": None}),
    ):
        with pytest.raises(ValueError, match=message):
            of(**{"dtype": "int4", "group_size": 8, "shape": x.shape, **learn, **bad})
    for message, bad in (("start is 'now'", {"start": "now"}), ("wants learn_zero_point=True", {"start": "min_max"})):
        with pytest.raises(ValueError, match=message):
            LearnableFakeQuantize(0, 15, **bad)


@pytest.mark.parametrize("symmetric", (True, False))
def test_range_learning_is_torchaos(symmetric):
    """The same parameters give the same values, and gradients but for LSQ's factor. Codes at a bound are left out:
    clamp has no gradient there."""
    qat = pytest.importorskip("torchao.quantization.qat")
    from torchao.quantization.qat.fake_quantizer import IntxFakeQuantizer

    learn = {"range_learning": True, "is_dynamic": False, "zero_point_precision": torch.float32}
    config = qat.IntxFakeQuantizeConfig(torch.int4, group_size=8, is_symmetric=symmetric, **learn)
    x, dy = draw(4, 16), draw(4, 16, seed=1)
    ours, theirs = FakeQuantize.from_config(config, shape=x.shape), IntxFakeQuantizer(config)
    theirs._initialized = True
    ours(x), theirs(x)
    with torch.no_grad():
        ours.scale.copy_(theirs.scale.mul_(0.6))
        if not symmetric:
            ours.zero_point.copy_(theirs.zero_point)
    code = torch.round(x.reshape(4, 2, 8) / ours.scale.detach()[..., None])
    code += 0 if symmetric else ours.zero_point.detach()[..., None]
    inner = ((code != -8) & (code != 7)).reshape(x.shape)
    assert (code.abs() > 9).any() and inner.float().mean() > 0.7
    a, b = (x.clone().requires_grad_() for _ in range(2))
    y, want = ours(a), theirs(b)
    torch.testing.assert_close(y, want)
    y.backward(dy * inner), want.backward(dy * inner)
    torch.testing.assert_close(a.grad, b.grad)
    factor = 1 / (8 * 7) ** 0.5
    torch.testing.assert_close(ours.scale.grad / factor, theirs.scale.grad, rtol=1e-5, atol=1e-5)
    if not symmetric:
        torch.testing.assert_close(ours.zero_point.grad / factor, theirs.zero_point.grad, rtol=1e-5, atol=1e-5)


# Schemes of integer products, and whether one pass gives their codes.
CODED = {
    "per token": ({"granularity": "per_token"}, True),
    "whole": ({"granularity": "per_tensor"}, True),
    "few codes": ({"granularity": "per_token", "dtype": "int4"}, True),
    "eps": ({"granularity": "per_token", "eps": 1e-6}, True),
    "raised scales": ({"granularity": "per_token", "eps": 0.02}, True),
    "bounds": ({"granularity": "per_token", "hp_value_ub": 1.0}, False),
    "rounded scales": ({"granularity": "per_token", "scale_precision": torch.bfloat16}, False),
    "zero points": ({"granularity": "per_token", "is_symmetric": False}, True),
    "unsigned": ({"granularity": "per_tensor", "is_symmetric": False, "dtype": torch.uint8}, True),
    "few unsigned codes": ({"granularity": "per_token", "is_symmetric": False, "dtype": "uint3", "eps": 0.02}, True),
    "a middle": ({"granularity": "per_token", "dtype": torch.uint8}, False),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", CODED)
def test_codes_come_with_their_scale_where_one_pass_gives_the_same_bits(name, dtype):
    keywords, together = CODED[name]
    fake = of(**{"dtype": torch.int8, "scale_precision": None, **keywords})
    drawn = torch.cat([X, X[:1] * 0.01 if name == "raised scales" else X[:1] * 2]).to(dtype)
    for x in (drawn, torch.zeros_like(drawn), drawn.index_fill(1, torch.tensor([3]), torch.nan), drawn[:0]):
        codes, parameters = fake.codes_for(x)
        scale, zero_point, _ = fake.parameters_for(x)
        assert_same(parameters.scale, scale)
        assert (codes is not None) == together
        if codes is not None:
            assert_same(codes, fake.scheme.quantize(x, scale, zero_point, fake.scheme.byte_dtype))
            assert fake.scheme.centred or same(parameters.zero_point, zero_point)


def test_codes_come_from_the_observer_that_has_taken_the_place_of_the_first():
    """The scale was that of the first one's range of codes."""
    symmetric = {"dtype": torch.int8, "qscheme": torch.per_tensor_symmetric}
    fake = FakeQuantize(isobit.nn.MinMaxObserver, is_dynamic=True, **symmetric)
    fake.activation_post_process = isobit.nn.MinMaxObserver(quant_min=-8, quant_max=7, **symmetric)
    layer = isobit.nn.FakeQuantizedLinear(10, 3, activation_fake_quantizer=fake, weight_fake_quantizer=of(CONFIG_INT8))
    assert_same(layer.eval().served()(X).detach(), layer(X).detach())


@pytest.mark.parametrize("rounding", ("nearest", "reciprocal"))
def test_codes_do_not_come_with_their_scale_where_they_are_rounded_otherwise(rounding):
    symmetric = {"dtype": torch.int8, "qscheme": torch.per_tensor_symmetric, "rounding": rounding}
    codes, _ = FakeQuantize(isobit.nn.MinMaxObserver, is_dynamic=True, **symmetric).codes_for(X)
    assert (codes is None) == (rounding == "reciprocal")


def test_codes_come_from_the_parameters_that_a_subclass_chooses():
    class Twice(FakeQuantize):
        def parameters_for(self, x):
            scale, zero_point, factor = super().parameters_for(x)
            return scale * 2, zero_point, factor

    fake = Twice(isobit.nn.MinMaxObserver, is_dynamic=True, dtype=torch.int8, qscheme=torch.per_tensor_symmetric)
    layer = isobit.nn.FakeQuantizedLinear(10, 3, activation_fake_quantizer=fake, weight_fake_quantizer=of(CONFIG_INT8))
    scale = fake.parameters_for(X)[0]
    codes = isobit.quantize_per_tensor(X, scale, None, -128, 127, torch.int8)
    w = layer.served().weight
    scales = scale.expand(5), w.scale
    want = isobit.quantized_linear_codes(codes, scales[0], w.codes, scales[1], layer.bias)
    assert_same(layer.served()(X), want)
