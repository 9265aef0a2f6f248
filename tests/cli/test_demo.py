"""The demo: its report, its failures, a killed training that is resumed, and numbers that are all measured."""

from __future__ import annotations

import doctest
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from rich.progress import Progress

import nacre as nc
from deploy.calls import can_link
from nacre.base.errors import DeviceError, MissingExtra
from nacre.cli import drawing, main
from nacre.cli.demo import command as demo
from nacre.cli.demo import program as demo_program
from nacre.cli.demo import training as demo_training
from nacre.cli.demo.command import DONE, FAILED, UNCHECKED, Demo, Report
from nacre.examples import digits


def report(**changes: object) -> Report:
    found = Report(
        **{
            "version": "0",
            "isa": "avx2",
            "threads": 2,
            "epochs": 1,
            "accuracy": 0.98,
            "weights": {"eager": "a", "compiled": "a"},
            "scores": {"eager": "b"},
            **changes,
        }
    )  # type: ignore[arg-type]
    found.judge()
    return found


def test_accuracy_and_equal_bits_are_needed_to_pass() -> None:
    assert report().passed and report().status == DONE
    assert report(accuracy=0.9699).status == FAILED
    assert report(weights={"eager": "a", "compiled": "c"}).status == FAILED
    assert report(scores={"eager": "a", "executable": "c"}).status == FAILED


def test_a_skipped_check_is_not_a_success() -> None:
    found = report(not_checked={"executable": "no linker"})
    assert found.bits_agree is None and found.status == UNCHECKED and not found.passed
    assert report(not_checked={"executable": ""}, accuracy=0.9).status == FAILED
    assert report(not_checked={"executable": ""}, scores={"eager": "a", "compiled": "c"}).bits_agree is False


def test_a_file_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="--json"):
        demo.write(report(), tmp_path / "missing" / "report.json")


@pytest.mark.parametrize("epochs", ["0", "-1", "many"])
def test_epochs_are_positive(epochs: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main.main(["demo", "--epochs", epochs])
    assert "a whole number from 1" in capsys.readouterr().err


def test_drawings() -> None:
    failed, attempted = doctest.testmod(drawing, extraglobs={"np": np})
    assert attempted and not failed
    image = np.linspace(0, 1, 64).reshape(8, 8)
    text = drawing.gallery([image] * 5, ["a 3, read as 8"] * 5, width=80)
    assert max(map(len, text.splitlines())) <= 80 and text.count("read as") == 5 and len(text.splitlines()) == 19
    assert drawing.gallery([], []) == ""


def demonstration(tmp_path: Path, **changes: object) -> Demo:
    pytest.importorskip("sklearn")
    return Demo(report(**changes), digits.split()[1], tmp_path, Progress(console=Console(quiet=True)))


@pytest.mark.slow
def test_a_killed_training_ends_with_the_bits_of_an_uninterrupted_one(tmp_path: Path) -> None:
    work = demonstration(tmp_path, updates=44, epochs=2, weights={})
    work.kill_and_resume()
    whole = demo_training.trained(demo_training.ready(2), 2).trainer
    assert whole.updates == 44 and work.report.weights == {"killed and resumed": demo_training.hashed(whole.model)}
    assert 20 <= work.report.killed_after_update == work.report.resumed_after_update < 44


@pytest.mark.slow
def test_a_training_that_fails_in_another_process_states_the_reason(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    with pytest.raises(DeviceError, match="NACRE_ISA"):
        demo_training.elsewhere(tmp_path, 1, NACRE_ISA="pdp11")
    with pytest.raises(DeviceError, match=r"after update 1000 is required; it ended by itself \(0\) after update 22"):
        demo_training.killed(tmp_path / "short", 1, 1000, float)


def test_without_a_linker_the_executable_is_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise MissingExtra("deploy: a C compiler is required; install ziglang")

    monkeypatch.setattr(demo_program, "compiled", none)
    work = demonstration(tmp_path, jit_step_ms=1.0)
    work.answer(digits.network())
    found = work.report
    found.judge()
    assert found.not_checked == {"executable": "deploy: a C compiler is required; install ziglang"}
    assert found.bits_agree is None and set(found.scores) == {"eager", "compiled"} and found.executable_bytes is None
    assert len(found.misread) == round((1 - found.accuracy) * digits.HELD_BACK)
    with Console(record=True, width=100, file=open(os.devnull, "w")) as console:
        demo.show(found, console)
    shown = console.export_text()
    assert "not checked" in shown and "ziglang" in shown


@pytest.mark.skipif(not can_link(), reason="nothing here links for this machine")
def test_answers_of_the_executable(tmp_path: Path) -> None:
    nc.random.seed(1)
    work = demonstration(tmp_path)
    work.answer(digits.network())
    found = work.report
    assert len(found.scores) == 3 and len(set(found.scores.values())) == 1
    assert found.executable_bytes == (tmp_path / "digits").stat().st_size and found.executable_ms


@pytest.mark.slow
def test_the_whole_demo_twice(tmp_path: Path) -> None:
    """In fresh processes with a fresh cache: the first compiles everything, the second nothing."""
    pytest.importorskip("sklearn")
    environment = {
        **os.environ,
        "NACRE_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    for run in ("first", "second"):
        path = tmp_path / f"{run}.json"
        line = [sys.executable, "-m", "nacre.cli.main", "demo", "--json", str(path), "--no-color"]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
        found = json.loads(path.read_text())
        assert done.returncode == (DONE if can_link() else UNCHECKED), done.stdout + done.stderr
        assert found["accuracy"] >= demo.REQUIRED_ACCURACY and "test accuracy" in done.stdout
        assert found["bits_agree"] is (True if can_link() else None)
        assert len(set(found["weights"].values())) == 1 and len(set(found["scores"].values())) == 1
        assert {"eager", "compiled", "1 thread", "killed and resumed"} <= set(found["weights"])
        assert found["jit_step_ms"] > 0 and found["eager_step_ms"] > 0
        assert 0.9 < found["measured_peak_bytes"] / found["predicted_peak_bytes"] < 1.1
        assert found["losses"][-1] < found["losses"][0]
        assert 0 < found["killed_after_update"] == found["resumed_after_update"] < found["updates"]
        assert found["second_process_first_step_ms"] <= 500
        assert found["total_seconds"] <= 90
    assert found["jit_first_step_ms"] <= 500
