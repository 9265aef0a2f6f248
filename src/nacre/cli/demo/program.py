"""The demo's executable: the trained network compiled ahead of time, and its answers for the test images."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import numpy as np

from nacre import deploy
from nacre.api.creation import zeros
from nacre.base.dims import Dim
from nacre.base.errors import DeviceError
from nacre.deploy.compile import Deployed
from nacre.nn.module import Module

LARGEST_BATCH = 512
TIMED = 20  # runs of the executable on one image


def compiled(model: Module, folder: Path) -> Deployed:
    """The model as an executable for any batch; raises MissingExtra if this machine has no linker."""
    batch = Dim.symbol("batch", 1, LARGEST_BATCH)
    return deploy.compile(model.eval(), [zeros((2, 1, 8, 8))], folder / "digits", dynamic_shapes={"x": {0: batch}})


def scores(program: Path, images: np.ndarray) -> np.ndarray:
    """The executable's results for images, in a separate process that reads and writes .npy files."""
    given, result = program.with_name("images.npy"), program.with_name("scores.npy")
    np.save(given, images)
    _run(program, given, result)
    return np.load(result)


def milliseconds(program: Path, image: np.ndarray) -> float:
    """The least time in which the executable starts, reads one image, and writes its answer."""
    given, result = program.with_name("image.npy"), program.with_name("answer.npy")
    np.save(given, image)
    taken: list[float] = []
    for _ in range(TIMED):
        start = time.perf_counter()
        _run(program, given, result)
        taken.append(time.perf_counter() - start)
    return min(taken) * 1e3


def _run(program: Path, *files: Path) -> None:
    done = subprocess.run([program, *files], capture_output=True, text=True, check=False)
    if done.returncode:
        raise DeviceError(
            f"demo: an executable that runs is required; {program.name} ended with {done.returncode}: "
            f"{done.stderr.strip()[-500:]}"
        )
