"""PyTorch's own modules, errors and quantization references, held against isobit: torch.testing._internal."""

import copy
import inspect
import io
import pickle
import re

import isobit
import numpy as np
import pytest
import torch
from isobit import nn
from test_opinfo import OURS, THEIRS, close
from torch.nn.utils import parametrize
from torch.testing import assert_close
from torch.testing._internal import common_quantized as quantized
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_nn import get_new_module_tests
from torch.testing._internal.common_quantization import _dynamically_quantize_per_channel

pytestmark = pytest.mark.filterwarnings("ignore")
INFO = next(info for info in module_db if info.module_cls is torch.nn.Embedding)
HAS_ERRORS = getattr(INFO, "module_error_inputs_func", None) is not None  # an older PyTorch may have none
PAIRS = {torch.nn.Embedding: nn.Embedding, torch.nn.EmbeddingBag: nn.EmbeddingBag}
INDICES = torch.tensor([[0, 2, 1], [1, 3, 1]])


def modules():
    """PyTorch's test modules with an input: name, module, input."""
    for entry in INFO.module_inputs_func(INFO, "cpu", torch.float64, True, True):
        made, given = entry.constructor_input, entry.forward_input
        yield f"info {entry.desc}", torch.nn.Embedding(*made.args, **made.kwargs), given.args[0]
    for entry in get_new_module_tests():
        name = entry.get("module_name") or entry.get("fullname")
        if re.match("Embedding(Bag)?(_|$)", name):
            make = entry.get("constructor") or getattr(torch.nn, name)
            yield f"{name} {entry.get('desc')}", make(*entry.get("constructor_args", ())), entry["input_fn"]()


MODULES = list(modules())


def test_there_are_modules():
    assert {type(theirs) for _, theirs, _ in MODULES} == set(PAIRS) and len(MODULES) >= 10


def pair(theirs, **keywords):
    """isobit's module of the same arguments and state."""
    names = ("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse", "mode", "include_last_offset")
    given = {n: getattr(theirs, n) for n in names if hasattr(theirs, n)} | keywords
    ours = PAIRS[type(theirs)](theirs.num_embeddings, theirs.embedding_dim, **given)
    ours.load_state_dict(theirs.state_dict())
    return ours


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
@pytest.mark.parametrize("case", MODULES, ids=lambda c: c[0])
def test_a_module_is_torchs(case, dtype):
    _, theirs, x = case
    theirs = copy.deepcopy(theirs).double()
    ours = pair(theirs, dtype=dtype, device="cpu")
    theirs.load_state_dict(ours.state_dict())
    assert repr(ours) == repr(theirs) and isinstance(ours, type(theirs))
    kinds = ours, theirs, copy.deepcopy(theirs).to(dtype)
    y, *others = (kind(x) for kind in kinds)
    close(y, *others)
    for result in (y, *others):
        result.sin().sum().backward()
    assert ours.weight.grad.layout == theirs.weight.grad.layout
    close(*(kind.weight.grad.to_dense() for kind in kinds))
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    for other in (
        copy.copy(ours),
        copy.deepcopy(ours),
        pickle.loads(pickle.dumps(ours)),
        torch.load(file, weights_only=False),
        torch.jit.trace(ours, x),
        torch.fx.symbolic_trace(torch.nn.Sequential(ours)),
        torch.export.export(ours, (x,)).module(),
        lambda x: torch.func.functional_call(ours, dict(ours.named_parameters()), (x,)),
    ):
        assert torch.equal(other(x), y)


class Halved(torch.nn.Module):
    def forward(self, weight):
        return weight / 2

    def right_inverse(self, weight):
        return weight * 2


@pytest.mark.parametrize("kind", PAIRS)
def test_a_module_is_made_as_torchs(kind):
    ours, x = PAIRS[kind], INDICES
    fixed = ours.from_pretrained(torch.ones(4, 3), padding_idx=1)
    assert type(fixed) is ours and not fixed.weight.requires_grad and fixed.padding_idx == 1
    with torch.device("meta"):
        empty = ours(4, 3)
    assert empty(x.to("meta")).device.type == "meta"
    empty.to_empty(device="cpu")
    empty.reset_parameters()
    assert empty(x).isfinite().all() and torch.nn.utils.skip_init(ours, 4, 3)(x).shape == empty(x).shape
    layer = ours(4, 3, dtype=torch.float64)
    y = layer(x).detach()
    parametrize.register_parametrization(layer, "weight", Halved())
    assert torch.equal(copy.deepcopy(layer)(x), y)
    layer(x).sum().backward()
    assert layer.parametrizations.weight.original.grad.any()
    parametrize.remove_parametrizations(layer, "weight")
    assert torch.equal(layer(x), y)
    layers = [ours(4, 3) for _ in range(3)]
    state = torch.func.stack_module_state(layers)
    together = torch.vmap(lambda p, b: torch.func.functional_call(copy.deepcopy(layers[0]).to("meta"), (p, b), (x,)))
    assert torch.equal(together(*state), torch.stack([layer(x) for layer in layers]))


# PyTorch's class of an error, and isobit's where it is another one.
F = torch.nn.functional
W = torch.ones(4, 3)
ERRORS = {
    "weight's dimensions": (RuntimeError, ValueError),
    "index out of range": (IndexError, IndexError),
    "index dtype": (RuntimeError, ValueError),
    "negative extent": (RuntimeError, RuntimeError),
    "bag's index out of range": (RuntimeError, ValueError),
    "bag without offsets": (ValueError, ValueError),
    "bag of three dimensions": (ValueError, ValueError),
    "weighted mean": (NotImplementedError, NotImplementedError),
    "sparse max": (ValueError, ValueError),
    "mode": (ValueError, ValueError),
    "grid's batch": (RuntimeError, ValueError),
    "grid's dtype": (RuntimeError, ValueError),
    "grid's dimensions": (RuntimeError, ValueError),
    "sampling mode": (ValueError, ValueError),
    "size": (NotImplementedError, NotImplementedError),
    "axis": (IndexError, ValueError),
    "range": (RuntimeError, ValueError),
    "no tensor": (TypeError, TypeError),
}


def wrong_calls():
    """Name, PyTorch's call, isobit's call, arguments."""
    for error in THEIRS["nn.functional.embedding"].error_inputs("cpu"):
        args = (error.sample_input.input, *error.sample_input.args)
        yield "weight's dimensions", THEIRS["nn.functional.embedding"].op, OURS["nn.functional.embedding"], args
    makers = [lambda n, *x, k=k: k(n, 3)(*x) for k in (torch.nn.Embedding, nn.Embedding)]
    yield "index out of range", *makers, (10, torch.tensor([0, 5, 15]))
    yield "index dtype", *makers, (10, torch.tensor([1.5, 2.5]))
    yield "negative extent", *makers, (-1,)
    image, grid = torch.ones(1, 2, 3, 3), torch.zeros(1, 2, 2, 2)
    fake = torch.ones(2, 3), torch.ones(2), torch.zeros(2, dtype=torch.int32)
    for name, function, args in (
        ("bag's index out of range", "embedding_bag", (INDICES + 2, W)),
        ("bag without offsets", "embedding_bag", (INDICES[0], W)),
        ("bag of three dimensions", "embedding_bag", (INDICES[None], W)),
        ("weighted mean", "embedding_bag", (INDICES, W, None, None, 2.0, False, "mean", False, torch.ones(2, 3))),
        ("sparse max", "embedding_bag", (INDICES, W, None, None, 2.0, False, "max", True)),
        ("mode", "embedding_bag", (INDICES, W, None, None, 2.0, False, "median")),
        ("grid's batch", "grid_sample", (image, grid.expand(2, 2, 2, 2))),
        ("grid's dtype", "grid_sample", (image, grid.double())),
        ("grid's dimensions", "grid_sample", (image, grid[0])),
        ("sampling mode", "grid_sample", (image, grid, "cubic")),
        ("size", "affine_grid", (torch.ones(1, 2, 3), [1, 2, 3])),
        ("axis", "fake_quantize_per_channel_affine", (*fake, 2, -8, 7)),
        ("range", "fake_quantize_per_channel_affine", (*fake, 0, 7, -8)),
        ("no tensor", "embedding", ([1], W)),
    ):
        yield name, getattr(F, function, None) or getattr(torch, function), getattr(isobit, function), args


def test_the_errors_of_the_database():
    """A class of isobit's that ERRORS has for PyTorch's."""
    for error in INFO.module_error_inputs_func(INFO, "cpu", torch.float32, False, False) if HAS_ERRORS else ():
        made, given = error.module_error_input.constructor_input, error.module_error_input.forward_input
        with pytest.raises(tuple(ours for theirs, ours in ERRORS.values() if theirs is error.error_type)):
            nn.Embedding(*made.args, **made.kwargs)(*given.args, **given.kwargs)


def test_errors_are_of_the_classes_said():
    seen = set()
    for name, theirs, ours, args in wrong_calls():
        for call, kind in zip((theirs, ours), ERRORS[name], strict=True):
            with pytest.raises(kind):
                call(*args)
        seen.add(name)
    assert seen == set(ERRORS)


def uneven(shape, scale, seed=0):
    """Values that lie apart from the middle between two codes, where references round otherwise."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 4
    return torch.where((x / scale - (x / scale).floor() - 0.5).abs() < 0.01, torch.zeros(()), x)


@pytest.mark.parametrize("axis", (0, 1, -1))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16), ids=str)
def test_fake_quantize_is_the_reference(axis, dtype):
    shape, per = (4, 4, 4), torch.tensor([0.05, 0.1, 0.2, 0.3])
    zero = torch.tensor([0, 3, -2, 7], dtype=torch.int32)
    x = uneven(shape, per.view([-1 if d == axis % 3 else 1 for d in range(3)])).to(dtype).requires_grad_()
    args = (per, zero, axis, -8, 7)
    y = isobit.fake_quantize_per_channel_affine(x, *args, rounding="reciprocal")
    assert_close(y, quantized._fake_quantize_per_channel_affine_reference(x.detach(), *args))
    dy = torch.randn(shape).to(dtype)
    y.backward(dy)
    want = quantized._fake_quantize_per_channel_affine_grad_reference(dy, x.detach(), *args)
    assert torch.equal(x.grad, want)


@pytest.mark.parametrize("channels", (False, True))
def test_learned_parameters_are_torchs(channels):
    """With the reciprocal, by which torch's operators quantize."""
    scale = torch.tensor([0.05, 0.1, 0.2]) if channels else torch.tensor([0.1])
    zero, x = torch.tensor([0.2, 2.0, -3.4])[: len(scale)], uneven((3, 50), scale[:, None])
    dy, name = torch.randn(3, 50), "channel" if channels else "tensor"
    theirs = getattr(torch, f"_fake_quantize_learnable_per_{name}_affine")
    ours = getattr(isobit, f"fake_quantize_per_{name}_affine")
    given = [[t.clone().requires_grad_() for t in (x, scale, zero)] for _ in range(2)]
    if not channels:
        given[0][1:] = [t.detach().reshape(()).requires_grad_() for t in given[0][1:]]
    axis = (0,) * channels
    results = [ours(*given[0], *axis, -8, 7, grad_factor=0.3, rounding="reciprocal")]
    results.append(theirs(*given[1], *axis, -8, 7, 0.3))
    for y in results:
        y.backward(dy)
    assert_close(*results)
    for got, want in zip(*given, strict=True):
        assert_close(got.grad, want.grad.reshape(got.shape), rtol=1e-4, atol=1e-4)


def test_codes_and_their_parameters_are_the_references():
    x = torch.randn(6, 40, generator=torch.Generator().manual_seed(3)) * 3
    for dtype, kind, low, high in ((torch.qint8, np.int8, -128, 127), (torch.quint8, np.uint8, 0, 255)):
        scale, zero = quantized._calculate_dynamic_qparams(x, dtype)
        got = isobit.choose_qparams_per_tensor(x, getattr(torch, np.dtype(kind).name), symmetric=False)
        assert_close(got[0].item(), scale, rtol=1e-6, atol=0) and got[1].item() == zero
        apart = uneven((6, 40), scale)
        codes = isobit.quantize_per_tensor(apart, scale, zero, low, high, getattr(torch, np.dtype(kind).name))
        assert torch.equal(codes, torch.from_numpy(quantized._quantize(apart.numpy(), scale, zero, low, high, kind)))
        values = quantized._dequantize(codes.numpy(), scale, zero)
        got = isobit.dequantize_per_tensor(codes, scale, zero, low, high, codes.dtype)
        assert_close(got, torch.from_numpy(values).float())
    codes, scales, zeros = _dynamically_quantize_per_channel(x, -128, 127, torch.int8)
    assert torch.equal(isobit.quantize_per_channel(x, scales, zeros, 0, -128, 127, torch.int8), codes)


@pytest.mark.parametrize("name", ("Linear", "QuantizedLinear", "FakeQuantizedLinear", "WeightOnlyLinear", "FakeQuantizedConv1d", "FakeQuantizedConv2d", "FakeQuantizedConv3d", "Embedding", "EmbeddingBag", "FakeQuantizedEmbedding", "FakeQuantizedEmbeddingBag"))  # fmt: skip
def test_a_signature_begins_with_torchs(name):
    """For help(), type checkers, and programs that look for an argument as torch.nn.utils.skip_init does for device."""
    ours = getattr(nn, name)
    theirs = next(base for base in ours.__mro__ if base.__module__.startswith("torch.nn"))
    ours, theirs = (list(inspect.signature(kind).parameters.values()) for kind in (ours, theirs))
    assert [(p.name, p.kind, p.default) for p in ours[: len(theirs)]] == [(p.name, p.kind, p.default) for p in theirs]
    assert all(p.kind is p.KEYWORD_ONLY for p in ours[len(theirs) :])
