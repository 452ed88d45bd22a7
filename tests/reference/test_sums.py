"""The orders of sums against a literal transcription of the contract's section 4."""

import numpy as np
import pytest

from reference import sums

SEED = 20260102
LENGTHS = [0, 1, 2, 3, 15, 16, 17, 31, 33, 63, 64, 65, 96, 127, 128, 129, 257, 1000, 4097]


def terms(count, kind, seed=SEED):
    """Values of very different sizes, so that every order of additions gives another sum."""
    rng = np.random.default_rng(seed + count)
    return (rng.standard_normal(count) * 10.0 ** rng.integers(-4, 5, count)).astype(kind)


def tree(values):
    values = list(values)
    while len(values) > 1:
        level = []
        i = 0
        while i < len(values):
            if i + 1 < len(values):
                level.append(values[i] + values[i + 1])
                i += 2
            else:
                level.append(values[i])
                i += 1
        values = level
    return values[0]


def naive_stripe(x, kind):
    results = []
    for begin in range(0, max(len(x), 1), 65536):
        lanes = []
        for lane in range(64):
            total = kind(0)
            for position in range(begin + lane, min(begin + 65536, len(x)), 64):
                total = kind(total + x[position])
            lanes.append(total)
        for half in (32, 16, 8, 4, 2, 1):
            for lane in range(half):
                lanes[lane] = kind(lanes[lane] + lanes[lane + half])
        results.append(lanes[0])
    return tree(results)


def naive_chunk(x, kind):
    results = []
    total = kind(0)
    for i, value in enumerate(x):
        if i and i % 256 == 0:
            results.append(total)
            total = kind(0)
        total = kind(total + value)
    results.append(total)
    return tree(results)


def naive_group(x, kind):
    total = kind(0)
    for begin in range(0, len(x), 16):
        slots = [x[begin + i] if begin + i < len(x) else kind(0) for i in range(16)]
        for half in (8, 4, 2, 1):
            slots = [kind(slots[i] + slots[i + half]) for i in range(half)]
        total = kind(total + slots[0])
    return total


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("count", [*LENGTHS, 65535, 65536, 65537, 2 * 65536 + 100])
def test_stripe(count, kind):
    x = terms(count, kind)
    got = sums.stripe(x)
    assert got.dtype == kind and got.tobytes() == naive_stripe(x, kind).tobytes()


def test_stripe_folds_many_blocks_pairwise():
    x = terms(5 * 65536 + 7, np.float32)
    blocks = [naive_stripe(x[i : i + 65536], np.float32) for i in range(0, len(x), 65536)]
    assert len(blocks) == 6
    a, b, c, d, e, f = blocks
    want = ((a + b) + (c + d)) + (e + f)
    assert sums.stripe(x) == want == tree(blocks)
    assert tree(blocks[:5]) == ((a + b) + (c + d)) + e
    assert tree(blocks[:3]) == (a + b) + c


def test_stripe_of_many_sums_at_once():
    x = np.stack([terms(200, np.float32, s) for s in range(5)])
    assert np.array_equal(sums.stripe(x), [naive_stripe(row, np.float32) for row in x])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("count", [*LENGTHS, 255, 256, 512, 513, 768, 769, 1300])
def test_chunk(count, kind):
    x = terms(count, kind)
    got = sums.chunk(list(x), kind(0))
    assert got.tobytes() == naive_chunk(x, kind).tobytes()


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("count", LENGTHS)
def test_group(count, kind):
    x = terms(count, kind)
    got = sums.group(x.reshape(count, 1))
    assert got.tobytes() == naive_group(x, kind).tobytes()


def test_orders_differ_from_each_other():
    def all_different(seed):
        x = np.random.default_rng(seed).random(1000).astype(np.float32)
        got = [sums.stripe(x), sums.chunk(list(x), np.float32(0)), sums.group(x.reshape(-1, 1))[0]]
        return len({float(v) for v in got}) == 3

    assert any(all_different(seed) for seed in range(20))


@pytest.mark.parametrize("count", [0, 1, 16, 64, 65, 300])
def test_no_sum_is_minus_zero(count):
    x = np.full(count, -0.0, np.float32)
    for got in (sums.stripe(x), sums.chunk(list(x), np.float32(0)), sums.group(x.reshape(count, 1))[0]):
        assert got == 0 and not np.signbit(got)
