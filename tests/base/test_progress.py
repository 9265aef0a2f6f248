"""The progress line of a long compilation appears in a terminal and is removed; other outputs receive no text."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import nacre as nc
from nacre.base import progress
progress.DELAY, progress.EVERY = 0.0, 0.0
def chain(x):
    for _ in range(200):
        x = nc.tanh(x @ x)
    return x
nc.jit(chain)(nc.ones((2, 2)))
"""


def on_terminal(program: str, around: dict[str, str]) -> str:
    """The error output of a program in a terminal of 60 columns."""
    import pty  # noqa: PLC0415 - not on every system
    import termios  # noqa: PLC0415

    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 60))
    process = subprocess.Popen([sys.executable, "-c", program], stderr=theirs, env={**os.environ, **around})
    os.close(theirs)
    output, end = b"", time.monotonic() + 100
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.2)[0]:
            try:
                output += os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                break
        elif process.poll() is not None:
            break
    os.close(ours)
    assert process.wait(20) == 0
    return output.decode()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_the_line_appears_and_is_removed(tmp_path: Path) -> None:
    around = {"NACRE_CACHE_DIR": str(tmp_path), "TERM": "xterm"}
    output = on_terminal(PROGRAM, around)
    states = output.split("\r\x1b[K")
    assert states[0] == "" and states[-1] == ""
    stages = " ".join(states)
    assert "nacre: chain: tracing, operation 64" in stages and "fusing operation" in stages
    assert "writing kernel" in stages and " of " in stages
    assert all(len(state) < 60 for state in states)
    for more in ({"NACRE_PROGRESS": "0"}, {"TERM": "dumb"}):
        assert on_terminal(PROGRAM, {**around, **more, "NACRE_CACHE_DIR": "off"}) == ""
    assert on_terminal(PROGRAM.replace("= 0.0, 0.0", "= 1e9, 0.0"), around) == ""


def test_a_pipe_gets_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=100,
        env={**os.environ, "NACRE_CACHE_DIR": str(tmp_path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


LINKING = """
from nacre.base import progress
from nacre.deploy import link
progress.DELAY, link.POLL = 0.0, 0.05
with progress.compiling("digits"):
    link.run(["sleep", "0.5"])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of POSIX")
def test_a_linker_is_shown_while_it_runs() -> None:
    assert "nacre: digits: linking, seconds: 0" in on_terminal(LINKING, {"TERM": "xterm"})
