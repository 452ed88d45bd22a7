"""Arguments on different devices: a RuntimeError, as torch raises, that says where the first one is."""

import re

import isobit
import pytest
import torch
from kit import draw

S, Z = torch.full((4,), 0.5), torch.zeros(4, dtype=torch.int32)
X = draw(4, 6)
CODES = X.to(torch.int8)


def away(t):
    """The tensor on another device, which every machine has."""
    return t.to("meta")


CASES = {
    "matmul: other is on meta; want cpu, where input is": lambda: isobit.matmul(X, away(X.t())),
    "matmul: out is on meta; want cpu, where the result is": lambda: isobit.matmul(X, X.t(), out=away(X @ X.t())),
    "linear: weight is on meta; want cpu, where input is": lambda: isobit.linear(X, away(X)),
    "linear: bias is on meta; want cpu, where input is": lambda: isobit.linear(X, X, away(S)),
    "quantized_linear: weight is on meta; want cpu, where input is": lambda: isobit.quantized_linear(X, away(X)),
    "quantized_linear: bias is on meta; want cpu, where input is": lambda: isobit.quantized_linear(X, X, away(S)),
    "quantized_linear: weight is on cpu; want meta, where input is": lambda: isobit.quantized_linear(away(X), X),
    "quantized_linear_codes: weight_scale is on meta; want cpu, where input is": lambda: isobit.quantized_linear_codes(
        CODES, S, CODES, away(S)
    ),
    "weight_only_linear: weight_scale is on meta; want cpu, where input is": lambda: isobit.weight_only_linear(
        X, CODES, away(draw(4, 2)), group_size=3
    ),
    "embedding: input is on cpu; want meta, where weight is": lambda: isobit.embedding(torch.tensor([1]), away(X)),
    "embedding_bag: offsets is on meta; want cpu, where weight is": lambda: isobit.embedding_bag(
        torch.tensor([1]), X, away(torch.tensor([0]))
    ),
    "grid_sample: grid is on meta; want cpu, where input is": lambda: isobit.grid_sample(
        draw(1, 1, 2, 2), away(draw(1, 2, 2, 2))
    ),
    "quantize_per_channel: zero_points is on meta; want cpu, where input is": lambda: isobit.quantize_per_channel(
        X, S, away(Z), 0, -8, 7, torch.int8
    ),
    "quantize_per_channel: out is on meta; want cpu, where input is": lambda: isobit.quantize_per_channel(
        X, S, Z, 0, -8, 7, torch.int8, out=away(CODES)
    ),
    "dequantize_per_channel_backward: input is on meta; want cpu, where grad_output is": lambda: (
        isobit.dequantize_per_channel_backward(X, away(CODES), S, Z, 0, -8, 7)
    ),
}


@pytest.mark.parametrize("words", CASES)
def test_arguments_on_different_devices(words):
    with pytest.raises(RuntimeError, match=f"^{re.escape(words)}$"):
        CASES[words]()


@pytest.mark.parametrize("case", ("matmul: other", "quantized_linear: bias", "fake_quantize: zero_point"))
def test_with_a_gradient(case):
    leaf = X.clone().requires_grad_()
    call = {
        "matmul: other": lambda: isobit.matmul(leaf, away(X.t())),
        "quantized_linear: bias": lambda: isobit.quantized_linear(leaf, X, away(S)),
        "fake_quantize: zero_point": lambda: isobit.fake_quantize_per_channel_affine(leaf, S, away(Z), 0, -8, 7),
    }[case]
    with pytest.raises(RuntimeError, match=f"{case.partition(': ')[2]} is on meta; want cpu, where input is"):
        call()


def test_where_the_plan_is_the_first_to_see_it():
    """As on a machine with a GPU, where torch calls an op's kernel whatever the device of other arguments."""
    op = isobit._op.OPS["matmul"]
    with pytest.raises(RuntimeError, match="^matmul: other is on meta; want cpu, where input is$"):
        op.checked_run(X, away(X.t()), None)
