"""Storage types, compute types, and the single rounding between them (contract, sections 1 and 2).

f16, bf16 and f32 compute in f32; f64 computes in f64. `widen` takes stored values to a compute
type and `store` rounds computed values once, ties to even, to a storage type.
"""

import numpy as np

NUMPY = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "s8": np.int8,
    "u8": np.uint8,
    "s16": np.int16,
    "u16": np.uint16,
    "i32": np.int32,
    "i64": np.int64,
}
FLOATS = ("f32", "f64", "f16", "bf16")
INTEGERS = ("s8", "u8", "s16", "u16", "i32", "i64")


class BF16:
    """A bfloat16 array: the upper halves of f32 patterns, held as uint16."""

    def __init__(self, bits):
        bits = np.asarray(bits)
        if bits.dtype != np.uint16:
            raise TypeError(f"BF16 holds uint16 patterns, got {bits.dtype}")
        self.bits = bits

    @property
    def shape(self):
        return self.bits.shape

    @property
    def size(self):
        return self.bits.size

    def reshape(self, *shape):
        return BF16(self.bits.reshape(*shape))

    def to_f32(self):
        return (self.bits.astype(np.uint32) << np.uint32(16)).view(np.float32)

    @staticmethod
    def from_f32(values):
        """Round f32 to bf16, ties to even. A NaN stays a NaN."""
        values = np.asarray(values)
        if values.dtype != np.float32:
            raise TypeError(f"from_f32 takes float32, got {values.dtype}")
        pattern = values.view(np.uint32).astype(np.uint64)
        last = (pattern >> np.uint64(16)) & np.uint64(1)
        rounded = ((pattern + np.uint64(0x7FFF) + last) >> np.uint64(16)).astype(np.uint16)
        return BF16(np.where(np.isnan(values), np.uint16(0x7FC0), rounded).astype(np.uint16))

    @staticmethod
    def from_f64(values):
        """Round f64 to bf16 once: through f32 rounded to odd, which loses no tie."""
        return BF16.from_f32(round_to_odd(values))

    def __repr__(self):
        return f"BF16({self.to_f32()!r})"


def round_to_odd(values):
    """f64 to f32: exact values as they are, others cut towards zero with the last bit set."""
    values = np.asarray(values, dtype=np.float64)
    nearest = values.astype(np.float32)
    exact = (nearest.astype(np.float64) == values) | np.isnan(values)
    too_far = np.abs(nearest.astype(np.float64)) > np.abs(values)
    pattern = np.ascontiguousarray(nearest).view(np.uint32)
    odd = (pattern - too_far.astype(np.uint32)) | np.uint32(1)
    return np.where(exact, pattern, odd).astype(np.uint32).view(np.float32).reshape(values.shape)


def dtype_name(array):
    """The dtype's name in a problem text."""
    if isinstance(array, BF16):
        return "bf16"
    for name, kind in NUMPY.items():
        if array.dtype == kind:
            return name
    raise TypeError(f"no isobit dtype for {array.dtype}")


def shape_of(array):
    return tuple(int(n) for n in array.shape)


def compute_type(name):
    """The type in which a float dtype computes."""
    if name not in FLOATS:
        raise TypeError(f"{name} is not a float dtype")
    return np.float64 if name == "f64" else np.float32


def widen(array, ct):
    """Stored values as the compute type `ct`: exact, or for a wider parameter or an integer one
    rounding to nearest."""
    with np.errstate(all="ignore"):
        return (array.to_f32() if isinstance(array, BF16) else np.asarray(array)).astype(ct)


def scalar(value, ct):
    """A Python number as the compute type: one rounding to nearest."""
    return ct(value)


def store(values, name):
    """Computed floats rounded once to a float storage type."""
    values = np.asarray(values)
    if values.dtype not in (np.float32, np.float64):
        raise TypeError(f"store takes computed floats, got {values.dtype}")
    if name == "bf16":
        return BF16.from_f64(values) if values.dtype == np.float64 else BF16.from_f32(values)
    return values.astype(NUMPY[name])


FLOAT8 = {"f8e4m3": (4, -6), "f8e5m2": (3, -14)}  # digits, and the exponent of the smallest number that has all


def round_float8(values, name):
    """Numbers within the bounds of an 8-bit float as f64, rounded to it once, ties to even."""
    digits, least = FLOAT8[name]
    values = np.asarray(values, np.float64)
    _, exponent = np.frexp(values)  # of a fraction of at least 1/2
    step = np.ldexp(1.0, np.maximum(exponent - 1, least) - (digits - 1))
    return np.rint(values / step) * step


def store_codes(values, name):
    """Clamped whole numbers to a storage type, exactly."""
    values = np.asarray(values)
    if name in FLOATS:
        return store(values, name)
    codes = values.astype(NUMPY[name])
    if not np.array_equal(codes.astype(values.dtype), values):
        raise ValueError(f"codes do not fit {name}")
    return codes


def bits_of(array):
    """The array's compact row-major little-endian bytes."""
    raw = array.bits if isinstance(array, BF16) else array
    return np.ascontiguousarray(raw).astype(raw.dtype.newbyteorder("<")).tobytes()


def array_of_bits(data, name, shape):
    """The inverse of bits_of."""
    kind = np.uint16 if name == "bf16" else NUMPY[name]
    raw = np.frombuffer(data, dtype=np.dtype(kind).newbyteorder("<")).astype(kind)
    raw = raw.reshape(shape)
    return BF16(raw) if name == "bf16" else raw


def same_bits(got, want):
    """An array of bools: equal bit for bit, any NaN equal to any NaN."""
    if dtype_name(got) != dtype_name(want) or shape_of(got) != shape_of(want):
        raise ValueError("arrays of different dtype or shape")
    if isinstance(got, BF16):
        both_nan = np.isnan(got.to_f32()) & np.isnan(want.to_f32())
        return (got.bits == want.bits) | both_nan
    if got.dtype.kind != "f":
        return got == want
    raw = np.dtype(f"u{got.dtype.itemsize}")
    equal = np.ascontiguousarray(got).view(raw) == np.ascontiguousarray(want).view(raw)
    return equal.reshape(got.shape) | (np.isnan(got) & np.isnan(want))
