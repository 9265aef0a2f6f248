"""Rows of linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np

from nacre.base.dtypes import DType
from nacre.kernel import order_linalg as order
from nacre.kernel.order import tree
from nacre.ops.linalg import cholesky, determinant, householder, lu, qr, rows, solve, triangular
from ops.row import SINGLE, Inputs, Row
from ops.samples import Array, Arrays

Shape = tuple[int, ...]


def matrices(shape: Shape, rng: np.random.Generator, definite: bool = False) -> Array:
    """Well-conditioned matrices."""
    x = rng.normal(size=shape)
    if definite:
        x = np.round(x @ np.swapaxes(x, -1, -2) / shape[-1], 9)  # the product's last bits depend on the machine
    return x + 2 * np.eye(*shape[-2:])


def of(*shapes: Shape, definite: bool = False) -> Inputs:
    """One matrix of each shape."""
    return lambda dtype, rng: [(matrices(s, rng, definite).astype(dtype.numpy),) for s in shapes]


def with_sides(*shapes: tuple[Shape, Shape]) -> Inputs:
    """Matrices and right-hand sides."""

    def make(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        return [tuple(x.astype(dtype.numpy) for x in (matrices(a, rng), rng.normal(size=b))) for a, b in shapes]

    return make


def over_batch(f: Any, *xs: Array) -> Any:
    """f of each matrix of a batch, stacked."""
    if xs[0].ndim == 2:
        return f(*xs)
    return np.stack([over_batch(f, *each) for each in zip(*xs, strict=True)])


def factored(a: Array) -> tuple[Array, Array]:
    """The factors and the order of a batch of matrices."""
    return over_batch(lambda x: order.lu(x)[0], a), over_batch(lambda x: order.lu(x)[1], a)


def _lu_solved(a: Array, b: Array) -> Array:
    factors, places, _ = order.lu(a)
    half = order.triangular_solve(factors, b[places], unit=True)
    return order.triangular_solve(factors, half, lower=False)


def _det(a: Array) -> Any:
    factors, _, exchanges = order.lu(a)
    return np.multiply(tree(factors.diagonal().copy(), np.multiply), (-1) ** exchanges, dtype=a.dtype)


def _cofactors(a: Array) -> Array:
    """The cofactors of a matrix of integers, which are integers too."""
    wide = a.astype(np.float64)
    return np.rint(np.linalg.det(wide) * np.linalg.inv(wide).T).astype(a.dtype)


def _permuted(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
    x = rng.normal(size=(2, 5, 3)).astype(dtype.numpy)
    return [(x, np.stack([rng.permutation(5) for _ in range(2)]))]


def _put(x: Array, places: Array) -> Array:
    found = np.empty_like(x)
    np.put_along_axis(found, np.broadcast_to(places[..., None], x.shape), x, -2)
    return found


SIDES = with_sides(((3, 3), (3, 2)), ((2, 5, 5), (2, 5, 1)), ((0, 0), (0, 2)), ((70, 70), (70, 3)))

ROWS = [
    Row(
        f"triangular_solve-{lower}-{unit}",
        lambda a, b, lower=lower, unit=unit: triangular.triangular_solve(a, b, lower, unit),
        lambda a, b, lower=lower, unit=unit: over_batch(lambda x, y: order.triangular_solve(x, y, lower, unit), a, b),
        SIDES,
        SINGLE,
        active=(0, 1),
        smooth=lambda rng: (matrices((4, 4), rng), rng.normal(size=(4, 2))),
    )
    for lower in (True, False)
    for unit in (True, False)
]
ROWS += [
    Row(
        "cholesky",
        lambda a: cholesky.cholesky(a)[0],
        lambda a: over_batch(order.cholesky, a),
        of((3, 3), (2, 5, 5), (0, 0), (70, 70), definite=True),
        SINGLE,
    ),
    Row(
        "lu-factors",
        lambda a: lu.lu(a).factors,
        lambda a: factored(a)[0],
        of((3, 3), (2, 5, 4), (2, 4, 5), (0, 0), (70, 66), (66, 70)),
        SINGLE,
        active=(0,),
        smooth=lambda rng: (matrices((2, 4, 4), rng),),
    ),
    Row(
        "lu-order",
        lambda a: lu.lu(a).order,
        lambda a: factored(a)[1],
        lambda dtype, rng: [(rng.normal(size=s).astype(dtype.numpy),) for s in ((2, 6, 6), (70, 66))],
        SINGLE,
    ),
    Row(
        "lu_solve",
        lambda a, b: solve.lu_solve(a, solve.constant_factors(a), b),
        lambda a, b: over_batch(_lu_solved, a, b),
        SIDES,
        SINGLE,
        active=(0, 1),
        smooth=lambda rng: (matrices((4, 4), rng), rng.normal(size=(4, 2))),
    ),
    Row(
        "lu_det",
        lambda a: determinant.lu_det(a, solve.constant_factors(a)),
        lambda a: over_batch(_det, a),
        of((3, 3), (2, 5, 5), (20, 20)),
        SINGLE,
        active=(0,),
        smooth=lambda rng: (matrices((2, 4, 4), rng),),
    ),
    Row(
        "lu_cofactors",
        lambda a: determinant.lu_cofactors(a, solve.constant_factors(a)),
        lambda a: over_batch(_cofactors, a),
        lambda dtype, rng: [(3 * np.eye(n, dtype=dtype.numpy) - 1,) for n in (2, 4)],
        SINGLE,
        ulps=16,
        active=(0,),
        smooth=lambda rng: (matrices((2, 4, 4), rng),),
    ),
    Row(
        "householder",
        lambda a: householder.householder(a)[0],
        lambda a: over_batch(lambda x: order.reflections(x)[0].T, a),
        of((5, 3), (2, 3, 5), (90, 20)),
        SINGLE,
    ),
    Row(
        "householder-compact",
        lambda a: householder.householder(a)[1],
        lambda a: over_batch(lambda x: order.compact(*order.reflections(x)[:2]), a),
        of((5, 3), (2, 3, 5), (90, 20)),
        SINGLE,
    ),
]
ROWS += [
    Row(
        f"qr-{name}-{complete}",
        lambda a, k=k, complete=complete: qr.qr(a, complete)[k],
        lambda a, k=k, complete=complete: over_batch(lambda x: order.qr(x, complete)[k], a),
        of((5, 3), (2, 3, 5), (4, 4), (0, 3), (70, 40)),
        SINGLE,
        active=() if complete else (0,),
        smooth=None if complete else lambda rng: (matrices((5, 3), rng),),
    )
    for complete in (False, True)
    for k, name in enumerate("qr")
]
ROWS += [
    Row(
        f"permute_rows-{back}",
        lambda x, places, back=back: rows.permute_rows(x, places, back),
        lambda x, places, back=back: _put(x, places) if back else np.take_along_axis(x, places[..., None], -2),
        _permuted,
        SINGLE,
        active=(0,),
        smooth=lambda rng: _permuted_smooth(rng),
    )
    for back in (False, True)
]


def _permuted_smooth(rng: np.random.Generator) -> Arrays:
    return rng.normal(size=(2, 5, 3)), np.stack([rng.permutation(5) for _ in range(2)])
