"""isobit.nn before a first batch, or as if there had been none: averages, values, resets."""

import copy
import math

import pytest
import torch
from isobit.nn import (
    FakeQuantize,
    HistogramObserver,
    LearnableFakeQuantize,
    MinMaxObserver,
    PerChannelMinMaxObserver,
    learnable_fake_quantize,
    prepare,
)
from kit import assert_same, draw
from nn_models import OBSERVERS
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import parametrize
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

each_observer = pytest.mark.parametrize("kind", OBSERVERS)
CHANNELS = {"observer": PerChannelMinMaxObserver, "dtype": torch.qint8, "qscheme": torch.per_channel_symmetric}


@each_observer
@pytest.mark.parametrize("keywords", ({}, {"multi_avg_fn": get_ema_multi_avg_fn(0.9)}), ids=("swa", "ema"))
@pytest.mark.parametrize("dynamic", (False, True))
def test_averages_of_ranges_of_nothing_are_numbers(kind, keywords, dynamic):
    model = FakeQuantize(kind, is_dynamic=dynamic)
    average, x = AveragedModel(model, use_buffers=True, **keywords), draw(5, 8)
    for _ in range(3):
        average.update_parameters(model)
    assert average.module.activation_post_process.is_new()
    y = model(x)
    for _ in range(3):
        average.update_parameters(model)
    assert not any(value.isnan().any() for value in average.state_dict().values())
    assert_same(average.module.train()(x), y)  # which starts from this batch


@each_observer
@pytest.mark.filterwarnings("ignore:.*infinities")
def test_a_first_batch_is_its_range_whatever_it_is(kind):
    for x in (torch.full((3,), torch.inf), torch.full((3,), -torch.inf), draw(3, dtype=torch.float64) * 1e300):
        observer = kind()
        observer(x)
        if not observer.is_new():
            assert_same((observer.min_val, observer.max_val), observer.extremes(x))


@each_observer
def test_a_first_batch_of_one_value_is_a_range(kind):
    observer, loaded = kind(), kind()
    observer(torch.full((3,), 5.0))
    loaded.load_state_dict(observer.state_dict())
    for seen in (observer, loaded):
        assert not seen.is_new()
        seen(torch.zeros(3))
        assert (seen.max_val > 0).all()


@each_observer
def test_a_compiled_batch_of_one_value_is_no_empty_one(kind):
    """Where the number of elements is a symbol, a batch is empty if its range is one of nothing."""
    plain, traced = kind(), kind()
    compiled = torch.compile(traced, backend="eager")
    for x in (torch.full((3,), 5.0), torch.empty(0), torch.full((2,), -1.0)):
        plain(x)
        torch._dynamo.decorators.mark_unbacked(x, 0)
        compiled(x)
        assert_same((traced.min_val, traced.max_val), (plain.min_val, plain.max_val))


@each_observer
@pytest.mark.parametrize("dynamic", (False, True))
def test_on_meta_shapes_pass(kind, dynamic):
    model, want, x = FakeQuantize(kind, is_dynamic=dynamic), FakeQuantize(kind), draw(5, 8)
    model.to("meta")
    for mode in (True, False):
        y = model.train(mode)(x.to("meta"))
        assert y.is_meta and y.shape == x.shape
    model.to_empty(device="cpu")  # what shapes left behind is nothing
    assert_same(model.train()(x), want(x))
    if not dynamic:
        assert_same(tuple(model.state_dict().values()), tuple(want.state_dict().values()))


def test_a_histogram_is_not_exported_as_a_range():
    model, x = FakeQuantize(HistogramObserver), draw(5, 8)
    model(x)
    for f in (model, FakeQuantize(HistogramObserver, is_dynamic=True)):
        with pytest.raises(RuntimeError, match="HistogramObserver: its steps are data-dependent"):
            torch.export.export(f, (x,), strict=False)
        with pytest.raises(RuntimeError, match="HistogramObserver: its steps are data-dependent"):
            make_fx(f, tracing_mode="fake")(x)
    model.eval()
    assert_same(torch.export.export(model, (x,)).module()(x), model(x))


@pytest.mark.parametrize(
    "make",
    (LearnableFakeQuantize, FakeQuantize, lambda: FakeQuantize(PerChannelMinMaxObserver)),
    ids=("learned", "observed", "channels"),
)
@pytest.mark.parametrize("byte", (0, 255))
def test_reset_parameters_starts_anew_in_memory_that_holds_anything(make, byte):
    """As to_empty leaves it, after which one calls what torch's modules name so."""
    model, fresh, x = make(), make(), draw(5, 8)
    model(x * 9)
    model.to_empty(device="cpu")
    with torch.no_grad():
        for value in (*model.parameters(), *model.buffers()):
            value.reshape(-1).view(torch.uint8).fill_(byte)
    shapes = [value.shape for value in model.state_dict().values()]
    for module in model.modules():
        module.reset_parameters()
    assert [value.shape for value in model.state_dict().values()] == shapes
    assert (model.scale == 1).all() and (model.zero_point is None or not model.zero_point.any())
    assert_same(model(x), fresh(x))
    assert_same(tuple(model.state_dict().values()), tuple(fresh.state_dict().values()))


@each_observer
def test_a_reset_observer_is_as_new(kind):
    observer, fresh = kind(), kind()
    observer(draw(5, dtype=torch.float64))
    observer.reset_min_max_vals()
    for name, value in fresh.state_dict().items():
        assert_same(observer.state_dict()[name], value)
    observer(draw(5)), fresh(draw(5))
    assert_same(observer.calculate_qparams(), fresh.calculate_qparams())


def test_a_reset_observer_takes_other_channels():
    observer = PerChannelMinMaxObserver()
    observer(draw(5, 3, dtype=torch.float64))
    observer.reset_min_max_vals()
    assert observer.min_val.shape == (0,) and observer.min_val.dtype == torch.float32  # as torch.ao's
    observer(draw(4, 3))
    assert observer.calculate_qparams()[0].shape == (4,)


@each_observer
def test_an_observer_emptied_by_hand_has_seen_nothing(kind):
    """As torch.ao's code empties its observers."""
    observer, fresh = kind(), kind()
    observer(draw(5) * 9)
    observer.min_val, observer.max_val = torch.empty(0), torch.empty(0)
    assert observer.is_new()
    with pytest.warns(UserWarning, match="nothing yet"):
        assert_same(observer.calculate_qparams(), (torch.tensor(1.0), torch.tensor(0, dtype=torch.int32)))
    observer(draw(5)), fresh(draw(5))
    assert_same(observer.calculate_qparams(), fresh.calculate_qparams())


class Doubled(torch.nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, x):
        return x / 2


class Product(torch.nn.Module):
    def forward(self, a, b):
        return a * b

    def right_inverse(self, x):
        return x / 2, torch.full_like(x, 2)


@pytest.mark.parametrize("keywords", ({}, CHANNELS), ids=("tensor", "channels"))
def test_a_parametrized_scale_of_an_observer_follows_it(keywords):
    module, plain = FakeQuantize(**keywords), FakeQuantize(**keywords)
    parametrize.register_parametrization(module, "scale", Doubled())
    for factor in (1, 3):
        assert_same(module(draw(5, 8) * factor), plain(draw(5, 8) * factor))
        assert_same(module.scale, plain.scale)
    assert_same(module.eval()(draw(5, 8)), plain.eval()(draw(5, 8)))


@pytest.mark.parametrize("first", (Doubled, Product))
@pytest.mark.parametrize("make", (LearnableFakeQuantize, FakeQuantize), ids=("learned", "observed"))
def test_a_parametrized_scale_compiles_as_one_graph(make, first):
    module = make()
    for step in (first, Doubled):
        parametrize.register_parametrization(module, "scale", step())
    plain, compiled = copy.deepcopy(module), torch.compile(module, fullgraph=True, backend="aot_eager")
    for factor in (1, 3):
        assert_same(compiled(draw(5, 8) * factor), plain(draw(5, 8) * factor))
        assert_same(tuple(module.state_dict().values()), tuple(plain.state_dict().values()))


def test_a_parametrization_that_cannot_be_set_says_so():
    module = LearnableFakeQuantize()
    parametrize.register_parametrization(module, "scale", torch.nn.ReLU())
    with pytest.raises(RuntimeError, match="does not implement right_inverse"):
        module(draw(5, 8))


@pytest.mark.parametrize("byte", (0, 255))
def test_memory_that_holds_anything_is_loaded_over(byte):
    """to_empty of what was not on meta leaves values undefined, as for every module."""
    static = {"dtype": torch.int8, "granularity": "per_channel", "is_dynamic": False}
    model = prepare(torch.nn.Linear(8, 4), static, FakeQuantize.with_args(observer=HistogramObserver))
    model(draw(5, 8))
    state, want = {k: v.clone() for k, v in model.state_dict().items()}, model.eval()(draw(5, 8))
    model.to_empty(device="cpu")
    with torch.no_grad():
        for value in (*model.parameters(), *model.buffers()):
            value.reshape(-1).view(torch.uint8).fill_(byte)
    model.load_state_dict(state)
    assert_same(model.eval()(draw(5, 8)), want)


def test_learned_scales_are_float32_whatever_the_default_is():
    torch.set_default_dtype(torch.bfloat16)
    try:
        fake, observed = LearnableFakeQuantize(learn_zero_point=True), FakeQuantize()
    finally:
        torch.set_default_dtype(torch.float32)
    assert (fake.scale.dtype, fake.zero_point.dtype, observed.scale.dtype) == (torch.float32,) * 3
    fake(draw(5, 8))
    assert fake.scale.dtype == torch.float32


def test_a_learned_range_has_no_smaller_scale_than_eps():
    config = {"dtype": "int4", "granularity": "per_tensor", "range_learning": True, "is_dynamic": False}
    fake = FakeQuantize.from_config(config, eps=0.5)
    fake(draw(3, 4) * 1e-3)
    assert fake.scale.item() == 0.5


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_a_first_batch_in_16_bits_sets_what_its_values_in_32_do(dtype):
    x = draw(30, 40, dtype=dtype)
    for codes in ((-128, 127), (-2, 1)):
        narrow, wide = LearnableFakeQuantize(*codes), LearnableFakeQuantize(*codes)
        narrow(x), wide(x.float())
        assert_same(narrow.scale, wide.scale)


def test_the_first_batch_has_a_count_that_is_rounded_once():
    n = (1 << 26) + (1 << 24) + 5  # a sum of that many ones in float32 is another number
    fake = LearnableFakeQuantize(-128, 127)
    fake(torch.ones(1).expand(n))
    sums = list(torch.full((n // 65536,), 65536.0)) + [torch.tensor(float(n % 65536))]
    while len(sums) > 1:
        sums = [sum(sums[i : i + 2]) for i in range(0, len(sums), 2)]
    assert sums[0] != n and torch.tensor(n, dtype=torch.float32) != sums[0]
    want = 2 * (sums[0] / torch.tensor(n, dtype=torch.float32)) / torch.full((1,), math.sqrt(127))
    assert_same(fake.scale.detach(), want)


def test_compiled_code_does_not_ask_whether_anything_was_seen():
    x = draw(5, 8)
    with pytest.warns(UserWarning, match="FakeQuantize has seen nothing yet"):
        want = FakeQuantize().eval()(x)
    assert_same(torch.compile(FakeQuantize().eval(), backend="eager", fullgraph=True)(x), want)


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
@pytest.mark.filterwarnings("ignore:.*MinMaxObserver has seen nothing")
def test_compiled_code_may_have_seen_nothing():
    for kind in (MinMaxObserver, PerChannelMinMaxObserver):
        observer, x = kind(ch_axis=1), draw(5, 3)
        see = torch.compile(lambda x, m, observer=observer: observer(x[m]), backend="eager", fullgraph=True)
        see(x, torch.zeros(5, dtype=torch.bool))
        scale, zero_point = observer.calculate_qparams()
        assert observer.is_new() and (scale == 1).all() and (zero_point == 0).all()
        see(x, torch.arange(5) == 1)
        assert not observer.is_new()
        assert_same(observer.max_val, x[1] if kind is PerChannelMinMaxObserver else x[1].max())


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_a_compiled_start_is_of_a_batch_that_has_elements():
    fake, eager, x = LearnableFakeQuantize(), LearnableFakeQuantize(), draw(5, 3)
    see = torch.compile(lambda x, m: fake(x[m]), backend="eager", fullgraph=True)
    see(x, torch.zeros(5, dtype=torch.bool))
    assert fake.scale == 1 and not fake.initialized
    see(x, torch.arange(5) == 1), eager(x[1:2])
    assert_same((fake.scale, fake.initialized), (eager.scale, eager.initialized))


def test_a_start_that_another_dtype_rounds_to_1_is_not_lost():
    fake = LearnableFakeQuantize(1, 4, rounding="nearest")
    fake(torch.tensor([0.999]))
    assert fake.scale == torch.tensor(0.999) and fake.bfloat16().scale == 1
    fake(torch.tensor([0.999]))


@pytest.mark.filterwarnings("ignore:.*LearnableFakeQuantize has seen nothing")
def test_a_graph_keeps_the_parameters_from_before_the_first_batch():
    fake, x = LearnableFakeQuantize(learn_zero_point=True, start="min_max").eval(), draw(5, 8).requires_grad_()
    y = fake(x)
    fake.train()(x * 3)
    y.sum().backward()
    assert (fake.scale != 1).all() and (fake.zero_point != 0).all() and x.grad.sum() > 0


def test_another_thread_may_look_for_the_start_meanwhile(monkeypatch):
    fake, x = LearnableFakeQuantize(), draw(5, 8)
    y = fake(x)
    # Where one thread has found that there is a start to look for, another looks.
    monkeypatch.setattr(learnable_fake_quantize, "is_watched", lambda: monkeypatch.undo() or fake(x) is None)
    assert_same(fake(x), y)
