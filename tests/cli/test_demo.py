"""The demo: what it reports, when it fails, and that no number is made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.base.errors import DeviceError
from nacre.cli import demo, main
from nacre.cli.demo import Report


def report(**changes: object) -> Report:
    return Report(**{"version": "0", "isa": "avx2", "threads": 2, "epochs": 1, "accuracy": 0.98, "bits_agree": True,
                     **changes})  # type: ignore[arg-type]


def test_both_promises_are_needed_to_pass() -> None:
    assert report().passed
    assert not report(accuracy=0.9699).passed
    assert not report(bits_agree=False).passed


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="--json"):
        demo.write(report(), tmp_path / "missing" / "report.json")


@pytest.mark.slow
def test_the_whole_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    path = tmp_path / "report.json"
    assert main.main(["demo", "--json", str(path), "--no-color"]) == 0
    found = json.loads(path.read_text())
    assert found["accuracy"] >= demo.REQUIRED_ACCURACY
    assert found["bits_agree"] and len(set(found["weights"].values())) == 1
    assert {"eager", "compiled", "1 thread"} <= set(found["weights"])
    assert found["jit_step_ms"] > 0 and found["eager_step_ms"] > 0
    assert 0.9 < found["measured_peak_bytes"] / found["predicted_peak_bytes"] < 1.1
    assert found["losses"][-1] < found["losses"][0]
    assert "test accuracy" in capsys.readouterr().out
