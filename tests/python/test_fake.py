"""Calls of tensors without memory: on meta, fake ones, and what torch.export and torch.compile trace. What is wrong
with them is said as it is of real ones, in the same words, before anything runs."""

from functools import partial

import isobit
import pytest
import torch
from kit import assert_same
from test_arguments import CASES, good
from test_errors import BAD
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._pytree import tree_map_only

DTYPES = (torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.complex64, torch.bool)  # fmt: skip
# What is said of values and of memory, which nobody knows of a tensor that has none, or of one on meta beside others.
UNKNOWN = ("at position", "on meta", "elements may overlap", "8-bit float codes", "as_strided", "allocate memory")


def outcome(f, *args, **keywords):
    """What a call raises, or the shapes and types that it answers."""
    try:
        with torch.no_grad():
            y = f(*args, **keywords)
    except Exception as error:
        return type(error), str(error)
    return tree_map_only(torch.Tensor, lambda t: (t.shape, t.dtype, t.is_contiguous()), y)


def on_meta(f, *args, **keywords):
    args, keywords = tree_map_only(torch.Tensor, lambda t: t.to("meta"), (args, keywords))
    return outcome(f, *args, **keywords)


FAKE = FakeTensorMode()


def faked(f, *args, **keywords):
    args, keywords = tree_map_only(torch.Tensor, FAKE.from_tensor, (args, keywords))
    with FAKE:
        return outcome(f, *args, **keywords)


def others(name, value):
    """Wrong values of the right kind, and some right ones."""
    if isinstance(value, torch.Tensor):
        for d in range(value.dim()):
            yield from (
                value.narrow(d, 0, 0),
                value.narrow(d, 0, 1).clone(),
                value.select(d, 0),
                torch.cat([value] * 2, d),
            )
        yield from (value[None], value[..., None])
        yield from (value.to(dtype) for dtype in DTYPES)
    elif isinstance(value, (list, tuple)) and name != "output_mask":
        yield from ([], value[:-1], [*value, 1], [-1, *value[1:]], [0, *value[1:]], [5, *value[1:]])
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from (-9, -1, 0, 1, 2, 5, 300, 2**40)
    elif isinstance(value, str):
        yield from ("max", "nearest", "no such word")
    elif isinstance(value, torch.dtype):
        yield from (
            torch.int8,
            torch.uint8,
            torch.int4,
            torch.float32,
            torch.float8_e4m3fn,
            torch.int16,
            torch.int32,
            torch.int64,
        )
    yield None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "argument"), [c for c in CASES if not c[0].startswith("set_")], ids=lambda v: v)
def test_what_is_wrong_is_said_of_tensors_without_memory(name, argument):
    f, usual = getattr(isobit, name), good(name)
    for value in others(argument, usual[argument]):
        arguments = usual | {argument: value}
        if argument != "out" and "out" in arguments:
            arguments["out"] = None
        real = outcome(f, **arguments)
        if any(words in str(real) for words in UNKNOWN):
            continue
        for way in (on_meta, faked):
            assert way(f, **arguments) == real, (argument, getattr(value, "shape", value), getattr(value, "dtype", ""))


@pytest.mark.parametrize("case", BAD)
def test_bad_input_without_memory(case, monkeypatch):
    real = outcome(BAD[case][2])
    if any(words in str(real) for words in UNKNOWN):
        pytest.skip("of values or memory")
    names = {name for name, _ in CASES}
    for way in (on_meta, faked):

        def raising(f, *args, way=way, **keywords):
            kind, text = way(f, *args, **keywords)
            raise kind(text)

        with monkeypatch.context() as patch:
            for name in names:
                patch.setattr(isobit, name, partial(raising, getattr(isobit, name)))
            assert outcome(BAD[case][2]) == real


class Layers(torch.nn.Module):
    """A few ops whose shapes follow from those of others."""

    def forward(self, x, scale, weight):
        y = isobit.fake_quantize_per_channel_affine(x, scale, None, 1, -8, 7)
        codes, s, z = isobit.quantize_per_channel_group_dynamic(y, 4)
        y = isobit.dequantize_per_channel_group(codes, s, z, -8, 7, torch.int8, 4)
        return isobit.linear(y, weight), isobit.quantized_linear(y, weight)


def test_shapes_that_are_symbols_get_no_guards():
    """What is checked of numbers is not asked of symbols: a graph for every number of rows stays one."""
    given = torch.ones(5, 8), torch.ones(8), torch.ones(3, 8)
    rows = torch.export.Dim("rows")
    program = torch.export.export(Layers(), given, dynamic_shapes=({0: rows}, None, None))
    (bounds,) = program.range_constraints.values()
    assert bounds.lower <= 2 and bounds.upper > 2**40
    for n in (1, 2, 7):
        x = torch.linspace(-3, 3, 8 * n).view(n, 8)
        assert_same(program.module()(x, *given[1:]), Layers()(x, *given[1:]))
    with pytest.raises(ValueError, match=r"scale has shape \[7\]; want \[8\]"):
        torch.export.export(Layers(), (given[0], torch.ones(7), given[2]))
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match=r"scale has shape \[7\]; want \[8\]"):
        torch.compile(Layers(), backend="eager", fullgraph=True)(given[0], torch.ones(7), given[2])


def test_a_compiled_gradient_wants_what_it_is_computed_from_detached():
    def gradient(dy, x):
        return isobit.fake_quantize_per_tensor_affine_backward(dy, x, 0.5, None, -8, 7)[0]

    x, compiled = torch.tensor([1.0, 9.0], requires_grad=True), torch.compile(gradient, backend="aot_eager")
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="no second derivative.* is detached"):
        compiled(x, x)
    assert_same(compiled(x.detach(), x.detach()), torch.tensor([1.0, 0.0]))


@pytest.mark.parametrize("bags", (False, True))
def test_a_padding_row_from_the_end_goes_with_a_number_of_rows_that_is_a_symbol(bags):
    class Table(torch.nn.Module):
        def forward(self, weight, indices):
            if bags:
                return isobit.embedding_bag(indices, weight, padding_idx=-1, mode="sum")
            return isobit.embedding(indices, weight, padding_idx=-1)

    shapes, indices = ({0: torch.export.Dim("rows")}, None), torch.tensor([[4, 0], [4, 6]])
    program = torch.export.export(Table(), (torch.ones(9, 3), indices), dynamic_shapes=shapes)
    compiled = torch.compile(Table(), backend="aot_eager", fullgraph=True, dynamic=True)
    for rows in (7, 8):
        weight = torch.arange(3.0 * rows).view(rows, 3).requires_grad_()
        want = Table()(weight, indices)
        assert_same(program.module()(weight, indices).detach(), want.detach())
        assert_same(*(torch.autograd.grad(y.sum(), weight) for y in (compiled(weight, indices), want)))


@pytest.mark.parametrize(
    ("call", "good", "bad", "words"),
    (
        (isobit.choose_qparams_per_channel, 1, 2, "choose_qparams_per_channel: axis is 2; want -2 to 1 for shape"),
        (isobit.choose_qparams_per_channel_group, 2, 0, "choose_qparams_per_channel_group: group_size is 0; want at"),
        (lambda x, b: isobit.choose_qparams_per_block(x, [b]), None, 2, "block_size is .2.; want one extent"),
    ),
)
def test_what_symbols_have_no_outputs_for_is_said(call, good, bad, words):
    """An axis or an extent of a block that is a symbol failed as Python does, by an index or a division."""
    x = torch.ones(4, 6)
    compiled = torch.compile(call, backend="eager", fullgraph=True, dynamic=True)
    if good is not None:
        assert_same(compiled(x, good), call(x, good))
    with pytest.raises((torch._dynamo.exc.TorchRuntimeError, IndexError), match=words):
        compiled(x, bad)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float8_e5m2, torch.int4))
def test_a_dtype_is_an_argument_of_what_is_compiled(dtype):
    """The itemsize of a dtype that comes with a call is a symbol where everything may be one."""
    x, scale = torch.ones(4, 6, requires_grad=True), torch.full((4,), 0.5)
    compiled = torch.compile(isobit.quantize_per_channel, backend="eager", fullgraph=True, dynamic=True)
    q = compiled(x, scale, None, 0, -8, 7, dtype)
    assert_same(q.detach(), isobit.quantize_per_channel(x.detach(), scale, None, 0, -8, 7, dtype))
    assert q.requires_grad == (dtype == torch.float32)


def test_zero_points_of_float8_are_known():
    """Traced code cannot look whether integers are all 0, so it takes None alone."""
    with FakeTensorMode():
        x, scale, zero = torch.ones(4, 6), torch.ones(4), torch.zeros(4, dtype=torch.int32)
        at = (0, -448, 448, torch.float8_e4m3fn)
        with pytest.raises(ValueError, match="8-bit float codes have a scale only; want zero_points=None"):
            isobit.quantize_per_channel(x, scale, zero, *at)
        assert isobit.quantize_per_channel(x, scale, None, *at).shape == (4, 6)


@pytest.mark.parametrize("rows", ((5,), (2, 5), (1,)))
def test_the_gradients_of_linear_lie_as_torchs(rows):
    """With values and without: a compiled program goes by the strides that it was traced with."""

    def strides(linear):
        tensors = [torch.ones(*shape, requires_grad=True) for shape in ((*rows, 7), (3, 7), (3,))]
        return [g.stride() for g in torch.autograd.grad(linear(*tensors).square().sum(), tensors)]

    want = strides(torch.nn.functional.linear)
    assert strides(isobit.linear) == want
    with FakeTensorMode():
        assert strides(isobit.linear) == want


# FakeTensorMode with and without symbols: those of torch.export, and of who estimates what a program takes.
WITHOUT_VALUES = {
    "meta": lambda: torch.device("meta"),
    "fake": FakeTensorMode,
    "symbols": lambda: FakeTensorMode(shape_env=ShapeEnv()),
}


@pytest.mark.parametrize("padding", (None, 1))
@pytest.mark.parametrize("mode", WITHOUT_VALUES.values(), ids=WITHOUT_VALUES)
def test_sparse_gradients_without_values(mode, padding):
    """How many rows differ nobody knows there: the gradient has its layout, shape and type."""
    with mode():
        indices = torch.zeros(4, dtype=torch.int64)
        offsets = indices[:2]
        for f in (
            lambda w: isobit.embedding(indices, w, padding, sparse=True),
            lambda w: isobit.embedding_bag(indices.view(2, 2), w, padding_idx=padding, sparse=True),
            lambda w: isobit.embedding_bag(
                indices, w, offsets, padding_idx=padding, sparse=True, include_last_offset=True
            ),
        ):
            weight = torch.ones(5, 3, requires_grad=True)
            f(weight).sum().backward()
            dw = weight.grad
            assert (dw.layout, dw.shape, dw.dtype, dw.device) == (
                torch.sparse_coo,
                (5, 3),
                torch.float32,
                weight.device,
            )


@pytest.mark.skipif(torch.__version__ < "2.12", reason="make_fx then asks whether one row was found")
def test_sparse_gradients_are_recorded_with_their_rows():
    """A program that make_fx records from fake tensors counts the rows of the indices it is run with."""

    def gradient(weight, indices):
        return torch.autograd.grad(isobit.embedding(indices, weight, 1, sparse=True).sum(), weight)[0]

    weight = torch.ones(5, 3, requires_grad=True)
    program = make_fx(gradient, tracing_mode="fake")(weight, torch.tensor([0, 1, 2, 3]))
    indices = torch.tensor([4, 1, 2, 4])
    dw = program(weight, indices)
    assert dw.is_coalesced() and dw.indices().tolist() == [[2, 4]]
    assert_same(dw.to_dense(), gradient(weight, indices).to_dense())
