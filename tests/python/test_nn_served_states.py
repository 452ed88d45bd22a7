"""States of served modules: codes load into a module where they stand for the same values, and nowhere else."""

import copy
import io
import pickle
import warnings

import pytest
import torch
from isobit.nn import FakeQuantize, LearnableFakeQuantize, QuantizedLinear, convert, disable_fake_quant, prepare
from kit import assert_same, draw

ROWS = {"granularity": "per_row"}
E4M3, E5M2 = ({"dtype": dtype, **ROWS} for dtype in (torch.float8_e4m3fn, torch.float8_e5m2))
TENSOR = FakeQuantize.with_args(dtype=torch.int8, qscheme=torch.per_tensor_symmetric)

# Two configurations of a weight [5, 10] whose states have the same shapes and dtypes.
WEIGHTS = {
    "float8": (E4M3, E5M2, "dtype torch.float8_e4m3fn, .*; want dtype torch.float8_e5m2"),
    "groups": (
        {"dtype": "int4", "group_size": 6},
        {"dtype": "int4", "group_size": 7},
        r"block_size \[1, 6\]; want block_size \[1, 7\]",
    ),
    "range": (
        FakeQuantize.with_args(dtype=torch.int8, quant_min=-8, quant_max=7),
        FakeQuantize.with_args(dtype=torch.int8),
        "quant_min -8, quant_max 7; want quant_min -128, quant_max 127",
    ),
    "signs": (
        {"dtype": "int4", **ROWS, "is_symmetric": False},
        {"dtype": "uint4", **ROWS, "is_symmetric": False},
        "dtype torch.int4, .*; want dtype torch.uint4",
    ),
    "zero point": (
        {"dtype": torch.int8, **ROWS, "is_symmetric": False},
        {"dtype": torch.int8, **ROWS},
        "zero_point True; want zero_point False",
    ),
}
ACTIVATIONS = {
    "range": (
        lambda: LearnableFakeQuantize(-8, 7),
        LearnableFakeQuantize,
        "quant_min -8, quant_max 7; want quant_min -128",
    ),
    "axis": (
        lambda: LearnableFakeQuantize(channels=10),
        lambda: LearnableFakeQuantize(channels=10, ch_axis=1),
        r"granularity \['per_channel', 0\]; want granularity \['per_channel', 1\]",
    ),
    "zero point": (
        lambda: LearnableFakeQuantize(learn_zero_point=True),
        LearnableFakeQuantize,
        "zero_point True; want zero_point False",
    ),
    "rounding": (TENSOR.with_args(rounding="reciprocal"), TENSOR, "rounding reciprocal; want rounding nearest"),
    "float8": (
        lambda: LearnableFakeQuantize(-448, 448, dtype=torch.float8_e4m3fn),
        lambda: LearnableFakeQuantize(-448, 448, dtype=torch.float8_e5m2),
        "code_dtype torch.float8_e4m3fn; want code_dtype torch.float8_e5m2",
    ),
}
PAIRS = {f"weight {name}": ("weight", pair) for name, pair in WEIGHTS.items()}
PAIRS |= {f"activation {name}": ("activation", pair) for name, pair in ACTIVATIONS.items()}


def served(where, by, seed=0, **keywords):
    torch.manual_seed(seed)
    model = prepare(torch.nn.Sequential(torch.nn.Linear(10, 5)), **{where: by}, **keywords)
    with warnings.catch_warnings(action="ignore"):
        model(draw(10, 10, seed=seed))
    return convert(model)


def saved(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def assert_same_state(a, b):
    assert a.keys() == b.keys()
    for key, value in a.items():
        assert_same(value, b[key])


@pytest.mark.parametrize("way", (lambda s: s, copy.deepcopy, saved, lambda s: pickle.loads(pickle.dumps(s))))
@pytest.mark.parametrize("name", PAIRS)
def test_a_state_of_another_scheme_is_an_error(name, way):
    """It was loaded, and stood for other values."""
    where, (mine, other, message) = PAIRS[name]
    a, b, again = served(where, mine), served(where, other, 1), served(where, mine, 1)
    before = copy.deepcopy(b.state_dict())
    codes = {k for k in before if k.startswith("0.weight." if where == "weight" else "0.activation_fake_quantizer.")}
    key = r"0\.weight\.codes" if where == "weight" else r"0\.activation_fake_quantizer\.scale"
    for strict in (True, False):
        with pytest.raises(RuntimeError, match=f"scheme mismatch for {key}: the state has {message}"):
            b.load_state_dict(way(a.state_dict()), strict=strict)
        assert_same_state({k: v for k, v in b.state_dict().items() if k in codes}, {k: before[k] for k in codes})
    x = draw(10, 10, seed=2)
    again.load_state_dict(way(a.state_dict()))
    assert_same(again(x), a(x))


@pytest.mark.parametrize("name", PAIRS)
def test_a_state_of_tensors_alone_loads(name, tmp_path):
    """As safetensors has it, and torch.distributed.checkpoint: its names are those of the buffers."""
    where, (mine, _, _) = PAIRS[name]
    a, b, c, x = served(where, mine), served(where, mine, 1), served(where, mine, 2), draw(10, 10, seed=2)
    state = a.state_dict()
    assert all(isinstance(value, torch.Tensor) for value in state.values())
    assert state.keys() == {name for name, _ in a.named_buffers()} | {name for name, _ in a.named_parameters()}
    b.load_state_dict({key: value.clone() for key, value in state.items()})
    assert_same(b(x), a(x))
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    checkpoint.save(state, checkpoint_id=tmp_path)
    state = c.state_dict()
    checkpoint.load(state, checkpoint_id=tmp_path)
    c.load_state_dict(state)
    assert_same(c(x), a(x))


def test_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    a, b, x = served("weight", E4M3), served("weight", E4M3, 1), draw(3, 10)
    safetensors.save_model(a, str(tmp_path / "a"))
    assert safetensors.load_model(b, str(tmp_path / "a")) == (set(), [])
    assert_same(b(x), a(x))


def test_equal_codes_are_no_error_whatever_they_are_called():
    """One scale a row, by its axis from either end or by groups as long as the row."""
    names = ({"granularity": "per_channel"}, ROWS, {"group_size": 10})
    layers = [served("weight", {"dtype": torch.int8, **where}, seed) for seed, where in enumerate(names)]
    layers[1].load_state_dict(layers[2].state_dict())
    assert_same(layers[1](draw(3, 10)), layers[2](draw(3, 10)))
    axes = [
        FakeQuantize.with_args(dtype=torch.int8, qscheme=torch.per_channel_symmetric, ch_axis=axis) for axis in (0, -2)
    ]
    a, b = served("weight", axes[0]), served("weight", axes[1], 1)
    b.load_state_dict(a.state_dict())
    assert_same(b(draw(3, 10)), a(draw(3, 10)))


def test_a_state_brings_the_type_of_its_scale_and_not_its_shape():
    """Where nothing but tensors says which scheme it is of."""
    rows = TENSOR.with_args(qscheme=torch.per_channel_symmetric)
    layer = prepare(torch.nn.Linear(10, 5).double(), rows)
    layer(draw(3, 10, dtype=torch.float64))
    a, b = convert(layer), served("weight", rows)[0]
    b.load_state_dict(dict(a.state_dict()))
    assert b.weight.scale.dtype == torch.float64
    assert_same_state(b.state_dict(), {**a.state_dict(), "bias": a.bias.float()})
    with pytest.raises(RuntimeError, match=r"size mismatch for weight\.scale"):
        served("weight", TENSOR)[0].load_state_dict(dict(a.state_dict()))


@pytest.mark.parametrize("assign", (False, True))
def test_codes_of_another_dtype_are_not_converted(assign):
    """torch's copy_ made of 1.5 the code 1, and of -1 the byte 255."""
    int8 = {"dtype": torch.int8, "granularity": "per_channel"}
    linear = QuantizedLinear(10, 5).served()
    plain = convert(prepare(torch.nn.Linear(10, 5), int8).apply(lambda m: getattr(m, "disable_fake_quant", int)()))
    for model, key, dtypes in (
        (served("weight", int8), "0.weight.codes", (torch.float32, torch.uint8, torch.int32)),
        (served("weight", E4M3), "0.weight.codes", (torch.float32, torch.int8, torch.float8_e4m3fn)),
        (linear, "weight_codes", (torch.float32, torch.uint8)),
        (plain, "weight.codes", (torch.int8,)),
    ):
        for dtype in dtypes:
            state, before = dict(model.state_dict()), copy.deepcopy(model.state_dict())
            want = state[key].dtype
            state[key] = state[key].to(dtype)
            for strict in (True, False):
                message = f"dtype mismatch for {key}: the state has {dtype}; want {want}"
                with pytest.raises(RuntimeError, match=message):
                    model.load_state_dict(state, strict=strict, assign=assign)
                assert_same_state(model.state_dict(), before)
    state = {k: v.double() for k, v in plain.state_dict().items()}  # floats as torch converts them
    plain.load_state_dict(state)
    assert plain.weight.codes.dtype == torch.float32


def test_a_state_goes_with_calls_and_compiled_layers():
    model, x = served("weight", E4M3), draw(3, 10)
    assert_same(torch.func.functional_call(model, model.state_dict(), x), model(x))
    compiled, other = torch.compile(model, backend="eager"), torch.compile(served("weight", E4M3, 1), backend="eager")
    other.load_state_dict(compiled.state_dict())
    assert_same(other(x), model(x))
    with pytest.raises(RuntimeError, match=r"scheme mismatch for _orig_mod\.0\.weight\.codes"):
        torch.compile(served("weight", E5M2), backend="eager").load_state_dict(compiled.state_dict())
    destination = {}
    model.state_dict(destination=destination)  # a dict has no metadata
    assert destination.keys() == model.state_dict().keys()


def test_codes_of_transposed_weights_are_served_by_rows():
    layer = prepare(torch.nn.Linear(6, 4), {"dtype": torch.int8, "granularity": "per_channel"})
    layer.weight = torch.nn.Parameter(layer.weight.detach().t().contiguous().t())
    served = convert(layer)
    assert served.weight.codes.is_contiguous()
    x = torch.randn(6, 3).t()
    assert torch.equal(served(x), layer.eval()(x))


@pytest.mark.parametrize("weight", (LearnableFakeQuantize, lambda: FakeQuantize().apply(disable_fake_quant)))
def test_what_is_served_does_not_follow_what_trains_on(weight):
    activation = LearnableFakeQuantize.with_args(learn_zero_point=True)
    layer, x = prepare(torch.nn.Linear(6, 4), weight=weight, activation=activation), draw(3, 6)
    layer(x)
    served = layer.eval().served()
    want = served(x)
    with torch.no_grad():
        for tensor in (*layer.parameters(), *layer.buffers()):
            tensor.fill_(3)
    assert_same(served(x), want)


@pytest.mark.parametrize("learned", (2.3, 200.0, torch.nan))
def test_a_learned_zero_point_of_a_weight_is_served_as_it_is_used(learned):
    layer, x = prepare(torch.nn.Linear(6, 4), weight=LearnableFakeQuantize.with_args(learn_zero_point=True)), draw(3, 6)
    layer(x)
    layer.weight_fake_quantizer.zero_point.data.fill_(learned)
    served = layer.eval().served()
    assert served.weight.zero_point.dtype == torch.int32
    assert_same(served(x), layer(x).detach())
    assert_same(served.weight(), layer.weight_fake_quantizer(layer.weight).detach())


@pytest.mark.filterwarnings("ignore:FakeQuantize has seen nothing")
def test_what_has_seen_nothing_is_served_with_a_scale_of_1():
    trained = FakeQuantize(dtype=torch.uint8, qscheme=torch.per_channel_symmetric, ch_axis=0).eval()
    served, x = trained.served(), 50 * draw(4, 6)
    assert served.scale.numel() == 0
    assert_same(served(x), trained(x))
    assert served(x).min() < 0  # the middle of uint8 is its zero point


def test_a_zero_point_that_a_module_has_not_is_unexpected():
    model = served("activation", LearnableFakeQuantize)
    state = {**model.state_dict(), "0.activation_fake_quantizer.zero_point": torch.zeros(1, dtype=torch.int32)}
    with pytest.raises(
        RuntimeError, match=r'Unexpected key\(s\) in state_dict: "0.activation_fake_quantizer.zero_point"'
    ):
        model.load_state_dict(state)
    model.load_state_dict(state, strict=False)


def test_a_state_without_a_scale_lacks_it():
    model = served("weight", E4M3)
    state = {name: value for name, value in model.state_dict().items() if not name.endswith("scale")}
    with pytest.raises(RuntimeError, match=r'Missing key\(s\) in state_dict: "0.weight.scale"'):
        model.load_state_dict(state)
    assert model.load_state_dict({}, strict=False).missing_keys == list(model.state_dict())


def test_what_is_no_tensor_in_a_state_is_named():
    for model in (FakeQuantize(), LearnableFakeQuantize(), served("weight", E4M3), served("activation", TENSOR)):
        for name in model.state_dict():
            with pytest.raises(RuntimeError, match=f"named \"{name}\", expected torch.Tensor .* <class 'list'>"):
                model.load_state_dict({**model.state_dict(), name: [1.0]})


def test_a_state_is_saved_where_there_is_no_metadata():
    model = served("weight", E4M3)
    assert model.state_dict(destination={}).keys() == model.state_dict().keys()
