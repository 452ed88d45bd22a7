"""Trains a network on digits that are distorted anew in every epoch."""

import math
import time
from dataclasses import dataclass, field

import numpy as np
import torch
from data import Digits, distort
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

BATCH = 64


@dataclass
class History:
    """What one training did, an entry per epoch; accuracies from 0 to 1."""

    loss: list[float] = field(default_factory=list)
    train: list[float] = field(default_factory=list)
    held_out: list[float] = field(default_factory=list)
    seconds: float = 0.0


@torch.no_grad()
def predict(net: nn.Module, canvases: Tensor, batch: int = 256) -> Tensor:
    """The logits of the network in evaluation mode."""
    net.eval()
    return torch.cat([net(part) for part in canvases.split(batch)])


def accuracy(logits: Tensor, labels: Tensor) -> float:
    return (logits.argmax(1) == labels).float().mean().item()


def train(name: str, net: nn.Module, digits: Digits, held_out: Digits, epochs: int) -> History:
    """Trains `net` in place. The held-out accuracy is for the picture: nothing is chosen by it."""
    random = np.random.default_rng(1)
    history = History()
    steps = epochs * math.ceil(len(digits.labels) / BATCH)
    optimizer = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps, pct_start=0.15)
    start = time.perf_counter()
    with tqdm(total=epochs, desc=name, unit="epoch", disable=None) as bar:  # None: where nobody watches
        for _ in range(epochs):
            net.train()
            canvases = distort(digits.images, random)
            loss_sum, right = 0.0, 0
            for batch in torch.from_numpy(random.permutation(len(canvases))).split(BATCH):
                labels = digits.labels[batch]
                logits = net(canvases[batch])
                loss = cross_entropy(logits, labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
                loss_sum += loss.item() * len(batch)
                right += (logits.argmax(1) == labels).sum().item()
            history.loss.append(loss_sum / len(canvases))
            history.train.append(right / len(canvases))
            history.held_out.append(accuracy(predict(net, held_out.images), held_out.labels))
            bar.set_postfix(loss=f"{history.loss[-1]:.3f}", held_out=f"{history.held_out[-1]:.1%}")
            bar.update()
    history.seconds = time.perf_counter() - start
    return history
