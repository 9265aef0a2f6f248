"""Programs of PyTorch's autograd have PyTorch's results, in eager code and with compiled steps, to the same bits."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import nacre as nc

HERE = Path(__file__).parent


def module() -> ModuleType:
    """`programs.py`, which also runs where Nacre is not installed."""
    spec = importlib.util.spec_from_file_location("compiled_programs", HERE / "programs.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


MADE: Any = module()
PROGRAMS: dict[str, str] = MADE.programs()
TOLD: dict[str, Any] = json.loads((HERE / "values.json").read_text())


def run(name: str, jit: Callable[[Any], Any]) -> Any:
    return MADE.result(name, PROGRAMS[name], MADE.names(nc, jit, nc.Error))


def near(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return isinstance(found, list) and len(found) == len(wanted) and all(map(near, found, wanted))  # type: ignore[arg-type]
    if isinstance(wanted, float):
        return found == pytest.approx(wanted, rel=5e-6, abs=2e-6, nan_ok=True)
    return found == wanted


def test_every_program_has_a_result_of_torch() -> None:
    assert TOLD.keys() == PROGRAMS.keys()


SLOW = {"second derivatives of indexing", "second derivatives of layers"}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in PROGRAMS])
def test_a_program_has_the_result_of_torch_in_eager_and_compiled_code(name: str) -> None:
    eager = run(name, lambda f: f)
    assert near(eager, TOLD[name])
    assert repr(run(name, nc.jit)) == repr(eager)  # equal texts are equal bits
