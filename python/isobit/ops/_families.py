"""Which elements share a scale and a zero point: the part of a signature that differs between the
granularities. `per_channel_group` is torch's name of what the plans call per_group."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    plan: str  # suffix of the plans' names
    scale: str = "scales"  # names in the schema
    zero_point: str = "zero_points"
    axis: bool = False
    group: bool = False
    rows: bool = False  # parameters have the leading dimensions of the data

    def parameters(self) -> str:
        """The schema's text up to quant_max."""
        axis = "int axis, " if self.axis else ""
        return f"Tensor input, Tensor {self.scale}, Tensor? {self.zero_point}, {axis}int quant_min, int quant_max"

    def range(self) -> str:
        """The signature's attributes up to quant_max."""
        return "axis:i qmin:i qmax:i" if self.axis else "qmin:i qmax:i"

    def group_schema(self) -> str:
        return ", int group_size" if self.group else ""

    def group_attribute(self) -> str:
        return " group_size:i" if self.group else ""


FAMILIES = {
    "per_tensor": Family("per_tensor", "scale", "zero_point"),
    "per_channel": Family("per_channel", axis=True),
    "per_token": Family("per_token", rows=True),
    "per_channel_group": Family("per_group", group=True, rows=True),
}
