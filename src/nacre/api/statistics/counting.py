"""Counts of elements in bins.  Names follow NumPy; `bucketize` and `histc` follow PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from nacre.api.elementwise.apply import require
from nacre.api.manipulation import cut, flatten
from nacre.api.operands import (
    TensorLike,
    as_tensor,
    constant,
    extent,
    filled,
    is_plain,
    meet,
    spread,
)
from nacre.api.primitives import picking, pointwise, search, view
from nacre.api.searching import searchsorted
from nacre.api.statistical import max, min, sum
from nacre.api.statistics.conditions import require_all
from nacre.api.taking import are_inside, from_zero, least_size
from nacre.api.tensor import Tensor
from nacre.base.arguments import is_whole, shown, whole_number
from nacre.base.dims import Size, product
from nacre.base.dtypes import FLOATING, NUMERIC, ORDERED, DType, float64, int64
from nacre.base.errors import ArgumentError, DTypeError, KindError, ShapeError

__all__ = [
    "bincount",
    "bucketize",
    "digitize",
    "histc",
    "histogram",
    "histogram2d",
    "histogram_bin_edges",
    "histogramdd",
]

Bins = int | TensorLike
Range = tuple[TensorLike, TensorLike] | None


def bincount(
    x: TensorLike, /, weights: TensorLike | None = None, minlength: int = 0, *, length: Size | None = None
) -> Tensor:
    """How often each integer from 0 on occurs in a vector (int64); with weights, their sums in order.

    The result has one element more than the largest integer, which must be known, or `minlength` if this is more.
    With `length`, it has this size, as traced integers need.  Raises AxisError for integers out of range, in a compiled
    function when it runs.

    >>> nc.bincount([0, 2, 2])
    Tensor([1, 0, 2], i64[3])
    """
    held = as_tensor(x)
    if len(held.type.shape) != 1:
        raise ShapeError(f"bincount: x must be a vector; got {held.type}; flatten it")
    if not held.type.dtype.is_integer and held.type.size != 0:
        raise DTypeError(f"bincount: x must have an integer dtype; got {held.type}; use astype")
    least = whole_number(minlength, "bincount", "minlength")
    if least < 0:
        raise ArgumentError(f"bincount: minlength must be at least 0; got {minlength}")
    if length is None:
        known = least_size("bincount", held)
        size: Size = least if least > known else known
    else:
        size = whole_number(length, "bincount", "length")
    places = from_zero("bincount", as_tensor(held, int64) if held.type.size == 0 else held, size, "")
    given = filled(places, 1) if weights is None else _weights("bincount", weights, held.type.shape)
    return picking.take_add(spread(constant(0, given.type.dtype), (size,)), places, given, 0)


def _weights(operation: str, weights: TensorLike, shape: Any) -> Any:
    given = as_tensor(weights)
    require(operation, given.type.dtype, NUMERIC)
    if given.type.shape != shape:
        raise ShapeError(f"{operation}: the weights must have the shape of x, {shape}; got {given.type.shape}")
    return given


def digitize(x: TensorLike, bins: TensorLike, /, *, right: bool = False) -> Tensor:
    """The number (int64) of the bin of each element: k where bins[k − 1] ≤ x < bins[k], in the shape of x.

    The bins are a vector, whose elements ascend or descend.  With `right`, the right edge belongs to a bin:
    bins[k − 1] < x ≤ bins[k].  NaN is behind all bins.

    >>> nc.digitize([0.2, 6.4, 3.0, 1.6], [0.0, 1.0, 2.5, 4.0, 10.0])
    Tensor([1, 4, 3, 2], i64[4])
    """
    (edges, wanted), dtype = meet("digitize", (bins, x))
    require("digitize", dtype, ORDERED)
    if len(edges.type.shape) != 1:
        raise ShapeError(f"digitize: bins must be a vector; got {edges.type}")
    count: Size = edges.type.shape[0]
    found = search.search(edges, wanted, right=not right)
    if count == 0 or count == 1:
        return found
    backwards = search.search(view.flip(edges, (0,)), wanted, right=not right)
    descending = pointwise.sub(spread(extent(count), found.type.shape), backwards)
    first, last = (view.reshape(cut(edges, 0, *ends), ()) for ends in ((0, 1), (count - 1, count)))
    ascends = pointwise.le(first, last)
    before, behind = cut(edges, 0, 0, count - 1), cut(edges, 0, 1, count)
    in_order = pointwise.select(
        spread(ascends, before.type.shape), pointwise.le(before, behind), pointwise.ge(before, behind)
    )
    require_all(in_order, "digitize: bins must ascend or descend; element {got} is out of this order")
    return pointwise.select(spread(ascends, found.type.shape), found, descending)


def bucketize(x: TensorLike, boundaries: TensorLike, /, *, right: bool = False) -> Tensor:
    """The number (int64) of boundaries below each element, in the shape of x; with `right`, those equal to it count.

    The boundaries are a vector that ascends: this is `searchsorted(boundaries, x)`.

    >>> nc.bucketize([3, 6, 9], [1, 3, 5, 7, 9])
    Tensor([1, 3, 4], i64[3])
    """
    return searchsorted(boundaries, x, side="right" if right else "left")


# ---- histograms


def histogram_bin_edges(x: TensorLike, /, bins: Bins = 10, range: Range = None) -> Tensor:
    """The edges of `histogram`.

    >>> nc.histogram_bin_edges([1.0, 2.0, 5.0], 4)
    Tensor([1., 2., 3., 4., 5.], f32[5])
    """
    held = _sample("histogram_bin_edges", x)
    return _edges("histogram_bin_edges", flatten(held), bins, range)


def histogram(
    x: TensorLike,
    /,
    bins: Bins = 10,
    range: Range = None,
    *,
    weights: TensorLike | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """The numbers of elements in bins (int64, or sums of the weights), and the edges of the bins.

    `bins` is a number of bins of one width, over `range` or all elements, or a vector of edges that ascend.  A bin
    contains its left edge, and the last one its right edge, too.  Elements outside all bins do not count.  With
    `density`, the counts are divided by their sum and the widths.  The edges have the dtype of x, or float64 for
    integers.  Raises ArgumentError for edges that are not finite or do not ascend.

    >>> nc.histogram([1.0, 2.0, 1.0], [0.0, 1.0, 2.0, 3.0])
    (Tensor([0, 2, 1], i64[3]), Tensor([0., 1., 2., 3.], f32[4]))
    """
    held = _sample("histogram", x)
    flat: Any = flatten(held)
    edges = _edges("histogram", flat, bins, range)
    given = None if weights is None else flatten(_weights("histogram", weights, held.type.shape))
    found = _counted([flat], [edges], given)
    return (_density(found, [edges]) if density else found), edges


def histogram2d(
    x: TensorLike,
    y: TensorLike,
    /,
    bins: Any = 10,
    range: Any = None,
    *,
    weights: TensorLike | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The numbers of points (x, y) in bins of a grid, and the edges along both axes.

    `bins` is one value for both axes, or a pair of these; `range` is a pair of ranges.  The rest is as in `histogram`.

    >>> nc.histogram2d([0.0, 1.0, 1.0], [0.0, 1.0, 1.0], 2)[0]
    Tensor([[1, 0],
            [0, 2]], i64[2, 2])
    """
    (a, b), dtype = meet("histogram2d", (x, y))
    require("histogram2d", dtype, ORDERED)
    if len(a.type.shape) != 1 or a.type.shape != b.type.shape:
        raise ShapeError(f"histogram2d: x and y must be vectors of one size; got {a.type} and {b.type}")
    found, (first, second) = _of_points("histogram2d", [a, b], bins, range, weights, density)
    return found, first, second


def histogramdd(
    sample: TensorLike,
    /,
    bins: Any = 10,
    range: Any = None,
    *,
    weights: TensorLike | None = None,
    density: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The numbers of points in bins of a grid, and the edges along each axis; a row of the sample is a point.

    `bins` is one value for all axes, or a list with one for each; `range` is a list of ranges.  The rest is as in
    `histogram`.

    >>> nc.histogramdd([[0.0, 0.0], [1.0, 1.0]], 2)[0]
    Tensor([[1, 0],
            [0, 1]], i64[2, 2])
    """
    held = _sample("histogramdd", sample)
    if len(held.type.shape) != 2:
        raise ShapeError(f"histogramdd: the sample must be a matrix with a point in each row; got {held.type}")
    found, edges = _of_points("histogramdd", _columns(held), bins, range, weights, density)
    return found, tuple(edges)


def _columns(x: Any) -> list[Any]:
    rows, number = x.type.shape
    return [view.reshape(cut(x, 1, k, k + 1), (rows,)) for k in range(int(number))]


def histc(x: TensorLike, /, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """The numbers of elements in bins of one width from min to max, in the dtype of x.

    Where both are equal, the bins are those of all elements.  The rest is as in `histogram`.

    >>> nc.histc([1.0, 2.0, 1.0], 4, 0, 3)
    Tensor([0., 2., 1., 0.], f32[4])
    """
    held = _sample("histc", x)
    require("histc", held.type.dtype, FLOATING)
    wide = as_tensor(held, held.type.dtype.arithmetic)
    counts, _ = histogram(wide, whole_number(bins, "histc", "bins"), None if min == max else (min, max))
    return as_tensor(counts, held.type.dtype)


def _sample(operation: str, x: TensorLike) -> Any:
    held = as_tensor(x)
    require(operation, held.type.dtype, ORDERED)
    return held


def _edges(operation: str, x: Any, bins: Any, range: Any) -> Any:
    """The edges of bins: those given, or of bins of one width."""
    if isinstance(bins, str):
        raise KindError(
            f"{operation}: bins must be a number or edges; got {shown(bins)}; write "
            f"numpy.histogram_bin_edges(x.numpy(), {bins!r})"
        )
    dtype: DType = x.type.dtype if x.type.dtype.is_float else float64
    if not is_whole(bins) and not (isinstance(bins, Tensor) and not bins.type.shape):
        weak = is_plain(bins)
        edges = as_tensor(bins, dtype) if weak else as_tensor(bins)
        require(operation, edges.type.dtype, ORDERED)
        if len(edges.type.shape) != 1 or edges.type.shape[0] < 2:
            raise ShapeError(f"{operation}: edges must be a vector of at least two numbers; got {edges.type}")
        (edges, _), _ = meet(operation, (edges, as_tensor(x, dtype) if edges.type.dtype.is_float else x))
        size = edges.type.shape[0]
        ascends = pointwise.le(cut(edges, 0, 0, size - 1), cut(edges, 0, 1, size))
        require_all(ascends, f"{operation}: edges must ascend; got a smaller one behind edge {{got}}; sort them")
        return edges
    count = whole_number(bins, operation, "bins")
    if count < 1:
        raise ArgumentError(f"{operation}: there must be at least 1 bin; got {count}")
    low, high = _ends(operation, as_tensor(x, dtype.arithmetic), range)
    step = pointwise.div(pointwise.sub(high, low), filled(low, count))
    places = pointwise.cast(pointwise.iota((count,), 0, int64), dtype.arithmetic)
    inner = pointwise.add(pointwise.mul(places, spread(step, (count,))), spread(low, (count,)))
    return as_tensor(view.concatenate([inner, view.reshape(high, (1,))], 0), dtype)


def _ends(operation: str, x: Any, range: Any) -> list[Any]:
    """The first and the last edge of bins of one width, which differ."""
    dtype = x.type.dtype
    if range is not None:
        low, high = (as_tensor(end, dtype) for end in range)
    elif x.type.size == 0:
        low, high = constant(0, dtype), constant(1, dtype)
    else:
        low, high = min(x), max(x)
    good = pointwise.and_(pointwise.and_(pointwise.isfinite(low), pointwise.isfinite(high)), pointwise.le(low, high))
    text = (
        f"{operation}: the range must have finite ends that ascend; got {{got}} that does not; pass range=(low, high)"
    )
    require_all(good, text)
    same = pointwise.eq(low, high)
    half = filled(low, 0.5)
    return [
        pointwise.select(same, pointwise.sub(low, half), low),
        pointwise.select(same, pointwise.add(high, half), high),
    ]


def _listed(bins: object) -> list[Any]:
    """The entries of a list of bins; none of other bins."""
    return list(cast("Sequence[Any]", bins)) if isinstance(bins, list | tuple) else []


def _of_points(
    operation: str, columns: list[Any], bins: Any, range: Any, weights: TensorLike | None, density: bool
) -> tuple[Any, list[Any]]:
    dims = len(columns)
    listed = _listed(bins)
    several = len(listed) == dims
    if not several and not is_whole(bins) and dims != 1 and not hasattr(bins, "dtype"):
        raise ShapeError(
            f"{operation}: bins must be one number, or one entry for each of {dims} axes; got {shown(bins)}"
        )
    each: list[Any] = listed if several else [bins] * dims
    ranges = [None] * dims if range is None else list(range)
    if len(ranges) != dims:
        raise ShapeError(f"{operation}: range must have one entry for each of {dims} axes; got {len(ranges)}")
    edges = [_edges(operation, x, b, r) for x, b, r in zip(columns, each, ranges, strict=True)]
    given = None if weights is None else _weights(operation, weights, columns[0].type.shape)
    found = _counted(columns, edges, given)
    return (_density(found, edges) if density else found), edges


def _counted(columns: list[Any], edges: list[Any], weights: Any) -> Any:
    """The numbers of points, or the sums of their weights, in the bins of a grid."""
    sizes = [e.type.shape[0] - 1 for e in edges]
    flat: Any = None
    inside: Any = None
    for x, ends, size in zip(columns, edges, sizes, strict=True):
        place = _bin(x, ends, size)
        there = are_inside(place, size)
        if flat is None:
            flat, inside = place, there
        else:
            flat = pointwise.add(pointwise.mul(flat, spread(extent(size), place.type.shape)), place)
            inside = pointwise.and_(inside, there)
    given = filled(flat, 1) if weights is None else weights
    count = product(sizes)
    places = pointwise.select(inside, flat, spread(extent(count), flat.type.shape))
    start = spread(constant(0, given.type.dtype), (count + 1,))
    return view.reshape(cut(picking.take_add(start, places, given, 0), 0, 0, count), tuple(sizes))


def _bin(x: Any, edges: Any, size: Size) -> Any:
    """The bin of each element; outside of all bins a number below 0 or not below their number."""
    (ends, wanted), _ = meet("histogram", (edges, as_tensor(x, edges.type.dtype)))
    behind = search.search(ends, wanted, right=True)
    place = pointwise.sub(behind, filled(behind, 1))
    last = spread(view.reshape(cut(ends, 0, size, size + 1), ()), wanted.type.shape)
    lowest = spread(extent(size - 1), place.type.shape)
    return pointwise.select(pointwise.eq(wanted, last), lowest, place)


def _density(counts: Any, edges: list[Any]) -> Any:
    """The counts divided by their sum and by the widths of the bins."""
    final = edges[0].type.dtype if edges[0].type.dtype.is_float else float64
    dtype = final.arithmetic
    found = as_tensor(counts, dtype)
    total = sum(found)
    for k, ends in enumerate(edges):
        size = ends.type.shape[0]
        wide = as_tensor(ends, dtype)
        widths = pointwise.sub(cut(wide, 0, 1, size), cut(wide, 0, 0, size - 1))
        found = pointwise.div(found, view.broadcast(widths, found.type.shape, (k,)))
    return as_tensor(pointwise.div(found, spread(total, found.type.shape)), final)
