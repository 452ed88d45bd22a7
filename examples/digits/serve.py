"""Classifies the held-out digits with the exported model, through isobit's functions.

    python serve.py model.safetensors held_out.safetensors

serve.cpp and serve/ are the same program in C++ and in Go.
"""

import hashlib
import sys

import isobit
import torch
from safetensors.torch import load_file
from torch import Tensor


def linear(file: dict[str, Tensor], name: str, x: Tensor) -> Tensor:
    """Quantizes the rows of x and multiplies them with the layer's codes."""
    codes, scale, _ = isobit.quantize_per_token_dynamic(x, torch.int8, quant_min=-127, quant_max=127)
    weight, weight_scale = file[f"{name}.weight_codes"], file[f"{name}.weight_scale"]
    return isobit.quantized_linear_codes(codes, scale, weight, weight_scale, file[f"{name}.bias"])


def logits(file: dict[str, Tensor], canvas: Tensor) -> Tensor:
    features = isobit.embedding(canvas.int(), file["embedding"])
    x = linear(file, "locate.0", features.flatten(1))
    x = linear(file, "locate.1", x.relu())
    theta = linear(file, "locate.2", x.relu()).view(-1, 2, 3)
    image = features.permute(0, 3, 1, 2)  # channels last in memory, first for grid_sample: strides
    grid = isobit.affine_grid(theta, image.shape, align_corners=False)
    image = isobit.grid_sample(image, grid, align_corners=False)
    x = linear(file, "classify.0", image.flatten(1))
    return linear(file, "classify.1", x.relu())


def main() -> None:
    model, held_out = map(load_file, sys.argv[1:3])
    batches = held_out["canvases"].split(100)  # the bits do not depend on it
    result = torch.cat([logits(model, batch) for batch in batches])
    right = (result.argmax(1) == held_out["labels"]).double().mean().item()
    print(f"accuracy {right:.4f}")
    print(f"sha256 {hashlib.sha256(result.numpy().tobytes()).hexdigest()}")


if __name__ == "__main__":
    main()
