"""Random problems through the C library, compared bit for bit with tests/reference.

As a test it runs some hundred problems from a fixed seed. As a program it goes on for longer:

    python tests/python/test_against_reference.py --seed 7 --count 20000 [--op grid_sample] [--package]

--package runs them through isobit.Plan on torch tensors instead.

A failure prints its seed: the same seed with --count 1 runs that problem alone.
"""

import argparse
import copy
import functools
import math
import sys

import callers  # before reference, which it finds
import numpy as np
import pytest
import reference
from callers import Library, Package, Placed, library_path
from reference.random_problems import Draw

SEED = 1
COUNT = 3000


def expand_some(array, rng):
    """Now and then the array with one slice repeated along an axis, so that it can be expanded."""
    shape = reference.shape_of(array)
    if not shape or math.prod(shape) == 0 or rng.random() < 0.85:
        return array
    raw = array.bits if isinstance(array, reference.BF16) else array
    axis = int(rng.integers(len(shape)))
    raw = np.ascontiguousarray(np.broadcast_to(np.take(raw, [0], axis), shape))
    return reference.BF16(raw) if isinstance(array, reference.BF16) else raw


@functools.cache  # for all ways to call the library
def drawn(seed, op):
    """The problem of a seed, with its inputs and the reference's results; and what draws the rest."""
    rng = np.random.default_rng(seed)
    draw = Draw(rng, op)
    inputs = [None if a is None else expand_some(a, rng) for a in draw.inputs]
    return rng, draw, inputs, reference.run(draw.text, inputs, initial=draw.initial)


def one(library, seed, op=None):
    """Runs the problem of a seed; returns what is wrong with the results, or None."""
    rng, draw, inputs, want = copy.deepcopy(drawn(seed, op))
    in_place = draw.arguments[0][1] == "inout"
    compact = rng.random() < 0.5  # all tensors, as the fast rows want them
    placed = [None if a is None else Placed(a, rng, in_place and i == 0, compact) for i, a in enumerate(inputs)]
    outputs = placed[:1] if in_place else []
    if not in_place:
        first = draw.initial or [None if w is None else np_like(w) for w in want]
        outputs = [None if a is None else Placed(a, rng, True, compact) for a in first]
        placed += outputs
    threads = int(rng.choice([1, 2, 3, 8]))
    row = str(rng.choice(["", *library.rows[draw.op]]))
    where = f"seed {seed}: {draw.text}\n  threads {threads}, row {row!r}, strides " + str(
        [p and list(map(int, p.strides)) for p in placed]
    )
    try:
        if not library.run(draw.text, placed, threads, row):
            return None
    except (RuntimeError, ValueError, TypeError) as error:
        return f"{where}\n  {error!r}"
    for i, (tensor, expected) in enumerate(zip(outputs, want, strict=True)):
        if tensor is None:
            continue
        got = tensor.array()
        wrong = np.argwhere(~reference.same_bits(got, expected))
        if len(wrong):
            at = tuple(int(v) for v in wrong[0])
            values = [v.to_f32() if isinstance(v, reference.BF16) else v for v in (got, expected)]
            return (
                f"{where}\n  output {i}: {len(wrong)} of {expected.size} elements differ; "
                f"at {at} got {values[0][at]!r}, want {values[1][at]!r}"
            )
        if not tensor.untouched_beside():
            return f"{where}\n  output {i}: written beside its elements"
    for i, tensor in enumerate(placed[: len(inputs)]):
        if tensor is not None and tensor not in outputs and not tensor.unchanged():
            return f"{where}\n  input {i} was written"
    return None


def np_like(want):
    """What an output holds before the run."""
    raw = want.bits if isinstance(want, reference.BF16) else want
    filled = np.frombuffer(bytes([callers.UNTOUCHED]) * raw.nbytes, raw.dtype).reshape(raw.shape)
    return reference.BF16(filled) if isinstance(want, reference.BF16) else filled


@pytest.mark.skipif(library_path() is None, reason="build/libisobit.so is not built")
@pytest.mark.parametrize("package", [False, True], ids=["c", "package"])
def test_random_problems(package):
    library = Library(library_path())
    if package:
        pytest.importorskip("torch")
        library = Package(library.rows)
    print(f"seeds {SEED} to {SEED + COUNT - 1}")
    failures = [f for f in (one(library, seed) for seed in range(SEED, SEED + COUNT)) if f]
    assert not failures, f"{len(failures)} of {COUNT}\n" + "\n".join(failures[:5])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--op")
    parser.add_argument("--package", action="store_true")
    options = parser.parse_args()
    library = Library(library_path())
    if options.package:
        library = Package(library.rows)
    print(f"seeds {options.seed} to {options.seed + options.count - 1}")
    failures = 0
    for seed in range(options.seed, options.seed + options.count):
        failure = one(library, seed, options.op)
        if failure:
            failures += 1
            print(failure, flush=True)
    print(f"{failures} of {options.count} differ")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
