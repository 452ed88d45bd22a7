"""Observers on two processes, over gloo."""

from textwrap import dedent

import pytest
import torch
from isobit.nn import MinMaxObserver, synchronize_observers
from kit import python

BEFORE = """
    import copy, os, torch
    import torch.distributed as dist
    from isobit.nn import *
    from kit import assert_same, draw
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    from torch.distributed.fsdp import fully_shard

    child = os.fork()  # after what takes seconds to import
    rank = int(child == 0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.environ["STORE"], rank=rank, world_size=2)

    def raises(kind, text, *args):
        try:
            synchronize_observers(*args)
        except kind as error:
            assert text in str(error), error
        else:
            raise AssertionError("no " + text)

    def state(module):
        return tuple(module.state_dict().values())

    def on_both(module):
        of_all = [None, None]
        dist.all_gather_object(of_all, module.state_dict())
        assert of_all[0].keys() == of_all[1].keys()
        for key, value in of_all[0].items():
            assert_same(value, of_all[1][key])
"""
AFTER = """
    dist.destroy_process_group()
    assert not child or os.waitpid(child, 0)[1] == 0
"""


def on_two_processes(program, tmp_path):
    pytest.importorskip("torch.distributed.fsdp", reason="a build without torch.distributed")
    text = dedent(BEFORE) + dedent(program) + dedent(AFTER)
    python(text, STORE=str(tmp_path / "store"), GLOO_SOCKET_IFNAME="lo")


def test_what_processes_saw_is_brought_together(tmp_path):
    program = """
        inf, nan = float("inf"), float("nan")
        wide = torch.tensor([[32.0, -32.0]])
        doubles, spoilt = draw(5, 8, dtype=torch.float64, seed=2), draw(5, 8, seed=2)
        spoilt[2, 3] = nan
        channels = lambda: PerChannelMinMaxObserver(1)

        # What one observer has that saw all: ranges, and counts where no bin is split.
        for make, first, second in (
            (MinMaxObserver, [draw(5, 8), draw(3)], [draw(5, 8, seed=1) * 3]),
            (MinMaxObserver, [torch.tensor([inf])], []),
            (MinMaxObserver, [torch.tensor([-inf, 2])], [draw(3)]),
            (MinMaxObserver, [torch.tensor([-0.0, 1.0])], [torch.tensor([-0.0, 2.0])]),
            (MinMaxObserver, [draw(5, 8)], [doubles]),
            (MinMaxObserver, [], [doubles]),
            (channels, [draw(5, 8)], [draw(4, 8, seed=1) * 3]),
            (channels, [], [draw(5, 8)]),
            (channels, [spoilt], [draw(5, 8)]),
            (channels, [draw(5, 8)], [spoilt]),
            (lambda: MinMaxObserver(group_size=4, shape=(5, 8)), [draw(5, 8)], []),
            (HistogramObserver, [wide, draw(50)], [wide, draw(70, seed=1), draw(2, 3)]),
            (HistogramObserver, [wide, draw(50)], []),
            (MovingAverageMinMaxObserver, [], [draw(5), draw(5, seed=1)]),
        ):
            observer, alone = make(), make()
            for x in (first, second)[rank]:
                observer(x)
            for x in first + second:
                alone(x)
            for _ in range(2):  # the second time nothing is new
                synchronize_observers(observer)
                assert_same(state(observer), state(alone))
                assert not observer.is_new()
            assert_same(observer.calculate_qparams(), alone.calculate_qparams())

        # Bins are split for the wider range.
        observer = HistogramObserver()
        for x in ([draw(500)], [draw(700, seed=1) * 5, draw(9) * 7])[rank]:
            observer(x)
        synchronize_observers(observer)
        on_both(observer)
        assert observer.histogram.sum() == 500 + 700 + 9

        # Averages become the mean of those who saw something.
        for kind in (MovingAverageMinMaxObserver, MSEObserver):
            both = [kind(0.25, group_size=4, shape=(5, 8)) for _ in range(2)]
            for i, each in enumerate(both):
                for seed in range(3):
                    each(draw(5, 8, seed=10 * i + seed))
            want = [sum(getattr(o, end).double() for o in both).div(2).float() for end in ("min_val", "max_val")]
            synchronize_observers(both[rank])
            assert_same((both[rank].min_val, both[rank].max_val), want)
            on_both(both[rank])
            same = kind()
            same(draw(5, 8))
            before = state(copy.deepcopy(same))
            synchronize_observers(same)
            assert_same(state(same), before)  # as of a weight, which all have alike

        # One value is a range, too.
        observer = MovingAverageMinMaxObserver()
        observer(torch.tensor([2.0, 2.0 + 2 * rank]))
        synchronize_observers(observer)
        assert (observer.min_val, observer.max_val) == (2, 3)

        # A NaN that one process saw is the mean's.
        observer = MovingAverageMinMaxObserver()
        observer(torch.tensor([1.0, (1.0, torch.nan)[rank]]))
        synchronize_observers(observer)
        assert observer.min_val.isnan() and observer.max_val.isnan()

        # The mean of the largest numbers is one, whose sum is none.
        observer = MovingAverageMinMaxObserver()
        observer(torch.tensor([-3e38, 3e38]))
        before = state(copy.deepcopy(observer))
        synchronize_observers(observer)
        assert_same(state(observer), before)

        # Nobody saw anything.
        for make in (MinMaxObserver, channels, MovingAverageMinMaxObserver, HistogramObserver):
            observer = make()
            synchronize_observers(observer)
            assert observer.is_new()
            assert_same(state(observer), state(make()))
        synchronize_observers(torch.nn.Linear(2, 2))

        # What is dynamic follows nothing, and may have an observer of any kind.
        class Ours(MinMaxObserver.__base__):
            dtype, qscheme, quant_min, quant_max, calculate_qparams, choose = torch.int8, torch.per_tensor_symmetric, -8, 7, 0, 0

        synchronize_observers(FakeQuantize(Ours, is_dynamic=True))

        # A group of one, and the other's, from which torch's collectives return with a warning.
        groups, observer = [dist.new_group([i]) for i in range(2)], MinMaxObserver()
        observer(draw(5, seed=rank))
        before = state(copy.deepcopy(observer))
        for i in (rank, 1 - rank):
            synchronize_observers(observer, groups[i])
            assert_same(state(observer), before)
    """
    on_two_processes(program, tmp_path)


def test_processes_that_differ_are_told_so_at_once(tmp_path):
    """And none waits for the others."""
    program = """
        def untouched(message, observer, kind=ValueError):
            before = state(copy.deepcopy(observer))
            raises(kind, message, torch.nn.ModuleDict({"it": observer}))
            assert_same(state(observer), before)

        observer = PerChannelMinMaxObserver()
        observer(draw(4 + rank, 3))
        untouched("'it' has ranges of shape [4] and [5]; want the same", observer)
        observer = MinMaxObserver() if rank else MSEObserver()
        observer(draw(3))
        untouched("process 0 has 'it', a MSEObserver, process 1 'it', a MinMaxObserver", observer)
        untouched("a HistogramObserver of 10 bins, process 1 'it', a HistogramObserver of 11", HistogramObserver(10 + rank))
        raises(ValueError, "1 observers, process 1 2", torch.nn.Sequential(*[MinMaxObserver() for _ in range(1 + rank)]))
        theirs = FakeQuantize(torch.ao.quantization.HistogramObserver)
        untouched("torch.ao's HistogramObserver; want one of isobit.nn's", theirs, TypeError)

        # Counts would be shared twice where any process has new ones.
        observer = HistogramObserver()
        observer(draw(50, seed=rank))
        synchronize_observers(observer)
        fresh = copy.deepcopy(observer)
        if rank:
            observer(draw(3))
        untouched("'it' has counts that were shared, and others; want one call", observer)
        observer(draw(3))
        untouched("'it' has counts that were shared, and others; want one call", observer)
        apart = {"histogram": torch.zeros(2 * observer.bins, dtype=torch.int64)[::2]}
        for forget in (
            observer.reset_min_max_vals,
            lambda: observer.load_state_dict(HistogramObserver().state_dict()),
            lambda: observer.load_state_dict(HistogramObserver().state_dict() | apart, assign=True),
        ):
            forget()
            observer(draw(50, seed=rank))
            synchronize_observers(observer)
            assert_same(state(observer), state(fresh))
    """
    on_two_processes(program, tmp_path)


def test_a_model_that_fully_shard_wraps(tmp_path):
    program = """
        def make():
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 4))
            static = FakeQuantize.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
            weight = {"dtype": torch.int8, "granularity": "per_channel", "is_dynamic": False}
            model = prepare(model, weight, static, filter_fn=lambda m, name: name == "0")
            model[1] = torch.nn.Sequential(model[1], FakeQuantize(HistogramObserver))
            tokens = {"dtype": torch.int8, "granularity": "per_token"}
            return prepare(model, LearnableFakeQuantize.with_args(), tokens, filter_fn=lambda m, name: name == "2")

        model = make()
        model(draw(4, 8))
        model[1][1].activation_post_process.reset_min_max_vals()
        fully_shard(model, mesh=dist.device_mesh.init_device_mesh("cpu", (2,)))
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for step in range(3):
            model(draw(4, 8, seed=2 * step + rank) * (1 + rank)).square().sum().backward()
            optimizer.step()
        scales = [None, None]
        dist.all_gather_object(scales, float(model[0].activation_fake_quantizer.scale))
        assert scales[0] != scales[1]  # each process has its own
        model.apply(disable_observer)
        synchronize_observers(model)
        for module in model.modules():
            if isinstance(module, FakeQuantize):
                on_both(module)
                if not module.is_dynamic:
                    assert_same((module.scale, module.zero_point), module.calculate_qparams())
                assert not module.is_observing()
        for inplace in (True, False):
            try:
                convert(model, inplace)
            except TypeError as error:
                assert "convert: the weight of a FSDP" in str(error) or "convert: the weight of a Fake" in str(error)
                assert "is a DTensor; want the model without fully_shard" in str(error)
            else:
                raise AssertionError
        x = draw(9, 8, seed=99)
        want = model.eval()(x).detach()
        whole = make()
        whole.load_state_dict(get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)))
        assert_same(whole.eval()(x).detach(), want)
        served = convert(whole)
        assert_same(served(x), want)
        on_both(served)
    """
    on_two_processes(program, tmp_path)


def test_without_processes():
    with pytest.raises(TypeError, match="synchronize_observers: module must be a torch.nn.Module, not NoneType"):
        synchronize_observers(None)
    if not torch.distributed.is_initialized():
        with pytest.raises(ValueError, match="process group has not been initialized"):
            synchronize_observers(MinMaxObserver())
