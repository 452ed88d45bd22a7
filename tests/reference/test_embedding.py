"""Section 5 against loops that follow the text."""

import numpy as np

from reference import BF16, floats, run
from reference.sums import stripe

SEED = 20260104


def test_rows_are_copied():
    w = np.array([[1.0, -0.0], [np.nan, np.inf], [3.0, 4.0]], np.float32)
    (y,) = run("embedding weight=f32[3,2] indices=i64[4]", [w, np.array([2, 0, 1, 0])])
    assert y.tobytes() == w[[2, 0, 1, 0]].tobytes()
    (y,) = run("embedding weight=f32[3,2] indices=i32[3] bounds=skip", [w, np.array([-1, 3, 0], np.int32)])
    assert y.tobytes() == np.array([[0, 0], [0, 0], [1, -0.0]], np.float32).tobytes()


def test_backward_follows_the_text():
    rng = np.random.default_rng(SEED)
    v, d, n = 5, 3, 2000
    dy = rng.standard_normal((n, d)).astype(np.float32)
    indices = rng.integers(-1, v + 1, n)
    text = f"embedding_backward grad_output=f32[{n},{d}] indices=i64[{n}] grad_weight=f32[{v},{d}]"
    text += " padding_idx=2"
    for frequent in (False, True):
        (got,) = run(text + (" scale_grad_by_freq=true" if frequent else ""), [dy, indices])
        for row in range(v):
            for column in range(d):
                kept = [dy[i, column] for i in range(n) if indices[i] == row and row != 2]
                sums = []
                for start in range(0, len(kept), 256):
                    total = np.float32(0)
                    for term in kept[start : start + 256]:
                        total = total + term
                    sums.append(total)
                # four hundred or so contributions: two chunks
                want = np.float32(0) if not sums else sums[0] + sums[1] if len(sums) == 2 else sums[0]
                if frequent and kept:
                    want = want / np.float32(len(kept))
                assert got[row, column] == want


def test_accumulating_adds_the_finished_sum_once():
    rng = np.random.default_rng(SEED)
    first = BF16.from_f32(rng.standard_normal((2, 2)).astype(np.float32))
    dy = BF16.from_f32((rng.standard_normal((300, 2)) * 1e-3).astype(np.float32))
    text = "embedding_backward grad_output=bf16[300,2] indices=i64[300] grad_weight=bf16[2,2] accumulate=true"
    (got,) = run(text, [dy, np.zeros(300, np.int64)], initial=[first])
    total = [np.zeros(2, np.float32), np.zeros(2, np.float32)]
    for i in range(300):
        total[i // 256] = total[i // 256] + dy.to_f32()[i]
    want = BF16.from_f32(first.to_f32()[0] + (total[0] + total[1]))
    assert got.bits[0].tolist() == want.bits.tolist()
    assert got.bits[1].tolist() == first.bits[1].tolist()


def test_max_norm():
    rng = np.random.default_rng(SEED)
    w = rng.standard_normal((4, 100)).astype(np.float32)
    w[1] *= np.float32(1e-3)
    indices = np.array([0, 0, 1, 3])
    for p in (1, 2, "inf"):  # p = 0 and -inf: tests/python, beside torch
        text = f"embedding_renorm weight=f32[4,100] indices=i64[4] max_norm=1.5 norm_type={p}"
        (got,) = run(text, [w, indices])
        assert np.array_equal(got[1:3], w[1:3])
        for row in (0, 3):
            x = w[row]
            norm = {
                1: lambda x=x: stripe(np.abs(x)),
                2: lambda x=x: np.sqrt(stripe(x * x)),
                "inf": lambda x=x: np.max(np.abs(x)),
            }[p]()
            want = x * (np.float32(1.5) / (norm + np.float32(1e-7)))
            assert got[row].tobytes() == want.tobytes()
            order = np.inf if p == "inf" else p
            assert abs(np.linalg.norm(floats.widen(got[row], np.float64), order) - 1.5) < 1e-5
