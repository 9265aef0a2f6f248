"""Rows of the special functions, against SciPy's in float64; `tests/kernel/special` measures their accuracy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special as sp
import scipy.stats

from nacre.base.dtypes import FLOATS, DType
from nacre.ops import special
from nacre.ops.special.drawn import drawn
from ops.row import Inputs, Row, normal, uniform
from ops.samples import Array, Arrays

S = (5, 3)
ULPS = 2000  # in float64; the errors of SciPy's functions, too
POSITIVE, UNIT, INNER = uniform(0.5, 5.0, S), uniform(0.05, 0.95, S), uniform(-0.9, 0.9, S)
PAIR = uniform(0.5, 5.0, S, S)


def by_scipy(f: Callable[..., Array]) -> Callable[..., Array]:
    """A function of float64 arrays, rounded to the operands' dtype; NaN where an operand is."""

    def reference(*xs: Array) -> Array:
        with np.errstate(all="ignore"):
            y = np.asarray(f(*(x.astype(np.float64) for x in xs)))
            unknown = np.any([np.isnan(x.astype(np.float64)) for x in xs], axis=0)
            return np.where(unknown, np.nan, y).astype(xs[0].dtype)

    return reference


def points(count: int, *more: float) -> Inputs:
    """Some edge cases and random numbers; the others are the subject of the tests of accuracy."""

    def make(dtype: DType, rng: np.random.Generator) -> list[Arrays]:
        edges = np.array([0.0, 1.0, 0.5, 2.0, np.nan, *more]).astype(dtype.numpy)
        pairs = [g.ravel() for g in np.meshgrid(*[edges] * count)]
        drawn = [np.asarray(rng.uniform(0.1, 4.0, 40)).astype(dtype.numpy) for _ in range(count)]
        return [tuple(pairs), tuple(drawn), tuple(d[:0] for d in drawn), tuple(d[0] for d in drawn)]

    return make


def row(name: str, f: Callable[..., Any], smooth: Any, count: int, *more: float, **changed: Any) -> Row:
    """A row of one function."""
    active = changed.pop("active", tuple(range(count)))
    ulps = changed.pop("ulps", ULPS)
    return Row(
        name,
        getattr(special, name),
        by_scipy(f),
        points(count, *more),
        FLOATS,
        ulps,
        active,
        smooth if active else None,
    )


def lgamma(x: Array) -> Array:
    """C's lgamma, which is +∞ at −∞."""
    return np.where(np.isneginf(x), np.inf, sp.gammaln(x))


def density(a: Array, x: Array) -> Array:
    """The density of the gamma distribution; 0 for a = 0, where it has all weight at 0."""
    y = scipy.stats.gamma.pdf(x, a)
    ends = (a == 0) | np.isinf(a) | np.isinf(x)
    return np.where(ends, 0.0, y)


def slope(a: Array, x: Array) -> Array:
    """The derivative of the lower function by a, by differences; the tests of accuracy have exact numbers."""
    step = 1e-5 * a
    y = (sp.gammainc(a + step, x) - sp.gammainc(a - step, x)) / np.where(a == 0, np.nan, 2 * step)
    return np.where((a == 0) & (x > 0), 0.0, np.where(x == 0, y * 0, y))


def of_beta(a: Array, b: Array, x: Array) -> Array:
    """The density of the beta distribution; NaN outside of its domain."""
    return np.where((a > 0) & (b > 0) & (x >= 0) & (x <= 1), scipy.stats.beta.pdf(x, a, b), np.nan)


def smooth_beta(rng: np.random.Generator) -> Arrays:
    """Operands of the incomplete beta function."""
    return rng.uniform(0.5, 5.0, S), rng.uniform(0.5, 5.0, S), rng.uniform(0.05, 0.95, S)


ROWS = [
    row("lgamma", lgamma, POSITIVE, 1, -0.0, -1.0, -1.5, np.inf, -np.inf),
    row("gamma", sp.gamma, POSITIVE, 1, -0.0, -1.0, -1.5, np.inf, -np.inf),
    row("digamma", sp.digamma, POSITIVE, 1, -0.0, -1.0, -1.5, np.inf, -np.inf),
    row("zeta", sp.zeta, uniform(1.5, 6.0, S, S), 2, 3.0, active=(1,)),
    row("betaln", sp.betaln, PAIR, 2, 20.0),
    row("gammainc", sp.gammainc, PAIR, 2, 30.0, active=(1,)),
    row("gammaincc", sp.gammaincc, PAIR, 2, 30.0, active=(1,)),
    row("gammainc_slope", slope, PAIR, 2, active=(1,), ulps=3e9),
    row("gamma_density", density, PAIR, 2, 30.0, np.inf),
    Row("drawn-von_mises", lambda *xs: drawn("von_mises", *xs), lambda x, k: x, points(2), FLOATS),
    Row("drawn-poisson", lambda *xs: drawn("poisson", *xs), lambda x, rate: x, points(2), FLOATS),
    Row("implicit_gamma", special.implicit_gamma, lambda a, x: x, points(2), FLOATS),
    row("betainc", sp.betainc, smooth_beta, 3, 30.0, active=(2,)),
    row("beta_density", of_beta, smooth_beta, 3, 30.0),
    row("erfinv", sp.erfinv, INNER, 1, -0.0, -1.0, -1.5),
    row("erfcinv", sp.erfcinv, uniform(0.2, 1.8, S), 1, 1e-3, -1.5),
    row("erfcx", sp.erfcx, normal(S), 1, -2.0, np.inf),
    row("ndtr", sp.ndtr, normal(S), 1, -3.0, np.inf, -np.inf),
    row("log_ndtr", sp.log_ndtr, normal(S), 1, -3.0, -30.0, -np.inf),
    *(row(name, getattr(sp, name), normal(S), 1, -3.0, -0.0, 9.0) for name in ("i0", "i0e", "i1", "i1e")),
    row("logit", sp.logit, UNIT, 1, -1.0, 1e-3),
    row("entr", sp.entr, POSITIVE, 1, -1.0, np.inf),
    row("sinc", lambda x: np.where((x == np.rint(x)) & (x != 0), 0.0, np.sinc(x)), POSITIVE, 1, -0.5),
    row("xlogy", sp.xlogy, PAIR, 2, np.inf, -1.0),
    row("xlog1py", sp.xlog1py, PAIR, 2, np.inf, -1.0),
]
