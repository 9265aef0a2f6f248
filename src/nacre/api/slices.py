"""Slices whose start is a tensor, of a block of a fixed size; and the spans that slices of Python select."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.api.operands import TensorLike, as_tensor, whole_sizes
from nacre.api.primitives import picking
from nacre.api.tensor import Tensor
from nacre.base.dims import LIMIT, Dim, Size, lower, upper
from nacre.base.dtypes import int64
from nacre.base.errors import DTypeError, KindError, ShapeError
from nacre.base.size_binding import linear

__all__ = ["dynamic_slice", "dynamic_update_slice"]


def dynamic_slice(x: TensorLike, starts: Sequence[TensorLike], sizes: Sequence[Size]) -> Tensor:
    """The block of x of the given sizes that begins at `starts`, one rank-0 integer for each axis.

    A start is clamped so that the block is within x; a start below 0 counts as 0.

    Raises ShapeError for a wrong number of starts or sizes and for sizes beyond x, DTypeError for starts that are not
    integers.

    >>> nc.dynamic_slice([[1, 2, 3], [4, 5, 6]], (0, nc.tensor(1)), (2, 2))
    Tensor([[2, 3],
            [5, 6]], i64[2, 2])
    """
    return picking.dynamic_slice(as_tensor(x), _starts(starts, "dynamic_slice"), whole_sizes(sizes, "dynamic_slice"))


def dynamic_update_slice(x: TensorLike, update: TensorLike, starts: Sequence[TensorLike]) -> Tensor:
    """x with the block that begins at `starts` replaced by `update`, a tensor of x's rank.

    A start is clamped so that the block is within x.  In a jitted function, x is updated in place if it is not used
    later: a variable that is read and then assigned, a donated argument, or a temporary value.

    Raises ShapeError for an update or starts that do not fit x, DTypeError for an update of another dtype and for
    starts that are not integers.

    >>> nc.dynamic_update_slice(nc.zeros((2, 3)), [[7.0], [8.0]], (0, nc.tensor(2)))
    Tensor([[0., 0., 7.],
            [0., 0., 8.]], f32[2, 3])
    """
    at = _starts(starts, "dynamic_update_slice")
    return picking.dynamic_update_slice(as_tensor(x), as_tensor(update), at)


def _starts(starts: Sequence[TensorLike], operation: str) -> tuple[Any, ...]:
    """Starts as int64 tensors of rank 0."""
    found: list[Any] = []
    for start in starts:
        held = as_tensor(start)
        if not held.type.dtype.is_integer:
            raise DTypeError(f"{operation}: starts must be integers; got {held.type}")
        if held.type.shape:
            raise ShapeError(f"{operation}: starts must have rank 0; got {held.type}; select one with an index")
        found.append(as_tensor(held, int64))
    return tuple(found)


# ---- spans

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
            f"index: the slice must be valid for every size of {size}; got {entry}; "
            + (within(entry.start, size) or within(entry.stop, size) or "give the size a larger minimum, or a maximum")
        ) from fault


def within(end: Any, size: Size) -> str:
    """The advice for the symbol of an end that may be larger than a fixed size; empty for other ends."""
    known = linear(end) if isinstance(end, Dim) and isinstance(size, int) else None
    if known is None or known[1] <= 0:
        return ""
    symbol, factor, offset = known
    most = (int(size) - offset) // factor
    fits = symbol.high <= most or most < 0
    return "" if fits else f"give {symbol} a maximum of at most {most}, as in nc.Dim({symbol.name!r}, max={most})"


def clamped(given: Size | None, size: Size, default: Size) -> Size:
    """The start or the stop of a slice with a positive step, within the axis."""
    if given is None:
        return default
    if given < 0:
        given = size + given
        return 0 if upper(given) <= 0 or given < 0 else given
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
