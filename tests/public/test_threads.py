"""Public names first used by sixteen threads at once: no error or deadlock, the bits of one thread, one compilation."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from surface import NAMES

THREADS = 16
# Examples that concern the whole process, its names, files, folders and other processes, and those that take long.
APART = (
    "nacre.train",
    "nacre.deploy",
    "nacre.inspect",
    "nacre.examples",
    "nacre.data.DataLoader",
    "nacre.data.ParquetStream",
    "nacre.data.read_",
    "nacre.set_",
    "nacre.save",
    "nacre.load",
    "nacre.freeze",
    "nacre.nn.init",
    "nacre.random",
    "nacre.primitive",
    "nacre.register_",
)
EXAMPLES = sorted(
    (name for name, held in NAMES.items() if ">>> " in (inspect.getdoc(held) or "") and not name.startswith(APART)),
    key=lambda name: crc32(name.encode()),
)
SAMPLE, GROUP = 16, 40  # names in each run of a sample, and in each run of all names


def cold(threads: int, names: Sequence[str], folder: Path) -> dict[str, Any]:
    """The report of a fresh process with an empty cache on names that are used by a number of threads."""
    around = {
        **os.environ,
        "NACRE_CACHE_DIR": str(folder / f"cache of {threads}"),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("cold.py")), str(threads), *names],
        env=around,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check(alone: dict[str, Any], together: dict[str, Any]) -> None:
    """Check that there are no errors, and that bits are equal where those of one thread are the same each time."""
    assert not together["faults"], "\n".join(together["faults"].values())
    for name, ((first, *others),) in alone["results"].items():
        if all(other == first for other in others):
            assert all(rounds == [first] * len(rounds) for rounds in together["results"][name]), name


def test_whole_programs(tmp_path: Path) -> None:
    alone, together = cold(1, (), tmp_path), cold(THREADS, (), tmp_path)
    assert not alone["faults"]
    check(alone, together)
    assert together["prepared"] == alone["prepared"] == 1, together["again"]
    assert together["objects"] <= alone["objects"]
    (counts,) = alone["results"]["concrete functions"][0][0]
    assert json.loads(counts) == [1] * len(json.loads(counts))


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(EXAMPLES[:SAMPLE], id="sample", marks=pytest.mark.slow),
        *(
            pytest.param(EXAMPLES[k : k + GROUP], id=f"from {k}", marks=pytest.mark.slow)
            for k in range(SAMPLE, len(EXAMPLES), GROUP)
        ),
    ],
)
def test_examples(names: list[str], tmp_path: Path) -> None:
    alone = cold(1, names, tmp_path)
    fine = [name for name in names if name not in alone["faults"]]
    assert len(fine) >= 0.8 * len(names), alone["faults"]
    alone["results"] = {name: alone["results"][name] for name in fine}
    check(alone, cold(THREADS, fine, tmp_path))
