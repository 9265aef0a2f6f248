"""`pseudoinverse` and `least_squares`, by NumPy: singular values of at most a fraction of the largest one count as 0.

Derivatives are those of matrices of constant rank (G. Golub and V. Pereyra, SIAM J. Numer. Anal. 10 (1973)).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nacre.base.types import TensorType
from nacre.ops.linalg.matrices import conjugate_transpose, matmul, require_matrix
from nacre.ops.linalg.numpy_calls import computed, numpy_primitive
from nacre.ops.pointwise import add, sub
from nacre.trace.bind import bind
from nacre.trace.value import Value


def pseudoinverse(a: Value, cutoff: float) -> Value:
    """The Moore–Penrose inverse [..., n, m] of [..., m, n]."""
    return bind(pinv_p, a, cutoff=cutoff)[0]


def _pinv_type(a: TensorType, cutoff: float) -> tuple[TensorType]:
    require_matrix("pinv", a)
    return (a.with_shape((*a.shape[:-2], a.shape[-1], a.shape[-2])),)


def _numpy_pinv(a: Any, cutoff: float) -> tuple[Any]:
    return (computed("pinv", np.linalg.pinv, a, rcond=cutoff),)


def _pinv_tangents(ys: Sequence[Value], xs: Sequence[Value], ts: Sequence[Value], cutoff: float) -> tuple[Value]:
    """-p t p + p pᴴ tᴴ (1 - a p) + (1 - p a) tᴴ pᴴ p."""
    (p,), (a,), (t,) = ys, xs, ts
    turned, conjugated = conjugate_transpose(t), conjugate_transpose(p)
    low = matmul(p, matmul(conjugated, turned))
    high = matmul(turned, matmul(conjugated, p))
    first = sub(sub(low, matmul(matmul(low, a), p)), matmul(p, matmul(t, p)))
    return (add(first, sub(high, matmul(p, matmul(a, high)))),)


pinv_p = numpy_primitive("pinv", _pinv_type, _numpy_pinv, _pinv_tangents)
