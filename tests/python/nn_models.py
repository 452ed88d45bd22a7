"""What tests of isobit.nn share: configurations, observers, and ways to prepare a model, by name."""

import torch
from isobit.nn import (
    FakeQuantize,
    HistogramObserver,
    LearnableFakeQuantize,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    MSEObserver,
)

INT8 = {"dtype": torch.int8, "granularity": "per_channel"}
TOKENS = {"dtype": torch.int8, "granularity": "per_token"}
OBSERVERS = (MinMaxObserver, MovingAverageMinMaxObserver, MSEObserver, HistogramObserver)
STATIC = {"dtype": torch.int8, "granularity": "per_tensor", "is_dynamic": False}
LEARNED = INT8 | {"range_learning": True}
MODELS = {
    "dynamic": (INT8, TOKENS),
    "static": (INT8 | {"is_dynamic": False}, STATIC),
    "groups": ({"dtype": "int4", "group_size": 4, "is_dynamic": False}, FakeQuantize),
    "histogram": (INT8 | {"is_dynamic": False}, FakeQuantize.with_args(observer=HistogramObserver)),
    "learned": (LEARNED, LearnableFakeQuantize),
}
