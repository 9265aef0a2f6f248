"""Errors of elementary functions in units in the last place, against mpmath or a wider format.

As a program, it prints the largest error found for each function::

    python tests/kernel/elementary/ulps.py [points]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import scipy.special

from nacre.base.dtypes import DType, float32, float64
from nacre.kernel.elementary import apply
from nacre.kernel.elementary.arrays import Arrays

Array = npt.NDArray[Any]
mp = mpmath.mp

# the same functions for float64 arrays, and for mpmath numbers
WIDE: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "erf": scipy.special.erf, "erfc": scipy.special.erfc, "cbrt": np.cbrt,
    "pow": np.power, "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x),
}  # fmt: skip


def root3(x: Any) -> Any:
    return mp.sign(x) * mp.cbrt(abs(x))


EXACT: dict[str, Callable[..., Any]] = {
    "exp": mp.exp, "exp2": lambda x: mp.power(2, x), "expm1": mp.expm1, "log": mp.log,
    "log2": lambda x: mp.log(x) / mp.log(2), "log10": mp.log10, "log1p": mp.log1p,
    "sin": mp.sin, "cos": mp.cos, "tan": mp.tan, "asin": mp.asin, "acos": mp.acos, "atan": mp.atan,
    "atan2": mp.atan2, "sinh": mp.sinh, "cosh": mp.cosh, "tanh": mp.tanh, "asinh": mp.asinh,
    "acosh": mp.acosh, "atanh": mp.atanh, "erf": mp.erf, "erfc": mp.erfc, "cbrt": root3,
    "pow": mp.power, "sigmoid": lambda x: 1 / (1 + mp.exp(-x)), "rsqrt": lambda x: 1 / mp.sqrt(x),
}  # fmt: skip

BINARY = ("pow", "atan2")
LOGARITHMS = ("log", "log2", "log10", "log1p", "acosh", "rsqrt")

# intervals with a function's largest errors, its thresholds or its steepest parts
HARD: dict[str, list[tuple[float, float]]] = {
    "exp": [(-1, 1), (-750, 720), (-746, -700), (-104, -85), (88, 89)],
    "exp2": [(-1, 1), (-1080, 1030), (-150, -120)],
    "expm1": [(-0.4, 0.4), (-2, 2), (-50, 720), (-1e-7, 1e-7)],
    "sigmoid": [(-4, 4), (-40, 40), (-750, -700), (-104, -80)],
    "log": [(0.6, 1.5), (0.99, 1.01), (0, 5e-308), (0, 1e-38)],
    "log2": [(0.6, 1.5), (0.99, 1.01), (0, 5e-308)],
    "log10": [(0.6, 1.5), (0.99, 1.01), (0, 5e-308)],
    "log1p": [(-0.4, 0.6), (-1, 3), (-1e-6, 1e-6)],
    "sin": [(-7, 7), (-1e5, 1e5), (1e5, 1e30), (3.1, 3.2)],
    "cos": [(-7, 7), (-1e5, 1e5), (1e5, 1e30), (1.5, 1.6)],
    "tan": [(-7, 7), (-1e5, 1e5), (1e5, 1e30), (1.5, 1.6)],
    "asin": [(-1, 1), (0.45, 0.6), (0.99, 1)],
    "acos": [(-1, 1), (0.45, 0.6), (0.99, 1), (-1, -0.99)],
    "atan": [(-2, 2), (0.9, 1.5), (-50, 50)],
    "sinh": [(-2, 2), (0.9, 1.5), (-720, 720), (88, 90)],
    "cosh": [(-2, 2), (-720, 720), (88, 90)],
    "tanh": [(-1, 1), (0.5, 0.8), (-25, 25)],
    "asinh": [(-1, 1), (0.45, 0.8), (-1e4, 1e4)],
    "acosh": [(1, 1.2), (1, 4), (1, 1e5)],
    "atanh": [(-1, 1), (0.15, 0.3), (0.99, 1)],
    "erf": [(-2, 2), (0.9, 1.1), (-7, 7)],
    "erfc": [(-6, 6), (0.4, 1), (5, 27.3), (25.5, 27.3), (9, 10.2)],
    "cbrt": [(-9, 9), (0, 1e-307)],
    "rsqrt": [(0, 4)],
}


def samples(op: str, dtype: DType, count: int, rng: np.random.Generator) -> list[Array]:
    """Arguments: random bit patterns, and uniform ones on the hard intervals."""

    def patterns() -> Array:
        bits = rng.integers(0, 1 << dtype.bits, count, dtype=np.uint64, endpoint=False)
        return bits.astype(f"u{dtype.bits // 8}").view(dtype.numpy)

    with np.errstate(over="ignore"):
        if op not in BINARY:
            parts = [rng.uniform(a, b, count).astype(dtype.numpy) for a, b in HARD[op]]
            x = np.concatenate([patterns(), *parts])
            return [np.abs(x) if op in LOGARITHMS else x]
        x, y = patterns(), patterns()
        near = rng.uniform(0.3, 3, count).astype(dtype.numpy)
        wide = np.exp(rng.uniform(-80, 80, count)).astype(dtype.numpy)
        if op == "atan2":
            return [np.concatenate([x, near, near]), np.concatenate([y, near[::-1], -near[::-1]])]
        limit = 88 if dtype is float32 else 709
        power = (rng.uniform(-limit, limit, count) / np.log(near)).astype(dtype.numpy)
        other = (rng.uniform(-limit, limit, count) / np.log(wide)).astype(dtype.numpy)
        edge = (-limit * rng.uniform(1.0, 1.05, count) / np.log(wide)).astype(dtype.numpy)
        bases = [np.abs(x), near, wide, wide, -near]
        return [np.concatenate(bases), np.concatenate([y, power, other, edge, np.rint(power / 9)])]


def evaluate(op: str, dtype: DType, *args: Array) -> Array:
    """The function as Nacre defines it."""
    arrays = Arrays()
    return apply(arrays, op, [arrays.operand(a) for a in args], dtype)


def ulps_of_float32(op: str, args: list[Array]) -> Array:
    """Errors against float64; a wrong special value counts as infinite."""
    got = evaluate(op, float32, *args)
    with np.errstate(all="ignore"):
        exact = WIDE[op](*(a.astype(np.float64) for a in args))
        rounded = exact.astype(np.float32)
        _, exponent = np.frexp(exact)
        unit = np.ldexp(1.0, np.maximum(exponent - 24, -149))
        error = np.abs(got.astype(np.float64) - exact) / unit
        special = ~np.isfinite(rounded) | ~np.isfinite(got)
        same = (rounded == got) | (np.isnan(rounded) & np.isnan(got))
        # an exact value beyond the largest number may round either way only within the bound
        edge = np.isinf(rounded) ^ np.isinf(got)
        edge &= np.abs(exact) < 3.4028236e38 * (1 + 2.0**-22)
        edge &= np.abs(exact) > 3.4028233e38 * (1 - 2.0**-22)
    return np.where(special, np.where(same | edge, 0.0, np.inf), error)


def beyond_reach(op: str, x: float, y: float = 0.0) -> bool:
    """Whether the result over- or underflows so far that mpmath would take very long."""
    if op in ("exp", "exp2", "expm1", "sinh", "cosh", "sigmoid"):
        return abs(x) > 1100
    if op == "pow":
        return abs(math.log2(abs(x))) * min(abs(y), 1e6) > 1200
    return op == "erfc" and x > 40


def ulps_of_float64(op: str, args: list[Array]) -> Array:
    """Errors against mpmath; a result that is not finite counts as infinite if NumPy's is finite."""
    got = evaluate(op, float64, *args)
    with np.errstate(all="ignore"):
        lost = np.isfinite(WIDE[op](*args)) & ~np.isfinite(got)
    errors = np.where(lost, np.inf, 0.0)
    with mpmath.workprec(200):
        for i, row in enumerate(zip(*(a.tolist() for a in args), strict=True)):
            y = float(got[i])
            if not all(map(np.isfinite, row)) or not np.isfinite(y) or y == 0 == row[0]:
                continue
            if beyond_reach(op, *row):
                continue
            exact = EXACT[op](*row)
            exponent = mpmath.frexp(exact)[1] if exact else -2000
            unit = mpmath.ldexp(1, max(exponent - 53, -1074))
            errors[i] = float(abs(mpmath.mpf(y) - exact) / unit)
    return errors


def worst(op: str, dtype: DType, count: int, seed: int = 1) -> tuple[float, tuple[float, ...]]:
    """The largest error found, and where."""
    args = samples(op, dtype, count, np.random.default_rng(seed))
    errors = ulps_of_float32(op, args) if dtype is float32 else ulps_of_float64(op, args)
    i = int(np.argmax(errors))
    return float(errors[i]), tuple(float(a[i]) for a in args)


def table(count: int) -> Iterator[str]:
    """Lines of a table of the largest errors."""
    yield f"{'':8} {'float32':>9} {'float64':>9}"
    for op in EXACT:
        a, b = worst(op, float32, 100 * count), worst(op, float64, count)
        yield f"{op:8} {a[0]:9.3f} {b[0]:9.3f}   at {a[1]} and {b[1]}"


if __name__ == "__main__":
    for line in table(int(sys.argv[1]) if len(sys.argv) > 1 else 500):
        print(line, flush=True)
