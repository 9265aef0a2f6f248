"""Programs with control flow on tensors have the same bits compiled as in plain Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from transform.autograph import arithmetic, classics, strangers
from transform.autograph.programs import PROGRAMS, TRACED

FILES = arithmetic, classics, strangers  # they fill PROGRAMS


def numbers(tree: Any) -> list[Any]:
    return [np.asarray(x) for x in nc.tree.leaves(tree)]


def arguments(call: tuple[Any, ...]) -> list[Any]:
    return [nc.tensor(x) if isinstance(x, list) else x for x in call]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_has_the_bits_of_python(name: str) -> None:
    function, calls = PROGRAMS[name]
    jitted = nc.jit(function)
    for call in calls:
        wanted = numbers(function(*arguments(call)))
        TRACED[0] = True
        try:
            found = numbers(jitted(*arguments(call)))
        finally:
            TRACED[0] = False
        assert len(found) == len(wanted)
        for a, b in zip(wanted, found, strict=True):
            assert a.shape == b.shape
            assert a.tobytes() == b.astype(a.dtype).tobytes(), (call, a, b)


def test_there_are_eighty() -> None:
    assert len(PROGRAMS) >= 80
    assert all(file.program is not None for file in FILES)
