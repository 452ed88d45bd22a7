"""Ways to run a problem on NumPy arrays: the C library by ctypes, and isobit.Plan. And the arrays, in every layout."""

import ctypes
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import reference  # noqa: E402 - beside this folder

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
