"""Rows of a table of codes have the bits of the whole table, also where a sum of one row would have others: of -0."""

import copy

import pytest
import torch
from isobit.nn import convert, prepare
from kit import assert_same
from nn_models import INT8

ROWS, COLUMNS = 5, 80
CONFIGS = {
    "rows": INT8,
    "bytes": {"dtype": torch.uint8, "granularity": "per_channel", "is_symmetric": False},
    "packed groups": {"dtype": "int4", "group_size": 8},
    "many groups": {"dtype": torch.int8, "granularity": "per_group", "group_size": 4, "is_symmetric": False},
    "short groups": {"dtype": "uint4", "group_size": 2, "is_symmetric": False},
    "tensor": {"dtype": torch.int8, "granularity": "per_tensor", "is_dynamic": False},
    "float8": {"dtype": torch.float8_e4m3fn, "granularity": "per_row"},
}
INDICES = (torch.tensor([4, 0, 4]), torch.tensor(3), torch.tensor([[0, 1], [4, 2]]).int().T, torch.empty(2, 0).long())


def served(config, dtype=torch.float32):
    torch.manual_seed(0)
    table = prepare(torch.nn.Embedding(ROWS, COLUMNS, dtype=dtype), embedding=config)
    table(INDICES[0])
    return convert(table)


def check(table):
    whole = table.weight()
    for indices in INDICES:
        assert_same(table(indices), whole[indices.long()])


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16, torch.float64))
@pytest.mark.parametrize("config", CONFIGS)
def test_rows_are_those_of_the_table(config, dtype):
    table = served(CONFIGS[config], dtype)
    check(table)
    assert table(INDICES[0]).dtype == dtype


def test_a_padding_row_is_not_trained():
    table = prepare(torch.nn.Embedding(ROWS, COLUMNS, padding_idx=2), embedding=INT8)
    table(torch.tensor([2, 1, 2, 0])).sum().backward()
    assert table.weight.grad.any(1).tolist() == [True, True, False, False, False]


@pytest.mark.parametrize("scale", (0.0, -1.0, 1e-9, 1e-42, float("inf"), float("-inf"), float("nan")))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16))
def test_scales_that_make_negative_zeros(dtype, scale):
    for config in CONFIGS.values():
        table = served(config, dtype)
        check(table)
        table.weight.scale.view(-1)[-1] = scale  # after a call that has seen others
        check(table)
        state = served(config, dtype)
        check(state)
        state.load_state_dict(table.state_dict())
        check(state)
        twin = copy.deepcopy(served(config, dtype))
        twin.weight.scale = table.weight.scale.clone()
        check(twin)


def test_negative_zeros_stay():
    """Where scales are written, or replaced, or the copy's are, or values get narrower, after a call that has seen others."""
    small = 1e-10

    def write(table):
        table.weight.scale.fill_(small)
        return table

    def replace(table):
        table.weight.scale = torch.full_like(table.weight.scale, small)
        return table

    def write_copy(table):
        table.weight.scale.mul_(1).mul_(1)  # to the version that the copy will have
        table(INDICES[0])
        return write(copy.deepcopy(table))

    def narrow(table):
        write(table.float())(INDICES[0])
        return table.half()

    for change in (write, replace, write_copy, narrow):
        table = served({"dtype": torch.int8, "granularity": "per_channel"}, torch.float16)
        table(INDICES[0])
        table = change(table)
        rows = table(INDICES[0])
        assert not rows.any() and torch.equal(torch.signbit(rows), table.weight.codes[INDICES[0]] < 0)
