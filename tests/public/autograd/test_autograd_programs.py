"""Programs of PyTorch's autograd have PyTorch's results, or an error or a difference that is listed."""

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


def programs() -> ModuleType:
    """`autograd_programs.py`, which also runs where Nacre is not installed."""
    spec = importlib.util.spec_from_file_location("autograd_programs", HERE / "autograd_programs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PROGRAMS: dict[str, str] = programs().PROGRAMS
DIFFERENT: dict[str, tuple[object, str]] = programs().DIFFERENT
TOLD: dict[str, Any] = json.loads((HERE / "values.json").read_text())
messages: list[str] = []


def leaf(data: Any) -> nc.Tensor:
    return nc.tensor(data).requires_grad_()


def raises(f: Callable[[], object]) -> bool:
    """Whether f() raises an error of Nacre, whose message says what is required, or what to write."""
    try:
        f()
    except nc.Error as error:
        messages.append(str(error))
        assert ": " in str(error)
        return True
    return False


def result(name: str) -> Any:
    names: dict[str, Any] = {"t": nc, "leaf": leaf, "raises": raises}
    exec(compile(PROGRAMS[name], name, "exec"), names)
    return names["out"]


def near(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(near, found, wanted))
    if isinstance(wanted, float):
        return found == pytest.approx(wanted, rel=2e-6, abs=1e-6)
    return found == wanted


def test_every_program_has_a_result_of_torch() -> None:
    assert TOLD.keys() == PROGRAMS.keys() and DIFFERENT.keys() <= PROGRAMS.keys()


@pytest.mark.parametrize("name", [n for n in PROGRAMS if n not in DIFFERENT])
def test_a_program_has_the_result_of_torch(name: str) -> None:
    assert near(result(name), TOLD[name])


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_difference_is_listed(name: str) -> None:
    wanted, _ = DIFFERENT[name]
    if isinstance(wanted, str):
        with pytest.raises(getattr(nc, wanted, AttributeError)):
            result(name)
    else:
        assert near(result(name), wanted) and not near(wanted, TOLD[name])


def test_modes_are_as_before() -> None:
    assert nc.is_grad_enabled() and not nc.is_inference_mode_enabled()
