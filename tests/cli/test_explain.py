"""`nacre explain`: the function of a file, by types; and sentences for what it cannot take."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.base.errors import ArgumentError
from nacre.cli import explain, main

SOURCE = """
import nacre as nc

def affine(x, w):
    return nc.tanh(x @ w) + 1
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    return str(path)


def test_usual_parts(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain", f"{file}:affine", "f32[4, 3]", "f32[3, 2]", "--no-color"]) == 0
    shown = capsys.readouterr().out
    for part in ("== graph ==", "graph affine(", "tanh(", "== clusters ==", "== kernels ==", "== plan ==", "arena"):
        assert part in shown
    assert "== llvm ==" not in shown


def test_all_parts(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain", f"{file}:affine", "f32[4, 3]", "f32[3, 2]", "--show", "all"]) == 0
    shown = capsys.readouterr().out
    assert "define void @" in shown and ".text" in shown


@pytest.mark.parametrize("place", ["model.py", ":f", "absent.py:f"])
def test_a_wrong_place(place: str) -> None:
    with pytest.raises(ArgumentError, match="explain: "):
        explain.load(place)


def test_a_name_that_is_not_there(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["explain", f"{file}:linear"]) == 2
    assert "there are affine" in capsys.readouterr().err


def test_types() -> None:
    made = explain.argument(" bf16[2,3] ")
    assert str(made.type) == "bf16[2, 3]"
    assert str(explain.argument("i64[]").type) == "i64[]"
    for wrong in ("f32", "float[2]", "f32[a]", "f32[2"):
        with pytest.raises(ArgumentError, match="a type such as"):
            explain.argument(wrong)
