"""Elements at indices, `take` and `take_along_axis`, and what an index out of range means to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nacre.api.elementwise.one_program import one_program
from nacre.api.operands import (
    TensorLike,
    as_tensor,
    constant,
    extent,
    filled,
    is_plain,
    is_scalar,
    meet,
    numbers,
    require_inside,
    scalar,
    spread,
)
from nacre.api.primitives import picking, pointwise, view
from nacre.api.tensor import FUNCTIONS, Tensor
from nacre.base.conversion import element
from nacre.base.dims import LIMIT, Dim, Size
from nacre.base.dtypes import float64, int64, uint64
from nacre.base.errors import ArgumentError, AxisError, DTypeError, ShapeError
from nacre.base.types import Shape, broadcast_shapes, normal_axis
from nacre.interpret.evaluate import from_numpy, to_numpy
from nacre.runtime.buffer import require_room
from nacre.trace.reads import is_capture
from nacre.trace.value import is_concrete

__all__ = ["take", "take_along_axis"]


@one_program(2)
def take(
    x: TensorLike,
    indices: TensorLike,
    /,
    *,
    axis: int | None = None,
    mode: str = "raise",
    fill_value: float | None = None,
) -> Tensor:
    """The slices of x along an axis at integer indices.  For a vector, the axis may be omitted.

    A negative index counts from the end.  In the mode "raise", an index out of range raises AxisError, in a compiled
    function when it runs.  In the mode "clip" it means the nearest index, and so does a negative one.  In the mode
    "drop" it gives zeros.  In the mode "fill" it gives `fill_value`, by default NaN, or 0 for integers.  Zeros and
    filled elements have no gradient.  Raises ArgumentError for another mode.

    >>> nc.take([10, 20, 30], [2, -1])
    Tensor([30, 30], i64[2])
    >>> nc.take([10, 20, 30], [2, 7], mode="drop")
    Tensor([30,  0], i64[2])
    """
    held, wanted = as_tensor(x), as_tensor(indices)
    rank = len(held.type.shape)
    if axis is None and rank != 1:
        raise ShapeError(f"take: axis must be given for x of rank {rank}; got none")
    at = normal_axis(0 if axis is None else axis, rank, "take")
    if not wanted.type.dtype.is_integer:
        raise DTypeError(f"take: indices must be integers; got {wanted.type}")
    places, inside = _placed(wanted, held.type.shape[at], at, require_mode("take", mode, fill_value))
    found = picking.take(with_elements(held, wanted, at, mode), places, at)
    if inside is None:
        return found
    axes = tuple(range(at, at + len(wanted.type.shape)))
    return _filled("take", found, view.broadcast(inside, found.type.shape, axes), mode, fill_value)


@one_program(2)
def take_along_axis(
    x: TensorLike,
    indices: TensorLike,
    /,
    *,
    axis: int = -1,
    mode: str = "raise",
    fill_value: float | None = None,
) -> Tensor:
    """For each place of `indices`, the element of x with that index along the axis and the same place in the other
    axes.

    A negative index counts from the end.  `mode` and `fill_value` are those of `take`, and so are the errors.

    >>> nc.take_along_axis([[1, 2], [3, 4]], [[1], [0]])
    Tensor([[2],
            [3]], i64[2, 1])
    """
    held, wanted = as_tensor(x), as_tensor(indices)
    rank = len(held.type.shape)
    at = normal_axis(axis, rank, "take_along_axis")
    if not wanted.type.dtype.is_integer or len(wanted.type.shape) != rank:
        raise ShapeError(f"take_along_axis: indices must be integers of rank {rank}; got {wanted.type}")
    places, inside = _placed(wanted, held.type.shape[at], at, require_mode("take_along_axis", mode, fill_value))
    found = gathered(with_elements(held, wanted, at, mode), places, at, "take_along_axis")
    if inside is None:
        return found
    return _filled("take_along_axis", found, spread(inside, found.type.shape), mode, fill_value)


def gathered(held: Any, places: Any, at: int, operation: str) -> Any:
    """The elements of x at positions along an axis; both broadcast in the other axes."""
    one = tuple(1 if k == at else s for k, s in enumerate(held.type.shape))
    other = tuple(1 if k == at else s for k, s in enumerate(places.type.shape))
    shape = broadcast_shapes(one, other, operation=operation)
    held = spread(held, tuple(held.type.shape[at] if k == at else s for k, s in enumerate(shape)))
    whole = tuple(places.type.shape[at] if k == at else s for k, s in enumerate(shape))
    return picking.gather(held, spread(places, whole), at)


# ---- indices out of range

MODES = ("raise", "clip", "drop", "fill")


def require_mode(operation: str, mode: str, fill_value: float | None = None, allowed: Sequence[str] = MODES) -> str:
    """Require the name of a mode; a number to fill with belongs to "fill" alone."""
    if mode not in allowed:
        raise ArgumentError(f"{operation}: mode must be one of {', '.join(allowed)}; got {mode!r}")
    if fill_value is not None and mode != "fill":
        raise ArgumentError(f'{operation}: fill_value needs mode "fill"; got {mode!r}')
    return mode


def clipped(indices: Any, size: Size) -> Any:
    """Indices as int64 within [0, size)."""
    last = spread(extent(size - 1), indices.type.shape)
    return pointwise.maximum(pointwise.minimum(as_signed(indices), last), filled(last, 0))


def as_signed(indices: Any) -> Any:
    """Integers as int64, out of the range of all sizes if they are too large for it."""
    if indices.type.dtype is uint64:
        indices = pointwise.minimum(indices, filled(indices, LIMIT))
    return as_tensor(indices, int64)


def _placed(wanted: Any, size: Size, axis: int, mode: str) -> tuple[Any, Any]:
    """Indices within an axis, and which ones were, in the modes that treat the others in another way."""
    if mode == "raise":
        return located(wanted, size, axis), None
    if mode == "clip":
        return clipped(wanted, size), None
    moved = _from_end(as_signed(wanted), size)
    inside = are_inside(moved, size)
    return pointwise.select(inside, moved, filled(moved, 0)), inside


def _from_end(indices: Any, size: Size) -> Any:
    """int64 indices, of which negative ones have been counted from the end of an axis."""
    moved = pointwise.add(indices, spread(extent(size), indices.type.shape))
    return pointwise.select(pointwise.lt(indices, filled(indices, 0)), moved, indices)


def are_inside(places: Any, size: Size) -> Any:
    """Which int64 places are in [0, size)."""
    end = spread(extent(size), places.type.shape)
    return pointwise.and_(pointwise.ge(places, filled(places, 0)), pointwise.lt(places, end))


def _filled(operation: str, found: Any, inside: Any, mode: str, value: float | None) -> Any:
    """The elements, with zeros or a number in place of those whose index was not inside."""
    dtype = found.type.dtype
    if mode == "drop" or (value is None and not dtype.is_float):
        value = 0
    given = element(float("nan") if value is None else value, dtype, operation)
    return pointwise.select(inside, found, spread(from_numpy(given), found.type.shape))


def with_elements(x: Any, indices: Any, axis: int, mode: str = "raise") -> Any:
    """A tensor, or a substitute for one without elements along an axis: no index is within it, so none is read.

    The mode "clip" has no nearest index there, and raises AxisError.
    """
    shape = x.type.shape
    if shape[axis] != 0 or indices.type.size == 0:
        return x
    if mode == "clip":
        raise AxisError(
            f'take: an axis must have elements for the mode "clip"; got size 0 for axis {axis}; use mode="fill"'
        )
    return spread(constant(0, x.type.dtype), tuple(1 if k == axis else n for k, n in enumerate(shape)))


def from_zero(operation: str, indices: Any, size: Size, other: str) -> Any:
    """Integer indices in [0, size) as int64; other ones raise AxisError, whose text names a function that takes them.

    The text is for negative ones; for a function without such a counterpart, `other` is empty.
    """
    if not indices.type.dtype.is_integer:
        raise DTypeError(f"{operation}: indices must be integers; got {indices.type}; use astype")
    advice = f"; nacre.{other} takes negative ones" if other else ""
    text = f"{operation}: indices must be in [{{low}}, {{high}}); got {{got}}{advice}"
    require_inside(indices, 0, size, AxisError, text)
    return as_tensor(indices, int64)


def require_beside(operation: str, index: Any, shape: Shape, axis: int, other: str) -> None:
    """Require the rank of a shape, and at most its sizes beside an axis; `other` is a function for whole slices."""
    wanted = index.type.shape
    beside = zip(wanted, shape, strict=False)
    if len(wanted) != len(shape) or any(k != axis and n > m for k, (n, m) in enumerate(beside)):
        raise ShapeError(
            f"{operation}: the index must have the rank of x, and at most its sizes beside axis {axis}; got {wanted} "
            f"for {shape}; nacre.{other} takes whole slices"
        )


def as_vector(operation: str, index: TensorLike, other: str) -> Any:
    """The index as a vector; a number is one of size 1.  `other` names a function and its index."""
    places = as_tensor(index)
    if len(places.type.shape) > 1:
        raise ShapeError(f"{operation}: the index must be a vector; got {places.type}; nacre.{other}")
    return view.reshape(places, (places.type.size,))


def least_size(operation: str, indices: Any) -> int:
    """The size of the smallest axis that has all these integers as indices, which must be known: 0 for none."""
    known = numbers(indices, operation)
    return int(known.max()) + 1 if known.size else 0


def or_behind(places: Any, size: Size) -> Any:
    """int64 places from 0, and the size for those outside of an axis: sums there, in one more row, are cut off.

    Sums leave out places outside, but their derivatives by updates clip places.
    """
    return pointwise.select(are_inside(places, size), places, spread(extent(size), places.type.shape))


def as_update(operation: str, x: Any, value: TensorLike) -> Any:
    """Elements to store in x, in its dtype: Python numbers must fit it, and tensors be ones that promote with x."""
    dtype = x.type.dtype
    if is_plain(value):
        return as_tensor(value, dtype)
    if not is_scalar(value):
        value = as_tensor(value)
        meet(operation, (x, value))
    return as_tensor(value, dtype)


def located(indices: Any, size: Size, axis: int, known: bool = False) -> Any:
    """Indices of an axis as int64 from its beginning; a negative one counts from the end.

    One out of range raises AxisError, at once or when the traced program runs.  With `known`, indices have numbers that
    are read now, if they have any.
    """
    text = f"index: indices for axis {axis} must be in [{{low}}, {{high}}); got {{got}}"
    require_inside(indices, -size, size, AxisError, text, known=known)
    if is_concrete(indices) and isinstance(size, int) and (known or not is_capture(indices)):
        array = to_numpy(indices)
        if indices.type.dtype is not int64 or array.min(initial=0) < 0:  # still with numbers while others are traced
            wide = array.astype(np.int64)
            return from_numpy(np.where(wide < 0, wide + size, wide))
        return indices
    wide = as_tensor(indices, int64)
    return _from_end(wide, size) if indices.type.dtype.is_signed else wide


# ---- positions that depend on sizes


class Positions:
    """Arithmetic for positions along axes: with NumPy for known sizes, and with tensors for symbolic ones.

    `functions` are those of either.  Whole numbers are int64, and others float64.  Each operation rounds once, so both
    ways give the same bits.
    """

    def __init__(self, *sizes: Size) -> None:
        self.symbolic: Final = any(isinstance(s, Dim) for s in sizes)
        self.functions: Final[Any] = FUNCTIONS if self.symbolic else np
        self.float64: Final[Any] = float64 if self.symbolic else np.float64

    def counted(self, count: Size, nbytes: int = 0) -> Any:
        """0, 1, … count − 1; `nbytes` are what each of them needs until the result is made."""
        if self.symbolic:
            return pointwise.iota((count,), 0, int64)
        assert isinstance(count, int)
        require_room(count * nbytes)
        return np.arange(count)

    def real(self, value: Any) -> Any:
        """A size or positions as float64."""
        if not self.symbolic:
            return np.float64(value)
        return scalar(value, float64) if isinstance(value, int | Dim) else pointwise.cast(value, float64)

    def whole(self, values: Any) -> Any:
        """The whole parts of positions."""
        return pointwise.cast(values, int64) if self.symbolic else values.astype(np.int64)

    def taken(self, x: Any, places: Any, axis: int) -> Any:
        """The slices of x at positions within an axis."""
        return picking.take(x, places, axis) if self.symbolic else take(x, as_tensor(places), axis=axis)
