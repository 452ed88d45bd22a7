"""The main job in seconds: three languages, one digest."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

RUN = Path(__file__).with_name("run.py")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """The folder that `run.py --quick` has filled; its output is in log.txt."""
    folder = tmp_path_factory.mktemp("digits")
    command = [sys.executable, RUN, "--quick", "--out", folder]
    result = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stdout + result.stderr
    (folder / "log.txt").write_text(result.stdout)
    return folder


def server(language: str, out: Path) -> list:
    if language == "python":
        return [sys.executable, RUN.with_name("serve.py")]
    return [out / f"serve-{language}"]


def serve(language: str, out: Path, model="model.safetensors", digits="held_out.safetensors", **environment):
    command = [*server(language, out), out / model, out / digits]
    environment = {**os.environ, **environment}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def test_the_servers_compute_the_bits_of_the_trained_network(out):
    assert "computed the same bits" in (out / "log.txt").read_text()
    assert (out / "digits.png").stat().st_size > 10_000


@pytest.mark.parametrize("language", ["python", "cpp"])
def test_the_definitions_compute_them_too(out, language):
    """ISOBIT_ROWS=go: without the vector instructions."""
    digest = serve(language, out, ISOBIT_ROWS="go").stdout.split()[-1]
    assert len(digest) == 64 and digest in (out / "log.txt").read_text()


# In Python it is safetensors that refuses, after seconds of imports.
CUTS = [("python", 20_000), *itertools.product(("cpp", "go"), (4, 1000, 20_000))]


@pytest.mark.parametrize(("language", "size"), CUTS)
def test_a_truncated_model_is_refused(out, language, size):
    (out / "cut").write_bytes((out / "model.safetensors").read_bytes()[:size])
    result = serve(language, out, "cut")
    assert result.returncode == 1 and result.stdout == "" and result.stderr


@pytest.mark.parametrize("language", ["cpp", "go"])
def test_labels_without_canvases_are_refused(out, language):
    """Nobody else looks whether there are as many of both."""
    digits = load_file(out / "held_out.safetensors")
    for kept in (0, 5):
        save_file({**digits, "canvases": digits["canvases"][:kept]}, out / "few")
        result = serve(language, out, digits="few")
        assert result.returncode == 1 and "a square canvas for each label" in result.stderr
