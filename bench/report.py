"""Writes a run's tables as Markdown and as plots."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

RATIOS = ("eager", "compiled", "torchao", "roofline", "loop", "least")
TITLES = {
    "quick": "Targets: 16M elements, 2 threads, memory reused",
    "fresh": "New memory: 16M elements, 2 threads, the C allocator as it comes",
    "small": "512 elements, 1 thread",
    "scatter": "Embedding and grid_sample",
    "linear": "Linear layers",
    "layouts": "Layouts: what does not lie one after the other, 1 thread",
    "sweep": "Sizes",
}


def report(tables: dict[str, list[dict]], folder: Path) -> None:
    text = "# Measured\n\nColumns: see ../../README.md. A target that was missed is in bold, with the target; not in bold where the bound,\n"
    text += "what the C loop that moves the same bytes (or a call that computes nothing) has in its place, misses it, too.\n"
    for name, title in TITLES.items():
        text += f"\n## {title}\n\n{table(tables[name])}"
    grown = {r["huge_pages"]: r["MiB"] for r in tables["fresh"]}
    text += "\n## Memory of new outputs\n\n256 outputs of 4 MiB + 4 KiB (1,025 MiB) take "
    text += f"{grown[False]:.1f} MiB without huge pages, {grown[True]:.1f} MiB with them.\n"
    text += f"\n## Speed on 2 threads over that on 1\n\n{crossover(tables['threads'])}"
    (folder / "results.md").write_text(text)
    for threads in (1, 2):
        plot([r for r in tables["sweep"] if r["threads"] == threads], folder / f"threads{threads}.png", threads)


def bound(row: dict, name: str) -> float | None:
    """What a ratio would be if isobit took as long as the C loop that moves the same bytes or, on few elements, no time."""
    ratios = row["ratios"]
    if "loop" in ratios:
        return ratios[name] / ratios["loop"]
    return ratios.get("least") if name == "eager" else None


def verdict(row: dict, name: str) -> str:
    """Of a ratio with a target: "met", "missed", or "bound" where what bounds it does not reach the target either."""
    ratio, target = row["ratios"].get(name), row["targets"].get(name)
    if ratio is None or target is None:
        return ""
    most = bound(row, name)
    return "met" if ratio >= target else "bound" if most is not None and most < target else "missed"


def cell(row: dict, name: str) -> str:
    ratio, target = row["ratios"].get(name), row["targets"].get(name)
    if ratio is None:
        return ""
    texts = {"missed": "**{0:.2f}** (< {1:.3g})", "bound": "{0:.2f} (< {1:.3g}, bound {2:.2f})"}
    return texts.get(verdict(row, name), "{0:.2f}").format(ratio, target, bound(row, name))


def table(rows: list[dict]) -> str:
    text = "| op | elements | threads | isobit ms | " + " | ".join(RATIOS) + " | allocates |\n"
    text += "|---" * (5 + len(RATIOS)) + "|\n"
    for r in rows:
        op = r["op"] + (f", huge pages {'on' if r['huge_pages'] else 'off'}" if "huge_pages" in r else "")
        elements = f"{r['elements']:.0e}" if "elements" in r else ""
        cells = [op, elements, r["threads"], f"{r['seconds']['isobit'] * 1e3:.4f}", *(cell(r, k) for k in RATIOS)]
        text += "| " + " | ".join(map(str, [*cells, r["allocates"]])) + " |\n"
    return text


def crossover(rows: list[dict]) -> str:
    ops, sizes = sorted({r["op"] for r in rows}), sorted({r["elements"] for r in rows})
    found = {(r["op"], r["elements"]): r["seconds"]["1"] / r["seconds"]["2"] for r in rows}
    text = "| elements | " + " | ".join(ops) + " |\n" + "|---" * (len(ops) + 1) + "|\n"
    for n in sizes:
        text += f"| {n} | " + " | ".join(f"{found[op, n]:.2f}" for op in ops) + " |\n"
    return text


def plot(rows: list[dict], path: Path, threads: int) -> None:
    figure, axes = plt.subplots(2, 1, figsize=(10, 10), sharex=True)
    for op in sorted({r["op"] for r in rows}):
        mine = sorted((r for r in rows if r["op"] == op), key=lambda r: r["elements"])
        x = [r["elements"] for r in mine]
        axes[0].plot(x, [r["ratios"]["eager"] for r in mine], marker=".", label=op)
        axes[1].plot(x, [r["bytes"] / r["seconds"]["isobit"] / 1e9 for r in mine], marker=".")
    axes[0].set(yscale="log", ylabel="times faster than PyTorch eager", title=f"{threads} thread{'s' * (threads > 1)}")
    axes[0].axhline(1, color="black", lw=0.5)
    axes[1].set(xscale="log", xlabel="elements", ylabel="GB/s")
    axes[0].legend(fontsize=6, ncol=2)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
