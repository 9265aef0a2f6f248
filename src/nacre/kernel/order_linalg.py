"""The order of operations in linear algebra: the sizes of blocks, and plain NumPy that follows the same order.

Matrices of at most `BLOCK` rows are computed by one kernel, element by element.  An element begins as that of the
operand.  Products with elements that are known already are subtracted by fused multiply-adds, in the order in which
these elements become known.  Then it is divided by the element on the diagonal.

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


def qr(a: Array, complete: bool = False) -> tuple[Array, Array]:
    """q and r, by reflections."""
    rows, columns = a.shape
    least = min(rows, columns)
    kept = rows if complete else least
    if max(rows, columns) <= BLOCK:
        v, taus, x = reflections(a)
        q = np.eye(rows, kept, dtype=a.dtype)
        for j in reversed(range(least)):
            _reflect(q[j:], v[j, j:], taus[j])
        return q, x[:kept]
    panels: list[tuple[Array, Array]] = []
    r = np.zeros((kept, columns), a.dtype)
    for start in range(0, least, PANEL):
        width = min(PANEL, least - start)
        v, taus, x = reflections(a[:, :width])
        t = compact(v, taus)
        panels.append((v.T, t))
        r[start : start + width, start : start + width] = x[:width]
        a = a[:, width:] - product(v.T, product(t.T, product(v, a[:, width:])))
        r[start : start + width, start + width :] = a[:width]
        a = a[width:]
    q = np.zeros((rows - least, kept - least), a.dtype)
    for k, (v, t) in reversed(list(enumerate(panels))):
        whole = np.eye(rows - k * PANEL, kept - k * PANEL, dtype=a.dtype)
        if k + 1 < len(panels):
            whole[v.shape[1] :, v.shape[1] :] = q
        q = whole - product(v, product(t, product(v.T, whole)))
    return q, r


def reflections(a: Array) -> tuple[Array, Array, Array]:
    """The vectors of reflections, as rows, their factors, and a behind them."""
    x, least = a.copy(), min(a.shape)
    v, taus = np.zeros((least, len(a)), a.dtype), np.zeros(least, a.dtype)
    for j in range(least):
        alpha, rest = x[j, j], np.max(np.abs(x[j + 1 :, j]), initial=0)
        v[j, j], beta = 1, alpha
        if rest != 0:
            great, squares = np.maximum(rest, np.abs(alpha)), a.dtype.type(0)
            for part in np.abs(x[j:, j]) / great:
                squares = fma(part, part, squares)
            beta = -np.copysign(great * np.sqrt(squares), alpha)
            taus[j] = (beta - alpha) / beta
            v[j, j + 1 :] = x[j + 1 :, j] / (alpha - beta)
        _reflect(x[j:, j:], v[j, j:], taus[j])
        x[j, j], x[j + 1 :, j] = beta, 0
    return v, taus, x


def _reflect(x: Array, v: Array, tau: Any) -> None:
    """Apply a reflection to x in place."""
    w = np.zeros(x.shape[1], x.dtype)
    for factor, row in zip(v, x, strict=True):
        w = fma(factor, row, w)
    x[:] = fma(-v[:, None], (tau * w)[None], x)


def compact(v: Array, taus: Array) -> Array:
    """t with 1 - vᵀ @ t @ v as the product of all reflections, where v has their vectors as rows."""
    t = np.zeros((len(taus), len(taus)), v.dtype)
    for j, tau in enumerate(taus):
        inner = np.zeros(j, v.dtype)
        for i in range(v.shape[1]):
            inner = fma(v[:j, i], v[j, i], inner)
        for p in range(j):
            total = v.dtype.type(0)
            for q in range(p, j):
                total = fma(t[p, q], inner[q], total)
            t[p, j] = -(tau * total)
        t[j, j] = tau
    return t
