"""python -m isobit."""

import os
import subprocess
import sys
from pathlib import Path

import isobit
import pytest
from isobit import __main__ as cli


def run(*words, **environment):
    command = [sys.executable, "-m", "isobit", *words]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120)


def test_diagnosis():
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("isobit", "torch", "library", "isa", "cuda  ", "rows", "self-check         passed"):
        assert word in done.stdout
    assert isobit.__version__ in done.stdout


@pytest.mark.parametrize("rows", ("go", "avx2"))
def test_self_check_of_other_rows(rows):
    done = run(ISOBIT_ROWS=rows)
    assert done.returncode == 0, done.stdout


def test_diagnosis_without_a_library():
    done = run(ISOBIT_LIBRARY="/nowhere/libisobit.so")
    assert done.returncode == 1
    assert "FAILED" in done.stdout and "/nowhere/libisobit.so" in done.stdout


def test_wrong_results_are_reported(monkeypatch, capsys):
    monkeypatch.setattr(cli, "self_check", lambda: "0" * 16)
    assert cli.diagnosis() == 1
    assert "wrong results" in capsys.readouterr().out


def test_config():
    done = run("config", "--cflags", "--libs")
    assert done.returncode == 0
    words = done.stdout.split()
    include = next(w[2:] for w in words if w.startswith("-I"))
    assert (Path(include) / "isobit.h").is_file()
    assert any(w.startswith("-L") for w in words) and any("isobit" in w and w.startswith("-l") for w in words)


def test_config_for_cmake_and_for_nobody(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["isobit", "config", "--cmakedir"])
    assert cli.main() == 0
    assert capsys.readouterr().out.strip().endswith("cmake/isobit")
    monkeypatch.setattr(sys, "argv", ["isobit", "config"])
    assert cli.main() == 2


def test_version_is_the_headers():
    assert isobit.__version__ == isobit._C.version()


@pytest.mark.parametrize("words", ((), ("config", "--libs")))
def test_a_reader_that_is_gone_is_no_traceback(words):
    """As `python -m isobit | head -1` has it."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "isobit", *words], stdout=write, stderr=subprocess.PIPE, timeout=120)
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")
