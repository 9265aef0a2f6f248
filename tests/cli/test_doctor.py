"""`nacre doctor` and `nacre cache`: their output and their exit status."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import nacre
from nacre.cli import doctor, main
from nacre.deploy import link
from nacre.inspect import machine
from nacre.inspect.machine import Check
from nacre.native.cache import default_size


def test_doctor_passes_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["doctor", "--no-color"]) == 0
    shown = capsys.readouterr().out
    assert "same bits" in shown and "instruction set" in shown and "bits differ" not in shown


def test_doctor_fails_where_bits_differ(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(machine, "checks", lambda: [Check("this and that", ("softmax",))])
    assert main.main(["doctor"]) == 1
    assert "in softmax" in capsys.readouterr().out


def test_each_comparison_is_printed_when_it_is_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    printed: list[str] = []

    def checks() -> Iterator[Check]:
        for name in ("one", "two"):
            yield Check(name, ())
            printed.append(capsys.readouterr().out)

    monkeypatch.setattr(machine, "checks", checks)
    assert main.main(["doctor", "--no-color"]) == 0
    assert "ten seconds" in printed[0] and "same bits     one" in printed[0] and "same bits     two" in printed[1]


def test_a_check_that_could_not_run_is_reported() -> None:
    assert "only avx2" in doctor.check_line(Check("instruction sets", None, "this machine has only avx2"))


def test_doctor_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["doctor", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bits_agree"] and len(told["checks"]) == 3 and told["seconds"] > 0
    assert told["facts"]["nacre"] == nacre.__version__ and "linked by" in told["facts"]["executables"]


def test_a_missing_linker_is_reported_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link.shutil, "which", lambda _: None)
    monkeypatch.setattr(link.importlib.util, "find_spec", lambda _: None)
    monkeypatch.delenv("NACRE_CC", raising=False)
    assert "pip install 'nacre[deploy]'" in doctor.linked_by()


def test_cache_shows_and_clears_its_own_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NACRE_CACHE_DIR", str(tmp_path))
    (tmp_path / "programs").mkdir()
    (tmp_path / f"{'a1' * 32}.o").write_bytes(b"123")
    (tmp_path / "programs" / f"{'b2' * 32}.o").write_bytes(b"4567")
    for name in ("other", "main.o", "programs/main.o"):
        (tmp_path / name).write_bytes(b"")
    assert main.main(["cache"]) == 0
    assert "1 kernels and 1 programs, 7 bytes" in capsys.readouterr().out
    assert main.main(["cache", "--clear", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "directory": str(tmp_path),
        "kernels": 1,
        "programs": 1,
        "bytes": 7,
        "limit": default_size(),
        "cleared": True,
    }
    assert {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")} == {
        "other",
        "main.o",
        "programs",
        "programs/main.o",
    }
    assert main.main(["cache", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kernels"] == 0


def test_a_disabled_cache(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("NACRE_CACHE_DIR", "off")
    assert main.main(["cache", "--clear"]) == 0
    assert "off" in capsys.readouterr().out
