"""Trained in Go, served from three languages: one digest."""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("run.py")


@pytest.mark.parametrize("strategy", ["none", "budget"])
def test_the_servers_compute_the_bits_of_the_network_that_go_trained(tmp_path, strategy):
    command = [sys.executable, RUN, "--quick", "--strategy", strategy, "--out", tmp_path]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "computed the same bits" in result.stdout
