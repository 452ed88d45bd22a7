"""Measures isobit beside PyTorch.

    python bench/run.py            every size and type: JSON, a Markdown table and plots in bench/results
    python bench/run.py --quick    the table of targets, 16M elements, 2 threads, in about a minute

Ratios are times of PyTorch over times of isobit, measured in turns in one run.
"roofline" is isobit's bandwidth over the machine's best of copy, read and fill.
"""

from __future__ import annotations

import argparse
import json
import platform
import warnings
from pathlib import Path

import measure

measure.reuse_memory()

import cases  # noqa: E402
import isobit  # noqa: E402
import torch  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results"


def measured(case: cases.Case, roof: float, threads: int, compile: bool) -> dict[str, object]:
    functions = {"isobit": case.isobit, "eager": case.eager}
    if compile and case.compiled is not None:
        functions["compiled"] = case.compiled
    if case.torchao is not None:
        functions["torchao"] = case.torchao
    best = measure.times(functions)
    own = best["isobit"]
    row: dict[str, object] = {
        "op": case.name,
        "bytes": case.bytes,
        "threads": threads,
        "seconds": best,
        "ratios": {k: t / own for k, t in best.items() if k != "isobit"},
        "allocates": case.allocates,
        "targets": case.targets,
    }
    if case.operations:
        row["gops"] = case.operations / own / 1e9
    else:
        row["ratios"]["roofline"] = case.bytes / own / roof  # type: ignore[index]
    return row


def line(row: dict) -> str:
    """One line: each ratio, and its target with a mark where it is missed."""
    text = f"{row['op']:46s} {row['seconds']['isobit'] * 1e3:9.3f} ms"
    for name in ("eager", "compiled", "torchao", "roofline"):
        ratio, target = row["ratios"].get(name), row["targets"].get(name)
        if ratio is None:
            text += " " * 22
            continue
        mark = "" if target is None else f" ({'>=' if ratio >= target else 'MISSED'} {target:g})"
        text += f"  {name} {ratio:5.2f}x{mark}"
    return text


def quick(compile: bool) -> list[dict]:
    torch.set_num_threads(2)
    roofline = measure.Roofline()
    bandwidth = roofline.measure(2)
    print("GB/s:", ", ".join(f"{k} {v / 1e9:.1f}" for k, v in bandwidth.items()), flush=True)
    rows = []
    for make in cases.target_cases():
        rows.append(measured(make(), max(bandwidth.values()), 2, compile))
        print(line(rows[-1]), flush=True)
    return rows


def full(compile: bool) -> None:
    RESULTS.mkdir(exist_ok=True)
    roofline = measure.Roofline()
    rows = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        bandwidth = roofline.measure(threads)
        for exponent in range(2, 9):
            for make in cases.sweep_cases(10**exponent):
                row = measured(make(), max(bandwidth.values()), threads, compile and exponent in (4, 7))
                rows.append({**row, "elements": 10**exponent, "bandwidth": bandwidth})
                print(f"{threads} threads 1e{exponent} {line({**row, 'targets': {}})}", flush=True)
    torch.set_num_threads(2)
    rows += [{**r, "elements": 1 << 24} for r in quick(compile)]
    setting = {"torch": torch.__version__, "machine": platform.machine(), "isobit": isobit.info()}
    (RESULTS / "results.json").write_text(json.dumps({"setting": setting, "rows": rows}, indent=1) + "\n")
    from report import report

    report(rows, RESULTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    (quick if options.quick else full)(not options.no_compile)


if __name__ == "__main__":
    main()
