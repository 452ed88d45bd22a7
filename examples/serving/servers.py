"""Builds and runs the servers of an example in C++ and Go."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import isobit

ROOT = Path(__file__).resolve().parents[2]


def cpp_compiler() -> list[str]:
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and shutil.which(name):
            return [name]
    return [sys.executable, "-m", "ziglang", "c++"]


def build(example: Path, out: Path) -> dict[str, list[str]]:
    """Builds serve.cpp and serve/ of an example; gives the command of each by its language."""
    package = Path(isobit.__file__).parent
    library, include = package / "lib/libisobit.so.1", package / "include"
    flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-I", include, f"-Wl,-rpath,{library.parent}"]
    cpp = out / "serve-cpp"
    subprocess.run([*cpp_compiler(), *flags, example / "serve.cpp", library, "-o", cpp], check=True)
    go = out / "serve-go"
    command = [os.environ.get("GO", "go"), "build", "-o", go, f"./examples/{example.name}/serve"]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    return {"C++": [cpp], "Go": [go]}


def report(command: list[str]) -> tuple[float, str]:
    """Runs a program in a process of its own; gives the accuracy and the digest that it prints."""
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = dict(line.split() for line in output.splitlines())
    return float(lines["accuracy"]), lines["sha256"]


def verdict(results: set, right: float, wanted: float | None) -> int:
    """The exit code: 1 where results differ, or where the accuracy is below what is wanted."""
    if len(results) != 1:
        print("FAILED: the results differ", file=sys.stderr)
        return 1
    if wanted is not None and right < wanted:
        print(f"FAILED: the accuracy is {right:.2%}; at least {wanted:.0%} is wanted", file=sys.stderr)
        return 1
    print("The trained network and its servers computed the same bits.")
    return 0


def serve(command: list[str], model: Path, held_out: Path) -> tuple[float, str]:
    """Runs a server on held-out data."""
    return report([*command, model, held_out])
