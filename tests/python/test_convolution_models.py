"""Models with convolutions: prepared, trained, converted, compiled, exported, and what else programs do to them."""

import copy
import warnings

import pytest
import torch
import torch.ao.quantization as ao
from convolutions import OUT, SCHEMES, C, layer_of
from isobit.nn import (
    FakeQuantize,
    FakeQuantizedConv1d,
    FakeQuantizedConv2d,
    FakeQuantizedConv3d,
    FakeQuantizedLinear,
    HistogramObserver,
    LearnableFakeQuantize,
    MinMaxObserver,
    ServedFakeQuantizedConv,
    convert,
    prepare,
)
from kit import assert_same, draw
from test_nn_surface import reloaded
from torch.nn.utils.fusion import fuse_conv_bn_eval

WEIGHT = {"dtype": torch.int8, "granularity": "per_channel", "is_dynamic": False}
ACTIVATION = {"dtype": torch.int8, "granularity": "per_tensor", "is_dynamic": False}
WAYS = {
    "static": (WEIGHT, ACTIVATION),
    "learned": (WEIGHT | {"range_learning": True}, LearnableFakeQuantize),
    "histogram": (WEIGHT, FakeQuantize.with_args(observer=HistogramObserver)),
    "weights": (WEIGHT | {"dtype": "int4"}, None),
}
KINDS = {"dynamic int8": ("dynamic", "integer"), "static": ("static", "integer"), "codes": ("uint8 input", "codes")}


class Net(torch.nn.Module):
    """With norms, a convolution that is called twice, one of each channel, and a tied weight."""

    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False),
            torch.nn.BatchNorm2d(8),
            torch.nn.ReLU(),
            torch.nn.Conv2d(8, 8, 3, padding=1, groups=8),
            torch.nn.Conv2d(8, 8, 1),
            torch.nn.ReLU(),
        )
        self.again = self.body[4]
        self.tied = torch.nn.Conv2d(8, 8, 1)
        self.tied.weight = self.again.weight
        self.up = torch.nn.ConvTranspose2d(8, 8, 2)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, x):
        x = self.up(self.tied(self.again(self.body(x))))
        return self.head(x.mean((-1, -2)))


def learns(model, x):
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses[-1] < 0.8 * losses[0]


@pytest.mark.parametrize("lies", (torch.contiguous_format, torch.channels_last), ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_a_model_is_prepared_trained_and_converted(way, lies):
    torch.manual_seed(0)
    model, x = Net().to(memory_format=lies), draw(4, 3, 9, 9, spread=1.0).contiguous(memory_format=lies)
    parameters, layers = list(map(id, model.parameters())), [model.body[i] for i in (0, 3, 4)]
    conv_weight, conv_activation = WAYS[way]
    prepared = prepare(model, WEIGHT, conv_weight=conv_weight, conv_activation=conv_activation, inplace=True)
    assert prepared is model and [model.body[i] for i in (0, 3, 4)] == layers and model.again is layers[2]
    assert {type(m) for m in (*layers, model.tied)} == {FakeQuantizedConv2d}
    assert type(model.up) is torch.nn.ConvTranspose2d and type(model.head) is FakeQuantizedLinear
    assert model.tied.weight is model.again.weight and set(map(id, model.parameters())) >= set(parameters)
    assert learns(model, x)
    want = copy.deepcopy(model).eval()(x).detach()
    served = convert(model)
    assert {type(m) for m in served.modules()} & {FakeQuantizedConv2d} == set()
    assert served.again is served.body[4] and type(served.tied) is ServedFakeQuantizedConv
    assert_same(served(x), want)
    other = prepare(Net(), WEIGHT, conv_weight=conv_weight, conv_activation=conv_activation)
    other.load_state_dict(model.state_dict())
    assert_same(other.eval()(x).detach(), want)


def test_nothing_changes_without_the_arguments():
    for kind, becomes in zip((torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d), (FakeQuantizedConv1d, FakeQuantizedConv2d, FakeQuantizedConv3d), strict=True):  # fmt: skip
        model = torch.nn.Sequential(kind(C, OUT, 3), torch.nn.Linear(3, 3))
        assert [type(m) for m in prepare(model, WEIGHT)] == [kind, FakeQuantizedLinear]
        only = prepare(model, conv_activation=ACTIVATION, exact=False)
        assert [type(m) for m in only] == [becomes, torch.nn.Linear]
        assert only[0].weight_fake_quantizer is None and not only[0].exact
        assert issubclass(becomes, kind)
        assert prepare(model, conv_weight=WEIGHT)[0].weight_fake_quantizer.scale.shape == (OUT,)
        picked = prepare(model, WEIGHT, conv_weight=WEIGHT, filter_fn=lambda m, name: name == "1")
        assert [type(m) for m in picked] == [kind, FakeQuantizedLinear]

        class Mine(kind):
            pass

        left = prepare(torch.nn.Sequential(Mine(C, OUT, 3), torch.nn.Linear(3, 3)), WEIGHT, conv_weight=WEIGHT)
        assert type(left[0]) is Mine
    normed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Conv1d(C, OUT, 3))
    with pytest.raises(ValueError, match="no layer"):
        prepare(normed, conv_weight=WEIGHT)


def test_torch_aos_observers_and_states():
    qconfig = ao.QConfig(
        activation=FakeQuantize.with_args(observer=ao.MovingAverageMinMaxObserver, dtype=torch.quint8),
        weight=FakeQuantize.with_args(observer=ao.MovingAveragePerChannelMinMaxObserver, dtype=torch.qint8, qscheme=torch.per_channel_symmetric, ch_axis=0),
    )  # fmt: skip
    model, x = torch.nn.Sequential(torch.nn.Conv2d(C, OUT, 3)), draw(2, C, 6, 6)
    ours = prepare(model, conv_weight=qconfig.weight, conv_activation=qconfig.activation)
    want = ours(x)
    assert_same(convert(ours)(x), ours.eval()(x).detach())
    torch.testing.assert_close(want, model(x), rtol=0.05, atol=1.0)


def test_batch_norm_is_folded_before_or_trained_after():
    torch.manual_seed(0)
    x = draw(4, 3, 9, 9, spread=1.0)
    net = Net()
    net(x), net.eval()
    folded = copy.deepcopy(net)
    folded.body[0] = fuse_conv_bn_eval(folded.body[0], folded.body[1])
    folded.body[1] = torch.nn.Identity()
    torch.testing.assert_close(folded(x), net(x), rtol=1e-4, atol=1e-4)
    model = prepare(folded.train(), conv_weight=WEIGHT, conv_activation=ACTIVATION)
    assert learns(model, x)
    assert_same(convert(model)(x), model.eval()(x).detach())
    # What comes before a convolution's activation may be folded after, too, in eval mode.
    model = prepare(net.train(), conv_weight=WEIGHT, conv_activation=ACTIVATION)
    assert learns(model, x)
    assert_same(convert(model)(x), model.eval()(x).detach())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", ("3x3", "same", "reflect", "each channel", "line"))
def test_compiled(shape, kind):
    scheme, _ = KINDS[kind]
    layer, x = layer_of(shape, scheme)
    layer(x)
    eager = copy.deepcopy(layer)
    backend = "inductor" if (shape, kind) == ("3x3", "static") else "aot_eager"
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    leaves = [x.clone().requires_grad_() for _ in range(2)]
    for step in range(1, 3):
        y, want = compiled(leaves[0] * step), eager(leaves[1] * step)
        assert_same(y.detach(), want.detach())
        y.square().sum().backward(), want.square().sum().backward()
    assert_same(leaves[0].grad, leaves[1].grad)
    for p, q in zip(layer.parameters(), eager.parameters(), strict=True):
        assert_same(p.grad, q.grad)
    served = torch.compile(convert(layer), fullgraph=True, backend="aot_eager")
    assert_same(served(x), eager.eval()(x).detach())


@pytest.mark.parametrize("scheme", ("static", "dynamic", "uint8 input", "int4", "float8"))
@pytest.mark.parametrize("shape", ("3x3", "groups", "line"))
def test_an_exported_layer_takes_any_batch(shape, scheme):
    layer, x = layer_of(shape, scheme)
    layer(x)
    for model in (layer.eval(), convert(layer)):
        shapes = {"input": {0: torch.export.Dim("batch", min=2, max=64)}}
        program = torch.export.export(model, (x,), dynamic_shapes=shapes)
        more = draw(7, *x.shape[1:], seed=3)
        assert_same(reloaded(program)(more).detach(), model(more).detach())


@pytest.mark.parametrize("scheme", ("static", "uint8 input", "float8"))
def test_recorded(scheme):
    layer, x = layer_of("3x3", scheme)
    layer(x)
    served = convert(layer)
    want = served(x)
    if scheme != "float8":  # torch.jit has no view of another dtype
        assert_same(torch.jit.trace(served, x)(x), want)
    assert_same(torch.fx.symbolic_trace(torch.nn.Sequential(served))(x), want)
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(layer))
    assert [n.op for n in traced.graph.nodes] == ["placeholder", "call_module", "output"]
    with torch.inference_mode():
        assert_same(served(x).clone(), want)
        converted = convert(layer)
    assert_same(converted(x.clone().requires_grad_()).detach(), want)
    assert_same(torch.utils.checkpoint.checkpoint(layer.eval(), x, use_reentrant=False).detach(), want)


@pytest.mark.parametrize("scheme", ("static", "uint8 input", "float8", "weight not quantized"))
def test_autocast(scheme):
    """Products of values have autocast's type, as torch's convolution; products of codes input's."""
    layer, x = layer_of("3x3", scheme)
    layer(x), layer.eval()
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
        assert y.dtype == (torch.bfloat16 if convert(layer).product == "float" else torch.float32)
        assert_same(convert(layer)(x), y.detach())
    y.float().square().sum().backward()
    assert layer.weight.grad.dtype == torch.float32


def test_hooks_of_fake_quantizers_run_and_change_no_bit():
    for scheme in ("static", "learned", "uint8 input", "float8"):
        plain, x = layer_of("3x3", scheme)
        plain(x), plain.eval()
        layer, seen = copy.deepcopy(plain), []
        for fake in (f for f in layer.children() if f is not None):
            fake.register_forward_hook(lambda m, args, y, to=seen: to.append(("forward", args[0].shape, y.shape)))
            fake.register_full_backward_hook(lambda m, x, y, to=seen: to.append(("backward", x[0].shape, y[0].shape)))
        leaves = [x.clone().requires_grad_() for _ in range(2)]
        assert_same(layer(leaves[0]).detach(), plain(leaves[1]).detach())
        layer(leaves[0]).square().sum().backward(), plain(leaves[1]).square().sum().backward()
        assert_same(leaves[0].grad, leaves[1].grad)
        for p, q in zip(layer.parameters(), plain.parameters(), strict=True):
            assert_same(p.grad, q.grad)
        shapes = {t.shape for f, t in ((layer.activation_fake_quantizer, x), (layer.weight_fake_quantizer, layer.weight)) if f is not None}  # fmt: skip
        assert {(kind, shape, shape) for kind in ("forward", "backward") for shape in shapes} == set(seen)
        assert_same(convert(layer)(x), plain(x).detach())


def test_on_meta_and_after():
    with torch.device("meta"):
        model = prepare(torch.nn.Conv2d(C, OUT, 3, padding=1), conv_weight=WEIGHT, conv_activation=ACTIVATION)
        assert model.weight.is_meta and model(torch.empty(2, C, 5, 5)).shape == (2, OUT, 5, 5)
    source = prepare(torch.nn.Conv2d(C, OUT, 3, padding=1), conv_weight=WEIGHT, conv_activation=ACTIVATION)
    x = draw(2, C, 5, 5)
    source(x), source.eval()
    model.to_empty(device="cpu").load_state_dict(source.state_dict())
    assert_same(model.eval()(x).detach(), source(x).detach())


def test_what_is_switched_off_is_served_as_it_is():
    layer, x = layer_of("3x3")
    layer(x), layer.eval()
    layer.activation_fake_quantizer.disable_fake_quant()
    assert convert(layer).product == "codes"
    assert_same(convert(layer)(x), layer(x).detach())
    layer.weight_fake_quantizer.disable_fake_quant()
    assert convert(layer).product == "float"
    assert_same(convert(layer)(x), layer(x).detach())
    served = convert(layer_with_dynamic_activation())
    served.activation_fake_quantizer.disable_fake_quant()
    with pytest.raises(RuntimeError, match="ServedFakeQuantizedConv: the activation_fake_quantizer is switched off"):
        served(x)


def layer_with_dynamic_activation():
    return layer_of("3x3", "dynamic")[0]


def test_a_converted_layer_follows_bfloat16():
    for scheme in SCHEMES:
        layer, x = layer_of("3x3", scheme)
        layer(x)
        served = convert(layer).bfloat16()
        y = served(x.bfloat16())
        assert y.dtype == torch.bfloat16 and served.weight().dtype == torch.bfloat16
        torch.testing.assert_close(y.float(), convert(layer)(x), rtol=0.1, atol=0.3)


@pytest.mark.parametrize("scheme", ("static", "uint8 input", "float8"))
@pytest.mark.parametrize("shape", ("1x1", "3x3", "groups", "reflect", "line"))
def test_what_a_layer_gives_may_be_written_to(shape, scheme):
    _, x = layer_of(shape, scheme)
    inputs = [x, x[0]] + ([x.contiguous(memory_format=torch.channels_last)] if x.dim() == 4 else [])
    for given in inputs:
        grads = []
        for relu in (torch.relu, torch.relu_):
            layer, _ = layer_of(shape, scheme)
            leaf = given.clone().requires_grad_()
            relu(layer(leaf)).sum().backward()
            grads.append((layer.weight.grad, leaf.grad))
        assert_same(*grads)
        leaf = given.clone().requires_grad_()
        torch.relu_(convert(layer)(leaf)).sum().backward()


def test_a_first_batch_sets_scales_of_weights_before_it():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fake = FakeQuantize(MinMaxObserver, dtype=torch.qint8, qscheme=torch.per_channel_symmetric)
        layer = FakeQuantizedConv2d(C, OUT, 3, weight_fake_quantizer=fake)
        assert fake.scale.shape == (OUT,)
        layer(draw(1, C, 4, 4))
    torch.testing.assert_close(fake.scale, layer.weight.detach().abs().amax((1, 2, 3)) / 127.5, rtol=0.02, atol=0)
