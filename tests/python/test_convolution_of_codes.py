"""Convolutions of a few channels at a time, by torch's of floats: the integers are exact, and so the bits are those of
products of patches."""

import pytest
import torch
from convolutions import INT8, KINDS, WHOLE, configured, layer_of
from isobit.nn import FakeQuantizedConv2d, convert
from isobit.nn import _convolution as ways
from isobit.nn._convolution_of_codes import Codes, convolution_of_codes, is_quick
from isobit.nn._window import Window
from kit import FLOATS, NAMES, assert_same, draw

POINT = Window((1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 2)


@pytest.fixture
def by_patches(monkeypatch):
    """What integer_convolution gives without the other way."""

    def call(*args):
        with monkeypatch.context() as patch:
            patch.setattr(ways, "is_quick", lambda *_: False)
            return ways.integer_convolution(*args)

    return call


def codes_of(shape, kind, seed=0):
    if kind == "least":
        return torch.full(shape, -128, dtype=torch.int8)
    ends = torch.tensor([-128, 127], dtype=torch.int8)
    generator = torch.Generator().manual_seed(seed)
    if kind == "ends":
        return ends[torch.randint(2, shape, generator=generator)]
    return torch.randint(-128, 128, shape, dtype=torch.int8, generator=generator)


@pytest.mark.parametrize("kind", ("least", "ends", "any"))
@pytest.mark.parametrize("batch", (1, 16))
@pytest.mark.parametrize("lies", (torch.contiguous_format, torch.channels_last), ids=str)
@pytest.mark.parametrize("channels, kernel", ((16, 8), (16, 3), (1, 3), (1, 32)))
def test_the_largest_sums_are_exact(kind, batch, lies, channels, kernel, by_patches):
    x = codes_of((batch, 2 * channels, 33, 34), kind).contiguous(memory_format=lies)
    codes = codes_of((6, channels * kernel**2), kind, 1)
    window = POINT._replace(kernel=(kernel, kernel), padding=(1, 2, 3, 0))
    one = torch.ones(1)
    given = Codes(x, one), Codes(codes, one)
    assert is_quick(*given, window)
    y = convolution_of_codes(*given, None, window, torch.float32)
    weight = codes.reshape(6, kernel, kernel, channels).movedim(-1, 1)
    padded = torch.nn.functional.pad(x.double(), window.padding)
    assert_same(y.double(), torch.nn.functional.conv2d(padded, weight.double(), groups=2) + 0.0)
    assert_same(y, by_patches(*given, None, window, torch.float32))
    if kind == "least" and channels * kernel**2 == 1024:
        assert y.max() == 1 << 24


def test_no_more_than_what_is_exact():
    one, zero = torch.ones(1), torch.tensor([-128])
    x, byte = Codes(codes_of((1, 2, 1, 1), "any"), one), Codes(torch.zeros(1, 2, 1, 1, dtype=torch.uint8), one)
    assert not is_quick(Codes(x.codes.to("meta"), one), Codes(codes_of((2, 9), "any"), one), POINT)
    for input, zero_point, most in ((x, None, 1024), (byte, None, 514), (x._replace(zero_point=zero), zero, 258)):
        for columns in (most, most + 1):
            weight = Codes(codes_of((2, columns), "any"), one, zero_point)
            assert is_quick(input, weight, POINT._replace(kernel=(1, columns))) == (columns == most)


@pytest.mark.parametrize("dtype", FLOATS, ids=NAMES.get)
@pytest.mark.parametrize("scales", (1, 8))
@pytest.mark.parametrize("bias", (False, True))
@pytest.mark.parametrize("dims", KINDS)
def test_each_step_rounds_as_in_products_of_patches(dims, bias, scales, dtype, by_patches):
    """Scales below 0 make a -0 of a sum of 0."""
    window = Window((3, 2, 1)[:dims], (2, 1, 1)[:dims], (0, 1, 2, 0, 1, 1)[: 2 * dims], (1, 2, 1)[:dims], 4)
    x, codes = codes_of((5, 4, 9, 8, 3)[: 2 + dims], "any"), codes_of((8, 6 if dims > 1 else 3), "any", 1)
    x[0], codes[3] = 0, 0
    x_scale, scale = torch.tensor([0.03]), draw(scales, spread=0.01)
    values = draw(8, dtype=dtype) if bias else None
    for images in (x, x[:1], x[:0], x.transpose(0, -1).contiguous().transpose(0, -1)):
        for zeros in ((None, None), (torch.tensor([-9]), None), (torch.tensor([127]), torch.arange(-128, 128, 32))):
            by = Codes(images, x_scale, zeros[0]), Codes(codes, scale, zeros[1])
            assert_same(ways.integer_convolution(*by, values, window, dtype), by_patches(*by, values, window, dtype))


@pytest.mark.parametrize("piece", (1, 1 << 12, 1 << 20))
@pytest.mark.parametrize("shape", ("each channel", "groups", "line, groups", "volume, circular"))
def test_pieces_change_no_bit(shape, piece, monkeypatch):
    layer, x = layer_of(shape)
    layer(x)
    served = convert(layer)
    want = served(x)
    monkeypatch.setattr("isobit.nn._convolution_of_codes._CACHE", 0)
    monkeypatch.setattr("isobit.nn._convolution_of_codes._PIECE", piece)
    assert_same(served(x), want)


def test_what_torch_is_told_of_onednn_changes_no_bit():
    layer = FakeQuantizedConv2d(
        16,
        16,
        3,
        padding=1,
        groups=16,
        activation_fake_quantizer=configured(**WHOLE, is_dynamic=False),
        weight_fake_quantizer=configured(**INT8),
    )
    x = draw(16, 16, 12, 12)  # of so many images torch's own way may be another
    layer(x)
    served = convert(layer)
    want = served(x)
    with torch.backends.mkldnn.flags(enabled=False):
        assert_same(served(x), want)
    precision = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        assert_same(served(x), want)
    finally:
        torch.set_float32_matmul_precision(precision)


@pytest.mark.parametrize("dtype", (torch.float64, torch.bfloat16), ids=NAMES.get)
def test_what_new_tensors_are_by_default_changes_no_bit(dtype):
    one, zero = torch.ones(1), torch.tensor([3], dtype=torch.int32)
    x, weight = (Codes(codes_of(shape, "any"), one, zero) for shape in ((2, 2, 9, 8), (4, 9)))
    given = x, weight, None, POINT._replace(kernel=(3, 3)), torch.float32
    want = convolution_of_codes(*given)
    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(dtype)
        assert_same(convolution_of_codes(*given), want)
        with torch.device("meta"):
            assert_same(convolution_of_codes(*given), want)
    finally:
        torch.set_default_dtype(before)


def test_compiled_it_is_one_node():
    layer, x = layer_of("each channel")
    layer(x)
    served, names = convert(layer), []

    def look(graph, inputs):
        names.extend(str(n.target) for n in graph.graph.nodes)
        return graph

    assert_same(torch.compile(served, fullgraph=True, backend=look)(x), served(x))
    assert "isobit.convolution_of_codes.default" in names
    program = torch.export.export(served, (x,))
    assert "isobit.convolution_of_codes.default" in [str(n.target) for n in program.graph.nodes]
    assert_same(program.module()(x), served(x))


@pytest.mark.parametrize("dims", KINDS)
def test_the_op_is_torchs_kind(dims):
    window = Window((2,) * dims, (1,) * dims, (1, 0) * dims, (1,) * dims, 2)
    x, codes = codes_of((3, 4, 7, 6, 5)[: 2 + dims], "any"), codes_of((4, 2 * 2**dims), "any", 1)
    zeros = torch.tensor([3]), torch.arange(4)
    given = (
        x,
        torch.ones(1),
        zeros[0],
        codes,
        torch.ones(4),
        zeros[1],
        draw(4),
        *map(list, window[:4]),
        2,
        torch.bfloat16,
    )
    torch.library.opcheck(torch.ops.isobit.convolution_of_codes.default, given)
