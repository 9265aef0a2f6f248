"""The command line: grammar, exit status, and that errors are sentences."""

from __future__ import annotations

import pytest

from nacre import __version__
from nacre.cli import demo, main
from nacre.cli.grammar import MISUSED
from nacre.cli.main import DONE, INTERRUPTED


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["--version"]) == DONE
    assert capsys.readouterr().out == f"nacre {__version__}\n"


def test_no_command_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == MISUSED
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("demo", "doctor", "explain", "compile", "run", "cache"))


@pytest.mark.parametrize("command", ["demo", "doctor", "explain", "compile", "run", "cache"])
def test_help_of_every_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main.main([command, "--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    assert shown.index("examples:") < shown.index("usage:") and "NACRE_" not in shown


@pytest.mark.parametrize("epochs", ["0", "-1", "many"])
def test_epochs_must_be_a_positive_number(epochs: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main.main(["demo", "--epochs", epochs])
    assert end.value.code == MISUSED
    assert "a whole number from 1 is required" in capsys.readouterr().err


def test_interrupt_ends_cleanly(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", interrupted)
    assert main.main(["demo"]) == INTERRUPTED
    assert capsys.readouterr().err == "nacre: interrupted\n"
