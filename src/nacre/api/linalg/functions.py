"""Powers, exponentials and chained products of matrices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce as fold
from typing import Any, Final

from nacre.api.elementwise import arithmetic
from nacre.api.elementwise.apply import require
from nacre.api.linalg.operands import matrix, require_matrices, shared
from nacre.api.linalg.solving import inv
from nacre.api.linear_algebra import matmul
from nacre.api.operands import TensorLike, as_tensor, distinct, is_half, meet, require_inside
from nacre.api.primitives import control, identity, matrices, pointwise, reduce, view
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_number
from nacre.base.dtypes import NUMERIC, int64
from nacre.base.errors import ArgumentError, LinAlgError, ShapeError
from nacre.interpret.stage import derived

__all__ = ["expm", "matrix_power", "multi_dot"]

# coefficients of the Padé approximants of order 13 and 7, and the norms up to which they are exact to the unit roundoff
# of float64 and float32 (N. Higham, SIAM J. Matrix Anal. Appl. 26 (2005))
PADE: Final[dict[int, tuple[float, ...]]] = {
    64: (
        64764752532480000.0,
        32382376266240000.0,
        7771770303897600.0,
        1187353796428800.0,
        129060195264000.0,
        10559470521600.0,
        670442572800.0,
        33522128640.0,
        1323241920.0,
        40840800.0,
        960960.0,
        16380.0,
        182.0,
        1.0,
    ),
    32: (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
}
BOUND: Final = {64: 5.371920351148152, 32: 3.925724783138660}
SQUARINGS: Final = 16  # at most


def matrix_power(x: TensorLike, n: int, /) -> Tensor:
    """The n-th power of square matrices, by repeated squaring; of the inverse for a negative n.

    >>> nc.linalg.matrix_power([[1, 1], [0, 1]], 5)
    Tensor([[1, 5],
            [0, 1]], i64[2, 2])
    """
    held, n = as_tensor(x), whole_number(n, "matrix_power", "n")
    require("matrix_power", held.type.dtype, NUMERIC)
    require_matrices("matrix_power", held, square=True)
    if is_half(held):
        dtype = held.type.dtype
        return as_tensor(matrix_power(as_tensor(held, dtype.arithmetic), n), dtype)
    if n < 0:
        held, n = inv(held), -n
    if n == 0:
        return shared.identity(held.type)
    power, found = held, None
    while True:
        if n & 1:
            found = power if found is None else matmul(found, power)
        n >>= 1
        if not n:
            return distinct(found, as_tensor(x))
        power = matmul(power, power)


def multi_dot(xs: Sequence[TensorLike], /) -> Tensor:
    """The product of two or more matrices, in the order with the fewest multiplications.

    The first and the last operand may be vectors: a row and a column.

    >>> nc.linalg.multi_dot([[1, 2], [[1, 0], [0, 2]], [3, 4]])
    Tensor(19, i64[])
    """
    held, dtype = meet("multi_dot", xs)
    if len(held) < 2:
        raise ArgumentError(f"multi_dot: there must be at least 2 operands; got {len(held)}")
    ranks = [len(x.type.shape) for x in held]
    if any(rank != 2 for rank in ranks[1:-1]) or not {ranks[0], ranks[-1]} <= {1, 2}:
        raise ShapeError(f"multi_dot: operands must be matrices, or vectors at both ends; got {ranks} axes")
    first = 1 if ranks[0] == 1 else int(held[0].type.shape[0])
    sizes = [first, *(int(x.type.shape[-1 if len(x.type.shape) == 2 else 0]) for x in held[:-1])]
    sizes.append(1 if ranks[-1] == 1 else int(held[-1].type.shape[1]))
    sizes[1] = int(held[0].type.shape[-1])
    operands = [as_tensor(x, dtype.arithmetic) for x in held]
    return as_tensor(_chained(operands, _best_splits(sizes), 0, len(held) - 1), dtype)


def _best_splits(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """For each run of operands the place at which its product is divided, by dynamic programming."""
    count = len(sizes) - 1
    cost = {(k, k): 0 for k in range(count)}
    found: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs = [cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)]
            cost[i, j] = min(costs)
            found[i, j] = i + costs.index(cost[i, j])
    return found


def _chained(xs: Sequence[Any], splits: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return xs[i]
    k = splits[i, j]
    return matmul(_chained(xs, splits, i, k), _chained(xs, splits, k + 1, j))


def expm(x: TensorLike, /) -> Tensor:
    """The exponential of square matrices: scaling, a Padé approximant, and squaring.

    Raises LinAlgError, also in compiled code, for matrices whose 1-norm is greater than about 350,000 (float64) or
    250,000 (float32), which 16 squarings reach.

    >>> nc.linalg.expm([[0.0, 1.0], [0.0, 0.0]])
    Tensor([[1., 1.],
            [0., 1.]], f32[2, 2])
    """
    held, dtype = matrix("expm", x, square=True)
    if 0 in held.type.shape:
        return distinct(as_tensor(held, dtype), as_tensor(x))
    scaled, count = _scaled(held)
    return as_tensor(_squared(_approximant(scaled), count), dtype)


def _scaled(x: Any) -> tuple[Any, Any]:
    """Matrices divided by powers of 2, so that the approximant is exact, and the exponents of these powers."""
    rank, bound = len(x.type.shape), BOUND[x.type.dtype.real.bits]
    norm = reduce.max_(reduce.sum_(arithmetic.abs(identity.detach(x)), (rank - 2,)), (rank - 2,))
    greater = [pointwise.gt(norm, pointwise.full_like(norm, bound * 2.0**k)) for k in range(SQUARINGS + 1)]
    count = fold(pointwise.add, [pointwise.cast(each, int64) for each in greater])
    require_inside(
        count,
        0,
        SQUARINGS + 1,
        LinAlgError,
        f"expm: matrices must have a 1-norm of at most {bound * 2.0**SQUARINGS:.6g}; got one that is greater, "
        "which needs {got} squarings; divide it",
    )
    factor = pointwise.full_like(norm, 1.0)
    for k, each in enumerate(greater):
        factor = pointwise.select(each, pointwise.full_like(norm, 2.0 ** -(k + 1)), factor)
    factors = pointwise.cast(view.broadcast(factor, x.type.shape, tuple(range(rank - 2))), x.type.dtype)
    return pointwise.mul(x, factors), count


def _approximant(x: Any) -> Any:
    """(v - u)⁻¹ (v + u), for the odd terms u and the even terms v of a polynomial."""
    terms = PADE[x.type.dtype.real.bits]
    one, square = shared.identity(x.type), shared.matmul(x, x)
    odd, even, power = pointwise.scale(one, terms[1]), pointwise.scale(one, terms[0]), one
    for k in range(2, len(terms), 2):
        power = square if k == 2 else shared.matmul(power, square)
        even = pointwise.add(even, pointwise.scale(power, terms[k]))
        odd = pointwise.add(odd, pointwise.scale(power, terms[k + 1]))
    odd = shared.matmul(x, odd)
    below = pointwise.sub(even, odd)
    return matrices.solve.lu_solve(below, matrices.solve.constant_factors(below), pointwise.add(even, odd))


def _first(power: Any, *rest: Any) -> list[Any]:
    return [power]


def _squared(x: Any, count: Any) -> Any:
    """Each matrix multiplied by itself as often as its count says; a round that no matrix needs is skipped."""
    types = (x.type, count.type, count.type.with_shape(()))

    def chosen(power: Any, count: Any, turn: Any) -> list[Any]:
        """The squares of the matrices that need this round."""
        needed = pointwise.gt(count, view.broadcast(turn, count.type.shape, ()))
        everywhere = view.broadcast(needed, power.type.shape, tuple(range(len(count.type.shape))))
        return [pointwise.select(everywhere, shared.matmul(power, power), power)]

    square, same = derived(chosen, types, "squared"), derived(_first, types, "same")

    def turn(power: Any, count: Any, k: Any) -> list[Any]:
        """One round."""
        most = reduce.max_(count, tuple(range(len(count.type.shape)))) if count.type.shape else count
        (found,) = control.cond(pointwise.gt(most, k), square, same, power, count, k)
        return [found, count]

    body = derived(turn, types, "squarings")
    turns = pointwise.iota((SQUARINGS,), 0, int64)
    found, _ = control.scan(body, (x, count), (turns,), SQUARINGS)
    return found
