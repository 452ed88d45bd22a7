"""Trained in Go, served from three languages: one digest."""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).with_name("run.py")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """The folder that `run.py --quick` has filled."""
    folder = tmp_path_factory.mktemp("digits-go")
    command = [sys.executable, RUN, "--quick", "--out", folder]
    result = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stdout + result.stderr
    (folder / "log.txt").write_text(result.stdout)
    return folder


def test_the_servers_compute_the_bits_of_the_network_that_go_trained(out):
    assert "computed the same bits" in (out / "log.txt").read_text()


@pytest.mark.parametrize("strategy", ["balanced", "budget"])
def test_a_strategy_trains_the_same_network(out, tmp_path, strategy):
    command = [out / "digits-go", "-out", tmp_path, "-quick=true", f"-strategy={strategy}"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=900, check=True).stdout
    assert dict(line.split() for line in said.splitlines())["sha256"] in (out / "log.txt").read_text()
    assert (tmp_path / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
