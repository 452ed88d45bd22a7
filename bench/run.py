"""Measures isobit beside PyTorch.

    python bench/run.py              every table below and a sweep of sizes and types:
                                     JSON, Markdown and plots in bench/results, in a folder for this
                                     kind of processor, and the table in README.md
    python bench/run.py --quick      the table of targets, 16M elements, 2 threads, in less than a minute
    python bench/run.py --fresh      large outputs that are new memory of the system, with huge pages and without
    python bench/run.py --small      eager calls on 512 elements
    python bench/run.py --threads    from how many elements on the second thread pays
    python bench/run.py --scatter    embedding and grid_sample
    python bench/run.py --linear     linear layers
    python bench/run.py --layouts    tensors whose elements do not lie one after the other

Ratios are times of PyTorch over times of isobit, measured in turns in one run.
"roofline" is isobit's bandwidth over the machine's best of copy, read and fill (for what has
targets measured in the same turns);
"loop" is isobit's speed over that of a loop in C that only moves the same bytes;
"least" is what the first ratio would be if isobit's own part took no time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import measure

if "--fresh" not in sys.argv:
    measure.reuse_memory()

import cases  # noqa: E402
import isobit  # noqa: E402
import layout_cases  # noqa: E402
import linear_cases  # noqa: E402
import scatter_cases  # noqa: E402
import torch  # noqa: E402
from case import Case  # noqa: E402
from report import bound, report, verdict  # noqa: E402

RESULTS = Path(__file__).resolve().parent / "results"
RATIOS = ("eager", "compiled", "torchao", "roofline", "loop", "least")
SMALL = 1 << 20  # bytes; below, the calls are what is measured


class Bench:
    """One run on a number of threads, and what the machine does in it."""

    def __init__(self, threads: int = 2, compile: bool = True, patience: int = 1) -> None:
        self.threads, self.compile, self.patience = threads, compile, patience
        torch.set_num_threads(threads)
        self.roofline = measure.Roofline()
        self.moves = self.roofline.moves(threads)
        self.bandwidth = self.roofline.bandwidths(measure.times(self.moves))
        self.products = self.roofline.multiplications(threads)
        print(
            f"{threads} threads, GB/s:",
            ", ".join(f"{k} {v / 1e9:.1f}" for k, v in self.bandwidth.items()),
            f"; {self.roofline.multiplier()} {self.products / 1e9:.0f} G products/s" if self.products else "",
            flush=True,
        )

    def measured(self, case: Case, compile: bool = True) -> dict:
        functions = {"isobit": case.isobit, "eager": case.eager}
        if compile and self.compile and case.compiled is not None:
            functions["compiled"] = case.compiled
        if case.torchao is not None:
            functions["torchao"] = case.torchao
        if case.reads + case.writes >= 1 << 24 and not case.operations:
            loop = self.roofline.loop(case.reads, case.writes, self.threads, case.row)
            functions["loop"] = (lambda: (loop(), case.engine())) if case.engine else loop
        if case.least is not None and case.reads + case.writes < SMALL:
            functions["least"] = case.least
        if "roofline" in case.targets and not case.operations:
            functions |= self.moves  # memory is not the same from one second to the next
        best = measure.times(functions, measure.ROUNDS * self.patience, measure.BUDGET * self.patience)
        own = best["isobit"]
        ratios = {k: t / own for k, t in best.items() if k != "isobit"}
        if "least" in best:
            ratios["least"] = best["eager"] / best["least"]
        if case.operations:
            if self.products:
                ratios["roofline"] = case.operations / own / self.products
        else:
            bandwidth = self.roofline.bandwidths(best) if "copy" in best else self.bandwidth
            ratios["roofline"] = (case.reads + case.writes) / own / max(bandwidth.values())
        return {
            "op": case.name,
            "bytes": case.reads + case.writes,
            "threads": self.threads,
            "seconds": best,
            "ratios": ratios,
            "allocates": case.allocates,
            "targets": case.targets,
            **({"peak": self.roofline.multiplier()} if case.operations else {}),
        }

    def table(self, makers: list[Callable[[], Case]], compile: bool = True) -> list[dict]:
        """Measures cases one after the other, each made in its turn to keep memory low."""
        rows = []
        for make in makers:
            rows.append(self.measured(make(), compile))
            print(line(rows[-1]), flush=True)
        return rows


def line(row: dict) -> str:
    """One line: each ratio, and its target with a mark where it is missed, and whether its bound misses it, too."""
    text = f"{row['op']:48s} {row['seconds']['isobit'] * 1e3:9.3f} ms"
    for name in RATIOS:
        ratio, target = row["ratios"].get(name), row["targets"].get(name)
        if ratio is None:
            continue
        marks = {
            "met": ">= {0:.3g}",
            "missed": "MISSED {0:.3g}",
            "bound": "below {0:.3g}, and so is the bound, {1:.2f}",
        }
        mark = f" ({marks[verdict(row, name)].format(target, bound(row, name))})" if target is not None else ""
        text += f"  {name} {ratio:.2f}x{mark}"
    return text


def quick(compile: bool, patience: int = 1) -> list[dict]:
    """The table of targets: 16M elements, 2 threads."""
    return Bench(2, compile, patience).table(cases.target_cases())


def scatter(compile: bool) -> list[dict]:
    """Embedding, grid_sample and affine_grid."""
    return [row for threads in (1, 2) for row in Bench(threads, compile=False).table(scatter_cases.scatter_cases())]


def linear(compile: bool) -> list[dict]:
    """Linear layers."""
    return [row for threads in (1, 2) for row in Bench(threads, compile=False).table(linear_cases.linear_cases())]


def layouts(compile: bool) -> list[dict]:
    """Tensors whose elements do not lie one after the other."""
    return Bench(1, compile=False).table(layout_cases.layout_cases())


def small(compile: bool) -> list[dict]:
    """Calls on 512 elements, where PyTorch's and isobit's overheads are what is measured."""
    return Bench(1, compile=False).table(cases.small_cases())


def threads(compile: bool) -> list[dict]:
    """One thread beside two, from sizes where isobit uses one to sizes where it uses both."""
    rows = []
    for exponent in range(12, 22):
        for make in cases.crossover_cases(1 << exponent):
            case = make()

            def on(count: int, call: Callable[[], object] = case.isobit) -> Callable[[], object]:
                def run() -> None:
                    torch.set_num_threads(count)  # isobit follows
                    call()

                return run

            best = measure.times({"1": on(1), "2": on(2)}, rounds=15)
            rows.append({"op": case.name, "elements": 1 << exponent, "seconds": best})
            print(f"{case.name:48s} {1 << exponent:8d} elements  {best['1'] / best['2']:.2f}x on 2 threads", flush=True)
    return rows


def fresh(compile: bool) -> list[dict]:
    """Both sides return new tensors, by the C allocator as it comes."""
    rows = []
    for huge in (False, True):
        isobit.set_huge_pages(huge)
        print(f"huge pages {'on' if huge else 'off'}:")
        grown = measure.resident(huge)
        print(f"256 outputs of 4 MiB + 4 KiB take {grown:.1f} MiB")
        rows += [
            {**row, "huge_pages": huge, "MiB": grown} for row in Bench(2, compile=False).table(cases.fresh_cases())
        ]
    return rows


def sweep(compile: bool) -> list[dict]:
    rows = []
    for count in (1, 2):
        bench = Bench(count, compile)
        for exponent in range(2, 9):
            print(f"1e{exponent} elements, {count} threads:")
            for row in bench.table(cases.sweep_cases(10**exponent), exponent in (4, 7)):
                rows.append({**row, "elements": 10**exponent})
    return rows


# Each takes whether torch.compile is measured, too, which only some tables have.
TABLES = {
    "quick": quick,
    "fresh": fresh,
    "small": small,
    "threads": threads,
    "scatter": scatter,
    "linear": linear,
    "layouts": layouts,
}


def processor() -> str:
    """Its maker, family and best instruction set, as a folder is named: families may have several."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    maker = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}.get(fields.get("vendor_id", ""))
    return f"{maker}-family-{fields['cpu family']}-{isobit.info()['isa']}" if maker else platform.machine()


def everything(compile: bool) -> None:
    import subprocess

    import readme

    folder = RESULTS / processor()
    folder.mkdir(parents=True, exist_ok=True)
    setting = {"torch": torch.__version__, "machine": platform.machine(), "isobit": isobit.info()}
    # The bests of both sides take a while to appear where neighbours use the memory too.
    tables = {"quick": quick(compile, patience=5)}
    tables |= {name: f(compile) for name, f in TABLES.items() if name not in ("quick", "fresh")}
    part = folder / "fresh.tmp"  # the allocator is told at the start of a process
    environment = {k: v for k, v in os.environ.items() if k not in measure.REUSE}
    subprocess.run([sys.executable, __file__, "--fresh", "--json", part], check=True, env=environment)
    tables["fresh"] = json.loads(part.read_text())
    part.unlink()
    tables["sweep"] = sweep(compile)
    (folder / "results.json").write_text(json.dumps({"setting": setting, **tables}, indent=1) + "\n")
    report(tables, folder)
    readme.update()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, f in TABLES.items():
        parser.add_argument(f"--{name}", action="store_true", help=f.__doc__)
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--json", type=Path, help="where to write the rows of a table")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    asked = [f for name, f in TABLES.items() if getattr(options, name)]
    if not asked:
        everything(not options.no_compile)
        return
    rows = [row for f in asked for row in f(not options.no_compile)]
    if options.json:
        options.json.write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
