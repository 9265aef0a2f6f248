"""Functions over the rows of trees: `map`, one row or a batch of rows at a time, and `associative_scan`."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from nacre.base import tree
from nacre.base.arguments import whole_number
from nacre.base.dims import Size
from nacre.base.errors import ArgumentError, ShapeError
from nacre.base.types import normal_axis
from nacre.ops.shape import reshape
from nacre.ops.view import concatenate, flip, slice_axis
from nacre.trace.value import Value
from nacre.transform.arguments import as_value, name_of, unaliased
from nacre.transform.closure_conversion import Function, Operands
from nacre.transform.control import fold, leading_size, require_equal
from nacre.transform.vmap import vmap

__all__ = ["associative_scan", "map"]


def map(f: Function, xs: Any, batch_size: int | None = None) -> Any:
    """f of each row of xs, one row after the other, stacked: `nc.stack([f(x) for x in xs])` of trees.

    `xs` is a tree of tensors with equal leading sizes.  f gets the tree of their rows, and its results get a leading
    axis of this size.  `map` is a `scan` without a carry: the values of one row are in memory at a time.

    With `batch_size`, f runs by `vmap` on that number of rows at a time, and on the rest.  This is faster, needs more
    memory, and has the same bits.  f may then not assign variables, nor draw random numbers without a key.
    Differentiable in both modes.

    Raises ArgumentError if xs has no tensor, KindError if it has a variable, and ShapeError if leading sizes differ.

    >>> import nacre as nc
    >>> nc.map(lambda x: (x * x).sum(), nc.tensor([[1.0, 2.0], [3.0, 4.0]]))
    Tensor([ 5., 25.], f32[2])
    """
    rows = Operands("map", xs, rows=True)
    if not rows.values:
        raise ArgumentError("map: xs must have at least one tensor; got none; for a number of calls, write scan")
    size = leading_size("map", rows.values)
    if batch_size is None:
        return _each(f, xs)
    if whole_number(batch_size, "map", "batch_size") < 1:
        raise ArgumentError(f"map: batch_size must be at least 1; got {batch_size}")
    count = size // batch_size
    whole = count * batch_size
    batched = vmap(f)
    if whole == 0 and size != 0:
        return batched(xs)
    chunks = rows.filled([reshape(_part(x, 0, whole), (count, batch_size, *x.type.shape[1:])) for x in rows.values])
    found, structure = tree.flatten(_each(batched, chunks))
    results = [reshape(y, (whole, *y.type.shape[2:])) for y in found]
    if size != whole:
        rest = tree.flatten(batched(rows.filled([_part(x, whole, size) for x in rows.values])))[0]
        results = [concatenate(pair, 0) for pair in zip(results, rest, strict=True)]
    return tree.unflatten(structure, results)


def _each(f: Function, xs: Any) -> Any:
    def row(_: None, x: Any) -> Any:
        """The result for one row, beside an empty carry."""
        return None, f(x)

    row.__name__ = name_of(f, "map")
    return fold("map", row, None, xs)[1]


def _part(x: Value, start: Size, stop: Size) -> Value:
    return slice_axis(x, 0, start, stop)


def associative_scan(f: Function, xs: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All partial results x₀, f(x₀, x₁), f(f(x₀, x₁), x₂) … of an associative f along an axis, in logarithmic depth.

    `xs` is a tree of tensors with equal sizes along `axis`, and the result is a tree of the same types.  f takes two
    such trees, of any one size along the axis.  It combines them position by position, as `nc.add` and batched products
    do.  `reverse` starts at the last position.

    f is called about 2·log₂(n) times.  The order of operations is fixed, so rounding is the same in every mode.  First
    the neighbours x₂ᵢ and x₂ᵢ₊₁ are combined.  The partial results of these pairs, found in the same way, are those at
    the odd positions.  The result at an even position k > 0 is f(result at k − 1, xₖ).

    Raises ArgumentError, ShapeError or DTypeError if sizes differ, or if f changes the structure or types.  The size
    must be a number.

    >>> import nacre as nc
    >>> nc.associative_scan(nc.maximum, nc.tensor([1.0, 3.0, 2.0, 5.0]))
    Tensor([1., 3., 3., 5.], f32[4])
    """
    given = Operands("associative_scan", xs, numbers=True)
    if not given.values:
        raise ArgumentError("associative_scan: xs must have at least one tensor; got none")
    for x in given.values:
        if not x.type.shape:
            raise ShapeError(f"associative_scan: xs must have at least one axis; got type {x.type}")
    axes = [normal_axis(axis, x.type.rank, "associative_scan") for x in given.values]
    size = _size(given.values, axes)
    values = [flip(x, (a,)) if reverse else x for x, a in zip(given.values, axes, strict=True)]
    found = _Rounds(f, given, axes).partial(values, size)
    results = [flip(y, (a,)) if reverse else y for y, a in zip(found, axes, strict=True)]
    return given.filled(unaliased(results, given.values))


def _size(values: Sequence[Value], axes: Sequence[int]) -> int:
    sizes = [x.type.shape[a] for x, a in zip(values, axes, strict=True)]
    if any(n != sizes[0] for n in sizes):
        shown = ", ".join(str(n) for n in sizes)
        raise ShapeError(f"associative_scan: xs must have one size along the axis; got {shown}")
    try:
        return index(sizes[0])
    except ShapeError:
        raise ShapeError(
            f"associative_scan: the size along the axis must be a number, because it decides the number of rounds; "
            f"got {sizes[0]}; compile without dynamic_shapes for this axis, or write scan"
        ) from None


class _Rounds:
    """The rounds of an associative scan: f on all pairs of neighbours, then on every second partial result."""

    def __init__(self, f: Function, given: Operands, axes: Sequence[int]) -> None:
        self.f, self.given, self.axes = f, given, axes

    def partial(self, xs: list[Value], size: int) -> list[Value]:
        """The partial results at all positions."""
        if size < 2:
            return xs
        half = size // 2
        pairs = self.combined(self.every(xs, 0, size - 1), self.every(xs, 1, size))
        odd = self.partial(pairs, half)
        even = self.every(xs, 0, 1)
        if size > 2:
            before = odd if size % 2 else self.span(odd, 0, half - 1)
            later = self.combined(before, self.every(xs, 2, size))
            even = [concatenate(pair, a) for *pair, a in zip(even, later, self.axes, strict=True)]
        if size % 2 == 0:
            return self.mixed(even, odd)
        mixed, last = self.mixed(self.span(even, 0, half), odd), self.span(even, half, half + 1)
        return [concatenate(pair, a) for *pair, a in zip(mixed, last, self.axes, strict=True)]

    def mixed(self, even: Sequence[Value], odd: Sequence[Value]) -> list[Value]:
        """Positions of two lists of leaves in turn."""
        return [_interleaved(*pair) for pair in zip(even, odd, self.axes, strict=True)]

    def every(self, xs: Sequence[Value], start: int, stop: int) -> list[Value]:
        """Every second position of a span."""
        return [slice_axis(x, a, start, stop, 2) for x, a in zip(xs, self.axes, strict=True)]

    def span(self, xs: Sequence[Value], start: int, stop: int) -> list[Value]:
        """The positions of a span."""
        return [slice_axis(x, a, start, stop) for x, a in zip(xs, self.axes, strict=True)]

    def combined(self, xs: Sequence[Value], ys: Sequence[Value]) -> list[Value]:
        """f on two lists of leaves, whose types its results must have."""
        leaves, structure = tree.flatten(self.f(self.given.filled(xs), self.given.filled(ys)))
        found = [as_value(leaf, "associative_scan") for leaf in leaves]
        wanted = [x.type for x in xs]
        structures = structure, self.given.structure
        require_equal("associative_scan", "the result of f", [y.type for y in found], wanted, structures)
        return found


def _interleaved(even: Value, odd: Value, axis: int) -> Value:
    """The positions of two tensors in turn along an axis."""
    shape = even.type.shape
    before, (size, *rest) = shape[:axis], shape[axis:]
    columns = [reshape(x, (*before, size, 1, *rest)) for x in (even, odd)]
    return reshape(concatenate(columns, axis + 1), (*before, 2 * size, *rest))
