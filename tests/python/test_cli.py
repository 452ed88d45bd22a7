"""python -m isobit."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import isobit
import pytest
from isobit import __main__ as cli
from kit import python


def test_diagnosis():
    done = subprocess.run([sys.executable, "-m", "isobit"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("isobit", "torch", "library", "isa", "cuda  ", "rows in use", "self-check         passed"):
        assert word in done.stdout
    assert isobit.__version__ in done.stdout


DIAGNOSIS = "from isobit.__main__ import diagnosis; print('code', diagnosis())"


@pytest.mark.parametrize("rows", ("go", "avx2"))
def test_self_check_of_other_rows(rows):
    said = python(DIAGNOSIS, ISOBIT_ROWS=rows)
    assert said.endswith("code 0\n") and f"ISOBIT_ROWS        {rows}\n" in said
    used = rows if isobit.info()["isa"] != "go" else "go"
    assert [line.split()[3] for line in said.splitlines() if line.startswith("rows in use")] == [f"{used}:"]


def test_diagnosis_without_a_library():
    said = python(DIAGNOSIS, ISOBIT_LIBRARY="/nowhere/libisobit.so")
    assert said.endswith("code 1\n") and "FAILED" in said and "/nowhere/libisobit.so" in said


def test_wrong_results_are_reported(monkeypatch, capsys):
    monkeypatch.setattr(cli, "self_check", lambda: "0" * 16)
    assert cli.diagnosis() == 1
    assert "wrong results" in capsys.readouterr().out


def test_version(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["isobit", "--version"])
    with pytest.raises(SystemExit, match="^0$"):
        cli.main()
    assert capsys.readouterr().out == f"isobit {isobit.__version__}\n"


def test_config(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["isobit", "config", "--cflags", "--libs"])
    assert cli.main() == 0
    words = capsys.readouterr().out.split()
    include = next(w[2:] for w in words if w.startswith("-I"))
    assert (Path(include) / "isobit.h").is_file()
    assert any(w.startswith("-L") for w in words) and "-lisobit" in words


def test_config_between_blanks(monkeypatch, capsys):
    """As `eval` and Python's shlex take it."""
    monkeypatch.setattr(cli, "checkout", lambda: Path("/a folder"))
    monkeypatch.setattr(sys, "argv", ["isobit", "config", "--cflags", "--libs"])
    assert cli.main() == 0
    words = shlex.split(capsys.readouterr().out)
    assert words == ["-I/a folder/include", "-L/a folder/build", "-lisobit", "-Wl,-rpath,/a folder/build"]


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
