"""The network. Every layer that computes is isobit's; what is left (relu, views) is exact."""

import torch
from data import CANVAS, LEVELS
from isobit.nn import Embedding, QuantizedLinear, SpatialTransformer
from torch import Tensor, nn

FEATURES = 4  # per pixel
INPUTS = CANVAS * CANVAS * FEATURES


class ChannelsLast(nn.Module):
    """[n,c,h,w] as [n,h*w*c]: for an image from an embedding this is how it lies in memory."""

    def forward(self, image: Tensor) -> Tensor:
        return image.permute(0, 2, 3, 1).flatten(1)


class DigitNet(nn.Module):
    """Pixel intensities u8[n,CANVAS,CANVAS] to logits f32[n,10].

    With `transformer`, a localisation network looks at the canvas and predicts
    the affine map that undoes the distortion; without, the classifier sees the
    canvas as it is.
    """

    def __init__(self, transformer: bool = True):
        super().__init__()
        self.embedding = Embedding(LEVELS, FEATURES)
        self.transformer = None
        if transformer:
            localisation = nn.Sequential(
                ChannelsLast(),
                QuantizedLinear(INPUTS, 64),
                nn.ReLU(),
                QuantizedLinear(64, 32),
                nn.ReLU(),
                QuantizedLinear(32, 6),
            )
            self.transformer = SpatialTransformer(localisation)
        self.classifier = nn.Sequential(nn.Flatten(), QuantizedLinear(INPUTS, 128), nn.ReLU(), QuantizedLinear(128, 10))
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        """Starts with features near the intensity, and with the identity map."""
        self.embedding.weight.normal_(0, 0.1)
        self.embedding.weight[:, 0] = torch.linspace(0, 1, LEVELS)
        if self.transformer is not None:
            last = self.transformer.localisation[-1]
            last.weight.zero_()
            last.bias.copy_(self.transformer.identity())

    def forward(self, canvas: Tensor) -> Tensor:
        image = self.embedding(canvas.int()).permute(0, 3, 1, 2)
        if self.transformer is not None:
            image = self.transformer(image)
        return self.classifier(image)
