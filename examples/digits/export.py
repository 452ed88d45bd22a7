"""Writes the trained network, as serving needs it, to one safetensors file."""

from pathlib import Path

import isobit
from isobit.nn import QuantizedLinear
from model import DigitNet
from safetensors.torch import save_file


def export(net: DigitNet, path: Path) -> None:
    """Saves the embedding's table, and each linear layer's int8 codes, scales and bias."""
    tensors = {"embedding": net.embedding.weight.detach()}
    for part, layers in (("locate", net.transformer.localisation), ("classify", net.classifier)):
        linear = [layer for layer in layers if isinstance(layer, QuantizedLinear)]
        for i, layer in enumerate(linear):
            tensors |= {f"{part}.{i}.{name}": tensor for name, tensor in layer.export().items()}
    save_file(tensors, path, metadata={"model": "isobit digits", "isobit": isobit.__version__})
