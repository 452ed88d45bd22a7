"""isobit.nn's argument shape, said before the first batch, and batches that have another."""

import copy

import pytest
import torch
from isobit.nn import (
    FakeQuantize,
    FakeQuantizedLinear,
    LearnableFakeQuantize,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MSEObserver,
    PerChannelMinMaxObserver,
    convert,
)
from kit import assert_same, draw
from torch.optim.swa_utils import AveragedModel

CHANNELS = {"observer": PerChannelMinMaxObserver, "dtype": torch.qint8, "qscheme": torch.per_channel_symmetric}
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


def test_other_channels_than_were_seen_are_refused():
    """Where nothing is observed, too: a scale of 1 stands in only for those of which nothing was seen."""
    fake = FakeQuantize(ch_axis=1, **CHANNELS)
    fake(draw(3, 4))
    for module in (fake.eval(), convert(fake)):
        with pytest.raises(ValueError, match=r"scale has shape \[4\]; want \[5\]"):
            module(draw(3, 5))


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
    module = FakeQuantize(**KNOWN["groups"])
    before = copy.deepcopy(module.state_dict())
    words = r"ranges of shape \[5, 3\]; want \[5, 2\], as shape=\[5, 8\] has"
    lost = r"raised exception \w+\(ArgumentError\)"  # whose words Dynamo of 2.8 leaves out
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    for run, match in ((module, words), (compiled, words if torch.__version__ >= "2.9" else lost)):
        with pytest.raises(Exception, match=match):
            run(draw(5, 12))
        assert_same(tuple(module.state_dict().values()), tuple(before.values()))
    assert_same(module(draw(5, 8)), FakeQuantize(**(KNOWN["groups"] | {"shape": None}))(draw(5, 8)))


def test_a_state_of_another_shape_than_said_is_not_loaded():
    said, other = PerChannelMinMaxObserver(shape=(5, 8)), PerChannelMinMaxObserver()
    other(draw(4, 8))
    with pytest.raises(RuntimeError, match="size mismatch for min_val"):
        said.load_state_dict(other.state_dict())
    assert_same(tuple(said.buffers()), tuple(PerChannelMinMaxObserver(shape=(5, 8)).buffers()))
    with pytest.warns(UserWarning, match="nothing yet"):
        assert [t.shape for t in said.calculate_qparams()] == [(5,), (5,)]
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
