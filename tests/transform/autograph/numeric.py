"""Programs that plain Python runs on NumPy's numbers and arrays: functions, with the numbers to call them with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class NumericProgram(NamedTuple):
    """A function and the numbers of its calls."""

    function: Callable[..., Any]
    calls: list[tuple[Any, ...]]


NUMERIC: dict[str, NumericProgram] = {}
WHOLE = [(k,) for k in (0, 1, 2, 3, 5, 11)]
WHOLE_VECTORS = [([],), ([4],), ([3, 1, 2],), ([2, 4, 6, 7, 8, 1, 3],)]
VECTORS = [([1.5, -2.0],), ([-3.0, 1.0],), ([6.0, 7.5],), ([0.0, 0.0],)]
PAIRS = [(0, 0), (1, 2), (2, 1), (4, 3), (0, 3), (5, 0)]


def numeric(*calls: tuple[Any, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a function with the numbers of its calls, by default one whole number."""

    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        assert f.__name__ not in NUMERIC
        NUMERIC[f.__name__] = NumericProgram(f, list(calls or WHOLE))
        return f

    return add
