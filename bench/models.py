"""Measures training steps and serving calls of whole models, those of model_cases.py.

python bench/models.py            one Markdown table: PyTorch's time over isobit's, eager
python bench/models.py --compile  both sides by torch.compile, which takes some minutes to build
python bench/models.py --write    the first one, into the results of this kind of processor
"""

from __future__ import annotations

import argparse
import warnings

import measure

measure.reuse_memory()

import model_cases  # noqa: E402
import torch  # noqa: E402
from run import RESULTS, processor  # noqa: E402

HEAD = f"""# Whole models

A step, or a call, with PyTorch {torch.__version__.split("+")[0]} alone: its time over isobit's. A line that names no model
is of the one above. Models: ../../model_cases.py.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="", help="models whose names have this in them")
    options = parser.parse_args()
    if options.write and (options.compile or options.only):
        parser.error("--write is for the whole table, eager")
    warnings.filterwarnings("ignore")
    model_cases.COMPILED = options.compile
    lines = [HEAD, "| model | 1 thread | 2 threads |", "| --- | --- | --- |"]
    for name, make in model_cases.models():
        if options.only in name:
            lines.append(f"| {name} | {' | '.join(ratio(make, threads) for threads in (1, 2))} |")
            print(lines[-1], flush=True)
    if options.write:
        (RESULTS / processor() / "models.md").write_text("\n".join(lines) + "\n")


def ratio(make: model_cases.Make, threads: int) -> str:
    """PyTorch's time over isobit's; a dash where PyTorch does not run."""
    torch.set_num_threads(threads)  # isobit follows
    steps = {}
    for side in (False, True):
        torch.manual_seed(0)
        steps[side] = make(side)
        try:
            steps[side]()
        except Exception:
            if side:
                raise
            return "-"
    best = measure.times(steps, budget=1.2)
    return f"{best[False] / best[True]:.2f}"


if __name__ == "__main__":
    main()
