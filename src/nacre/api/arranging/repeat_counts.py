"""The counts of `repeat`: one for all elements, or one for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre.api.operands import numbers
from nacre.base.dims import Size
from nacre.base.errors import ArgumentError, DTypeError, ShapeError, TraceError, explain
from nacre.runtime.buffer import require_room
from nacre.trace.value import is_concrete


def repeat_counts(repeats: Any, size: Size) -> np.ndarray:
    """The counts of `repeat`, a vector of one or `size` numbers."""
    if not repeats.type.dtype.is_integer:
        raise DTypeError(f"repeat: repeats must be integers; got {repeats.type}; use astype")
    if repeats.type.rank > 1 or repeats.type.size not in (1, size):
        raise ShapeError(f"repeat: repeats must be one number, or one for each of {size} elements; got {repeats.type}")
    if not is_concrete(repeats):
        raise TraceError(_COUNTS.format(type=repeats.type))
    counts = numbers(repeats, "repeat").reshape(-1)
    if counts.size and counts.min() < 0:
        raise ArgumentError(f"repeat: repeats must be at least 0; got {counts.min()}")
    require_room(int(counts.sum(dtype=np.float64)) * 8)  # a sum of integers might wrap
    return counts.astype(np.int64)


_COUNTS = explain(
    "repeat: a count for each element must be a known number; got a traced tensor of type {type}",
    "@nc.jit\ndef f(x, counts):\n    return nc.repeat(x, counts)",
    "The size of the result depends on the counts, which a compiled function does not know in advance.",
    "places = numpy.repeat(numpy.arange(x.size), counts)     # outside\n\n"
    "@nc.jit\ndef f(x, places):\n    return x[places]",
)
