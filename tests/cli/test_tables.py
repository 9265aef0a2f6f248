"""Tables of numbers at 80 columns and in a pipe, and the progress of long commands."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from nacre.cli import stages, tables, tune
from nacre.cli.main import main
from nacre.inspect import ceilings

NUMBERS = ["123456.7", "987654.3", "1234567.8", "100%", "12345.6", "98765.4", "100%", "100%"]


NAME = "max+sub+exp+sum+div+a very long name of a kernel"


def printed(width: int, terminal: bool, name: str) -> str:
    table = tables.Table("a title", "kernel", tuple(f"head {k}" for k in range(len(NUMBERS))))
    table.add(name, *NUMBERS)
    table.rule()
    table.add("all", NUMBERS[0])
    out = io.StringIO()
    tables.show(Console(file=out, width=width, force_terminal=terminal, color_system=None), table)
    return out.getvalue()


@pytest.mark.parametrize("width", [200, 120, 100, 80, 60, 20])
@pytest.mark.parametrize("terminal", [True, False])
def test_tables_fit_and_cut_nothing_at_any_width(width: int, terminal: bool) -> None:
    shown = printed(width, terminal, NAME)
    assert all(number in shown for number in NUMBERS) and "head 7" in shown and "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    assert all(word in shown for word in re.split(r"[+ ]", NAME))


def test_long_names_break_before_a_plus() -> None:
    table = tables.Table("t", "kernel", ("ms",))
    table.add("contract+tanh+add+exp", "1.5")
    assert table.lines(20)[2:] == ["contract+tanh    1.5", "  +add+exp"]


def test_rows_that_do_not_fit_on_a_line_become_blocks() -> None:
    shown = printed(40, True, "softmax")
    assert shown.splitlines()[1:3] == ["softmax", "  head 0 123456.7  head 1 987654.3"]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ceilings, "SIZES", (1 << 14, 1 << 17))
    monkeypatch.setattr(ceilings, "MOVED", 1 << 18)
    monkeypatch.setattr(ceilings, "_known", {})
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.usefixtures("quick")
def test_bench_announces_its_duration_and_cuts_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "mlp", "--tiny", "--rounds", "2", "--seconds", "0.01", "--rows", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1 workload: less than a minute"
    rows = [line for line in lines if line.startswith(("all kernels", "without stamps", "mlp "))]
    assert len(rows) == 3 and "…" not in "".join(rows)


@pytest.mark.usefixtures("quick")
def test_tune_of_a_program_without_choices_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "tune", lambda executable, sizes: [])
    assert main(["tune", "softmax", "--tiny"]) == 0
    said = capsys.readouterr().out
    assert "1 program: less than a minute" in said
    assert "nothing to choose" in said and "usual µs" not in said


def test_a_terminal_shows_the_current_stage() -> None:
    for terminal in (True, False):
        out = io.StringIO()
        with stages.stages(Console(file=out, force_terminal=terminal)) as stage:
            stage("compiling mlp")
        assert bool(out.getvalue()) == terminal


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(5, "less than a minute"), (55, "about 1 minute"), (271, "about 5 minutes"), (391, "about 7 minutes")],
)
def test_durations(seconds: float, words: str) -> None:
    assert stages.duration(seconds) == words
