"""Checks of arguments. Each raises an error that names the argument, what came and what was wanted."""

from __future__ import annotations

import functools
import json
import operator
import reprlib
from typing import TYPE_CHECKING, Any

import torch
from torch.compiler import is_dynamo_compiling

from . import _C
from ._errors import ArgumentError, UnknownType
from ._load import DTYPES

if TYPE_CHECKING:
    from ._op import Op

MAX_DIMS = 8  # of a tensor, and items of a list: as in _C.h
KNOWN = {d[0] for d in DTYPES}
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
# What plans call torch's dtypes and truth values.
NAMES = {**{name: str(dtype) for dtype, _, _, name in DTYPES}, "true": "True", "false": "False"}
_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype)


def check_dense(op: str, **named: Any) -> None:
    """Raises where an argument is no dense tensor: for functions that read their arguments before the op does."""
    for name, value in named.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{op}: {name} must be a Tensor, not {type(value).__name__}")
        kind = "" if is_dynamo_compiling() else odd_kind(value)
        if kind:
            raise TypeError(f"{op}: {name} is {kind}; want a dense tensor")


def check_floats(op: str, **named: torch.Tensor) -> None:
    """Raises where an argument is not of floats."""
    for name, t in named.items():
        if t.dtype not in FLOATS:
            kind = ArgumentError if t.dtype in KNOWN else UnknownType
            raise kind(f"{op}: {name} is {t.dtype}; want one of {', '.join(map(str, FLOATS))}")


def check_device(op: str, name: str, t: torch.Tensor, first: str, device: torch.device) -> None:
    """Raises, as torch does, where an argument is not on the device that the first one is on."""
    if t.device != device:
        raise RuntimeError(f"{op}: {name} is on {t.device}; want {device}, where {first} is")


def check_kinds(where: str, kind: str, **named: Any) -> None:
    """Raises where a value is not of a kind of _signature.py, nor None where the kind ends in ``?``: for modules and
    functions that are no ops."""
    for name, value in named.items():
        error = None if value is None and kind.endswith("?") else KINDS[kind[0]](None, name, value)
        if error is not None:
            raise error[0](f"{where}: {name} {error[1]}")


def is_numpy_number(value: Any) -> bool:
    """Whether this is a real number of numpy's; its texts, times and complex numbers have no dimensions, either."""
    return type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0 and value.dtype.kind in "biuf"


@functools.cache
def types_by_op() -> dict[str, dict[str, list[str]]]:
    """The types of each argument and the words of each attribute that has some, by op and name."""
    return {
        op["op"]: {a["name"]: a["dtypes"] for a in op["args"]}
        | {a["name"]: a["words"] for a in op["attributes"] if a.get("words")}
        for op in json.loads(_C.support())
    }


def odd_kind(t: torch.Tensor) -> str:
    """What a tensor is whose elements do not simply lie in memory; empty for one that is plain."""
    if torch.nn.parameter.is_lazy(t):
        return "an uninitialized parameter, of a lazy module that has not run yet"
    if t.is_quantized:
        return f"a quantized tensor ({t.dtype})"
    if t.is_nested:
        return "a nested tensor"
    return "" if t.layout == torch.strided else f"a sparse or blocked tensor ({t.layout})"


def types_of(plan: str, name: str) -> str:
    """The types of an argument, for a message."""
    return ", ".join(NAMES.get(t, t) for t in types_by_op()[plan][name])


def spell(value: Any) -> str:
    """A value in a message: short, on one line."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an int of {value.bit_length()} bits"
    if isinstance(value, (list, tuple)):
        if all(isinstance(v, _PLAIN) and not (isinstance(v, int) and v.bit_length() > 256) for v in value):
            return reprlib.repr(value)
    elif isinstance(value, _PLAIN):
        return reprlib.repr(value) if isinstance(value, (str, bytes)) else repr(value)
    return type(value).__name__


_Error = tuple[type[Exception], str] | None  # and the text behind the argument's name


def _wrong(wanted: str, value: Any) -> _Error:
    return TypeError, f"must be {wanted}, not {spell(value)}"


def _int(op: Op | None, name: str, value: Any) -> _Error:
    if isinstance(value, torch.SymInt):
        return None
    try:
        number = operator.index(value)
    except Exception:  # whatever an object's __index__ raises
        return _wrong("an int", value)
    if isinstance(value, bool):
        return _wrong("an int", value)
    return None if -(1 << 63) <= number < 1 << 63 else (ArgumentError, f"is {spell(number)}; want an int64")


def _float(op: Op | None, name: str, value: Any) -> _Error:
    if isinstance(value, torch.SymFloat):
        return None
    if isinstance(value, (bool, str, bytes)):
        return _wrong("a float", value)
    try:
        float(value)
    except OverflowError:
        return ArgumentError, f"is {spell(value)}; want a float64"
    except Exception:  # whatever an object's __float__ raises
        return _wrong("a float", value)
    return None


def _bool(op: Op | None, name: str, value: Any) -> _Error:
    known = isinstance(value, (bool, torch.SymBool)) or type(value).__name__ in ("bool", "bool_")  # numpy's
    return None if known else _wrong("a bool", value)


def _word(op: Op | None, name: str, value: Any) -> _Error:
    if not isinstance(value, str) or op is None:
        return None if isinstance(value, str) else _wrong("a str", value)
    words = types_by_op()[op.plan][name]
    return None if value in words else (ArgumentError, f"is {spell(value)}; want one of {', '.join(words)}")


def _ints(op: Op | None, name: str, value: Any) -> _Error:
    if not isinstance(value, (list, tuple)):
        return _wrong("a list of ints", value)
    if len(value) > MAX_DIMS:
        return ArgumentError, f"has {len(value)} items; want at most {MAX_DIMS}"
    wrong = (_int(op, name, item) for item in value)
    kind = next((error[0] for error in wrong if error), None)
    if kind is ArgumentError:
        return kind, "has an item that is no int64; want ints"
    return None if kind is None else _wrong("a list of ints", value)


def _dtype(op: Op | None, name: str, value: Any) -> _Error:
    if not isinstance(value, torch.dtype):
        return _wrong("a torch.dtype", value)
    if value in KNOWN or op is None:
        return None
    s = op.signature
    tensors = [o.name for o in s.outputs if s.dtype_argument(o) == name] or [i.name for i in s.inputs if i.codes]
    return UnknownType, f"is {value}; want one of {types_of(op.plan, tensors[0])}"


# What is wrong with a value, or None: by the kinds of _signature.py.
KINDS = {
    **dict.fromkeys("iIxe", _int),
    **dict.fromkeys("fF", _float),
    **dict.fromkeys("bBw", _bool),
    **dict.fromkeys("lL", _ints),
    **dict.fromkeys("dm", _dtype),
    "s": _word,
}
