"""Observers: beside isobit's own ops, torch.ao's observers, and formulas written out."""

import copy
import inspect
import pickle

import isobit
import numpy as np
import pytest
import torch
import torch.ao.quantization as ao
from isobit.nn import (
    FakeQuantize,
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    MSEObserver,
    PerChannelMinMaxObserver,
)
from isobit.nn._grouping import Grouping
from kit import FLOATS, NAMES, assert_same, draw, layouts

SYMMETRIC, AFFINE = torch.per_tensor_symmetric, torch.per_tensor_affine
GROUPINGS = {
    "tensor": ("per_tensor", (), {}),
    "channel": ("per_channel", (-2,), {"ch_axis": -2}),
    "group": ("per_channel_group", (4,), {"group_size": 4}),
    "block": ("per_block", ([2, 4, 5],), {"block_size": [2, 4, 5]}),
}


def choose(where, x, symmetric, **keywords):
    name, at, _ = GROUPINGS[where]
    return getattr(isobit, f"choose_qparams_{name}")(x, *at, symmetric=symmetric, **keywords)


def observer_of(where, symmetric, kind=MinMaxObserver, dtype=torch.int8, **keywords):
    scheme = SYMMETRIC if symmetric else AFFINE
    if where in ("channel", "group"):
        scheme = torch.per_channel_symmetric if symmetric else torch.per_channel_affine
    return kind(dtype=dtype, qscheme=scheme, **GROUPINGS[where][2], **keywords)


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("symmetric", (True, False))
@pytest.mark.parametrize("where", GROUPINGS)
def test_min_max_gives_what_choose_qparams_gives(where, symmetric, dtype):
    x = draw(5, 6, 11, dtype=dtype)
    x[1], x[2] = 0, x[2].abs()
    observer = observer_of(where, symmetric)
    assert observer(x) is x
    want = choose(where, x, symmetric)
    assert_same(observer.calculate_qparams(), want)
    observer(x * 0.5)
    assert_same(observer.calculate_qparams(), want)
    restored = observer_of(where, symmetric)
    restored.load_state_dict(observer.state_dict())
    for other in (restored, copy.deepcopy(observer), pickle.loads(pickle.dumps(observer))):
        assert_same(other.calculate_qparams(), want)
        other(x * 2)
        assert_same(other.calculate_qparams(), choose(where, x * 2, symmetric))
    observer.reset_min_max_vals()
    with pytest.warns(UserWarning, match="nothing yet"):
        assert observer.calculate_qparams()[0] == 1


@pytest.mark.parametrize("kind", (MinMaxObserver, MovingAverageMinMaxObserver, MSEObserver))
@pytest.mark.parametrize("where", GROUPINGS)
def test_statistics_depend_on_no_thread_and_no_layout(where, kind):
    x = draw(24, 60, 50)
    threads = torch.get_num_threads()
    results = []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            for _, view in layouts(x):
                observer = observer_of(where, False, kind, **({"steps": 4} if kind is MSEObserver else {}))
                observer(view), observer(view * 1.5)
                results.append((observer.min_val, observer.max_val, *observer.calculate_qparams()))
    finally:
        torch.set_num_threads(threads)
    assert len(results) >= 12
    for other in results[1:]:
        assert_same(other, results[0])


def test_special_values():
    observer = MinMaxObserver(torch.int8)
    observer(torch.empty(0, 3))
    assert observer.is_new()
    observer(torch.tensor([-0.0, -0.0]))
    assert_same(observer.max_val, torch.tensor(0.0))
    assert_same(observer.calculate_qparams(), (torch.tensor(1.0), torch.tensor(-128, dtype=torch.int32)))
    channels = PerChannelMinMaxObserver(0, torch.int8)
    channels(torch.tensor([[-0.0, -0.0], [-0.0, float("nan")]]))
    for seen in (channels.min_val, channels.max_val):
        assert_same(seen[0], torch.tensor(0.0))
        assert seen[1].isnan()
    observer(torch.tensor([1.0, float("nan")]))
    assert observer.calculate_qparams()[0].isnan()
    observer(torch.tensor([1.0]))
    assert observer.calculate_qparams()[0].isnan()
    for dtype in (torch.bfloat16, torch.float16):
        of_any = MinMaxObserver(eps=torch.finfo(torch.float32).max)  # eps up to the largest number
        ends = torch.tensor([-1.0, 2.0])
        assert_same(of_any.extremes(ends.to(dtype)), tuple(ends))
        assert_same(of_any(torch.ones([1] * 8, dtype=dtype)).float(), torch.ones([1] * 8))
    channels = PerChannelMinMaxObserver()
    channels(ends)
    assert_same((channels.min_val, channels.max_val), (ends, ends))
    assert_same(MinMaxObserver().extremes(torch.empty(0)), (torch.tensor(float("inf")), torch.tensor(-float("inf"))))
    for least in (HistogramObserver(1), MSEObserver(smallest=1, steps=1)):
        least(ends)
        assert_same((least.min_val, least.max_val), tuple(ends))
    one = MinMaxObserver(block_size=[])
    one(torch.tensor(2.0))
    assert_same(one.max_val, torch.tensor(2.0))
    with pytest.raises(ValueError, match=r"shape \[3\], those before had \[2\]"):
        channels = PerChannelMinMaxObserver(0, torch.int8)
        channels(draw(2, 4)), channels(draw(3, 4))


PAIRS = {
    "min_max": (MinMaxObserver(), ao.MinMaxObserver()),
    "moving": (MovingAverageMinMaxObserver(0.1), ao.MovingAverageMinMaxObserver(0.1)),
    "reduced": (MinMaxObserver(torch.qint8, reduce_range=True), ao.MinMaxObserver(torch.qint8, reduce_range=True)),
    "range": (MinMaxObserver(quant_min=0, quant_max=15), ao.MinMaxObserver(quant_min=0, quant_max=15)),
    "channel": (PerChannelMinMaxObserver(1), ao.PerChannelMinMaxObserver(1)),
    "moving_channel": (
        MovingAveragePerChannelMinMaxObserver(0.3, 1, torch.qint8),
        ao.MovingAveragePerChannelMinMaxObserver(0.3, 1, torch.qint8),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_asymmetric_observers_are_torch_aos(name):
    ours, theirs = PAIRS[name]
    for seed in range(4):
        x = draw(7, 9, seed=seed)
        ours(x), theirs(x)
        assert_same((ours.min_val, ours.max_val), (theirs.min_val, theirs.max_val))
        (s, z), (want_s, want_z) = ours.calculate_qparams(), theirs.calculate_qparams()
        assert_same(s.reshape(-1), want_s)
        assert torch.equal(z.reshape(-1), want_z.to(torch.int32))
    again = copy.deepcopy(ours)
    again.reset_min_max_vals()
    again.load_state_dict(theirs.state_dict())
    assert_same(again.calculate_qparams(), ours.calculate_qparams())


def test_symmetric_scales_are_those_of_the_contract():
    x = draw(7, 9)
    most = x.abs().max()
    for dtype, middle, quant_max in ((torch.qint8, 0, 127), (torch.quint8, 128, 127)):
        ours, theirs = MinMaxObserver(dtype, SYMMETRIC), ao.MinMaxObserver(dtype, SYMMETRIC)
        ours(x), theirs(x)
        scale, zero_point = ours.calculate_qparams()
        assert_same(scale, most / quant_max)
        assert_same(theirs.calculate_qparams()[0], (most / 127.5).reshape(1))
        assert zero_point == theirs.calculate_qparams()[1] == middle


@pytest.mark.parametrize("kind", (MinMaxObserver, MSEObserver))
def test_float8_codes_from_0_on_have_the_zero_point_0(kind):
    """The middle of a range is for integers that have no negative ones."""
    x, f8 = draw(7, 9), torch.float8_e4m3fn
    fake = FakeQuantize(kind, 0, 448, dtype=f8, qscheme=SYMMETRIC)
    y = fake(x)
    assert fake.zero_point.item() == 0
    want = isobit.fake_quantize_per_tensor_affine(x, fake.scale.reshape([]), None, 0, 448, code_dtype=f8)
    assert_same(y, want)
    assert (y >= 0).all() and y.max() > 0
    with pytest.raises(ValueError, match="quant_min and quant_max are 1 and 5; want 0 between them"):
        kind(dtype=f8, qscheme=SYMMETRIC, quant_min=1, quant_max=5)


def test_eps_and_arguments():
    tiny = MinMaxObserver(torch.int8, eps=0.5)
    tiny(torch.tensor([-1.0, 3.0]))
    assert_same(tiny.calculate_qparams(), (torch.tensor(0.5), torch.tensor(-126, dtype=torch.int32)))
    partial = MovingAverageMinMaxObserver.with_args(dtype=torch.int8).with_args(qscheme=SYMMETRIC)
    assert partial().scheme.symmetric and partial(0.5).averaging_constant == 0.5
    assert MinMaxObserver(torch.int8, SYMMETRIC).qscheme == SYMMETRIC
    for kind in (MinMaxObserver, MovingAverageMinMaxObserver, PerChannelMinMaxObserver, HistogramObserver,
                 MovingAveragePerChannelMinMaxObserver):  # fmt: skip
        given, wanted = inspect.signature(kind).parameters, inspect.signature(getattr(ao, kind.__name__)).parameters
        for name, at in wanted.items():
            if name not in ("self", "kwargs"):
                assert given[name].default == at.default, (kind, name)
        assert [n for n in given if n in wanted] == [n for n in wanted if n in given]
        assert [kind(is_dynamic=dynamic).is_dynamic for dynamic in (False, True)] == [False, True]
        torchs = ao.FakeQuantize.with_args(observer=kind, quant_min=0, quant_max=255, dtype=torch.quint8)
        if "Channel" not in kind.__name__:
            assert torchs()(draw(3, 4)).shape == (3, 4)
    for given in ({}, {"quant_min": 0, "quant_max": 255}, {"quant_min": -7, "quant_max": 9, "dtype": torch.qint8}):
        ours, theirs = (of(reduce_range=True, **given) for of in (MinMaxObserver, ao.MinMaxObserver))
        assert (ours.quant_min, ours.quant_max) == (theirs.quant_min, theirs.quant_max)
    assert MinMaxObserver(torch.int8, quant_min=-5, quant_max=0).scheme.quant_max == 0  # the largest code may be 0
    assert MinMaxObserver(reduce_range=np.True_).quant_max == 127  # a truth value of numpy's is one
    for message, bad in (
        ("want one of", {"qscheme": torch.per_channel_affine_float_qparams}),
        ("want -128 <= quant_min", {"quant_min": 9, "quant_max": 3, "dtype": torch.int8}),
        ("quant_max <= 127", {"quant_min": -9, "quant_max": 128, "dtype": torch.int8}),
        ("want 0 <= quant_min", {"quant_min": -1}),
        ("want 0 between", {"quant_min": 3, "quant_max": 9}),
        ("want symmetric=False", {"dtype": "int1", "qscheme": SYMMETRIC}),
        ("symmetric scheme", {"dtype": torch.float8_e4m3fn}),
        ("want an integer of 1 to 8 bits", {"dtype": torch.float32}),
        ("want an integer of 1 to 8 bits", {"dtype": "int9"}),
        ("want one of", {"group_size": 3, "block_size": [1, 3]}),
        ("at least 1", {"group_size": 0}),
    ):
        with pytest.raises(ValueError, match=message):
            MinMaxObserver(**bad)
    with pytest.raises(ValueError, match="extent"):
        MinMaxObserver(block_size=[2])(draw(2, 2))
    with pytest.raises(ValueError, match="ch_axis is 2"):
        PerChannelMinMaxObserver(2)(draw(2, 2))


def test_mse_takes_the_best_of_its_ranges():
    x = draw(64, 64)
    x[0, 0], x[0, 33] = 100.0, -90.0
    observer = MSEObserver(dtype="int4", qscheme=SYMMETRIC, steps=5, smallest=0.2, eps=0.0)
    observer(x)

    def loss(factor):
        scale = isobit.choose_qparams_per_tensor(torch.tensor([100.0]) * factor, quant_min=-8, quant_max=7)[0]
        return (isobit.fake_quantize_per_tensor_affine(x, scale, None, -8, 7) - x).double().square().sum()

    factors = [1 - 0.8 * i / 4 for i in range(5)]
    best = min(factors, key=loss)
    assert best < 1
    assert_same(observer.max_val, torch.tensor(100.0) * best)
    assert_same(MSEObserver(steps=1).extremes(x), MinMaxObserver().extremes(x))
    for keywords in ({"group_size": 32}, {"qscheme": torch.per_channel_symmetric}):
        errors = []
        for kind in (MinMaxObserver, MSEObserver):
            fake = FakeQuantize(kind, dtype="int4", **{"qscheme": SYMMETRIC, **keywords})
            errors.append((fake(x) - x).square().sum())
            dynamic = FakeQuantize(kind, is_dynamic=True, dtype="int4", **{"qscheme": SYMMETRIC, **keywords})
            assert_same(dynamic(x), fake(x))
        assert errors[1] < errors[0] * 0.95


@pytest.mark.parametrize("kind", (MinMaxObserver, MovingAverageMinMaxObserver, MSEObserver, HistogramObserver))
@pytest.mark.parametrize("shape", ((0,), (0, 3), (3, 0)))
def test_a_range_chosen_for_an_empty_input(kind, shape):
    """MSEObserver asked torch for the smallest of nothing."""
    fake = FakeQuantize(kind, is_dynamic=True)
    assert fake(draw(*shape)).shape == shape
    assert_same(fake(draw(3, 4)), FakeQuantize(kind, is_dynamic=True)(draw(3, 4)))


@pytest.mark.parametrize("where", ("per_tensor", "per_token"))
def test_a_subclass_chooses_by_its_extremes(where):
    class Half(MinMaxObserver):
        def extremes(self, x):
            return tuple(end / 2 for end in super().extremes(x))

    x, keywords = draw(3, 4), {"dtype": torch.int8, "qscheme": SYMMETRIC, "grouping": Grouping(where)}
    want = MinMaxObserver(**keywords).choose(x / 2)[0]
    fake = FakeQuantize(Half, is_dynamic=True, **keywords)
    codes, parameters = fake.codes_for(x)
    assert codes is None
    assert_same(parameters.scale, want)
    observer = Half(**keywords)
    observer(x)
    assert_same(observer.calculate_qparams()[0], want)
    assert fake(x[:0]).shape == (0, 4)


def test_an_input_without_channels():
    with pytest.raises(ValueError, match=r"per_channel wants at least one dimension, not a shape of \[\]"):
        PerChannelMinMaxObserver(0)(torch.tensor(1.0))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", (MinMaxObserver, HistogramObserver))
def test_torch_aos_prepare_fx_takes_observers(kind):
    """It asserted that they are some of its own."""
    fx = pytest.importorskip("torch.ao.quantization.quantize_fx")
    qconfig = ao.QConfig(kind.with_args(dtype=torch.quint8), kind.with_args(dtype=torch.qint8, qscheme=SYMMETRIC))
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).eval(), draw(5, 8)
    prepared = fx.prepare_fx(model, ao.QConfigMapping().set_global(qconfig), (x,))
    assert_same(prepared(x).detach(), model(x).detach())
    found = [m for m in prepared.modules() if isinstance(m, MinMaxObserver)]
    assert len(found) == 2 and not any(m.is_new() for m in found)
    fx.convert_fx(prepared)


def test_an_average_that_does_not_move_is_not_moved_by_an_infinity():
    observer = MovingAverageMinMaxObserver(averaging_constant=0)
    for x in ([-1.0, 2.0], [-torch.inf, torch.inf]):
        observer(torch.tensor(x))
    assert (observer.min_val, observer.max_val) == (-1, 2)


def test_an_observer_that_loads_the_state_of_a_new_one_is_new():
    observer = MinMaxObserver()
    observer(draw(4, 6))
    assert not observer.is_new()
    observer.load_state_dict(MinMaxObserver().state_dict())
    assert observer.is_new()
