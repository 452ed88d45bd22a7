"""What tests of convolutions share: layers, by the name of what is particular about them, and their fake-quantizers."""

import torch
from isobit.nn import (
    FakeQuantize,
    FakeQuantizedConv1d,
    FakeQuantizedConv2d,
    FakeQuantizedConv3d,
    LearnableFakeQuantize,
    MinMaxObserver,
)
from kit import draw

C, OUT = 4, 8
KINDS = {1: FakeQuantizedConv1d, 2: FakeQuantizedConv2d, 3: FakeQuantizedConv3d}

# The dimensions, and arguments after the channels.
SHAPES = {
    "1x1": (2, {"kernel_size": 1}),
    "1x1, strides": (2, {"kernel_size": 1, "stride": (2, 3)}),
    "1x1, every other": (2, {"kernel_size": 1, "stride": 2, "padding": 1, "bias": False}),
    "3x3": (2, {"kernel_size": 3, "padding": 1}),
    "2x3, strides": (2, {"kernel_size": (2, 3), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2)}),
    "beyond the input": (2, {"kernel_size": 2, "stride": 3, "padding": 2, "dilation": 3}),
    "same": (2, {"kernel_size": (2, 3), "padding": "same", "dilation": (3, 1)}),
    "valid": (2, {"kernel_size": 3, "padding": "valid", "bias": False}),
    "reflect": (2, {"kernel_size": 3, "padding": (2, 1), "padding_mode": "reflect"}),
    "replicate": (2, {"kernel_size": 3, "padding": "same", "padding_mode": "replicate"}),
    "circular": (2, {"kernel_size": 3, "padding": 1, "padding_mode": "circular"}),
    "groups": (2, {"kernel_size": 3, "padding": 1, "groups": 2}),
    "each channel": (2, {"kernel_size": 3, "stride": 2, "padding": 1, "groups": 4}),
    "line": (1, {"kernel_size": 3, "padding": 1, "stride": 2}),
    "line, groups": (1, {"kernel_size": 2, "dilation": 2, "groups": 4, "padding": "same"}),
    "line, reflect": (1, {"kernel_size": 3, "padding": 2, "padding_mode": "reflect"}),
    "volume": (3, {"kernel_size": (1, 2, 3), "padding": (0, 1, 1), "stride": (1, 2, 1)}),
    "volume, circular": (3, {"kernel_size": 3, "padding": 1, "padding_mode": "circular", "groups": 2}),
}

observed, configured = FakeQuantize, FakeQuantize.from_config
INT8 = {"dtype": torch.int8, "granularity": "per_channel", "is_dynamic": False}
WHOLE = {"dtype": torch.int8, "granularity": "per_tensor"}

# The product that serves, without groups and with, and the fake-quantizers of activation and weight.
SCHEMES = {
    "static": ("integer", "integer", lambda: configured(**WHOLE, is_dynamic=False), lambda: configured(**INT8)),
    "dynamic": ("integer", "integer", lambda: configured(**WHOLE), lambda: configured(dtype="int4", granularity="per_channel")),
    "learned": ("integer", "integer", lambda: LearnableFakeQuantize(-127, 127), lambda: LearnableFakeQuantize(-8, 7, channels=OUT)),
    "one scale": ("integer", "integer", lambda: LearnableFakeQuantize(-127, 127), lambda: observed(MinMaxObserver, dtype=torch.int8, qscheme=torch.per_tensor_symmetric)),
    "uint8 input": ("integer_groups", "integer_groups", lambda: observed(), lambda: LearnableFakeQuantize(-128, 127, channels=OUT)),
    "int4, zero points": ("integer_groups", "integer_groups", lambda: observed(), lambda: configured(dtype="uint4", granularity="per_channel", is_symmetric=False)),
    "float input": ("codes", "float", lambda: None, lambda: configured(**INT8)),
    "int4": ("codes", "float", lambda: None, lambda: configured(dtype="uint4", granularity="per_channel", is_symmetric=False)),
    "channels of the input": ("codes", "float", lambda: observed(MinMaxObserver, dtype=torch.int8, qscheme=torch.per_channel_symmetric, ch_axis=1), lambda: configured(**INT8)),
    "float8": ("float", "float", lambda: None, lambda: configured(dtype=torch.float8_e4m3fn, granularity="per_channel")),
    "weight not quantized": ("float", "float", lambda: observed(), lambda: None),
}  # fmt: skip


def layer_of(shape, scheme="static", dtype=torch.float32, channels=(C, OUT), **keywords):
    """A layer, and an input."""
    dims, arguments = SHAPES[shape]
    _, _, activation, weight = SCHEMES[scheme]
    torch.manual_seed(0)
    fakes = {"activation_fake_quantizer": activation(), "weight_fake_quantizer": weight()}
    layer = KINDS[dims](*channels, **arguments, **fakes, **keywords).to(dtype)
    return layer, draw(3, channels[0], *(7, 6, 5)[:dims], dtype=dtype)


def of_torch(layer, x, weight, bias):
    """torch's convolution with a layer's extents."""
    return torch.nn.modules.conv.__dict__[f"Conv{layer.weight.dim() - 2}d"]._conv_forward(layer, x, weight, bias)


def values(layer, x):
    """Input and weight as their codes stand for them."""
    fakes = layer.activation_fake_quantizer, layer.weight_fake_quantizer
    return [t if by is None else by(t) for by, t in zip(fakes, (x, layer.weight), strict=True)]
