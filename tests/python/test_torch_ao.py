"""What fake-quantizes, beside torch.ao: its results, its states, and what it converts."""

import inspect
import sys
from abc import ABC
from functools import partial
from types import SimpleNamespace

import isobit
import pytest
import torch
import torch.ao.quantization as ao
from isobit.nn import FakeQuantize, LearnableFakeQuantize, PerChannelMinMaxObserver
from kit import assert_same, draw

NAMES = ("ch_axis", "dtype", "is_dynamic", "is_per_channel", "qscheme", "quant_min", "quant_max")


@pytest.mark.parametrize("keywords", ({}, {"dtype": torch.qint8, "reduce_range": True}, {"averaging_constant": 0.5}))
def test_fake_quantize_is_torch_aos(keywords):
    """With rounding=reciprocal, bit for bit but for the sign of zeros: results, gradients, state."""
    ours, theirs = FakeQuantize(**keywords, rounding="reciprocal"), ao.FakeQuantize(**keywords)
    for seed in range(3):
        x, y = (draw(6, 7, seed=seed).requires_grad_() for _ in range(2))
        a, b = ours(x), theirs(y)
        assert torch.equal(a, b)
        a.square().sum().backward(), b.square().sum().backward()
        assert torch.equal(x.grad, y.grad)
    assert_same(ours.scale, theirs.scale)
    for name in NAMES:
        assert getattr(ours, name) == getattr(theirs, name), name
    theirs.disable_observer()
    other = FakeQuantize(**keywords, rounding="reciprocal")
    other.load_state_dict(theirs.state_dict())
    assert not other.observer_enabled
    assert torch.equal(other(x), theirs(x))
    fresh = FakeQuantize(**keywords, rounding="reciprocal")
    fresh.load_state_dict(ao.FakeQuantize(**keywords).state_dict())
    assert fresh.activation_post_process.is_new() and fresh.observer_enabled


def test_names_of_a_fake_quantizer_of_channels_are_torch_aos():
    given = {"dtype": torch.qint8, "qscheme": torch.per_channel_symmetric, "ch_axis": 1}
    ours = FakeQuantize(PerChannelMinMaxObserver, quant_min=-128, quant_max=127, **given)
    theirs = ao.FakeQuantize(ao.PerChannelMinMaxObserver, quant_min=-128, quant_max=127, **given)
    for name in NAMES:
        assert getattr(ours, name) == getattr(theirs, name), name
    for name in ("ch_axis", "dtype", "qscheme", "quant_min", "quant_max"):
        assert getattr(ours.activation_post_process, name) == getattr(theirs.activation_post_process, name), name


CHANNELS = {"dtype": torch.qint8, "qscheme": torch.per_channel_affine, "quant_min": -128, "quant_max": 127}
OBSERVERS = {
    "MinMaxObserver": {},
    "MovingAverageMinMaxObserver": {},
    "HistogramObserver": {},
    "PerChannelMinMaxObserver": CHANNELS,
    "MovingAveragePerChannelMinMaxObserver": CHANNELS,
}


@pytest.mark.parametrize("name", (*OBSERVERS, "FakeQuantize"))
def test_a_signature_begins_with_torch_aos(name):
    ours, theirs = (list(inspect.signature(getattr(m, name)).parameters.values()) for m in (isobit.nn, ao))
    for p, q in zip(ours, theirs[:-1], strict=False):  # the last one is **kwargs
        default = getattr(isobit.nn, q.default.__name__) if inspect.isclass(q.default) else q.default
        assert (p.name, p.kind, p.default) == (q.name, q.kind, default)
    assert all(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in ours[len(theirs) - 1 :])


@pytest.mark.parametrize("name", OBSERVERS)
def test_states_of_torch_ao_load_and_load_there(name):
    """Into modules that are new and into such that saw something else: names, shapes and values are theirs."""
    keywords, x = OBSERVERS[name], draw(4, 8)
    ours, theirs = (partial(getattr(of, name), **keywords) for of in (isobit.nn, ao))
    fakes = [partial(of.FakeQuantize, getattr(of, name), **keywords) for of in (isobit.nn, ao)]
    pairs = [(ours, theirs), (theirs, ours), tuple(fakes), tuple(fakes[::-1])]
    if name.startswith("MovingAverage"):
        fused = partial(ao.FusedMovingAvgObsFakeQuantize, getattr(ao, name), **keywords)
        pairs += [(fakes[0], fused), (fused, fakes[0])]
    for source, target in pairs:
        given, used = source(), target()
        given(x), used(draw(4, 8, seed=1))
        saved = given.state_dict()
        for module in (target(), used):
            module.load_state_dict(saved)
            state = module.state_dict()
            assert all(key.endswith("eps") for key in saved.keys() ^ state.keys())
            for key in saved.keys() & state.keys():
                torch.testing.assert_close(state[key], saved[key], rtol=0, atol=0, check_dtype=False)
            module(x * 2)


@pytest.mark.parametrize("qscheme", (torch.per_tensor_symmetric, torch.per_tensor_affine))
def test_no_scale_is_below_eps(qscheme):
    for x in (torch.tensor([-0.2, 0.1]), torch.tensor([0.4, 0.45])):
        ours, theirs = (of.MinMaxObserver(dtype=torch.qint8, qscheme=qscheme, eps=0.5) for of in (isobit.nn, ao))
        ours(x), theirs(x)
        for got, want in zip(ours.calculate_qparams(), theirs.calculate_qparams(), strict=True):
            torch.testing.assert_close(got.reshape(1), want, check_dtype=False)


@pytest.mark.filterwarnings("ignore")
def test_torch_ao_converts_learned_scales():
    """It asks what it takes for its own FakeQuantizeBase for calculate_qparams, dtype and qscheme."""
    activation = LearnableFakeQuantize.with_args(
        quant_min=0, quant_max=255, dtype=torch.quint8, learn_zero_point=True, start="min_max"
    )
    for weight in (
        LearnableFakeQuantize.with_args(dtype=torch.qint8),
        LearnableFakeQuantize.with_args(dtype=torch.qint8, channels=4),
    ):
        model = torch.nn.Sequential(ao.QuantStub(), torch.nn.Linear(8, 4), ao.DeQuantStub()).train()
        model.qconfig = ao.QConfig(activation=activation, weight=weight)
        prepared, x = ao.prepare_qat(model), draw(5, 8)
        prepared(x)
        want = prepared.eval()(x)
        with torch.no_grad():
            prepared[0].activation_post_process.zero_point += 0.25
        scale, zero_point = prepared[0].activation_post_process.calculate_qparams()
        assert not scale.requires_grad and zero_point.dtype == torch.int32
        assert_same(isobit.nn.convert(prepared[0].activation_post_process).calculate_qparams(), (scale, zero_point))
        torch.testing.assert_close(
            ao.convert(prepared)(x), want, rtol=0, atol=1.01 * float(prepared[1].activation_post_process.scale)
        )
    assert_same(
        LearnableFakeQuantize(channels=2).calculate_qparams(), (torch.ones(2), torch.zeros(2, dtype=torch.int32))
    )


def test_observers_of_torch_ao_can_be_used():
    x = draw(6, 300)
    for observer, symmetric in (
        (ao.HistogramObserver, False),
        (ao.HistogramObserver.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric), True),
        (ao.HistogramObserver.with_args(qscheme=torch.per_tensor_symmetric), False),  # of uint8, about 128
        (ao.PerChannelMinMaxObserver.with_args(dtype=torch.qint8, ch_axis=1), False),
    ):
        ours, theirs = FakeQuantize(observer), ao.FakeQuantize(observer)
        assert ours.scheme.symmetric == symmetric
        y = ours(x)
        theirs(x)
        assert_same(ours.scale, theirs.scale)
        assert ours.zero_point.dtype == torch.int32  # theirs may be int64
        assert (y - theirs(x)).abs().max() <= theirs.scale.max()
        assert_same(isobit.nn.convert(ours)(x), ours.eval()(x))
    with pytest.raises(ValueError, match="qscheme is torch.per_channel_affine_float_qparams; want one of"):
        FakeQuantize(ao.PerChannelMinMaxObserver, qscheme=torch.per_channel_affine_float_qparams)
    with pytest.raises(TypeError, match="cannot be dynamic"):
        FakeQuantize(ao.HistogramObserver, is_dynamic=True)
    with pytest.raises(TypeError, match="observer is a Linear"):
        FakeQuantize(lambda: torch.nn.Linear(2, 2))


def test_torchao_takes_modules_for_its_own(monkeypatch):
    """As its prepare_pt2e makes them, by constructors whose names say whether there are channels; its convert_pt2e left
    what was none of its classes where it was."""
    pt2e = SimpleNamespace(FakeQuantizeBase=type("FakeQuantizeBase", (ABC,), {}), ObserverBase=type("Base", (ABC,), {}))
    monkeypatch.setitem(sys.modules, "torchao.quantization.pt2e", pt2e)
    of_channels = PerChannelMinMaxObserver.with_args(ch_axis=1)
    assert of_channels.with_args(dtype=torch.int8).__name__ == "PerChannelMinMaxObserver"
    made = FakeQuantize.with_args(observer=of_channels)()
    assert isinstance(made, pt2e.FakeQuantizeBase) and not isinstance(made, pt2e.ObserverBase)
    assert isinstance(made.activation_post_process, pt2e.ObserverBase)
    spec = {"dtype": torch.int8, "quant_min": -8, "quant_max": 7, "is_dynamic": False}  # what it passes
    learned = LearnableFakeQuantize.with_args(channels=3).with_args(**spec, qscheme=torch.per_channel_symmetric)
    assert isinstance(learned(), pt2e.FakeQuantizeBase)
    with pytest.raises(
        ValueError, match="qscheme is torch.per_tensor_affine; want torch.per_tensor_symmetric, what chan"
    ):
        LearnableFakeQuantize(qscheme=torch.per_tensor_affine)
    with pytest.raises(ValueError, match="is_dynamic is True; want False"):
        LearnableFakeQuantize(is_dynamic=True)
