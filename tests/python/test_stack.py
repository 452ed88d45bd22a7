"""isobit within what surrounds it in training: autocast, compiled steps."""

import io
import warnings

import isobit
import pytest
import torch
import torch._dynamo.testing
from isobit.nn import FakeQuantize, HistogramObserver, LearnableFakeQuantize, QuantizedLinear, convert, prepare
from kit import assert_same, draw, python
from nn_models import INT8, MODELS, TOKENS
from programs import PROGRAMS, leaves


@pytest.mark.parametrize("kind", ("quantized", "codes"))
def test_autocast_leaves_gradients_alone(kind):
    """Wherever backward is called: within autocast, outside of it, in compiled code."""
    layer = QuantizedLinear(8, 5) if kind == "quantized" else prepare(torch.nn.Linear(8, 5), INT8, TOKENS)

    def gradients(run, enabled, within):
        x = draw(6, 8).requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss = run(x).square().sum()
            if within:
                return torch.autograd.grad(loss, (x, *layer.parameters()))
        return torch.autograd.grad(loss, (x, *layer.parameters()))

    want = gradients(layer, False, False)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for run, within in ((layer, False), (layer, True), (compiled, False), (compiled, True)):
        assert_same(gradients(run, True, within), want)


def test_autocast_leaves_gradients_of_weight_only_linear_alone():
    codes, scale = torch.arange(40, dtype=torch.int8).view(5, 8), draw(5, 2).abs()

    def linear(x, scale):
        return isobit.weight_only_linear(x, codes, scale, group_size=4)

    def gradients(run, enabled, within):
        leaves = draw(6, 8).requires_grad_(), scale.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss = run(*leaves).square().sum()
            if within:
                return torch.autograd.grad(loss, leaves)
        return torch.autograd.grad(loss, leaves)

    want = gradients(linear, False, False)
    compiled = torch.compile(linear, fullgraph=True, backend="aot_eager")
    for run, within in ((linear, False), (linear, True), (compiled, False), (compiled, True)):
        assert_same(gradients(run, True, within), want)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_a_learned_scale_is_compiled_once_for_all_batches(dtype):
    """LSQ's factor depends on the batch's size; gradients keep the bits that it gives in eager code."""
    lsq = {"quant_min": -8, "quant_max": 7, "learn_zero_point": True}
    ours = prepare(
        torch.nn.Linear(8, 5, bias=False, dtype=dtype),
        lambda: LearnableFakeQuantize(**lsq),
        lambda: LearnableFakeQuantize(**lsq),
    )
    ours(draw(6, 8).to(dtype))
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(ours, fullgraph=True, dynamic=True, backend=counter)
    compiles = []
    for n in (7, 3, 64, 2, 5):
        x, up = draw(n, 8, seed=n).to(dtype), draw(n, 5, seed=n + 1).to(dtype)
        got, want = (torch.autograd.grad(run(x), ours.parameters(), up) for run in (compiled, ours))
        assert_same(got, want)
        compiles.append(counter.frame_count)
    assert compiles[-1] == compiles[0]


def test_a_histogram_breaks_a_compiled_graph_where_it_is_asked():
    fake, compiled = (FakeQuantize(HistogramObserver, bins=64) for _ in range(2))
    torch._dynamo.utils.counters.clear()
    run = torch.compile(compiled, backend="eager")
    for factor in (1, 3):
        x = draw(6, 8) * factor
        assert_same(run(x), fake(x))
    assert_same(compiled.activation_post_process.histogram, fake.activation_post_process.histogram)
    reasons = torch._dynamo.utils.counters["graph_break"]
    assert reasons and not any("Data-dependent" in reason or "bisect" in reason for reason in reasons)


def test_replicas_that_would_start_apart_are_told():
    """On two processes, of which torch's stand-in for a network plays one."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    lsq = LearnableFakeQuantize.with_args(channels=None)
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        for activation, shown, warned in ((lsq, False, 1), (lsq, True, 0), (TOKENS, False, 0)):
            model = prepare(torch.nn.Linear(8, 5), lsq, activation)
            if shown:
                model(draw(4, 8))
            replica = torch.nn.parallel.DistributedDataParallel(model)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                replica(draw(4, 8))
            assert len([w for w in caught if "before DistributedDataParallel" in str(w.message)]) == warned
    finally:
        torch.distributed.destroy_process_group()


def test_a_first_scale_that_is_lost_is_an_error():
    """fully_shard fills the parameters that it lends anew for each forward."""
    from torch.distributed.fsdp import fully_shard

    def steps(shown, wrap):
        model = prepare(torch.nn.Linear(8, 5), LearnableFakeQuantize.with_args(channels=None), TOKENS)
        if shown:
            model(draw(4, 8))
        wrap(model)
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        for _ in range(3):
            model(draw(4, 8)).square().sum().backward()
            optimizer.step()

    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
        with pytest.raises(RuntimeError, match="before fully_shard"):
            steps(False, lambda model: fully_shard(model, mesh=mesh))
        steps(True, lambda model: fully_shard(model, mesh=mesh))
        steps(False, lambda model: model)
    finally:
        torch.distributed.destroy_process_group()


def test_a_torch_without_the_exchange_table():
    """PyTorch before 2.10 gives tensors by __dlpack__, which knows neither 8-bit floats nor negative views."""
    program = """
        import torch
        torch.Tensor.__dlpack_c_exchange_api__ = torch.nn.Parameter.__dlpack_c_exchange_api__ = None
        import isobit
        x = torch.arange(-6.0, 6.0).reshape(3, 4)
        y = isobit.quantize_per_tensor(x, 0.5, None, -448, 448, torch.float8_e4m3fn)
        assert torch.equal(isobit.dequantize_per_tensor(y, 0.5, None, -448, 448, torch.float8_e4m3fn), x)
        negative = torch.view_as_complex(x.reshape(3, 2, 2)).conj().imag
        q = isobit.quantize_per_tensor(negative, 1.0, 0, -8, 7, torch.int8)
        assert negative.is_neg() and torch.equal(q, -x[:, 1::2].to(torch.int8))
        layer = torch.nn.Linear(4, 2)
        isobit.quantized_linear(x, layer.weight, layer.bias).sum().backward()
        assert layer.weight.grad.abs().sum() > 0
        try:
            isobit.quantize_per_tensor(x.to_sparse(), 0.5, 0, -8, 7, torch.int8)
        except (TypeError, ValueError) as error:
            print(error)
    """
    assert "input" in python(program)


def test_averages_of_models_take_buffers():
    model = prepare(torch.nn.Linear(8, 5), INT8, LearnableFakeQuantize.with_args(learn_zero_point=True))
    average = torch.optim.swa_utils.AveragedModel(model, use_buffers=True)
    for i in range(3):
        model(draw(4, 8, seed=i))
        average.update_parameters(model)
    x = draw(4, 8)
    assert_same(average.eval()(x).detach(), model.eval()(x).detach())
    old = {name: t.bool() if name.endswith("initialized") else t for name, t in model.state_dict().items()}
    model.load_state_dict(old)  # of when it was a bool
    assert model.activation_fake_quantizer.initialized.dtype == torch.uint8


@pytest.mark.skipif(torch.__version__ < "2.12", reason="AOTInductor passes any library's ops a wrong dtype")
def test_a_packaged_model_serves_the_same_bits(tmp_path):
    """AOTInductor compiles what torch.export made, and loads it where isobit is imported."""
    model, x = prepare(torch.nn.Linear(8, 5), INT8, TOKENS), draw(3, 8)
    model(x)
    served = convert(model)
    with torch.no_grad():
        path = str(tmp_path / "model.pt2")
        torch._inductor.aoti_compile_and_package(torch.export.export(served, (x,)), package_path=path)
        assert_same(torch._inductor.aoti_load_package(path)(x), served(x))


def keepable(graph, inputs):
    """A backend that raises where torch's caches would not keep what comes of a graph."""
    from torch._functorch._aot_autograd.autograd_cache import check_cacheable

    check_cacheable(graph)
    return graph


@pytest.mark.parametrize("name", ("matmul", "quantized_linear", "static", "groups", "learned"))
def test_torch_keeps_what_it_compiled(name):
    """For the next process, which then starts sooner: but no graph with an autograd.Function in it."""
    function, args = PROGRAMS.get(name, (None, (draw(4, 8),)))
    if function is None:
        function = prepare(torch.nn.Linear(8, 5), *MODELS[name])
        function(*args)
    torch.compile(function, backend=keepable, fullgraph=True)(*leaves(args, True)).sum().backward()


@pytest.mark.parametrize("strict", (False, True))
def test_an_exported_layer_trains(strict):
    """torch.export keeps no autograd.Function, and what serves has no gradient of its own."""
    x, up = draw(4, 8), draw(4, 5)
    for layer in (QuantizedLinear(8, 5), prepare(torch.nn.Linear(8, 5), *MODELS["static"])):
        layer(x)
        program = torch.export.export(layer, (x,), strict=strict)
        exported = program.module()
        y, want = exported(x), layer(x)
        assert_same(y.detach(), want.detach())
        names = [name for name, _ in layer.named_parameters()]
        got = torch.autograd.grad(y, [exported.get_parameter(name) for name in names], up)
        assert_same(got, torch.autograd.grad(want, list(layer.parameters()), up))
        calls = [str(node.target) for node in program.run_decompositions().graph.nodes]
        assert "isobit.quantized_linear_codes.default" in calls  # what serves, and nothing of its gradient
        assert not any(call.startswith("isobit.fake_quantize") for call in calls)


def test_importing_isobit_imports_no_compiler():
    """It takes seconds, and eager programs never need it."""
    assert python("import torch, sys; import isobit; print('torch._dynamo' in sys.modules)") == "False\n"


@pytest.mark.parametrize("layer", (isobit.nn.Embedding, isobit.nn.EmbeddingBag))
def test_exported_max_norm_loads(layer):
    model, indices = layer(5, 4, max_norm=0.5), torch.tensor([[0, 1]])
    file = io.BytesIO()
    torch.export.save(torch.export.export(model, (indices,)), file)
    file.seek(0)
    assert torch.equal(torch.export.load(file).module()(indices), model(indices))
