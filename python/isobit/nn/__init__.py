"""Modules over isobit's functions."""

from .embedding import Embedding
from .fake_quantize import FakeQuantize
from .linear import QuantizedLinear, ServedLinear
from .spatial_transformer import SpatialTransformer

__all__ = ["Embedding", "FakeQuantize", "QuantizedLinear", "ServedLinear", "SpatialTransformer"]
