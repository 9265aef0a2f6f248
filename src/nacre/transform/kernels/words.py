"""Functions that kernels use, and that mean the same in plain Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from nacre.kernel.order import tree

__all__ = ["pairwise_sum", "prange"]


def prange(start: int, stop: int | None = None, step: int = 1, /) -> range:
    """The range of a parallel loop of a `nacre.kernel`: its rounds may run in any order, on several threads.

    In plain Python it is `range`.  The number of rounds must follow from shapes and parameters.

    >>> list(nc.prange(2, 5))
    [2, 3, 4]
    """
    return range(start) if stop is None else range(start, stop, step)


def pairwise_sum(values: Iterable[Any], /) -> Any:
    """The sum of numbers in the order that `nacre.sum` has: neighbours are added, then these sums, and so on.

    In a `nacre.kernel` the values are a generator over `range`, whose length follows from shapes and parameters.
    Floating-point numbers have the same bits there and in plain Python.

    >>> nc.pairwise_sum(k * 0.5 for k in range(4))
    3.0
    """
    numbers: list[Any] = list(values)
    strong: list[Any] = [x.dtype for x in numbers if _is_numpys(x)]
    if not strong and all(isinstance(x, int) for x in numbers):
        return sum(numbers)
    held = np.array(numbers, np.result_type(*strong) if strong else np.float64)
    if not len(held):
        return 0.0
    found = tree(held, np.add)
    return found if strong else float(found)


def _is_numpys(x: object) -> bool:
    return isinstance(x, np.generic)


for _word, _function in (("parallel", prange), ("sum", pairwise_sum)):
    _function.kernel_word = _word  # type: ignore[attr-defined] - by which a kernel knows it
