"""Gradients of layers of codes: beside composites of torch's ops, trained and served, in 16 bits, within the transforms of
torch.func."""

import threading

import isobit
import pytest
import torch
from isobit.nn import (
    FakeQuantize,
    FakeQuantizedLinear,
    LearnableFakeQuantize,
    MinMaxObserver,
    QuantizedLinear,
    convert,
    prepare,
)
from isobit.nn._grouping import Grouping
from kit import assert_same, draw

SYMMETRIC = torch.per_tensor_symmetric

CONFIGURATIONS = {
    "weight": ({"dtype": torch.int8, "granularity": "per_channel"}, None),
    "integer": ({"dtype": torch.int8, "granularity": "per_channel"}, {"dtype": torch.int8, "granularity": "per_token"}),
    "int4": ({"dtype": torch.int4, "group_size": 4}, None),
    "float": ({"dtype": torch.int8, "granularity": "per_tensor"}, {"dtype": "int6", "granularity": "per_token"}),
    "integer groups": (
        {"dtype": torch.int4, "group_size": 4},
        {"dtype": torch.int8, "granularity": "per_token", "is_symmetric": False},
    ),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_layer_has_its_gradient_within_every_transform(name):
    torch.manual_seed(0)
    layer, x, dy = prepare(torch.nn.Linear(8, 4), *CONFIGURATIONS[name]), draw(3, 2, 8), draw(3, 2, 4)
    state = {k: torch.stack([v, v]) for k, v in layer.state_dict(keep_vars=True).items() if k in ("weight", "bias")}

    def ensemble(p):
        return torch.vmap(lambda p: torch.func.functional_call(layer, p, (x,)))(p)

    assert ensemble(state).requires_grad
    want = torch.autograd.grad(layer(x), layer.weight, dy)[0]
    assert_same(torch.func.vjp(ensemble, state)[1](torch.stack([dy, dy]))[0]["weight"], torch.stack([want, want]))
    served = convert(layer.requires_grad_(False))
    leaf = x.clone().requires_grad_()
    (want,) = torch.autograd.grad(layer.eval()(leaf), leaf, dy)
    for f in (layer, served, torch.vmap(layer), torch.vmap(served)):
        assert_same(torch.autograd.grad(f(leaf), leaf, dy)[0], want)
        assert_same(torch.func.vjp(f, x)[1](dy)[0], want)
    for f in (layer, served):
        with pytest.raises(NotImplementedError, match="no derivative in forward mode"):
            torch.func.jvp(f, (x,), (x,))
        with torch.no_grad(), torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError):
            f(torch.autograd.forward_ad.make_dual(x, x))


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
@pytest.mark.parametrize("name", ("weight", "integer", "int4", "integer groups"))
def test_a_gradient_in_16_bits_is_of_the_values_that_codes_stand_for(name, dtype):
    """Not of values rounded to 16 bits: served and trained have the same gradient."""
    torch.manual_seed(0)
    layer = prepare(torch.nn.Linear(64, 32), *CONFIGURATIONS[name]).to(dtype)
    served, x, dy = convert(layer), draw(16, 64, dtype=dtype).requires_grad_(), draw(16, 32, dtype=dtype)
    weight = served.weight.values(torch.float32)
    want = isobit.matmul(dy.float(), weight).to(dtype)
    for f in (layer, served):
        assert_same(torch.autograd.grad(f(x), x, dy)[0], want)


def test_values_that_a_product_takes_in_16_bits_have_a_gradient_in_16_bits():
    """The product of values and codes: as where the activation is quantized before the layer."""
    torch.manual_seed(0)
    before, dy = LearnableFakeQuantize(-8, 300), draw(16, 32, dtype=torch.bfloat16)
    linear, int4 = torch.nn.Linear(64, 32).bfloat16(), CONFIGURATIONS["int4"][0]
    layer, plain = prepare(linear, int4, lambda: before), prepare(linear, int4)  # a scale in float32
    x = draw(16, 64, dtype=torch.bfloat16).requires_grad_()
    layer(x)
    want = torch.autograd.grad(plain(before(x)), (x, before.scale), dy)
    assert_same(torch.autograd.grad(layer(x), (x, before.scale), dy), want)


@pytest.mark.parametrize("name", ("weight", "integer", "int4", "integer groups"))
def test_without_a_gradient_no_weight_is_dequantized(name, monkeypatch):
    served, x = convert(prepare(torch.nn.Linear(64, 32), *CONFIGURATIONS[name])), draw(16, 64)
    want = served(x.clone().requires_grad_()).detach()
    monkeypatch.setattr(type(served.weight), "values", None)
    assert_same(served(x), want)


def test_the_integer_product_has_one_gradient():
    """Of QuantizedLinear, and of the FakeQuantizedLinear whose codes are the same."""
    fake = FakeQuantize.with_args(
        observer=MinMaxObserver, is_dynamic=True, dtype=torch.int8, qscheme=SYMMETRIC, quant_min=-127, eps=0.0
    )
    rows = fake.with_args(grouping=Grouping("per_token"))
    for dtype in (torch.bfloat16, torch.float32):
        layer, x, dy = QuantizedLinear(64, 32).to(dtype), draw(16, 64, dtype=dtype), draw(16, 32, dtype=dtype)
        other = FakeQuantizedLinear.from_linear(layer, activation_fake_quantizer=rows(), weight_fake_quantizer=rows())
        leaf, served = x.requires_grad_(), convert(other)
        assert served.product == "integer"
        inputs = (leaf, layer.weight, layer.bias)
        want = torch.autograd.grad(layer(leaf), inputs, dy)
        assert_same(torch.autograd.grad(other(leaf), inputs, dy), want)
        assert_same(torch.autograd.grad(served(leaf), leaf, dy)[0], want[0])


def test_quantized_linear_has_its_gradient_when_served():
    assert QuantizedLinear(8, 5).export()["weight_scale"].shape == (5,)
    layer, dy = QuantizedLinear(8, 4), draw(2, 4)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        layer, x = layer.to(dtype), draw(2, 8).to(dtype).requires_grad_()
        served = convert(layer)
        assert_same(served(x), layer(x))
        assert_same(*(torch.autograd.grad(f(x), x, dy.to(dtype)) for f in (served, layer)))
        dual = torch.autograd.forward_ad
        for f in (layer, served):
            with torch.no_grad(), dual.dual_level(), pytest.raises(NotImplementedError, match="forward mode"):
                f(dual.make_dual(x, x))


def rounded(t):
    """rint with the straight-through gradient."""
    return (t - t.detach()) + t.round().detach()


def composite(x, scale, zero_point, low, high, grad_factor=1.0):
    """Fake quantization of torch's ops: autograd gives the straight-through and the LSQ gradients."""
    scale = scale * grad_factor + (scale - scale * grad_factor).detach()
    zero_point = zero_point * grad_factor + (zero_point - zero_point * grad_factor).detach()
    z = rounded(zero_point)
    code = rounded(x / scale) + z
    # torch's clamp has no gradient at the bounds, which count as inside here
    code = torch.where((code >= low) & (code <= high), code, code.detach().clamp(low, high))
    return (code - z) * scale


def assert_close(got, want):
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g.double(), w.double(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("where", ("tensor", "channel", "group", "block"))
def test_learned_gradients(where):
    x, dy = draw(6, 8), draw(6, 8, seed=1)
    x += 1e-3  # not halfway between two codes, where float64 may round to the other
    keywords, shape = {
        "tensor": ({}, (1, 1, 1, 1)),
        "channel": ({"channels": 8, "ch_axis": -1}, (1, 1, 8, 1)),
        "group": ({"group_size": 4, "shape": x.shape}, (6, 1, 2, 1)),
        "block": ({"block_size": (3, 4), "shape": x.shape}, (2, 1, 2, 1)),
    }[where]
    module = LearnableFakeQuantize(-8, 7, learn_zero_point=True, **keywords)
    module(x)
    with torch.no_grad():
        module.zero_point.copy_(draw(*module.zero_point.shape, seed=2, spread=1.5))
        module.scale.mul_(0.3)  # some values lie outside the range
    leaf = x.clone().requires_grad_()
    got = torch.autograd.grad(module(leaf), (leaf, module.scale, module.zero_point), dy)
    leaves = [t.detach().double().requires_grad_() for t in (x, module.scale, module.zero_point)]
    blocks = leaves[0].reshape(shape[0], 6 // shape[0], shape[2], 8 // shape[2])
    n = x.numel() // module.scale.numel()
    parameters = (t.reshape(shape) for t in leaves[1:])
    y = composite(blocks, *parameters, -8, 7, 1 / (n * 7) ** 0.5).reshape(6, 8)
    want = torch.autograd.grad(y, leaves, dy.double())
    assert_close(got, want)
    assert_same(got[0], torch.where(want[0] != 0, dy, 0.0))  # straight through, or nothing
    assert (want[0] == 0).any() and (want[0] != 0).any() and (want[2] != 0).any()


@pytest.mark.parametrize("product", ("integer", "integer_groups", "codes", "float"))
def test_gradients_of_a_layer(product):
    high = 300 if product == "codes" else 7
    activation = LearnableFakeQuantize(-8, high, learn_zero_point=product != "integer")
    weight = LearnableFakeQuantize(-8, 7, channels=5 if product != "float" else 6, ch_axis=int(product == "float"))
    layer = FakeQuantizedLinear(6, 5, activation_fake_quantizer=activation, weight_fake_quantizer=weight)
    x = draw(2, 4, 6) + 1e-3
    layer(x)
    leaf, dy = x.clone().requires_grad_(), draw(2, 4, 5, seed=1)
    names = ["x", *dict(layer.named_parameters())]
    got = torch.autograd.grad(layer(leaf), (leaf, *layer.parameters()), dy)
    leaves = dict(zip(names, (t.detach().double().requires_grad_() for t in (x, *layer.parameters())), strict=True))
    zero = leaves.get("activation_fake_quantizer.zero_point", torch.zeros(1, dtype=torch.float64))
    n = x.numel()
    xq = composite(leaves["x"], leaves["activation_fake_quantizer.scale"], zero, -8, high, 1 / (n * high) ** 0.5)
    scale = leaves["weight_fake_quantizer.scale"].reshape((5, 1) if product != "float" else (1, 6))
    factor = 1 / (30 // scale.numel() * 7) ** 0.5
    wq = composite(leaves["weight"], scale, torch.zeros(()), -8, 7, factor)
    y = torch.nn.functional.linear(xq, wq, leaves["bias"])
    want = torch.autograd.grad(y, leaves.values(), dy.double())
    assert convert(layer).product == product and len(got) == len(want)
    assert_close((layer(x), *got), (y, *want))
    vmapped = torch.func.vmap(layer.eval())(x)
    assert_same(vmapped.detach(), layer(x).detach())


def test_threads_that_train_one_hooked_fake_quantizer_each_run_its_backward_hooks():
    """One thread's call took them off for all."""
    layer = prepare(torch.nn.Linear(21, 6), *CONFIGURATIONS["integer"])
    fake, seen, inner = layer.activation_fake_quantizer, [], []
    fake.register_full_backward_hook(lambda m, dx, dy: seen.append(threading.get_ident()))
    fake.register_full_backward_pre_hook(lambda m, dy: seen.append(threading.get_ident()))

    def train():
        layer(draw(5, 21).requires_grad_()).sum().backward()

    def within(*_):  # of another thread, while this one's call is under way
        if not inner:
            inner.append(threading.Thread(target=train))
            inner[0].start(), inner[0].join()

    fake.register_forward_hook(within)
    train()
    assert len(seen) == 4 and len(set(seen)) == 2
