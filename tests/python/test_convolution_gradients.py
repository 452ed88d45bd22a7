"""The gradients of convolutions for quantization-aware training are those of torch's convolution of their values."""

import pytest
import torch
from convolutions import OUT, SCHEMES, SHAPES, C, layer_of, of_torch, values
from isobit.nn import FakeQuantize, FakeQuantizedConv2d, LearnableFakeQuantize, convert
from kit import assert_same, draw

CHOSEN = ("static", "float8")  # scales that follow the number of output channels
LAYERS = [(shape, scheme, (C, OUT)) for shape in SHAPES for scheme in (*CHOSEN, "uint8 input")]
LAYERS += [(shape, scheme, (C, OUT)) for shape in ("2x3, strides", "groups", "line") for scheme in SCHEMES]
LAYERS += [(shape, scheme, (C, C)) for shape in SHAPES for scheme in CHOSEN]


def gradients(layer, x, y, dy):
    return torch.autograd.grad(y, [x, *layer.parameters()], dy)


@pytest.mark.parametrize("shape, scheme, channels", LAYERS, ids=str)
def test_gradients_are_torchs(shape, scheme, channels):
    layer, x = layer_of(shape, scheme, torch.float64, channels)
    layer(x), layer.eval()
    x.requires_grad_()
    y = layer(x)
    dy = draw(*y.shape, dtype=torch.float64, seed=1)
    want = gradients(layer, x, of_torch(layer, *values(layer, x), layer.bias), dy)
    for got, of in zip(gradients(layer, x, y, dy), want, strict=True):
        assert got.shape == of.shape and got.dtype == of.dtype
        torch.testing.assert_close(got, of, rtol=1e-8, atol=1e-8)
    served = convert(layer)
    torch.testing.assert_close(torch.autograd.grad(served(x), x, dy)[0], want[0], rtol=1e-8, atol=1e-8)
    assert_same(torch.autograd.grad(served(x), x, dy)[0], torch.autograd.grad(layer(x), x, dy)[0])
    for frozen in (layer.weight, layer.bias):  # what is not wanted changes nothing
        if frozen is not None:
            frozen.requires_grad_(False)
            torch.testing.assert_close(torch.autograd.grad(layer(x), x, dy)[0], want[0], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
@pytest.mark.parametrize("scheme", ("static", "int4", "float8"))
@pytest.mark.parametrize("shape", ("3x3", "groups", "each channel", "volume"))
def test_a_gradient_in_16_bits_is_summed_in_32_and_rounded_once(shape, scheme, dtype):
    layer, x = layer_of(shape, scheme, dtype)
    layer(x), layer.eval()
    x.requires_grad_()
    y = layer(x)
    dy = draw(*y.shape, dtype=dtype, seed=1)
    got = torch.autograd.grad(y, [x, layer.weight, layer.bias], dy)
    wide, _ = layer_of(shape, scheme)
    wide.load_state_dict(layer.state_dict())
    wide.eval()
    leaf = x.detach().float().requires_grad_()
    want = torch.autograd.grad(wide(leaf), [leaf, wide.weight, wide.bias], dy.float())
    if convert(layer).product == "float":  # of values in 16 bits
        for a, b in zip(got, want, strict=True):
            torch.testing.assert_close(a.float(), b, rtol=0.05, atol=0.1)
        return
    for a, b in zip(got, want, strict=True):
        assert a.dtype == dtype
        torch.testing.assert_close(a.float(), b, rtol=2**-7, atol=1e-3)
    assert_same(got[2], want[2].to(dtype))


@pytest.mark.parametrize("shape", ("3x3", "each channel", "line"))
def test_a_loose_layer_has_torchs_gradient(shape):
    layer, x = layer_of(shape, exact=False)
    layer(x), layer.eval()
    x.requires_grad_()
    y = layer(x)
    dy = draw(*y.shape, seed=1)
    want = gradients(layer, x, of_torch(layer, *values(layer, x), layer.bias), dy)
    assert_same(gradients(layer, x, y, dy), want)


@pytest.mark.parametrize("scheme", ("static", "uint8 input", "float8"))
def test_within_transforms(scheme):
    layer, x = layer_of("3x3", scheme)
    layer(x), layer.eval()
    parameters = dict(layer.named_parameters())

    def loss(parameters, x):
        return torch.func.functional_call(layer, parameters, (x,)).square().mean()

    leaf = x.clone().requires_grad_()
    loss(parameters, leaf).backward()
    got, of_x = torch.func.grad(loss, argnums=(0, 1))(parameters, x)
    assert_same(of_x, leaf.grad)
    for name, p in parameters.items():
        assert_same(got[name], p.grad)
    each = torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x)
    for i in range(len(x)):
        one = torch.func.grad(loss)(parameters, x[i])
        for name in parameters:
            torch.testing.assert_close(each[name][i], one[name], rtol=1e-4, atol=1e-5)
    assert_same(torch.func.vmap(layer)(x[:, None])[:, 0].detach(), layer(x).detach())
    with pytest.raises(RuntimeError, match="no second derivative"):
        y = layer(leaf).square().sum()
        torch.autograd.grad(torch.autograd.grad(y, leaf, create_graph=True)[0].sum(), leaf)


def test_without_a_gradient_of_the_weight_no_input_is_kept():
    layer, x = layer_of("3x3")
    layer(x)
    layer.weight.requires_grad_(False)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(tuple(t.shape)) or t, lambda t: t):
        layer(x)
    assert tuple(x.shape) not in kept


@pytest.mark.parametrize("learned", ("weight", "activation"))
def test_learned_scales_have_lsqs_gradient(learned):
    fakes = {
        "weight_fake_quantizer": LearnableFakeQuantize(-8, 7, channels=OUT),
        "activation_fake_quantizer": LearnableFakeQuantize(-127, 127)
        if learned == "activation"
        else FakeQuantize.from_config(dtype=torch.int8, granularity="per_tensor", is_dynamic=False),
    }
    layer, x = FakeQuantizedConv2d(C, OUT, 3, padding=1, **fakes).double(), draw(2, C, 6, 5, dtype=torch.float64)
    layer(x), layer.eval()
    y = layer(x)
    y.square().sum().backward()
    got = {name: p.grad.clone() for name, p in layer.named_parameters()}
    layer.zero_grad()
    of_torch(layer, *values(layer, x), layer.bias).square().sum().backward()
    assert any(name.endswith("scale") for name in got)
    for name, p in layer.named_parameters():
        torch.testing.assert_close(got[name], p.grad, rtol=1e-6, atol=1e-8)
