"""The package's version, which include/isobit.h states."""

from __future__ import annotations

import re

from ._load import PACKAGE, checkout


def _read() -> str:
    root = checkout()
    for folder in ([root / "include"] if root else []) + [PACKAGE / "include"]:
        header = folder / "isobit.h"
        if header.is_file():
            found = re.search(r'#define ISOBIT_VERSION "(.*)"', header.read_text())
            if found:
                return found[1]
    return "unknown"


__version__ = _read()
