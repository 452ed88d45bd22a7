"""Runs gpu_check's steps in processes of their own: side by side, as a GPU may be at hand for
minutes, and so that a kernel that ends its process's GPU context ends no other step."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from gpu_report import Report

ALONE = ("times", "compiled")  # what measures runs by itself


def run_apart(arguments: list[str], steps: list[str], jobs: int, report: Report, limit: float) -> None:
    """Runs steps with gpu_check's arguments up to the output, values in as many parts as jobs."""
    values = [("values", ["--part", f"{k}/{jobs}"]) for k in range(jobs)] if "values" in steps else []
    others: list[tuple[str, list[str]]] = [(name, []) for name in steps if name != "values" and name not in ALONE]
    lock = Lock()
    with tempfile.TemporaryDirectory() as folder:

        def run(number: int, step: tuple[str, list[str]]) -> None:
            name, more = step
            path = Path(folder) / f"{number}.json"
            command = [sys.executable, "-P", "-m", "gpu_check", *arguments, str(path), "--jobs", "1", "--only", name]
            try:
                done = subprocess.run([*command, *more], capture_output=True, text=True, timeout=limit)
                said = (done.stdout + done.stderr)[-2000:]
            except subprocess.TimeoutExpired:
                said = f"did not end within {limit:.0f} s"
            part = json.loads(path.read_text()) if path.exists() else {"steps": {}}
            if name not in part["steps"]:
                part["steps"][name] = {"result": f"FAILED: {said}", "seconds": limit}
            with lock:
                print(" ".join([name, *more[1:]]) + f": {part['steps'][name]['result']}", flush=True)
                merge(report, part)
                report.save()

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(run, range(len(values + others)), values + others))
        if values and (empty := without_a_case(report)):
            merge(report, {"steps": {"values": {"result": f"FAILED: without a valid case: {empty}", "seconds": 0.0}}})
            report.save()
        for number, name in enumerate(name for name in ALONE if name in steps):
            run(-1 - number, (name, []))


def without_a_case(report: Report) -> list[str]:
    """The ops of which no problem is valid, so that nothing was compared."""
    return [name for name, op in report.get("values", {}).items() if not op["cases"]]


def merge(report: Report, part: dict[str, Any]) -> None:
    """Adds what one process found."""
    for op, found in part.pop("values", {}).items():
        all_found = report.setdefault("values", {}).setdefault(op, {"cases": 0, "different": []})
        all_found["cases"] += found["cases"]
        all_found["different"] += found["different"]
    for name, step in part.pop("steps").items():
        known = report["steps"].setdefault(name, step)
        known["seconds"] = max(known["seconds"], step["seconds"])
        if known["result"] == "passed":
            known["result"] = step["result"]
    rows = {row["name"]: row for row in report.setdefault("times", [])}
    for row in part.pop("times", []):
        if row["name"] in rows:
            rows[row["name"]].update(row)
        else:
            report["times"].append(row)
    if not report["times"]:
        del report["times"]
    report.setdefault("traces", {}).update(part.pop("traces", {}))
    for key, value in part.items():
        report.setdefault(key, value)
