"""The programs that make documents: the growth plots run, tiny; the report writes its tables."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import nacre as nc
from benchmarks.test_baseline import FOLDER, program
from nacre.base.errors import ArgumentError
from nacre.examples.workloads.networks import NETWORKS


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


@pytest.mark.slow
def test_the_models_make_a_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    models, file = program("models"), tmp_path / "models.json"
    line = ["--only", "experts-gather-few", "--modes", "infer", "--rounds", "1", "--seconds", "0", "--json", str(file)]
    assert models.main(line) == 0
    head, _, row = capsys.readouterr().out.splitlines()
    assert head.startswith("| least / median ms, peak MiB | nacre | torch |")
    assert row.startswith("| experts-gather-few, infer | ") and row.endswith(" | – | – | – |")
    assert json.loads(file.read_text())["experts-gather-few, infer"]["nacre"]["peak"] > 0


def test_the_models_are_compared_with_the_best_other(tmp_path: Path) -> None:
    models = program("models")
    times = {"nacre": (2.0, 4.0, 10.0), "torch": (3.0, 3.0, 9.0), "inductor": (5.0, 6.0, 30.0)}
    found = {k: {"least": a, "median": b, "peak": c} for k, (a, b, c) in times.items()}
    assert list(models.cells(found))[2:] == ["–", "5000.00 / 6000.00, 30", "1.50", "**0.75**", "**0.90**"]
    file, page = tmp_path / "models.json", tmp_path / "page.md"
    file.write_text(json.dumps({"lstm, train": found}))
    page.write_text("Before.\n<!-- models -->\nold\n<!-- models end -->\nAfter.\n")
    assert models.main(["--table", str(file), "--page", str(page)]) == 0
    before, mark, _, _, _, row, mean, *after = page.read_text().splitlines()
    assert (before, mark) == ("Before.", "<!-- models -->")
    assert row.startswith("| lstm, train | 2000.00 / 4000.00, 10 |")
    assert mean.endswith("| 1.50 | 0.75 | |") and after == ["", "<!-- models end -->", "After."]
    page.write_text("no marks\n")
    with pytest.raises(SystemExit, match="the page must have"):
        models.main(["--table", str(file), "--page", str(page)])


@pytest.mark.slow
def test_first_steps_make_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """One network in both ways; all of them are made."""
    steps = program("first_step")
    assert steps.main(["--only", "squeezenet", "--rounds", "1"]) == 0
    head, _, row = capsys.readouterr().out.splitlines()
    assert head == "| first step, seconds, least / median | nacre | nacre eager |"
    assert re.fullmatch(r"\| squeezenet \| [\d.]+ / [\d.]+ \| [\d.]+ / [\d.]+ \|", row)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "vgg11", "squeezenet", "efficientnet", "densenet"])
def test_the_networks_of_first_steps_have_classes(name: str) -> None:
    steps = program("first_step")
    model = steps.network(name, "nacre").eval()
    assert model(nc.ones((1, 3, 64, 64))).shape == (1, steps.CLASSES)


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


def kernel(label: str, milliseconds: float, flops: float, nbytes: float = 1e3) -> dict[str, object]:
    """A kernel in a report of `nacre bench`."""
    return {"label": label, "dtype": "f32", "flops": flops, "bytes": nbytes, "seconds": milliseconds / 1e3}


def bench_of(least: float, f32: float) -> dict[str, object]:
    """A report of `nacre bench vit` with three kernels."""
    rows = [kernel("contract+add", 6, 2e9), kernel("contract+add", 2, 1e9), kernel("gelu", 2, 0, 1e3)]
    flops = {"f32": f32, "f64": f32 / 2}
    return {
        "workloads": {
            "vit": {"least": least, "whole": 2 * least, "flops": 3e9, "traffic": 1e6, "walked": 0.01, "kernels": rows}
        },
        "ceilings": {"isa": "avx512", "threads": 2, "flops": flops, "bandwidths": [[1 << 14, 8e11], [1 << 28, 1e10]]},
    }


def test_networks_have_shares_of_the_roof_and_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    networks = program("networks")
    found = networks.kept([bench_of(0.02, 5e11), bench_of(0.01, 4e11)])
    assert found["networks"]["vit"] == {
        "least": 10.0,
        "floor": 6.0,
        "by kernels": 0.6,
        "kernels": [
            {"kind": "contract+add", "times": 2, "part": 0.8, "share": 0.75},
            {"kind": "gelu", "times": 1, "part": 0.2, "share": 0.0},
        ],
    }
    monkeypatch.setattr(networks, "causes", lambda: [(re.compile("^vit: gelu"), "few bytes")])
    page = networks.page("Before.\n<!-- networks -->\nold\n<!-- networks end -->\nAfter.\n", {"One": found})
    assert "old" not in page and page.endswith("\nAfter.\n") and "### One" in page
    assert re.search(r"`vit`: training step of .* \| 10 \| 6 \| 60% \| 60% \|", page)
    assert "| vit | `contract+add` | 2 | 80% | 75% |  |" in page
    assert "| vit | `gelu` | 1 | 20% | 0% | few bytes |" in page
    monkeypatch.setattr(networks, "causes", lambda: [])
    with pytest.raises(ArgumentError, match=r"a cause in causes\.toml is required for gelu of vit"):
        list(networks.tables(found))
    with pytest.raises(ArgumentError, match="got none"):
        networks.kept([{**bench_of(1, 1e11), "workloads": {}}])


def test_the_page_shows_the_networks_that_were_measured() -> None:
    networks = program("networks")
    text = networks.PAGE.read_text(encoding="utf-8")
    data = json.loads(networks.DATA.read_text(encoding="utf-8"))
    assert networks.page(text, data) == text, "python3 run.py bench networks"
    assert all(set(found["networks"]) <= {w.name for w in NETWORKS} for found in data.values())
