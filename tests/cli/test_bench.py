"""`nacre bench`, with tiny sizes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nacre.cli.main import main
from nacre.examples.workloads import WORKLOADS
from nacre.inspect import ceilings


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "SIZES", (1 << 14, 1 << 17))
    monkeypatch.setattr(ceilings, "MOVED", 1 << 18)
    monkeypatch.setattr(ceilings, "_known", {})


def test_tables_json_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = tmp_path / "b.json", tmp_path / "b.svg"
    assert (
        main(
            [
                "bench",
                "mlp",
                "softmax",
                "--tiny",
                "--rounds",
                "2",
                "--seconds",
                "0.01",
                "--rows",
                "3",
                "--json",
                str(files[0]),
                "--svg",
                str(files[1]),
            ]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert "softmax 67 × 19" in shown and "20-24-16-10 MLP, batch 8" in shown
    assert "GFLOP/s" in shown and "without stamps" in shown and "the rest" in shown
    written = json.loads(files[0].read_text())
    mlp = written["workloads"]["mlp"]
    assert set(written["workloads"]) == {"mlp", "softmax"} and len(mlp["kernels"]) > 5
    assert sum(k["seconds"] for k in mlp["kernels"]) == pytest.approx(mlp["walked"])
    assert files[1].read_text().startswith("<svg")


def test_misuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "nothing"]) == 2
    assert "the workload must be one of" in capsys.readouterr().err
    for name in (tmp_path, tmp_path / "none" / "b.svg"):
        assert main(["bench", "softmax", "--tiny", "--rounds", "1", "--seconds", "0", "--svg", str(name)]) == 2
        told = capsys.readouterr()
        assert "can be written" in told.err and told.out == ""


def test_titles_of_tiny_workloads_have_their_sizes() -> None:
    for name in ("chain", "softmax", "layernorm", "matmul-1024", "matmul-2048", "attention"):
        workload = WORKLOADS[name]
        sizes = set(map(str, workload.plain(tiny=True)[1][0].shape))
        assert sizes <= set(re.findall(r"\d+", workload.tiny)), workload
