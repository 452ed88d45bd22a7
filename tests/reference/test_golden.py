"""The committed golden files are what the reference computes, and the recipes what they say."""

import hashlib
import json
import sys
from pathlib import Path

import pytest

import reference

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

import data  # noqa: E402 - beside the golden files

FILES = sorted(GOLDEN.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=[p.stem for p in FILES])
def test_goldens_follow_from_their_inputs(path):
    file = json.loads(path.read_text())
    assert file["format"] == 1 and file["family"] == path.stem
    for case in file["cases"]:
        inputs = [t and data.decode(t) for t in case["inputs"]]
        for tensor, array in zip(case["inputs"], inputs, strict=True):
            if tensor and "make" in tensor:
                assert hashlib.sha256(reference.bits_of(array)).hexdigest() == tensor["sha256"]
        initial = [data.decode(t) for t in case["initial"]] if "initial" in case else None
        got = reference.run(case["problem"], inputs, initial=initial)
        for result, want in zip(got, case["outputs"], strict=True):
            assert (result is None) == (want is None), case["problem"]
            if want is None:
                continue
            if "data" in want:
                assert reference.same_bits(result, data.decode(want)).all(), case["problem"]
            else:
                assert hashlib.sha256(reference.bits_of(result)).hexdigest() == want["sha256"]


def test_splitmix64_as_published():
    """The first draws from seed 1234567, as the generator's author lists them."""
    want = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(v) for v in data.splitmix64(1234567, 4)] == want


def test_files_name_every_op_and_type():
    seen = {}
    for path in FILES:
        for case in json.loads(path.read_text())["cases"]:
            problem = reference.parse(case["problem"])
            seen.setdefault(problem.op, set()).add(next(t["dtype"] for t in case["inputs"] if t))
    assert set(seen) == set(reference.OPS), "tests/golden/make.py lists the families of cases"
    for op, first in seen.items():  # dequantize takes codes that are floats, too
        assert first <= {"s8", "u8"} or first >= {"f32", "f64", "f16", "bf16"}, f"{op}: first inputs are {first} only"


def test_no_file_is_large():
    sizes = {path.name: path.stat().st_size for path in FILES}
    assert sizes and max(sizes.values()) < 850_000, f"draw fewer cases, or larger inputs as recipes: {sizes}"
