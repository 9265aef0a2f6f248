"""Six well-known loops as kernels in Python: what docs/kernels.md describes, what its tests run, and what is measured.

If numba is imported before, its compiler compiles the same functions, for benchmarks/kernels.py.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

if "numba" in sys.modules:  # the same functions, compiled by numba
    import numba

    prange = numba.prange

    def kernel(out: Any) -> Any:
        """Numba's decorator in the place of Nacre's."""
        return numba.njit(parallel=True)

    def serial(out: Any) -> Any:
        """The same, for loops without parallel rounds."""
        return numba.njit

    def inlined(f: Any) -> Any:
        """A function that kernels call."""
        return numba.njit(f)

else:
    import nacre as nc

    prange, kernel, serial = nc.prange, nc.kernel, nc.kernel

    def inlined(f: Any) -> Any:
        """A function that kernels call."""
        return f


LIMIT, RATE, VOLATILITY, SOFTENING = 100, 0.05, 0.2, 1e-6


@kernel(out=lambda re, im: ((im.shape[0], re.shape[0]), np.int32))
def mandelbrot(re, im, count):
    """The number of rounds of z = z² + c, up to LIMIT, in which |z| ≤ 2, for c = re[x] + i·im[y]."""
    for y in prange(im.shape[0]):
        for x in range(re.shape[0]):
            zr = 0.0
            zi = 0.0
            n = 0
            while n < LIMIT and zr * zr + zi * zi <= 4.0:
                t = zr * zr - zi * zi + re[x]
                zi = 2.0 * zr * zi + im[y]
                zr = t
                n += 1
            count[y, x] = n


@kernel(out=lambda place, mass: place)
def gravity(place, mass, acceleration):
    """The acceleration of each of n bodies, [3, n], by all others."""
    for i in prange(place.shape[1]):
        ax = 0.0
        ay = 0.0
        az = 0.0
        for j in range(place.shape[1]):
            dx = place[0, j] - place[0, i]
            dy = place[1, j] - place[1, i]
            dz = place[2, j] - place[2, i]
            square = dx * dx + dy * dy + dz * dz + SOFTENING
            pull = mass[j] / (square * math.sqrt(square))
            ax += pull * dx
            ay += pull * dy
            az += pull * dz
        acceleration[0, i] = ax
        acceleration[1, i] = ay
        acceleration[2, i] = az


@serial(out=lambda a, b: ((a.shape[0] + 1, b.shape[0] + 1), np.int32))
def smith_waterman(a, b, score):
    """The scores of the best local alignments of two sequences that end at each pair of elements."""
    for i in range(1, a.shape[0] + 1):
        for j in range(1, b.shape[0] + 1):
            match = 2 if a[i - 1] == b[j - 1] else -1
            score[i, j] = max(0, score[i - 1, j - 1] + match, score[i - 1, j] - 1, score[i, j - 1] - 1)


@inlined
def normal(d):
    """The normal distribution function."""
    return 0.5 * (1.0 + math.erf(d / math.sqrt(2.0)))


@kernel(out=lambda price, strike, years: [price, price])
def black_scholes(price, strike, years, call, put):
    """The values of European call and put options."""
    for i in prange(price.shape[0]):
        root = VOLATILITY * math.sqrt(years[i])
        d1 = (math.log(price[i] / strike[i]) + (RATE + 0.5 * VOLATILITY * VOLATILITY) * years[i]) / root
        d2 = d1 - root
        paid = strike[i] * math.exp(-RATE * years[i])
        call[i] = price[i] * normal(d1) - paid * normal(d2)
        put[i] = paid * normal(-d2) - price[i] * normal(-d1)


@kernel(out=lambda data, column, start, x: ((start.shape[0] - 1,), data.dtype))
def csr_product(data, column, start, x, y):
    """A sparse matrix in compressed rows times a vector."""
    for i in prange(start.shape[0] - 1):
        total = 0.0
        for k in range(start[i], start[i + 1]):
            total += data[k] * x[column[k]]
        y[i] = total


@kernel(out=lambda u: u)
def stencil(u, v):
    """The mean of each inner element and its four neighbours."""
    for i in prange(1, u.shape[0] - 1):
        for j in range(1, u.shape[1] - 1):
            v[i, j] = 0.2 * (u[i, j] + u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


def problems(size: float = 1.0) -> dict[str, tuple[Any, tuple[np.ndarray, ...], list[np.ndarray]]]:
    """Each kernel with inputs, and zeros for its outputs; `size` scales the work."""
    r = np.random.default_rng(0)
    side, bodies, options, rows = (int(n * size) for n in (1024, 3000, 1_000_000, 100_000))
    start = np.concatenate([[0], np.cumsum(r.integers(0, 32, rows))]).astype(np.int64)
    stored = int(start[-1])
    sequences = tuple(r.integers(0, 4, 2 * side).astype(np.int8) for _ in range(2))
    market = r.uniform(10, 50, options), r.uniform(10, 50, options), r.uniform(0.5, 2, options)
    sparse = r.normal(size=stored), r.integers(0, rows, stored), start, r.normal(size=rows)
    plane = np.linspace(-2, 1, side), np.linspace(-1.5, 1.5, side)
    return {
        "mandelbrot": (mandelbrot, plane, [np.zeros((side, side), np.int32)]),
        "gravity": (gravity, (r.normal(size=(3, bodies)), r.uniform(size=bodies)), [np.zeros((3, bodies))]),
        "smith_waterman": (smith_waterman, sequences, [np.zeros((2 * side + 1, 2 * side + 1), np.int32)]),
        "black_scholes": (black_scholes, market, [np.zeros(options), np.zeros(options)]),
        "csr_product": (csr_product, sparse, [np.zeros(rows)]),
        "stencil": (stencil, (r.normal(size=(2 * side, 2 * side)),), [np.zeros((2 * side, 2 * side))]),
    }
