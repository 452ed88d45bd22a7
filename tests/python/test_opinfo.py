"""PyTorch's own test inputs: torch.testing._internal's database of operators, held against isobit's functions.

What PyTorch supports isobit has to support."""

import contextlib
import io
import itertools
import re
import sys
import types
import unittest

import isobit
import pytest
import torch
from torch.testing import assert_close
from torch.utils._pytree import tree_map

with contextlib.suppress(ImportError):
    import expecttest  # noqa: F401
if "expecttest" not in sys.modules:  # which torch.testing imports for its TestCase
    stub = types.ModuleType("expecttest")
    stub.TestCase, stub.ACCEPT = unittest.TestCase, False
    sys.modules["expecttest"] = stub

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.testing._internal import composite_compliance, optests  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


def sampler(input, grid, mode, padding, corners):
    words = ("bilinear", "nearest", "bicubic")[mode], ("zeros", "border", "reflection")[padding]
    return isobit.grid_sample(input, grid, *words, corners)


OURS = {
    "nn.functional.embedding": lambda w, i, **k: isobit.embedding(i, w, **k),
    "nn.functional.embedding_bag": lambda w, i, **k: isobit.embedding_bag(i, w, **k),
    "nn.functional.grid_sample": isobit.grid_sample,
    "matmul": isobit.matmul,
    "nn.functional.linear": isobit.linear,
    "grid_sampler_2d": sampler,
    "grid_sampler_3d": sampler,
}
THEIRS = {op.name: op for op in op_db if op.name in OURS}
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def test_every_operator_is_there():
    assert set(OURS) - set(THEIRS) <= ({"grid_sampler_3d"} if torch.__version__ < (2, 10) else set())


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(0)


def samples(name, dtype, grad=False, most=1 << 30, distinct=False):
    """args and kwargs of PyTorch's samples with at most so many elements; distinct: one for each set of words."""
    seen = set()
    for sample in THEIRS[name].sample_inputs("cpu", dtype, requires_grad=grad):
        args, kwargs = (sample.input, *sample.args), dict(sample.kwargs)
        words = [v for v in (*args, *kwargs.items()) if not isinstance(v, torch.Tensor)]
        words = str([w for w in words if not isinstance(w, tuple) or not isinstance(w[1], torch.Tensor)])
        if sum(t.numel() for t in tensors(args, kwargs)) > most or (distinct and words in seen):
            continue
        seen.add(words)
        yield args, kwargs


def tensors(*trees):
    found = []
    tree_map(lambda t: found.append(t) if isinstance(t, torch.Tensor) else None, trees)
    return found


def copies(sample, dtype=None, grad=False, change=lambda t: t):
    """The sample with other tensors of the same values, float ones of dtype and with grad."""

    def of(t):
        if not isinstance(t, torch.Tensor):
            return t
        if not t.is_floating_point():
            return t.detach().clone()
        return change(t.detach().to(dtype or t.dtype, copy=True)).requires_grad_(grad)

    return tree_map(of, sample)


def leaves(sample):
    return [t for t in tensors(sample) if t.is_floating_point()]


def function_of(f, sample, chosen=lambda t: t.is_floating_point()):
    """f as a function of its float tensors, or others, in their order."""

    def g(*values):
        it = iter(values)
        args, kwargs = tree_map(lambda t: next(it) if isinstance(t, torch.Tensor) and chosen(t) else t, sample)
        return f(*args, **kwargs)

    return g


def results(f, sample, dtype):
    """The result and the gradients of all float tensors for an upstream gradient of dtype, or the error."""
    try:
        y = f(*sample[0], **sample[1])
        if not y.requires_grad:
            return y, []
        dy = torch.arange(y.numel()).view(y.shape).sin().to(dtype)
        return y.detach(), torch.autograd.grad(y, leaves(sample), dy.to(y.dtype))
    except RuntimeError as error:
        return error, []


def close(got, want, theirs):
    """Within the tolerance of got's dtype of the float64 result, or as far from it as PyTorch's: what a rounded
    coordinate makes of a steep image."""
    with contextlib.suppress(AssertionError):
        assert_close(got, want.to(got.dtype))
        return
    off, limit = ((t.double() - want).abs().max() for t in (got, theirs))
    assert off <= 2 * limit, (off, limit)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", THEIRS)
def test_values_and_gradients(name, dtype):
    for sample in samples(name, dtype, most=60000):
        grad = "max_norm" not in sample[1]
        ours, exact = copies(sample, None, grad), copies(sample, torch.float64, grad)
        y, grads = results(OURS[name], ours, dtype)
        want, want_grads = results(THEIRS[name].op, exact, dtype)
        if isinstance(want, Exception):
            assert isinstance(y, Exception)
            continue
        if not grad:  # rows are rounded once when they are scaled, by PyTorch more than once, and then read
            for weight, scaled in zip(leaves(ours), leaves(exact), strict=True):
                assert_close(weight, scaled.to(dtype))
            rows, keywords = copies(ours, torch.float64)
            want = THEIRS[name].op(*rows, **{**keywords, "max_norm": None})
        theirs, their_grads = results(THEIRS[name].op, copies(sample, None, grad), dtype)
        assert (y.dtype, y.shape, y.is_contiguous(), len(grads)) == (dtype, want.shape, True, len(want_grads))
        close(y, want, theirs)
        for g, w, t in zip(grads, want_grads, their_grads, strict=True):
            assert (g.dtype, g.layout) == (dtype, w.layout)
            close(g.to_dense(), w.to_dense(), t.to_dense())
        if not grad:
            continue
        for change in (torch.testing._internal.common_utils.noncontiguous_like, lambda t: torch._neg_view(t.neg())):
            assert torch.equal(OURS[name](*copies(sample, None, False, change)[0], **copies(sample)[1]), y)


def test_large_images():
    count, f = 0, torch.nn.functional.grid_sample
    for sample in THEIRS["nn.functional.grid_sample"].reference_inputs("cpu", torch.float32):
        words = (*sample.args[1:], *sample.kwargs.values())
        if sample.input.numel() > 100000:
            image, grid = sample.input, sample.args[0]
            close(
                isobit.grid_sample(image, grid, *words),
                f(image.double(), grid.double(), *words),
                f(image, grid, *words),
            )
            count += 1
    assert count >= 12


def check_second(f, inputs, **keywords):
    return torch.autograd.gradgradcheck(f, inputs, fast_mode=True, **keywords)


KINDS = {
    "first": lambda f, x: torch.autograd.gradcheck(f, x, fast_mode=True, check_batched_grad=True),
    "forward": lambda f, x: torch.autograd.gradcheck(
        f, x, fast_mode=True, check_forward_ad=True, check_backward_ad=False, check_batched_forward_grad=True
    ),
    "second": lambda f, x: check_second(f, x, check_batched_grad=True),
    "forward of backward": lambda f, x: check_second(
        f, x, check_fwd_over_rev=True, check_rev_over_rev=False, check_undefined_grad=False
    ),
}
FLAGS = {
    "forward": "supports_forward_ad",
    "second": "supports_gradgrad",
    "forward of backward": "supports_fwgrad_bwgrad",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", THEIRS)
def test_derivatives(name, kind):
    supported = getattr(THEIRS[name], FLAGS[kind]) if kind in FLAGS else True
    for sample in itertools.islice(samples(name, torch.float64, True, 1000, True), 6):
        call = lambda: KINDS[kind](function_of(OURS[name], sample), leaves(copies(sample, None, True)))  # noqa: B023, E731
        if supported:
            assert call()
        else:  # isobit may do more
            with contextlib.ExitStack() as stack:
                stack.push(lambda kind, error, _: re.search("second derivative|forward mode", str(error)) is not None)
                assert call()


@pytest.mark.parametrize("name", THEIRS)
def test_vmap_over_any_dimension(name):
    """Each tensor with or without a batch, which is its first or its last dimension; of gradients and tangents, too."""
    for sample in itertools.islice(samples(name, torch.float64, True, 1000, True), 0, 9, 3):
        given = [t.detach() for t in tensors(sample)]
        f = function_of(OURS[name], sample, lambda _: True)
        floats = tuple(i for i, t in enumerate(given) if t.is_floating_point())
        steps = [f, torch.func.grad(lambda *v, f=f: f(*v).sin().sum(), floats)]
        for dims in itertools.product((None, 0, -1), repeat=len(given)):
            if all(d is None for d in dims):
                continue
            batch = [
                t if d is None else torch.stack([t, t.flip(0), t], d) if t.dim() else t.expand(3)
                for t, d in zip(given, dims, strict=True)
            ]
            each = [[t if d is None else t.select(d, i) for t, d in zip(batch, dims, strict=True)] for i in range(3)]
            try:
                want = [[step(*one) for one in each] for step in steps]
            except ValueError as error:  # a row of offsets turned around
                assert "offsets" in str(error)
                continue
            for step, wanted in zip(steps, want, strict=True):
                got = torch.vmap(step, dims)(*batch)
                flat = zip(*(tensors(w) for w in wanted), strict=True)
                for g, w in zip(tensors(got), flat, strict=True):
                    assert torch.equal(g, torch.stack(w))


def meta(f, sample):
    args, kwargs = tree_map(lambda t: t.to("meta") if isinstance(t, torch.Tensor) else t, sample)
    y, real = f(*args, **kwargs), f(*sample[0], **sample[1])
    assert (y.shape, y.dtype, y.stride(), y.device.type) == (real.shape, real.dtype, real.stride(), "meta")


def fx(f, sample):
    given = tensors(sample)
    for mode in ("fake", "symbolic"):
        graph = make_fx(function_of(f, sample, lambda _: True), tracing_mode=mode)(*given)
        assert "isobit" in graph.code and torch.equal(graph(*given), f(*sample[0], **sample[1]))


def autocast(f, sample):
    with torch.autocast("cpu", torch.bfloat16):
        product = f in (isobit.matmul, isobit.linear, isobit.affine_grid)  # as torch's
        assert f(*sample[0], **sample[1]).dtype == (torch.bfloat16 if product else sample[0][0].dtype)


def checkpoint(f, sample):
    g = function_of(f, sample)
    y, again = g(*leaves(sample)), torch.utils.checkpoint.checkpoint(g, *leaves(sample), use_reentrant=False)
    want, got = (torch.autograd.grad(t.sin().sum(), leaves(sample)) for t in (y, again))
    assert all(map(torch.equal, got, want))


def trace(f, sample):
    g = function_of(f, sample)
    file, values = io.BytesIO(), tuple(leaves(sample))
    torch.jit.save(torch.jit.trace(g, values), file)
    file.seek(0)
    assert torch.equal(torch.jit.load(file)(*values), g(*values))


def functionalized(f, sample):
    given = [t.detach() for t in tensors(sample)]  # its gradient is autograd.Function's, which torch does not take here
    assert torch.equal(
        torch.func.functionalize(function_of(f, sample, lambda _: True))(*given), f(*sample[0], **sample[1])
    )


def compiled(f, sample):
    run = torch.compile(f, fullgraph=True, dynamic=True, backend="aot_eager")
    y, want = (g(*sample[0], **sample[1]) for g in (run, f))
    got, wanted = (torch.autograd.grad(t.sin().sum(), leaves(sample)) for t in (y, want))
    assert torch.equal(y, want) and all(map(torch.equal, got, wanted))


WAYS = {
    "meta": meta,
    "make_fx": fx,
    "autocast": autocast,
    "checkpoint": checkpoint,
    "trace": trace,
    "functionalize": functionalized,
    "compile": compiled,
    "aot_autograd": lambda f, s: optests.aot_autograd_check(f, *s, dynamic=True, check_gradients=True),
    "subclass": lambda f, s: composite_compliance.check_all_permutations(f, *s, assert_close),
    "mode": lambda f, s: composite_compliance.check_with_mode(f, *s, assert_close),
    "subclass backward": lambda f, s: composite_compliance.check_backward_formula(f, *s, assert_equal_fn=assert_close),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", THEIRS)
def test_ways_to_call(name, way):
    for sample in itertools.islice(samples(name, torch.float32, True, 3000, True), 1 if way == "compile" else 4):
        WAYS[way](OURS[name], copies(sample, None, True))
