"""What of gpu_check needs no GPU: with --device cpu, the CPU's best rows stand in for one."""

import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import isobit
import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cuda" / "check"))
import gpu_check  # noqa: E402
import gpu_jobs  # noqa: E402
import gpu_report  # noqa: E402
import gpu_steps  # noqa: E402
import gpu_streams  # noqa: E402
import gpu_times  # noqa: E402
import gpu_values  # noqa: E402

CASES = """
# A comment, and a choice that is no valid problem.
quantize_per_tensor x={f32|f16}[40] zero_point=none q={s8|i64} qmin=-8 qmax=7
embedding_backward grad_output=f32[30,4] indices=i64[30] grad_weight=f32[5,4] accumulate={true|false}
grid_sample input=f32[1,3,5,7] grid=f32[1,4,6,2] padding_mode={zeros|border}
"""


def run(tmp_path, *more):
    (tmp_path / "cases.txt").write_text(CASES)
    out = tmp_path / "out.json"
    code = gpu_check.main([str(tmp_path / "cases.txt"), str(out), "--device", "cpu", *more])
    return code, json.loads(out.read_text())


def test_values(tmp_path, capsys):
    code, report = run(tmp_path, "--only", "values")
    assert code == 0
    assert {name: op["cases"] for name, op in report["values"].items()} == {
        "quantize_per_tensor": 2,
        "embedding_backward": 2,
        "grid_sample": 2,
    }
    assert "values     passed" in capsys.readouterr().out


def test_a_difference_fails(tmp_path, monkeypatch):
    place = gpu_values.place

    def wrong(value, device, layout):
        placed = place(value, device, layout)
        wrong.calls += 1
        if value.shape == (1, 3, 5, 7) and wrong.calls % 2:
            placed += 1
        return placed

    wrong.calls = 0
    monkeypatch.setattr(gpu_values, "place", wrong)
    code, report = run(tmp_path, "--only", "values")
    assert code == 1
    assert report["steps"]["values"]["result"].startswith("FAILED: different from the CPU: ['grid_sample: 2 of 2']")
    assert report["values"]["grid_sample"]["different"][0]["problem"].startswith("grid_sample input=")


def test_errors_do_not_end_a_step(tmp_path, monkeypatch):
    def fails(definition, text, number, device):
        if text.startswith("grid_sample"):
            raise RuntimeError("the device is gone")
        return [], []

    monkeypatch.setattr(gpu_values, "run_problem", fails)
    programs = {"broken": (lambda x: x.no_such_method(), (torch.ones(2),)), **gpu_steps.PROGRAMS}
    monkeypatch.setattr(gpu_steps, "PROGRAMS", programs)
    code, report = run(tmp_path, "--only", "values,gradients")
    assert code == 1
    assert report["values"]["grid_sample"]["different"][0]["got"] == ["RuntimeError: the device is gone"]
    assert report["values"]["embedding_backward"]["different"] == []
    wrong = report["steps"]["gradients"]["result"]
    assert wrong.startswith("FAILED: broken: AttributeError") and ";" not in wrong


def test_torch(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_steps, "SAMPLES", {"embedding": gpu_steps.SAMPLES["embedding"]})
    code, report = run(tmp_path, "--only", "gradients,opcheck")
    assert code == 0, report["traces"]


def test_large(tmp_path):
    code, report = run(tmp_path, "--only", "large", "--match", "max")
    assert code == 0, report["traces"]


def test_match(tmp_path):
    code, report = run(tmp_path, "--only", "values", "--match", "accumulate=true")
    assert code == 0 and {name: op["cases"] for name, op in report["values"].items()} == {"embedding_backward": 1}
    code, report = run(tmp_path, "--only", "values,gradients", "--match", "accumulate=maybe")
    assert code == 1
    assert {step["result"] for step in report["steps"].values()} == {
        "FAILED: nothing to check has 'accumulate=maybe' in its name"
    }


def test_times(tmp_path, monkeypatch):
    """The measuring program with small sizes: every row is measured beside torch or says why not."""
    monkeypatch.setattr(gpu_times, "elapsed", lambda call, on_gpu: call() is not None and 1.0)
    code, report = run(tmp_path, "--only", "times")
    assert code == 0, report["traces"]
    assert len(report["times"]) > 20 and all(row["us"] > 0 for row in report["times"])


def test_compiled(monkeypatch):
    """Compiled times go beside the others, as far as time allows."""
    monkeypatch.setattr(gpu_times, "elapsed", lambda call, on_gpu: call() is not None and 1.0)
    monkeypatch.setattr(torch, "compile", lambda call: call)
    report = gpu_report.Report(times=[{"name": "quantize_per_channel f32 -> s8", "us": 7.0}])
    gpu_times.measure_compiled("cpu", report)
    assert report["times"][0] == {"name": "quantize_per_channel f32 -> s8", "us": 7.0, "compiled_us": 1.0}
    assert len(report["times"]) > 15 and all(row["compiled_us"] == 1.0 for row in report["times"])
    report = gpu_report.Report()
    gpu_times.measure_compiled("cpu", report, seconds=0)
    assert all(row["compiled_us_error"] == "no time was left" for row in report["times"])


def bare_run(tmp_path, *args):
    """./build.sh gpu-check with a shell's basic tools: no Go, no compiler, no home."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "cp", "dirname", "find", "mkdir", "mktemp", "rm"):
        (tools / name).symlink_to(shutil.which(name))
    # Torch does not bring NumPy along.
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError('numpy')")
    env = {"PATH": str(tools), "HOME": str(tmp_path), "PYTHON": sys.executable}
    env |= {name: os.environ[name] for name in ("LD_LIBRARY_PATH", "PYTHONPYCACHEPREFIX") if name in os.environ}
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [shutil.which("bash"), str(ROOT / "build.sh"), "gpu-check", *args]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def test_bare_machine(tmp_path):
    """The verb, as it runs on a machine with a GPU."""
    out = tmp_path / "out.json"
    options = ("--device", "cpu", "--only", "values", "--match", "embedding_renorm", "--jobs", "2")
    done = bare_run(tmp_path, str(out), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "values 0/2: passed" in done.stdout and "values 1/2: passed" in done.stdout
    report = json.loads(out.read_text())
    assert {name: step["result"] for name, step in report["steps"].items()} == {"values": "passed"}
    assert list(report["values"]) == ["embedding_renorm"] and report["values"]["embedding_renorm"]["cases"] > 20


def is_valid(text):
    try:
        isobit.Plan(text, row="go")
    except ValueError:
        return False
    return True


def is_small(text):
    """Whether none of a problem's tensors has more than some thousand elements."""
    shapes = re.findall(r"=\w+\[([\d,]+)\]", text)
    return all(math.prod(map(int, shape.split(","))) <= 4000 for shape in shapes)


def test_every_line_of_the_cases(tmp_path, monkeypatch):
    """A few of its choices, from the first on, of large tensors one; every op has a line."""
    lines = (ROOT / "cuda/cases.txt").read_text().splitlines()
    some = []
    for line in lines:
        texts = [] if line.startswith("#") else list(filter(is_valid, gpu_values.expand(line)))
        some += texts[:: len(texts) // 4 + 1] if all(map(is_small, texts)) else texts[:1]
    monkeypatch.setattr(sys.modules[__name__], "CASES", "\n".join(some))
    code, report = run(tmp_path, "--only", "values")
    assert code == 0, report["steps"]
    values = report["values"]
    assert sum(op["cases"] for op in values.values()) == len(some) > 1.5 * len(lines)
    granularity = re.compile("_per_(tensor|channel|token|group|block)")
    wanted = {granularity.sub("", op["op"]) for op in isobit.support() if "cuda" in op["devices"]}
    assert {granularity.sub("", name) for name in values} == wanted


@pytest.fixture
def in_this_process(monkeypatch):
    """What gpu_jobs starts as processes, which import PyTorch each, are calls; test_bare_machine has the processes."""

    def called(command, **keywords):
        assert command[:4] == [sys.executable, "-P", "-m", "gpu_check"]
        gpu_check.main(command[4:])
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(gpu_jobs.subprocess, "run", called)


def test_a_report_that_is_cut_off(tmp_path, monkeypatch):
    report = gpu_report.Report(steps={})
    report.path = tmp_path / "report.json"
    report.save()
    whole = Path.write_text
    monkeypatch.setattr(Path, "write_text", lambda path, text: whole(path, text[:1]) and 1 // 0)
    with pytest.raises(ZeroDivisionError):
        report.save()
    assert json.loads(report.path.read_text()) == {"steps": {}}


@pytest.mark.usefixtures("in_this_process")
def test_a_process_that_ends_early(tmp_path):
    """It fails its step alone."""
    report = gpu_report.Report(steps={})
    gpu_jobs.run_apart(["--device", "cpu", str(tmp_path)], ["no step", "products"], 1, report, limit=200)
    assert report["steps"]["products"]["result"] == "passed"
    assert report["steps"]["no step"]["result"].startswith("FAILED: ")


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_op_without_a_valid_case(tmp_path, monkeypatch, jobs):
    monkeypatch.setattr(sys.modules[__name__], "CASES", CASES + "matmul input=f32[2,3] other=f32[2,3]\n")
    code, report = run(tmp_path, "--only", "values", "--jobs", jobs)
    assert code == 1
    assert "without a valid case: ['matmul']" in report["steps"]["values"]["result"]
    assert report["values"]["grid_sample"] == {"cases": 2, "different": []}


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu(tmp_path):
    done = bare_run(tmp_path)
    assert done.returncode == 2
    assert re.search(r"gpu-check: (no GPU: torch .* finds none|this torch .* without CUDA)", done.stderr), done.stderr


def test_digest_has_one_nan():
    a, b = torch.tensor([1.0, float("nan")]), torch.tensor([1.0, -float("nan")])
    assert gpu_steps.digest(a) == gpu_steps.digest(b) != gpu_steps.digest(-a)


class NoStream:
    """Stands for what torch.cuda has of streams and graphs: everything runs at once, a replay does nothing."""

    def __init__(self, *args):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass

    wait_stream = synchronize = replay = lambda self, *args: None


def test_streams_and_graphs(monkeypatch):
    """The two steps on the CPU: work that is done in order passes, a replay that does nothing is found."""
    for name in ("Stream", "stream", "current_stream", "CUDAGraph", "graph"):
        monkeypatch.setattr(torch.cuda, name, NoStream)
    for name in ("_sleep", "synchronize", "set_device"):
        monkeypatch.setattr(torch.cuda, name, lambda *args: None)
    exec(gpu_streams._CAPTURED_FIRST.format(device="cpu"), {})
    gpu_streams.check_streams("cpu", gpu_report.Report())
    with pytest.raises(AssertionError) as failed:
        gpu_streams.check_graphs("cpu", gpu_report.Report())
    wrong = dict(line.split(": ") for line in str(failed.value).split("; "))
    assert wrong == dict.fromkeys(gpu_steps.SAMPLES, "wrong in a graph")
    for name, args in gpu_steps.SAMPLES.items():  # what the second replay computes is valid, and something else
        op = getattr(torch.ops.isobit, name).default
        assert gpu_steps.digests(op(*args)) != gpu_steps.digests(op(*gpu_streams.backwards(args))), name


def test_errors_step():
    """The CPU has no mixed devices, which the step finds missing; its index out of bounds has the same text."""
    report = gpu_report.Report()
    with pytest.raises(AssertionError, match="tensors of two devices were accepted"):
        gpu_steps.check_errors("cpu", report)
    gpu_steps.check_out_of_bounds("cpu", report)
    assert "input is 7 at position 1" in report["out_of_bounds"]
