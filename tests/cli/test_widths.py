"""Every command's help and output fits 80 and 120 columns and a pipe: nothing overflows, nothing is cut."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import nacre as nc
from cli.test_demo import report as demo_report
from nacre.cli import bench, main, topics, tune
from nacre.cli.commands import commands
from nacre.cli.demo import command as demo
from nacre.compile.program.tune import Choice
from nacre.data import TensorDataset
from nacre.examples.workloads import WORKLOADS
from nacre.inspect.ceilings import Ceilings
from nacre.inspect.machine import Check
from nacre.inspect.profile import Profile, Row
from nacre.inspect.timing import Times
from nacre.train.display import Display
from nacre.train.history import History

WIDTHS = {"80": "80", "120": "120", "piped": ""}  # COLUMNS; a pipe has none and counts as 80 columns
SOURCE = """
import nacre as nc
def affine(x, w):
    return nc.tanh(x @ w) + 1
def wrong(x, w):
    return x @ w.T
"""
LIMITS = Ceilings("avx512", 16, {"f32": 1234.5e9, "f64": 617e9}, tuple((1 << k, 1e12 / k) for k in range(14, 29, 2)))
VALUES = {"loss": (1.0, 1.0), "accuracy": (3.0, 5.0), "a_long_name_of_a_metric": (1.0, 1.0)}
LONG = "contract+broadcast+add+gelu_tanh+transpose+sub+fma…"


def fits(text: str, width: int) -> None:
    """Fail for a line that is too long, and for a cell that ends in an ellipsis."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    long = [line for line in plain.splitlines() if len(line.rstrip()) > width]
    assert not long, "\n".join(long)
    cut = [line for line in plain.splitlines() if re.search(r"\w…(\s|$)", line)]
    assert not cut, "\n".join(cut)


@pytest.fixture(params=WIDTHS.values(), ids=WIDTHS)
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> int:
    monkeypatch.chdir(tmp_path)
    if request.param:
        monkeypatch.setenv("COLUMNS", request.param)
    else:
        monkeypatch.delenv("COLUMNS", raising=False)
    return int(request.param or 80)


@pytest.mark.parametrize("name", commands())
def test_help(name: str, width: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main.main([name, "--help"])
    assert end.value.code == 0
    shown = capsys.readouterr().out
    fits(shown, width)
    assert shown.index("examples:") < shown.index("usage: nacre ") < shown.index("options:")
    assert all(line in " ".join(shown.split()) for line, _ in commands()[name].examples)


@pytest.mark.parametrize("topic", [[], *[[t] for t in topics.TOPICS]])
def test_topics(topic: list[str], width: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["help", *topic]) == 0
    fits(capsys.readouterr().out, width)


LINES: dict[str, tuple[str, int]] = {
    "help": ("", 2),
    "train": ("train", 0),
    "doctor": ("doctor", 0),
    "cache": ("cache", 0),
    "explain": ("explain model.py:affine f32[4,3] f32[3,2] --show clusters --show work --show plan", 0),
    "run": ("run program.safetensors x.npy", 0),
    "compile": ("compile model.py:affine f32[4,3] f32[3,2] --kind object -o affine.o", 0),
}
WRONG: dict[str, str] = {
    "command": "comple",
    "option": "explain --shwo graph model.py:affine",
    "part": "explain --show grpah model.py:affine",
    "types": "explain model.py:affine",
    "file": "run nofile",
    "example": "train digit",
    "workload": "bench softmx",
    "code": "explain model.py:wrong f32[4,3] f32[3,2]",
}


@pytest.mark.parametrize(("line", "status"), LINES.values(), ids=LINES)
def test_outputs(
    line: str, status: int, width: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("model.py").write_text(SOURCE)
    np.save("x.npy", np.ones((2, 3), np.float32))
    nc.save_program(lambda x: x + 1, "program.safetensors", nc.ones((2, 3)))
    monkeypatch.setattr("nacre.inspect.machine.checks", lambda: [Check("compiled and eager", ())])
    monkeypatch.setattr("nacre.native.cache.default_directory", lambda: None)  # the folder's name may be long
    assert main.main(line.split()) == status
    fits(capfd.readouterr().out, width)


@pytest.mark.parametrize("line", WRONG.values(), ids=WRONG)
def test_errors(line: str, width: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("model.py").write_text(SOURCE)
    try:
        assert main.main(line.split()) == 2
    except SystemExit as end:
        assert end.code == 2
    said = capfd.readouterr().err
    assert "Traceback" not in said
    if "COLUMNS" in os.environ:  # a message to a pipe is one line, for logs
        fits(said, width)


# ---- slow commands, from recorded numbers


def printed(show: Callable[[Console], object], width: int, terminal: bool = True) -> str:
    """The output of a function, on a terminal of a width or to a pipe."""
    console = Console(width=width, force_terminal=terminal, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    show(console)
    text = console.export_text()
    fits(text, width)
    return text


def profile(name: str, share: float) -> Profile:
    rows = tuple(Row(f"{LONG}{k}", "f32", 3, 10**9 + k, 10**7, 1e-3, 1.1e-3, 0.97, share * 1e-3) for k in range(5))
    return Profile(name, rows, 5e-3, 5e-3, 4.9e-3, 5e-3, 10**7, 4e-3, LIMITS)


TIMES = Times([0.0049, 0.005, 0.0052, 123.456])


@pytest.mark.parametrize("columns", [80, 120])
def test_bench(columns: int) -> None:
    names = list(WORKLOADS.values())
    told = {w.name: profile(w.name, 0.8) for w in names}
    text = printed(lambda c: bench.report(c, names, told, {n: TIMES for n in told}, 3), columns)
    assert "the rest" in text and "+more" in text and "warning" not in text
    assert all(f"  {word}" in text for word, _ in bench.WORDS)
    told["mlp"] = profile("mlp", 1.2)
    text = printed(lambda c: bench.report(c, names, told, {n: TIMES for n in told}, 3), columns)
    assert "shares of the roof above 100 % in mlp" in " ".join(text.split())


def test_a_busy_machine_is_reported() -> None:
    assert bench.busy_before(0.4, 1) is None and bench.busy_before(4.0, 16) is None
    assert "load average of the last minute is 1.9 on 2 processors" in str(bench.busy_before(1.9, 2))
    times = {"a": TIMES}
    assert bench.busy_after({"a": profile("a", 1.0)}, times) is None
    assert "above 100 % in a" in str(bench.busy_after({"a": profile("a", 1.01)}, times))


@pytest.mark.parametrize("columns", [80, 120])
def test_tune(columns: int) -> None:
    found = [Choice(f"{LONG} tile", (1, 2, 3), (2e-3, 1e-3, 3e-3), (2e-3, 1e-3, 3e-3), 1)]
    text = printed(lambda c: tune.show(c, tune.table("resnet18", found)), columns)
    assert "2000.0" in text and "1000.0" in text and "2.00" in text


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("skipped", [True, False])
def test_demo(columns: int, skipped: bool) -> None:
    reason = "deploy: a C compiler is required to link for this machine; pip install 'nacre[deploy]'"
    weights = dict.fromkeys(("eager", "compiled", "killed and resumed", "1 thread", "16 threads", "avx512"), "ab" * 32)
    found = demo_report(
        accuracy=0.9861,
        weights=weights,
        scores=weights,
        jit_step_ms=1.2,
        eager_step_ms=9.9,
        updates=440,
        killed_after_update=176,
        resumed_after_update=176,
        predicted_peak_bytes=1 << 20,
        measured_peak_bytes=1 << 20,
        executable_bytes=1 << 17,
        executable_ms=2.1,
        not_checked={"executable": reason} if skipped else {},
        misread=[{"image": k, "is": 9, "read_as": 3} for k in range(5)],
    )
    text = printed(lambda c: demo.show(found, c), columns)
    assert "SHA-256 abababababab" in " ".join(text.split()) and ("not checked" in text) == skipped
    held = TensorDataset(np.random.default_rng(0).random((9, 1, 8, 8), np.float32), np.zeros(9, np.int64))
    assert "a 9, read as 3" in printed(lambda c: c.print(demo.misread(found, held, c), soft_wrap=True), columns)
    found.scores["executable"] = "cd" * 32
    found.judge()
    assert "✗" in printed(lambda c: demo.show(found, c), columns)


@pytest.mark.parametrize("columns", [80, 120])
def test_train(columns: int) -> None:
    rows = [
        {
            "epoch": k,
            "step": 22 * k,
            "loss": 1 / k,
            "accuracy": 0.9,
            "lr": 1e-3,
            "valid_loss": 2 / k,
            "valid_accuracy": 0.8,
        }
        for k in (1, 2, 3)
    ]

    def shown(console: Console) -> None:
        display = Display(console)
        display.begin(20)
        for row in rows:
            display.epoch_begins(row["epoch"], 22, 0)
            display.step(3, VALUES)
            display.epoch(row, True)
        display.say(History(rows).verdict())
        display.say("a checkpoint was damaged " * 9)
        display.close()

    text = printed(shown, columns, terminal=False)
    lines = [line for line in text.splitlines() if line.endswith("best")]
    assert len(lines) == 3 and len(set(map(len, lines))) == 1


@pytest.mark.parametrize("columns", [80, 120])
def test_the_bar_of_a_training(columns: int) -> None:
    console = Console(width=columns, force_terminal=True, quiet=True)
    display = Display(console)
    display.begin(20)
    display.epoch_begins(17, 2200, 0)
    display.step(1803, VALUES)
    assert display.progress is not None
    bar = Console(width=columns, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    bar.print(display.progress.get_renderable())
    display.close()
    text = bar.export_text()
    fits(text, columns)
    assert "epoch 17/20" in text and text.rstrip().endswith("batches/s")


def test_every_argument_has_a_help_text() -> None:
    for command in commands().values():
        assert all(a.help and a.help is not argparse.SUPPRESS for a in command.listed), command.name
