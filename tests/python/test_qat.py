"""Layers for quantization-aware training, and what convert makes of them."""

import copy
import io
import pickle
import warnings
import weakref

import isobit
import numpy as np
import pytest
import torch
from isobit.nn import (
    FakeQuantize,
    FakeQuantizedLinear,
    LearnableFakeQuantize,
    MinMaxObserver,
    MSEObserver,
    convert,
)
from kit import FLOATS, NAMES, assert_same, draw, expect, spell, to_reference
from reference.sums import stripe

SYMMETRIC = torch.per_tensor_symmetric
CHANNEL = torch.per_channel_symmetric
observed, configured = FakeQuantize, FakeQuantize.from_config

# Layers of 21 inputs and 6 outputs: the product that they are served by, and their fake-quantizers.
LAYERS = {
    "static int8": ("integer", lambda: observed(dtype=torch.int8, qscheme=SYMMETRIC), lambda: observed(MinMaxObserver, dtype=torch.int8, qscheme=CHANNEL, ch_axis=-2)),
    "dynamic int8": ("integer", lambda: configured(dtype=torch.int8, granularity="per_token"), lambda: configured(dtype="int4", granularity="per_channel")),
    "static int4": ("integer", lambda: observed(dtype="int4", qscheme=SYMMETRIC), lambda: LearnableFakeQuantize(-8, 7)),
    "dynamic MSE": ("integer", lambda: observed(MSEObserver, is_dynamic=True, dtype=torch.int8, qscheme=SYMMETRIC, steps=5), lambda: LearnableFakeQuantize(-8, 7)),
    "one scale": ("integer", lambda: LearnableFakeQuantize(-127, 127), lambda: LearnableFakeQuantize(-8, 7)),
    "learned": ("integer", lambda: LearnableFakeQuantize(-127, 127), lambda: LearnableFakeQuantize(-8, 7, channels=6)),
    "uint8 input": ("integer_groups", lambda: observed(), lambda: LearnableFakeQuantize(-128, 127, channels=6)),
    "int8 tokens": ("integer_groups", lambda: configured(dtype=torch.int8, granularity="per_token", is_symmetric=False), lambda: configured(dtype="int4", group_size=8)),
    "uint8 weight": ("integer_groups", lambda: observed(MinMaxObserver, is_dynamic=True), lambda: observed(MinMaxObserver, qscheme=torch.per_channel_affine)),
    "middle": ("integer_groups", lambda: observed(qscheme=SYMMETRIC), lambda: observed(dtype="uint4", qscheme=SYMMETRIC)),
    "int8 groups": ("integer_groups", lambda: observed(dtype=torch.int8, qscheme=SYMMETRIC), lambda: observed(dtype=torch.int8, qscheme=SYMMETRIC, block_size=(1, 5))),
    "few codes": ("integer_groups", lambda: observed(quant_min=0, quant_max=14), lambda: LearnableFakeQuantize(-3, 2, learn_zero_point=True, dtype=torch.int8)),
    "zero points": ("integer_groups", lambda: LearnableFakeQuantize(0, 255, learn_zero_point=True, start="min_max"), lambda: LearnableFakeQuantize(-8, 7, group_size=8, shape=(6, 21), learn_zero_point=True)),
    "many codes": ("codes", lambda: LearnableFakeQuantize(-200, 100), lambda: LearnableFakeQuantize(-128, 127, channels=6)),
    "float input": ("codes", lambda: None, lambda: observed(MSEObserver, dtype=torch.int8, qscheme=CHANNEL, steps=5)),
    "groups": ("codes", lambda: None, lambda: configured(dtype="uint4", group_size=8, is_symmetric=False)),
    "learned groups": ("codes", lambda: None, lambda: LearnableFakeQuantize(-8, 7, group_size=8, shape=(6, 21), learn_zero_point=True)),
    "one zero point": ("codes", lambda: None, lambda: observed(quant_min=0, quant_max=100)),
    "blocks of a row": ("codes", lambda: None, lambda: observed(dtype=torch.int8, qscheme=SYMMETRIC, block_size=(1, 5))),
    "blocks": ("float", lambda: None, lambda: observed(dtype="uint4", block_size=(2, 5))),
    "columns": ("float", lambda: observed(), lambda: observed(dtype=torch.int8, qscheme=CHANNEL, ch_axis=1)),
    "float8": ("float", lambda: None, lambda: configured(dtype=torch.float8_e4m3fn, granularity="per_row")),
    "weight not quantized": ("float", lambda: observed(), lambda: None),
}  # fmt: skip


def layer_of(name, dtype=torch.float32, **keywords):
    product, activation, weight = LAYERS[name]
    torch.manual_seed(0)
    fakes = {"activation_fake_quantizer": activation(), "weight_fake_quantizer": weight()}
    return product, FakeQuantizedLinear(21, 6, **fakes, **keywords).to(dtype)


def byte_codes(weight):
    """A served weight's codes, a byte each."""
    low, high = {torch.int4: (-8, 7), torch.uint4: (0, 15)}.get(weight.scheme.dtype, (None, None))
    if low is None:
        return weight.codes
    values = isobit.dequantize_per_tensor(weight.codes, 1.0, None, low, high, weight.scheme.dtype, last_dim=21)
    return values.to(torch.int8)


def by_the_contract(product, layer, served, x):
    """The layer's result from its codes and parameters alone."""
    fake, weight, bias = layer.activation_fake_quantizer, served.weight, served.bias
    rows = x.reshape(-1, 21)
    values = rows if fake is None else fake(x).reshape(-1, 21)
    if product == "integer":
        scale, _, _ = fake.parameters_for(rows)
        codes = fake.scheme.quantize(rows, scale, None, torch.int8)
        args = codes, scale.reshape(-1).expand(len(rows)), weight.codes, weight.scale.reshape(-1).expand(6), bias
        words = zip(
            ("x", "x_scale", "weight", "weight_scale", "bias"), args, (True, False, True, False, False), strict=True
        )
        y = expect(f"quantized_linear {' '.join(f'{n}={spell(t, s)}' for n, t, s in words)} y={spell(x.dtype)}", *args)
    elif product == "integer_groups":
        scale, zero, _ = fake.parameters_for(rows)
        zero = fake.scheme.integer_zero_point(zero)
        codes = fake.scheme.quantize(rows, scale, zero, fake.scheme.byte_dtype)
        of_x = (t if t is None else t.reshape(-1).expand(len(rows)) for t in (scale, zero))
        of_weight = (t if t is None else t.expand(6, 1) if t.numel() == 1 else t.reshape(6, -1) for t in (weight.scale, weight.zero_point))  # fmt: skip
        args = codes, *of_x, byte_codes(weight), *of_weight, bias
        names = ("x", "x_scale", "x_zero_point", "weight", "weight_scale", "weight_zero_point", "bias")
        words = " ".join(f"{n}={spell(t, n in ('x', 'weight'))}" for n, t in zip(names, args, strict=True))
        size = {1: 21, 3: 8, 5: 5}[args[4].shape[1]]
        y = expect(f"quantized_linear_per_group {words} y={spell(x.dtype)} group_size={size}", *args)
    elif product == "codes":
        terms = to_reference(values.float()[:, None, :] * weight().float())
        y = torch.tensor(np.array([[stripe(row) for row in rows] for rows in terms]))
        y = (y if bias is None else y + bias.float()).to(x.dtype)
    else:
        args = values, weight().t().contiguous(), bias
        words = zip(("input", "other", "bias"), args, (True, True, False), strict=True)
        y = expect(f"matmul {' '.join(f'{n}={spell(t, s)}' for n, t, s in words)}", *args)
    return y.reshape(*x.shape[:-1], 6)


@pytest.mark.parametrize("bias", (True, False))
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_has_one_result_trained_and_served(name, bias):
    product, layer = layer_of(name, bias=bias)
    x = draw(2, 3, 21)
    with torch.no_grad():
        layer(x)
    layer.eval()
    want = layer(x)
    served = convert(layer)
    assert served.product == product and not list(served.parameters())
    assert (served.activation_fake_quantizer is None) == (layer.activation_fake_quantizer is None)
    assert served.weight.codes.is_floating_point() == (name == "weight not quantized")
    assert_same(served(x), want)
    assert_same(by_the_contract(product, layer, served, x), want.detach())
    with torch.no_grad():
        assert_same(layer(x), want.detach())
    assert (want - torch.nn.functional.linear(x, layer.weight, layer.bias)).abs().max() < 2.5
    inexact = convert(FakeQuantizedLinear.from_linear(
        layer,
        exact=False,
        activation_fake_quantizer=layer.activation_fake_quantizer,
        weight_fake_quantizer=layer.weight_fake_quantizer,
    ).eval())  # fmt: skip
    assert inexact.product == "torch" and (inexact(x) - want).abs().max() < 1e-4


def test_inputs_that_have_no_integer_product():
    """Each column has a scale; codes are not all of int8's, though their zero point is 0."""
    columns = observed(MinMaxObserver, dtype=torch.int8, qscheme=CHANNEL, ch_axis=-1)
    ranges = ((-100, 128), (-129, 100), (-100, 200), (-200, 100))
    for activation in (columns, *(LearnableFakeQuantize(*codes) for codes in ranges)):
        fakes = {"activation_fake_quantizer": activation, "weight_fake_quantizer": LAYERS["learned"][2]()}
        layer, x = FakeQuantizedLinear(21, 6, **fakes), draw(4, 21)
        want, served = layer(x), convert(layer)
        assert served.product == "codes"
        assert activation.scheme.centred
        assert_same(want, by_the_contract("codes", layer, served, x))
        assert_same(served(x), want.detach())


@pytest.mark.parametrize("dtype", FLOATS[1:], ids=NAMES.get)
@pytest.mark.parametrize("name", ("static int8", "dynamic int8", "uint8 input", "int8 tokens", "zero points", "groups", "blocks"))  # fmt: skip
def test_other_types(name, dtype):
    product, layer = layer_of(name, dtype)
    x = draw(4, 21, dtype=dtype)
    y = layer(x)
    assert y.dtype == dtype
    y.square().sum().backward()
    assert layer.weight.grad.dtype == layer.bias.grad.dtype == dtype
    served = convert(layer)
    assert_same(served(x), layer.eval()(x))
    if product.startswith("integer"):
        assert_same(served(x), by_the_contract(product, layer, served, x))


@pytest.mark.parametrize("name", LAYERS)
def test_a_served_layer_stays_as_it_was_made(name):
    """Whatever becomes of what it was made from, as where training goes on."""
    _, layer = layer_of(name)
    x = draw(5, 21)
    layer(x)
    served = convert(layer, inplace=True)  # which copies nothing before
    want = served(x)
    assert not any(module.training for module in served.modules())
    with torch.no_grad():
        for name, t in (*layer.named_parameters(), *layer.named_buffers()):
            if not name.endswith("_enabled"):  # a dynamic quantizer is served as it is
                t.zero_()
    assert_same(served(x), want)


@pytest.mark.parametrize("name", LAYERS)
def test_copies_pickles_and_states(name):
    _, layer = layer_of(name)
    x = draw(5, 21)
    layer(x), layer(x * 2)
    layer.eval()
    want = layer(x).detach()
    served = convert(layer)
    assert type(layer) is FakeQuantizedLinear and convert(layer, inplace=True) is not layer
    for made in (layer, served):
        assert_same(copy.deepcopy(made)(x), want)
        assert_same(pickle.loads(pickle.dumps(made))(x), want)
        file = io.BytesIO()
        torch.save(made.state_dict(), file)
        file.seek(0)
        _, fresh = layer_of(name)
        with torch.no_grad():
            fresh.weight.mul_(3)
        if made is served:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", ".*seen nothing yet")
                fresh = convert(fresh)
        fresh.load_state_dict(torch.load(file))
        assert_same(fresh.eval()(x), want)


@pytest.mark.parametrize("name", LAYERS)
def test_hooks_of_fake_quantizers_run_and_change_no_bit(name):
    _, plain = layer_of(name)
    x, dy, seen = draw(5, 21), draw(5, 6, seed=1), {}
    layer = copy.deepcopy(plain)
    fakes = {n: f for n, f in layer.named_children() if f is not None}
    for n, fake in fakes.items():
        fake.register_forward_hook(lambda m, args, y, n=n: seen.__setitem__(n, (args[0], y)))
    for _ in range(2):
        assert_same(layer(x).detach(), plain(x).detach())
    layer(x).backward(dy), plain(x).backward(dy)
    for p, q in zip(layer.parameters(), plain.parameters(), strict=True):
        assert_same(p.grad, q.grad)
    for f, want in ((layer, plain.eval()(x)), (convert(layer), convert(plain)(x))):
        seen.clear()
        assert_same(f.eval()(x).detach(), want.detach())
        assert seen.keys() == (fakes.keys() if f is layer else fakes.keys() - {"weight_fake_quantizer"})
        for n, (given, y) in seen.items():
            assert_same(y.detach(), getattr(plain, n)(given).detach())
    given = draw(5, 21)
    kept = weakref.ref(given)
    layer(given), seen.clear()
    del given
    assert kept() is None
    if layer.activation_fake_quantizer is not None:
        for f in (layer, copy.deepcopy(plain)):  # beside another hook, and alone
            f.activation_fake_quantizer.register_forward_pre_hook(lambda m, args: (args[0] * 0.5,))
            assert_same(f(x).detach(), plain(x * 0.5).detach())
        for register in ("register_forward_hook", "register_forward_pre_hook"):  # that call another such layer
            outer = copy.deepcopy(plain)
            getattr(outer.activation_fake_quantizer, register)(lambda *_: seen.update(other=layer(x)))
            assert_same(outer(x).detach(), plain(x).detach())
        layer.activation_fake_quantizer.register_forward_hook(lambda m, args, y: torch.zeros_like(y))
        assert_same(layer(x).detach(), plain.bias.detach().expand(5, 6))


OF_EACH_KIND = ("static int8", "learned groups", "columns", "weight not quantized")


@pytest.mark.parametrize("name", LAYERS)
def test_backward_hooks_of_fake_quantizers_run_and_change_no_bit(name):
    _, plain = layer_of(name)
    plain(draw(5, 21))
    layer, x, dy, seen = copy.deepcopy(plain), draw(5, 21), draw(5, 6, seed=1), []
    fakes = [f for f in layer.children() if f is not None]
    for fake in fakes:
        fake.register_full_backward_hook(lambda m, dx, dy: seen.append((m, dx[0].shape, dy[0].shape)))
        fake.register_full_backward_pre_hook(lambda m, dy: seen.append(m))

    def gradients(f):
        f.zero_grad()
        leaf = x.clone().requires_grad_()
        y = f(leaf)
        y.backward(dy)
        return [y.detach(), leaf.grad, *(p.grad for p in f.parameters())]

    want = gradients(plain)
    for register in ("register_full_backward_hook", "register_full_backward_pre_hook"):
        alone = copy.deepcopy(plain)
        for fake in (f for f in alone.children() if f is not None):
            getattr(fake, register)(lambda m, *_: seen.append(m))
        assert_same(gradients(alone), want)
        assert len(seen) == len(fakes)
        seen.clear()
        every = copy.deepcopy(plain)  # a hook of all modules, beside forward hooks
        for fake in (f for f in every.children() if f is not None):
            fake.register_forward_hook(lambda m, args, y: None)
        register_all = getattr(torch.nn.modules.module, register.replace("register", "register_module"))
        handle = register_all(lambda m, *_: seen.append(m) if type(m) in map(type, fakes) else None)
        assert_same(gradients(every), want)
        handle.remove()
        assert len(seen) == len(fakes)
        seen.clear()
    for _ in range(3):  # also beside forward hooks
        assert_same(gradients(layer), want)
        shapes = [(m, x.shape if m is layer.activation_fake_quantizer else layer.weight.shape) for m in fakes]
        assert sorted(seen, key=str) == sorted([*fakes, *((m, shape, shape) for m, shape in shapes)], key=str)
        seen.clear()
        for fake in fakes:
            fake.register_forward_hook(lambda m, args, y: None)
    for fake in fakes:
        fake.register_full_backward_hook(lambda m, dx, dy: (dx[0] * 2,))
    doubled = gradients(torch.compile(layer, backend="aot_eager") if name in OF_EACH_KIND else layer)
    if layer.weight_fake_quantizer is not None:
        assert_same(layer.weight.grad, 2 * plain.weight.grad)
    assert_same(doubled[1], want[1] * (1 + (layer.activation_fake_quantizer is not None)))
    seen.clear()
    for fake in fakes:
        fake.register_forward_hook(lambda m, args, y: y * 2)  # which makes other values
    gradients(layer)
    assert sum(m in fakes for m in seen) == len(fakes) and len(seen) == 2 * len(fakes)


@pytest.mark.parametrize("name", LAYERS)
def test_compiled(name):
    _, layer = layer_of(name)
    x = draw(4, 21)
    learned = any(isinstance(f, LearnableFakeQuantize) for f in layer.children())
    if learned:
        layer(x)  # compiled code does not look for a start
    eager = copy.deepcopy(layer)
    backend = "inductor" if name == "static int8" else "aot_eager"
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    for step in range(1, 4):
        y, want = compiled(x * step), eager(x * step)
        assert_same(y.detach(), want.detach())
        y.square().sum().backward(), want.square().sum().backward()
    for p, q in zip(layer.parameters(), eager.parameters(), strict=True):
        assert_same(p.grad, q.grad)
    assert_same(compiled.eval()(x), eager.eval()(x))
    served = torch.compile(convert(layer), fullgraph=True, backend="aot_eager")
    assert_same(served(x), eager(x).detach())


@pytest.mark.parametrize("learned", (-9.0, 40.0, float("inf"), float("nan")))
@pytest.mark.parametrize(
    "codes",
    ((-8, 7, torch.int4), (0, 15, torch.uint4), (-127, 127, torch.int8), (0, 127, torch.uint8), (3, 100, None)),
    ids=str,
)
def test_a_learned_zero_point_beyond_the_range_is_that_of_fake_quantize(codes, learned):
    low, high, dtype = codes
    fake = LearnableFakeQuantize(low, high, channels=3, learn_zero_point=True, dtype=dtype)
    layer = FakeQuantizedLinear(8, 3, bias=False, weight_fake_quantizer=fake)
    eye = torch.eye(8)
    layer(eye)
    with torch.no_grad():
        fake.zero_point.fill_(learned)
    layer.eval()
    assert_same(layer(eye), fake(layer.weight).t())
    assert_same(convert(layer)(eye), layer(eye))


def test_what_a_trained_layer_gives_may_be_written_to():
    x, grads = draw(3, 21), []
    fakes = {
        "activation_fake_quantizer": LAYERS["dynamic int8"][1](),
        "weight_fake_quantizer": LAYERS["dynamic int8"][2](),
    }
    layer = FakeQuantizedLinear(21, 6, **fakes)
    for relu in (torch.relu, torch.relu_):
        layer.zero_grad()
        relu(layer(x)).sum().backward()
        grads.append(layer.weight.grad)
    assert_same(*grads)
