"""Sets of numbers: membership, and the elements that are distinct.  Names follow the array API standard."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from nacre.api.elementwise.apply import require
from nacre.api.elementwise.one_program import one_program
from nacre.api.manipulation import concat, cut
from nacre.api.operands import TensorLike, as_tensor, filled, meet, numbers, spread
from nacre.api.primitives import parts, picking, pointwise, reduce, search, sorting, view
from nacre.api.searching import positions, require_known
from nacre.api.tensor import Tensor
from nacre.base.arguments import require_flag, whole_number
from nacre.base.dtypes import ANY, bool_, int64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.interpret.evaluate import from_numpy

__all__ = ["isin", "unique_all", "unique_counts", "unique_inverse", "unique_values"]

FEW: Final = 16  # values that are compared one by one


class UniqueAll(NamedTuple):
    """The distinct elements, their first positions, the place of each element of x among them, and their counts."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The distinct elements, and how often each is in x."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The distinct elements, and the place of each element of x among them."""

    values: Tensor
    inverse_indices: Tensor


@one_program(2)
def isin(x: TensorLike, values: TensorLike, /, *, invert: bool = False) -> Tensor:
    """Whether each element of x equals one of the values; with `invert`, whether it equals none.

    The values may have any shape.  NaN equals nothing.

    >>> nc.isin([1, 2, 3], [3, 1])
    Tensor([ True, False,  True], bool[3])
    """
    require_flag(invert, "isin")
    (held, row), dtype = meet("isin", (x, values))
    require("isin", dtype, ANY)
    row = view.reshape(row, (row.type.size,))
    size = row.type.shape[0]
    if dtype.is_complex or (isinstance(size, int) and size <= FEW):
        wide = (*held.type.shape, size)
        each = view.broadcast(held, wide, tuple(range(len(wide) - 1)))
        found = reduce.any_(pointwise.eq(each, spread(row, wide)), (len(wide) - 1,))
    else:
        row = sorting.sort(row, 0)
        found = pointwise.eq(picking.take(row, search.search(row, held), 0), held)  # `take` clamps the position
    return pointwise.not_(found) if invert else found


def unique_values(x: TensorLike, /, *, size: int | None = None) -> Tensor:
    """The distinct elements of x, in ascending order.  Each NaN counts as distinct, and zeros of both signs are equal.

    Complex numbers are ordered by their real parts, then by their imaginary parts.

    The size of the result depends on the numbers.  Where x is traced, as in `jit` and `vmap`, `size` fixes it: there
    are the first `size` elements, and the last one again where there are fewer.  Raises TraceError for a traced x
    without `size`.

    >>> nc.unique_values([3, 1, 3])
    Tensor([1, 3], i64[2])
    """
    return _Distinct(x, "unique_values", size).values


def unique_counts(x: TensorLike, /, *, size: int | None = None) -> UniqueCounts:
    """The distinct elements of x, as `unique_values` returns them, and the counts (int64) of each.

    With `size`, further places have the count 0.

    >>> nc.unique_counts([3, 1, 3]).counts
    Tensor([1, 2], i64[2])
    """
    found = _Distinct(x, "unique_counts", size)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: TensorLike, /, *, size: int | None = None) -> UniqueInverse:
    """The distinct elements of x, as `unique_values` returns them, and for each element of x its place among them.

    `values[inverse_indices]` is x again.  With a `size` that is too small, places may be beyond the values.

    >>> nc.unique_inverse([3, 1, 3]).inverse_indices
    Tensor([1, 0, 1], i64[3])
    """
    found = _Distinct(x, "unique_inverse", size)
    return UniqueInverse(found.values, found.inverse)


def unique_all(x: TensorLike, /, *, size: int | None = None) -> UniqueAll:
    """All results of the other functions on distinct elements, and the first position of each in the flattened x.

    >>> nc.unique_all([3, 1, 3]).indices
    Tensor([1, 0], i64[2])
    """
    found = _Distinct(x, "unique_all", size)
    return UniqueAll(found.values, found.indices, found.inverse, found.counts)


def _ascending(flat: Any) -> Any:
    """The order of a vector's elements; a later sort keeps the order of equal real parts."""
    if not flat.type.dtype.is_complex:
        return sorting.argsort(flat, 0)
    order: Any = None
    for part in (parts.imag(flat), parts.real(flat)):
        part = pointwise.add(part, filled(part, 0.0))  # −0 + 0 is 0
        found = sorting.argsort(part if order is None else picking.take(part, order, 0), 0)
        order = found if order is None else picking.take(order, found, 0)
    return order


class _Distinct:
    """The distinct elements of x: the sorted elements, and where each run of equal ones begins."""

    def __init__(self, x: TensorLike, operation: str, size: int | None) -> None:
        held = as_tensor(x)
        require(operation, held.type.dtype, ANY)
        self.shape, self.n = held.type.shape, held.type.size
        flat = view.reshape(held, (self.n,))
        self.order = _ascending(flat)
        ordered = picking.take(flat, self.order, 0)
        self.first = pointwise.fill(True, (self.n,), bool_)
        if self.n != 0:
            changes = pointwise.ne(cut(ordered, 0, 1, self.n), cut(ordered, 0, 0, self.n - 1))
            self.first = concat([pointwise.fill(True, (1,), bool_), changes])
        if size is None:
            require_known(self.first, operation)
            found = np.flatnonzero(numbers(self.first, operation))
            bounds, size = from_numpy(np.append(found, self.n)), len(found)
        else:
            size = whole_number(size, operation, "size")
            if size < 0:
                raise ArgumentError(f"{operation}: size must be at least 0; got {size}")
            if self.n == 0 and size:
                raise ShapeError(f"{operation}: an x without elements has size 0; got size={size}")
            bounds = positions(self.first, size + 1)
        self.starts: Any = cut(bounds, 0, 0, size)
        self.ends: Any = cut(bounds, 0, 1, size + 1)
        self.values: Any = picking.take(ordered, self.starts, 0)  # which clamps the position

    @property
    def indices(self) -> Any:
        """The first positions; sorting is stable, so that a run begins with its first element."""
        return picking.take(self.order, self.starts, 0)

    @property
    def inverse(self) -> Any:
        """The number of the run of each element, in the order of x."""
        runs = reduce.cumsum(pointwise.cast(self.first, int64), 0)
        runs = pointwise.sub(runs, filled(runs, 1))
        return view.reshape(picking.take(runs, sorting.argsort(self.order, 0), 0), self.shape)

    @property
    def counts(self) -> Any:
        """The lengths of the runs."""
        return pointwise.sub(self.ends, self.starts)
