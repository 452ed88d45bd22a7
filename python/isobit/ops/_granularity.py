"""Which elements share a scale and a zero point: the part of a signature that differs between the
granularities. `per_channel_group` is torch's name of what the plans call per_group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.compiler import is_dynamo_compiling
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from .._checks import MAX_DIMS, check_dense, is_numpy_number, spell
from .._errors import ArgumentError
from .._load import DTYPES

if TYPE_CHECKING:
    from .._op import Op


@dataclass(frozen=True)
class Granularity:
    plan: str  # suffix of the plans' names
    scale: str = "scales"  # names in the schema
    zero_point: str = "zero_points"
    axis: bool = False
    group: bool = False
    block: bool = False
    rows: bool = False  # parameters have the leading dimensions of the data

    def parameters(self) -> str:
        """The schema's text up to quant_max."""
        axis = "int axis, " if self.axis else "int[] block_size, " if self.block else ""
        return f"Tensor input, Tensor {self.scale}, Tensor? {self.zero_point}, {axis}int quant_min, int quant_max"

    def range(self) -> str:
        """The signature's attributes up to quant_max."""
        axis = "axis:i " if self.axis else "block_size:l " if self.block else ""
        return f"{axis}qmin:i qmax:i"

    def leading(self) -> int:
        """How many attributes come before quant_min."""
        return int(self.axis or self.block)

    def group_schema(self) -> str:
        return ", int group_size" if self.group else ""

    def group_attribute(self) -> str:
        return " group_size:i" if self.group else ""


GRANULARITIES = {
    "per_tensor": Granularity("per_tensor", "scale", "zero_point"),
    "per_channel": Granularity("per_channel", axis=True),
    "per_token": Granularity("per_token", rows=True),
    "per_channel_group": Granularity("per_group", group=True, rows=True),
    "per_block": Granularity("per_block", block=True, rows=True),
}

_INTEGERS = [dtype for dtype, code, bits, _ in DTYPES if code <= 1 and bits > 4]

# 8-bit float codes, by the plans' names.
FLOAT8 = {dtype: name for dtype, _, _, name in DTYPES if name.startswith("f8")}


_LAZY = (UninitializedBuffer, UninitializedParameter)  # torch's is_lazy is an op to dynamo


def with_scalars(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """A forward's arguments, with a scale and a zero point per tensor as scalars: torch takes them in any shape of one
    element."""
    if name != "per_tensor":
        return args
    return (args[0], *map(_scalar, args[1:3]), *args[3:])


def _scalar(parameter: Any) -> Any:
    if not isinstance(parameter, Tensor) or isinstance(parameter, _LAZY) or parameter.dim() < 2:
        return parameter
    if parameter.is_nested or parameter.layout != torch.strided:
        return parameter  # of which the op says what is odd
    return parameter.reshape(()) if parameter.dim() <= MAX_DIMS and parameter.numel() == 1 else parameter


def code_name(op: str, dtype: torch.dtype | None) -> str:
    """What the plans call the codes that are not stored: whole numbers unless an 8-bit float is named."""
    if dtype is None:
        return "int"
    if not is_float8(dtype):
        *some, last = map(str, (None, *FLOAT8))
        wanted = f"{', '.join(some)} or {last}"
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"{op}: code_dtype must be {wanted}, not {spell(dtype)}")
        raise ArgumentError(f"{op}: code_dtype is {dtype}; want {wanted}")
    return FLOAT8[dtype]


def is_float8(dtype: Any) -> bool:
    return isinstance(dtype, torch.dtype) and dtype in FLOAT8


def without_zero_point(op: Op, args: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    """The arguments with None for the zero point, which stands at this place. 8-bit float codes have a scale
    only: it has to be None, 0, or an integer tensor that eager code finds to be all 0. Their bounds, which come
    after it, may be floats, as torch.finfo has them."""
    zero_point = args[at].item() if is_numpy_number(args[at]) else args[at]
    name = op.names["zero_point"]
    if zero_point is not None and not isinstance(zero_point, (int, Tensor)):
        raise TypeError(f"{op.name}: {name} must be None, not {spell(zero_point)}: 8-bit float codes have a scale only")
    if isinstance(zero_point, Tensor):
        check_dense(op.name, **{name: zero_point})
        is_traced = is_dynamo_compiling() or isinstance(zero_point, FakeTensor)  # where no value is known either
        is_zero = zero_point.dtype in _INTEGERS and not is_traced
        is_zero = is_zero and (zero_point.is_meta or not zero_point.any())  # nobody knows a meta tensor's values
    else:
        is_zero = zero_point is None or (isinstance(zero_point, int) and zero_point == 0)
    if not is_zero:
        raise ArgumentError(
            f"{op.name}: 8-bit float codes have a scale only; want {name}=None (or integers that are all 0)"
        )
    scale = args[at - 1]
    if isinstance(zero_point, Tensor) and isinstance(scale, Tensor) and zero_point.numel() != scale.numel():
        came, want = (list(t.shape) for t in (zero_point, scale))
        raise ArgumentError(f"{op.name}: {name} has shape {came}; want {want}, as {op.names['scale']} has, or None")
    bounds = (int(b) if isinstance(b, float) and b.is_integer() else b for b in args[at + 1 : at + 4])
    return (*args[:at], None, *bounds, *args[at + 4 :])
