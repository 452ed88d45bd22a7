"""Each bad input gets its sentence, and nothing is written."""

import pickle

import isobit
import pytest
import torch
from kit import draw

S, Z = torch.full((4,), 0.5), torch.zeros(4, dtype=torch.int32)
X = draw(4, 6)


def quantize(x=X, s=S, z=Z, axis=0, low=-128, high=127, dtype=torch.int8, **keywords):
    return isobit.quantize_per_channel(x, s, z, axis, low, high, dtype, **keywords)


BAD = {
    "axis": (ValueError, ": axis is 2; want -2 to 1", lambda: quantize(axis=2)),
    "axis, as torch's dimensions": (IndexError, ": axis is -3; want -2 to 1", lambda: quantize(axis=-3)),
    "scale's length": (ValueError, ": scales has shape", lambda: quantize(s=S[:3])),
    "zero point's length": (ValueError, ": zero_points has shape", lambda: quantize(z=Z[:3])),
    "range": (ValueError, ": quant_min is 5, above quant_max", lambda: quantize(low=5, high=-5)),
    "range beyond the type": (ValueError, ": quant_max is 128; torch.int8 ends at 127", lambda: quantize(high=128)),
    "zero point beyond the range": (ValueError, ": zero_points is 200 at position 0", lambda: quantize(z=Z + 200)),
    "integer input": (ValueError, ": input is torch.int32; want one of torch.float32,", lambda: quantize(x=X.int())),
    "integer scale": (ValueError, ": scales is torch.int32; want", lambda: quantize(s=S.int())),
    "complex input": (TypeError, ": input is torch.complex64", lambda: quantize(x=X.to(torch.complex64))),
    "chosen range beyond the type": (
        ValueError,
        ": quant_max is 128; torch.int8 ends at 127",
        lambda: isobit.choose_qparams_per_tensor(X, quant_max=128),
    ),
    "chosen range below the type": (
        ValueError,
        ": quant_min is -129; torch.int8 starts at -128",
        lambda: isobit.choose_qparams_per_tensor(X, quant_min=-129),
    ),
    "no code above 0 to choose a symmetric scale for": (
        ValueError,
        "choose_qparams_per_tensor: quant_max is 0; want at least 1 with symmetric=True: ",
        lambda: isobit.choose_qparams_per_tensor(X, quant_max=0),
    ),
    "one code": (
        ValueError,
        "quantize_per_token_dynamic: quant_max is 3, and so is quant_min; want more with symmetric=False",
        lambda: isobit.quantize_per_token_dynamic(X, symmetric=False, quant_min=3, quant_max=3),
    ),
    "scales below 0": (
        ValueError,
        "choose_qparams_per_tensor: eps is -1; want at least 0, and finite in torch.float32",
        lambda: isobit.choose_qparams_per_tensor(X, eps=-1),
    ),
    "int64 codes": (ValueError, ": dtype is torch.int64; want", lambda: quantize(dtype=torch.int64)),
    "bool codes": (TypeError, "dtype", lambda: quantize(dtype=torch.bool)),
    "codes of no dtype": ((TypeError, RuntimeError), "dtype", lambda: quantize(dtype="int8")),
    "rounding": (ValueError, ": rounding is .up.; want", lambda: quantize(rounding="up")),
    "not a tensor": (TypeError, "input must be a Tensor, not list", lambda: quantize(x=[1.0])),
    "scale of None": ((TypeError, RuntimeError), "scales must be a Tensor", lambda: quantize(s=None)),
    "too many dimensions": (
        ValueError,
        ": input has 9 dimensions; want at most 8",
        lambda: quantize(x=X.reshape(4, 6, *[1] * 7)),
    ),
    "meta beside cpu": (
        RuntimeError,
        "scales is on meta; want cpu, where input is",
        lambda: quantize(s=S.to("meta")),
    ),
    "meta beside cpu, with out": (
        RuntimeError,
        "scales is on meta; want cpu, where input is",
        lambda: quantize(s=S.to("meta"), out=torch.empty(4, 6, dtype=torch.int8)),
    ),
    "sparse input": (
        (RuntimeError, TypeError, ValueError, NotImplementedError),
        "[Ss]parse",
        lambda: quantize(x=X.to_sparse()),
    ),
    "dtype of codes": (
        ValueError,
        ": dtype is torch.uint8; want torch.int8, that of input",
        lambda: isobit.dequantize_per_tensor(X.to(torch.int8), 1.0, 0, 0, 1, torch.uint8),
    ),
    "out's shape": (ValueError, ": out has shape", lambda: quantize(out=torch.empty(4, 5, dtype=torch.int8))),
    "out's dtype": (
        ValueError,
        ": out is torch.int32; want",
        lambda: quantize(out=torch.empty(4, 6, dtype=torch.int32)),
    ),
    "out that overlaps itself": (
        ValueError,
        ": out has strides",
        lambda: quantize(out=torch.empty(1, 6, dtype=torch.int8).expand(4, 6)),
    ),
    "index too large": (
        ValueError,
        ": input is 13 at position 1",
        lambda: isobit.embedding(torch.tensor([[1, 13]]), draw(13, 2)),
    ),
    "index negative": (
        ValueError,
        ": input is -1 at position 0",
        lambda: isobit.embedding(torch.tensor([-1]), draw(13, 2)),
    ),
    "index float": (
        ValueError,
        ": input is torch.float32; want one of torch.int32, torch.int64",
        lambda: isobit.embedding(torch.tensor([1.0]), draw(13, 2)),
    ),
    "padding_idx": (
        ValueError,
        ": padding_idx is 13; want",
        lambda: isobit.embedding(torch.tensor([1]), draw(13, 2), 13),
    ),
    "embedding of one dimension": (
        ValueError,
        ": weight has shape",
        lambda: isobit.embedding(torch.tensor([1]), draw(13)),
    ),
    "mode": (
        ValueError,
        ": mode is .linear.; want",
        lambda: isobit.grid_sample(draw(1, 1, 2, 2), draw(1, 2, 2, 2), "linear"),
    ),
    "a volume with an image's grid": (
        ValueError,
        ": grid has shape .*; want 5 dimensions, the first 1, the last 3",
        lambda: isobit.grid_sample(draw(1, 1, 2, 2, 2), draw(1, 2, 2, 2), "bicubic"),
    ),
    "grid's last extent": (
        ValueError,
        ": grid has shape",
        lambda: isobit.grid_sample(draw(1, 1, 2, 2), draw(1, 2, 2, 3)),
    ),
    "grid's batch": (ValueError, ": grid has shape", lambda: isobit.grid_sample(draw(1, 1, 2, 2), draw(2, 2, 2, 2))),
    "grid's dtype": (
        ValueError,
        ": grid is torch.float16",
        lambda: isobit.grid_sample(draw(1, 1, 2, 2), draw(1, 2, 2, 2).half()),
    ),
    "theta's shape": (ValueError, ": theta has shape", lambda: isobit.affine_grid(draw(1, 3, 3), [1, 1, 2, 2])),
    "size": (NotImplementedError, ": size is ", lambda: isobit.affine_grid(draw(1, 2, 3), [1, 2, 2])),
    "linear's extents": (ValueError, "last extent", lambda: isobit.quantized_linear(draw(2, 3), draw(4, 5))),
    "linear's bias": (ValueError, ": bias has shape", lambda: isobit.quantized_linear(draw(2, 3), draw(4, 3), draw(5))),
    "threads": (ValueError, "n is 0", lambda: isobit.set_num_threads(0)),
    "threads of another type": (TypeError, "n must be", lambda: isobit.set_num_threads(2.0)),
    "upstream gradient's shape": (
        ValueError,
        r": grad_output has shape \[3\]; want \[4, 6\], as input has",
        lambda: isobit.quantize_per_channel_backward(draw(3), X, S, Z, 0, -8, 7),
    ),
    "upstream gradient of no dimensions": (
        ValueError,
        r": grad_output has shape \[\]; want \[4, 6\], as input has",
        lambda: isobit.dequantize_per_channel_backward(torch.tensor(1.0), X.to(torch.int8), S, Z, 0, -8, 7),
    ),
    "indices of 8 dimensions": (
        ValueError,
        "^embedding: input has 8 dimensions; want at most 7",
        lambda: isobit.embedding(torch.zeros([1] * 8, dtype=torch.int64), X),
    ),
    "max_norm of embedding": (
        TypeError,
        "^embedding: max_norm must be a number, not 'x'",
        lambda: isobit.embedding(torch.tensor([0]), X, None, "x"),
    ),
    "max_norm of embedding_bag": (
        TypeError,
        "^embedding_bag: max_norm must be a number, not 'x'",
        lambda: isobit.embedding_bag(torch.tensor([[0]]), X, None, "x"),
    ),
    "codes that are one number": (
        ValueError,
        r"^quantized_linear_codes: input has shape \[\]; want \[..., K\]",
        lambda: isobit.quantized_linear_codes(X.to(torch.int8)[0, 0], S[0], X.to(torch.int8), S),
    ),
    "sparse scale of codes": (
        TypeError,
        "^quantized_linear_codes: weight_scale is a sparse",
        lambda: isobit.quantized_linear_codes(X.to(torch.int8), S, X.to(torch.int8), S[:, None].to_sparse()),
    ),
    "a word that is no word": (
        ValueError,
        "^quantize_per_tensor: rounding is 'nearest device=cpu'; want one of nearest, reciprocal",
        lambda: isobit.quantize_per_tensor(X, 0.1, 0, -8, 7, torch.int8, rounding="nearest device=cpu"),
    ),
    "dynamic dtype": (
        ValueError,
        ": dtype is torch.int32; want",
        lambda: isobit.quantize_per_token_dynamic(X, torch.int32),
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    kind, words, call = BAD[case]
    with pytest.raises(kind, match=words) as raised:
        call()
    if isinstance(raised.value, ValueError):  # and code that catches torch's error catches it, too
        assert isinstance(raised.value, isobit.ArgumentError)
        assert isinstance(raised.value, RuntimeError)


def test_an_error_gets_from_process_to_process():
    with pytest.raises(isobit.ArgumentError, match="axis is 2") as raised:
        quantize(axis=2)
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is type(raised.value)
    assert str(again) == str(raised.value)


@pytest.mark.parametrize(
    ("words", "bad"),
    (
        (": axis is 2; want -2 to 1", {"axis": 2}),
        (": quant_min is 5, above quant_max", {"low": 5, "high": -5}),
        (": quant_max is 128; torch.int8 ends at 127", {"high": 128}),
        (": input is torch.int32; want one of torch.float32,", {"x": X.int()}),
        (": dtype is torch.int64; want", {"dtype": torch.int64}),
        (": rounding is .up.; want one of", {"rounding": "up"}),
        ("argument .*quant_max.* instead found type .*str", {"high": "7"}),
        ("scales must be a Tensor or a number, not NoneType", {"s": None}),
        ("input must be a Tensor, not list", {"x": [1.0], "s": 0.1}),
    ),
)
def test_compiled_bad_input_has_the_words_of_the_call(words, bad):
    """Compiled code does not trace what explains errors, which Dynamo cannot: it hears of them from the fake op."""
    compiled = torch.compile(lambda: quantize(**bad), backend="eager", fullgraph=True)
    if bad.get("x").__class__ is list and torch.__version__ < "2.9":
        words = "raised exception ExceptionVariable.*TypeError"  # whose words Dynamo of 2.8 leaves out
    # Dynamo hands an IndexError on as it is.
    errors = (torch._dynamo.exc.TorchRuntimeError, torch._dynamo.exc.Unsupported, IndexError)
    with pytest.raises(errors, match=words) as raised:
        compiled()
    assert "_C" not in str(raised.value).replace("torch._C", "")


def test_nothing_is_written():
    out = torch.full((4, 6), 77, dtype=torch.int8)
    for bad in ({"axis": 5}, {"s": S[:2]}, {"z": Z + 200}, {"rounding": "up"}):
        with pytest.raises(ValueError):
            quantize(out=out, **bad)
    assert (out == 77).all()
    weight, y = draw(5, 3), torch.full((2, 3), 7.0)
    plan = isobit.Plan("embedding weight=f32[5,3] indices=i64[2]")
    with pytest.raises(ValueError, match=r"position 1|\[1\]"):
        plan.run(weight, torch.tensor([0, 9]), y)
    assert (y == 7).all()


def test_words_that_are_no_arguments_stay():
    float8 = torch.float8_e4m3fn
    with pytest.raises(ValueError, match=r"zero_points is .* codes have a scale only: want none$"):
        torch.ops.isobit.quantize_per_channel(torch.zeros(3, 4), torch.ones(3), torch.ones(3), 0, -127, 127, float8)


def test_types_that_ops_of_torch_refuse():
    """What is called by torch.ops comes with types that isobit's functions refuse before."""
    x, ops = torch.ones(3, 3), torch.ops.isobit
    for words, call in (
        ("quantize_per_tensor: input is %s, which isobit does not know", lambda z: ops.quantize_per_tensor(z, x[0, 0], None, -8, 7, torch.int8)),
        ("matmul: other is %s, which isobit does not know", lambda z: ops.matmul(x, z, None)),
        ("matmul: input is %s, which isobit does not compute with", lambda z: ops.matmul(z, x, None)),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=f"^{words % 'torch.complex64'}$"):
            call(x.cfloat())


def test_only_names_are_renamed():
    """Words of a message that are called as an argument or a type is, and texts of the caller, stay as they are."""
    op = isobit._op.OPS["quantize_per_channel"]

    def raises(*args):
        raise NotImplementedError('\1quantize_per_channel\1: \1scale\1 is \1f32\1[2, 3], a scale of q, and "x" is f32')

    with pytest.raises(NotImplementedError) as raised:
        op._renaming(raises, (X,))
    assert str(raised.value) == 'quantize_per_channel: scales is torch.float32[2, 3], a scale of q, and "x" is f32'
    with pytest.raises(ValueError) as raised:
        op.checked_run(X, S, Z, 0, -128, 127, torch.int8, "scale")
    assert str(raised.value).startswith('quantize_per_channel: rounding is "scale"; want ')


def test_more_threads_than_there_may_be():
    x, before = torch.zeros(1 << 14), torch.get_num_threads()
    torch.set_num_threads(2000)
    try:
        with pytest.raises(ValueError, match=r"^isobit: torch\.get_num_threads\(\) is 2000; want 1 to 1024, or isobit"):
            isobit.quantize_per_tensor(x, 1.0, 0, -8, 7, torch.int8)
    finally:
        torch.set_num_threads(before)


def test_an_op_that_is_unknown():
    with pytest.raises(ValueError, match=r'^op "relu" is not known; want an op of OPS\.md or isobit\.support\(\)'):
        isobit.Plan("relu x=f32[2]")


def test_a_view_that_needs_resolving():
    """The imaginary part of a conjugated tensor is a negative view: its bytes have the other sign."""
    z = torch.view_as_complex(draw(4, 6, 2))
    x = z.conj().imag
    dense = torch._neg_view(z.imag.contiguous())
    want = isobit.fake_quantize_per_channel_affine(-z.imag, S, Z, 0, -128, 127)
    for view in (x, dense, x.as_strided((4, 6), (6, 1)).as_strided(x.shape, x.stride())):
        assert view.is_neg()
        assert torch.equal(isobit.fake_quantize_per_channel_affine(view, S, Z, 0, -128, 127), want)
    for name, view in (("f32", x), ("bf16", torch._neg_view(draw(4, 6, dtype=torch.bfloat16)))):
        plan = isobit.Plan(f"quantize_per_tensor x={name}[4,6] zero_point=none q=s8 qmin=-8 qmax=7")
        with pytest.raises(ValueError, match="resolve_neg"):
            plan.run(view, torch.tensor(1.0), None, torch.empty(4, 6, dtype=torch.int8))


def test_out_with_a_gradient():
    x = X.clone().requires_grad_()
    out = torch.empty_like(X)
    with pytest.raises(RuntimeError, match="out="):
        isobit.fake_quantize_per_channel_affine(x, S, Z, 0, -8, 7, out=out)
    with torch.no_grad():
        assert isobit.fake_quantize_per_channel_affine(x, S, Z, 0, -8, 7, out=out) is out


def test_out_that_overlaps_an_input():
    x = X.clone()
    with pytest.raises(ValueError, match="overlap"):
        isobit.quantize_per_tensor(x[:3], 1.0, 0, -8, 7, torch.float32, out=x[1:])
    assert torch.equal(x, X)
