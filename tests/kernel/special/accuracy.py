"""Errors of the special functions in units in the last place, against mpmath.

`tests/kernel/accuracy.py` makes the table of the documents of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import numpy.typing as npt

from kernel.elementary.ulps import evaluate
from nacre.base.dtypes import DType, bfloat16, float16, float32, float64

Array = npt.NDArray[Any]
mp = mpmath.mp
DIGITS = 170  # bits of the references
Box = tuple[tuple[float, float], ...]
LAST = {float16: (11, -24), bfloat16: (8, -133), float32: (24, -149), float64: (53, -1074)}  # digits, least exponent


@dataclass(frozen=True)
class Subject:
    """A function, its exact value, and boxes of its operands.

    With `least` of 1, errors are relative to 1 at least; other results below `least` do not count.
    """

    name: str
    exact: Callable[..., Any]
    boxes: tuple[Box, ...]
    least: float = 0.0


def inverse_of_erfc(q: Any) -> Any:
    """erfc⁻¹, by Newton's method on the logarithm for small numbers."""
    if q >= 0.1:
        return mp.erfinv(1 - q)
    y, target = mp.sqrt(-mp.log(q)), mp.log(q)
    for _ in range(40):
        e = mp.erfc(y)
        y += (mp.log(e) - target) * e * mp.sqrt(mp.pi) / 2 * mp.exp(y * y)
    return y


def log_of_normal(x: Any) -> Any:
    return mp.log(mp.erfc(-x / mp.sqrt(2)) / 2)


def log_of_beta(a: Any, b: Any) -> Any:
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


def lower(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def upper(a: Any, x: Any) -> Any:
    return mp.gammainc(a, x, mp.inf, regularized=True)


def slope(a: Any, x: Any) -> Any:
    """The derivative of `lower` by a, by differences of many digits."""
    with mpmath.workprec(4 * DIGITS):
        step = mp.mpf(2) ** -DIGITS
        return (lower(a + step, x) - lower(a - step, x)) / (2 * step)


def gamma_density(a: Any, x: Any) -> Any:
    return x ** (a - 1) * mp.exp(-x) / mp.gamma(a)


def beta_density(a: Any, b: Any, x: Any) -> Any:
    return x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b)


def betainc(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


def real(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: mp.re(f(*xs))


def one(*intervals: tuple[float, float]) -> tuple[Box, ...]:
    """The boxes of a function of one number."""
    return tuple((i,) for i in intervals)


PARAMETERS: tuple[Box, ...] = (((0.05, 20), (0.01, 30)), ((20, 200), (10, 220)))
SUBJECTS = (
    Subject("lgamma", real(mp.loggamma), one((0, 1), (1, 3), (3, 9), (9, 200), (1e3, 1e30))),
    Subject("lgamma", real(mp.loggamma), one((-10, 0), (-100, 0)), 1.0),
    Subject("gamma", mp.gamma, one((0, 1), (1, 9), (9, 30), (-9, 0))),
    Subject("digamma", mp.digamma, one((0, 1), (1, 3), (3, 9), (9, 1e3))),
    Subject("digamma", mp.digamma, one((-10, 0), (-100, 0)), 1.0),
    Subject("zeta", mp.zeta, (((1, 2), (0.1, 20)), ((2, 8), (0.1, 20)), ((2, 8), (20, 1e3)))),
    Subject("betaln", real(log_of_beta), (((0, 8), (0, 8)), ((0, 8), (8, 1e4)), ((8, 1e4), (8, 1e4))), 1.0),
    Subject("gammainc", lower, PARAMETERS, 1e-30),
    Subject("gammaincc", upper, PARAMETERS, 1e-30),
    Subject("gammainc_slope", slope, PARAMETERS, 1e-30),
    Subject("gamma_density", gamma_density, PARAMETERS, 1e-30),
    Subject("implicit_gamma", lambda a, x: x, PARAMETERS),
    Subject("betainc", betainc, (((0.1, 8), (0.1, 8), (0, 1)), ((8, 100), (8, 100), (0.2, 0.8))), 1e-30),
    Subject("beta_density", beta_density, (((0.1, 8), (0.1, 8), (0, 1)), ((8, 100), (8, 100), (0.2, 0.8))), 1e-30),
    Subject("erfinv", mp.erfinv, one((-0.6, 0.6), (0.5, 1), (0.9999, 1))),
    Subject("erfcinv", inverse_of_erfc, one((0, 2), (0, 0.1), (0, 1e-9))),
    Subject("erfcx", lambda x: mp.exp(x * x) * mp.erfc(x), one((-5, 0), (0, 3), (3, 30), (26, 1e4))),
    Subject("ndtr", mp.ncdf, one((-1, 1), (-8, 8), (-30, -8))),
    Subject("log_ndtr", log_of_normal, one((-2, 1), (0, 8), (-100, -1))),
    Subject("i0", lambda x: mp.besseli(0, x), one((-8, 8), (8, 80))),
    Subject("i1", lambda x: mp.besseli(1, x), one((-8, 8), (8, 80))),
    Subject("i0e", lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), one((-8, 8), (8, 500))),
    Subject("i1e", lambda x: mp.exp(-abs(x)) * mp.besseli(1, x), one((-8, 8), (8, 500))),
    Subject("logit", lambda x: mp.log(x / (1 - x)), one((0, 1), (0.4, 0.6))),
    Subject("entr", lambda x: -x * mp.log(x), one((0, 1), (1, 10))),
    Subject("sinc", mp.sincpi, one((-1, 1), (-20, 20))),
    Subject("xlogy", lambda x, y: x * mp.log(y), (((-5, 5), (0, 5)),)),
    Subject("xlog1py", lambda x, y: x * mp.log1p(y), (((-5, 5), (-1, 5)), ((-5, 5), (-1e-3, 1e-3)))),
)


def unit(exact: Any, dtype: DType) -> Any:
    """The distance of neighbouring numbers at a result."""
    digits, least = LAST[dtype]
    return mp.ldexp(1, max(mp.frexp(exact)[1] - digits, least))


def draw(box: Box, dtype: DType, count: int, rng: np.random.Generator) -> list[Array]:
    """Numbers inside of a box."""
    found: list[Array] = []
    with np.errstate(over="ignore"):
        for low, high in box:
            inner = np.nextafter(dtype.numpy.type(low), dtype.numpy.type(high))
            found.append(np.maximum(rng.uniform(low, high, count).astype(dtype.numpy), inner))
    return found


def exact_at(subject: Subject, numbers: tuple[float, ...], got: float) -> Any:
    """The exact value; infinity where it is none, and where the function must not be finite."""
    try:
        exact = subject.exact(*map(mpmath.mpf, numbers))
    except (ValueError, ZeroDivisionError):  # at a pole
        exact = mp.nan
    if mpmath.isfinite(exact):
        return exact
    assert not np.isfinite(got), (subject.name, numbers, got)
    return mp.inf


def worst(subject: Subject, dtype: DType, count: int, seed: int = 1) -> tuple[float, tuple[float, ...]]:
    """The largest error found, and where."""
    rng = np.random.default_rng(seed)
    largest, place = 0.0, ()
    for box in subject.boxes:
        args = draw(box, dtype, count, rng)
        got = evaluate(subject.name, dtype, *args)
        with mpmath.workprec(DIGITS):
            for i, numbers in enumerate(zip(*(a.astype(np.float64).tolist() for a in args), strict=True)):
                if not np.isfinite(numbers).all():
                    continue
                exact = exact_at(subject, numbers, float(got[i]))
                if abs(exact) > float(ml_dtypes.finfo(dtype.numpy).max):
                    continue
                size = max(abs(exact), subject.least) if subject.least >= 1 else abs(exact)
                if size == 0 or size < subject.least:
                    continue
                error = float(abs(mpmath.mpf(float(got[i])) - exact) / unit(size, dtype))
                if not error <= largest:
                    largest, place = error, numbers
    return largest, place
