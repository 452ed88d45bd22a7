"""isobit.nn in what programs do around it: modes, conversions, checkpoints of activations."""

import copy
import functools
import pickle

import isobit
import pytest
import torch
from isobit.nn import (
    FakeQuantize,
    HistogramObserver,
    LearnableFakeQuantize,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    MSEObserver,
    PerChannelMinMaxObserver,
    QuantizedLinear,
    convert,
    prepare,
)
from kit import assert_same, draw
from nn_models import INT8, MODELS
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

WAYS = MODELS | {
    "columns": (INT8, FakeQuantize.with_args(observer=MovingAveragePerChannelMinMaxObserver, ch_axis=1)),
}
each_model = pytest.mark.parametrize("name", WAYS)


def plain():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))


def model_of(name):
    return prepare(plain(), *WAYS[name])


def gradient(model, x):
    x = x.clone().requires_grad_()
    model(x).sum().backward()
    return x.grad


@each_model
def test_what_is_converted_in_inference_mode_is_used_outside(name):
    model, x = model_of(name), draw(5, 8)
    model(x)
    with torch.inference_mode():
        inside = convert(model)
    outside = convert(model)
    assert_same(gradient(inside, x), gradient(outside, x))
    inside.load_state_dict(outside.state_dict())
    assert not any(value.is_inference() for value in inside.state_dict().values())


@each_model
def test_what_is_prepared_in_inference_mode_is_trained_outside(name):
    model = plain()
    with torch.inference_mode():
        inside = prepare(model, *WAYS[name])
    outside = model_of(name)
    for _ in range(2):
        assert_same(gradient(inside, draw(5, 8)), gradient(outside, draw(5, 8)))
    inside.load_state_dict(outside.state_dict())


def test_a_histogram_made_in_inference_mode():
    with torch.inference_mode():
        observer = HistogramObserver()
    fresh = HistogramObserver()
    for x in (draw(9), draw(5) * 3):
        observer(x), fresh(x)
    assert_same(observer.calculate_qparams(), fresh.calculate_qparams())
    observer.reset_min_max_vals()
    assert not observer.histogram.any()


def test_a_histogram_stays_whole_numbers():
    observer, x = HistogramObserver(), draw(9)
    observer(x)
    other = copy.deepcopy(observer).type(torch.float32)  # which converts every buffer, unlike to(dtype)
    for each in (observer, other):
        each(x * 2)
    assert_same(other.histogram, observer.histogram)


@each_model
@pytest.mark.parametrize("reentrant", (True, False))
def test_a_forward_that_is_run_again_observes_nothing(name, reentrant):
    """What backward computes again has the bits of the first time, and averages and counts take a batch once."""
    model, again = model_of(name), model_of(name)
    for factor in (1, 3, 2):
        x = draw(5, 8) * factor
        want = gradient(model, x)
        assert_same(gradient(lambda x: checkpoint(again, x, use_reentrant=reentrant), x), want)
    for key, value in model.state_dict().items():
        assert_same(again.state_dict()[key], value)
    for p, q in zip(model.parameters(), again.parameters(), strict=True):
        assert_same(q.grad, p.grad)


@pytest.mark.parametrize("reentrant", (True, False))
@pytest.mark.parametrize("kind", (MovingAverageMinMaxObserver, MSEObserver, HistogramObserver, FakeQuantize))
def test_an_observer_by_itself_observes_a_batch_once(kind, reentrant):
    """Also where a forward is run again; gradients that a hook shows it are batches, too."""
    once, again, of_gradients = kind(), kind(), kind()
    for factor in (1, 3):
        x = (draw(5, 8) * factor).requires_grad_()
        once(x)
        y = checkpoint(lambda x: again(x * 1).square(), x, use_reentrant=reentrant)
        x.register_hook(of_gradients)
        y.sum().backward()
    for key, value in once.state_dict().items():
        assert_same(again.state_dict()[key], value)
    assert not getattr(of_gradients, "activation_post_process", of_gradients).is_new()


@each_model
def test_selective_checkpoints_find_what_they_kept(name):
    def policy(context, op, *args, **keywords):
        return CheckpointPolicy.PREFER_RECOMPUTE

    model, again = model_of(name), model_of(name)
    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    for x in (draw(5, 8), draw(5, 8) * 3):
        got = gradient(lambda x: checkpoint(again, x, use_reentrant=False, context_fn=contexts), x)
        assert_same(got, gradient(model, x))


def test_a_copy_of_a_compiled_module_is_its_own():
    module, x = FakeQuantize(), draw(5, 8)
    module.compile(backend="eager")
    module(x)
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        copied.disable_fake_quant()
        assert_same(copied(x), x)
        assert module.is_faking()


@each_model
def test_an_aten_graph_after_one_batch(name):
    model, x = model_of(name), draw(5, 8)
    model(x)
    graph = make_fx(model.eval())(x)
    assert_same(graph(x * 2).detach(), model(x * 2).detach())


def test_training_asks_once_whether_scales_were_set():
    """On a GPU asking waits, and cannot be captured in a graph."""

    class Asked(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, function, types, args=(), keywords=None):
            Asked.count += function is torch.ops.aten._local_scalar_dense.default
            return function(*args, **keywords or {})

    module, other, x = LearnableFakeQuantize(), LearnableFakeQuantize(), draw(5, 8)
    module(x), module(x)
    with Asked():
        module(x), module.eval()(x)
    assert Asked.count == 0
    other.initialized.copy_(module.initialized)
    other(x * 9)
    assert other.scale == 1  # it was set, whoever did it
    module.initialized.zero_()
    module.train()(x * 9)
    assert module.scale != other.scale and module.initialized


class Picked(torch.nn.Module):
    """Layers of the rows that a mask picks, as of one expert among several: no one knows how many before they run."""

    def __init__(self, layers):
        super().__init__()
        self.layers = torch.nn.ModuleList(layers)

    def forward(self, x, mask):
        rows = x[mask]
        return [layer(rows) for layer in self.layers]


def picked_layers():
    any_range = FakeQuantize.with_args(is_dynamic=True, dtype=torch.quint8)
    rows_and_columns = FakeQuantize.with_args(is_dynamic=True, observer=PerChannelMinMaxObserver, ch_axis=1)
    for by in (*MODELS.values(), (INT8, any_range), (INT8, rows_and_columns)):
        layer = prepare(torch.nn.Linear(8, 5), *by)
        layer(draw(6, 8))
        yield layer.eval()
        yield convert(layer)
    learned = LearnableFakeQuantize()  # once it has started, training asks for no values, either
    learned(draw(6, 8))
    yield from (QuantizedLinear(8, 5), QuantizedLinear(8, 5).served(), learned)


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_as_many_rows_as_a_mask_picks():
    x, masks = draw(6, 8), (draw(6) > 0, torch.arange(6) == 1, torch.zeros(6, dtype=torch.bool))
    model = Picked(picked_layers())
    want = [model(x, mask) for mask in masks]
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend="aot_eager")
    program = torch.export.export(model, (x, masks[0]), strict=False).module()
    for run in (compiled, program):
        for mask, y in zip(masks, want, strict=True):
            torch.testing.assert_close(run(x, mask), y, rtol=0, atol=0)


def of_any_number_of_rows():
    yield from (MinMaxObserver(torch.int8), PerChannelMinMaxObserver(1, shape=(0, 8)), MSEObserver(steps=3))
    yield from (FakeQuantize(), FakeQuantize(PerChannelMinMaxObserver, ch_axis=1, dtype=torch.qint8))
    yield from (LearnableFakeQuantize(), LearnableFakeQuantize(start="min_max", learn_zero_point=True))


def train_on_rows(compiled, eager, batch):
    """A forward and a backward of both, with equal bits; the compiled one does not know how many rows come."""
    x, same = batch.clone().requires_grad_(), batch.clone().requires_grad_()
    torch._dynamo.decorators.mark_unbacked(x, 0)
    y, want = compiled(x), eager(same)
    assert_same(y, want)
    y.sum().backward(), want.sum().backward()
    assert_same(x.grad, same.grad)
    assert_same([p.grad for p in compiled.parameters()], [p.grad for p in eager.parameters()])


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_training_code_for_any_number_of_rows_takes_empty_batches(dtype):
    """What no one knows the extent of in compiled code: a batch of nothing neither moves a range nor starts one."""
    torch.nn.modules.module._global_buffer_registration_hooks.clear()  # exports of PyTorch before 2.15 leave some
    for module in of_any_number_of_rows():
        torch._dynamo.reset()
        eager, compiled = copy.deepcopy(module), torch.compile(module, fullgraph=True, backend="aot_eager")
        start = copy.deepcopy(module.state_dict())
        for sizes in ((5, 0, 3), (0, 5, 0, 3)):
            for each in (module, eager):
                each.load_state_dict(start)
                each.zero_grad()
            for i, rows in enumerate(sizes):
                train_on_rows(compiled, eager, draw(rows, 8, dtype=dtype).mul(i + 1))
                if any(sizes[: i + 1]):  # before, ranges of nothing may have another shape
                    assert_same(list(module.state_dict().values()), list(eager.state_dict().values()))
            if isinstance(module, MinMaxObserver):
                assert_same(module.calculate_qparams(), eager.calculate_qparams())


@torch.no_grad()
def test_functionalized_where_no_gradient_is_wanted():
    """torch.func's functionalize takes no autograd.Function, which layers took whatever their input was."""
    x, w = draw(6, 8), draw(3, 8, 4)
    calls = [*picked_layers(), lambda x: isobit.quantized_linear(x, x), lambda x: isobit.matmul(x[:, None, None], w)]

    def functionalized(call):
        return torch.func.functionalize(lambda *given: call(*given))

    for call in calls:
        assert_same(functionalized(call)(x), call(x))
        assert_same(make_fx(functionalized(call))(x)(x), call(x))
    for call in calls[-2:]:
        with torch.enable_grad(), pytest.raises(RuntimeError, match="custom_function_call"):
            functionalized(call)(x.clone().requires_grad_())
