"""The ops under what torch does around a call: modes, traces, subclasses, profilers."""

import math

import isobit
import pytest
import torch
from kit import assert_same, draw

X, S, Z = draw(4, 6), torch.full((4,), 0.5), torch.zeros(4, dtype=torch.int32)


def test_modes_see_the_op():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    with Log() as log:
        isobit.fake_quantize_per_tensor_affine(X, 0.5, 0, -8, 7)
    assert any("isobit.fake_quantize_per_tensor_affine" in n for n in log.names)
    graph = torch.fx.experimental.proxy_tensor.make_fx(
        lambda x: isobit.fake_quantize_per_channel_affine(x, S, Z, 0, -8, 7)
    )(X)
    assert "isobit.fake_quantize" in graph.code


def test_modes_of_functions_see_the_op():
    """As those of torch.ops, whether or not a gradient is wanted. A default device is such a mode, but looks at nothing."""

    class Log(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    for x in (X, X.clone().requires_grad_()):
        for call in (lambda x: isobit.fake_quantize_per_tensor_affine(x, 0.5, 0, -8, 7), lambda x: isobit.linear(x, x)):
            names, want = [], call(x)
            with Log():
                assert_same(call(x).detach(), want.detach())
            assert sum("isobit." in name for name in names) == 1
    fast = isobit.ops.fake_quantize._OPS["per_tensor"][0].fast
    with torch.device("meta"):
        assert fast(X, 0.5, 0, -8, 7, "nearest", 1.0, "int").device.type == "cpu"


@pytest.mark.filterwarnings("ignore")
def test_jit_trace_sees_the_op():
    traced = torch.jit.trace(lambda x: isobit.fake_quantize_per_channel_affine(x, S, Z, 0, -8, 7) + 0, X)
    assert_same(traced(X * 3), isobit.fake_quantize_per_channel_affine(X * 3, S, Z, 0, -8, 7) + 0)


def test_subclasses_and_parameters():
    class Mine(torch.Tensor):
        pass

    want = isobit.fake_quantize_per_channel_affine(X, S, Z, 0, -8, 7)
    got = isobit.fake_quantize_per_channel_affine(X.as_subclass(Mine), S, Z, 0, -8, 7)
    assert isinstance(got, Mine)
    assert_same(got.as_subclass(torch.Tensor), want)
    parameter = torch.nn.Parameter(X)
    with torch.no_grad():
        y = isobit.fake_quantize_per_channel_affine(parameter, S, Z, 0, -8, 7)
    assert type(y) is torch.Tensor and not y.requires_grad
    assert_same(y, want)


def test_inference_mode():
    with torch.inference_mode():
        y = isobit.fake_quantize_per_channel_affine(X, S, Z, 0, -8, 7)
    assert y.is_inference()
    assert_same(y.clone(), isobit.fake_quantize_per_channel_affine(X, S, Z, 0, -8, 7))


def test_a_profiler_sees_every_op():
    """Also those that go past torch's dispatcher otherwise."""
    x, image, grid = draw(4, 8), draw(1, 2, 5, 5).requires_grad_(), draw(1, 3, 3, 2)
    for profile in (torch.profiler.profile, torch.autograd.profiler.profile):
        with profile() as profiled:
            isobit.quantize_per_tensor(x, 0.1, 0, -8, 7, torch.int8)
            isobit.embedding(torch.tensor([1, 2]), x)
            isobit.grid_sample(image, grid).sum().backward()
        seen = {event.key.removeprefix("isobit::") for event in profiled.key_averages()}
        assert {"quantize_per_tensor", "embedding", "grid_sample", "grid_sample_backward"} <= seen


def test_flops_are_counted_as_linear_says():
    from torch.utils.flop_counter import FlopCounterMode

    mapping = {torch.ops.isobit.matmul: lambda x, y, *_, **__: 2 * math.prod(x) * y[-1]}
    x, w, batch = draw(4, 8).requires_grad_(), draw(3, 8, seed=1).requires_grad_(), draw(5, 8, 3)
    for ours, theirs in ((isobit.linear, torch.nn.functional.linear), (isobit.matmul, torch.matmul)):
        counts = []
        for function in (ours, theirs):
            with FlopCounterMode(display=False, custom_mapping=mapping) as counted:
                y = function(x, w) if "linear" in ours.__name__ else function(x.expand(5, 4, 8), batch)
                y.sum().backward()
            counts.append(counted.get_total_flops())
        assert counts[0] == counts[1] > 0


def test_the_op_that_scales_rows_tells_autograd():
    """torch.ops.isobit.embedding_renorm_, too: torch itself does not count what a library's op writes."""
    scale = torch.ops.isobit.embedding_renorm_
    weight, rows = torch.ones(6, 4, requires_grad=True), torch.tensor([1])
    saved = weight * 9
    y = saved.square()
    with torch.no_grad():
        scale(saved, rows, 0.1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    for wanted in (weight, weight * 1):
        with pytest.raises(RuntimeError, match="weight requires a gradient; call it under torch.no_grad"):
            scale(wanted, rows, 0.1)
    with torch.inference_mode():
        frozen = torch.ones(6, 4)
    with pytest.raises(RuntimeError, match="embedding_renorm_: weight is an inference tensor"):
        scale(frozen, rows, 0.1)
    assert frozen.min() == 1
    with torch.inference_mode():
        scale(frozen, rows, 0.1)
    assert frozen[1].norm() < 0.11
    for f in (scale, isobit.embedding_renorm_, torch.compile(scale, backend="aot_eager", fullgraph=True)):
        plain = torch.ones(6, 4)
        f(plain, rows, 0.1)
        assert plain._version > 0


def test_compiled_autograd_gives_the_gradients():
    from torch._dynamo import compiled_autograd

    leaves = [t.requires_grad_() for t in (X.clone(), S.clone(), draw(3, 6), draw(5, 4), draw(1, 1, 4, 4))]
    graphs = []

    def loss():
        x, s, w, table, image = leaves
        y = isobit.linear(isobit.fake_quantize_per_channel_affine(x, s, None, 0, -8, 7), w)
        rows = isobit.embedding(torch.tensor([1, 2, 2]), table)
        return sum(t.square().sum() for t in (y, rows, isobit.grid_sample(image, torch.zeros(1, 3, 3, 2))))

    want = torch.autograd.grad(loss(), leaves)
    with compiled_autograd._enable(lambda graph: graphs.append(graph) or graph):
        loss().backward()
    assert len(graphs) == 1
    assert_same([t.grad for t in leaves], want)
