"""Tensors of other libraries: what a producer of DLPack may give, malformed or not, with the extension's C structs."""

import ctypes
from ctypes import c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p

import isobit
import numpy as np
import pytest

NEW = ctypes.pythonapi.PyCapsule_New
NEW.restype, NEW.argtypes = ctypes.py_object, (c_void_p, ctypes.c_char_p, c_void_p)
DELETER = ctypes.CFUNCTYPE(None, c_void_p)
READ = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p)


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device_id", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("byte_offset", c_uint64),
    )


class Managed(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("context", c_void_p), ("deleter", DELETER))


class ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", DELETER),
        ("flags", c_uint64),
        ("tensor", DLTensor),
    )


class ExchangeTable(ctypes.Structure):
    _fields_ = (
        ("major", c_uint32),
        ("minor", c_uint32),
        ("previous", c_void_p),
        ("allocate", c_void_p),
        ("export", c_void_p),
        ("wrap", c_void_p),
        ("read", READ),
        ("stream", c_void_p),
    )


class Producer:
    """Six floats from 1 on, but for what is said; counts the tensors that were not given back."""

    def __init__(self, versioned=True, shape=(6,), strides=None, major=1, deletes=True, **fields):
        self.out = 0
        self.deleter = DELETER(self.delete) if deletes else DELETER()
        self.name = b"dltensor_versioned" if versioned else b"dltensor"
        self.arrays = [x and (c_int64 * len(x))(*x) for x in (shape, strides)]
        self.arrays.append((ctypes.c_float * 6)(*range(1, 7)))
        shape_at, strides_at, data_at = (x and ctypes.addressof(x) for x in self.arrays)
        tensor = DLTensor(data_at, 1, 0, len(shape or ()), 2, 32, 1, shape_at, strides_at, 0)
        for name, value in fields.items():
            setattr(tensor, name, value)
        legacy = Managed(tensor, None, self.deleter)
        self.managed = ManagedVersioned(major, 0, None, self.deleter, 0, tensor) if versioned else legacy
        self.device = tensor.device_type, tensor.device_id

    def delete(self, _):
        """Runs Python, which must find no exception set."""
        self.out -= len([self])

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **_):
        self.out += bool(self.managed.deleter)
        return NEW(ctypes.addressof(self.managed), self.name, None)


KEPT = []  # tables that the extension has looked up
PLAN = isobit.Plan("quantize_per_tensor x=f32[6] zero_point=none q=s8 qmin=-8 qmax=7")

GOOD = {
    "versioned": {},
    "before 1.0": {"versioned": False},
    "no deleter": {"deletes": False},
    "no deleter, before 1.0": {"versioned": False, "deletes": False},
    "strides": {"strides": (1,)},
    "pinned": {"device_type": 3},
}
BAD = {
    "speaks DLPack 2; want 1": {"major": 2},
    "its __dlpack__ gave 1 dimensions without a shape": {"shape": None, "ndim": 1},
    "its __dlpack__ gave -1 dimensions without a shape": {"ndim": -1},
    "has ndim 64; want 0 to 8": {"shape": (1 << 40,) * 64},
    "has shape [1099511627776, 1099511627776]; want [6]": {"shape": (1 << 40,) * 2},
    "has shape [-1, -6]; want [6]": {"shape": (-1, -6)},
    "has strides [4611686018427387904], which reach beyond all memory": {"strides": (1 << 62,)},
    "has dtype {code 2, bits 32, lanes 2}": {"lanes": 2},
    "has dtype {code 255, bits 255, lanes 1}": {"code": 255, "bits": 255},
    "has dtype {code 5, bits 64, lanes 1}": {"code": 5, "bits": 64},
    "is bool[6]; want f32[6]": {"code": 6, "bits": 8},
    "has no memory": {"data": None},
    "has data 0x8 and byte_offset 0, which lead to no memory": {"data": 8},
    "is at an address that is not a multiple of its element size, 4": {"byte_offset": 1},
    "which lead to no memory": {"byte_offset": (1 << 64) - 1},
    "is on cuda:0; want cpu": {"device_type": 2},  # also where torch, which is asked for a stream, has no such device
    "is on DLPack device type 8; want cpu (1) or cuda (2)": {"device_type": 8},
    "is on DLPack device type -1; want cpu (1) or cuda (2)": {"device_type": -1},
}


def call(method, producer):
    q = np.full(6, 77, np.int8)
    try:
        method(producer, np.float32([1]), None, q)
    finally:
        assert producer.out == 0
    return q.tolist()


@pytest.mark.parametrize("kind", GOOD)
def test_producers(kind):
    assert call(PLAN.run, Producer(**GOOD[kind])) == [1, 2, 3, 4, 5, 6]
    assert call(PLAN.can_implement, Producer(**GOOD[kind])) == [77] * 6


@pytest.mark.parametrize("versioned", (True, False))
def test_a_number_needs_no_shape(versioned):
    plan, q = isobit.Plan("quantize_per_tensor x=f32[] zero_point=none q=s8 qmin=-8 qmax=7"), np.zeros((), np.int8)
    plan.run(Producer(versioned, shape=None), np.float32([1]), None, q)
    assert q == 1


@pytest.mark.parametrize("versioned", (True, False))
@pytest.mark.parametrize("words", BAD)
def test_malformed_tensors(words, versioned):
    if not versioned and "major" in BAD[words]:
        return  # which those of before 1.0 do not have
    for method in (PLAN.run, PLAN.can_implement):
        with pytest.raises((TypeError, ValueError)) as raised:
            call(method, Producer(versioned=versioned, **BAD[words]))
        assert str(raised.value).startswith("quantize_per_tensor: x") and words in str(raised.value)


@pytest.mark.parametrize("answer", (3, (1,), ("cpu", 0), (1, 1 << 40)), ids=str)
def test_devices_that_are_no_pair_of_ints(answer):
    producer = Producer()
    producer.device = answer
    with pytest.raises(TypeError, match=r"^quantize_per_tensor: x: its __dlpack_device__ gave .*; want two ints"):
        call(PLAN.run, producer)


def test_what_lacks_a_method_is_no_tensor():
    for missing in ("__dlpack__", "__dlpack_device__"):
        kind = type("Half", (), {name: lambda _: (1, 0) for name in {"__dlpack__", "__dlpack_device__"} - {missing}})
        with pytest.raises(TypeError, match="^quantize_per_tensor: x must be a tensor, not Half"):
            PLAN.run(kind(), np.float32([1]), None, np.zeros(6, np.int8))


def test_an_error_of_a_producer_is_raised_at_once():
    """Only one that does not know max_version is asked again, without it."""
    calls = []

    class Refusing(Producer):
        def __dlpack__(self, **_):
            calls.append(1)
            raise BufferError("not exportable")

    with pytest.raises(TypeError, match="quantize_per_tensor: x cannot be read as a DLPack tensor: not exportable"):
        call(PLAN.run, Refusing())
    assert len(calls) == 1


def test_exchange_tables():
    """The first table of a version that is known is taken, if it can read: else the type's __dlpack__."""
    other = Producer(shape=(2, 3))  # whose shape the plan refuses, so that who was asked is seen

    def read(_, to):
        ctypes.memmove(to, ctypes.addressof(other.managed.tensor), ctypes.sizeof(DLTensor))
        return 0

    reads, nothing = READ(read), READ()
    known, mute = ExchangeTable(1, 3, read=reads), ExchangeTable(1, 3, read=nothing)
    newer = ExchangeTable(2, 0, read=reads)
    newer_of_known = ExchangeTable(2, 0, ctypes.addressof(known), read=nothing)
    for table, is_read in ((known, True), (mute, False), (newer, False), (newer_of_known, True)):
        capsule = NEW(ctypes.addressof(table), b"dlpack_exchange_api", None)
        kind = type("Tabled", (Producer,), {"__dlpack_c_exchange_api__": capsule})
        if is_read:
            with pytest.raises(ValueError, match=r"x has shape \[2, 3\]; want \[6\]"):
                call(PLAN.run, kind())
        else:
            assert call(PLAN.run, kind()) == [1, 2, 3, 4, 5, 6]
    KEPT.extend((known, reads))
