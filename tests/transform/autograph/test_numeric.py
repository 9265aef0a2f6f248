"""Compiled programs have the values, and the bits, of plain Python on NumPy's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nacre as nc
from transform.autograph import callables, exits, values
from transform.autograph.numeric import NUMERIC

FILES = callables, exits, values  # they fill NUMERIC


def number(given: Any) -> Any:
    """A number or array of NumPy, of 64 bits if it is whole, else of 32 bits."""
    x = np.asarray(given)
    return x.astype(np.int64 if x.dtype.kind == "i" or not x.size else np.float32)[()]


def numbers(tree: Any) -> list[Any]:
    """The numbers in a result, without None."""
    if isinstance(tree, tuple | list):
        return [x for part in tree for x in numbers(part)]
    if isinstance(tree, dict):
        return [x for key in tree for x in numbers(tree[key])]
    return [] if tree is None else [np.asarray(tree)]


@pytest.mark.parametrize("name", NUMERIC)
def test_the_program_has_the_values_of_numpy(name: str) -> None:
    function, calls = NUMERIC[name]
    jitted = nc.jit(function)
    for call in calls:
        given = [number(x) for x in call]
        wanted = numbers(function(*given))
        found = numbers(jitted(*map(nc.tensor, given)))
        assert len(found) == len(wanted)
        for a, b in zip(wanted, found, strict=True):
            assert (a.shape, a.dtype.kind) == (b.shape, b.dtype.kind), (call, a, b)
            assert a.tobytes() == b.astype(a.dtype).tobytes(), (call, a, b)


def test_all_files_have_programs() -> None:
    assert all(file.numeric is not None for file in FILES) and len(NUMERIC) >= 150
