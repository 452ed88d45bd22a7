"""isobit.nn before a first batch, or as if there had been none: averages, shapes that turn out otherwise, resets."""

import copy
import math

import pytest
import torch
from isobit.nn import (
    FakeQuantize,
    FakeQuantizedLinear,
    HistogramObserver,
    LearnableFakeQuantize,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MSEObserver,
    PerChannelMinMaxObserver,
    convert,
    prepare,
)
from kit import assert_same, draw
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.utils import parametrize
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

OBSERVERS = (MinMaxObserver, MovingAverageMinMaxObserver, MSEObserver, HistogramObserver)
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


KNOWN = {
    "channels": CHANNELS | {"ch_axis": 1, "shape": (1, 8)},
    "groups": {"dtype": torch.qint8, "group_size": 4, "shape": [5, 8]},
    "with_args": {"observer": PerChannelMinMaxObserver.with_args(ch_axis=-1, shape=torch.Size((5, 8)))},
}


@pytest.mark.parametrize("name", KNOWN)
def test_with_a_shape_averages_and_checkpoints_start_before_the_first_batch(name, tmp_path):
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    model, fresh, x = FakeQuantize(**KNOWN[name]), FakeQuantize(**KNOWN[name]), draw(5, 8)
    averages = [AveragedModel(model, use_buffers=use_buffers) for use_buffers in (False, True)]
    with pytest.warns(UserWarning, match="nothing yet"):
        assert_same(model.eval()(x), FakeQuantize(**(KNOWN[name] | {"shape": None})).eval()(x))
    model.train()(x)
    for average in averages:
        average.update_parameters(model)
        assert_same(average.module.eval()(x), model(x))
    checkpoint.save(model.state_dict(), checkpoint_id=tmp_path)
    checkpoint.load(fresh.state_dict(), checkpoint_id=tmp_path)
    assert_same(fresh.eval()(x), model.eval()(x))


def test_a_configuration_takes_a_shape():
    for keywords, shape in (({"granularity": "per_channel"}, (5,)), ({"group_size": 4}, (5, 2)), ({}, (0,))):
        config = {"dtype": torch.int8, "is_dynamic": not keywords} | (keywords or {"granularity": "per_channel"})
        assert FakeQuantize.from_config(config, shape=(5, 8)).scale.shape == shape


def test_a_shape_of_negative_extents_is_an_error():
    """It was torch's error about the memory of a scale, or none where there is one scale."""
    for make in (MinMaxObserver, LearnableFakeQuantize):
        for keywords in ({}, {"group_size": 2}):
            with pytest.raises(ValueError, match=rf"{make.__name__}: shape is \[-3, 4\]; want extents of at least 0"):
                make(shape=(-3, 4), **keywords)


def test_a_shape_without_the_axis_is_an_error():
    with pytest.raises(ValueError, match=r"ch_axis is 1; want -1 to 0 for shape \[8\]"):
        PerChannelMinMaxObserver(1, shape=[8])
    with pytest.raises(TypeError, match="shape must be a list of ints"):
        PerChannelMinMaxObserver(1, shape=8)


SAID = {
    "channels": (lambda **k: PerChannelMinMaxObserver(shape=(5, 8), **k), (4, 8), r"\[4\]; want \[5\]"),
    "groups": (lambda **k: MSEObserver(group_size=4, shape=[5, 8], **k), (5, 12), r"\[5, 3\]; want \[5, 2\]"),
    "blocks": (
        lambda **k: MovingAverageMinMaxObserver(block_size=[5, 4], shape=[5, 8], **k),
        (10, 8),
        r"\[2, 2\]; want \[1, 2\]",
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_a_first_batch_of_another_shape_than_said_is_an_error(name):
    """It was taken, in place of the shape."""
    make, shape, message = SAID[name]
    message = rf"an input of shape .* has ranges of shape {message}, as shape=\[5, 8\] has"
    observer, fresh = make(), make()
    seen = make()
    seen(draw(5, 8))
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            observer(draw(*shape))
        assert observer.is_new()
        assert_same(tuple(observer.buffers()), tuple(fresh.buffers()))
        observer.reset_min_max_vals()
        observer.min_val, observer.max_val = torch.empty(0), torch.empty(0)  # as torch.ao's code empties its observers
        fresh.min_val, fresh.max_val = torch.empty(0), torch.empty(0)
    observer(draw(5, 8))
    assert_same(tuple(observer.buffers()), tuple(seen.buffers()))
    with pytest.raises(ValueError, match=message):
        observer(draw(*shape))
    assert_same(tuple(observer.buffers()), tuple(seen.buffers()))
    observer.reset_min_max_vals()
    assert_same(tuple(observer.buffers()), tuple(make().buffers()))


def test_a_module_says_that_its_observer_was_told_another_shape():
    torch._dynamo.reset()  # sizes are symbols once a test before has had two of them
    module = FakeQuantize(**KNOWN["groups"])
    before = copy.deepcopy(module.state_dict())
    for run in (module, torch.compile(module, backend="eager", fullgraph=True)):
        with pytest.raises(Exception, match=r"ranges of shape \[5, 3\]; want \[5, 2\], as shape=\[5, 8\] has"):
            run(draw(5, 12))
        assert_same(tuple(module.state_dict().values()), tuple(before.values()))
    assert_same(module(draw(5, 8)), FakeQuantize(**(KNOWN["groups"] | {"shape": None}))(draw(5, 8)))


def test_a_state_of_another_shape_than_said_is_not_loaded():
    said, other = PerChannelMinMaxObserver(shape=(5, 8)), PerChannelMinMaxObserver()
    other(draw(4, 8))
    with pytest.raises(RuntimeError, match="size mismatch for min_val"):
        said.load_state_dict(other.state_dict())
    assert_same(tuple(said.buffers()), tuple(PerChannelMinMaxObserver(shape=(5, 8)).buffers()))
    said.load_state_dict(PerChannelMinMaxObserver().state_dict())  # of one that saw nothing
    assert said.is_new()
    other.reset_min_max_vals()
    other(draw(5, 8)), said.load_state_dict(other.state_dict())
    assert_same(said.calculate_qparams(), other.calculate_qparams())


@pytest.mark.parametrize("where", ({"group_size": 4}, {"block_size": (2, 2)}), ids=str)
def test_a_first_batch_with_as_many_scales_in_another_shape_sets_none(where):
    """They were set in the order in which they came, and the forward failed for their shape."""
    module = LearnableFakeQuantize(-8, 7, shape=(4, 8), **where)
    state = copy.deepcopy(module.state_dict())
    with pytest.raises(
        ValueError, match=r"LearnableFakeQuantize: an input of shape \[.*\] has scales of shape .*; want \[.*\]"
    ):
        module(draw(2, 16) if "group_size" in where else draw(8, 4))
    assert_same(tuple(module.state_dict().values()), tuple(state.values()))


def test_a_quantizer_shared_by_weights_of_other_shapes():
    """Before it saw something it has the shape of the first; its scale is 1 for each."""
    by = FakeQuantize(**CHANNELS)
    layers = [FakeQuantizedLinear(16, n, weight_fake_quantizer=by) for n in (8, 24)]
    for layer in layers:
        alone = FakeQuantizedLinear(16, layer.out_features, weight_fake_quantizer=FakeQuantize(**CHANNELS))
        alone.load_state_dict({"weight": layer.weight, "bias": layer.bias}, strict=False)
        with pytest.warns(UserWarning, match="nothing yet"):
            y = layer.eval()(draw(3, 16))
            assert_same(y, alone.eval()(draw(3, 16)))
            assert_same(convert(layer)(draw(3, 16)), y.detach())
    layers[1].train()(draw(3, 16))
    assert by.scale.shape == (24,)
    with pytest.raises(ValueError, match=r"shape \[8\], those before had \[24\]"):
        layers[0].train()(draw(3, 16))


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
    with pytest.raises(Exception, match="data-dependent"):
        torch.export.export(model, (x,), strict=False)
    with pytest.raises(Exception, match="(?i)data-?dependent"):
        make_fx(model, tracing_mode="fake")(x)
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


@pytest.mark.parametrize("keywords", ({}, CHANNELS), ids=("tensor", "channels"))
def test_a_parametrized_scale_of_an_observer_follows_it(keywords):
    module, plain = FakeQuantize(**keywords), FakeQuantize(**keywords)
    parametrize.register_parametrization(module, "scale", Doubled())
    for factor in (1, 3):
        assert_same(module(draw(5, 8) * factor), plain(draw(5, 8) * factor))
        assert_same(module.scale, plain.scale)
    assert_same(module.eval()(draw(5, 8)), plain.eval()(draw(5, 8)))


@pytest.mark.parametrize("make", (LearnableFakeQuantize, FakeQuantize), ids=("learned", "observed"))
def test_a_parametrized_scale_compiles_as_one_graph(make):
    module = make()
    for _ in range(2):
        parametrize.register_parametrization(module, "scale", Doubled())
    plain, compiled = copy.deepcopy(module), torch.compile(module, fullgraph=True, backend="aot_eager")
    for factor in (1, 3):
        assert_same(compiled(draw(5, 8) * factor), plain(draw(5, 8) * factor))
        assert_same(tuple(module.state_dict().values()), tuple(plain.state_dict().values()))


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
