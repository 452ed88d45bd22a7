"""What of gpu_check needs no GPU: with --device cpu, the CPU's best rows stand in for one."""

import json

import torch
from isobit import gpu_check, gpu_steps

CASES = """
# A comment, and a choice that is no valid problem.
quantize_per_tensor x={f32|f16}[40] zero_point=none q={s8|i32} qmin=-8 qmax=7
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
    place = gpu_check.place

    def wrong(value, device, layout):
        placed = place(value, device, layout)
        wrong.calls += 1
        if value.shape == (1, 3, 5, 7) and wrong.calls % 2:
            placed += 1
        return placed

    wrong.calls = 0
    monkeypatch.setattr(gpu_check, "place", wrong)
    code, report = run(tmp_path, "--only", "values")
    assert code == 1
    assert report["steps"]["values"]["result"].startswith("FAILED: different from the CPU: ['grid_sample: 2 of 2']")
    assert report["values"]["grid_sample"]["different"][0]["problem"].startswith("grid_sample input=")


def test_torch(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_steps, "SAMPLES", {"embedding": gpu_steps.SAMPLES["embedding"]})
    code, report = run(tmp_path, "--only", "torch")
    assert code == 0, report["traces"]


def test_digest_has_one_nan():
    a, b = torch.tensor([1.0, float("nan")]), torch.tensor([1.0, -float("nan")])
    assert gpu_steps.digest(a) == gpu_steps.digest(b) != gpu_steps.digest(-a)
