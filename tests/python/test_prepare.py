"""prepare: a model's layers become fake-quantized ones; and torch.ao's own prepare_qat with our modules."""

import copy
import pickle
from types import SimpleNamespace

import pytest
import torch
import torch.ao.quantization as ao
from isobit.nn import (
    FakeQuantize,
    FakeQuantizedEmbedding,
    FakeQuantizedLinear,
    HistogramObserver,
    LearnableFakeQuantize,
    Linear,
    MinMaxObserver,
    QuantizedLinear,
    convert,
    prepare,
)
from kit import assert_same, draw
from nn_models import INT8, TOKENS

LEARNED = {"dtype": "int4", "group_size": 4, "range_learning": True, "is_dynamic": False}


class Net(torch.nn.Module):
    """Nested layers, a layer used twice, a tied weight, a name without a layer."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 8, padding_idx=1)
        self.body = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.ModuleDict({"last": Linear(8, 8)})["last"])  # fmt: skip
        self.again = self.body[0]
        self.head = torch.nn.Linear(8, 10, bias=False)
        self.head.weight = self.table.weight
        self.register_module("absent", None)

    def forward(self, i):
        return self.head(self.again(self.body(self.table(i))))


@pytest.mark.parametrize("weight", (INT8, LEARNED), ids=("observed", "learned"))
def test_a_model_is_prepared_trained_and_converted(weight):
    torch.manual_seed(0)
    model = Net()
    parameters = list(model.parameters())
    ids = [id(p) for p in parameters]
    prepared = prepare(model, weight, TOKENS, embedding=weight, inplace=True)
    assert prepared is model
    assert [type(m) for m in (model.table, model.body[0], model.body[2], model.head)] == [
        FakeQuantizedEmbedding,
        *[FakeQuantizedLinear] * 3,
    ]
    assert model.again is model.body[0] and model.head.weight is model.table.weight
    assert {id(p) for p in model.parameters()} >= set(ids)
    assert model.table.padding_idx == 1
    fakes = [m for m in model.modules() if isinstance(m, (FakeQuantize, LearnableFakeQuantize))]
    assert len(set(fakes)) == 4 + 3
    if weight is LEARNED:
        assert model.table.weight_fake_quantizer.scale.shape == (10, 2)
    indices = torch.randint(0, 10, (7, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.02)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        loss = (model(indices) - 1).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0]
    want = copy.deepcopy(model).eval()(indices).detach()
    served = convert(model)
    assert_same(served(indices), want)
    assert served.again is served.body[0]
    assert_same(pickle.loads(pickle.dumps(model)).eval()(indices).detach(), want)
    other = prepare(Net(), weight, TOKENS, embedding=weight)
    other.load_state_dict(model.state_dict())
    assert_same(other.eval()(indices).detach(), want)
    with pytest.raises(ValueError, match="found no layer in Net"):
        prepare(model, weight)


def test_it_is_the_layer_built_by_hand():
    linear = torch.nn.Linear(6, 5).double().eval()
    x = draw(3, 6, dtype=torch.float64)
    calls = []
    linear.register_forward_hook(lambda m, a, y: calls.append(type(m)))
    linear._register_load_state_dict_pre_hook(lambda m, *a: calls.append(m), with_module=True)
    linear.note = "mine"
    of = FakeQuantize.from_config
    hand = FakeQuantizedLinear.from_linear(
        linear, weight_fake_quantizer=of(**INT8), activation_fake_quantizer=of(**TOKENS)
    )
    assert_same(prepare(linear, INT8, TOKENS)(x), hand(x))
    assert type(linear) is torch.nn.Linear and calls == [FakeQuantizedLinear]
    layer = prepare(linear, lambda: of(**INT8), exact=False, inplace=True)
    assert layer is linear and not layer.exact and layer.note == "mine"
    assert not layer.training and not layer.weight_fake_quantizer.training
    layer.load_state_dict(layer.state_dict())
    assert calls[-1] is layer
    meta = prepare(torch.nn.Linear(6, 5, device="meta"), INT8)
    assert meta.weight.device.type == "meta"


def test_configurations():
    qat = pytest.importorskip("torchao.quantization.qat")
    from torchao.quantization import quantize_

    x = draw(3, 8)
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    theirs = copy.deepcopy(model)
    weight = qat.IntxFakeQuantizeConfig(torch.int8, "per_channel")
    activation = qat.IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False)
    ours = prepare(model, weight, activation)
    quantize_(theirs, qat.QATConfig(weight_config=weight, activation_config=activation, step="prepare"))
    assert [n for n, m in ours.named_modules() if "quantizer" not in n] == [
        n for n, m in theirs.named_modules() if "quantizer" not in n
    ]
    assert dict(ours.named_parameters()).keys() == dict(theirs.named_parameters()).keys()
    assert (ours(x) - theirs(x)).abs().max() < 0.02 * ours(x).abs().max()
    qconfig = ao.QConfig(
        activation=FakeQuantize.with_args(observer=HistogramObserver),
        weight=FakeQuantize.with_args(observer=MinMaxObserver, dtype=torch.qint8),
    )
    ours = prepare(model, qconfig.weight, qconfig.activation)
    assert isinstance(ours[0].activation_fake_quantizer.activation_post_process, HistogramObserver)
    model.qconfig = qconfig
    theirs = ao.prepare_qat(model)  # torch.ao's, with our modules: it passes factory_kwargs
    assert isinstance(theirs[2].weight_fake_quant, FakeQuantize)
    ours(x), theirs(x)
    assert_same(theirs[0].weight_fake_quant.scale, ours[0].weight_fake_quantizer.scale)
    theirs(x).sum().backward()
    assert theirs[0].weight.grad is not None


def test_what_is_left_as_it_is_and_what_is_refused():
    class Mine(torch.nn.Linear):
        pass

    parametrized = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 4))
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Mine(4, 4), torch.nn.Embedding(4, 4), parametrized)
    model.append(torch.nn.MultiheadAttention(4, 2)).append(QuantizedLinear(4, 4))
    prepared = prepare(model, INT8)
    same = [type(a) is type(b) for a, b in zip(prepared, model, strict=True)]
    assert prepared[0].weight_fake_quantizer.scale.shape == (0,)  # of each batch its own
    assert same == [False] + [True] * 5
    assert type(prepared[4].out_proj) is type(model[4].out_proj)
    assert (
        type(prepare(model, SimpleNamespace(**INT8), filter_fn=lambda m, name: m is model[0])[0]) is FakeQuantizedLinear
    )
    prepared = prepare(model, embedding=INT8, filter_fn=lambda m, name: name == "2")
    assert [type(m) for m in prepared] == [*[type(m) for m in model[:2]], FakeQuantizedEmbedding, *[type(m) for m in model[3:]]]  # fmt: skip
    old = torch.nn.utils.weight_norm(torch.nn.Linear(4, 4))
    patched = torch.nn.Linear(4, 4)
    patched.forward = lambda x: x
    for error, message, arguments in (
        (ValueError, "all None", (model,)),
        (ValueError, "found no layer in ReLU", (torch.nn.ReLU(), INT8)),
        (ValueError, r"no layer in Sequential .*; '1' is of a subclass, test_prepare\..*Mine", (model[1:2], INT8)),
        (ValueError, "no layer in EmbeddingBag .* embedding is for", (torch.nn.EmbeddingBag(4, 4), INT8)),
        (TypeError, "'1', a Mine, is not itself a Linear", (model, INT8, None, lambda m, n: n in "01")),
        (TypeError, "out_proj', a NonDyn", (model, INT8, None, lambda m, n: n.endswith("out_proj"))),
        (ValueError, "no parameter of its own named weight", (old, INT8)),
        (ValueError, "forward of its own", (patched, INT8)),
        (
            ValueError,
            "'1', a LazyLinear, has no weight before",
            (torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LazyLinear(4)), INT8),
        ),
        (TypeError, "prepare: weight is one LearnableFakeQuantize", (model, LearnableFakeQuantize())),
        (TypeError, "prepare: weight is a int; want torchao's", (model, 8)),
        (TypeError, "prepare: activation makes a ReLU", (model, None, torch.nn.ReLU)),
        (ValueError, "prepare: weight: what is not a field; want dtype", (model, {"what": 1})),
        (ValueError, "prepare: activation: dtype is torch.float32; want", (model, INT8, {"dtype": torch.float32})),
        (TypeError, "prepare: filter_fn must be a function of .*, not int", (model, INT8, None, 3)),
        (ValueError, "wants shape", (model, None, LEARNED)),
        (ValueError, r"block_size is \[2, 2, 2\]", (model, FakeQuantize.with_args(block_size=(2, 2, 2)))),
    ):
        before = [type(m) for m in arguments[0].modules()]
        with pytest.raises(error, match=message):
            prepare(*arguments[:3], filter_fn=arguments[3] if len(arguments) > 3 else None, inplace=True)
        assert [type(m) for m in arguments[0].modules()] == before
    old(draw(2, 4))  # whose weight has a graph, so that there is no copy
    with pytest.raises(ValueError, match="no parameter of its own named weight"):
        prepare(old, INT8)
    with pytest.raises(ValueError, match="has max_norm; want max_norm=None"):
        prepare(torch.nn.Embedding(3, 4, max_norm=1.0), embedding=INT8)


@pytest.mark.parametrize("by", ("prepare", "hand"))
def test_torchs_encoder_layers_do_not_read_past_the_codes(by):
    """In eval mode, without gradients, their fast path takes linear1.weight as it is."""
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2)
    coarse = {"dtype": "int2", "granularity": "per_channel"}
    x, padding = draw(2, 3, 8), torch.tensor([[False, False, True]] * 2)
    plain = copy.deepcopy(encoder).eval()
    if by == "prepare":
        encoder = prepare(encoder, coarse)
        with torch.no_grad():
            for mask in (None, padding):
                want = encoder.train()(x, src_key_padding_mask=mask)
                got = encoder.eval()(x, src_key_padding_mask=mask)
                torch.testing.assert_close(got, want)
                assert (got - plain(x)).abs().max() > 0.01
                assert_same(convert(encoder)(x, src_key_padding_mask=mask), got)
    else:
        for one in encoder.layers:
            fake = FakeQuantize.from_config(**coarse)
            one.linear1 = FakeQuantizedLinear.from_linear(one.linear1, weight_fake_quantizer=fake)
        want = encoder.train()(x, src_key_padding_mask=padding)
        torch.testing.assert_close(convert(encoder)(x, src_key_padding_mask=padding), want)


def test_a_wrapped_layer_is_converted():
    wrapper = pytest.importorskip("torch.distributed.algorithms._checkpoint.checkpoint_wrapper")
    for layer in (prepare(torch.nn.Linear(8, 4), INT8), QuantizedLinear(8, 4)):
        model, x = torch.nn.Sequential(wrapper.checkpoint_wrapper(layer)), draw(2, 8)
        served = convert(model)
        assert not list(served.parameters())
        assert_same(served(x), model.eval()(x).detach())


def test_a_compiled_layer_says_that_it_would_run_as_it_was():
    layer = prepare(torch.nn.Linear(8, 4), INT8)
    quick = torch.nn.TransformerEncoderLayer(8, 1, 8)

    class Merges(torch.nn.Sequential):  # in eval mode, as LoRA does
        def train(self, mode=True):
            self.merged = not mode
            return super().train(mode)

    parts = Merges(prepare(torch.nn.Linear(8, 8), INT8).eval(), quick, torch.compile(layer, backend="eager"))
    parts.merged = False
    before = [(m, m.training) for m in parts.modules()]
    with pytest.raises(TypeError, match="convert: a OptimizedModule runs the layer it was made of"):
        convert(parts, inplace=True)
    # nothing is replaced or switched then
    assert before == [(m, m.training) for m in parts.modules()]
    assert not parts.merged and quick.activation_relu_or_gelu
    model, x = torch.compile(torch.nn.Sequential(layer), backend="eager"), draw(2, 8)
    want = model(x).detach()
    served = convert(model)
    assert_same(served(x), want)
    assert not list(served.parameters())


@pytest.mark.filterwarnings("ignore:.*prepare_qat|.*is deprecated")
def test_learned_scales_in_torch_aos_prepare_qat():
    learned = LearnableFakeQuantize.with_args(quant_min=-127, quant_max=127)
    model = torch.nn.Sequential(torch.nn.Linear(8, 4))
    model.qconfig = ao.QConfig(activation=learned, weight=learned)
    prepared = ao.prepare_qat(model.train())
    prepared(draw(3, 8)).sum().backward()
    assert prepared[0].weight_fake_quant.scale.grad is not None
    there = prepare(torch.nn.Linear(8, 4, device="meta"), INT8, LearnableFakeQuantize)
    assert all(value.is_meta for value in there.state_dict().values())
    meta = LearnableFakeQuantize(factory_kwargs={"device": "meta", "dtype": torch.float64})
    assert meta.scale.is_meta and meta.scale.dtype == torch.float32
    assert all(
        buffer.is_meta for buffer in (*meta.buffers(), *FakeQuantize(factory_kwargs={"device": "meta"}).buffers())
    )


def test_torch_fx_records_a_layer_as_one_call():
    static = {"dtype": torch.int8, "granularity": "per_tensor", "is_dynamic": False}
    linear = torch.nn.Linear(8, 8)
    for layer, x in (
        (prepare(linear, INT8, TOKENS), draw(5, 8)),
        (prepare(linear, LEARNED, static), draw(5, 8)),
        (prepare(torch.nn.Embedding(9, 4), embedding=INT8), torch.tensor([3, 1])),
        (LearnableFakeQuantize(), draw(5, 8)),
        (MinMaxObserver(), draw(5, 8)),
        (HistogramObserver(), draw(5, 8)),
        (QuantizedLinear(8, 3), draw(5, 8)),
    ):
        layer(x)
        for f in (layer.eval(), convert(layer)):
            assert_same(torch.fx.symbolic_trace(f)(x).detach(), f(x).detach())
            traced = torch.fx.symbolic_trace(torch.nn.Sequential(f))
            assert_same(traced(x).detach(), f(x).detach())
            assert_same(convert(traced)(x).detach(), f(x).detach())

    class Mine(FakeQuantizedLinear):
        def forward(self, input):
            return super().forward(input) + 1

    hooked, scaled = FakeQuantizedLinear(4, 3), FakeQuantizedLinear(4, 3)
    hooked.register_forward_hook(lambda module, args, y: y * 2)
    scaled.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    for layer in (Mine(4, 3), hooked, scaled):
        with pytest.raises(TypeError, match="torch.fx would record a forward or hooks of its own twice"):
            torch.fx.symbolic_trace(torch.nn.Sequential(layer))


@pytest.mark.filterwarnings("ignore")
def test_torch_aos_switches_and_prepare_qat_fx():
    """Its switches passed by what is not of its own class, without a word; prepare_qat_fx refused it."""
    fx = pytest.importorskip("torch.ao.quantization.quantize_fx")
    fakes = FakeQuantize.with_args(dtype=torch.quint8), FakeQuantize.with_args(dtype=torch.qint8)
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).train(), draw(5, 8)
    prepared = fx.prepare_qat_fx(model, ao.QConfigMapping().set_global(ao.QConfig(*fakes)), (x,))
    prepared(x).sum().backward()
    for module in (
        prepared,
        prepare(model, INT8 | {"is_dynamic": False}, LearnableFakeQuantize),
        LearnableFakeQuantize(),
    ):
        found = [m for m in module.modules() if isinstance(m, (FakeQuantize, LearnableFakeQuantize))]
        assert found
        for name, at in (("observer", "is_observing"), ("fake_quant", "is_faking")):
            for word in ("disable", "enable"):
                module.apply(getattr(ao, f"{word}_{name}"))
                assert all(getattr(m, at)() == (word == "enable") for m in found)
    fx.convert_fx(prepared.eval())
