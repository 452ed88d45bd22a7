"""HistogramObserver: beside torch.ao's algorithm run in float64, and its own rules."""

import copy
import pickle
import warnings

import isobit
import pytest
import torch
import torch.ao.quantization as ao
from isobit.nn import FakeQuantize, HistogramObserver, MinMaxObserver, convert
from kit import FLOATS, NAMES, assert_same, draw, layouts

SYMMETRIC, AFFINE = torch.per_tensor_symmetric, torch.per_tensor_affine


def range_by_torch(observer, **keywords):
    """The range that torch.ao's search finds in an observer's histogram, in float64."""
    torch.set_default_dtype(torch.float64)
    try:
        theirs = ao.HistogramObserver(**keywords)
        theirs.histogram, theirs.dst_nbins = observer.histogram.double(), observer.quant_max - observer.quant_min + 1
        theirs.min_val, theirs.max_val = observer.min_val.double(), observer.max_val.double()
        return [end.float() for end in theirs._non_linear_param_search()]
    finally:
        torch.set_default_dtype(torch.float32)


BATCHES = {
    "normal": lambda: [draw(300, 100)],
    "positive": lambda: [draw(300, 100).relu()],
    "far from 0": lambda: [draw(300, 30) * 0.1 + 7],
    "outliers": lambda: [torch.cat([draw(30000), torch.tensor([300.0, -200.0])])],
    "long tail": lambda: [draw(300, 100).exp()],
    "a few below": lambda: [torch.cat([draw(400000), torch.tensor([-40.0, -30.0, -20.0])])],
    "a few": lambda: [draw(7)],
    "several": lambda: [draw(3000, seed=i) * (i + 1) for i in range(4)],
    "two values": lambda: [torch.tensor([1.0, 2.0])],
}


FEW = {"bins": 100, "quant_min": 0, "quant_max": 4}


@pytest.mark.parametrize("keywords", ({}, {"bins": 100}, FEW, {"dtype": torch.qint8, "qscheme": SYMMETRIC}), ids=str)
@pytest.mark.parametrize("name", BATCHES)
def test_the_range_is_torch_aos(name, keywords):
    ours = HistogramObserver(**keywords)
    for x in BATCHES[name]():
        assert ours(x) is x
    low, high = range_by_torch(ours, **keywords)
    got = MinMaxObserver(ours.dtype, ours.qscheme, quant_min=ours.quant_min, quant_max=ours.quant_max)
    got(torch.stack([low, high]))
    torch.testing.assert_close(ours.calculate_qparams(), got.calculate_qparams(), rtol=1e-6, atol=0)


def test_counts_are_torch_aos():
    """Values on a grid, where float32 finds the bin, too; 256 of each, so that their parts are whole."""
    g = torch.Generator().manual_seed(0)
    for keywords in ({}, {"bins": 64}):
        ours, theirs = HistogramObserver(**keywords), ao.HistogramObserver(**keywords)
        for power in (3, 3, 4, 6):
            x = torch.randint(-(2 ** (power + 10)), 2 ** (power + 10) + 1, (500,), generator=g) / 1024
            x = torch.cat([x, torch.tensor([-(2.0**power), 2.0**power])]).repeat(256)
            ours(x), theirs(x)
            assert torch.equal(ours.histogram.float(), theirs.histogram)
        assert_same((ours.min_val, ours.max_val), (theirs.min_val, theirs.max_val))
        fresh = HistogramObserver(**keywords)
        fresh.load_state_dict(theirs.state_dict())
        assert_same(fresh.calculate_qparams(), ours.calculate_qparams())
        assert fresh.histogram.dtype == torch.int64


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
def test_counts_depend_on_no_thread_and_no_layout(dtype):
    x = draw(24, 60, 50, dtype=dtype)
    threads, results = torch.get_num_threads(), []
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            for _, view in layouts(x):
                observer = HistogramObserver(bins=200)
                observer(view), observer(view * 1.5), observer(view)
                results.append((observer.histogram, *observer.calculate_qparams()))
    finally:
        torch.set_num_threads(threads)
    assert len(results) >= 12 and results[0][0].sum() == 3 * x.numel()
    for other in results[1:]:
        assert_same(other, results[0])


def test_counts_go_over_to_a_wider_range_without_loss():
    observer = HistogramObserver(bins=4)
    observer(torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0, 4.0]))
    assert observer.histogram.tolist() == [1, 1, 1, 3]
    observer(torch.tensor([16.0]))  # a bin of 4: the old ones lie in the first
    assert observer.histogram.tolist() == [6, 0, 0, 1]
    one = HistogramObserver(bins=4)
    one(torch.tensor([3.0, 3.0]))
    three = isobit.choose_qparams_per_tensor(torch.tensor([3.0]), torch.uint8, symmetric=False)
    assert_same(one.calculate_qparams(), three)
    one(torch.tensor([0.0, 4.0]))
    assert one.histogram.tolist() == [1, 0, 0, 3]
    wide = HistogramObserver(bins=3)
    wide(torch.tensor([0.0, 3e38, -3e38]))  # the range is infinite in float32
    assert wide.histogram.tolist() == [1, 1, 1]


def test_special_values():
    observer = HistogramObserver(dtype=torch.int8)
    with pytest.warns(UserWarning, match="nothing yet"):
        assert observer.calculate_qparams()[0] == 1
    observer(torch.empty(0, 3))
    with pytest.warns(UserWarning, match="infinities"):
        observer(torch.tensor([float("inf"), -float("inf")]))
    assert observer.is_new() and not observer.histogram.any()
    with pytest.warns(UserWarning, match="infinities"):
        observer(torch.tensor([1.0, float("inf"), 2.0]))
    assert observer.max_val == 2 and observer.histogram.sum() == 2
    observer(torch.tensor([float("nan"), 1.0]))
    assert observer.calculate_qparams()[0].isnan()
    observer.reset_min_max_vals()
    assert observer.is_new() and not observer.histogram.any()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        observer(draw(1000))
    state = copy.deepcopy(observer.state_dict())
    restored = HistogramObserver(dtype=torch.int8)
    restored.load_state_dict(state)
    for other in (restored, copy.deepcopy(observer), pickle.loads(pickle.dumps(observer))):
        assert_same(other.calculate_qparams(), observer.calculate_qparams())
        other(draw(10) * 9)
        assert other.histogram.sum() == 1010 and observer.histogram.sum() == 1000
    with pytest.raises(RuntimeError, match="size mismatch for histogram"):
        HistogramObserver(bins=5).load_state_dict(state)
    half = observer.half()
    assert half.histogram.dtype == torch.int64 and half.histogram.sum() == 1000
    for message, bad in (
        ("bins is 0", {"bins": 0}),
        ("one range", {"qscheme": torch.per_channel_affine}),
        ("one range", {"group_size": 4}),
        ("integer codes", {"dtype": torch.float8_e4m3fn, "qscheme": SYMMETRIC}),
        ("qscheme is", {"qscheme": torch.per_channel_affine_float_qparams}),
    ):
        with pytest.raises(ValueError, match=message):
            HistogramObserver(**bad)


def test_it_serves_and_loses_less_than_the_whole_range():
    x = draw(200, 300, spread=1)
    x[0, 0] = 30.0
    losses = []
    for kind in (MinMaxObserver, HistogramObserver):
        fake = FakeQuantize(kind, quant_min=0, quant_max=15)
        losses.append((fake(x) - x).square().sum())
        assert_same(convert(fake)(x), fake.eval()(x))
        dynamic = FakeQuantize(kind, is_dynamic=True, quant_min=0, quant_max=15)
        assert_same(dynamic(x), fake(x))
    assert losses[1] < 0.5 * losses[0]
    assert FakeQuantize(HistogramObserver, is_dynamic=True)(torch.empty(0, 3)).shape == (0, 3)
    with pytest.warns(UserWarning, match="infinities"):  # and of nothing else the scale is 1
        y = FakeQuantize(HistogramObserver, is_dynamic=True)(torch.tensor([torch.inf, -torch.inf]))
    assert y.tolist() == [255, 0]
