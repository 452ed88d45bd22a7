"""What pip installs: the wheel's content, and builds on machines that lack something."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import build_native  # noqa: E402

# A program that computes with whatever isobit it finds first, and prints where that was.
USE = """
import os, torch, isobit
x = torch.tensor([0.4, 1.6, -9.0])
y = isobit.fake_quantize_per_tensor_affine(x, 1.0, 0, -8, 7)
assert y.tolist() == [0.0, 2.0, -8.0], y
cuda = isobit.info()["cuda"]
assert os.environ.get("ISOBIT_CUDA") == "0" or "this build has no CUDA" not in cuda, cuda
print(isobit.__file__)
"""

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not build_native.find_go() or not build_native.find_cc(),
    reason="needs Linux, Go and a C compiler",
)


def use(package: Path) -> None:
    """Runs USE with the package in this folder, and checks that it was this one."""
    environment = {**os.environ, "PYTHONPATH": str(package)}
    environment.pop("ISOBIT_LIBRARY", None)
    done = subprocess.run([sys.executable, "-c", USE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(package)


def test_wheel(tmp_path):
    build = "from hatchling.build import build_wheel; import sys; build_wheel(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", build, tmp_path], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith(f"isobit-{build_native.version()}-cp311-abi3-linux_")
    with zipfile.ZipFile(wheel) as z:
        names = set(z.namelist())
        z.extractall(tmp_path / "site")
    for wanted in (
        "_C.abi3.so",
        "_C.pyi",
        "py.typed",
        "lib/libisobit.so",
        "lib/libisobit.so.1",
        "include/isobit.h",
        "include/isobit.hpp",
        "lib/pkgconfig/isobit.pc",
        "lib/cmake/isobit/isobitConfig.cmake",
        "lib/cmake/isobit/isobitConfigVersion.cmake",
    ):
        assert f"isobit/{wanted}" in names
    unwanted = [n for n in names if n.endswith((".c", ".go")) or "build_native" in n or "hatch_build" in n]
    assert not unwanted
    use(tmp_path / "site")
    link(tmp_path / "site/isobit")


def link(package: Path) -> None:
    """Links a program by name, as pkg-config says, and by path, as CMake makes of that, and runs it."""
    lib, program = package / "lib", package / "a.out"
    (package / "a.c").write_text(
        "#include <isobit.h>\nint main(void) { return isobit_abi_version() != ISOBIT_ABI_VERSION; }\n"
    )
    assert "-lisobit" in (lib / "pkgconfig/isobit.pc").read_text()
    for words in ([f"-L{lib}", "-lisobit"], [lib / "libisobit.so"]):
        cc = [*build_native.find_cc().split(), package / "a.c", f"-I{package / 'include'}", "-o", program]
        subprocess.run([*cc, *words, f"-Wl,-rpath,{lib}"], check=True)
        subprocess.run([program], check=True)


def test_extension_without_python_headers(tmp_path):
    """The extension built with python/stable_abi/Python.h, for a machine without python3-dev."""
    package = tmp_path / "isobit"
    ignore = shutil.ignore_patterns("_C.abi3.so", "__pycache__")
    shutil.copytree(ROOT / "python/isobit", package, ignore=ignore)
    cc = build_native.find_cc().split()
    build_native.build_extension(package / build_native.EXTENSION, [*cc, "-Werror"], build_native.OWN_HEADERS)
    use(tmp_path)


def test_a_python_whose_path_has_a_blank(tmp_path, monkeypatch):
    python = tmp_path / "a b" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\n[ "$1" = -c ] && touch "${0%/*}/cuda.h" && echo "${0%/*}" || echo "$@"\n')
    python.chmod(0o755)
    command = ["sh", str(ROOT / "cuda/setup.sh"), str(tmp_path / "out")]
    env = {**os.environ, "PYTHON": str(python)}
    lines = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.splitlines()
    assert lines[0] == f"CGO_CFLAGS=-O2 -I{tmp_path}/out/include" and (tmp_path / "out/include/cuda.h").exists()
    monkeypatch.setattr(sys, "executable", str(python))
    said = subprocess.run([build_native.zig_cc(tmp_path), "-o", "x y"], check=True, capture_output=True, text=True)
    assert said.stdout.startswith("-m ziglang cc -target ") and said.stdout.endswith("-o x y\n")


@pytest.mark.skipif(not os.environ.get("ISOBIT_TEST_INSTALL"), reason="downloads 200 MB; ISOBIT_TEST_INSTALL=1 runs it")
def test_install_without_compilers(tmp_path):
    """pip install where neither Go nor a C compiler is on PATH."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "cat", "dirname", "env", "mkdir", "mv", "rm", "sed", "uname"):
        (tools / name).symlink_to(shutil.which(name))
    venv.create(tmp_path / "venv", with_pip=True)
    kept = {k: v for k, v in os.environ.items() if k.startswith(("PIP_", "SSL_", "GOPROXY", "GOSUMDB"))}
    environment = {**kept, "PATH": str(tools), "HOME": str(tmp_path)}
    python = tmp_path / "venv/bin/python"
    subprocess.run([python, "-m", "pip", "install", "--no-deps", ROOT], env=environment, check=True)
    (package,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    tag = next(package.glob("isobit-*.dist-info")).joinpath("WHEEL").read_text()
    assert "manylinux_2_28" in tag
    use(package)
