"""Gradients of layers of codes: trained and served, in 16 bits, within the transforms of torch.func."""

import isobit
import pytest
import torch
from isobit.nn import FakeQuantize, FakeQuantizedLinear, MinMaxObserver, QuantizedLinear, convert, prepare
from isobit.nn._grouping import Grouping
from kit import assert_same, draw

SYMMETRIC = torch.per_tensor_symmetric

CONFIGURATIONS = {
    "weight": ({"dtype": torch.int8, "granularity": "per_channel"}, None),
    "integer": ({"dtype": torch.int8, "granularity": "per_channel"}, {"dtype": torch.int8, "granularity": "per_token"}),
    "int4": ({"dtype": torch.int4, "group_size": 4}, None),
    "float": ({"dtype": torch.int8, "granularity": "per_tensor"}, {"dtype": "int6", "granularity": "per_token"}),
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
@pytest.mark.parametrize("name", ("weight", "integer", "int4"))
def test_a_gradient_in_16_bits_is_of_the_values_that_codes_stand_for(name, dtype):
    """Not of values rounded to 16 bits: served and trained have the same gradient."""
    torch.manual_seed(0)
    layer = prepare(torch.nn.Linear(64, 32), *CONFIGURATIONS[name]).to(dtype)
    served, x, dy = convert(layer), draw(16, 64, dtype=dtype).requires_grad_(), draw(16, 32, dtype=dtype)
    weight = served.weight.values(torch.float32)
    want = isobit.matmul(dy.float(), weight).to(dtype)
    for f in (layer, served):
        assert_same(torch.autograd.grad(f(x), x, dy)[0], want)


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
