"""Every argument of every public function, with every wrong kind: a sentence that names an argument and says what
came and what was wanted, an error of the right class, and nothing written."""

import inspect
import re

import isobit
import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

NAMES = [n for n in isobit.__all__ if inspect.isfunction(getattr(isobit, n)) and inspect.signature(getattr(isobit, n)).parameters]  # fmt: skip
GROUPINGS = {
    "per_channel_group": (4, 2),
    "per_channel": (4,),
    "per_token": (4,),
    "per_block": (2, 2),
    "per_tensor": (),
}
X, CODES = torch.linspace(-3, 3, 24).view(4, 6), torch.arange(-8, 16).view(4, 6).to(torch.int8)
ROWS, INDICES = torch.ones(5, 3) * 4, torch.tensor([1, 2, 3])
OTHERS = {
    "affine_grid": {"theta": torch.ones(2, 2, 3), "size": [2, 1, 3, 3], "out": torch.empty(2, 3, 3, 2)},
    "affine_grid_backward": {"grad_grid": torch.ones(2, 3, 3, 2)},
    "grid_sample": {
        "input": torch.ones(2, 3, 4, 4),
        "grid": torch.zeros(2, 3, 3, 2),
        "out": torch.empty(2, 3, 3, 3),
    },
    "grid_sample_backward": {
        "grad_output": torch.ones(2, 3, 3, 3),
        "input": torch.ones(2, 3, 4, 4),
        "grid": torch.zeros(2, 3, 3, 2),
    },
    "grid_sample_double_backward": {
        "grad_output": torch.ones(2, 3, 3, 3),
        "input": torch.ones(2, 3, 4, 4),
        "grid": torch.zeros(2, 3, 3, 2),
        "grad_grad_input": torch.ones(2, 3, 4, 4),
        "grad_grad_grid": torch.ones(2, 3, 3, 2),
    },
    "embedding": {"input": INDICES, "weight": ROWS, "max_norm": 1.0},
    "embedding_backward": {"grad_output": torch.ones(3, 3), "indices": INDICES, "num_weights": 5},
    "embedding_renorm_": {"weight": ROWS, "indices": INDICES, "max_norm": 1.0},
    "embedding_bag": {
        "input": INDICES,
        "weight": ROWS,
        "offsets": torch.tensor([0, 2]),
        "max_norm": 1.0,
        "mode": "sum",
        "per_sample_weights": torch.ones(3),
    },
    "linear": {"input": X, "weight": X[:3], "bias": torch.ones(3), "out": torch.empty(4, 3)},
    "matmul": {"input": X, "other": X.t(), "out": torch.empty(4, 4)},
    "quantized_linear": {"input": X, "weight": X[:3], "bias": torch.ones(3), "out": torch.empty(4, 3)},
    "quantized_linear_codes": {
        "input": CODES,
        "input_scale": torch.ones(4),
        "weight": CODES[:3],
        "weight_scale": torch.ones(3, 2),
        "bias": torch.ones(3),
        "input_zero_point": torch.ones(4),
        "weight_zero_point": torch.ones(3, 2),
        "group_size": 3,
        "out": torch.empty(4, 3),
    },
    "weight_only_linear": {
        "input": X,
        "weight": CODES[:3],
        "weight_scale": torch.ones(3, 2),
        "weight_zero_point": torch.zeros(3, 2),
        "bias": torch.ones(3),
        "group_size": 3,
        "out": torch.empty(4, 3),
    },
    "weight_only_embedding_bag": {
        "input": torch.tensor([0, 2, 1]),
        "weight": CODES,
        "weight_scale": torch.ones(4, 2),
        "weight_zero_point": torch.zeros(4, 2),
        "offsets": torch.tensor([0, 1]),
        "group_size": 3,
        "mode": "sum",
        "per_sample_weights": torch.ones(3),
    },
    "set_num_threads": {"n": 2},
    "set_huge_pages": {"on": True},
}


def good(name):
    """Arguments that the function takes."""
    grouping = next((g for g in GROUPINGS if g in name), None)
    f, codes = getattr(isobit, name), name.startswith("dequantize")
    if not grouping:
        given = dict(OTHERS[name])
    else:
        scale, zero = torch.full(GROUPINGS[grouping], 0.5), torch.ones(GROUPINGS[grouping], dtype=torch.int32)
        out = torch.float32 if codes or name.startswith("fake") else torch.int8
        given = {"scale": scale, "scales": scale, "zero_point": zero, "zero_points": zero, "axis": 0}
        given |= {"quant_min": -8, "quant_max": 7, "dtype": torch.int8, "group_size": 3, "block_size": [2, 3]}
        given |= {"input": CODES if codes else X, "grad_output": X, "out": torch.empty(4, 6, dtype=out)}
        if name.startswith("dequantize") and name.endswith("backward"):
            given["dtype"] = None
    given = {n: v.clone() if isinstance(v, torch.Tensor) else v for n, v in given.items()}
    parameters = inspect.signature(f).parameters.values()
    missing = [p.name for p in parameters if p.name not in given and p.default is p.empty]
    assert not missing, f"give good() values for {missing} of {name}"
    return {p.name: given.get(p.name, p.default) for p in parameters}


def odd_tensors(t, alone):
    """Values that are no such tensor, for whatever function. None is one where it may be absent."""
    yield from ("abc", [1.0], {}, object(), 1j, np.ones(3), torch.Tensor)
    for dtype in (torch.complex64, torch.bool, torch.uint32, torch.float8_e5m2fnuz):
        yield torch.zeros(t.shape, dtype=dtype)
    yield torch.empty(t.shape, dtype=torch.bits8)
    yield torch.quantize_per_tensor(torch.ones(t.shape), 0.1, 0, torch.qint8)
    yield t.reshape(*t.shape, *[1] * (9 - t.dim()))
    yield torch.nn.parameter.UninitializedParameter()
    if not alone:
        yield t.to("meta")
    if t.dim():
        yield t.to_sparse()
        yield torch.nested.nested_tensor([torch.ones(3), torch.ones(3)])


INTS = (None, "abc", [1], 1.5, True, 1j, torch.tensor([1, 2]), torch.tensor(1.5), np.float32(1), torch.int8, 2**200)
FLOATS = (None, "abc", [1], 1j, True, torch.tensor([1.0, 2.0]), object(), torch.int8, 2**2000)
BOOLS = (None, "abc", [1], 2, 1.0, torch.tensor(True), object(), torch.int8)
WORDS = (None, "", "Bilinear", "x" * 5000, "\udcff", b"nearest", ["sum"], 1, True, torch.int8)
DTYPES = ("int8", int, np.int8, 3, True, [torch.int8], torch.tensor(1), torch.complex64, torch.uint32, torch.qint8)
LISTS = ("ab", [1] * 50, [2**70] * 4, [1.5] * 4, [None] * 4, [[1]] * 4, np.ones(4, np.int64), 3, {1: 2}, object())
OPTIONAL = ("padding_idx", "max_norm", "quant_min", "quant_max", "align_corners", "n", "last_dim")


def wrong(argument, value, alone):
    if argument == "output_mask":
        return [None, "ab", (True,), (1, 0), (False, False), 3]
    if argument in ("size", "block_size"):
        return LISTS
    if argument.endswith("dtype"):
        return DTYPES
    if isinstance(value, torch.Tensor):
        return odd_tensors(value, alone)
    if argument in ("out", "weight_zero_point", "bias", "per_sample_weights", "offsets"):
        return ()
    if argument in ("on", "symmetric", "sparse", "align_corners", "include_last_offset", "scale_grad_by_freq"):
        of = BOOLS
    elif isinstance(value, str):
        of = WORDS
    else:
        of = FLOATS if argument in ("eps", "grad_factor", "norm_type", "max_norm") else INTS
    return [v for v in of if v is not None or argument not in OPTIONAL]


def test_good_arguments_are_good():
    for name in NAMES:
        if not name.startswith("set_"):
            getattr(isobit, name)(**good(name))


CASES = [(n, a) for n in NAMES for a in good(n)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "argument"), CASES, ids=lambda v: v)
def test_wrong_kinds(name, argument):
    f, names = getattr(isobit, name), inspect.signature(getattr(isobit, name)).parameters
    alone = sum(isinstance(v, torch.Tensor) for v in good(name).values()) == 1
    for value in wrong(argument, good(name)[argument], alone):
        arguments = good(name) | {argument: value}
        if argument != "out" and isinstance(arguments.get("out"), torch.Tensor):
            arguments["out"].fill_(77)
        weight = arguments.get("weight")
        with pytest.raises((TypeError, ValueError, RuntimeError)) as raised:
            f(**arguments)
        text = str(raised.value)
        what = f"{name}({argument}={type(value)}): {type(raised.value).__name__}: {text}"
        assert not isinstance(raised.value, (UnicodeError, RecursionError)), what
        assert any(re.search(rf"\b{n}\b", text.partition(": ")[2]) for n in names), what
        assert text.startswith(f"{name}: "), what
        related = " is on | on meta| has shape |8-bit float codes|: out= "  # which name another argument, too
        if re.search("quantize|qparams|weight_only", name) and not re.search(related, text):
            assert text.startswith((f"{name}: {argument} ", f"{name}: {argument}: ")), what
        assert re.search("want|must be|cannot be read|has no memory|ends at", text), what
        assert "\n" not in text and len(text) < 400, what
        if argument != "out" and isinstance(arguments.get("out"), torch.Tensor):
            assert (arguments["out"] == 77).all(), what
        if weight is not None and argument != "weight" and "embedding" in name:
            assert torch.equal(weight, good(name)["weight"]), what


def test_the_first_tensor_is_never_absent():
    for name in NAMES:
        arguments = good(name)
        first = next(iter(arguments))
        if isinstance(arguments[first], torch.Tensor):
            with pytest.raises(TypeError, match=f"^{name}: {first} must be a Tensor"):
                getattr(isobit, name)(**arguments | {first: None})


@pytest.mark.parametrize("mode", ("real", "fake", "symbolic"))
@pytest.mark.parametrize("op", ("dequantize_per_tensor", "fake_quantize_per_tensor_affine"))
def test_the_gradient_of_a_zero_point_that_is_absent_is_no_memory(op, mode):
    """torch's dispatcher hands on such a wish, which no function of isobit's has."""
    backward = getattr(torch.ops.isobit, f"{op}_backward")
    wish = {"want_input": True, "want_scale": True, "want_zero_point": True}
    attributes = {"rounding": "nearest", "grad_factor": 1.0} if op.startswith("fake") else {}
    call = lambda x, scale: backward(x, x, scale, None, -8, 7, **attributes, **wish)  # noqa: E731
    with pytest.raises(isobit.ArgumentError, match=f"^{op}_backward: zero_point is None; want want_zero_point=False"):
        make_fx(call, tracing_mode=mode)(X, torch.tensor(0.5))


@pytest.mark.parametrize("name", [n for n in NAMES if {"zero_point", "zero_points"} & {*inspect.signature(getattr(isobit, n)).parameters}])  # fmt: skip
def test_zero_points_lie_within_the_range(name):
    arguments = good(name)
    zero_point = next(n for n in ("zero_point", "zero_points") if n in arguments)
    with pytest.raises(isobit.ArgumentError, match=f"^{name}: {zero_point} is 8 at position 0; want -8 to 7"):
        getattr(isobit, name)(**arguments | {zero_point: torch.full_like(arguments[zero_point], 8)})


def test_nothing_is_written_where_max_norm_comes_with_something_wrong():
    """max_norm writes the weight before the lookup, whose arguments are looked at before that."""
    for arguments in (
        {"input": torch.tensor([1, 2, 5])},
        {"offsets": torch.tensor([0, 9])},
        {"offsets": torch.tensor([[0, 2]])},
        {"per_sample_weights": torch.ones(3).double()},
        {"sparse": 1},
        {"scale_grad_by_freq": "no"},
        {"norm_type": float("nan")},
    ):
        weight = ROWS.clone()
        with pytest.raises((TypeError, ValueError)):
            isobit.embedding_bag(**(good("embedding_bag") | {"weight": weight} | arguments))
        assert torch.equal(weight, ROWS)
    weight = ROWS.clone()
    with pytest.raises(ValueError, match="embedding: input is 9 at position 1; want 0 to 4"):
        isobit.embedding(torch.tensor([1, 9]), weight, None, 1.0)
    assert torch.equal(weight, ROWS)
    isobit.embedding(torch.tensor([1]), weight, None, 1.0)
    assert weight[1].norm() <= 1 and torch.equal(weight[2:], ROWS[2:])


def test_out_is_not_written_where_max_norm_is_refused():
    """out and weight are both written: each is looked at before the other is."""
    apart = torch.ones(3).expand(6, 3)
    for error, message, arguments in (
        (TypeError, "^embedding: max_norm must be a number, not 'x'", {"max_norm": "x"}),
        (ValueError, "^embedding: max_norm is NaN; want a number", {"max_norm": float("nan")}),
        (TypeError, "^embedding: norm_type must be a number, not 'x'", {"norm_type": "x"}),
        (ValueError, "^embedding: norm_type is NaN; want a number", {"norm_type": float("nan")}),
        (
            ValueError,
            r"^embedding: weight has strides \[0, 1\] with which elements may overlap; max_norm writes it$",
            {"weight": apart},
        ),
    ):
        given = {"input": torch.tensor([1, 2]), "weight": torch.ones(6, 3), "max_norm": 1.0} | arguments
        out = torch.full((2, 3), 77.0)
        with pytest.raises(error, match=message):
            isobit.embedding(**given, out=out)
        assert (out == 77).all() and (given["weight"] == 1).all(), message


def test_the_last_extent_of_codes_is_looked_at():
    packed = isobit.quantize_per_tensor(X, 0.5, 0, -8, 7, torch.int4)
    assert isobit.dequantize_per_tensor(packed, 0.5, 0, -8, 7, torch.int4, last_dim=5).shape == (4, 5)
    for last in (-3, 0, 4, 7, 2**62):
        with pytest.raises(ValueError, match=f"last_dim is {last}; want 5 or 6, two codes to a byte"):
            isobit.dequantize_per_tensor(packed, 0.5, 0, -8, 7, torch.int4, last_dim=last)
    assert isobit.dequantize_per_tensor(CODES, 0.5, 0, -8, 7, torch.int8, last_dim=6).shape == (4, 6)
    with pytest.raises(TypeError, match="last_dim must be None or input's last extent"):
        isobit.dequantize_per_tensor(CODES, 0.5, 0, -8, 7, torch.int8, last_dim=5)


@pytest.mark.parametrize("kept", (torch.int8, torch.int16, torch.uint8, torch.float32, torch.float64))
def test_codes_have_the_dtype_that_is_named(kept):
    """Of types that differ in width alone, in sign alone and in both."""
    codes, scale = X.to(kept), torch.tensor(0.5)
    raw = torch.ops.isobit.dequantize_per_tensor
    for named in (torch.int8, torch.int16, torch.uint8, torch.uint16, torch.float32, torch.float64):
        if named == kept:
            continue
        for call in (
            lambda named=named: isobit.dequantize_per_tensor(codes, 0.5, None, 0, 7, named),
            lambda named=named: isobit.dequantize_per_tensor_backward(X, codes, scale, None, 0, 7, dtype=named),
            lambda named=named: raw(codes, scale, None, 0, 7, named),
        ):
            with pytest.raises(
                (TypeError, ValueError), match=rf"dequantize_per_tensor(_backward)?: \w+ .*{kept}|{named}"
            ):
                call()


LAYER = {
    **dict.fromkeys(("quant_min", "quant_max", "ch_axis"), INTS),
    **dict.fromkeys(("channels", "group_size"), INTS[1:]),
    **dict.fromkeys(("block_size", "shape"), LISTS[1:]),
    **dict.fromkeys(("learn_scale", "learn_zero_point"), BOOLS),
    **dict.fromkeys(("start", "rounding"), (None, 1, b"lsq", torch.int8, torch.ones(2))),
    "eps": FLOATS,
}


@pytest.mark.parametrize("argument", LAYER)
def test_wrong_kinds_for_a_fake_quantizer(argument):
    for value in LAYER[argument]:
        with pytest.raises((TypeError, ValueError)) as raised:
            isobit.nn.LearnableFakeQuantize(**{argument: value})
        assert re.match(rf"LearnableFakeQuantize: {argument} .*(must be|want)", str(raised.value)), (
            value,
            raised.value,
        )
    with pytest.raises(ValueError, match="channels is 0; want at least 1"):
        isobit.nn.LearnableFakeQuantize(channels=0)
