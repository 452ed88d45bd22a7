"""Random problems through the C library, compared bit for bit with tests/reference.

As a test it runs some hundred problems from a fixed seed. As a program it goes on for longer:

    python tests/python/test_against_reference.py --seed 7 --count 20000 [--op grid_sample] [--package]

--package runs them through isobit.Plan on torch tensors instead.

A failure prints its seed: the same seed with --count 1 runs that problem alone.
"""

import argparse
import copy
import ctypes
import functools
import json
import math
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import reference  # noqa: E402 - beside this folder
from reference.random_problems import Draw  # noqa: E402

SEED = 1
COUNT = 3000
# DLPack's type codes and widths.
TYPES = {
    "f32": (2, 32),
    "f64": (2, 64),
    "f16": (2, 16),
    "bf16": (4, 16),
    "s8": (0, 8),
    "u8": (1, 8),
    "s16": (0, 16),
    "u16": (1, 16),
    "i32": (0, 32),
    "i64": (0, 64),
}
UNTOUCHED = 0xA5


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Preference(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("max_workspace", ctypes.c_int64),
        ("row", ctypes.c_char_p),
        ("num_threads", ctypes.c_int32),
    )


def library_path():
    named = os.environ.get("ISOBIT_LIBRARY")
    candidates = [Path(named)] if named else [ROOT / "build" / "libisobit.so"]
    return next((str(p) for p in candidates if p.is_file()), None)


class Unsupported(RuntimeError):
    """No row takes the problem, with this preference."""


class Library:
    """The C interface, as far as this test uses it."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.err = ctypes.create_string_buffer(1000)
        self.rows = {op["op"]: op["rows"] for op in json.loads(self.text(self.lib.isobit_support))}

    def call(self, function, *args):
        status = function(*args, self.err, ctypes.c_size_t(len(self.err)))
        if status:
            kind = Unsupported if status == 3 else RuntimeError
            raise kind(f"status {status}: {self.err.value.decode()}")

    def text(self, function, *args):
        needed = ctypes.c_size_t()
        self.call(function, *args, None, ctypes.c_size_t(0), ctypes.byref(needed))
        buffer = ctypes.create_string_buffer(needed.value)
        self.call(function, *args, buffer, needed, None)
        return buffer.value.decode()

    def run(self, problem, tensors, threads, row):
        plan = ctypes.c_uint64()
        preference = Preference(ctypes.sizeof(Preference), 0, row.encode(), threads)
        create = (self.lib.isobit_plan_create, problem.encode(), ctypes.byref(preference), ctypes.byref(plan))
        try:
            self.call(*create)
        except Unsupported:  # this row does not take the problem; some row must
            preference.row = b""
            self.call(*create)
        size = ctypes.c_uint64()
        self.call(self.lib.isobit_plan_workspace_size, plan, ctypes.byref(size))
        workspace = np.full(size.value + 64, UNTOUCHED, np.uint8)
        at = workspace.ctypes.data + -workspace.ctypes.data % 64
        args = (ctypes.POINTER(DLTensor) * len(tensors))()
        for i, tensor in enumerate(tensors):
            if tensor is not None:
                args[i] = ctypes.pointer(tensor.dl)
        try:
            self.call(
                self.lib.isobit_plan_run,
                plan,
                None,
                ctypes.c_void_p(at if size.value else 0),
                size,
                args,
                ctypes.c_int32(len(tensors)),
            )
        finally:
            self.call(self.lib.isobit_plan_destroy, plan)
        return True


class Package:
    """isobit.Plan on torch tensors that share the placed arrays' memory."""

    def __init__(self, rows):
        import isobit
        import torch

        self.plan, self.torch, self.rows = isobit.Plan, torch, rows

    def tensor(self, placed):
        if placed is None:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of numpy's expanded views
            tensor = self.torch.from_numpy(placed.view)
        return tensor.view(self.torch.bfloat16) if placed.dtype == "bf16" else tensor

    def run(self, problem, tensors, threads, row):
        if any(s < 0 for p in tensors if p for s in p.strides):
            return False  # torch has no such tensors
        try:
            plan = self.plan(problem, row=row or None, num_threads=threads)
        except NotImplementedError:  # the row does not take the problem; some row must
            plan = self.plan(problem, num_threads=threads)
        plan.run(*[self.tensor(p) for p in tensors])
        return True


class Placed:
    """An array laid out in a memory of its own: permuted, with gaps, backwards, expanded."""

    def __init__(self, array, rng, output, compact):
        self.dtype, self.shape = reference.dtype_name(array), reference.shape_of(array)
        raw = array.bits if isinstance(array, reference.BF16) else np.asarray(array)
        rank = len(self.shape)
        compact = compact or rng.random() < 0.4
        order = list(range(rank)) if compact or rng.random() < 0.5 else list(rng.permutation(rank))
        step = 1 if compact else int(rng.choice([1, 1, 2, 3]))
        strides, first = [0] * rank, 0
        for axis in reversed(order):
            extent = self.shape[axis]
            strides[axis] = step
            if not compact and not output and extent > 1 and constant(raw, axis):
                strides[axis] = 0
                continue
            if not compact and rng.random() < 0.2 and extent > 1:
                strides[axis], first = -step, first + step * (extent - 1)
            step *= max(extent, 1)
            step += 0 if compact else int(rng.choice([0, 0, 1, 5]))
        before = int(rng.integers(0, 4))
        size = raw.dtype.itemsize
        self.memory = np.full((before + step + 3) * size + 64, UNTOUCHED, np.uint8)
        start = -self.memory.ctypes.data % 64 + (before + first) * size
        self.view = np.ndarray(self.shape, raw.dtype, self.memory, start, [s * size for s in strides])
        self.view[...] = raw
        given = compact and rng.random() < 0.5
        self.c_shape = (ctypes.c_int64 * rank)(*self.shape)
        self.c_strides = None if given else (ctypes.c_int64 * rank)(*strides)
        offset = int(rng.choice([0, size * before]))
        self.dl = DLTensor(
            self.memory.ctypes.data + start - offset,
            1,
            0,
            rank,
            *TYPES[self.dtype],
            1,
            self.c_shape,
            self.c_strides,
            offset,
        )
        self.before = self.memory.copy()
        self.strides = strides

    def array(self):
        raw = np.ascontiguousarray(self.view).reshape(self.shape)
        return reference.BF16(raw) if self.dtype == "bf16" else raw

    def untouched_beside(self):
        """Whether all bytes outside the elements are as they were."""
        after = self.memory.copy()
        Placed.fill(self, after)
        was = self.before.copy()
        Placed.fill(self, was)
        return np.array_equal(after, was)

    def fill(self, memory):
        offset = self.view.__array_interface__["data"][0] - self.memory.ctypes.data
        np.ndarray(self.shape, self.view.dtype, memory, offset, self.view.strides)[...] = 0

    def unchanged(self):
        return np.array_equal(self.memory, self.before)


def constant(raw, axis):
    """Whether an array may be expanded along an axis: all slices have the same bits."""
    first = np.take(raw, [0], axis)
    return np.broadcast_to(first, raw.shape).tobytes() == np.ascontiguousarray(raw).tobytes()


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
    filled = np.frombuffer(bytes([UNTOUCHED]) * raw.nbytes, raw.dtype).reshape(raw.shape)
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
