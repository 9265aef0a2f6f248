"""SciPy and scikit-learn compute with tensors as with arrays of NumPy, and give tensors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from peers import scientific_calls

FILE = Path(scientific_calls.__file__)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """What is wrong with each check, from a process where both packages dispatch to the library of their arguments."""
    pytest.importorskip("scipy", minversion="1.17")
    pytest.importorskip("sklearn", minversion="1.9")
    paths = os.pathsep.join(filter(None, sys.path))
    variables = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": paths}
    ran = subprocess.run([sys.executable, str(FILE)], env=variables, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout.splitlines()[-1]))


@pytest.mark.parametrize("name", scientific_calls.CHECKS)
def test_results_are_those_of_arrays(name: str, outcomes: dict[str, str]) -> None:
    assert not outcomes[name], outcomes[name]
