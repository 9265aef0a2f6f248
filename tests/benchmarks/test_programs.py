"""The programs that make documents: the growth plots run, tiny; the report writes its tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.test_baseline import FOLDER, program


@pytest.mark.slow
def test_growth_runs(tmp_path: Path) -> None:
    line = [sys.executable, str(FOLDER / "growth.py"), "--tiny", "--rounds", "1", "--seconds", "0", "--folder"]
    subprocess.run(
        [*line, str(tmp_path)],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    found = json.loads((tmp_path / "growth.json").read_text())
    assert len(found["operations"]) == 4 and all(len(points) == 3 for points in found["operations"].values())
    assert [name for name in found["compilation"]] == ["pointwise chain", "layers"]
    assert all((tmp_path / name).read_text().startswith("<svg") for name in ("growth.svg", "compilation.svg"))


def test_common_calls_make_a_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    calls = program("calls")
    few = ["x + y", "sort", "x[b]"]
    file = tmp_path / "calls.json"
    assert calls.main(["--sizes", "4", "--rounds", "2", "--seconds", "0", "--json", str(file), "--only", *few]) == 0
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head == "| call | 4, eager | 4, compiled |" and [row.split("`")[1] for row in rows] == few
    assert rows[2].endswith("| – |") and len(json.loads(file.read_text())["calls"]["sort"]["4"]["numpy"]) == 2
    assert len(calls.CASES) >= 80
    with pytest.raises(SystemExit):
        calls.main(["--only", "unknown"])


RESULTS = {
    "versions": {"nacre@x:Y": "0.1", "torch": "2", "ort": "1"},
    "cases": {
        "W1": {
            "torch": {"min": 3.0, "median": 3.3, "ok": True},
            "ort": {"error": "no training"},
            "nacre@x:Y": {"min": 2.0, "median": 2.2, "ok": True},
        },
        "W9.add": {"torch": {"min": 3.0, "median": 3.3, "ok": True}, "ort": {"min": 1, "median": 1, "ok": False}},
    },
    "fresh": {
        "nacre@x:Y": {
            "import_s": [0.02, 0.01],
            "W1.cold": [{"time_to_first": 0.5, "peak_mib": 99.6}],
            "W1.warm": [{"error": "none"}],
        }
    },
}
BENCH = {
    "workloads": {"mlp": {"floor": 0.0009}},
    "ceilings": {"flops": {"f32": 4e11}, "bandwidths": [[16384, 8e11], [1 << 20, 4e11]]},
}


def test_the_report_has_floors_and_ratios() -> None:
    report = program("report")
    lines = list(report.tables(report.kept(RESULTS, BENCH)))
    assert [line for line in lines if "MLP" in line or "torch" in line or "nacre" in line][:5] == [
        "| least / median | 784-512-512-10 MLP, batch 128, Adam |",
        "| torch 2 | 3 / 3.3 |",
        "| nacre 0.1 | 2 / 2.2 |",
        "| **nacre, times as fast as the best other** | 1.50 (1.50) |",
        "| floor (share of the roof that nacre reaches) | 0.9 (45%) |",
    ]
    assert "| ort 1 | wrong |" in lines and "| import, s | 0.01 |" in lines
    assert "| first result of the MLP step, nothing cached / cached, s | 0.50 / – |" in lines
    assert "Floors: 400 GFLOP/s in float32; by the bytes that move, in GB/s: 16 KiB 800, 1 MiB 400." in lines
    assert not any("floor" in line.lower() for line in report.tables(report.kept(RESULTS, None)))


def test_the_report_writes_each_processor_and_charts_the_first() -> None:
    report = program("report")
    data = {name: report.kept(RESULTS, None) for name in ("One", "Two")}
    page = report.page("Before.\n<!-- measured -->\nold\n<!-- end -->\nAfter.\n", data)
    assert page.startswith("Before.\n") and page.endswith("\nAfter.\n") and "old" not in page
    assert page.index("### One") < page.index("### Two")
    assert report.page(page, data) == page
    drawn = report.chart("One <core>", data["One"])
    assert "1.50 × PyTorch" in drawn and "One &lt;core&gt;" in drawn and "prefers-color-scheme: dark" in drawn
    assert json.loads(report.as_json(data)) == data
