"""A training that is killed at any moment, and resumed, writes the same bytes as an uninterrupted one."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nacre import train
from train import training  # type: ignore[import-not-found]

SCRIPT = Path(training.__file__)


def start(out: Path, event: int = 0) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(SCRIPT), str(out), str(event)], stderr=subprocess.PIPE, text=True)


def finished(process: subprocess.Popen[str]) -> bool:
    """Wait for a process; returns whether it ended without being killed."""
    _, told = process.communicate(timeout=120)
    assert process.returncode in (0, -signal.SIGKILL), told
    return process.returncode == 0


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, float]:
    """The digest of an undisturbed run, and its seconds."""
    out = tmp_path_factory.mktemp("undisturbed") / "out"
    assert finished(start(out.with_name("warm")))  # fills the code cache
    begun = time.perf_counter()
    assert finished(start(out))
    seconds = time.perf_counter() - begun
    assert training.digest(out) == training.digest(out.with_name("warm"))
    return training.digest(out), seconds


def killed_by_clock(kills: int, seed: int, folder: Path, undisturbed: tuple[str, float]) -> int:
    """Kill and resume this number of times, in several folders if necessary; every folder must have the same digest."""
    draw = random.Random(seed)
    wanted, seconds = undisturbed
    done = folders = 0
    while done < kills:
        out, folders = folder / f"out{folders}", folders + 1
        while done < kills:
            process = start(out)
            time.sleep(draw.uniform(0.3, 1.1) * seconds)
            process.kill()
            if finished(process):
                break
            done += 1
        else:
            assert finished(start(out))
        assert training.digest(out) == wanted, f"seed {seed}, folder {out}"
    return done


def last_step(out: Path) -> int:
    """The update of the last checkpoint; each of them must be whole."""
    kept = train.Checkpoints(out / "checkpoints")
    kept.sweep()
    found = [train.read(path) for path in kept.paths()]
    return found[-1].step if found else 0


def killed_by_event(events: list[int], folder: Path, wanted: str) -> None:
    """Kill each process before its n-th change to the folder, and resume; all folders must have the same digest."""
    folders, out, reached = 0, folder / "out0", 0
    for event in events:
        if finished(start(out, event)):
            assert training.digest(out) == wanted, f"event {event}, folder {out}"
            folders, reached = folders + 1, 0
            out = folder / f"out{folders}"
        else:
            before, reached = reached, last_step(out)
            assert reached >= before, f"event {event}, folder {out}: a checkpoint was lost"
    assert finished(start(out))
    assert training.digest(out) == wanted, f"folder {out}"


def test_three_kills_at_any_moment(tmp_path: Path, undisturbed: tuple[str, float]) -> None:
    assert killed_by_clock(3, random.randrange(10**6), tmp_path, undisturbed) == 3


def test_kills_in_the_middle_of_checkpoints(tmp_path: Path, undisturbed: tuple[str, float]) -> None:
    killed_by_event([7, 14, 19], tmp_path, undisturbed[0])


@pytest.mark.slow
def test_fifty_kills_at_any_moment(tmp_path: Path, undisturbed: tuple[str, float]) -> None:
    assert killed_by_clock(50, random.randrange(10**6), tmp_path, undisturbed) == 50


@pytest.mark.slow
def test_a_kill_before_every_change_to_the_folder(tmp_path: Path, undisturbed: tuple[str, float]) -> None:
    killed_by_event(list(range(1, 61)), tmp_path, undisturbed[0])
