"""Writes the tables of speeds, the project's README's and this folder's, from the results of each kind of processor.

python bench/readme.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
BEGIN, END = "<!-- speed table: made by bench/readme.py -->\n", "<!-- end of speed table -->\n"
# As folders of results are named (run.py).
PROCESSORS = {"amd-family-25-avx2": "Zen 3", "amd-family-25-avx512": "Zen 4", "amd-family-26-avx512": "Zen 5"}

# What is said of each op, and the names of what was measured.
TARGETS = {
    "quantize_per_channel f32 to s8, axis first": "quantize_per_channel float32 axis first",
    "axis middle": "quantize_per_channel float32 axis middle",
    "axis last": "quantize_per_channel float32 axis last",
    "quantize_per_channel bf16 to s8": "quantize_per_channel bfloat16 axis first",
    "dequantize_per_channel": "dequantize_per_channel",
    "fake_quantize_per_channel forward": "fake_quantize_per_channel forward",
    "with backward": "fake_quantize_per_channel forward + backward",
    "LSQ, all three gradients": "LSQ forward + backward, three gradients",
    "dequantize_per_token_backward f32": "dequantize_per_token_backward float32",
    "bf16": "dequantize_per_token_backward bfloat16",
    "f16": "dequantize_per_token_backward float16",
    "dynamic quantize_per_token (the loop reads each row twice)": "dynamic quantize_per_token",
    "quantized_linear 512x4096x4096, beside f32": "quantized_linear 512x4096x4096",
}
FEW = ("1", "4", "16")
LINEAR = [
    ("quantized_linear of 1 / 4 / 16 rows, 4096x4096, beside f32", "quantized_linear {}x4096x4096, beside float32", FEW),
    ("beside bf16", "quantized_linear {}x4096x4096, beside bfloat16", FEW),
    ("weight_only_linear int8 of 1 / 4 / 16 / 128 rows, beside f32", "weight_only_linear {}x4096x4096 int8 float32", (*FEW, "128")),
    ("int4", "weight_only_linear {}x4096x4096 int4 float32", (*FEW, "128")),
    ("int8 beside bf16", "weight_only_linear {}x4096x4096 int8 bfloat16", (*FEW, "128")),
    ("linear in f32 of 1 / 16 / 128 rows, 4096x4096", "linear {}x4096x4096 float32", ("1", "16", "128")),
    ("in bf16", "linear {}x4096x4096 bfloat16", ("1", "16", "128")),
    ("linear 512x512x512: f32 / with backward / f64 / bf16", "linear 512x512x512 {}", ("float32", "float32 with backward", "float64", "bfloat16")),
]  # fmt: skip
BOTH = ("forward", "backward")
SCATTER = [
    ("embedding, forward and backward: 1000 rows / 50257 rows / in bf16", "embedding forward + backward V={}", ("1000 uniform float32", "50257 uniform float32", "50257 uniform bfloat16")),
    ("embedding with max_norm, 1024 of 30000x768", "embedding max_norm 30000x768, 1024 indices", ("",)),
    ("embedding_bag, 64 columns of f32: sum / mean / max", "embedding_bag {} forward D=64 float32", ("sum", "mean", "max")),
    ("its gradients: sum / mean / max / per_sample_weights", "embedding_bag {} backward D=64 float32", ("sum", "mean", "max", "weighted")),
    ("grid_sample forward / backward, 16x64x128x128", "grid_sample {} 16x64x128x128 float32", BOTH),
    ("1x3x1080x1920", "grid_sample {} 1x3x1080x1920 float32", BOTH),
    ("256x1x28x28", "grid_sample {} 256x1x28x28 float32", BOTH),
    ("volumes of 2x4x32x32x32", "grid_sample {} 2x4x32x32x32 float32", BOTH),
    ("nearest, 8x16x64x64", "grid_sample nearest {} 8x16x64x64 float32", BOTH),
    ("nearest, 1x3x512x512", "grid_sample nearest {} 1x3x512x512 float32", BOTH),
    ("bicubic, 8x16x64x64", "grid_sample bicubic {} 8x16x64x64 float32", BOTH),
    ("bicubic, 1x3x512x512", "grid_sample bicubic {} 1x3x512x512 float32", BOTH),
    ("bicubic, volumes of 2x4x32x32x32", "grid_sample bicubic {} 2x4x32x32x32 float32", BOTH),
    ("f64, 8x16x64x64", "grid_sample {} 8x16x64x64 float64", BOTH),
    ("twice differentiated, 8x16x64x64: bilinear / bicubic / nearest", "grid_sample {}twice 8x16x64x64 float32", ("", "bicubic ", "nearest ")),
    ("affine_grid forward / backward, 16x3x224x224", "affine_grid {} 16x3x224x224 float32", BOTH),
]  # fmt: skip
LAYOUTS = [
    ("LSQ per channel: channels last / transposed / cropped / below a sum", "LSQ per channel forward + backward, {}", ("channels last", "transposed", "cropped", "gradient of a sum")),
    ("grid_sample backward: channels last / below a sum", "grid_sample backward, {}", ("channels last", "gradient of a sum")),
]  # fmt: skip
# Of what the least and the most is said, and what the names match of what was measured.
RANGES = [
    ("embeddings", "scatter", "embedding forward|embedding_bag (?!max forward)"),
    ("the largest of bags", "scatter", "embedding_bag max forward"),
    ("with max_norm", "scatter", "embedding max_norm"),
    ("grid_sample forward", "scatter", "grid_sample .*forward"),
    ("backward", "scatter", "grid_sample .*backward"),
    ("differentiated twice", "scatter", "grid_sample .*twice"),
    ("affine_grid", "scatter", "affine_grid"),
    ("quantized_linear beside float32 layers", "linear", "quantized_linear .*float32"),
    ("linear layers of float32", "linear", "linear .*float32"),
    ("of bfloat16", "linear", "linear .*bfloat16"),
]

Results = dict[str, list[dict]]


def number(x: float | None) -> str:
    return "" if x is None else f"{x:.0f}" if x >= 10 else f"{x:.1f}"


def table(head: list[str], rows: list[list[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])


def targets(measured: dict[str, Results]) -> str:
    rows = []
    for label, op in TARGETS.items():
        row = [label]
        for results in measured.values():
            found = next(r for r in results["quick"] if r["op"] == op)
            ratios, peak = found["ratios"], found.get("peak", "VNNI")
            bound = number(ratios["loop"]) if "loop" in ratios else f"{ratios['roofline']:.2f} of {peak}'s peak"
            row.append(" / ".join((number(ratios["eager"]), number(ratios.get("compiled")) or "-", bound)))
        rows.append(row)
    return table(["op", *measured], rows)


def ranges(measured: dict[str, Results]) -> str:
    said = []
    for label, name, pattern in RANGES:
        found = [r["ratios"]["eager"] for m in measured.values() for r in m[name] if re.match(pattern, r["op"])]
        said.append(f"{label} {number(min(found))} to {number(max(found))}")
    return f"\nThe other ops, on one thread and two, beside PyTorch eager: {', '.join(said)}.\n"


def others(measured: dict[str, Results]) -> str:
    def cell(results: Results, name: str, op: str, parts: tuple[str, ...], threads: int) -> str:
        found = {(r["op"], r["threads"]): r["ratios"]["eager"] for r in results[name]}
        return " / ".join(number(found[op.format(part), threads]) for part in parts)

    rows = []
    for name, ops, counts in (("linear", LINEAR, (1, 2)), ("scatter", SCATTER, (1, 2)), ("layouts", LAYOUTS, (1,))):
        for label, op, parts in ops:
            cells = [cell(m, name, op, parts, n) if n in counts else "" for m in measured.values() for n in (1, 2)]
            rows.append([label, *cells])
    return table(["op", *(f"{name}, {n} thread{'s' * (n > 1)}" for name in measured for n in (1, 2))], rows)


def pages() -> dict[Path, str]:
    """What each page is to say."""
    folders = {name: HERE / "results" / folder / "results.json" for folder, name in PROCESSORS.items()}
    measured = {name: json.loads(path.read_text()) for name, path in folders.items() if path.exists()}
    written = {}
    for path, text in (
        (HERE.parent / "README.md", targets(measured) + ranges(measured)),
        (HERE / "README.md", others(measured)),
    ):
        before, rest = path.read_text().split(BEGIN)
        written[path] = before + BEGIN + text + END + rest.split(END)[1]
    return written


def update() -> None:
    for path, text in pages().items():
        path.write_text(text)


if __name__ == "__main__":
    update()
