"""Embedding bags, trained in PyTorch and served from C++ and Go: one digest."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """The folder that `run.py --quick` has filled; its output is in log.txt."""
    folder = tmp_path_factory.mktemp("bags")
    command = [sys.executable, Path(__file__).with_name("run.py"), "--quick", "--out", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "log.txt").write_text(done.stdout)
    return folder


def test_the_servers_compute_the_bits_of_the_trained_network(out):
    log = (out / "log.txt").read_text()
    assert len(log.splitlines()) == 4 and "computed the same bits" in log


@pytest.mark.parametrize("language", ["cpp", "go"])
def test_a_shape_beyond_its_bytes_is_refused(out, language):
    """A layer's weight is shown to matmul by strides: nobody else measures its memory."""
    tensors = load_file(out / "model.safetensors")
    more = {"hidden.bias": torch.zeros(39), "last.weight": torch.zeros(1, 39)}
    model = save({**tensors, **more})
    weight = model.index(b'"hidden.weight"')
    (out / "large").write_bytes(model[:weight] + model[weight:].replace(b"[32,16]", b"[39,16]", 1))
    command = [out / f"serve-{language}", out / "large", out / "held_out.safetensors"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 1 and result.stdout == "" and "hidden.weight" in result.stderr
