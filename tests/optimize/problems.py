"""Well-known functions, starts and minima; systems of equations; operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import nacre as nc

F64 = nc.float64


class Known(NamedTuple):
    """A function with a minimum of 0, its start, and the point of the minimum."""

    name: str
    f: Callable[[Any], Any]
    start: list[float]
    at: list[float]
    distance: float  # from the point, at which the gradient is within the tolerance


def rosenbrock(x: Any) -> Any:
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def beale(x: Any) -> Any:
    a, b = x[0], x[1]
    return (1.5 - a + a * b) ** 2 + (2.25 - a + a * b**2) ** 2 + (2.625 - a + a * b**3) ** 2


def powell(x: Any) -> Any:
    return (x[0] + 10 * x[1]) ** 2 + 5 * (x[2] - x[3]) ** 2 + (x[1] - 2 * x[2]) ** 4 + 10 * (x[0] - x[3]) ** 4


def wood(x: Any) -> Any:
    first = 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
    second = 90 * (x[3] - x[2] ** 2) ** 2 + (1 - x[2]) ** 2
    return first + second + 10.1 * ((x[1] - 1) ** 2 + (x[3] - 1) ** 2) + 19.8 * (x[1] - 1) * (x[3] - 1)


KNOWN = [
    Known("Rosenbrock in 2 dimensions", rosenbrock, [-1.2, 1.0], [1.0, 1.0], 1e-6),
    Known("Rosenbrock in 10 dimensions", rosenbrock, [-1.2, 1.0] * 5, [1.0] * 10, 1e-6),
    Known("Rosenbrock in 100 dimensions", rosenbrock, [-1.2, 1.0] * 50, [1.0] * 100, 1e-6),
    Known("Beale", beale, [1.0, 1.0], [3.0, 0.5], 1e-6),
    Known("Powell", powell, [3.0, -1.0, 0.0, 1.0], [0.0] * 4, 1e-2),  # its Hessian there is singular
    Known("Wood", wood, [-3.0, -1.0, -3.0, -1.0], [1.0] * 4, 1e-6),
]


def numbers(seed: int, *shape: int) -> Any:
    """Random numbers of float64."""
    return nc.tensor(np.random.default_rng(seed).normal(size=shape))


def general(n: int, seed: int = 0) -> Any:
    """A matrix that is not symmetric, and well-conditioned."""
    return 0.3 * numbers(seed, n, n) + 3.0 * nc.eye(n, dtype=F64)


def definite(n: int, seed: int = 0) -> Any:
    """A symmetric positive definite matrix."""
    a = general(n, seed)
    return a @ a.T + nc.eye(n, dtype=F64)


def tridiagonal(x: Any) -> Any:
    """Broyden's tridiagonal equations."""
    edge = nc.zeros(1, dtype=x.dtype)
    return (3 - 2 * x) * x - nc.concat([edge, x[:-1]]) - 2 * nc.concat([x[1:], edge]) + 1
