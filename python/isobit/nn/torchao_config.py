"""torchao's fake-quantize configurations as arguments of ObservedFakeQuantize. torchao is not needed."""

from __future__ import annotations

from typing import Any

import torch

from ._scheme import Grouping, code_type
from .observers import MinMaxObserver, MovingAverageMinMaxObserver

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

# Granularities by torchao's names of their classes and its strings: the grouping of an object of that class.
_GRANULARITIES = {
    "pertensor": lambda g: Grouping(),
    "pertoken": lambda g: Grouping("per_token"),
    "perrow": lambda g: Grouping("per_token"),
    "peraxis": lambda g: Grouping("per_channel", g.axis),
    "perchannel": lambda g: Grouping("per_channel", 0),
    "pergroup": lambda g: Grouping.of(None, g.group_size, None),
    "perblock": lambda g: Grouping.of(None, None, g.block_size),
}


def arguments(config: Any, **keywords: Any) -> dict[str, Any]:
    """ObservedFakeQuantize's arguments for a configuration, or for one's fields by name."""
    fields = dict(_DEFAULTS)
    if config is not None:
        # torchao's group_size and is_symmetric repeat granularity and mapping_type, or raise
        repeats = {"group_size", "is_symmetric"} if hasattr(config, "granularity") else set()
        fields |= {name: getattr(config, name) for name in _DEFAULTS if name not in repeats and hasattr(config, name)}
    unknown = keywords.keys() - _DEFAULTS.keys()
    if unknown:
        raise ValueError(f"from_config: {', '.join(sorted(unknown))}; want {', '.join(_DEFAULTS)}")
    fields |= keywords
    symmetric = _symmetric(fields)
    kept, _, _ = code_type("from_config", fields["dtype"])
    for name, only in (("range_learning", False), ("hp_value_lb", None), ("hp_value_ub", None)):
        if fields[name] != only:
            instead = "; isobit.nn.FakeQuantize learns its range" if name == "range_learning" else ""
            raise ValueError(f"from_config: {name} is {fields[name]}; want {only}{instead}")
    if fields["zero_point_precision"] not in (torch.int8, torch.int32, torch.int64):
        raise ValueError(f"from_config: zero_point_precision is {fields['zero_point_precision']}; want torch.int32")
    domain = fields["zero_point_domain"]
    if domain is not None and getattr(domain, "name", str(domain)).upper() not in ("INT", "NONE"):
        raise ValueError(f"from_config: zero_point_domain is {domain}; want INT")
    dynamic = bool(fields["is_dynamic"])
    chosen: dict[str, Any] = {
        # torchao's static parameters are those of the first batch: an average that never moves
        "observer": MinMaxObserver if dynamic else MovingAverageMinMaxObserver.with_args(averaging_constant=0.0),
        "is_dynamic": dynamic,
        "dtype": kept if kept.is_floating_point else fields["dtype"],
        "qscheme": torch.per_tensor_symmetric if symmetric else torch.per_tensor_affine,
        "grouping": _grouping(fields["granularity"], fields["group_size"]),
        "eps": fields["eps"] or 0.0,
        "scale_dtype": fields["scale_precision"],
    }
    return chosen


def _symmetric(fields: dict[str, Any]) -> bool:
    mapping, symmetric = fields["mapping_type"], fields["is_symmetric"]
    if mapping is None:
        return symmetric is None or bool(symmetric)
    if symmetric is not None:
        raise ValueError("from_config: want one of mapping_type and is_symmetric, not both")
    name = getattr(mapping, "name", str(mapping)).upper()
    if name not in ("SYMMETRIC", "ASYMMETRIC"):
        raise ValueError(f"from_config: mapping_type is {mapping}; want SYMMETRIC or ASYMMETRIC")
    return name == "SYMMETRIC"


def _grouping(granularity: Any, group_size: int | None) -> Grouping:
    text = granularity if isinstance(granularity, str) else type(granularity).__name__
    name = text.lower().replace("_", "")
    if group_size is not None:
        if granularity is not None and name != "pergroup":
            raise ValueError(f"from_config: group_size is {group_size}, and granularity {granularity}; want one")
        return Grouping.of(None, group_size, None)
    if name not in _GRANULARITIES or (isinstance(granularity, str) and name in ("pergroup", "perblock", "peraxis")):
        raise ValueError(
            f"from_config: granularity is {granularity!r}; want 'per_tensor', 'per_token', 'per_channel', group_size, "
            "or an object of torchao's PerTensor, PerToken, PerRow, PerAxis, PerGroup or PerBlock"
        )
    return _GRANULARITIES[name](granularity)
