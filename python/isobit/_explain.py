"""Why a call fails, in one sentence that names the argument, what came and what was wanted.

Called only where the direct call did not go through: a call that works pays nothing for it. Attributes are checked
before torch's dispatcher sees them, which would take a dtype, a float or a tensor for an int; tensors only after the
dispatcher failed, since it takes kinds of them that are not known here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import torch
from torch.compiler import is_dynamo_compiling

from ._checks import KINDS, KNOWN, MAX_DIMS, is_numpy_number, odd_kind, types_by_op, types_of
from ._errors import ArgumentError, UnknownType
from ._load import DTYPES, PACKED

if TYPE_CHECKING:
    from ._op import Op
    from ._signature import Input


# How a plan says so.
INDEX = re.compile("\1(indices\1 is -?\\d+ at position|axis\1 is -?\\d+; want)")


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
            raise ArgumentError(f"{op.name}: {op.names['grad_output']} has shape {list(args[0].shape)}; {want}")


def _explain_codes(op: Op, args: tuple[Any, ...]) -> None:
    """Raises where codes are not of the dtype that is named for them, or packed ones have no row to be packed along."""
    inputs = op.signature.inputs
    codes, dtype = op.signature.codes()
    if codes < 0 or len(args) <= dtype or args[dtype] is None:
        return
    came, want = args[dtype], torch.uint8 if args[dtype] in PACKED else args[dtype]
    if args[codes].dtype != want:
        named = f"{op.names[inputs[codes].name]} is {args[codes].dtype}"
        raise ArgumentError(f"{op.name}: {named}; want {want} for {op.names['dtype']}={came}")
    if came not in PACKED:
        return
    shape, name = list(args[codes].shape), op.names[inputs[codes].name]
    if not shape:
        raise ArgumentError(f"{op.name}: {name} has shape []; want at least one dimension to pack along")
    least, most = max(2 * shape[-1] - 1, 0), 2 * shape[-1]
    for attribute, extent in zip(op.signature.attributes, args[len(inputs) :], strict=False):
        if attribute.kind != "e" or extent is None or least <= extent <= most:
            continue
        if attribute.optional:
            named, wanted = f"{op.names[attribute.name]} is {extent}", f"{least} or {most}"
        else:  # which follows from another argument
            named, wanted = f"{name} has shape {shape}", f"{(extent + 1) // 2} along the last dimension"
        raise ArgumentError(f"{op.name}: {named}; want {wanted}, two codes to a byte")


def check_attributes(op: Op, args: tuple[Any, ...]) -> None:
    """Raises where an attribute is of another kind than the signature's."""
    inputs = op.signature.inputs
    for attribute, value in zip(op.signature.attributes, args[len(inputs) :], strict=False):
        if value is None and attribute.optional:
            continue
        error = KINDS[attribute.kind](op, attribute.name, value)
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
    kind = odd_kind(value)
    if kind:
        raise TypeError(f"{named} is {kind}; want a dense tensor")
    if value.dtype not in KNOWN:
        raise UnknownType(f"{named} is {value.dtype}; want one of {types_of(op.plan, item.name)}")
    if value.dim() > MAX_DIMS:
        raise ArgumentError(f"{named} has {value.dim()} dimensions; want at most {MAX_DIMS}")


def check_codes(op: Op, value: torch.Tensor) -> None:
    """Raises where an op's first input is of no type that codes have."""
    if is_dynamo_compiling():
        return
    first = op.signature.inputs[0].name
    _explain_tensor(op, op.signature.inputs[0], value)
    if value.dtype not in [dtype for dtype, _, _, name in DTYPES if name in types_by_op()[op.plan][first]]:
        raise ArgumentError(f"{op.name}: {op.names[first]} is {value.dtype}; want one of {types_of(op.plan, first)}")


def renamed(text: str, names: dict[str, str]) -> str:
    """A message of the library or the extension, which have bytes 1 around what is a name, with other names. One that
    was too long may end within a name."""
    return re.sub("\1([^\1]*)\1?", lambda m: names.get(m[1], m[1]), text)
