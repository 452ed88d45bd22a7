"""Gradients that a backward pass does not ask for are not computed, and the others are what they are beside them."""

import isobit
import pytest
import torch
from kit import assert_same, draw
from nn_models import INT8
from torch.utils._python_dispatch import TorchDispatchMode

ROWS, GRID = draw(128, 48), draw(2, 128, 128, 2, spread=0.8)
CODES, SCALE = draw(128, 48, seed=1).to(torch.int8), torch.ones(128, 3)


def only_weights(x, scale, bias):
    return isobit.weight_only_linear(x, CODES, scale, None, bias, group_size=16)


CASES = {
    "grid_sample": (isobit.grid_sample, (draw(2, 2, 8, 8), GRID)),
    "linear": (isobit.linear, (ROWS, draw(128, 48, seed=1), draw(128))),
    "matmul": (isobit.matmul, (draw(2, 128, 64), draw(64, 64, seed=1))),
    "matmul of batches": (isobit.matmul, (draw(2, 1, 64, 64), draw(3, 64, 64, seed=1))),
    "quantized_linear": (isobit.quantized_linear, (ROWS, draw(128, 48, seed=1), draw(128))),
    "weight_only_linear": (only_weights, (ROWS, SCALE, draw(128))),
    "FakeQuantizedLinear": (
        lambda x, w, b: torch.func.functional_call(LAYER, {"weight": w, "bias": b}, (x,)),
        (ROWS, draw(128, 48, seed=1), draw(128)),
    ),
}
LAYER = isobit.nn.prepare(torch.nn.Linear(48, 128), weight=INT8, activation={**INT8, "granularity": "per_token"})


class Work(TorchDispatchMode):
    """Counts the products, and the gradients of grid_sample, that run."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.name()
        if name == "isobit::grid_sample_backward":
            self.count += sum((*args, *[True] * (8 - len(args)))[-2:])
        self.count += name == "isobit::matmul"
        return func(*args, **(kwargs or {}))


def counted(f):
    with Work() as work:
        return f(), work.count


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_leaf", (True, False))
def test_only_what_is_asked(name, is_leaf):
    f, leaves = CASES[name]
    leaves = [t.clone().requires_grad_() for t in leaves]
    inputs = leaves if is_leaf else [t * 1 for t in leaves]
    y = f(*inputs)
    dy = torch.ones_like(y)
    every, most = counted(lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True))
    shares = 0
    for i, want in enumerate(every):
        got, work = counted(lambda i=i: torch.autograd.grad(y, inputs[i], dy, retain_graph=True))
        assert_same(got[0], want)
        shares += work
        y.backward(dy, retain_graph=True, inputs=[leaves[i]])
        assert [t.grad is None for t in leaves] == [k != i for k in range(len(leaves))]
        assert_same(leaves[i].grad, want)
        leaves[i].grad = None
    assert shares == most > 1
    assert counted(lambda: y.backward(dy, retain_graph=True))[1] == most
    assert_same([t.grad for t in leaves], every)
    batched = torch.autograd.grad(y, inputs[0], torch.stack([dy, dy]), retain_graph=True, is_grads_batched=True)
    assert_same(batched[0][1], every[0])


def test_the_only_gradient_is_not_asked_about(monkeypatch):
    image, grid = CASES["grid_sample"][1]
    grid = grid.clone().requires_grad_()
    y = isobit.grid_sample(image, grid)
    monkeypatch.setattr(torch._C, "_will_engine_execute_node", None)  # of a leaf, it raises an error, which is slow
    torch.autograd.grad(y, grid, torch.ones_like(y))


def test_a_gradient_to_differentiate_is_computed_beside_the_others():
    image, grid = (t.clone().requires_grad_() for t in CASES["grid_sample"][1])
    y = isobit.grid_sample(image, grid)
    (d,) = torch.autograd.grad(y, grid, torch.ones_like(y), create_graph=True)
    got = torch.autograd.grad(d.square().sum(), (image, grid))
    y = isobit.grid_sample(image, grid)
    both = torch.autograd.grad(y, (image, grid), torch.ones_like(y), create_graph=True)
    assert_same(got, torch.autograd.grad(both[1].square().sum(), (image, grid)))


@pytest.mark.parametrize("name", ("grid_sample", "linear"))
def test_sizes_of_compiled_code_stay_symbols(name):
    """What is asked is not looked up where a backward is traced, or a program of few rows would not be that of many."""
    f, inputs = CASES[name]
    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    for rows in (2, 300):
        leaves = [t[:1].expand(rows, *t.shape[1:]) if t.shape[0] in (2, len(ROWS)) else t for t in inputs]
        if name == "linear":
            leaves[1:] = inputs[1:]
        leaves = [t.clone().requires_grad_() for t in leaves]
        for t in leaves[: 2 if name == "grid_sample" else 1]:
            torch._dynamo.mark_dynamic(t, 0)
        with torch._dynamo.config.patch(error_on_recompile=True):
            compiled(*leaves).sum().backward()
        assert all(t.grad is not None for t in leaves)
