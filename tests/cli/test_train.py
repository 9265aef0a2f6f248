"""`nacre train`: lists examples, trains, refuses to write over a run, resumes it, writes results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre import examples
from nacre.base.errors import ArgumentError
from nacre.cli import main, train
from nacre.cli.commands import commands
from nacre.train.history import History


def test_examples_have_titles(capsys: pytest.CaptureFixture[str]) -> None:
    assert "digits" in examples.names()
    assert main.main(["train"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed if line[0] != " "] == examples.names()
    assert all(examples.load(name).EPOCHS > 0 and len(examples.title(name)) > 10 for name in examples.names())
    with pytest.raises(ArgumentError, match=r"unknown example 'digit'; the examples are .*digits"):
        examples.load("digit")


def test_training_resuming_and_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    out, path = str(tmp_path / "run"), tmp_path / "results.json"
    assert main.main(["train", "digits", "--epochs", "1", "--out", out]) == 0
    assert main.main(["train", "digits", "--epochs", "1", "--out", out]) == 2
    assert f"nacre train digits --epochs 1 --out {out} --resume" in capsys.readouterr().err
    assert main.main(["train", "digits", "--epochs", "2", "--out", out, "--resume", "--json", str(path)]) == 0
    told = capsys.readouterr().out
    assert "resumed after update 22, 1 epochs done" in told and "\naccuracy  " in told
    found = json.loads(path.read_text())
    assert found["example"] == "digits" and found["epochs"] == 2 and found["updates"] == 44
    rows = History(found["history"])
    assert rows["loss"][1] < rows["loss"][0]
    assert found["results"]["accuracy"] == rows["valid_accuracy"][1]


def test_the_command_for_resuming_repeats_the_options(tmp_path: Path) -> None:
    words = ["digits", "--epochs", "3", "--seed", "4", "--save-every", "5", "--eager", "--out", str(tmp_path)]
    given = commands()["train"].parse(words)
    told = train.again(given, given.out).split()
    assert told[:2] == ["nacre", "train"] and sorted(told[2:]) == sorted([*words, "--resume"])
    assert train.writers(given, given.out) == []


@pytest.mark.parametrize("words", [["digits", "--epochs", "0"], ["digits", "--seed", "-1"], ["other"]])
def test_wrong_arguments(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["train", *words]) == 2
    assert "required" in capsys.readouterr().err


@pytest.mark.slow
def test_the_training_on_digits_succeeds(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    path = tmp_path / "results.json"
    assert main.main(["train", "digits", "--out", str(tmp_path / "run"), "--json", str(path)]) == 0
    assert json.loads(path.read_text())["results"]["accuracy"] >= 0.97
