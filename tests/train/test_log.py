"""Logs are truncated to a checkpoint's position and continue; writers name missing requirements."""

from __future__ import annotations

import csv
import math
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nacre import train
from nacre.base.errors import DeviceError, MissingExtra, StateError
from nacre.train import mlflow, tensorboard
from nacre.train.log import Writers, files

ROWS = [{"step": k, "epoch": 1, "loss": 1.0 / k} for k in (1, 2, 3)]


def test_lines_after_a_position_are_removed_and_written_again(tmp_path: Path) -> None:
    def written(folder: Path, lost: int) -> list[bytes]:
        logs = Writers(files(folder))
        logs.begin(None)
        for k, row in enumerate(ROWS):
            if lost and k == 1:
                position = logs.position()
                for _ in range(lost):
                    logs.write("step", {**row, "loss": 7.0})
                logs.close()
                logs = Writers(files(folder))
                logs.begin(position)
            logs.write("step", row)
            logs.write("epoch", {**row, "valid_loss": float("nan")})
        logs.close()
        return [path.read_bytes() for path in sorted(folder.iterdir())]

    assert written(tmp_path / "a", 0) == written(tmp_path / "b", 1) == written(tmp_path / "c", 5)
    assert train.read_json_lines(tmp_path / "a" / "log.jsonl", "step") == ROWS
    assert math.isnan(train.read_json_lines(tmp_path / "a" / "log.jsonl")[0]["valid_loss"])
    with open(tmp_path / "a" / "steps.csv", newline="") as file:
        assert [float(row["loss"]) for row in csv.DictReader(file)] == [row["loss"] for row in ROWS]


def test_lines_of_a_killed_run_before_its_first_checkpoint_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("left\n")
    log = train.JsonLines(path)
    log.begin(None)
    log.write("step", ROWS[0])
    log.close()
    assert train.read_json_lines(path, "step") == ROWS[:1]


def test_missing_values_are_blank_and_new_names_add_columns(tmp_path: Path) -> None:
    log = train.Csv(tmp_path / "steps.csv", "step")
    log.begin(None)
    log.write("step", {"step": 1, "a": 1, "b, c": 2})
    log.write("step", {"step": 2, "b, c": 3})
    log.write("step", {"step": 3, "d": 0.5})
    log.write("step", {"step": 4, "a": 2})
    log.close()
    assert (tmp_path / "steps.csv").read_text() == 'step,a,"b, c",d\n1,1,2,\n2,,3,\n3,,,0.5\n4,2,,\n'
    with pytest.raises(StateError, match=r"begin\(None\)"):
        log.write("step", {"e": 1})


@pytest.mark.parametrize("cut", [0, 5])
def test_columns_after_a_position_are_removed(tmp_path: Path, cut: int) -> None:
    def written(path: Path, lost: bool) -> bytes:
        log = train.Csv(path, "step")
        log.begin(None)
        log.write("step", {"step": 1, "text": 'a,\n"b"'})
        position = log.position()
        if lost:
            log.write("step", {"step": 2, "other": 1})
            log.write("step", {"step": 3, "third": 1})
            log.close()
            os.truncate(path, path.stat().st_size - cut)
            log = train.Csv(path, "step")
            log.begin(position)
            assert log.position() == position
        log.write("step", {"step": 2, "valid": 0.25})
        log.close()
        return path.read_bytes()

    assert written(tmp_path / "a.csv", True) == written(tmp_path / "b.csv", False)


def test_wrong_uses_say_what_is_required(tmp_path: Path) -> None:
    log = train.JsonLines(tmp_path / "log.jsonl")
    with pytest.raises(StateError, match=r"begin\(None\)"):
        log.write("step", ROWS[0])
    with pytest.raises(StateError, match="is shorter"):
        log.begin({"bytes": 10})
    with pytest.raises(DeviceError, match="cannot write"):
        train.JsonLines(tmp_path).begin(None)


# ---- TensorBoard and MLflow


@pytest.mark.parametrize(("module", "kind"), [(tensorboard, "TensorBoard"), (mlflow, "MLflow")])
def test_a_missing_package_names_its_extra(module: Any, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(module, "import_module", fail)
    with pytest.raises(MissingExtra, match=rf"nacre\[{kind.lower()}\]"):
        getattr(train, kind)("runs")


class Events:
    """The calls of an event file writer."""

    def __init__(self, folder: str, purge_step: int, filename_suffix: str) -> None:
        self.folder, self.purge_step = folder, purge_step
        self.scalars: list[tuple[str, float, int]] = []
        self.closed = False

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True


def test_tensorboard_voids_events_after_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", SimpleNamespace(SummaryWriter=Events))  # type: ignore[arg-type]
    writer = train.TensorBoard("events")
    with pytest.raises(StateError, match=r"begin\(None\)"):
        writer.write("step", ROWS[0])
    writer.begin(None)
    first = writer.writer
    assert first.purge_step == 0
    writer.write("step", ROWS[0])
    assert first.scalars == [("step/epoch", 1, 1), ("step/loss", 1.0, 1)] and writer.position() == {"step": 1}
    writer.close()
    assert first.closed
    writer.begin({"step": 1})
    assert writer.writer.purge_step == 2


def test_tensorboard_writes_event_files(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    writer = train.TensorBoard(tmp_path)
    writer.begin(None)
    writer.write("step", ROWS[0])
    writer.close()
    (file,) = tmp_path.iterdir()
    assert b"step/loss" in file.read_bytes()


def test_mlflow_resumes_its_run_without_duplicates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    writer = train.MLflow("tests", tracking_uri=str(tmp_path / "runs"), parameters={"lr": 0.1})
    writer.begin(None)
    position = writer.position()
    for row in ROWS[:2]:
        writer.write("step", row)
    writer.begin(position)
    for row in ROWS:
        writer.write("step", row)
    writer.close()
    found = writer.client.get_metric_history(writer.run, "step/loss")
    assert [(m.step, m.value) for m in found] == [(row["step"], row["loss"]) for row in ROWS]
    assert writer.client.get_run(writer.run).info.status == "FINISHED"
