"""Errors of elementary functions in units in the last place, against mpmath or a wider format.

`tests/kernel/accuracy.py` makes the table of the documents of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import scipy.special

from nacre.base.dtypes import DType, bfloat16, float16, float32, float64
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


# of each format shorter than float64: digits, the exponent of its least normal number, and its greatest number
FORMATS: dict[DType, tuple[int, int, float]] = {
    float16: (11, -14, 65504.0),
    bfloat16: (8, -126, (2 - 2.0**-7) * 2.0**127),
    float32: (24, -126, (2 - 2.0**-23) * 2.0**127),
}


def ulps_by_float64(got: Array, exact: Array, dtype: DType) -> Array:
    """Errors of a short format against float64; a wrong special value counts as infinite."""
    digits, least, top = FORMATS[dtype]
    with np.errstate(all="ignore"):
        wide = got.astype(np.float64)
        exponent = (exact.view(np.int64) >> 52) & 0x7FF
        unit = ((np.maximum(exponent, least + 1023) - digits + 1) << 52).view(np.float64)
        error = np.abs(wide - exact) / unit
        size, margin = np.abs(exact), 2.0 ** (2 - digits)
        beyond = size >= top * (1 + 2.0 ** -(digits + 1))
        special = beyond | ~np.isfinite(wide) | np.isnan(exact)
        if not special.any():
            return error
        same = (np.isinf(wide) & beyond & (np.signbit(wide) == np.signbit(exact))) | (np.isnan(wide) & np.isnan(exact))
        # an exact value beyond the largest number may round either way only within the bound
        edge = (size < top * (1 + margin)) & (size > top * (1 - margin)) & ~np.isnan(wide)
    return np.where(special, np.where(same | edge, 0.0, np.inf), error)


def ulps_of_short(op: str, dtype: DType, args: list[Array]) -> Array:
    """Errors of float16, bfloat16 or float32 against float64."""
    with np.errstate(all="ignore"):
        exact = WIDE[op](*(a.astype(np.float64) for a in args))
    return ulps_by_float64(evaluate(op, dtype, *args), exact, dtype)


def ulps_of_float32(op: str, args: list[Array]) -> Array:
    return ulps_of_short(op, float32, args)


def every(dtype: DType) -> Array:
    """All numbers of a format of 16 bits."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)


def beyond_reach(op: str, x: float, y: float = 0.0) -> bool:
    """Whether the result over- or underflows so far that mpmath would take very long, or depends on a zero's sign."""
    if op in BINARY and x == 0:
        return True
    if op in ("exp", "exp2", "expm1", "sinh", "cosh", "sigmoid"):
        return abs(x) > 1100
    if op == "pow":
        return abs(math.log2(abs(x))) * min(abs(y), 1e6) > 1200
    return op == "erfc" and x > 40


def error_of_float64(op: str, got: float, *row: float) -> float:
    """The error of one finite number against mpmath."""
    with mpmath.workprec(200):
        exact = EXACT[op](*row)
        exponent = mpmath.frexp(exact)[1] if exact else -2000
        return float(abs(mpmath.mpf(got) - exact) / mpmath.ldexp(1, max(exponent - 53, -1074)))


def ulps_of_float64(op: str, args: list[Array]) -> Array:
    """Errors against mpmath; a result that is not finite counts as infinite if NumPy's is finite."""
    got = evaluate(op, float64, *args)
    with np.errstate(all="ignore"):
        lost = np.isfinite(WIDE[op](*args)) & ~np.isfinite(got)
    errors = np.where(lost, np.inf, 0.0)
    for i, row in enumerate(zip(*(a.tolist() for a in args), strict=True)):
        y = float(got[i])
        if not all(map(np.isfinite, row)) or not np.isfinite(y) or y == 0 == row[0]:
            continue
        if not beyond_reach(op, *row):
            errors[i] = error_of_float64(op, y, *row)
    return errors


def special_points(op: str, dtype: DType) -> list[Array]:
    """Zeros, infinities, NaN, the least and greatest numbers, and both ends of the hard intervals with neighbours."""
    finite = np.finfo(dtype.numpy)
    with np.errstate(over="ignore"):
        ends = np.array([end for pair in HARD.get(op, []) for end in pair] + [0.5, 1.0, 2.0, 10.0]).astype(dtype.numpy)
    low, high = (np.nextafter(ends, dtype.numpy.type(to)) for to in (-np.inf, np.inf))
    extreme = np.array(
        [0.0, finite.smallest_subnormal, finite.smallest_normal, finite.max, np.inf, np.nan], dtype.numpy
    )
    points = np.concatenate([ends, low, high, extreme])
    points = np.concatenate([points, -points])
    if op not in BINARY:
        return [points]
    return [part.ravel() for part in np.meshgrid(points, points)]


def worst(op: str, dtype: DType, count: int, seed: int = 1) -> tuple[float, tuple[float, ...]]:
    """The largest error found, and where: at special and random points, or at all numbers of a format of 16 bits."""
    if dtype.bits == 16:
        rng = np.random.default_rng(seed)
        args = [every(dtype)] if op not in BINARY else [rng.permutation(every(dtype)) for _ in range(2)]
    else:
        drawn = samples(op, dtype, count, np.random.default_rng(seed))
        args = [np.concatenate(pair) for pair in zip(drawn, special_points(op, dtype), strict=True)]
    errors = ulps_of_float64(op, args) if dtype is float64 else ulps_of_short(op, dtype, args)
    i = int(np.argmax(errors))
    return float(errors[i]), tuple(float(a[i]) for a in args)
