"""Trains, exports, and classifies the held-out digits in Python, C++ and Go: see README.md."""

import argparse
import hashlib
import sys
from pathlib import Path

import torch
from data import distorted_copies, load
from export import export
from model import DigitNet
from picture import draw
from safetensors.torch import save_file
from train import accuracy, predict, train

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "serving"))
from servers import build, serve, verdict  # noqa: E402

WANTED = 0.94  # accuracy on held-out digits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="train for seconds, whatever the accuracy")
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--out", type=Path, default=HERE / "out", help="folder for what is made")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    servers = {"Python": [sys.executable, HERE / "serve.py"], **build(HERE, out)}
    # The layers are small: threads would wait for each other more than they would help.
    torch.set_num_threads(1)

    digits, test = load()
    held_out = distorted_copies(test)
    if options.quick:
        options.epochs = 2
        digits, held_out = digits.first(256), held_out.first(360)

    nets, histories = {}, {}
    for name, transformer in (("with transformer", True), ("without", False)):
        torch.manual_seed(0)
        nets[name] = DigitNet(transformer)
        histories[name] = train(name, nets[name], digits, held_out, options.epochs)
    net = nets["with transformer"]
    draw(out / "digits.png", histories, net, held_out)
    export(net, out / "model.safetensors")
    save_file({"canvases": held_out.images, "labels": held_out.labels}, out / "held_out.safetensors")

    logits = {name: predict(net, held_out.images) for name, net in nets.items()}
    results = {
        f"PyTorch, {name}": (accuracy(x, held_out.labels), hashlib.sha256(x.numpy().tobytes()).hexdigest())
        for name, x in logits.items()
    }
    for language, command in servers.items():
        results[f"{language}, from the file"] = serve(command, out / "model.safetensors", out / "held_out.safetensors")

    print(f"\n{len(held_out.labels)} held-out digits      accuracy   SHA-256 of the logits")
    for name, (right, digest) in results.items():
        print(f"{name:<26} {right:8.2%}   {digest}")
    print(f"training took {sum(h.seconds for h in histories.values()):.0f} s; picture: {out / 'digits.png'}")

    served = {digest for name, (_, digest) in results.items() if name != "PyTorch, without"}
    return verdict(served, results["PyTorch, with transformer"][0], None if options.quick else WANTED)


if __name__ == "__main__":
    sys.exit(main())
