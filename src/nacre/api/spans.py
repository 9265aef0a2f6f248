"""The elements of an axis that a slice selects, for sizes and ends that may be symbolic."""

from __future__ import annotations

from typing import Any

from nacre.base.dims import LIMIT, Dim, Size, lower, upper
from nacre.base.errors import KindError, ShapeError

Span = tuple[Size, Size, int, bool]  # start, stop, step > 0, and whether the result is to be flipped


def span(entry: slice, size: Size) -> Span:
    """The start, stop and step of a slice on an axis."""
    step: Any = 1 if entry.step is None else entry.step
    if isinstance(step, Dim):
        raise KindError(f"index: the step of a slice must be a known number; got {step}; write an int")
    if step == 0:
        raise ShapeError("index: the step of a slice must not be 0; got 0")
    if isinstance(size, Dim) or isinstance(entry.start, Dim) or isinstance(entry.stop, Dim):
        return _symbolic_span(entry, size, max(-LIMIT, min(step, LIMIT)))
    start, stop, step = entry.indices(size)
    selected = len(range(start, stop, step))
    if selected == 0:
        return 0, 0, 1, False
    if selected == 1:  # the step may be larger than machine numbers
        return start, start + 1, 1, False
    last = start + (selected - 1) * step
    return (start, last + 1, step, False) if step > 0 else (last, start + 1, -step, True)


def _symbolic_span(entry: slice, size: Size, step: int) -> Span:
    """The span of a slice of a symbolic size, or with symbolic ends, which are clamped to the axis as in NumPy."""
    if entry.start is None and entry.stop is None and step in (1, -1):
        return 0, size, 1, step < 0
    try:
        if step > 0:
            start, stop = (clamped(n, size, default) for n, default in ((entry.start, 0), (entry.stop, size)))
            return (start, stop, step, False) if start <= stop else (0, 0, 1, False)
        start, stop = (_last(n, size, default) for n, default in ((entry.start, size - 1), (entry.stop, -1)))
        if start <= stop:
            return 0, 0, 1, False
        return start - (count(stop, start, -step) - 1) * -step, start + 1, -step, True
    except ShapeError as fault:
        raise ShapeError(
            f"index: the slice must be valid for every size of {size}; got {entry}; give the size a larger minimum, or "
            "a maximum"
        ) from fault


def clamped(given: Size | None, size: Size, default: Size) -> Size:
    """The start or the stop of a slice with a positive step, within the axis."""
    if given is None:
        return default
    if given < 0:
        given = size + given
        return 0 if given <= 0 else given
    left = size - given
    if lower(left) >= 0 or upper(left) <= 0:  # equal ends count to both
        return given if lower(left) >= 0 else size
    return size if given > size else given


def _last(given: Size | None, size: Size, default: Size) -> Size:
    """The start or the stop of a slice with a negative step; -1 is before the first element."""
    if given is None:
        return default
    if given < 0:
        given = size + given
        return -1 if given < 0 else given
    return size - 1 if given >= size else given


def count(start: Size, stop: Size, step: int) -> Size:
    """The number of elements of a span."""
    return (stop - start + (step - 1)) // step  # the formula of `slice`, so that symbolic sizes are equal
