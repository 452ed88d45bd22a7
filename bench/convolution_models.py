"""Small networks of convolutions, and what PyTorch makes of one for integers."""

from __future__ import annotations

from typing import Any

import torch
import torch.ao.nn.qat as qat
from torch import Tensor, nn
from torch.ao import quantization as ao

INT8 = {"quant_min": -128, "quant_max": 127, "dtype": torch.qint8}


def with_observers(from_: Any) -> nn.Module:
    """Of PyTorch's layers with the fake-quantizers of a module, isobit.nn or torch.ao.quantization."""
    rows = {**INT8, "qscheme": torch.per_channel_symmetric, "ch_axis": 0}
    weight = from_.FakeQuantize.with_args(observer=from_.MovingAveragePerChannelMinMaxObserver, **rows)
    values = {"quant_min": 0, "quant_max": 255, "dtype": torch.quint8}
    activation = from_.FakeQuantize.with_args(observer=from_.MovingAverageMinMaxObserver, **values)
    config, layers, channels = ao.QConfig(activation, weight), [], (3, 32, 64, 128, 128)
    for i, (before, after) in enumerate(zip(channels, channels[1:], strict=False)):
        conv = qat.Conv2d(before, after, 3, 1 + (i > 0), 1, bias=False, qconfig=config)
        layers += [activation(), conv, nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


class Inverted(nn.Module):
    """As a block of MobileNetV2: a convolution of each channel between two that mix them. The sum is quantized, as
    PyTorch's integers want it told."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        each = nn.Conv2d(inner, inner, 3, 1, 1, groups=inner)
        self.body = nn.Sequential(nn.Conv2d(width, inner, 1), nn.ReLU(), each, nn.ReLU(), nn.Conv2d(inner, width, 1))
        self.add = nn.quantized.FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        return self.add.add(x, self.body(x))


def network() -> nn.Sequential:
    """Convolutions of both kinds, without norms, as if those had been folded."""
    first = [nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU()]
    rest = [nn.Conv2d(64, 128, 3, 2, 1), nn.ReLU(), Inverted(128, 512)]
    return nn.Sequential(*first, Inverted(64, 256), *rest, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def fake_quantized(model: nn.Sequential) -> nn.Module:
    """For training with PyTorch's fake-quantizers of convolutions, and of nothing else."""
    for layer in model.modules():
        layer.qconfig = ao.get_default_qat_qconfig("x86") if isinstance(layer, nn.Conv2d) else None
    return ao.prepare_qat(model.train())


def in_static_int8(model: nn.Sequential, x: Tensor) -> nn.Module:
    """All before the pooling in PyTorch's integers, with scales by x."""
    whole = nn.Sequential(ao.QuantStub(), *model[:-3], ao.DeQuantStub(), *model[-3:])
    whole.qconfig, whole[-1].qconfig = ao.get_default_qconfig("x86"), None
    observed = ao.prepare(whole.eval())
    observed(x)
    return ao.convert(observed)
