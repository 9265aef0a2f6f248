"""The demo's trainings: in this process, in others, and in one that is killed and resumed.

`python -m nacre.cli.demo.training FOLDER EPOCHS` trains in a folder, or resumes the training that is there, and prints
the result as JSON.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from nacre.base.errors import DeviceError
from nacre.base.records import dataclass
from nacre.examples import Run, Settings, digits
from nacre.nn.module import Module
from nacre.train import Checkpoints

SEED = 0
SAVE_EVERY = 20  # updates between two checkpoints of a training in a folder
KILLED_AFTER = 0.4  # the share of the updates after which a training is killed
LOOK_EVERY = 0.002  # seconds between two checks of a training in another process
LONGEST = 120.0  # most seconds of such a training

Seen = Callable[[int, float], object]


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training: its weights' hash, the update it began after, the time of its first step."""

    weights: str
    began_after: int
    first_step_ms: float


class Watcher:
    """A log that calls a function with each update's number and loss."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen

    def begin(self, position: Any) -> None:
        """Does nothing."""

    def write(self, kind: str, row: Mapping[str, Any]) -> None:
        """Call the function for an update."""
        if kind == "step":
            self.seen(row["step"], row["loss"])

    def position(self) -> Any:
        """Does nothing."""
        return None

    def close(self) -> None:
        """Does nothing."""


def ready(
    epochs: int, *, compiled: bool = True, seen: Seen = lambda update, loss: None, folder: Path | None = None
) -> Run:
    """The training of the digits at its beginning; `seen` gets each update; a folder gets checkpoints."""
    options = {
        "jit": compiled,
        "progress": False,
        "log_every": 1,
        "writers": [Watcher(seen)],
        "out": folder,
        "save_every": None if folder is None else SAVE_EVERY,
    }
    return digits.build(Settings(SEED, epochs, options))


def trained(run: Run, epochs: int, resume: bool = False) -> Run:
    """Train to the end."""
    run.trainer.fit(run.training, run.validation, epochs, resume=resume)
    return run


def hashed(model: Module) -> str:
    """The SHA-256 of a model's weights, by name."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        digest.update(name.encode() + np.ascontiguousarray(value.numpy()).tobytes())
    return digest.hexdigest()


# ---- in other processes


def elsewhere(folder: Path, epochs: int, **environment: str) -> TrainingResult:
    """Train in another process with these environment variables; resume the training in the folder if there is one."""
    child = _started(folder, epochs, environment)
    try:
        out, err = child.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        raise DeviceError(
            f"demo: a training of at most {LONGEST:.0f} s in another process is required; it was "
            "ended; run it again when the machine has less to do"
        ) from None
    if child.returncode:
        raise DeviceError(
            f"demo: a training in another process is required; it failed ({child.returncode}):\n{err.strip()[-800:]}"
        )
    return TrainingResult(**json.loads(out))


def killed(folder: Path, epochs: int, after: int, seen: Callable[[int], object]) -> int:
    """Train in another process and kill it (SIGKILL) once it has saved `after` updates; returns the last update saved.

    `seen` is called repeatedly with the last update saved.
    """
    child = _started(folder, epochs, {})
    kept = Checkpoints(folder / "checkpoints")
    end = time.monotonic() + LONGEST
    try:
        while child.poll() is None and _saved(kept) < after and time.monotonic() < end:
            seen(_saved(kept))
            time.sleep(LOOK_EVERY)
    finally:
        child.kill()
        _, err = child.communicate()
    if child.returncode != -signal.SIGKILL or _saved(kept) < after:
        raise DeviceError(
            f"demo: a training that is killed after update {after} is required; it ended by itself "
            f"({child.returncode}) after update {_saved(kept)}:\n{err.strip()[-800:]}"
        )
    return _saved(kept)


def _started(folder: Path, epochs: int, environment: Mapping[str, str]) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "nacre.cli.demo.training", str(folder), str(epochs)]
    paths = os.pathsep.join(filter(None, sys.path))
    return subprocess.Popen(
        line,
        env={**os.environ, "PYTHONPATH": paths, **environment},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _saved(checkpoints: Checkpoints) -> int:
    """The last update that is saved; 0 where there is none."""
    return max((int(path.name.rpartition("-")[2]) for path in checkpoints.paths()), default=0)


def main(folder: Path, epochs: int) -> TrainingResult:
    """Train in a folder, or resume there."""
    times: list[tuple[int, float]] = []
    run = ready(epochs, folder=folder, seen=lambda update, loss: times.append((update, time.perf_counter())))
    start = time.perf_counter()
    trained(run, epochs, resume=True)
    update, first = times[0] if times else (run.trainer.updates + 1, start)
    return TrainingResult(hashed(run.trainer.model), update - 1, (first - start) * 1e3)


if __name__ == "__main__":
    print(json.dumps(asdict(main(Path(sys.argv[1]), int(sys.argv[2])))))
