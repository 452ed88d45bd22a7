"""Convolutions for quantization-aware training: their values, beside torch's and an integer reference, and as served."""

import copy
import io
import pickle

import pytest
import torch
from convolutions import KINDS, OUT, SCHEMES, SHAPES, C, layer_of, of_torch, values
from isobit.nn import FakeQuantize, FakeQuantizedConv2d, MinMaxObserver, convert, prepare
from kit import FLOATS, NAMES, assert_same, draw

LAYERS = [(shape, scheme) for shape in SHAPES for scheme in ("static", "uint8 input", "float8")]
LAYERS += [(shape, scheme) for shape in ("2x3, strides", "groups", "line") for scheme in SCHEMES]


def by_integers(layer, served, x):
    """The layer's result from its codes and scales alone."""
    fake, weight = layer.activation_fake_quantizer, served.weight
    scale, zero_point, _ = fake.parameters_for(x)
    codes = fake.scheme.quantize(x, scale, zero_point, fake.scheme.byte_dtype).double()
    codes = codes if zero_point is None else codes - zero_point.double()
    kernel = layer.kernel_size
    ones = torch.ones_like(weight.scale, dtype=torch.float64)
    rows = weight._dequantize(weight.scheme, weight.codes, ones, weight.zero_point, torch.float64)
    acc = (
        of_torch(layer, codes, rows.reshape(OUT, *kernel, -1).movedim(-1, 1), None) + 0.0
    )  # exact; integers have no -0
    kind = torch.promote_types(x.dtype, torch.float32)
    w_scale = served.weight.scale.reshape(-1).expand(OUT).to(kind)
    y = acc.to(kind) * (scale.reshape(()).to(kind) * w_scale).reshape(-1, *[1] * len(kernel))
    y = y if layer.bias is None else y + layer.bias.to(kind).reshape(-1, *[1] * len(kernel))
    return y.to(x.dtype)


@pytest.mark.parametrize("shape, scheme", LAYERS)
def test_a_layer_has_one_result_trained_and_served(shape, scheme):
    layer, x = layer_of(shape, scheme)
    with torch.no_grad():
        layer(x)
    layer.eval()
    want = layer(x)
    served = convert(layer)
    assert served.product == SCHEMES[scheme][int(layer.groups > 1)] and not list(served.parameters())
    assert_same(served(x), want.detach())
    with torch.no_grad():
        assert_same(layer(x), want.detach())
    if served.product.startswith("integer"):
        assert_same(by_integers(layer, served, x), want.detach())
    torch_value = of_torch(layer, *values(layer, x), layer.bias)
    torch.testing.assert_close(want, torch_value, rtol=1e-4, atol=1e-4)
    assert want.stride() == torch_value.stride()
    assert_same(served.weight().contiguous(), values(layer, x)[1].detach())
    assert served.weight.shape == layer.weight.shape and served.weight.dtype == layer.weight.dtype
    loose = copy.deepcopy(layer)
    loose.exact = False
    torch.testing.assert_close(loose(x), torch_value)  # torch's bits differ where a gradient is wanted
    assert convert(loose).product == "torch"
    torch.testing.assert_close(convert(loose)(x), torch_value.detach())
    assert convert(loose)(x).stride() == torch_value.stride()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_layer_of_another_has_its_parameters(shape):
    layer, x = layer_of(shape)
    layer(x), layer.eval()
    fakes = {name: fake for name, fake in layer.named_children() if fake is not None}
    dims = layer.weight.dim() - 2
    plain = getattr(torch.nn, f"Conv{dims}d")(C, OUT, **SHAPES[shape][1]).eval()
    plain.load_state_dict(layer.state_dict(), strict=False)
    for made in (KINDS[dims].from_conv(plain, **fakes), KINDS[dims].from_conv(layer, **fakes)):
        assert not made.training and made.weight.device.type == "cpu"
        assert_same(made(x), layer(x))
    assert KINDS[dims].from_conv(plain).weight is plain.weight


@pytest.mark.parametrize("scheme", ("static", "dynamic", "uint8 input", "int4", "float8"))
@pytest.mark.parametrize("shape", ("3x3", "groups", "each channel", "reflect"))
@pytest.mark.parametrize("dtype", FLOATS[1:], ids=NAMES.get)
def test_other_types(dtype, shape, scheme):
    layer, x = layer_of(shape, scheme, dtype)
    y = layer(x)
    assert y.dtype == dtype
    y.square().sum().backward()
    assert layer.weight.grad.dtype == layer.bias.grad.dtype == dtype
    served = convert(layer)
    assert_same(served(x), layer.eval()(x).detach())
    if served.product.startswith("integer"):
        assert_same(served(x), by_integers(layer, served, x))
    else:
        wide = copy.deepcopy(layer).double()
        want = of_torch(wide, *[t.double() for t in values(layer, x)], wide.bias)
        torch.testing.assert_close(served(x).double(), want, rtol=1e-2, atol=0.2 if dtype.itemsize == 2 else 1e-9)


@pytest.mark.parametrize("scheme", ("static", "dynamic", "uint8 input", "float8"))
@pytest.mark.parametrize("shape", SHAPES)
def test_how_an_input_lies_changes_no_bit(shape, scheme):
    layer, x = layer_of(shape, scheme)
    layer(x)
    served = convert(layer)
    want = served(x)
    if scheme != "dynamic":
        assert_same(served(x[1]), want[1])
    assert_same(layer.eval()(x[:0]).detach(), want[:0])
    assert_same(served(x[:0]), want[:0])
    wide = torch.zeros(*x.shape[:-1], 2 * x.shape[-1])
    wide[..., ::2] = x
    assert_same(served(wide[..., ::2]), want)
    assert_same(served(x.transpose(0, -1).contiguous().transpose(0, -1)), want)
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
    if last is not None:
        y = served(x.contiguous(memory_format=last))
        assert_same(y, want)
        assert y.is_contiguous(memory_format=last)
        assert layer.train()(x.contiguous(memory_format=last)).is_contiguous(memory_format=last)


@pytest.mark.parametrize("scheme", ("static", "float input", "float8"))
@pytest.mark.parametrize("shape", ("1x1, strides", "3x3", "2x3, strides", "groups", "each channel", "volume", "line"))
def test_pieces_and_threads_change_no_bit(shape, scheme, monkeypatch):
    channels = 4 if shape == "each channel" else 16
    layer, x = layer_of(shape, scheme, channels=(channels, channels))
    x = draw(5, channels, *(19, 17, 6)[: x.dim() - 2], seed=1)
    layer(x), layer.eval()
    threads, results = torch.get_num_threads(), []
    try:
        for count, limit, merged in ((1, None, 64), (2, None, 1), (2, 1 << 14, 64), (1, 1 << 10, 1), (1, 1, 8)):
            torch.set_num_threads(count)
            monkeypatch.setattr("isobit.nn._convolution._MERGED", merged)
            if limit is not None:
                monkeypatch.setattr("isobit.nn._window._TURNED", limit)
                monkeypatch.setattr("isobit.nn._window.MOST", limit)
                monkeypatch.setattr("isobit.nn._convolution.MOST", limit)
                monkeypatch.setattr("isobit.nn._convolution_gradient._PATCHES", limit)
                monkeypatch.setattr("isobit.nn._convolution_gradient._FEW", 1)
            layer.zero_grad()
            leaf = x.clone().requires_grad_()
            last = leaf.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else leaf
            layer(leaf).backward(layer(last).detach())
            results.append([leaf.grad, *(p.grad for p in layer.parameters()), layer(x).detach(), convert(layer)(x)])
    finally:
        torch.set_num_threads(threads)
    for other in results[1:]:
        assert_same(other, results[0])


@pytest.mark.parametrize("scheme", SCHEMES)
def test_copies_pickles_and_states(scheme):
    layer, x = layer_of("3x3", scheme)
    layer(x), layer(x * 2)
    layer.eval()
    want = layer(x).detach()
    served = convert(layer)
    for made in (layer, served):
        assert_same(copy.deepcopy(made)(x).detach(), want)
        assert_same(pickle.loads(pickle.dumps(made))(x).detach(), want)
        file = io.BytesIO()
        torch.save(made.state_dict(), file)
        file.seek(0)
        fresh, _ = layer_of("3x3", scheme)
        with torch.no_grad():
            fresh.weight.mul_(3)
            fresh(x * 0.1)
        fresh = convert(fresh) if made is served else fresh
        fresh.load_state_dict(torch.load(file))
        assert_same(fresh.eval()(x).detach(), want)


def test_a_state_of_another_kernel_is_an_error():
    one, other = (
        FakeQuantizedConv2d(C, OUT, k, weight_fake_quantizer=SCHEMES["float input"][3]()) for k in ((1, 3), (3, 1))
    )
    one, other = convert(one), convert(other)
    assert one.weight.codes.shape == other.weight.codes.shape
    with pytest.raises(RuntimeError, match=r"shape \[8, 4, 1, 3\]; want shape \[8, 4, 3, 1\]"):
        other.load_state_dict(one.state_dict())
    assert repr(one).startswith(
        "ServedFakeQuantizedConv(\n  in_channels=4, out_channels=8, kernel_size=(1, 3), stride=(1, 1)"
    )


LAYER = FakeQuantizedConv2d(C, OUT, 3)
SERVED = convert(LAYER)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    (
        (ValueError, r"scales per_channel\(1\); want one, or one for each output channel", lambda: FakeQuantizedConv2d(C, OUT, 3, weight_fake_quantizer=FakeQuantize(MinMaxObserver, dtype=torch.int8, qscheme=torch.per_channel_symmetric, ch_axis=1))),
        (ValueError, r"prepare: '', a Conv1d: the weight has scales per_channel_group\(4\); want", lambda: prepare(torch.nn.Conv1d(C, OUT, 3), conv_weight={"dtype": "int4", "group_size": 4})),
        (TypeError, "FakeQuantizedConv2d: activation_fake_quantizer is a ReLU", lambda: FakeQuantizedConv2d(C, OUT, 3, activation_fake_quantizer=torch.nn.ReLU())),
        (TypeError, "FakeQuantizedConv2d: conv is a Conv1d; want a torch.nn.Conv2d", lambda: FakeQuantizedConv2d.from_conv(torch.nn.Conv1d(C, OUT, 3))),
        (TypeError, "conv is a ConvTranspose2d; want a torch.nn.Conv2d", lambda: FakeQuantizedConv2d.from_conv(torch.nn.ConvTranspose2d(C, C, 3))),
        (TypeError, "FakeQuantizedConv2d: exact must be a bool", lambda: FakeQuantizedConv2d(C, OUT, 3, exact=1)),
        (TypeError, "FakeQuantizedConv2d: input must be a Tensor, not NoneType", lambda: LAYER(None)),
        (ValueError, "FakeQuantizedConv2d: input is torch.int64; want", lambda: LAYER(torch.ones(1, C, 5, 5, dtype=torch.int64))),
        (ValueError, r"FakeQuantizedConv2d: input has shape \[2, 5, 5, 5\]; want \[4, H, W\], or a batch of such, \[N, 4, H, W\]", lambda: LAYER(draw(2, 5, 5, 5))),
        (ValueError, r"input has shape \[5, 5\]; want \[4, H, W\]", lambda: LAYER(draw(5, 5))),
        (ValueError, r"input has shape \[3, 5\]; want \[4, L\], or a batch of such, \[N, 4, L\]", lambda: KINDS[1](C, OUT, 3)(draw(3, 5))),
        (ValueError, r"input has shape \[4, 2, 9\], \[2, 9\] with its padding; want at least \[3, 3\]", lambda: LAYER(draw(C, 2, 9))),
        (ValueError, r"ServedFakeQuantizedConv: input has shape \[4, 2, 9\]", lambda: SERVED(draw(C, 2, 9))),
        (TypeError, "ServedFakeQuantizedConv: input must be a Tensor, not list", lambda: SERVED([1])),
        (TypeError, "prepare: conv_weight is a int; want torchao's", lambda: prepare(torch.nn.Conv2d(C, OUT, 3), conv_weight=8)),
        (ValueError, "prepare: conv_activation: what is not a field", lambda: prepare(torch.nn.Conv2d(C, OUT, 3), conv_activation={"what": 1})),
        (ValueError, "found no layer in Conv2d .* conv_weight and conv_activation are for torch.nn.Conv1d, Conv2d and Conv3d", lambda: prepare(torch.nn.Conv2d(C, OUT, 3), {"dtype": "int8"})),
        (ValueError, "'0', a LazyConv2d, has no weight before", lambda: prepare(torch.nn.Sequential(torch.nn.LazyConv2d(OUT, 3)), conv_weight={"dtype": "int8"})),
        (TypeError, "weight\\(\\), what they stand for", lambda: torch.nn.functional.conv2d(draw(1, C, 5, 5), SERVED.weight)),
    ),
)  # fmt: skip
def test_errors(error, message, call):
    with pytest.raises(error, match=message):
        call()
