"""Calls of the extension: signatures that do not fit it, what is kept from call to call, matrices that come transposed."""

import sys
from contextlib import nullcontext

import isobit
import numpy as np
import pytest
import torch
from isobit import _C

X = ("x", True, False, 0, *[False] * 5)
Y = ("y", False, 0, 0, -1, True, -1, ())
BAD = {
    "no inputs": ((), (), (Y,)),
    "more tensors than a call has room for": ((X,) * 12, (), (Y,)),
    "more attributes": ((X,), (("a", "i", False),) * 17, ()),
    "more words of a shape": ((X,), (), ((*Y[:-1], ((0, 0, 0, 0),) * 5),)),
    "a longer name": ((("x" * 63, *X[1:]),), (), ()),
}


@pytest.mark.parametrize("name", BAD)
def test_signatures_that_do_not_fit(name):
    with pytest.raises(ValueError, match="^define: "):
        _C.define("op", "op", *BAD[name])


@pytest.mark.parametrize("count", (0, 9))
def test_calls_that_do_not_fit(count):
    op = isobit._op.OPS["quantize_per_tensor"]
    for call in (op.run, op.fast, op.direct, op.transposed, op.infer):
        with pytest.raises(TypeError, match=f"^quantize_per_tensor: {count} arguments came; want 7 to 8"):
            call(*[torch.ones(2)] * count)


ROUND = (torch.ones(2, 3), 0.5, 0, -8, 7, torch.int8, "nearest")
BLOCKS = (torch.ones(2, 3), torch.ones(2, 3), None, [1, 1], -8, 7, torch.int8, "nearest")
RANGE = (torch.ones(2, 3), -8, 7, True, 0.0)


@pytest.mark.parametrize(
    ("name", "good", "at", "wanted", "bad"),
    (
        ("quantize_per_tensor", ROUND, 3, "qmin must be an int", ("1", True, None, 2.0, [1])),
        ("quantize_per_tensor", ROUND, 5, "dtype must be a torch.dtype that isobit knows", (torch.complex64, "f32", None)),
        ("quantize_per_tensor", ROUND, 6, "rounding must be a str", (3, None)),
        ("quantize_per_tensor", ROUND, 6, "rounding must be one of the words that it knows",
         ("", "Nearest", "nearest ", "near{st", "x" * 33, "nearest\0")),
        ("quantize_per_block", BLOCKS, 3, "block_size must be a short list of ints",
         ([1] * 9, "12", [1, "2"], [1, True], [None, 1], 3, None)),
        ("choose_qparams_per_tensor", RANGE, 3, "symmetric must be a bool", (1, "x", None)),
        ("choose_qparams_per_tensor", RANGE, 4, "eps must be a float", ("1", True, None, [1])),
    ),
)  # fmt: skip
def test_a_strict_call_says_what_it_wants(name, good, at, wanted, bad):
    """Of what torch's dispatcher, and Python before it, lets nobody ask: a fast one answers that it is not for it."""
    op = isobit._op.OPS[name]
    assert op.run(*good) is not None and op.fast(*good) is not NotImplemented
    for value in bad:
        call = (*good[:at], value, *good[at + 1 :])
        with pytest.raises(TypeError) as error:
            op.run(*call)
        assert str(error.value).replace("\1", "") == f"{name}: {wanted}, not {value!r}"  # marks are for names
        assert op.fast(*call) is NotImplemented
    with pytest.raises(OverflowError):
        isobit._op.OPS["quantize_per_tensor"].run(*ROUND[:3], 1 << 70, *ROUND[4:])


def test_eight_dimensions_and_words_of_every_length_are_taken():
    op = isobit._op.OPS["quantize_per_tensor"]
    for run in (op.run, op.fast):
        assert run(torch.ones((1,) * 8), *ROUND[1:]).shape == (1,) * 8
    with pytest.raises(ValueError, match='rounding.* is "[a-z_0]{32}"; want one of'):
        op.run(*ROUND[:-1], "a_0z" * 8)


def test_what_came_by_dlpack_is_given_back():
    """As tensors of torch before 2.10 come."""
    op, scale = isobit._op.OPS["quantize_per_tensor"], np.array(0.5, np.float32)
    held = sys.getrefcount(scale)
    for most in (7, 700):
        with nullcontext() if most == 7 else pytest.raises(ValueError, match="700"):
            assert op.run(torch.ones(3), scale, 0, -8, most, torch.int8, "nearest").tolist() == [2, 2, 2]
        assert sys.getrefcount(scale) == held


def test_outputs_after_others_of_other_shapes_and_types():
    """What the last output was allocated with is for its shape and its type alone."""
    for dtype in (torch.float32, torch.float64, torch.float32):
        for shape in ((2, 3), (3, 2), (2, 3), (6,), (2,), (2, 3), (), (2, 3)):
            x = torch.full(shape, 2.2, dtype=dtype)
            y = isobit.fake_quantize_per_tensor_affine(x, 1.0, 0, -8, 7)
            assert torch.equal(y, x.round()) and y.dtype == dtype


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float32, torch.float64))
def test_codes_that_are_floats_keep_their_type(dtype):
    codes = torch.tensor([3, -4], dtype=dtype)
    assert torch.equal(isobit.dequantize_per_tensor(codes, 0.5, 1, -8, 7, dtype), (codes - 1) / 2)


def test_a_matrix_that_comes_transposed():
    op, x, w = isobit._op.OPS["matmul"], torch.randn(3, 5), torch.randn(14, 10)
    for matrix in (w[:7, :5], w[::2, ::2], w.t()[:7, :5], w[:0, :5], w[:7, :1].expand(7, 5)):
        assert torch.equal(op.transposed(x, matrix, None), op.run(x, matrix.t(), None))
    assert torch.equal(op.transposed(x[:, :0], w[:7, :0], None), torch.zeros(3, 7))
    for other in (w, w[0, :5], w[None, :7, :5], w[:7, :5].double(), 3, None):
        assert op.transposed(x, other, None) is NotImplemented


@pytest.mark.parametrize("wanted", ((0,), (1,), (2,), (0, 1, 2)))
def test_gradients_of_a_matrix_that_comes_transposed(wanted):
    tensors = [torch.randn(3, 5), torch.randn(7, 5), torch.randn(7)]
    leaves = [tensors[i].requires_grad_() for i in wanted]
    y = isobit.linear(*tensors)
    assert y.grad_fn.name() == "isobit_linearBackward"
    x, w, b = tensors
    same = torch.autograd.grad(isobit.linear(x[None], w, b)[0], leaves, y)  # which has a step that transposes w
    for grad, t, other in zip(torch.autograd.grad(y, leaves, y), leaves, same, strict=True):
        assert torch.equal(grad, other) and grad.stride() == t.stride()


def test_what_records_belongs_to_an_op():
    for no_op, error in ((lambda: None, TypeError), (len, ValueError)):
        with pytest.raises(error):
            _C.set_function(no_op, no_op)


def test_what_autograd_raises_is_raised_once():
    """It is not taken for an argument that the direct call leaves to torch's dispatcher."""
    shown = []

    def refuse(t):
        shown.append(t)
        raise ArithmeticError

    x = torch.ones(2, 3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(refuse, refuse), pytest.raises(ArithmeticError):
        isobit.fake_quantize_per_tensor_affine(x, 0.5, 0, -8, 7)
    assert len(shown) == 1


def test_arguments_that_the_direct_call_leaves_to_others_are_differentiated():
    x = torch.ones(2, 3, requires_grad=True)
    for scale in (torch.full((1, 1), 0.5), torch.full((1, 1), 0.5, requires_grad=True)):
        isobit.fake_quantize_per_tensor_affine(x, scale, 0, -8, 7).sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2 and scale.grad.shape == (1, 1)
    with pytest.raises(ValueError, match=r"^fake_quantize_per_channel_affine: scale has shape \[2\]; want \[3\]"):
        isobit.fake_quantize_per_channel_affine(x, torch.ones(2), None, 1, -8, 7)


def test_what_runs_before_the_op_in_autograds_function_is_differentiated():
    """As finalizers do, and what Python calls for each function: they may call the op, too."""
    asked, busy = [], []

    def call(x):
        return isobit.fake_quantize_per_tensor_affine(x, 0.1, 0, -8, 7)

    def before(frame, event, arg):
        if event == "call" and not busy:
            busy.append(event)
            with torch.enable_grad():
                asked.append(call(torch.ones(3, requires_grad=True)).requires_grad)
            busy.clear()

    x = torch.ones(3, requires_grad=True)
    outer = sys.getprofile()
    sys.setprofile(before)
    try:
        y = call(x)
    finally:
        sys.setprofile(outer)
    assert y.requires_grad and len(asked) > 3 and all(asked)


@pytest.mark.parametrize("dtype", (torch.int8, torch.uint8, torch.int32, torch.uint4, torch.float8_e4m3fn))
def test_results_that_carry_no_gradient_ask_for_none(dtype):
    op = isobit._op.OPS["quantize_per_tensor"]
    x, scale = (torch.tensor(v, requires_grad=True) for v in ([1.0, 2.0], 0.5))
    rest = None, 0, 7, dtype, "nearest"
    for values in ((x, scale), (x, 0.5), (x.detach(), scale)):
        for call in (op.fast, op.direct):
            codes = call(*values, *rest)
            assert torch.equal(codes, op.run(x.detach(), 0.5, *rest)) and not codes.requires_grad
    half = *rest[:3], torch.float16, "nearest"
    assert op.fast(x, 0.5, *half) is op.fast(x.detach(), scale, *half) is NotImplemented
    with torch.no_grad():
        assert not op.fast(x, scale, *half).requires_grad


def test_no_gradient_reaches_what_parameters_are_chosen_by():
    x = torch.tensor([1.0, -3.0], requires_grad=True)
    for name, rest in (("choose_qparams_per_tensor", ()), ("quantize_per_tensor_dynamic", (torch.int8,))):
        op = isobit._op.OPS[name]
        args = -8, 7, *rest, False, 0.0
        found = op.fast(x, *args)
        assert all(map(torch.equal, found, op.run(x.detach(), *args))) and not any(t.requires_grad for t in found)


def test_an_output_that_asks_for_a_gradient_is_not_written():
    op, out = isobit._op.OPS["quantize_per_tensor"], torch.zeros(2).to(torch.float8_e4m3fn).requires_grad_()
    assert op.fast(torch.ones(2), 0.5, None, -8, 7, torch.float8_e4m3fn, "nearest", out) is NotImplemented
    assert not out.float().any()
