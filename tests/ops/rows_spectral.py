"""Rows of eigenvalues, singular values and least squares, which NumPy computes."""

from __future__ import annotations

import numpy as np

from nacre.ops.linalg import eigen, least_squares, singular
from ops.row import SINGLE, Row
from ops.rows_linalg import matrices, of, with_sides
from ops.samples import Array

SQUARE = of((3, 3), (2, 5, 5), (0, 0))
ANY = of((3, 3), (2, 5, 3), (2, 3, 5), (0, 3))
LEAST = with_sides(((3, 3), (3, 2)), ((5, 3), (5, 1)), ((3, 5), (3, 2)))


def _complex(x: Array) -> Array:
    """Numbers as complex ones; NumPy gives real ones where all are real."""
    return x.astype(np.result_type(x, np.complex64))


ROWS = [
    Row(f"eigh-{k}", lambda a, k=k: eigen.eigh(a)[k], lambda a, k=k: np.linalg.eigh(a)[k], SQUARE, SINGLE)
    for k in range(2)
]
ROWS += [
    Row("eigvalsh", eigen.eigvalsh, np.linalg.eigvalsh, SQUARE, SINGLE),
    Row("eigvals", eigen.eigvals, lambda a: _complex(np.linalg.eigvals(a)), of((3, 3), (2, 5, 5)), SINGLE),
    Row(
        "svdvals",
        singular.svdvals,
        lambda a: np.linalg.svd(a, compute_uv=False),
        ANY,
        SINGLE,
        active=(0,),
        smooth=lambda rng: (matrices((3, 4), rng),),
    ),
    Row(
        "pinv",
        lambda a: least_squares.pseudoinverse(a, 1e-3),
        lambda a: np.linalg.pinv(a, 1e-3),
        ANY,
        SINGLE,
        active=(0,),
        smooth=lambda rng: (matrices((3, 4), rng),),
    ),
    Row(
        "lstsq",
        lambda a, b: least_squares.least_squares(a, b, 1e-3)[0],
        lambda a, b: np.linalg.lstsq(a, b, 1e-3)[0],
        LEAST,
        SINGLE,
        active=(0, 1),
        smooth=lambda rng: (matrices((5, 3), rng), rng.normal(size=(5, 2))),
    ),
]
ROWS += [
    Row(f"eig-{k}", lambda a, k=k: eigen.eig(a)[k], lambda a, k=k: _complex(np.linalg.eig(a)[k]), of((3, 3)), SINGLE)
    for k in range(2)
]
ROWS += [
    Row(
        f"svd-{k}-{full}",
        lambda a, k=k, full=full: singular.svd(a, full)[k],
        lambda a, k=k, full=full: np.linalg.svd(a, full_matrices=full)[k],
        ANY,
        SINGLE,
        active=() if full else (0,),
        smooth=None if full else lambda rng: (matrices((4, 3), rng),),
    )
    for k in range(3)
    for full in (False, True)
]
