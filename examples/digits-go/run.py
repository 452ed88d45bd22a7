"""Trains the digits in Go, and classifies the held-out ones in Python, C++ and Go: see README.md."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WANTED = 0.93  # accuracy on held-out digits

DIGITS = HERE.parent / "digits"  # whose servers read what this example writes
sys.path.insert(0, str(HERE.parent / "serving"))
from servers import build, report, serve, verdict  # noqa: E402


def train(out: Path, arguments: list[str]) -> tuple[float, str]:
    """Builds and runs the Go program; gives the accuracy and the digest of its own logits."""
    program = out / "digits-go"
    go = [os.environ.get("GO", "go"), "build", "-o", program, "./examples/digits-go"]
    subprocess.run(go, cwd=ROOT, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    return report([program, "-out", out, *arguments])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="train for seconds, whatever the accuracy")
    parser.add_argument("--threads", type=int, default=0, help="0: one per CPU")
    parser.add_argument("--strategy", default="none", choices=["none", "balanced", "budget"])
    parser.add_argument("--out", type=Path, default=HERE / "out", help="folder for what is made")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    arguments = [f"-threads={options.threads}", f"-strategy={options.strategy}", f"-quick={options.quick}".lower()]
    results = {"Go, in training": train(out, arguments)}
    servers = {"Python": [sys.executable, DIGITS / "serve.py"], **build(DIGITS, out)}
    for language, command in servers.items():
        results[f"{language}, from the file"] = serve(command, out / "model.safetensors", out / "held_out.safetensors")

    for name, (right, digest) in results.items():
        print(f"{name:<26} {right:8.2%}   {digest}")
    right, _ = results["Go, in training"]
    return verdict(set(results.values()), right, None if options.quick else WANTED)


if __name__ == "__main__":
    sys.exit(main())
