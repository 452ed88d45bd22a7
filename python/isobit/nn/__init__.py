"""Modules over isobit's functions. They load the states of torch's modules of the same names.

Layers         Embedding, EmbeddingBag, Linear, SpatialTransformer; QuantizedLinear, which trains on int8 products
Whole models   prepare (for quantization-aware training), convert (to serve), synchronize_observers (of processes)
Quantizers     FakeQuantize (an observer chooses the scale), LearnableFakeQuantize (the scale is learned: LSQ)
Observers      MinMaxObserver, MovingAverageMinMaxObserver, PerChannelMinMaxObserver,
               MovingAveragePerChannelMinMaxObserver, HistogramObserver, MSEObserver
Switches       enable_observer, disable_observer, enable_fake_quant, disable_fake_quant: for ``model.apply``

prepare makes FakeQuantizedLinear, FakeQuantizedConv1d, 2d and 3d, FakeQuantizedEmbedding and FakeQuantizedEmbeddingBag;
WeightOnlyLinear is one for weights of few bits. convert makes the Served classes of them."""

from ._fake_quantizer import disable_fake_quant, disable_observer, enable_fake_quant, enable_observer
from .convert import convert
from .embedding import Embedding, EmbeddingBag
from .fake_quantize import FakeQuantize
from .fake_quantized import FakeQuantizedLinear, WeightOnlyLinear
from .fake_quantized_convolution import FakeQuantizedConv1d, FakeQuantizedConv2d, FakeQuantizedConv3d
from .fake_quantized_embedding import FakeQuantizedEmbedding, FakeQuantizedEmbeddingBag
from .histogram_observer import HistogramObserver
from .learnable_fake_quantize import LearnableFakeQuantize
from .linear import Linear, QuantizedLinear, ServedLinear
from .moving_average_observer import MovingAverageMinMaxObserver
from .mse_observer import MSEObserver
from .observers import MinMaxObserver
from .per_channel_observers import MovingAveragePerChannelMinMaxObserver, PerChannelMinMaxObserver
from .prepare import prepare
from .served import ServedFakeQuantize, ServedFakeQuantizedLinear
from .served_convolution import ServedFakeQuantizedConv
from .served_embedding import ServedFakeQuantizedEmbedding, ServedFakeQuantizedEmbeddingBag
from .spatial_transformer import SpatialTransformer
from .synchronize import synchronize_observers

__all__ = [
    "Embedding",
    "EmbeddingBag",
    "FakeQuantize",
    "FakeQuantizedConv1d",
    "FakeQuantizedConv2d",
    "FakeQuantizedConv3d",
    "FakeQuantizedEmbedding",
    "FakeQuantizedEmbeddingBag",
    "FakeQuantizedLinear",
    "HistogramObserver",
    "LearnableFakeQuantize",
    "Linear",
    "MSEObserver",
    "MinMaxObserver",
    "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver",
    "PerChannelMinMaxObserver",
    "QuantizedLinear",
    "ServedFakeQuantize",
    "ServedFakeQuantizedConv",
    "ServedFakeQuantizedEmbedding",
    "ServedFakeQuantizedEmbeddingBag",
    "ServedFakeQuantizedLinear",
    "ServedLinear",
    "SpatialTransformer",
    "WeightOnlyLinear",
    "convert",
    "disable_fake_quant",
    "disable_observer",
    "enable_fake_quant",
    "enable_observer",
    "prepare",
    "synchronize_observers",
]
