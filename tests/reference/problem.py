"""Problem texts: `op key=value key=value ...`."""

import re
from dataclasses import dataclass

TENSOR = re.compile(r"^(f32|f64|f16|bf16|s8|u8|s16|u16|i32|i64)(?:\[([0-9,]*)\])?$")


@dataclass(frozen=True)
class TensorSpec:
    """A tensor in a problem text; shape is None where the text leaves it to the op."""

    dtype: str
    shape: tuple | None = None


@dataclass(frozen=True)
class Problem:
    """A problem as written: its op and the values of its keys."""

    op: str
    values: dict


def parse_value(text):
    """A tensor, None for `none`, a bool, an int, a float, a list of ints, or an enum word."""
    match = TENSOR.match(text)
    if match:
        if match[2] is None:
            return TensorSpec(match[1])
        return TensorSpec(match[1], tuple(int(n) for n in match[2].split(",") if n))
    if text == "none":
        return None
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("["):
        return [int(n) for n in text.strip("[]").split(",") if n]
    if re.match(r"^[+-]?\d+$", text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        return text


def parse(text):
    op, *fields = text.split(" ")
    values = {}
    for field in fields:
        key, _, value = field.partition("=")
        values[key] = parse_value(value)
    return Problem(op, values)
