"""The programs that make documents: the growth plots run, tiny; the report writes its tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.test_baseline import FOLDER, program


def test_growth_runs(tmp_path: Path) -> None:
    line = [sys.executable, str(FOLDER / "growth.py"), "--tiny", "--rounds", "1", "--seconds", "0", "--folder"]
    subprocess.run([*line, str(tmp_path)], check=True, capture_output=True,
                   env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    found = json.loads((tmp_path / "growth.json").read_text())
    assert len(found["operations"]) == 4 and all(len(points) == 3 for points in found["operations"].values())
    assert [name for name in found["compilation"]] == ["pointwise chain", "layers"]
    assert all((tmp_path / name).read_text().startswith("<svg") for name in ("growth.svg", "compilation.svg"))


def test_the_report_has_floors_and_ratios() -> None:
    report = program("report")
    good = {"min": 3.0, "median": 3.3, "ok": True}
    ours = {"min": 2.0, "median": 2.2, "ok": True}
    results = {"versions": {"torch": "2", "ort": "1", "nacre@x:Y": "0.1"},
               "cases": {"W1": {"torch": good, "nacre@x:Y": ours, "ort": {"error": "no training"}},
                         "W9.add": {"torch": good}}}
    lines = report.timed(results, {"mlp": 0.0009})
    assert lines[2].endswith("| 3 / 3.3 | – | 2 / 2.2 | 1.50 (1.50) | 0.9 | 45% |")
    assert lines[3].endswith("| 3 / 3.3 | – | – | – | – | – |")
    assert "floor" not in report.timed(results, {})[0]
