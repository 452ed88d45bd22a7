"""The README's Python runs, each block as it stands, and prints what it says; its speeds, and those of bench/README.md, are the measured ones."""

import re
from pathlib import Path

README = Path(__file__).resolve().parents[2] / "README.md"


def test_speeds_are_the_results(monkeypatch):
    monkeypatch.syspath_prepend(README.parent / "bench")
    import readme

    for path, text in readme.pages().items():
        assert path.read_text() == text, f"{path.name} is stale: python bench/readme.py"


def test_python(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1] == "[[2, -50, 127], [10, 20, 30]]"
