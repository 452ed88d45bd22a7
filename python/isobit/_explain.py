"""Why a call fails, in one sentence that names the argument, what came and what was wanted.

Called only where the direct call did not go through: a call that works pays nothing for it. Attributes are checked
before torch's dispatcher sees them, which would take a dtype, a float or a tensor for an int; tensors only after the
dispatcher failed, since it takes kinds of them that are not known here."""

from __future__ import annotations

import functools
import json
import operator
import re
import reprlib
from typing import TYPE_CHECKING, Any

import torch
from torch.compiler import is_dynamo_compiling

from . import _C
from ._load import DTYPES, PACKED

if TYPE_CHECKING:
    from ._op import Op
    from ._signature import Input

MAX_DIMS = 8  # of a tensor, and items of a list: as in _C.h
_KNOWN = {d[0] for d in DTYPES}
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
# What plans call torch's dtypes.
NAMES = {name: str(dtype) for dtype, _, _, name in DTYPES}
_PLAIN = (type(None), bool, int, float, complex, str, bytes, torch.dtype)


class IndexOutOfRange(ValueError, IndexError):
    """An index of an embedding, or an axis, out of range: an IndexError, as torch's."""


# How a plan says so.
INDEX = re.compile("\1(indices\1 is -?\\d+ at position|axis\1 is -?\\d+; want)")


class UnknownType(ValueError, TypeError):
    """A dtype that no op takes: a wrong value, and a TypeError, as torch raises."""


def explain(op: Op, args: tuple[Any, ...]) -> None:
    """Raises what is wrong with an argument of the call on its own; returns where nothing is."""
    inputs = op.signature.inputs
    for item, value in zip(inputs, args, strict=False):
        _explain_tensor(op, item, value)
    check_attributes(op, args)
    _explain_upstream(op, args)
    _explain_codes(op, args)


def _explain_upstream(op: Op, args: tuple[Any, ...]) -> None:
    """Raises where an upstream gradient, by which plans go, has another shape than the data."""
    inputs = op.signature.inputs
    if inputs[0].name != "grad_output" or any(a in PACKED for a in args if isinstance(a, torch.dtype)):
        return
    for item, value in zip(inputs[1:], args[1:], strict=False):
        if item.name in ("x", "q") and value is not None and value.shape != args[0].shape:
            want = f"want {list(value.shape)}, as {op.names[item.name]} has"
            raise ValueError(f"{op.name}: {op.names['grad_output']} has shape {list(args[0].shape)}; {want}")


def _explain_codes(op: Op, args: tuple[Any, ...]) -> None:
    """Raises where codes are not of the dtype that is named for them, or packed ones have no row to be packed along."""
    inputs = op.signature.inputs
    codes, dtype = op.signature.codes()
    if codes < 0 or len(args) <= dtype or args[dtype] is None:
        return
    came, want = args[dtype], torch.uint8 if args[dtype] in PACKED else args[dtype]
    if args[codes].dtype != want:
        named = f"{op.names[inputs[codes].name]} is {args[codes].dtype}"
        raise ValueError(f"{op.name}: {named}; want {want} for {op.names['dtype']}={came}")
    if came in PACKED and args[codes].dim() == 0:
        raise ValueError(
            f"{op.name}: {op.names[inputs[codes].name]} has shape []; want at least one dimension to pack along"
        )
    for attribute, value in zip(op.signature.attributes, args[len(inputs) :], strict=False):
        if attribute.kind == "e" and value is not None and came in PACKED:
            most = 2 * args[codes].shape[-1]
            if max(most - 1, 0) <= value <= most:
                continue
            if attribute.optional:
                named, want = f"{op.names[attribute.name]} is {value}", f"{max(most - 1, 0)} or {most}"
            else:  # which follows from another argument
                named = f"{op.names[inputs[codes].name]} has shape {list(args[codes].shape)}"
                want = f"{(value + 1) // 2} along the last dimension"
            raise ValueError(f"{op.name}: {named}; want {want}, two codes to a byte")


def check_attributes(op: Op, args: tuple[Any, ...]) -> None:
    """Raises where an attribute is of another kind than the signature's."""
    inputs = op.signature.inputs
    for attribute, value in zip(op.signature.attributes, args[len(inputs) :], strict=False):
        if value is None and attribute.optional:
            continue
        error = _KINDS[attribute.kind](op, attribute.name, value)
        if error is not None:
            kind, text = error
            raise kind(f"{op.name}: {op.names[attribute.name]} {text}")


def _explain_tensor(op: Op, item: Input, value: Any) -> None:
    if value is None and item.optional:
        return
    if item.number and (isinstance(value, (int, float)) or is_numpy_number(value)):
        return
    named = f"{op.name}: {op.names[item.name]}"
    if not isinstance(value, torch.Tensor):
        kinds = (("a Tensor", "a Tensor or None"), ("a Tensor or a number", "a Tensor, a number or None"))
        wanted = kinds[bool(item.number)][item.optional]
        raise TypeError(f"{named} must be {wanted}, not {type(value).__name__}")
    kind = _odd_kind(value)
    if kind:
        raise TypeError(f"{named} is {kind}; want a dense tensor")
    if value.dtype not in _KNOWN:
        raise UnknownType(f"{named} is {value.dtype}; want one of {_types(op.plan, item.name)}")
    if value.dim() > MAX_DIMS:
        raise ValueError(f"{named} has {value.dim()} dimensions; want at most {MAX_DIMS}")


def _odd_kind(t: torch.Tensor) -> str:
    """What a tensor is whose elements do not simply lie in memory; empty for one that is plain."""
    if torch.nn.parameter.is_lazy(t):
        return "an uninitialized parameter, of a lazy module that has not run yet"
    if t.is_quantized:
        return f"a quantized tensor ({t.dtype})"
    if t.is_nested:
        return "a nested tensor"
    return "" if t.layout == torch.strided else f"a sparse or blocked tensor ({t.layout})"


def check_codes(op: Op, value: torch.Tensor) -> None:
    """Raises where an op's first input is of no type that codes have."""
    if is_dynamo_compiling():
        return
    first = op.signature.inputs[0].name
    _explain_tensor(op, op.signature.inputs[0], value)
    if value.dtype not in [dtype for dtype, _, _, name in DTYPES if name in _support()[op.plan][first]]:
        raise ValueError(f"{op.name}: {op.names[first]} is {value.dtype}; want one of {_types(op.plan, first)}")


def check_dense(op: str, **named: Any) -> None:
    """Raises where an argument is no dense tensor: for functions that read their arguments before the op does."""
    for name, value in named.items():
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"{op}: {name} must be a Tensor, not {type(value).__name__}")
        kind = "" if is_dynamo_compiling() else _odd_kind(value)
        if kind:
            raise TypeError(f"{op}: {name} is {kind}; want a dense tensor")


def check_floats(op: str, **named: torch.Tensor) -> None:
    """Raises where an argument is not of floats."""
    for name, t in named.items():
        if t.dtype not in FLOATS:
            kind = ValueError if t.dtype in _KNOWN else UnknownType
            raise kind(f"{op}: {name} is {t.dtype}; want one of {', '.join(map(str, FLOATS))}")


def check_device(op: str, name: str, t: torch.Tensor, first: str, device: torch.device) -> None:
    """Raises, as torch does, where an argument is not on the device that the first one is on."""
    if t.device != device:
        raise RuntimeError(f"{op}: {name} is on {t.device}; want {device}, where {first} is")


def check_kinds(where: str, kind: str, **named: Any) -> None:
    """Raises where a value is not of a kind of _signature.py, nor None where the kind ends in ``?``: for modules and
    functions that are no ops."""
    for name, value in named.items():
        error = None if value is None and kind.endswith("?") else _KINDS[kind[0]](None, name, value)
        if error is not None:
            raise error[0](f"{where}: {name} {error[1]}")


def is_numpy_number(value: Any) -> bool:
    """Whether this is a real number of numpy's; its texts, times and complex numbers have no dimensions, either."""
    return type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0 and value.dtype.kind in "biuf"


@functools.cache
def _support() -> dict[str, dict[str, list[str]]]:
    """The types of each argument and the words of each attribute that has some, by op and name."""
    return {
        op["op"]: {a["name"]: a["dtypes"] for a in op["args"]}
        | {a["name"]: a["words"] for a in op["attributes"] if a.get("words")}
        for op in json.loads(_C.support())
    }


def _types(plan: str, name: str) -> str:
    return ", ".join(NAMES.get(t, t) for t in _support()[plan][name])


def renamed(text: str, names: dict[str, str]) -> str:
    """A message of the library or the extension, which have bytes 1 around what is a name, with other names. One that
    was too long may end within a name."""
    return re.sub("\1([^\1]*)\1?", lambda m: names.get(m[1], m[1]), text)


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


_Error = tuple[type[Exception], str] | None


def _wrong(wanted: str, value: Any) -> _Error:
    return TypeError, f"must be {wanted}, not {spell(value)}"


def _int(op: Op | None, name: str, value: Any, wanted: str = "an int") -> _Error:
    if isinstance(value, torch.SymInt):
        return None
    try:
        number = operator.index(value)
    except Exception:  # whatever an object's __index__ raises
        return _wrong(wanted, value)
    if isinstance(value, bool):
        return _wrong(wanted, value)
    return None if -(1 << 63) <= number < 1 << 63 else (ValueError, f"is {spell(number)}; want an int64")


def _float(op: Op | None, name: str, value: Any) -> _Error:
    if isinstance(value, torch.SymFloat):
        return None
    if isinstance(value, (bool, str, bytes)):
        return _wrong("a float", value)
    try:
        float(value)
    except OverflowError:
        return ValueError, f"is {spell(value)}; want a float64"
    except Exception:  # whatever an object's __float__ raises
        return _wrong("a float", value)
    return None


def _bool(op: Op | None, name: str, value: Any) -> _Error:
    known = isinstance(value, (bool, torch.SymBool)) or type(value).__name__ in ("bool", "bool_")  # numpy's
    return None if known else _wrong("a bool", value)


def _word(op: Op | None, name: str, value: Any) -> _Error:
    if not isinstance(value, str) or op is None:
        return None if isinstance(value, str) else _wrong("a str", value)
    words = _support()[op.plan][name]
    return None if value in words else (ValueError, f"is {spell(value)}; want one of {', '.join(words)}")


def _ints(op: Op | None, name: str, value: Any) -> _Error:
    if not isinstance(value, (list, tuple)):
        return _wrong("a list of ints", value)
    if len(value) > MAX_DIMS:
        return ValueError, f"has {len(value)} items; want at most {MAX_DIMS}"
    wrong = (_int(op, name, item) for item in value)
    kind = next((error[0] for error in wrong if error), None)
    if kind is ValueError:
        return kind, "has an item that is no int64; want ints"
    return None if kind is None else _wrong("a list of ints", value)


def _dtype(op: Op | None, name: str, value: Any) -> _Error:
    if not isinstance(value, torch.dtype):
        return _wrong("a torch.dtype", value)
    if value in _KNOWN or op is None:
        return None
    s = op.signature
    tensors = [o.name for o in s.outputs if s.dtype_argument(o) == name] or [i.name for i in s.inputs if i.codes]
    return UnknownType, f"is {value}; want one of {_types(op.plan, tensors[0])}"


# By the kinds of _signature.py.
_KINDS = {
    **dict.fromkeys("iIxe", _int),
    **dict.fromkeys("fF", _float),
    **dict.fromkeys("bBw", _bool),
    **dict.fromkeys("lL", _ints),
    **dict.fromkeys("dm", _dtype),
    "s": _word,
}
