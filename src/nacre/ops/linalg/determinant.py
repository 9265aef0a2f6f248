"""`lu_det` and `lu_cofactors`: determinants and their gradients, computed from LU factors that are constants.

Both copy their value.  The operand a has the derivative, which needs no inverse at first order, so it exists for
singular matrices too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.base.dtypes import int64
from nacre.base.types import TensorType
from nacre.ir.primitive import Element, Jvp, Primitive, primitive_named
from nacre.kernel.ast import Expr
from nacre.ops.linalg.lu import LU, lower_factor
from nacre.ops.linalg.matrices import (
    diagonal,
    identity,
    matmul,
    matrix_transpose,
    require_square,
    triangle,
)
from nacre.ops.linalg.rows import permute_rows
from nacre.ops.linalg.solve import solve_factored
from nacre.ops.linalg.triangular import triangular_solve
from nacre.ops.pointwise import add, and_, cast, fill, full_like, gt, iota, mul, select, sub
from nacre.ops.reduce import cumprod, prod
from nacre.ops.rules import require_dtype, require_shape
from nacre.ops.shape import all_to_front, broadcast, sum_
from nacre.ops.view import concatenate, flip, slice_axis
from nacre.trace.bind import bind
from nacre.trace.value import Value


def lu_det(a: Value, found: LU) -> Value:
    """The determinants [...] of [..., n, n], given their factors."""
    product = prod(diagonal(found.factors), (a.type.rank - 2,))
    return bind(lu_det_p, mul(product, parity(found.exchanges, product)), a, *found)


def parity(exchanges: Value, like: Value) -> Value:
    """1 for an even number of exchanges, -1 for an odd one."""
    odd = and_(exchanges, full_like(exchanges, 1))
    return cast(sub(full_like(exchanges, 1), add(odd, odd)), like.type.dtype)


def _require_factors(name: str, a: TensorType, factors: TensorType, order: TensorType, exchanges: TensorType) -> None:
    require_square(name, a)
    require_dtype(name, "the factors", factors, a.dtype)
    require_shape(name, "the factors", factors.shape, a.shape)
    for what, each, axes in (("the order", order, -1), ("the exchanges", exchanges, -2)):
        require_dtype(name, what, each, int64)
        require_shape(name, what, each.shape, a.shape[:axes])


def _det_type(value: TensorType, a: TensorType, *found: TensorType) -> TensorType:
    _require_factors("lu_det", a, *found)
    require_dtype("lu_det", "the value", value, a.dtype)
    require_shape("lu_det", "the value", value.shape, a.shape[:-2])
    return value


def _cofactors_type(value: TensorType, a: TensorType, *found: TensorType) -> TensorType:
    _require_factors("lu_cofactors", a, *found)
    require_dtype("lu_cofactors", "the value", value, a.dtype)
    require_shape("lu_cofactors", "the value", value.shape, a.shape)
    return value


# ---- cofactors


def lu_cofactors(a: Value, found: LU) -> Value:
    """The matrices of cofactors.

    With p @ a = l @ u, they are ± pᵀ @ l⁻ᵀ @ adj(u)ᵀ.  The adjugate of a triangle u has a form without division:
    before · (1 + c)⁻¹ · behind.  Here c[i, j] is u[i, j] times the diagonal elements between i and j; `before` and
    `behind` are the products of those above i and below j.
    """
    n, rank, factors = int(a.type.shape[-1]), a.type.rank, found.factors
    if n:
        main, one = diagonal(factors), identity(a.type)
        before = _along(_products_before(main), a.type, rank - 2)
        behind = _along(flip(_products_before(flip(main, (rank - 2,))), (rank - 2,)), a.type, rank - 1)
        later = triangle(_along(main, a.type, rank - 1), False, strict=True)
        between = _products_before(select(_is_later(a.type), later, full_like(later, 1)))
        near = add(triangle(mul(factors, between), False, strict=True), one)
        # the transpose of the adjugate of u, then that of l
        half = mul(triangular_solve(matrix_transpose(near), mul(one, before), True, True), matrix_transpose(behind))
        whole = triangular_solve(matrix_transpose(lower_factor(factors)), half, False, True)
        signs = broadcast(parity(found.exchanges, factors), a.type.shape, range(rank - 2))
        factors = permute_rows(mul(whole, signs), found.order, True)
    return bind(lu_cofactors_p, factors, a, *found)


def _along(x: Value, whole: TensorType, axis: int) -> Value:
    """Vectors [..., n] along one axis of matrices, the same at each place of the other one."""
    return broadcast(x, whole.shape, (*range(whole.rank - 2), axis))


def _is_later(x: TensorType) -> Value:
    """Whether the column is greater than the row."""
    return gt(iota(x.shape, x.rank - 1, int64), iota(x.shape, x.rank - 2, int64))


def _products_before(x: Value) -> Value:
    """The products of the elements before each one, along the last axis."""
    axis = x.type.rank - 1
    first = fill(1, (*x.type.shape[:-1], 1), x.type.dtype)
    return concatenate((first, cumprod(slice_axis(x, axis, 0, int(x.type.shape[-1]) - 1), axis)), axis)


# ---- derivatives and batches


def _det_tangent(y: Value, xs: Sequence[Value], ts: Sequence[Value | None]) -> Value:
    """The sum of the cofactors times the tangents of the elements."""
    _, a, *found = xs
    assert ts[1] is not None
    return _inner(lu_cofactors(a, LU(*found)), ts[1])


def _cofactors_tangent(y: Value, xs: Sequence[Value], ts: Sequence[Value | None]) -> Value:
    """a⁻ᵀ (⟨y, da⟩ - daᵀ y), for a that is not singular."""
    _, a, factors, order, _ = xs
    change = ts[1]
    assert change is not None
    whole = broadcast(_inner(y, change), y.type.shape, range(y.type.rank - 2))
    right = sub(mul(whole, identity(y.type)), matmul(matrix_transpose(change), y))
    return solve_factored(a, factors, order, right, True)


def _inner(x: Value, y: Value) -> Value:
    """The sums over both axes of matrices of the products of elements."""
    rank = x.type.rank
    return sum_(mul(x, y), (rank - 2, rank - 1))


def _batched(name: str) -> Any:
    """The batch rule of a primitive whose operands all have the batch axes."""

    def batch(inputs: Sequence[Value], axes: Sequence[int | None]) -> tuple[Value, int]:
        return bind(primitive_named(name), *all_to_front(inputs, axes)), 0

    return batch


def _value(index: tuple[Expr, ...], operands: Any, types: Any, result: Any) -> Expr:
    return operands[0](index)


lu_det_p = Primitive("lu_det", _det_type, Element(_value), Jvp(_det_tangent), _batched("lu_det"))
lu_cofactors_p = Primitive(
    "lu_cofactors",
    _cofactors_type,
    Element(_value),
    Jvp(_cofactors_tangent),
    _batched("lu_cofactors"),
)
