"""Embedding bags, trained in PyTorch and served from C++ and Go: one digest."""

import subprocess
import sys
from pathlib import Path


def test_the_servers_compute_the_bits_of_the_trained_network(tmp_path):
    command = [sys.executable, Path(__file__).with_name("run.py"), "--quick", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 4 and "computed the same bits" in done.stdout
