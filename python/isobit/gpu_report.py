"""What gpu_check finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Report(dict[str, Any]):
    """A report that is written to a file whenever something is added, for a run that is cut off."""

    path: Path | None = None

    def save(self) -> None:
        if self.path:
            self.path.write_text(json.dumps(self, indent=1))
