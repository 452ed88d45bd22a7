"""torchao's fake-quantize configurations as arguments of our modules. torchao is not needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .._checks import FLOATS, check_kinds
from .._errors import ArgumentError
from ._grouping import Grouping
from ._scheme import code_type
from .moving_average_observer import MovingAverageMinMaxObserver
from .observers import MinMaxObserver

# torchao's fields, and what they are where they are not given.
_DEFAULTS: dict[str, Any] = {
    "dtype": None,
    "granularity": None,
    "group_size": None,
    "mapping_type": None,
    "is_symmetric": None,
    "scale_precision": torch.float32,
    "zero_point_precision": torch.int32,
    "zero_point_domain": None,
    "is_dynamic": True,
    "range_learning": False,
    "eps": None,
    "hp_value_lb": None,
    "hp_value_ub": None,
}

# Types that torchao may keep zero points as: all hold the whole numbers that these are, so that it does not matter.
_ZERO_POINTS = (torch.int8, torch.int16, torch.int32, torch.int64, *FLOATS)

WANTED = "torchao's IntxFakeQuantizeConfig or Float8FakeQuantizeConfig"

# Granularities by torchao's names of their classes and its strings: the grouping of an object of that class.
_GRANULARITIES = {
    "pertensor": lambda g: Grouping(),
    "pertoken": lambda g: Grouping("per_token"),
    "perrow": lambda g: _rows(getattr(g, "dim", -1)),
    "peraxis": lambda g: Grouping("per_channel", g.axis),
    "perchannel": lambda g: Grouping("per_channel", 0),
    "pergroup": lambda g: Grouping.of("from_config", None, g.group_size, None),
    "perblock": lambda g: Grouping.of("from_config", None, None, g.block_size),
}


def _rows(dim: int) -> Grouping:
    if dim != -1:
        raise ArgumentError(f"from_config: granularity is PerRow(dim={dim}); want dim=-1, or PerAxis")
    return Grouping("per_token")


def fields_of(config: Any, **keywords: Any) -> dict[str, Any]:
    """The fields of a configuration, or of one given by name."""
    fields = dict(_DEFAULTS)
    if isinstance(config, Mapping):
        config, keywords = None, {**config, **keywords}
    if config is not None:
        if not hasattr(config, "dtype"):
            kind = type(config).__name__
            raise TypeError(f"from_config: config is a {kind}; want {WANTED}, or a dict of their fields")
        # torchao's group_size and is_symmetric repeat granularity and mapping_type, or raise
        repeats = {"group_size", "is_symmetric"} if hasattr(config, "granularity") else set()
        fields |= {name: getattr(config, name) for name in _DEFAULTS if name not in repeats and hasattr(config, name)}
    unknown = keywords.keys() - _DEFAULTS.keys()
    if unknown:
        raise ArgumentError(f"from_config: {', '.join(sorted(unknown))} is not a field; want {', '.join(_DEFAULTS)}")
    fields |= keywords
    if config is None and "is_dynamic" not in keywords:
        fields["is_dynamic"] = not fields["range_learning"]
    check_kinds("from_config", "b", is_dynamic=fields["is_dynamic"], range_learning=fields["range_learning"])
    check_kinds("from_config", "b?", is_symmetric=fields["is_symmetric"])
    check_kinds("from_config", "f?", eps=fields["eps"])
    precision = fields["zero_point_precision"]
    if precision not in _ZERO_POINTS:
        raise ArgumentError(f"from_config: zero_point_precision is {precision}; want torch.int32")
    domain = fields["zero_point_domain"]
    name = getattr(domain, "name", str(domain)).upper()
    if name not in ("INT", "NONE"):
        raise ArgumentError(f"from_config: zero_point_domain is {domain}; want INT, zero points that are codes")
    if domain is not None and name == "NONE" and not _symmetric(fields):
        raise ArgumentError(f"from_config: zero_point_domain is {domain}; want INT where it is not symmetric")
    return fields


def observed(fields: dict[str, Any], shape: Sequence[int] | None) -> dict[str, Any]:
    """FakeQuantize's arguments."""
    stored, _, _ = code_type("from_config", fields["dtype"])
    symmetric, grouping = _symmetric(fields), _grouping(fields["granularity"], fields["group_size"])
    dynamic = fields["is_dynamic"]
    axes = torch.per_channel_symmetric if symmetric else torch.per_channel_affine
    whole = torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine
    return {
        # torchao's static parameters are those of the first batch: an average that never moves
        "observer": MinMaxObserver if dynamic else MovingAverageMinMaxObserver.with_args(averaging_constant=0.0),
        "is_dynamic": dynamic,
        "dtype": stored if stored.is_floating_point else fields["dtype"],
        "qscheme": axes if grouping.name == "per_channel" else whole,
        "ch_axis": grouping.where if grouping.name == "per_channel" else 0,
        "grouping": grouping,
        "shape": None if dynamic else shape,
        "eps": fields["eps"] or 0.0,
        "scale_dtype": fields["scale_precision"],
        "hp_value_lb": fields["hp_value_lb"],
        "hp_value_ub": fields["hp_value_ub"],
    }


def learned(fields: dict[str, Any], shape: Sequence[int] | None) -> dict[str, Any]:
    """LearnableFakeQuantize's arguments: what range_learning asks for. A range starts at the first batch's."""
    stored, low, high = code_type("from_config", fields["dtype"])
    symmetric, grouping = _symmetric(fields), _grouping(fields["granularity"], fields["group_size"])
    wanted = (("is_dynamic", False), ("scale_precision", torch.float32), ("hp_value_lb", None), ("hp_value_ub", None))
    for name, want in wanted:
        if fields[name] != want:
            raise ArgumentError(f"from_config: {name} is {fields[name]}; want {want} with range_learning")
    if symmetric and low == 0:
        raise ArgumentError(f"from_config: dtype is {fields['dtype']}; a learned range of it wants is_symmetric=False")
    if grouping.name == "per_token":
        raise ArgumentError(
            "from_config: tokens differ from batch to batch; want another granularity, or no range_learning"
        )
    if shape is None and grouping.name != "per_tensor":
        raise ArgumentError(f"from_config: range_learning of {grouping} wants shape, that of what is quantized")
    chosen: dict[str, Any] = {
        "quant_min": low,
        "quant_max": high,
        "learn_zero_point": not symmetric,
        "dtype": stored,
        "start": "min_max",
        "eps": fields["eps"] or 0.0,
    }
    if grouping.name == "per_channel":
        chosen |= {"channels": grouping.parameter_shape(shape or ())[0], "ch_axis": grouping.where}
    elif grouping.name != "per_tensor":
        size = "group_size" if grouping.name == "per_channel_group" else "block_size"
        chosen |= {size: grouping.where, "shape": shape}
    return chosen


def _symmetric(fields: dict[str, Any]) -> bool:
    mapping, symmetric = fields["mapping_type"], fields["is_symmetric"]
    if mapping is None:
        return symmetric is None or symmetric
    if symmetric is not None:
        raise ArgumentError("from_config: want one of mapping_type and is_symmetric, not both")
    name = getattr(mapping, "name", str(mapping)).upper()
    if name not in ("SYMMETRIC", "ASYMMETRIC"):
        raise ArgumentError(f"from_config: mapping_type is {mapping}; want SYMMETRIC or ASYMMETRIC")
    return name == "SYMMETRIC"


def _grouping(granularity: Any, group_size: int | None) -> Grouping:
    text = granularity if isinstance(granularity, str) else type(granularity).__name__
    name = text.lower().replace("_", "")
    if group_size is not None:
        if granularity is not None and name != "pergroup":
            raise ArgumentError(f"from_config: group_size is {group_size}, and granularity {granularity}; want one")
        return Grouping.of("from_config", None, group_size, None)
    if name not in _GRANULARITIES or (isinstance(granularity, str) and name in ("pergroup", "perblock", "peraxis")):
        raise ArgumentError(
            f"from_config: granularity is {granularity!r}; want 'per_tensor', 'per_token', 'per_channel', group_size, "
            "or an object of torchao's PerTensor, PerToken, PerRow, PerAxis, PerGroup or PerBlock"
        )
    return _GRANULARITIES[name](granularity)
