"""Writes a run's rows as a Markdown table and as plots."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def report(rows: list[dict], folder: Path) -> None:
    table(rows, folder / "results.md")
    for threads in (1, 2):
        plot([r for r in rows if r["threads"] == threads], folder / f"threads{threads}.png", threads)


def table(rows: list[dict], path: Path) -> None:
    text = "| op | elements | threads | isobit ms | eager | compiled | torchao | roofline | allocates |\n"
    text += "|---|---|---|---|---|---|---|---|---|\n"
    for r in rows:
        ratios = [
            f"{r['ratios'][k]:.2f}" if k in r["ratios"] else "" for k in ("eager", "compiled", "torchao", "roofline")
        ]
        cells = [
            r["op"],
            f"{r['elements']:.0e}",
            r["threads"],
            f"{r['seconds']['isobit'] * 1e3:.4f}",
            *ratios,
            r["allocates"],
        ]
        text += "| " + " | ".join(map(str, cells)) + " |\n"
    path.write_text(text)


def plot(rows: list[dict], path: Path, threads: int) -> None:
    ops = sorted({r["op"] for r in rows})
    figure, axes = plt.subplots(2, 1, figsize=(10, 10), sharex=True)
    for op in ops:
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
