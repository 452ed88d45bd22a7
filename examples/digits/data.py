"""scikit-learn's bundled handwritten digits, each distorted by a random affine map."""

from dataclasses import dataclass

import isobit
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

LEVELS = 17  # pixel intensities 0 to 16
CANVAS = 16  # a digit of 8x8 pixels comes on a canvas of 16x16


@dataclass
class Digits:
    """Images, upright f32[n,1,8,8] or distorted u8[n,CANVAS,CANVAS], and their labels i64[n]."""

    images: Tensor
    labels: Tensor

    def first(self, n: int) -> "Digits":
        return Digits(self.images[:n], self.labels[:n])


def load(held_out: int = 360) -> tuple[Digits, Digits]:
    """The training digits, and digits that training never sees in any distortion."""
    images, labels = load_digits(return_X_y=True)
    images = torch.tensor(images, dtype=torch.float32).view(-1, 1, 8, 8)
    labels = torch.tensor(labels, dtype=torch.int64)
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(labels)))
    test, train = order[:held_out], order[held_out:]
    return Digits(images[train], labels[train]), Digits(images[test], labels[test])


def distort(images: Tensor, random: np.random.Generator) -> Tensor:
    """Rotates, scales, shears and moves each digit, and rounds back to whole intensities.

    Gives u8[n,CANVAS,CANVAS]. The sampling is isobit's too.
    """
    n = len(images)
    angle = np.radians(random.uniform(-45, 45, n))
    size = random.uniform(0.75, 1.3, n)
    shear = random.uniform(-0.25, 0.25, n)
    shift = random.uniform(-3.5, 3.5, (n, 2, 1)) * 2 / CANVAS

    # The map takes a point of the canvas to the point of the digit that is seen there.
    cos, sin, one, zero = np.cos(angle), np.sin(angle), np.ones(n), np.zeros(n)
    rotation = np.array([[cos, -sin], [sin, cos]]).transpose(2, 0, 1)
    shearing = np.array([[one, shear], [zero, one]]).transpose(2, 0, 1)
    linear = rotation @ shearing * (CANVAS / 8 / size)[:, None, None]
    theta = np.concatenate([linear, -linear @ shift], axis=2)

    theta = torch.tensor(theta, dtype=torch.float32)
    grid = isobit.affine_grid(theta, (n, 1, CANVAS, CANVAS), align_corners=False)
    canvas = isobit.grid_sample(images, grid, align_corners=False)
    return canvas.round().clamp(0, LEVELS - 1).to(torch.uint8).view(n, CANVAS, CANVAS)


def distorted_copies(digits: Digits, copies: int = 5) -> Digits:
    """Every digit in several distortions, the same in each run."""
    canvases = [distort(digits.images, np.random.default_rng(1000 + i)) for i in range(copies)]
    return Digits(torch.cat(canvases), digits.labels.repeat(copies))
