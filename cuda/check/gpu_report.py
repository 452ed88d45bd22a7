"""What gpu_check finds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class Report(dict[str, Any]):
    """A report that is written to a file whenever something is added, for a run that is cut off."""

    path: Path | None = None
    match = ""

    def matching(self, names: Iterable[str]) -> list[str]:
        """The names that have match in them."""
        found = [name for name in names if self.match in name]
        if not found:
            raise AssertionError(f"nothing to check has {self.match!r} in its name")
        return found

    def save(self) -> None:
        if self.path:
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps(self, indent=1))
            part.replace(self.path)  # whole, or as it was
