"""Reductions of rows by their segments, the numbers of which a vector holds.  Names follow JAX."""

from __future__ import annotations

from typing import Any

from nacre.api.manipulation import cut
from nacre.api.operands import TensorLike, as_tensor, filled, in_single
from nacre.api.placement.combining import combined_slices, first_operand
from nacre.api.placement.scatter import averaged
from nacre.api.primitives import pointwise, view
from nacre.api.taking import as_signed, from_zero, least_size, or_behind, require_mode
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_number
from nacre.base.dims import Size
from nacre.base.errors import ArgumentError, DTypeError, ShapeError

__all__ = ["segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum"]


def segment_sum(
    x: TensorLike, segment_ids: TensorLike, /, num_segments: Size | None = None, *, mode: str = "raise"
) -> Tensor:
    """The sums of the rows of each segment, in their order: `segment_ids` has the number of the segment of each row.

    The default of `num_segments` is one more than the largest number, which must be known.  A number out of range
    raises AxisError, in a compiled function when it runs; in the mode "drop" its row is left out.  A segment without
    rows has the sum 0.

    >>> nc.segment_sum([1.0, 2.0, 3.0], [0, 2, 0])
    Tensor([4., 0., 2.], f32[3])
    """
    return _reduced("segment_sum", x, segment_ids, num_segments, mode, "sum")


def segment_prod(
    x: TensorLike, segment_ids: TensorLike, /, num_segments: Size | None = None, *, mode: str = "raise"
) -> Tensor:
    """The products of the rows of each segment; 1 for a segment without rows.

    The arguments are those of `segment_sum`.

    >>> nc.segment_prod([2.0, 3.0, 4.0], [0, 2, 0])
    Tensor([8., 1., 3.], f32[3])
    """
    return _reduced("segment_prod", x, segment_ids, num_segments, mode, "prod")


def segment_max(
    x: TensorLike, segment_ids: TensorLike, /, num_segments: Size | None = None, *, mode: str = "raise"
) -> Tensor:
    """The largest elements of each segment; the least number of the dtype, or −∞, for a segment without rows.

    The arguments are those of `segment_sum`.

    >>> nc.segment_max([1.0, 2.0, 3.0], [0, 2, 0])
    Tensor([  3., -inf,   2.], f32[3])
    """
    return _reduced("segment_max", x, segment_ids, num_segments, mode, "amax")


def segment_min(
    x: TensorLike, segment_ids: TensorLike, /, num_segments: Size | None = None, *, mode: str = "raise"
) -> Tensor:
    """The smallest elements of each segment; the greatest number of the dtype, or ∞, for a segment without rows.

    The arguments are those of `segment_sum`.

    >>> nc.segment_min([1.0, 2.0, 3.0], [0, 2, 0])
    Tensor([ 1., inf,  2.], f32[3])
    """
    return _reduced("segment_min", x, segment_ids, num_segments, mode, "amin")


def segment_mean(
    x: TensorLike, segment_ids: TensorLike, /, num_segments: Size | None = None, *, mode: str = "raise"
) -> Tensor:
    """The means of the rows of each segment; 0 for a segment without rows.  The arguments are those of `segment_sum`.

    Means of integers are rounded down.

    >>> nc.segment_mean([1.0, 2.0, 3.0], [0, 2, 0])
    Tensor([2., 0., 2.], f32[3])
    """
    held, places, count, rest = _rows("segment_mean", x, segment_ids, num_segments, mode)
    counts = _combined("segment_mean", filled(places, 1), places, count, rest, "sum")

    def means(x: Any) -> Any:
        total = _combined("segment_mean", x, places, count, rest, "sum")
        return averaged(total, view.broadcast(counts, total.type.shape, (0,)))

    return in_single(means, held)


def _reduced(operation: str, x: TensorLike, ids: TensorLike, count: Size | None, mode: str, reduction: str) -> Any:
    return _combined(operation, *_rows(operation, x, ids, count, mode), reduction)


def _rows(operation: str, x: TensorLike, ids: TensorLike, count: Size | None, mode: str) -> tuple[Any, Any, Size, int]:
    """The rows, the segment of each, the number of segments, and how many follow them: one for dropped rows, or 0."""
    held, places = as_tensor(x), as_tensor(ids)
    require_mode(operation, mode, allowed=("raise", "drop"))
    if not places.type.dtype.is_integer:
        raise DTypeError(f"{operation}: segment_ids must be integers; got {places.type}; use astype")
    if len(places.type.shape) != 1 or held.type.shape[:1] != places.type.shape:
        raise ShapeError(
            f"{operation}: segment_ids must be a vector with a number for each row of x; got {places.type} for "
            f"{held.type}"
        )
    if count is None:
        count = least_size(operation, places)
    size: Size = whole_number(count, operation, "num_segments")
    if size < 0:
        raise ArgumentError(f"{operation}: num_segments must be at least 0; got {size}")
    if mode == "raise":
        return held, from_zero(operation, places, size, ""), size, 0
    return held, or_behind(as_signed(places), size), size, 1


def _combined(operation: str, x: Any, places: Any, count: Size, rest: int, reduction: str) -> Any:
    start = pointwise.fill(first_operand(reduction, x.type.dtype), (count + rest, *x.type.shape[1:]), x.type.dtype)
    return cut(combined_slices(operation, start, places, x, 0, reduction), 0, 0, count)
