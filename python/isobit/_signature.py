"""How an op's signature is written, and what follows from it.

A signature is three strings of words, one word an argument:

inputs    `x[] scale@ zero_point#?`
          []  its shape is part of the problem    ?  may be None
          @   a Python number may stand for it, as a float
          #   a Python number may stand for it    !  is written (in place)
          *   codes: their dtype is an attribute of kind m
          ~   autocast may want another type than one of 16 bits
          ^   no gradient reaches it: one that asks for it is taken as it is
          /   in direct calls, the first input is multiplied by the next with a [], and what comes before its last
              dimension is one where that is a matrix, else what both have before the last two
          |   then one for each row of the last input with a [] before it, in that one's shape, with a last 1 or without
attributes `qmin:i axis:i dtype:d`, name and kind:
          i int, f float, b bool, s word, l list of ints   part of the problem
          d dtype of an output, w whether an output is wanted, I int, L ints,
          m the dtype of the codes, e their last extent where packed; of a gradient alone:
          F float, B bool, x anything
          ?  after the kind: may be None
outputs   one string each, `name = shape : dtype [if attribute]`; `name ~ shape : dtype` of an input's whole shape,
          in whose order its elements lie (torch.preserve_format):
          shape  words: an input (`x`), a slice of its shape (`x[:-1]`), an
                 attribute (`size[2:]`, `num_weights`), a number, `at(axis)`: the
                 first input's extent, `blocks(size)`: how many blocks it has
                 along its last dimension, for a list along each
          dtype  an input (the same), an attribute of kind d, a torch dtype by
                 name, or `parameter` (float64 where the first input is, else float32)
          []     after the name: its shape is part of the problem
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ._load import DTYPES, PACKED

# The enumerations of _C_op.h.
NO_NUMBER, NUMBER_AS_IS, NUMBER_AS_FLOAT = range(3)  # whether a Python number may stand for an input
_INPUT, _LITERAL, _ATTRIBUTE, _AT, _BLOCKS = range(5)  # kinds of a shape's part
_OF_INPUT, _OF_ATTRIBUTE, _FIXED, _OF_PARAMETERS = range(4)  # rules for a dtype

_END = 1 << 30  # the end of a slice that has none
_WORD = re.compile(r"(\w+)(\[\])?([@#]?)([?!*~^/|]*)$")
_PART = re.compile(r"(-?\w+)(?:\[(-?\d*):(-?\d*)\])?$")
_OUTPUT = re.compile(r"(\w+)(\[\])? ([=~]) ([^:]*(?:\[[^\]]*\][^:]*)*) : (\w+)(?: if (!?)(\w+))?$")


_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def is_symbolic(args: tuple[Any, ...]) -> bool:
    """Whether an attribute, or an extent of a tensor, is no number but a symbol."""
    items = (a.shape if isinstance(a, torch.Tensor) else a if isinstance(a, (list, tuple)) else (a,) for a in args)
    return any(isinstance(i, _SYMBOLS) for some in items for i in some)


class Input(NamedTuple):
    name: str
    shaped: bool  # its shape is part of the problem
    optional: bool
    number: int
    codes: bool
    cast: bool  # may be converted within autocast, where it has 16 bits
    constant: bool  # no gradient reaches it
    rows: bool  # may have any number of dimensions
    per_row: bool  # and these as many
    written: bool


class Attribute(NamedTuple):
    name: str
    kind: str
    optional: bool


@dataclass(frozen=True)
class Part:
    """One word of an output's shape. low and high: a slice, as Python's; of a literal, low is its value."""

    kind: int
    index: int
    low: int = 0
    high: int = _END


@dataclass(frozen=True)
class Output:
    name: str
    shaped: bool
    parts: tuple[Part, ...]
    dtype_rule: int
    dtype_index: int  # of an input, an attribute, or DTYPES, by the rule
    wanted_by: int = -1  # the attribute that says whether it is wanted, or -1
    wanted_if: bool = True
    like: int = -1  # the input in whose order its elements lie; -1: row-major

    def wanted(self, attributes: tuple[Any, ...]) -> bool:
        return self.wanted_by < 0 or attributes[self.wanted_by] == self.wanted_if


@dataclass
class Signature:
    inputs: list[Input] = field(default_factory=list)
    attributes: list[Attribute] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)

    @classmethod
    def parse(cls, inputs: str, attributes: str, outputs: tuple[str, ...]) -> Signature:
        s = cls()
        for word in inputs.split():
            name, shaped, number, flags = _WORD.match(word).groups()  # type: ignore[union-attr]
            may_be = {"": NO_NUMBER, "#": NUMBER_AS_IS, "@": NUMBER_AS_FLOAT}[number]
            s.inputs.append(Input(name, bool(shaped), "?" in flags, may_be, *(flag in flags for flag in "*~^/|!")))
        for word in attributes.split():
            name, kind = word.split(":")
            s.attributes.append(Attribute(name, kind[0], kind.endswith("?")))
        s.outputs = [s._output(text) for text in outputs]
        return s

    def _index(self, name: str, of: str) -> int:
        names = [item.name for item in (self.inputs if of == "inputs" else self.attributes)]
        return names.index(name) if name in names else -1

    def codes(self) -> tuple[int, int]:
        """The positions of codes that may be packed, and of their dtype, among the arguments; -1 where there are none."""
        codes = [i for i, item in enumerate(self.inputs) if item.codes]
        dtype = [len(self.inputs) + i for i, item in enumerate(self.attributes) if item.kind == "m"]
        return (codes[0], dtype[0]) if codes else (-1, -1)

    def dtype_argument(self, output: Output) -> str:
        """The name of the argument that says an output's dtype; empty where none does."""
        return self.attributes[output.dtype_index].name if output.dtype_rule == _OF_ATTRIBUTE else ""

    def _part(self, word: str) -> Part:
        if word.endswith(")"):
            kind, attribute = word[:-1].split("(")
            return Part({"at": _AT, "blocks": _BLOCKS}[kind], self._index(attribute, "attributes"))
        name, low, high = _PART.match(word).groups()  # type: ignore[union-attr]
        if name.lstrip("-").isdigit():
            return Part(_LITERAL, 0, int(name))
        bounds = (int(low) if low else 0, int(high) if high else _END)
        index = self._index(name, "inputs")
        if index >= 0:
            return Part(_INPUT, index, *bounds)
        return Part(_ATTRIBUTE, self._index(name, "attributes"), *bounds)

    def _output(self, text: str) -> Output:
        name, shaped, order, shape, dtype, negated, wanted = _OUTPUT.match(text).groups()  # type: ignore[union-attr]
        if dtype == "parameter":
            rule = (_OF_PARAMETERS, 0)
        elif self._index(dtype, "inputs") >= 0:
            rule = (_OF_INPUT, self._index(dtype, "inputs"))
        elif self._index(dtype, "attributes") >= 0:
            rule = (_OF_ATTRIBUTE, self._index(dtype, "attributes"))
        else:
            rule = (_FIXED, [d[0] for d in DTYPES].index(getattr(torch, dtype)))
        parts = tuple(self._part(word) for word in shape.split())
        by = self._index(wanted, "attributes") if wanted else -1
        like = parts[0].index if order == "~" else -1
        return Output(name, bool(shaped), parts, *rule, by, not negated, like)

    def for_extension(self) -> tuple[Any, ...]:
        """The signature as _C.define takes it."""
        outputs = tuple(
            (o.name, o.shaped, o.dtype_rule, o.dtype_index, o.wanted_by, int(o.wanted_if), o.like)
            + (tuple((p.kind, p.index, p.low, p.high) for p in o.parts),)
            for o in self.outputs
        )
        return tuple(item[:-1] for item in self.inputs), tuple(self.attributes), outputs

    def shape(self, o: Output, args: tuple[Any, ...]) -> list[Any]:
        """An output's shape; symbolic where the inputs' are."""
        attributes = args[len(self.inputs) :]
        shape: list[Any] = []
        for p in o.parts:
            if p.kind == _LITERAL:
                shape.append(p.low)
                continue
            value = self._shape_of(p.index, args) if p.kind == _INPUT else attributes[p.index]
            if p.kind == _AT:
                value = args[0].shape[value]
            elif p.kind == _BLOCKS:
                extents, sizes = args[0].shape, value
                if isinstance(sizes, int):
                    extents, sizes = extents[-1:], [sizes]
                value = [-(-d // b) for d, b in zip(extents, sizes, strict=True)]
                shape += value
                continue
            if isinstance(value, (list, tuple)):
                shape += value[p.low : p.high]
            else:
                shape.append(value)
        return shape

    def _shape_of(self, index: int, args: tuple[Any, ...]) -> Any:
        """An input's shape: that of the codes, where it holds two to a byte."""
        shape = args[index].shape
        if not self._is_packed(index, args):
            return shape
        last = self._of_kind("e", args)
        return (*shape[:-1], 2 * shape[-1] if last is None else last)

    def _is_packed(self, index: int, args: tuple[Any, ...]) -> bool:
        return self.inputs[index].codes and self._of_kind("m", args) in PACKED

    def _of_kind(self, kind: str, args: tuple[Any, ...]) -> Any:
        """The attribute of a kind of which an op has one at most; None where it has none."""
        return dict(zip((a.kind for a in self.attributes), args[len(self.inputs) :], strict=True)).get(kind)

    def dtype(self, o: Output, args: tuple[Any, ...]) -> torch.dtype:
        first: torch.dtype = args[0].dtype
        if o.dtype_rule == _OF_INPUT:
            return args[o.dtype_index].dtype
        if o.dtype_rule == _OF_ATTRIBUTE:
            named = args[len(self.inputs) + o.dtype_index]
            return named or (first if first.is_floating_point else torch.float32)
        if o.dtype_rule == _OF_PARAMETERS:
            return torch.float64 if first == torch.float64 else torch.float32
        return DTYPES[o.dtype_index][0]

    def allocate(self, args: tuple[Any, ...]) -> list[torch.Tensor]:
        """New outputs; those that are not wanted have no elements.

        Under fake tensors this is the op's fake implementation."""
        attributes = args[len(self.inputs) :]
        outputs = []
        for o in self.outputs:
            wanted = o.wanted(attributes)
            shape = self.shape(o, args) if wanted else [0]
            dtype = self.dtype(o, args) if wanted else torch.float32
            if wanted and o.like >= 0 and not self._is_packed(o.like, args) and dtype not in PACKED:
                outputs.append(torch.empty_like(args[o.like], dtype=dtype))
                continue
            if dtype in PACKED:
                shape[-1] = (shape[-1] + 1) // 2
                dtype = torch.uint8
            outputs.append(torch.empty(shape, dtype=dtype, device=args[0].device))
        return outputs
