"""`nacre doctor` and `nacre cache`: what they print, and their exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.cli import doctor, main
from nacre.inspect import machine
from nacre.inspect.machine import Check


def test_doctor_passes_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["doctor", "--no-color"]) == 0
    shown = capsys.readouterr().out
    assert "same bits" in shown and "instruction set" in shown and "bits differ" not in shown


def test_doctor_fails_where_bits_differ(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(machine, "checks", lambda: [Check("this and that", ("softmax",))])
    assert main.main(["doctor"]) == 1
    assert "in softmax" in capsys.readouterr().out


def test_a_check_that_could_not_run_is_said() -> None:
    assert "only avx2" in doctor.check_line(Check("instruction sets", None, "this machine has only avx2"))


def test_cache_shows_and_clears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NACRE_CACHE_DIR", str(tmp_path))
    (tmp_path / "a.o").write_bytes(b"123")
    (tmp_path / "other").write_bytes(b"")
    assert main.main(["cache"]) == 0
    assert "1 objects, 3 bytes" in capsys.readouterr().out.replace("\n", " ")
    assert main.main(["cache", "--clear"]) == 0
    assert [p.name for p in tmp_path.iterdir()] == ["other"]


def test_cache_that_is_off(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NACRE_CACHE_DIR", "off")
    assert main.main(["cache", "--clear"]) == 0
    assert "off" in capsys.readouterr().out
