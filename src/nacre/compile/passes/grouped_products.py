"""Products with matrices that indices select: rows are grouped by matrix, so that no matrix is copied for a row.

`take(w, indices)` copies a matrix for each index, and a product with one row each reads every copy once.  Here the rows
are sorted by index, and each matrix is multiplied with all its rows (see `compile.grouped`).  Each element of the
result is the same chain of products, so bits do not change.  The gradient adds outer products to the matrices
(`take_add`).  It adds them in the same order here, and stores none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Final

from nacre.base.dtypes import DType, float32, float64, int64, uint8, uint16
from nacre.compile.grouped import grouped_dot_p, grouped_outer_p
from nacre.compile.passes.axis_propagation import rule_of
from nacre.compile.passes.intervals import Intervals
from nacre.compile.passes.simplify import simplify
from nacre.interpret.stage import derived
from nacre.ir.axes import axis_map, permutation, spreads
from nacre.ir.graph import Atom, Equation, Graph
from nacre.ir.primitive import RuleKind, operation, register_rule
from nacre.ir.rewrite import Rewriter, inline, rewrite
from nacre.ops.dot import dot_axes, dot_p, is_plain_product
from nacre.ops.gather import take, take_add_p
from nacre.ops.pointwise import and_, cast, fill, ge, iota, lt, maximum, minimum, select, zeros_like
from nacre.ops.scatter import scatter
from nacre.ops.search import search
from nacre.ops.shape import permute, reshape
from nacre.ops.sort import argsort
from nacre.trace.bind import bind
from nacre.trace.value import Value

LARGE = 1 << 20  # bytes of matrices for all rows, from which on rows are grouped
WIDEST = 64  # the least columns of a product, which fill vectors of every width
DTYPES = (float32, float64)


# what computes the result from whether all indices are in range and the inputs, the indices, their range, the inputs
_Found = tuple[Callable[..., Value], Atom, int, list[Atom]]
GROUPED: Final[RuleKind[Callable[[Rewriter, Equation], _Found | None]]] = RuleKind("grouping of rows by index")


def group_products(graph: Graph) -> Graph:
    """The graph in which rows of such products are grouped by matrix."""
    if not any(rule_of(e).is_lookup or GROUPED.of(e.primitive) is _gradient for e in graph.equations):
        return graph
    intervals, changes = Intervals(graph), list[Equation]()

    def rule(rewriter: Rewriter, e: Equation) -> Sequence[Atom] | None:
        """The results of a product or a gradient by groups; None for an equation that stays."""
        of = GROUPED.of(e.primitive)
        found = None if of is None else of(rewriter, e)
        if found is None:
            return None
        changes.append(e)
        function, indices, count, inputs = found
        known = intervals.of(indices)
        safe = known is not None and all(isinstance(n, int) for n in known) and known[0] >= 0 and known[1] < count
        inner = derived(lambda *xs: (function(safe, *xs),), tuple(a.type for a in inputs), e.primitive.name)
        return inline(rewriter.builder, inner, inputs, e.source)

    found = rewrite(graph, rule)
    return simplify(found) if changes else graph


def _fits(matrices: Atom, indices: Atom, result: Atom) -> bool:
    """Whether the operands are of known sizes, and a matrix for each row takes much memory."""
    w, k = matrices.type, indices.type
    return (
        all(x.type.static for x in (matrices, indices, result))
        and w.rank == 3
        and w.dtype in DTYPES
        and k.dtype.is_signed
        and k.rank > 0
        and min(w.shape) > 0
        and prod(map(int, (*k.shape, *w.shape[1:]))) * w.dtype.itemsize >= LARGE
    )


def _product(rewriter: Rewriter, e: Equation) -> _Found | None:
    """A product of rows, and of matrices that are taken for them."""
    if not is_plain_product(e):
        return None
    for side, factor in enumerate(e.inputs):
        taken = rewriter.definition(factor)
        if taken is None or not rule_of(taken).is_lookup or taken.params["axis"] != 0:
            continue
        w, indices = taken.inputs
        rank = indices.type.rank
        (batch, free, summed), (rows, others, terms) = dot_axes(e)[side], dot_axes(e)[1 - side]
        one = batch == tuple(range(rank)) and not others and len(free) == len(summed) == 1
        if not (one and _fits(w, indices, e.outputs[0])) or w.type.shape[free[0] - rank + 1] < WIDEST:
            continue
        axis, order = summed[0] - rank + 1, (*rows, *terms)

        def grouped(
            safe: bool, w: Value, k: Value, x: Value, axis: int = axis, order: tuple[int, ...] = order
        ) -> Value:
            """The product by groups of rows."""
            return _dot(w, k, permute(x, order), axis, safe)

        return grouped, indices, int(w.type.shape[0]), [w, indices, e.inputs[1 - side]]
    return None


def _gradient(rewriter: Rewriter, e: Equation) -> _Found | None:
    """An addition of outer products to matrices."""
    if e.params["axis"] != 0:
        return None
    y, indices, updates = e.inputs
    rank = indices.type.rank
    rows, order = tuple(range(rank)), tuple(range(rank + 2))
    product = rewriter.definition(updates)
    if product is not None and (moved := permutation(product)) is not None:
        product, order = rewriter.definition(product.inputs[0]), moved
    if product is None or operation(product.primitive) != "mul" or not _fits(y, indices, e.outputs[0]):
        return None
    factors: dict[object, Atom] = {}
    for x in product.inputs:
        made = rewriter.definition(x)
        if made is not None and spreads(made):
            factors[axis_map(made)] = made.inputs[0]
    left, right = (factors.get((*rows, axis)) for axis in order[rank:])
    if order[:rank] != rows or left is None or right is None:
        return None

    def grouped(safe: bool, y: Value, k: Value, left: Value, right: Value) -> Value:
        """The sums by groups of rows."""
        return _outer(y, k, left, right, safe)

    return grouped, indices, int(y.type.shape[0]), [y, indices, left, right]


def _flat(x: Value, rank: int) -> Value:
    """x with its first axes merged."""
    shape = x.type.shape
    return reshape(x, (prod(map(int, shape[:rank])), *shape[rank:]))


def _groups(keys: Value, count: int) -> tuple[Value, Value]:
    """The stable order of rows by their keys, and where the rows of each group begin and end."""
    narrow: DType = uint8 if count < 1 << 8 else uint16 if count < 1 << 16 else int64
    order = argsort(cast(keys, narrow), 0)
    return order, search(take(keys, order, 0), iota((count + 1,), 0, int64))


def _dot(w: Value, indices: Value, x: Value, axis: int, safe: bool) -> Value:
    """The product of each row with the matrix of its index; indices out of range are clamped, as by `take`."""
    rank, count = indices.type.rank, int(w.type.shape[0])
    keys = cast(_flat(indices, rank), int64)
    if not safe:
        keys = minimum(maximum(keys, zeros_like(keys)), fill(count - 1, keys.type.shape, int64))
    order, starts = _groups(keys, count)
    found = bind(grouped_dot_p, take(_flat(x, rank), order, 0), w, starts, axis=axis)
    rows = keys.type.shape
    place = scatter(fill(0, rows, int64), iota(rows, 0, int64), (order,), (0,))
    return reshape(take(found, place, 0), (*indices.type.shape, found.type.shape[1]))


def _outer(y: Value, indices: Value, left: Value, right: Value, safe: bool) -> Value:
    """The matrices with the outer products of rows added; indices out of range are ignored, as by `take_add`."""
    rank, count = indices.type.rank, int(y.type.shape[0])
    keys = cast(_flat(indices, rank), int64)
    if not safe:
        end = fill(count, keys.type.shape, int64)
        keys = select(and_(ge(keys, zeros_like(keys)), lt(keys, end)), keys, end)
    order, starts = _groups(keys, count)
    left, right = (take(_flat(v, rank), order, 0) for v in (left, right))
    return bind(grouped_outer_p, y, starts, left, right)


register_rule(dot_p, GROUPED, _product)
register_rule(take_add_p, GROUPED, _gradient)
