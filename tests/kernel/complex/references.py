"""Complex elementary functions by mpmath, and the numbers at which their errors are measured.

As a program, it prints the largest error of each part for each function, in ulps:

    python tests/kernel/complex/references.py [points]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np

from kernel.complex.evaluation import COMPLEX, Array, around, errors, spread
from nacre.base.dtypes import DType, float32, float64

mp = mpmath.mp

EXACT: dict[str, Callable[..., Any]] = {
    "sqrt": mp.sqrt, "rsqrt": lambda z: 1 / mp.sqrt(z),
    "exp": mp.exp, "exp2": lambda z: mp.exp(z * mp.log(2)), "expm1": lambda z: mp.exp(z) - 1,
    "sigmoid": lambda z: 1 / (1 + mp.exp(-z)),
    "log": mp.log, "log2": lambda z: mp.log(z) / mp.log(2), "log10": lambda z: mp.log(z) / mp.log(10),
    "log1p": lambda z: mp.log(1 + z),
    "sinh": mp.sinh, "cosh": mp.cosh, "tanh": mp.tanh, "sin": mp.sin, "cos": mp.cos, "tan": mp.tan,
    "asin": mp.asin, "acos": mp.acos, "atan": mp.atan, "asinh": mp.asinh, "acosh": mp.acosh, "atanh": mp.atanh,
}  # fmt: skip

GROWING = ("exp", "exp2", "expm1", "sigmoid", "sinh", "cosh", "tanh", "sin", "cos", "tan")
TURNED = ("sin", "cos", "tan")  # functions that grow along the imaginary axis


def on_circle(count: int, dtype: DType, seed: int) -> Array:
    """Numbers next to the unit circle, at all distances from it."""
    random = np.random.default_rng(seed)
    size = 1 + 2.0 ** -random.uniform(1, 60, count) * random.choice([-1, 1], count)
    return (size * np.exp(1j * random.uniform(-np.pi, np.pi, count))).astype(COMPLEX[dtype])


def next_to_one(count: int, dtype: DType, seed: int) -> Array:
    """Numbers next to ±1, at all distances from it."""
    away = spread(count, float64, seed, -60, -2)
    return (away + np.random.default_rng(seed).choice([-1, 1], count)).astype(COMPLEX[dtype])


def of_overflow(op: str, count: int, dtype: DType, seed: int) -> Array:
    """Numbers whose exponential over- or underflows, with parts of the result that do not."""
    random = np.random.default_rng(seed)
    size = {float32: 105.0, float64: 800.0}[dtype] * (1.5 if op == "exp2" else 1.0)
    x = random.uniform(0.85, 1.8, count) * size * random.choice([-1, 1], count)
    y = 2.0 ** random.uniform(-size * 1.4, 3, count)
    z = np.empty(count, COMPLEX[dtype])
    z.real, z.imag = (y, x) if op in TURNED else (x, y)
    return z


def samples(op: str, dtype: DType, count: int, seed: int = 1) -> Iterator[tuple[Array, int]]:
    """Arrays of numbers, each with the decimal digits at which mpmath has both parts of the results."""
    growing, narrow = op in GROWING, dtype is float32
    yield around(count, dtype, seed), 60
    yield around(count, dtype, seed + 1, 1.3), 60
    yield around(count, dtype, seed + 2, 30.0), 60
    yield spread(count, dtype, seed + 3, -30, 6), 80
    yield on_circle(count, dtype, seed + 4), 80
    yield next_to_one(count, dtype, seed + 5), 80
    if growing:
        yield spread(count, dtype, seed + 6, -40 if narrow else -60, 6.4 if narrow else 9.4), 80
        yield of_overflow(op, count // 2, dtype, seed + 7), 80 if op != "sigmoid" and op != "expm1" else 700
    else:
        yield spread(count, dtype, seed + 6, *((-149, 127) if narrow else (-1074, 1023))), 700


def worst(op: str, dtype: DType, count: int, seed: int = 1) -> tuple[Array, Array]:
    """The largest errors of the parts in ulps, and the numbers where they are."""
    found = [(errors(op, EXACT[op], [z], digits), z) for z, digits in samples(op, dtype, count, seed)]
    every, where = np.concatenate([e for e, _ in found]), np.concatenate([z for _, z in found])
    return every.max(0), where[every.argmax(0)]


def main() -> None:
    """Print the table."""
    count = int(sys.argv[1]) if sys.argv[1:] else 100
    for op in EXACT:
        for dtype in (float32, float64):
            (re, im), (at_re, at_im) = worst(op, dtype, count, 100)
            print(f"{op:<8} {dtype.name:<8} {re:8.2f} {im:8.2f}   {at_re:.17g}   {at_im:.17g}", flush=True)


if __name__ == "__main__":
    main()
