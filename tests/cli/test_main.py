"""The command line: grammar, exit status, and errors in sentences."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nacre import __version__
from nacre.cli import faults, main
from nacre.cli.commands import commands
from nacre.cli.demo import command as demo
from nacre.cli.grammar import MISUSED
from nacre.cli.main import CLOSED, DONE, INTERRUPTED


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


LINES = (
    ["help"],
    ["bench", "--help"],
    ["--version"],
    ["train"],
    ["cache"],
    ["completion", "bash"],
    ["explain", "model.py:double", "f32[2]", "--json"],
    ["explain", "model.py:double", "f32[2]"],
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text("def double(x):\n    return x * 2\n")
    return tmp_path


def ended(line: list[str], output: int) -> tuple[int, str]:
    """The exit status of a command and its error output; its standard output goes to a given file descriptor."""
    done = subprocess.run(
        [sys.executable, "-m", "nacre.cli.main", *line],
        stdout=output,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    return done.returncode, done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_a_full_disk_is_an_error_of_one_line(folder: Path, line: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        status, said = ended(line, full.fileno())
    assert status == MISUSED and said.count("\n") == 1
    assert said.startswith("nacre: the output must be writable; No space left on device; ")


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_a_closed_pipe_is_quiet(folder: Path, line: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert ended(line, writing) == (CLOSED, "")
    finally:
        os.close(writing)


def test_system_errors_are_sentences() -> None:
    fault = OSError(24, "Too many open files", "x")
    assert faults.told(fault, "demo") == "nacre demo: [Errno 24] Too many open files: 'x'"
    assert faults.told(ValueError("a fault of Nacre"), "demo") is None


OUTPUTS = [
    (name, action.option_strings[-1])
    for name, command in commands().items()
    for action in command.listed
    if str(action.metavar) in ("FILE", "FILE.npy", "DIR") and action.option_strings
]


@pytest.mark.parametrize(("name", "option"), OUTPUTS)
def test_outputs_are_checked_before_the_work(
    folder: Path, name: str, option: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"train": ["digits"], "compile": ["model.py:double", "f32[2]"], "run": ["model.py", "x.npy"]}
    for place, words in (("model.py/x", "Not a directory"), ("none/x", "its folder does not exist"), (".", "Is a dir")):
        if option == "--out" and place != "model.py/x":
            continue  # the command creates the folder
        assert main.main([name, *given.get(name, []), option, place]) == MISUSED
        told = capsys.readouterr()
        assert told.out == "" and f"{option} must name a place that can be written; got {place}: {words}" in told.err


def test_the_table_has_every_command_with_an_output() -> None:
    assert {name for name, _ in OUTPUTS} == {"demo", "train", "bench", "compile", "run"}
