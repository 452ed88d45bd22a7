"""Trains a small recommender on embedding bags in PyTorch, and serves it from C++ and Go with the same bits.

    python examples/bags/run.py

A user is a bag of items that were seen; the network says whether a candidate is of the user's taste. The data are
drawn from hidden vectors: users have a taste, items a place, and users see items near their taste.
"""

import argparse
import hashlib
import sys
from pathlib import Path

import isobit
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

HERE = Path(__file__).resolve().parent
WANTED = 0.84  # accuracy on held-out users

sys.path.insert(0, str(HERE.parent / "serving"))
from servers import build, serve, verdict  # noqa: E402

ITEMS, WIDTH = 1000, 16


class Recommender(nn.Module):
    """Logits [n] of n candidates [n] for the bags of seen items that begin at offsets [n]."""

    def __init__(self):
        super().__init__()
        self.seen = isobit.nn.EmbeddingBag(ITEMS, WIDTH, mode="mean")
        self.candidate = isobit.nn.Embedding(ITEMS, WIDTH)
        self.hidden = isobit.nn.Linear(WIDTH, 32)
        self.last = isobit.nn.Linear(32, 1)

    def forward(self, seen: Tensor, offsets: Tensor, candidate: Tensor) -> Tensor:
        x = self.seen(seen, offsets) * self.candidate(candidate)
        return self.last(self.hidden(x).relu()).squeeze(1)


def draw(users: int, random: torch.Generator) -> dict[str, Tensor]:
    """Users with 5 to 20 seen items each, and one candidate each: of their taste (label 1), or any other item (0)."""
    places = torch.randn(ITEMS, 3, generator=torch.Generator().manual_seed(0))
    tastes = 2 * torch.randn(users, 3, generator=random)
    chances = (tastes @ places.t()).softmax(1)
    lengths = torch.randint(5, 21, (users,), generator=random)
    drawn = torch.multinomial(chances, 21, replacement=True, generator=random)
    labels = torch.randint(2, (users,), generator=random)
    others = torch.randint(ITEMS, (users,), generator=random)
    return {
        "seen": torch.cat([row[:length] for row, length in zip(drawn, lengths, strict=True)]),
        "offsets": lengths.cumsum(0) - lengths,
        "candidate": torch.where(labels == 1, drawn[:, 20], others),
        "labels": labels,
    }


def train(net: Recommender, steps: int) -> None:
    random = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(steps):
        users = draw(256, random)
        labels = users.pop("labels").float()
        loss = binary_cross_entropy_with_logits(net(**users), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="train for a moment, whatever the accuracy")
    parser.add_argument("--out", type=Path, default=HERE / "out", help="folder for what is made")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)

    torch.set_num_threads(1)  # batches are small: threads would wait for each other more than they would help
    torch.manual_seed(0)
    net, held_out = Recommender(), draw(2000, torch.Generator().manual_seed(2))
    train(net, 20 if options.quick else 600)
    save_file(net.state_dict(), out / "model.safetensors")
    save_file(held_out, out / "held_out.safetensors")

    with torch.no_grad():
        logits = net(held_out["seen"], held_out["offsets"], held_out["candidate"])
    right = ((logits > 0) == (held_out["labels"] == 1)).double().mean().item()
    results = {"PyTorch, as trained": (round(right, 4), hashlib.sha256(logits.numpy().tobytes()).hexdigest())}
    for language, command in build(HERE, out).items():
        results[f"{language}, from the file"] = serve(command, out / "model.safetensors", out / "held_out.safetensors")
    for name, (accuracy, digest) in results.items():
        print(f"{name:<22} {accuracy:7.2%}   {digest}")
    return verdict(set(results.values()), right, None if options.quick else WANTED)


if __name__ == "__main__":
    sys.exit(main())
