"""The order of operations in linear algebra: the sizes of blocks, and plain NumPy that follows the same order.

Matrices of at most `BLOCK` rows are computed by one kernel, element by element.  An element begins as that of the
operand; the products with elements that are known already are subtracted by fused multiply-adds, in the order in which
these elements become known; then it is divided by the element on the diagonal.

Larger matrices are split at `split(n)`, into four blocks.  Products of blocks follow the order of matrix products:
chains of fused multiply-adds from 0 that restart every `CHAIN` terms, whose sums are added in order.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from nacre.kernel.softfloat import fma

BLOCK: Final = 64  # rows of the largest triangle that one kernel solves
PANEL: Final = 32  # columns that one kernel of LU or QR eliminates
CHAIN: Final = 256  # terms in one chain of a product

Array = npt.NDArray[Any]


def split(n: int, block: int = BLOCK) -> int:
    """The rows of the first block of n > block rows: the largest `block` · 2ᵏ less than n."""
    first = block
    while 2 * first < n:
        first *= 2
    return first


def is_lu_block(rows: int, columns: int) -> bool:
    """Whether one kernel computes the LU factors of a matrix."""
    return min(rows, columns) <= PANEL or max(rows, columns) <= BLOCK


def product(a: Array, b: Array) -> Array:
    """The product of two matrices in the order of products."""
    total = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for start in range(0, a.shape[1], CHAIN):
        chain = np.zeros_like(total)
        for k in range(start, min(start + CHAIN, a.shape[1])):
            chain = fma(a[:, k, None], b[None, k], chain)
        total = chain if start == 0 else total + chain
    return total


def triangular_solve(a: Array, b: Array, lower: bool = True, unit: bool = False) -> Array:
    """x with a @ x = b for a triangle a."""
    n = len(a)
    if n > BLOCK:
        k = split(n)
        known, later = (slice(k), slice(k, n)) if lower else (slice(k, n), slice(k))
        first = triangular_solve(a[known, known], b[known], lower, unit)
        rest = b[later] - product(a[later, known], first)
        second = triangular_solve(a[later, later], rest, lower, unit)
        return np.concatenate((first, second) if lower else (second, first))
    x = b.copy()
    rows = list(range(n)) if lower else list(reversed(range(n)))
    for i, row in enumerate(rows):
        for p in rows[:i]:
            x[row] = fma(-a[row, p], x[p], x[row])
        if not unit:
            x[row] = x[row] / a[row, row]
    return x


def cholesky(a: Array) -> Array:
    """The lower triangle l with l @ l.T = a, of which only the lower triangle is read."""
    n = len(a)
    if n > BLOCK:
        k = split(n)
        first = cholesky(a[:k, :k])
        below = triangular_solve(first, a[k:, :k].T).T
        last = cholesky(a[k:, k:] - product(below, below.T))
        return np.block([[first, np.zeros((k, n - k), a.dtype)], [below, last]])
    x = np.tril(a)
    for j in range(n):
        x[j, j] = np.sqrt(x[j, j])
        x[j + 1 :, j] = x[j + 1 :, j] / x[j, j]
        for c in range(j + 1, n):
            x[c:, c] = fma(-x[c:, j], x[c, j], x[c:, c])
    return x


def lu(a: Array) -> tuple[Array, Array, int]:
    """Both factors in one matrix, the rows of a in their order, and the number of exchanges."""
    rows, columns = a.shape
    if is_lu_block(rows, columns):
        return _lu_block(a)
    k = split(min(rows, columns), PANEL)
    left, order, exchanges = lu(a[:, :k])
    right = a[order, k:]
    above = triangular_solve(left[:k], right[:k], unit=True)
    last, later, more = lu(right[k:] - product(left[k:], above))
    found = np.block([[left[:k], above], [left[k:][later], last]])
    return found, np.concatenate((order[:k], order[k:][later])), exchanges + more


def _lu_block(a: Array) -> tuple[Array, Array, int]:
    x, order, exchanges = a.copy(), np.arange(len(a)), 0
    for j in range(min(a.shape)):
        pivot = j + int(np.argmax(np.abs(x[j:, j])))
        if pivot != j:
            exchanges += 1
            x[[j, pivot]], order[[j, pivot]] = x[[pivot, j]], order[[pivot, j]]
        if x[j, j] != 0:
            x[j + 1 :, j] = x[j + 1 :, j] / x[j, j]
        x[j + 1 :, j + 1 :] = fma(-x[j + 1 :, j, None], x[None, j, j + 1 :], x[j + 1 :, j + 1 :])
    return x, order, exchanges
