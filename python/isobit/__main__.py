"""python -m isobit: a diagnosis. python -m isobit config: flags for compilers.

python -m isobit                          what is installed, found and working; exit code 1 if not
python -m isobit config --cflags --libs   for a C or C++ compiler
python -m isobit config --cmakedir        for find_package(isobit), which makes isobit::isobit: -Disobit_DIR=$(...)
python -m isobit config --pkgconfigdir    for PKG_CONFIG_PATH
python -m isobit config --includedir --libdir
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import shlex
import sys
from pathlib import Path

from ._load import PACKAGE, checkout, find_library
from ._version import __version__

# What config answers: the flags and what they are for.
FLAGS = {
    "cflags": "for a C or C++ compiler",
    "libs": "for its linker",
    "cmakedir": "for find_package(isobit), which makes isobit::isobit: -Disobit_DIR=$(...)",
    "pkgconfigdir": "for PKG_CONFIG_PATH",
    "includedir": "where isobit.h and isobit.hpp are",
    "libdir": "where the library is",
}


def include_dir() -> Path:
    root = checkout()
    return root / "include" if root else PACKAGE / "include"


def library_dir() -> Path:
    root = checkout()
    return root / "build" if root else PACKAGE / "lib"


def package_dir(name: str) -> Path:
    return PACKAGE / "lib" / name


def libs() -> str:
    """Flags for the linker."""
    folder = library_dir()
    return shlex.join([f"-L{folder}", "-lisobit", f"-Wl,-rpath,{folder}"])


def config(args: argparse.Namespace) -> int:
    answers = {
        "cflags": shlex.join([f"-I{include_dir()}"]),
        "libs": libs(),
        "cmakedir": str(package_dir("cmake/isobit")),
        "pkgconfigdir": str(package_dir("pkgconfig")),
        "includedir": str(include_dir()),
        "libdir": str(library_dir()),
    }
    asked = [answers[name] for name in FLAGS if getattr(args, name)]
    if not asked:
        print("isobit config: say what you want: " + " ".join(f"--{name}" for name in FLAGS), file=sys.stderr)
        return 2
    print(" ".join(asked))
    return 0


def line(name: str, value: object) -> None:
    print(f"{name:18} {value}")


def self_check() -> str:
    """A digest of results that are known: of every kind of kernel."""
    import torch

    import isobit

    def whole(*shape: int, seed: int, size: int) -> torch.Tensor:
        """Whole numbers in [-size, size), the same in every version of torch."""
        n = 1
        for extent in shape:
            n *= extent
        i = torch.arange(n, dtype=torch.int64) + seed
        return (((i * 2654435761) % 4294967296 // 65536) % (2 * size) - size).reshape(shape)

    x = whole(8, 50, seed=1, size=4096).float() / 64
    scale = (whole(8, seed=2, size=64).float().abs() + 8) / 64
    zero = whole(8, seed=3, size=10).float()
    indices = whole(40, seed=4, size=3) + 3
    grid = whole(1, 5, 5, 2, seed=5, size=40).float() / 32
    image = x.reshape(1, 1, 20, 20)
    scatter = isobit.grid_sample_backward(grid[..., 0].reshape(1, 1, 5, 5), image, grid)
    dx, ds, dz = isobit.fake_quantize_per_channel_affine_backward(x * 0.37, x, scale, zero, 0, -128, 127)
    results: list[torch.Tensor | None] = [
        isobit.quantize_per_channel(x, scale, zero, 0, -128, 127, torch.int8),
        isobit.fake_quantize_per_channel_affine(x, scale, zero, 0, -128, 127),
        dx,
        ds,
        dz,
        isobit.embedding_backward(x.reshape(40, 10).half(), indices, 6),
        isobit.embedding_bag(indices, x[:6], indices.new_tensor([0, 7, 7]), mode="sum"),
        isobit.grid_sample(image, grid, padding_mode="reflection"),
        isobit.grid_sample(image, grid, mode="bicubic"),
        *scatter,
        isobit.affine_grid(grid[0, :2, :3, 0].reshape(1, 2, 3), [1, 1, 6, 7]),
        isobit.quantized_linear(x, x[:3], zero[:3]),
        isobit.linear(x, x[:3] * 0.37, zero[:3]),
        isobit.matmul(x.bfloat16().reshape(40, 10), x.bfloat16().reshape(40, 10).t()),
    ]
    digest = hashlib.sha256()
    for r in results:
        assert r is not None
        digest.update(r.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


KNOWN = "e10e9a6b87405eb2"

# A problem for each kind of kernel.
PROBLEMS = """\
quantize_per_channel x=f32[8,50] q=s8 axis=0 qmin=-128 qmax=127
dequantize_per_channel q=s8[8,50] y=f32 axis=0 qmin=-128 qmax=127
fake_quantize_per_channel x=f32[8,50] axis=0 qmin=-128 qmax=127
fake_quantize_per_channel_backward grad_output=f32[8,50] axis=0 qmin=-128 qmax=127
dynamic_quantize_per_token x=f32[8,50] q=s8 qmin=-127 qmax=127
embedding weight=f32[6,10] indices=i64[40]
embedding_backward grad_output=f32[40,10] indices=i64[40] grad_weight=f32[6,10]
embedding_bag weight=f32[6,10] indices=i64[40] offsets=i64[3]
grid_sample input=f32[1,1,20,20] grid=f32[1,5,5,2]
grid_sample_backward grad_output=f32[1,1,5,5] input=f32[1,1,20,20] grid=f32[1,5,5,2]
affine_grid theta=f32[1,2,3] grid=f32[1,6,7,2]
quantized_linear x=s8[8,50] weight=s8[3,50] y=f32
quantized_linear_per_group x=u8[8,50] x_zero_point=i32 weight=s4[3,50] group_size=32
weight_only_linear x=f32[8,50] weight=s8[3,50] group_size=50
matmul input=f32[8,50] other=f32[50,3]
matmul input=bf16[8,50] other=bf16[50,3]
"""


def diagnosis() -> int:
    import torch

    import isobit

    line("isobit", f"{isobit.__version__} in {PACKAGE}")
    line("python", f"{platform.python_version()} on {platform.platform()}")
    line("torch", f"{torch.__version__}, {torch.get_num_threads()} threads")
    cuda = "available" if torch.cuda.is_available() else "no device"
    line("torch's CUDA", f"{torch.version.cuda or 'not built in'}, {cuda}")
    line("exchange", "by table" if hasattr(torch.Tensor, "__dlpack_c_exchange_api__") else "by __dlpack__ (slower)")
    for name in ("ISOBIT_LIBRARY", "ISOBIT_ROWS", "ISOBIT_VERBOSE"):
        if name in os.environ:
            line(name, os.environ[name])
    try:
        line("library", find_library())
        for key, value in sorted(isobit.info().items()):
            line(f"  {key}", value)
        rows: dict[str, list[str]] = {}
        for problem in PROBLEMS.splitlines():
            rows.setdefault(isobit.Plan(problem).describe()["row"], []).append(problem.split()[0])
        for row, ops in sorted(rows.items()):
            line("rows in use", f"{row}: {', '.join(dict.fromkeys(ops))}")
        digest = self_check()
    except BrokenPipeError:
        raise
    except Exception as error:
        line("FAILED", error)
        return 1
    if digest != KNOWN:
        line("FAILED", f"the self-check gave {digest}, want {KNOWN}: these are wrong results, please report them")
        return 1
    line("self-check", f"passed ({digest})")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m isobit", description=__doc__.split("\n")[0])
    parser.add_argument("--version", action="version", version=f"isobit {__version__}")
    commands = parser.add_subparsers(dest="command")
    flags = commands.add_parser("config", help="flags for compilers")
    for name, what in FLAGS.items():
        flags.add_argument(f"--{name}", action="store_true", help=what)
    args = parser.parse_args()
    try:
        code = config(args) if args.command == "config" else diagnosis()
        sys.stdout.flush()
    except BrokenPipeError:  # as by `| head -1`; what Python still flushes at its end goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
