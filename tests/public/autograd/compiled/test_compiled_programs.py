"""Programs of PyTorch's autograd have PyTorch's results, in eager code and with compiled steps, to the same bits."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import nacre as nc
from public.autograd.compiled.programs import HERE, names, programs, result

PROGRAMS = programs()
TOLD: dict[str, Any] = json.loads((HERE / "values.json").read_text())


def run(name: str, jit: Callable[[Any], Any]) -> Any:
    return result(name, PROGRAMS[name], names(nc, jit, nc.Error))


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
