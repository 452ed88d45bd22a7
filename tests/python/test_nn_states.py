"""What isobit.nn keeps: averages, checkpoints, functional calls, conversions of dtype, and states set from outside."""

import copy

import isobit
import pytest
import torch
from isobit.nn import (
    FakeQuantize,
    FakeQuantizedLinear,
    LearnableFakeQuantize,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    PerChannelMinMaxObserver,
    convert,
    prepare,
)
from kit import assert_same, draw
from nn_models import LEARNED, MODELS
from torch.nn.utils import parametrize
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

each_model = pytest.mark.parametrize("name", MODELS)


def model_of(name):
    torch.manual_seed(0)
    return prepare(torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()), *MODELS[name])


def assert_same_state(a, b):
    a, b = a.state_dict(), b.state_dict()
    assert a.keys() == b.keys()
    for key, value in a.items():
        assert_same(value, b[key])


@each_model
@pytest.mark.parametrize(
    "keywords", ({}, {"multi_avg_fn": get_ema_multi_avg_fn(0.5), "use_buffers": True}), ids=("swa", "ema")
)
def test_an_average_made_before_the_first_batch_has_the_scales(name, keywords):
    model, x = model_of(name), draw(5, 8)
    average = AveragedModel(model, **keywords)
    model(x)
    average.update_parameters(model)
    average.update_parameters(model)
    for f in (average.module, convert(average)):
        assert_same(f.eval()(x).detach(), model.eval()(x).detach())
    model.train().apply(isobit.nn.disable_fake_quant)
    average.update_parameters(model)  # which writes the switches, too
    assert_same(average.module(x).detach(), model.eval()(x).detach())


@each_model
def test_a_checkpoint_goes_into_a_model_that_has_seen_nothing(name, tmp_path):
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    model, fresh, x = model_of(name), model_of(name), draw(5, 8)
    model(x), model(x * 2)
    checkpoint.save(model.state_dict(), checkpoint_id=tmp_path)
    checkpoint.load(fresh.state_dict(), checkpoint_id=tmp_path)
    assert_same_state(fresh, model)
    assert_same(fresh.eval()(x).detach(), model.eval()(x).detach())


def test_a_state_with_buffers_of_no_elements_loads():
    """As untrained models had them."""
    model, x = model_of("static"), draw(5, 8)
    state = model.state_dict()
    for key in state:
        if key.endswith(("scale", "zero_point", "min_val", "max_val")):
            state[key] = state[key].new_empty(0)
    model.load_state_dict(state)
    with pytest.warns(UserWarning, match="nothing yet"):
        model.eval()(x)
    other = model_of("static")
    assert_same(model.train()(x), other(x))
    assert_same_state(model, other)
    other.load_state_dict(model_of("static").state_dict())  # what had seen something has not any more
    with pytest.warns(UserWarning, match="nothing yet"):
        other.eval()(x)


def test_a_state_without_buffers_of_no_elements_loads():
    """accelerate keeps one of them; and that of a model that was not prepared has none."""
    model, fresh, x = model_of("dynamic"), model_of("dynamic"), draw(5, 8)
    fresh[0].weight.data.zero_()
    for make in (lambda m: m, convert):
        to, state = make(fresh), make(model).state_dict()
        to.load_state_dict({key: value for key, value in state.items() if value.numel()})
        assert_same_state(to, make(model))
        assert_same(to(x).detach(), make(model)(x).detach())
    with pytest.raises(RuntimeError, match="Missing key.*scale"):  # what is kept is asked for
        model_of("static").load_state_dict({"0.weight": model[0].weight, "0.bias": model[0].bias})


@each_model
def test_functional_call_takes_a_state_dict(name):
    model, x = model_of(name), draw(5, 8)
    model(x)
    model.eval()
    assert_same(torch.func.functional_call(model, model.state_dict(), x).detach(), model(x).detach())
    off = copy.deepcopy(model).apply(isobit.nn.disable_fake_quant)
    assert_same(torch.func.functional_call(model, off.state_dict(), x).detach(), off(x).detach())
    assert model[0].weight_fake_quantizer.is_faking()
    want = model(x)
    model[0].weight_fake_quantizer.fake_quant_enabled[0] = 0  # as with torch.ao's
    assert (model(x) != want).any()


@each_model
@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16, torch.float64), ids=str)
def test_a_second_conversion_of_dtype_changes_nothing(name, dtype):
    model, x = model_of(name).to(dtype), draw(5, 8, dtype=dtype)
    for _ in range(2):
        model(x)
    model.eval()
    again = copy.deepcopy(model).to(dtype)
    assert_same_state(again, model)
    assert_same(again(x).detach(), model(x).detach())
    served = convert(model)
    assert_same(served(x), model(x).detach())
    assert_same(copy.deepcopy(served).to(dtype)(x), served(x))


@pytest.mark.parametrize("name", ("dynamic", "static", "groups", "histogram"))
def test_a_state_is_loaded_before_or_after_a_conversion_of_dtype(name):
    model, x = model_of(name), draw(5, 8)
    model(x)
    for make in (lambda m: m, convert):
        first, then, state = make(model_of(name)), make(model_of(name)), make(model).state_dict()
        first.load_state_dict(state)
        first.bfloat16()
        then.bfloat16().load_state_dict(state)
        assert_same_state(first, then)
        assert_same(first.eval()(x.bfloat16()).detach(), then.eval()(x.bfloat16()).detach())


@pytest.mark.parametrize("kind", (LearnableFakeQuantize, FakeQuantize, MinMaxObserver))
def test_a_conversion_of_type_and_device(kind):
    module = kind()
    module(draw(5, 8))
    module.to("meta", torch.bfloat16)
    assert all(b.is_meta and b.dtype != torch.bfloat16 for b in module.buffers())


def test_a_buffer_of_a_subclass_is_converted():
    class Ours(MinMaxObserver):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(1))

    module = Ours().bfloat16()
    assert module.seen.dtype == torch.bfloat16 and module.min_val.dtype == torch.float32


@each_model
def test_memory_after_meta_starts_anew(name):
    model, want, x = model_of(name).to("meta").to_empty(device="cpu"), model_of(name), draw(5, 8)
    weights = {key: value for key, value in want.state_dict().items() if key in ("0.weight", "0.bias")}
    model.load_state_dict(weights, strict=False)
    assert_same(model(x).detach(), want(x).detach())
    assert_same_state(model, want)


def test_a_parametrized_scale_starts_at_the_batch():
    class Exp(torch.nn.Module):
        def forward(self, x):
            return x.exp()

        def right_inverse(self, x):
            return x.log()

    module, plain, x = LearnableFakeQuantize(), LearnableFakeQuantize(), draw(5, 8)
    parametrize.register_parametrization(module, "scale", Exp())
    for _ in range(2):
        module(x), plain(x)
    torch.testing.assert_close(module.scale, plain.scale)
    assert module.initialized
    other = LearnableFakeQuantize(learn_zero_point=True)  # whose scale is none of the parametrized
    parametrize.register_parametrization(other, "zero_point", torch.nn.Identity())
    other(x)
    assert_same(other.scale, plain.scale)


def test_a_start_that_was_replaced_is_not_lost():
    a, b, x = prepare(torch.nn.Linear(8, 4), LEARNED), prepare(torch.nn.Linear(8, 4), LEARNED), draw(5, 8)
    a(x)
    a.load_state_dict(b.state_dict(), assign=True)
    a(x)
    assert a.weight_fake_quantizer.initialized


def test_a_trace_after_one_batch():
    model, x = prepare(torch.nn.Linear(8, 4), LEARNED), draw(5, 8)
    model(x)
    traced = torch.jit.trace(model.eval(), x)  # which checks that a second trace is the same
    assert_same(traced(x).detach(), model(x).detach())


@pytest.mark.filterwarnings("ignore:.*nothing yet")
@pytest.mark.parametrize("kind", (LearnableFakeQuantize, FakeQuantize, lambda: FakeQuantize(MinMaxObserver)))
def test_a_module_made_in_inference_mode(kind):
    x, want = draw(4, 4), kind()
    want(x), want(x * 2)
    for first in (True, False):
        with torch.inference_mode():
            module = kind()
            module(x if first else x[:0])
        with torch.no_grad():
            if not first:
                module(x)
            module.disable_fake_quant()
            assert module.eval()(x) is x
            module.enable_fake_quant()
            assert_same(module.train()(x * 2), want.eval()(x * 2).detach())
        assert_same(module.scale.detach(), want.scale.detach())


@pytest.mark.filterwarnings("ignore:.*nothing yet")
@pytest.mark.parametrize("kind", (LearnableFakeQuantize, FakeQuantize, lambda: FakeQuantize(PerChannelMinMaxObserver)))
def test_training_does_not_write_over_what_autograd_keeps(kind):
    """A forward in eval mode, two in training, then their gradients."""
    for seen in (True, False):
        module, x = kind(), draw(5, 8).requires_grad_()
        if seen:
            module(x)
        first = module.eval()(x)
        later = module.train()(x * 2)
        (first.sum() + later.sum() + module(x * 3).sum()).backward()
        assert (x.grad <= 6).all()
    with torch.no_grad():
        assert module.eval().parameters_for(x).scale is module.scale


def test_a_range_of_nothing_is_set_whoever_wrote_it():
    """A moving average of it would be a NaN: functional_call has the buffers of before the first batch."""
    x = draw(4, 16)
    q = FakeQuantize(MovingAverageMinMaxObserver).train()
    fresh = {name: b.clone() for name, b in q.named_buffers()}
    y = q(x)
    assert torch.equal(torch.func.functional_call(q, fresh, (x,)), y)
    off = torch.zeros_like(q.fake_quant_enabled).mul_(0)  # written as often as the module's own
    assert off._version == q.fake_quant_enabled._version and q.is_faking()
    assert torch.func.functional_call(q, {"fake_quant_enabled": off}, (x,)) is x and q.is_faking()


def test_a_quantizer_that_saw_its_weight_keeps_what_it_saw():
    q = FakeQuantize(PerChannelMinMaxObserver, dtype=torch.qint8, qscheme=torch.per_channel_symmetric)
    q.activation_post_process(5 * torch.ones(8, 16))
    FakeQuantizedLinear(16, 8, weight_fake_quantizer=q)
    assert q.activation_post_process.max_val.eq(5).all()


def test_switched_within_compiled_code():
    q = FakeQuantize(MovingAverageMinMaxObserver).train()

    def run(x):
        q.disable_fake_quant()
        return q(x)

    x = draw(4, 16)
    assert torch.equal(torch.compile(run, fullgraph=True, backend="eager")(x), x)
    assert not q.is_faking()


@pytest.mark.filterwarnings("error")
def test_what_is_switched_off_lets_anything_pass():
    new = torch.nn.Sequential(FakeQuantize(), LearnableFakeQuantize())
    new.apply(isobit.nn.disable_observer).apply(isobit.nn.disable_fake_quant)
    for x in (draw(3), torch.arange(3)):
        assert new.train()(x) is x and new.eval()(x) is x


def test_a_copy_takes_the_switches_of_a_state():
    q = FakeQuantize(MovingAverageMinMaxObserver)
    q.disable_fake_quant()
    copied = copy.deepcopy(q)
    copied.load_state_dict(FakeQuantize(MovingAverageMinMaxObserver).state_dict())
    assert copied.is_faking() and not q.is_faking()
    for writes in range(1, 6):  # whichever makes the copy's version what the original's was
        again = copy.deepcopy(q)
        for _ in range(writes):
            again.fake_quant_enabled.fill_(1)
        assert again.is_faking()


@pytest.mark.parametrize("way", ("inference", "swapped"))
def test_a_state_switches_whatever_holds_it(way):
    off = FakeQuantize(MovingAverageMinMaxObserver)
    off.disable_fake_quant()
    state = copy.deepcopy(off.state_dict())
    torch.__future__.set_swap_module_params_on_conversion(way == "swapped")
    try:
        with torch.inference_mode(way == "inference"):
            q = FakeQuantize(MovingAverageMinMaxObserver)
            q.load_state_dict(state, assign=way == "swapped")
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    assert not q.is_faking()
