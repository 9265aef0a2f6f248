"""`dot`: the product of two tensors summed over pairs of contracted axes, for each batch index.

`widened_dot` is `dot` of operands converted to a wider dtype that represents their numbers exactly.  It reads narrow
operands directly: two of one narrow dtype, or a row and narrow weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.base.dtypes import NUMERIC, PROMOTION, REAL, DType, float32
from nacre.base.errors import DTypeError, ShapeError
from nacre.base.state import without_autocast
from nacre.base.types import TensorType
from nacre.ir.axes import AxisRule, Needs, Run, moved, neighbours, trimmed
from nacre.ir.graph import Equation
from nacre.ir.primitive import LOW, Multilinear, Primitive, Template
from nacre.ops.parts import as_complex, as_real, complex_, imag, real
from nacre.ops.pointwise import cast, mul, neg
from nacre.ops.rules import require_axis, require_dtype, require_kind
from nacre.ops.shape import Source, broadcast, front, inverse, permute, reshape, sum_
from nacre.ops.view import concatenate
from nacre.trace.bind import bind
from nacre.trace.value import Value

Axes = tuple[int, ...]
Pairs = tuple[Axes, Axes]  # axes of the first operand, and the corresponding axes of the second


def dot(a: Value, b: Value, contract: Pairs, batch: Pairs = ((), ()), dtype: DType | None = None) -> Value:
    """Sum a·b over the contracted pairs of axes.  The result's axes are batch, a's free axes, b's free axes.

    Each element is a chain of fused multiply-adds in the canonical order.  Without contracted axes, a plain product is
    computed; without free axes on both sides, a sum of products.  A product of complex numbers is one of real numbers
    with twice as many terms.  With a dtype, operands are converted to it first,
    unless `widened_dot` reads them directly.
    """
    contract = tuple(contract[0]), tuple(contract[1])
    batch = tuple(batch[0]), tuple(batch[1])
    left, right = _free(a.type, contract[0], batch[0]), _free(b.type, contract[1], batch[1])
    plain = not contract[0] or not (left or right)
    if dtype is not None and not a.type.dtype is b.type.dtype is dtype:
        met = PROMOTION.get((a.type.dtype, b.type.dtype), dtype)
        met = met if sums(met, met, dtype) and not plain else dtype
        a, b = cast(a, met), cast(b, met)
    if plain:
        _check(a.type, b.type, contract, batch)
        return _products(a, b, contract, batch, left, right)
    if a.type.dtype.is_complex:
        _check(a.type, b.type, contract, batch)
        return _complex_dot(
            permute(a, (*batch[0], *left, *contract[0])),
            permute(b, (*batch[1], *contract[1], *right)),
            len(contract[0]),
            len(batch[0]),
        )
    if _is_scattered(batch[0], left, contract[0]) or _is_scattered(batch[1], right, contract[1]):
        _check(a.type, b.type, contract, batch)
        a = permute(a, (*batch[0], *left, *contract[0]))
        b = permute(b, (*batch[1], *right, *contract[1]))
        batch = tuple(range(len(batch[0]))), tuple(range(len(batch[1])))
        contract = _ending(a.type.rank, contract[0]), _ending(b.type.rank, contract[1])
    if dtype is not None and a.type.dtype is not dtype:
        return widened_dot(a, b, contract, batch, dtype)
    return bind(dot_p, a, b, contract=contract, batch=batch)


def _is_scattered(*groups: Axes) -> bool:
    """Whether the axes of any group are not adjacent and ascending, as products read them."""
    return any(g != tuple(range(g[0], g[0] + len(g))) for g in groups if g)


def _ending(rank: int, axes: Axes) -> Axes:
    """The last axes, as many as given."""
    return tuple(range(rank - len(axes), rank))


def _products(a: Value, b: Value, contract: Pairs, batch: Pairs, left: Axes, right: Axes) -> Value:
    a = permute(a, (*batch[0], *left, *contract[0]))
    b = permute(b, (*batch[1], *right, *contract[1]))
    shared, m, n = len(batch[0]), len(left), len(right)
    shape = (*a.type.shape[: shared + m], *b.type.shape[shared:])
    first = [*range(shared + m), *range(shared + m + n, len(shape))]
    second = [*range(shared), *range(shared + m, len(shape))]
    product = mul(broadcast(a, shape, first), broadcast(b, shape, second))
    return sum_(product, range(shared + m + n, len(shape)))


def _complex_dot(a: Value, b: Value, summed: int, shared: int) -> Value:
    """A product of complex numbers as one of real numbers, with twice as many terms.

    The axes of a are batch, free, contracted, those of b are batch, contracted, free.  Each number of a is the row
    (re, im), each of b the matrix ((re, im), (−im, re)).  So a term adds re·re and −im·im to the real part, re·im and
    im·re to the imaginary part, in this order.
    """
    turned = complex_(neg(imag(b)), real(b))  # i·b
    middle = shared + summed
    rows = [reshape(v, (*v.type.shape[:middle], 1, *v.type.shape[middle:])) for v in map(as_real, (b, turned))]
    matrix, terms = concatenate(rows, middle), as_real(a)
    contract = _ending(terms.type.rank, (0,) * (summed + 1)), tuple(range(shared, middle + 1))
    batch = tuple(range(shared))
    return as_complex(without_autocast(lambda: dot(terms, matrix, contract, (batch, batch))))


def _free(x: TensorType, contracted: Axes, batched: Axes) -> Axes:
    return tuple(k for k in range(x.rank) if k not in contracted and k not in batched)


def _check(a: TensorType, b: TensorType, contract: Pairs, batch: Pairs) -> None:
    require_kind("dot", a, NUMERIC)
    require_dtype("dot", "the second operand", b, a.dtype)
    for what, (ours, theirs) in (("contracted", contract), ("batch", batch)):
        if len(ours) != len(theirs):
            raise ShapeError(f"dot: {what} axes must come in pairs; got {ours} and {theirs}")
        for i, j in zip(ours, theirs, strict=True):
            require_axis("dot", i, a)
            require_axis("dot", j, b)
            if a.shape[i] != b.shape[j]:
                raise ShapeError(f"dot: {what} axes {i} and {j} must have equal sizes; got {a} and {b}")
    for x, used in ((a, (*contract[0], *batch[0])), (b, (*contract[1], *batch[1]))):
        if len(set(used)) != len(used):
            raise ShapeError(f"dot: each axis of {x} may be used once; got {used}")


def _dot_type(a: TensorType, b: TensorType, contract: Pairs, batch: Pairs) -> TensorType:
    _check(a, b, contract, batch)
    left, right = _free(a, contract[0], batch[0]), _free(b, contract[1], batch[1])
    if not contract[0] or not (left or right):
        raise ShapeError(
            "dot: there must be a contracted axis, and a free axis on one side; "
            f"got {a} and {b} with contract={contract}, batch={batch}; use multiply and sum"
        )
    shared = [a.shape[k] for k in batch[0]]
    return a.with_shape([*shared, *(a.shape[k] for k in left), *(b.shape[k] for k in right)])


def _transpose(g: Value, x: TensorType, other: Value, mine: Axes, theirs: Axes, batch: Pairs, first: bool) -> Value:
    """The cotangent of the operand of type x, given the other one.

    `mine` and `theirs` are the contracted axes, `batch` the batch axes, of x and of the other operand; `first` says
    whether x is the left one.
    """
    free = _free(x, mine, batch[0])
    others = _free(other.type, theirs, batch[1])
    shared = len(batch[0])
    start = shared + (len(free) if first else 0)
    summed = tuple(range(start, start + len(others)))
    found = dot(g, other, (summed, others), (tuple(range(shared)), batch[1]))
    # its axes: batch, x's free ones, and x's contracted ones in the order of the other's axes
    partners = [mine[k] for k in inverse(theirs)]
    return permute(found, inverse((*batch[0], *free, *partners)))


def _left(g: Value, a: Source, b: Value, contract: Pairs, batch: Pairs) -> Value:
    return _transpose(g, a.type, b, contract[0], contract[1], batch, True)


def _right(g: Value, a: Value, b: Source, contract: Pairs, batch: Pairs) -> Value:
    return _transpose(g, b.type, a, contract[1], contract[0], (batch[1], batch[0]), False)


def _shift(axes: Axes, by: int) -> Axes:
    return tuple(k + by for k in axes)


def _dot_batch(
    inputs: Sequence[Value], axes: Sequence[int | None], contract: Pairs, batch: Pairs, dtype: DType | None = None
) -> tuple[Value, int]:
    """Add a batch axis if both operands are batched, otherwise a free axis of the one that is."""
    moves = [int(axis is not None) for axis in axes]
    a, b = (x if axis is None else front(x, axis) for x, axis in zip(inputs, axes, strict=True))
    summed = _shift(contract[0], moves[0]), _shift(contract[1], moves[1])
    side = _shift(batch[0], moves[0]), _shift(batch[1], moves[1])
    if all(moves):
        return dot(a, b, summed, ((0, *side[0]), (0, *side[1])), dtype), 0
    place = len(batch[0])
    if moves[1]:
        place += a.type.rank - len(contract[0]) - len(batch[0])
    return dot(a, b, summed, side, dtype), place


def dot_axes(e: Equation) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """For each factor of a product its (batch, free, contracted) axes."""
    (ca, cb), (ba, bb) = e.params["contract"], e.params["batch"]
    a, b = (x.type.rank for x in e.inputs)
    return (ba, _others(a, ba, ca), ca), (bb, _others(b, bb, cb), cb)


def is_plain_product(e: Equation) -> bool:
    """Whether an equation is a product of factors of the result's dtype."""
    return e.primitive.product and all(x.type.dtype is e.outputs[0].type.dtype for x in e.inputs)


def _others(rank: int, *taken: tuple[int, ...]) -> tuple[int, ...]:
    used = {a for axes in taken for a in axes}
    return tuple(k for k in range(rank) if k not in used)


def _needs(e: Equation, run: Run) -> Needs | None:
    """The operands' runs for free axes of one factor; None with batch axes, and for free axes of both factors."""
    (batch, left, _), (_, right, _) = dot_axes(e)
    if batch:
        return None
    if run[1] <= len(left):
        held = neighbours(left[slice(*run)])
        return None if held is None else (held, None)
    if run[0] < len(left):
        return None
    held = neighbours(right[run[0] - len(left) : run[1] - len(left)])
    return None if held is None else (None, held)


def _strip(e: Equation, run: Run, wanted: Needs) -> dict[str, Any]:
    pairs = zip(e.params["contract"], wanted, strict=True)
    return {"contract": tuple(tuple(axes if held is None else moved(axes, held)) for axes, held in pairs)}


def _factors(e: Equation) -> list[Run]:
    (batch, left, _), (_, right, _) = dot_axes(e)
    ends = (0, len(left)), (len(left), len(left) + len(right))
    shape = e.outputs[0].type.shape
    return [] if batch else [found for each in ends if (found := trimmed(shape, each)) is not None]


_axes = AxisRule(_needs, strip=_strip, factors=_factors)

dot_p = Primitive(
    "dot",
    _dot_type,
    Template("contract"),
    Multilinear((_left, _right)),
    _dot_batch,
    axes=_axes,
    product=True,
    takes_epilogue=True,
    precision=LOW,
)


# ---- operands of narrower types


def holds(wide: DType, narrow: DType) -> bool:
    """Whether `widened_dot` accepts a narrow matrix for a row of a dtype that represents its numbers exactly."""
    return wide is float32 and narrow.bits <= 16 and narrow in REAL


def sums(a: DType, b: DType, dtype: DType) -> bool:
    """Whether `widened_dot` accepts operands of two dtypes, of any shape, for products and sums in a wider one."""
    if a is not b or a.bits > 16 or dtype.bits != 32:
        return False
    return (a.is_float and dtype.is_float) or (a.is_integer and dtype.is_integer)


def widened_dot(a: Value, b: Value, contract: Pairs, batch: Pairs = ((), ()), dtype: DType | None = None) -> Value:
    """`dot` of operands converted to a dtype that represents their numbers exactly (integers wrap).



    The default dtype is a's.  Either `sums` accepts the three dtypes, or a has the dtype and free axes of size 1, and
    `holds` accepts b's dtype.
    """
    return bind(widened_dot_p, a, b, contract=contract, batch=batch, dtype=a.type.dtype if dtype is None else dtype)


def _widened_type(a: TensorType, b: TensorType, contract: Pairs, batch: Pairs, dtype: DType) -> TensorType:
    row = a.dtype is dtype and holds(dtype, b.dtype)
    if not row and not sums(a.dtype, b.dtype, dtype):
        raise DTypeError(
            "widened_dot: operands must be a float32 row and a matrix of at most 16 bits, or of one such dtype "
            f"for sums of 32 bits; got {a} and {b} for {dtype.name}; convert them with `astype`"
        )
    if row and any(a.shape[k] != 1 for k in _free(a, contract[0], batch[0])):
        raise ShapeError(f"widened_dot: free axes of a row must have size 1; got {a}")
    return _dot_type(a.with_dtype(dtype), b.with_dtype(dtype), contract, batch)


def _widened_left(g: Value, a: Source, b: Value, contract: Pairs, batch: Pairs, dtype: DType) -> Value:
    return cast(_left(g, a, cast(b, dtype), contract, batch), a.type.dtype)


def _widened_right(g: Value, a: Value, b: Source, contract: Pairs, batch: Pairs, dtype: DType) -> Value:
    return cast(_right(g, cast(a, dtype), b, contract, batch), b.type.dtype)


widened_dot_p = Primitive(
    "widened_dot",
    _widened_type,
    Template("contract"),
    Multilinear((_widened_left, _widened_right)),
    _dot_batch,
    axes=_axes,
    product=True,
    takes_epilogue=True,
    precision=LOW,
)
