"""Programs of isobit's functions, with their inputs, for what compiles and transforms them."""

import isobit
import torch
from kit import draw

X = draw(4, 6)
S, Z = torch.full((4,), 0.5), torch.zeros(4, dtype=torch.int32)
T, G = torch.full((4, 1), 0.5), torch.full((4, 2), 0.5)
Q = X.to(torch.int8)
R = (-128, 127)
IDX = torch.tensor([[1, 0], [3, 3]])
IMAGE, GRID = draw(2, 3, 4, 5), draw(2, 3, 3, 2, spread=0.5)


def leaves(args, requires_grad):
    return tuple(
        a.clone().requires_grad_(requires_grad and a.is_floating_point()) if isinstance(a, torch.Tensor) else a
        for a in args
    )


def spatial(image, theta):
    return isobit.grid_sample(image, isobit.affine_grid(theta, image.shape), padding_mode="border")


# Name: function, inputs (float ones require a gradient).
PROGRAMS = {
    "fake_quantize": (
        lambda x, s, z: isobit.fake_quantize_per_channel_affine(x, s, z, 0, -8, 7, grad_factor=0.5),
        (X, S, Z.float()),
    ),
    "fake_quantize_by_number": (lambda x: isobit.fake_quantize_per_tensor_affine(x, 0.3, 1, -8, 7) * 2, (X,)),
    "per_token": (lambda x: isobit.fake_quantize_per_token_affine(x, T, None, -8, 7), (X,)),
    "group": (lambda x: isobit.fake_quantize_per_channel_group_affine(x, G, None, -8, 7, 3), (X,)),
    "codes": (
        lambda x, s: isobit.dequantize_per_channel(
            isobit.quantize_per_channel(x, s, None, 0, -8, 7, torch.float32), s, None, 0, -8, 7, torch.float32
        ),
        (X, S),
    ),
    "integer_codes": (lambda x: isobit.quantize_per_channel(x, S, Z, 0, -8, 7, torch.int8).float() * 1.5, (X.clone(),)),
    "dynamic": (lambda x: isobit.quantize_per_token_dynamic(x)[1] * 2, (X,)),
    "embedding": (lambda w: isobit.embedding(IDX, w, padding_idx=-1).sin(), (X,)),
    "bag": (lambda w: isobit.embedding_bag(IDX, w, padding_idx=-1).sin(), (X,)),
    "bag_max": (lambda w: isobit.embedding_bag(IDX, w, mode="max").sin(), (X,)),
    "bag_weighted": (lambda w, p: isobit.embedding_bag(IDX, w, mode="sum", per_sample_weights=p), (X, draw(2, 2))),
    "spatial": (spatial, (IMAGE, draw(2, 2, 3, spread=0.5))),
    "quantized_linear": (isobit.quantized_linear, (X, draw(3, 6), draw(3))),
    "linear": (isobit.linear, (X, draw(3, 6), draw(3))),
    "matmul": (isobit.matmul, (X, draw(2, 6, 3))),
}
