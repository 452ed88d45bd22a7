"""isobit.nn where features meet: calibration in inference mode, torch.func, conversions of dtype."""

import copy
import io
import threading
import warnings

import pytest
import torch
from isobit.nn import (
    FakeQuantize,
    FakeQuantizedEmbedding,
    LearnableFakeQuantize,
    MinMaxObserver,
    MSEObserver,
    PerChannelMinMaxObserver,
    QuantizedLinear,
    convert,
    prepare,
)
from isobit.nn._grouping import Grouping
from kit import assert_same, draw
from nn_models import INT8, OBSERVERS, TOKENS


@pytest.mark.parametrize("kind", (*OBSERVERS, PerChannelMinMaxObserver))
def test_calibration_in_inference_mode_and_training_after_it(kind):
    layer = prepare(torch.nn.Linear(8, 5), INT8, FakeQuantize.with_args(observer=kind))
    other = prepare(torch.nn.Linear(8, 5), INT8, FakeQuantize.with_args(observer=kind))
    other.load_state_dict(layer.state_dict())
    x = draw(4, 3, 8)
    with torch.inference_mode():
        layer(x)
    other(x)
    for model in (layer, other):
        model(x * 2).sum().backward()
    assert_same(layer.activation_fake_quantizer.scale, other.activation_fake_quantizer.scale)
    assert_same(layer.weight.grad, other.weight.grad)
    layer.load_state_dict(other.state_dict())  # into no tensor of inference mode


@pytest.mark.parametrize("kind", OBSERVERS)
def test_torch_func_leaves_no_tensor_of_its_own_behind(kind):
    fake, x = FakeQuantize(kind), draw(4, 8)
    before = copy.deepcopy(fake.state_dict())
    for transformed in (torch.func.grad(lambda x: fake(x).sum()), torch.vmap(fake)):
        with pytest.raises(RuntimeError, match="cannot set|data-dependent control flow"):
            transformed(x)
        assert fake.activation_post_process.is_new()
        for name, value in fake.state_dict().items():
            assert_same(value, before[name])
    y = fake(x)
    fake.disable_observer()
    assert_same(torch.func.vmap(fake)(x), y)
    assert_same(
        torch.func.grad(lambda x: fake(x).sum())(x), torch.autograd.functional.vjp(fake, x, torch.ones(4, 8))[1]
    )


@pytest.mark.parametrize(
    "fakes",
    ((INT8, TOKENS), (INT8, None), ({"dtype": "int4", "group_size": 3}, None), (INT8, lambda: LearnableFakeQuantize())),
    ids=("tokens", "codes", "groups", "learned"),
)
def test_a_layer_of_one_row_is_a_row_of_a_layer(fakes):
    layer = prepare(torch.nn.Linear(8, 5), *fakes)
    x = draw(3, 8)
    layer(x)
    for model in (layer.eval(), convert(layer)):
        assert_same(model(x[1]).detach(), model(x[1:2]).detach()[0])
        assert model(x[:0]).shape == (0, 5)


def test_a_converted_model_follows_bfloat16():
    x = draw(4, 8)
    for fakes, keywords in (((INT8, TOKENS), {}), ((INT8,), {"exact": False}), (({"dtype": torch.float8_e4m3fn, "granularity": "per_row"},), {})):  # fmt: skip
        layer = prepare(torch.nn.Linear(8, 5), *fakes, **keywords)
        served = convert(layer).bfloat16()
        assert served(x.bfloat16()).dtype == torch.bfloat16
        torch.testing.assert_close(served(x.bfloat16()).float(), layer(x), rtol=0.05, atol=0.2)
        assert served.double()(x.double()).dtype == torch.float64
    served = QuantizedLinear(8, 5).served().bfloat16()
    assert served.bias.dtype == torch.bfloat16 and served.weight_scale.dtype == torch.float32
    table = prepare(torch.nn.Embedding(9, 8), embedding=INT8)
    assert convert(table).bfloat16().cpu()(torch.tensor([1, 3])).dtype == torch.bfloat16


def test_a_first_batch_within_a_transform_sets_nothing():
    module, x = LearnableFakeQuantize(), draw(3, 4)
    parameters = dict(module.named_parameters())
    for call in (
        lambda: torch.vmap(module)(x),
        lambda: torch.func.grad(lambda x: module(x).sum())(x),
        lambda: torch.func.grad(lambda p: torch.func.functional_call(module, p, (x,)).sum())(parameters),
    ):
        with pytest.raises(
            RuntimeError, match="LearnableFakeQuantize: vmap and torch.func's transforms cannot set scale"
        ):
            call()
        assert module.scale == 1 and not module.initialized
    module(x)
    assert module.scale != 1


def test_a_quantizer_with_a_hook_is_called_in_a_thread_of_its_own():
    module, x, results = LearnableFakeQuantize(), draw(3, 4), []
    module.register_forward_hook(lambda *_: None)
    thread = threading.Thread(target=lambda: results.append(module(x)))
    thread.start(), thread.join()
    assert_same(results, [module(x)])


def test_a_learned_scale_of_doubles_starts_from_doubles():
    x = draw(5, 7, dtype=torch.float64)
    module = LearnableFakeQuantize()
    module(x)
    ones = torch.ones_like(x)
    mean = Grouping().sums(x.abs(), ones) / x.numel()
    assert_same(module.scale.detach(), (2 * mean / 127**0.5).float().reshape(1))


@pytest.mark.parametrize(
    "keywords", ({}, {"start": "min_max", "learn_zero_point": True}, {"channels": 8, "ch_axis": 1})
)
def test_a_compiled_start_of_a_learned_scale(keywords):
    """The first batch sets it, in compiled code, too, which cannot look whether one came."""
    ours, compiled = LearnableFakeQuantize(-8, 7, **keywords), LearnableFakeQuantize(-8, 7, **keywords)
    run = torch.compile(compiled, fullgraph=True, backend="aot_eager")
    for factor in (1, 3):
        y, got = ours(draw(6, 8) * factor), run(draw(6, 8) * factor)
        assert_same(got.detach(), y.detach())
        assert_same(compiled.scale.detach(), ours.scale.detach())
    assert compiled.initialized and compiled.scale.max() < 30
    loaded = LearnableFakeQuantize(-8, 7, **keywords)
    loaded.load_state_dict(compiled.state_dict())
    torch._dynamo.reset()
    torch.compile(loaded, fullgraph=True, backend="aot_eager")(draw(6, 8) * 9)
    assert_same(loaded.scale.detach(), ours.scale.detach())


@pytest.mark.parametrize("made", ("eval", "served"))
def test_an_exported_layer_takes_any_batch(made):
    learned = {"dtype": "int4", "group_size": 4, "range_learning": True, "is_dynamic": False}
    for fakes in ((INT8, TOKENS), (learned, lambda: LearnableFakeQuantize()), ({"dtype": "uint4", "group_size": 3, "is_symmetric": False},)):  # fmt: skip
        layer = prepare(torch.nn.Linear(8, 5), *fakes)
        layer(draw(4, 3, 8))
        model = layer.eval() if made == "eval" else convert(layer)
        batch = torch.export.Dim("batch", min=2, max=64)
        program = torch.export.export(model, (draw(4, 3, 8),), dynamic_shapes={"input": {0: batch}})
        assert_same(reloaded(program)(draw(7, 3, 8)).detach(), model(draw(7, 3, 8)).detach())


def test_training_is_exported_for_any_batch():
    """Observers look for extremes of dimensions that the export leaves open. The program goes through a file."""
    static = {"dtype": torch.int8, "granularity": "per_tensor", "is_dynamic": False}
    for weight, activation in ((INT8, static), (static, TOKENS), (static, static | {"is_dynamic": True})):
        layer, x = prepare(torch.nn.Linear(8, 5), weight, activation), draw(7, 8)
        layer(draw(4, 8))
        program = torch.export.export(layer, (draw(4, 8),), dynamic_shapes=({0: torch.export.Dim("b")},))
        assert_same(reloaded(program)(x).detach(), layer(x).detach())


@pytest.mark.parametrize("kind", (*OBSERVERS[:2], lambda: MSEObserver(steps=3)))
def test_an_observer_goes_through_a_saved_program(kind):
    observer, x = kind(), draw(7, 8, spread=9.0)
    observer(draw(4, 8))
    program = reloaded(torch.export.export(observer, (draw(4, 8),), dynamic_shapes=({0: torch.export.Dim("b")},)))
    assert_same(program(x), observer(x))
    assert_same((program.min_val, program.max_val), (observer.min_val, observer.max_val))


@pytest.mark.parametrize("dtype", ("int4", "uint4"))
def test_4_bit_codes_go_through_a_saved_program(dtype):
    """torch's files know no 4-bit types. Row counts and widths are odd, so that half a byte is left over."""
    config, x = {"dtype": dtype, "group_size": 3, "is_symmetric": dtype == "int4"}, torch.tensor([[1, 5], [0, 4]])
    tables = [prepare(kind(7, 9), embedding=config) for kind in (torch.nn.Embedding, torch.nn.EmbeddingBag)]
    layer = prepare(torch.nn.Linear(9, 5), config, exact=False)
    for model, given in (*((table, x) for table in tables), (layer, draw(4, 9))):
        served = convert(model)
        assert served.weight.codes.shape[-1] == 5  # packed, but in the program
        assert_same(reloaded(torch.export.export(served, (given,)))(given), served(given))


def reloaded(program):
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file).module()


@pytest.mark.parametrize("granularity", ("per_tensor", "per_channel", "group"))
def test_packed_codes_of_one_column(granularity):
    """One code takes a byte, so that there are as many bytes as columns; the second half is no code."""
    where = {"group_size": 4} if granularity == "group" else {"granularity": granularity}
    config = {"dtype": "int4", **where}
    table, x = prepare(torch.nn.Embedding(6, 1), embedding=config), torch.tensor([[1, 5]])
    assert_same(convert(table)(x), table.eval()(x).detach())
    for keywords in ({}, {"exact": False}):
        layer = prepare(torch.nn.Linear(1, 3), config, **keywords)
        assert_same(convert(layer)(draw(4, 1)), layer.eval()(draw(4, 1)).detach())


@pytest.mark.parametrize("kind", (LearnableFakeQuantize, FakeQuantize))
def test_training_without_values(kind):
    """On meta, and with fake tensors: shapes only."""
    on_meta = kind().to("meta")
    for _ in range(2):
        assert on_meta(torch.empty(3, 4, device="meta")).shape == (3, 4)
    with torch._subclasses.fake_tensor.FakeTensorMode():
        fake = kind()
        fake.eval()(torch.randn(3, 4))
        fake.train()
        for _ in range(2):
            fake(torch.randn(3, 4, requires_grad=True)).sum().backward()


def test_an_untrained_scale_is_served_with_a_warning():
    for use in (lambda fake: fake.eval()(draw(3, 4)), lambda fake: fake.served()):
        with pytest.warns(UserWarning, match="LearnableFakeQuantize has seen nothing yet: its scale is 1"):
            use(LearnableFakeQuantize())
    with warnings.catch_warnings(action="error"):
        started, chosen = LearnableFakeQuantize(), LearnableFakeQuantize()
        started(draw(3, 4)), started.eval()(draw(3, 4)), started.served()
        chosen.scale.data.fill_(0.5)
        chosen.eval()(draw(3, 4)), chosen.served()
    unseen, x = FakeQuantize(PerChannelMinMaxObserver, ch_axis=1), draw(3, 4)
    with pytest.warns(UserWarning, match="FakeQuantize has seen nothing yet"):
        assert_same(unseen.served()(x), unseen.eval()(x))  # of as many channels as x has


def test_a_pretrained_table():
    weight, fake = draw(9, 4), FakeQuantize(MinMaxObserver)
    layer = FakeQuantizedEmbedding.from_pretrained(weight, padding_idx=2, weight_fake_quantizer=fake)
    assert layer.weight.data_ptr() == weight.data_ptr() and not layer.weight.requires_grad and layer.padding_idx == 2
    assert_same(layer(torch.tensor([1, 2])), fake.eval()(weight)[1:3])


def test_an_ensemble_of_layers_that_have_started():
    layers = [LearnableFakeQuantize() for _ in range(3)]
    for i, layer in enumerate(layers):
        layer(draw(3, 4, seed=i))
    state, x = torch.func.stack_module_state(layers), draw(3, 4)
    for base in (layers[0], copy.deepcopy(layers[0]).to("meta")):
        together = torch.vmap(lambda p, b, base=base: torch.func.functional_call(base, (p, b), (x,)))(*state)
        assert_same(together, torch.stack([layer(x) for layer in layers]))


def test_an_ensemble_of_modules_that_observe():
    alone = [FakeQuantize() for _ in range(3)]
    state, x = torch.func.stack_module_state(alone), draw(2, 3, 3, 4)
    base, of_modules = FakeQuantize(), torch.vmap(lambda p, b, x: torch.func.functional_call(base, (p, b), (x,)))
    for batch in x:
        assert_same(of_modules(*state, batch), torch.stack([q(t) for q, t in zip(alone, batch, strict=True)]))
    assert_same(tuple(state[1].values()), tuple(torch.func.stack_module_state(alone)[1].values()))
    base = FakeQuantize().eval()  # which asks none of them whether it saw something
    assert_same(of_modules(*state, x[0]), torch.stack([q.eval()(t) for q, t in zip(alone, x[0], strict=True)]))


@pytest.mark.filterwarnings("ignore:for .*copying from a non-meta parameter")
@pytest.mark.parametrize("kind", OBSERVERS)
def test_a_state_is_loaded_on_meta(kind):
    observer, empty = kind(), kind().to("meta")
    observer(draw(3, 4))
    empty.load_state_dict(observer.state_dict())
    assert empty.min_val.is_meta
    empty.load_state_dict(observer.state_dict(), assign=True)
    assert_same(empty.calculate_qparams(), observer.calculate_qparams())
