"""What convert's docstring says of serving from C, C++ and Go: problems over the tensors of a state_dict."""

import os
import subprocess
import sys

import isobit
import pytest
import torch
from isobit.nn import FakeQuantize, convert, prepare
from kit import assert_same, draw
from nn_models import INT8, TOKENS

M, N, K, V, D = 5, 6, 20, 9, 12


def run(problem, *arguments):
    *inputs, output = arguments
    isobit.Plan(problem).run(*inputs, *(output if isinstance(output, tuple) else (output,)))


def dynamic(x, state):
    q, scale = torch.empty(M, K, dtype=torch.int8), torch.empty(M)
    run(f"dynamic_quantize_per_token x=f32[{M},{K}] q=s8 qmin=-128 qmax=127", x, (q, scale, None))
    return q, scale


def fixed(x, state):
    q, scale = torch.empty(M, K, dtype=torch.int8), state["activation_fake_quantizer.scale"]
    run(f"quantize_per_tensor x=f32[{M},{K}] zero_point=none q=s8 qmin=-128 qmax=127", x, scale, None, q)
    return q, scale.expand(M)


def integer(codes_of):
    def serve(x, state):
        q, scale = codes_of(x, state)
        y, weight = torch.empty(M, N), (state["weight.codes"], state["weight.scale"])
        run(f"quantized_linear x=s8[{M},{K}] weight=s8[{N},{K}]", q, scale, *weight, state["bias"], y)
        return y

    return serve


def tokens(x, state):
    q, scale, zero = torch.empty(M, K, dtype=torch.int8), torch.empty(M), torch.empty(M, dtype=torch.int32)
    problem = f"dynamic_quantize_per_token x=f32[{M},{K}] q=s8 zero_point=i32 qmin=-128 qmax=127 symmetric=false"
    run(problem, x, (q, scale, zero))
    return q, scale, zero


def whole(x, state):
    q, parameters = torch.empty(M, K, dtype=torch.uint8), [state[f"activation_fake_quantizer.{n}"] for n in ("scale", "zero_point")]  # fmt: skip
    run(f"quantize_per_tensor x=f32[{M},{K}] zero_point=i32 q=u8 qmin=0 qmax=255", x, *parameters, q)
    return q, *(t.expand(M) for t in parameters)


def integer_groups(codes_of, dtype, size):
    def serve(x, state):
        q, scale, zero = codes_of(x, state)
        y, weight = torch.empty(M, N), (state["weight.codes"], state["weight.scale"].reshape(N, -1), None)
        words = f"x={'s8' if q.dtype == torch.int8 else 'u8'}[{M},{K}] x_zero_point=i32 weight={dtype}[{N},{K}]"
        problem = f"quantized_linear_per_group {words} group_size={size}"
        run(problem, q, scale, zero, *weight, state["bias"], y)
        return y

    return serve


def codes(dtype, size):
    def serve(x, state):
        y, scale = torch.empty(M, N), state["weight.scale"].reshape(N, -1)
        problem = f"weight_only_linear x=f32[{M},{K}] weight={dtype}[{N},{K}] group_size={size}"
        run(problem, x, state["weight.codes"], scale, None, state["bias"], y)
        return y

    return serve


SYMMETRIC = FakeQuantize.with_args(dtype=torch.qint8, qscheme=torch.per_tensor_symmetric)
AFFINE = FakeQuantize.with_args(dtype=torch.quint8)
INT4 = {"dtype": "int4", "group_size": 8}
LAYERS = {
    "dynamic": ((INT8, TOKENS), integer(dynamic)),
    "fixed": ((INT8, SYMMETRIC), integer(fixed)),
    "affine": ((INT8, AFFINE), integer_groups(whole, "s8", K)),
    "int4 tokens": ((INT4, TOKENS | {"is_symmetric": False}), integer_groups(tokens, "s4", 8)),
    "int4": ((INT4, None), codes("s4", 8)),
}


def served_layer(name):
    torch.manual_seed(0)
    layer = prepare(torch.nn.Linear(K, N), *LAYERS[name][0])
    layer(draw(M, K))
    return convert(layer)


@pytest.mark.parametrize("name", LAYERS)
def test_a_linear_layer(name):
    layer, x = served_layer(name), draw(M, K)
    assert_same(LAYERS[name][1](x, layer.state_dict()), layer(x))


@pytest.mark.parametrize("groups", (1, 2))
@pytest.mark.parametrize("name", ("fixed", "affine"))
def test_a_convolution(name, groups):
    torch.manual_seed(0)
    conv_weight, conv_activation = LAYERS[name][0]
    layer = torch.nn.Conv2d(4, N, 3, padding=1, groups=groups)
    layer, x = prepare(layer, conv_weight=conv_weight, conv_activation=conv_activation), draw(2, 4, 5, 3)
    layer(x)
    served = convert(layer)
    state = served.state_dict()
    scale, zero_point = (state.get(f"activation_fake_quantizer.{n}") for n in ("scale", "zero_point"))
    q = torch.empty_like(x, dtype=torch.int8 if name == "fixed" else torch.uint8)
    if name == "fixed":
        run("quantize_per_tensor x=f32[2,4,5,3] zero_point=none q=s8 qmin=-128 qmax=127", x, scale, None, q)
    else:
        run("quantize_per_tensor x=f32[2,4,5,3] q=u8 qmin=0 qmax=255", x, scale, zero_point, q)
    around = torch.full((2, 4, 7, 5), 0 if name == "fixed" else int(zero_point), dtype=q.dtype)
    around[:, :, 1:-1, 1:-1] = q
    around, parts, c, n = around.permute(0, 2, 3, 1), [], 4 // groups, N // groups
    for g in range(groups):
        own, rows = around[..., g * c : (g + 1) * c], slice(g * n, (g + 1) * n)
        at = [(b, i, j) for b in range(2) for i in range(5) for j in range(3)]
        patches = torch.stack([own[b, i : i + 3, j : j + 3].flatten() for b, i, j in at])
        y, codes, w_scale = torch.empty(len(at), n), *(state[f"weight.{t}"][rows] for t in ("codes", "scale"))
        bias, scales, shapes = state["bias"][rows], scale.expand(len(at)), f"[{len(at)},{9 * c}] weight=s8[{n},{9 * c}]"
        if name == "fixed":
            run(f"quantized_linear x=s8{shapes}", patches, scales, codes, w_scale, bias, y)
        else:
            words = shapes.replace(" ", " x_zero_point=i32 ")
            problem = f"quantized_linear_per_group x=u8{words} group_size={9 * c}"
            run(problem, patches, scales, zero_point.int().expand(len(at)), codes, w_scale[:, None], None, bias, y)
        parts.append(y.reshape(2, 5, 3, n))
    assert_same(torch.cat(parts, -1).permute(0, 3, 1, 2).contiguous(), served(x))


def test_an_embedding():
    table = convert(prepare(torch.nn.Embedding(V, D), embedding=INT4 | {"is_symmetric": False}))
    state, indices, y = table.state_dict(), torch.tensor([3, 0, 8, 3, 1]), torch.empty(M, D)
    problem = (
        f"weight_only_embedding_bag weight=s4[{V},{D}] indices=i64[{M},1] weight_zero_point=i32 group_size=8 mode=sum"
    )
    parameters = state["weight.scale"], state["weight.zero_point"]
    run(problem, state["weight.codes"], indices.reshape(M, 1), None, None, *parameters, y)
    assert_same(y, table(indices))


PROGRAM = """
import sys, torch
torch.load(sys.argv[1], weights_only=False)(torch.ones(5, 20))
"""


def test_a_process_prints_the_problems(tmp_path):
    torch.save(served_layer("affine"), tmp_path / "layer.pt")
    command, env = [sys.executable, "-c", PROGRAM, tmp_path / "layer.pt"], os.environ | {"ISOBIT_VERBOSE": "1"}
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=300).stderr
    problems = [line.split('"')[1] for line in said.splitlines() if line.startswith("isobit: select")]
    assert problems == [
        f"quantize_per_tensor x=f32[{M},{K}] q=u8 qmin=0 qmax=255",
        f"quantized_linear_per_group x=u8[{M},{K}] x_zero_point=i32 weight=s8[{N},{K}] group_size={K}",
    ]
