"""Ways to prepare a model, by name: what prepare takes. Tests of what programs do with one range over them."""

import torch
from isobit.nn import FakeQuantize, HistogramObserver, LearnableFakeQuantize

CHANNEL = {"dtype": torch.int8, "granularity": "per_channel"}
STATIC = {"dtype": torch.int8, "granularity": "per_tensor", "is_dynamic": False}
LEARNED = CHANNEL | {"range_learning": True, "is_dynamic": False}
MODELS = {
    "dynamic": (CHANNEL, {"dtype": torch.int8, "granularity": "per_token"}),
    "static": (CHANNEL | {"is_dynamic": False}, STATIC),
    "groups": ({"dtype": "int4", "group_size": 4, "is_dynamic": False}, FakeQuantize),
    "histogram": (CHANNEL | {"is_dynamic": False}, FakeQuantize.with_args(observer=HistogramObserver)),
    "learned": (LEARNED, LearnableFakeQuantize),
}
