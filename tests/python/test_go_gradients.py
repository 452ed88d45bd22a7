"""Random programs over Go's package autodiff (tests/graphs), in PyTorch: losses, gradients and second gradients."""

import json
import math
import os
import subprocess
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parents[2]
GRAPHS = int(os.environ.get("ISOBIT_GRAPHS", "100"))


def among_equals(x, axis, largest):
    """The extreme along an axis: its gradient is the first one's."""
    sign = 1 if largest else -1
    x = x if x.dim() else x.reshape(1)
    order = torch.sort(x.detach() * sign, dim=axis, descending=True, stable=True).indices
    return torch.gather(x, axis, order.narrow(axis, 0, 1)).squeeze(axis)


def sort(x, axis, descending):
    order = torch.sort(x.detach(), dim=axis, descending=descending, stable=True).indices
    return torch.gather(x, axis, order)


def index(values, shape=(-1,)):
    return torch.tensor(values, dtype=torch.int64).reshape(shape)


def sliced(x, axis, lo, hi, step=1):
    return x[(slice(None),) * (axis % x.dim()) + (slice(lo, hi, step),)]


def slice_assign(x, part, axis, lo):
    y = x.clone()
    sliced(y, axis, lo, lo + part.shape[axis]).copy_(part)
    return y


def fake_quantize(x, scale, axis):
    """The straight-through estimate, and the gradients of learned step sizes."""
    if axis:
        scale = scale.reshape([-1 if i == axis[0] % x.dim() else 1 for i in range(x.dim())])
    u = x / scale
    codes = u + (u.round() - u).detach()
    return torch.where((codes < -8) | (codes > 7), codes.detach().clamp(-8, 7), codes) * scale


def scatter_add(x, y, axis, at, shape):
    return torch.scatter_add(x, axis, index(at, shape), y)


def conv2d(*x):
    *x, window = x
    bias = x[2] if len(x) > 2 else None
    return F.conv2d(*x[:2], bias, window["Stride"], window["Pad"], window["Dilation"], window["Groups"])


def pool(f, x, window, **options):
    y = f(x.reshape(-1, 1, *x.shape[-2:]), window["Kernel"], window["Stride"], window["Pad"], **options)
    return y.reshape(*x.shape[:-2], *y.shape[-2:])


def attention(q, k, v, causal):
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores.softmax(-1) @ v


def lstm(x, w):
    h = c = x.new_zeros(*x.shape[1:-1], 1)
    states = []
    for step in x:
        i, f, g, o = (step @ w.T + h @ w[:, :1].T).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        states.append(h)
    return torch.stack(states)


def gru(x, w):
    h = x.new_zeros(*x.shape[1:-1], 1)
    states = []
    for step in x:
        (r, z, n), (hr, hz, hn) = (step @ w.T).chunk(3, -1), (h @ w[:, :1].T).chunk(3, -1)
        n = (n + (r + hr).sigmoid() * hn).tanh()
        z = (z + hz).sigmoid()
        h = (1 - z) * n + z * h
        states.append(h)
    return torch.stack(states)


# Where the two have other gradients at kinks, those that doc.go gives are written out.
OPS = {
    "neg": torch.neg,
    "abs": torch.abs,
    "exp": torch.exp,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "gelu": F.gelu,
    "erf": torch.erf,
    "floor": torch.floor,
    "sign": torch.sign,
    "log": torch.log,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "recip": torch.reciprocal,
    "max_all": lambda x: among_equals(x.reshape(-1), 0, True),
    "min_all": lambda x: among_equals(x.reshape(-1), 0, False),
    "flatten": lambda x: x.reshape(-1),
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "pow": torch.pow,
    "maximum": lambda x, y: torch.where(x >= y, x, y),
    "minimum": lambda x, y: torch.where(x <= y, x, y),
    "where_greater": lambda x, y: torch.where(x > y, x, -y),
    "matmul": torch.matmul,
    "mse": lambda x, y: ((x - y) ** 2).mean(),
    "linear": F.linear,
    "softmax": F.softmax,
    "log_softmax": F.log_softmax,
    "prod": torch.prod,
    "cumsum": torch.cumsum,
    "flip": lambda x, axis: torch.flip(x, (axis,)),
    "unsqueeze": torch.unsqueeze,
    "squeeze": torch.squeeze,
    "max": lambda x, axis: among_equals(x, axis, True),
    "min": lambda x, axis: among_equals(x, axis, False),
    "sort": lambda x, axis: sort(x, axis, False),
    "sort_down": lambda x, axis: sort(x, axis, True),
    "sum": torch.sum,
    "sum_keep": lambda x, axes: torch.sum(x, axes, keepdim=True),
    "mean": torch.mean,
    "mean_keep": lambda x, axes: torch.mean(x, axes, keepdim=True),
    "pow_scalar": torch.pow,
    "add_scalar": torch.add,
    "scale": lambda x, factor, less: x * factor - less,
    "clamp": lambda x, lo, hi: torch.where((x < lo) | (x > hi), x.detach().clamp(lo, hi), x),
    "fake_quantize": fake_quantize,
    "transpose": torch.transpose,
    "permute": torch.permute,
    "repeat": lambda x: x.expand(2, *x.shape),
    "slice": sliced,
    "slice_assign": slice_assign,
    "cat": lambda *x: torch.cat(x[:-1], x[-1]),
    "stack": lambda *x: torch.stack(x),
    "select": lambda x, axis, at: torch.index_select(x, axis, index(at)),
    "select_add": lambda x, y, axis, at: torch.index_add(x, axis, index(at), y),
    "embedding": lambda x, at: F.embedding(index(at), x),
    "gather": lambda x, axis, at, shape: torch.gather(x, axis, index(at, shape)),
    "scatter_add": scatter_add,
    "cross_entropy": lambda x, labels, smoothing: F.cross_entropy(x, index(labels), label_smoothing=smoothing),
    "layer_norm": lambda x, weight, bias, eps: F.layer_norm(x, x.shape[-1:], weight, bias, eps),
    "silu": F.silu,
    "group_norm": lambda x, groups, eps: torch.group_norm(x, groups, eps=eps),
    "rms_norm": lambda x, eps: x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps),
    "batch_norm": lambda x, eps: F.batch_norm(x, None, None, training=True, eps=eps),
    "attention": attention,
    "interpolate": lambda x, size, mode: F.interpolate(x, size, mode=mode),
    "lstm": lstm,
    "gru": gru,
    "conv2d": conv2d,
    "max_pool2d": lambda x, window: pool(F.max_pool2d, x, window),
    "avg_pool2d": lambda x, window: pool(F.avg_pool2d, x, window, count_include_pad=not window["NoPad"]),
    "affine_grid": lambda theta, corners, shape: F.affine_grid(theta, shape, corners),
    "grid_sample": F.grid_sample,
}


def tensor(array):
    return torch.tensor(array["x"], dtype=torch.float64).reshape(array["shape"])


def near(got, want, what):
    """Holds the elements of a gradient against the largest of them."""
    want = want.detach()
    size = max(1.0, float(want.abs().max()))
    error = float((got - want).abs().max())
    assert got.shape == want.shape and error <= 1e-9 * size, f"{what}: {got} is not {want}"


def run(graph):
    """Runs a program in PyTorch."""
    values = [tensor(a).requires_grad_() for a in graph["leaves"]]
    leaves = list(values)
    for s in graph["steps"]:
        values.append(OPS[s["op"]](*(values[i] for i in s["in"]), *(s["args"] or ())))
    loss = sum((y.sigmoid() + y * y / 10).sum() for y in values[-graph["ends"] :])
    return leaves, loss


def compare(gradients, wanted, what):
    """Compares with what Go found, where a missing gradient is 0; gives back those that there are."""
    for i, (got, want) in enumerate(zip(gradients, wanted, strict=True)):
        if want is None:
            assert got is None or not got.any(), f"{what} {i} is missing in Go"
        elif got is None:
            assert not tensor(want).any(), f"{what} {i} is missing in PyTorch"
        else:
            near(tensor(want), got, f"{what} {i}")


@pytest.fixture(scope="module")
def graphs(tmp_path_factory):
    program = tmp_path_factory.mktemp("graphs") / "graphs"
    build = [os.environ.get("GO", "go"), "build", "-o", program, "./tests/graphs"]
    subprocess.run(build, cwd=ROOT, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    seed = os.environ.get("ISOBIT_SEED", "0")
    result = subprocess.run(
        [program, "-seed", seed, "-count", str(GRAPHS)], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_go_differentiates_as_pytorch_does(graphs):
    twice = 0
    for graph in graphs:
        name = f"ISOBIT_SEED={graph['seed']}"
        leaves, loss = run(graph)
        assert math.isclose(float(loss.detach()), graph["loss"], rel_tol=1e-9), name
        if graph["first"] is None:
            continue
        first = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
        compare(first, graph["first"], f"{name}, gradient")
        if graph["second"] is None or any(s["op"] == "grid_sample" for s in graph["steps"]):
            continue  # PyTorch has no second derivatives of the latter
        squares = sum((d * d).sum() for d in first if d is not None)
        second = [None] * len(leaves)
        if squares.requires_grad:
            second = torch.autograd.grad(squares, leaves, allow_unused=True)
        compare(second, graph["second"], f"{name}, second gradient")
        twice += 1
    assert twice > len(graphs) / 2
    assert {s["op"] for g in graphs for s in g["steps"]} == set(OPS)
