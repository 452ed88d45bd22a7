"""Draws how training went, and what the spatial transformer does to held-out digits."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from data import LEVELS, Digits
from model import DigitNet
from torch import Tensor
from train import History


@torch.no_grad()
def rectify(net: DigitNet, canvases: Tensor) -> Tensor:
    """The canvases' intensities through the map that the network predicts for them."""
    transformer = net.transformer
    theta = transformer.localisation(net.embedding(canvases.int()).permute(0, 3, 1, 2)).view(-1, 2, 3)
    return transformer.warp(canvases.float().unsqueeze(1), theta).squeeze(1)


def draw(path: Path, histories: dict[str, History], net: DigitNet, held_out: Digits) -> None:
    figure = plt.figure(figsize=(11, 6), layout="constrained")
    curves, digits = figure.subfigures(2, 1, height_ratios=[2, 1])

    left, right = curves.subplots(1, 2)
    for (name, history), colour in zip(histories.items(), ("tab:blue", "tab:orange"), strict=True):
        epochs = range(1, len(history.loss) + 1)
        left.semilogy(epochs, history.loss, color=colour, label=name)
        right.plot(epochs, history.train, color=colour, alpha=0.4, label=f"{name}, training")
        right.plot(epochs, history.held_out, color=colour, label=f"{name}, held out")
    left.set(xlabel="epoch", ylabel="training loss")
    right.set(xlabel="epoch", ylabel="accuracy")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()

    # Two of each class, in order.
    chosen = torch.cat([(held_out.labels == digit).nonzero().flatten()[:2] for digit in range(10)])
    canvases = held_out.images[chosen]
    rows = {"distorted": canvases.float(), "rectified": rectify(net, canvases)}
    for row, (title, images) in zip(digits.subplots(2, len(chosen)), rows.items(), strict=True):
        for axes, image in zip(row, images, strict=True):
            axes.imshow(image, cmap="gray_r", vmin=0, vmax=LEVELS - 1)
            axes.set(xticks=[], yticks=[])
        row[0].set_ylabel(title)
    figure.savefig(path, dpi=110)
    plt.close(figure)
