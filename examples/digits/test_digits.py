"""The main job in seconds: three languages, one digest."""

import subprocess
import sys
from pathlib import Path


def test_three_servers_compute_the_bits_of_the_trained_network(tmp_path):
    run = Path(__file__).with_name("run.py")
    result = subprocess.run(
        [sys.executable, run, "--quick", "--out", tmp_path], capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "the same bits" in result.stdout
    assert (tmp_path / "digits.png").stat().st_size > 10_000
