"""The distributions of `nacre.random` with their laws by SciPy, and how far draws are from these.

As a program, it prints the statistics of many draws, ten million by default::

    PYTHONPATH=src:tests python tests/api/draws/laws.py [MILLIONS [NAME ...]]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.stats

import nacre as nc

Array = npt.NDArray[Any]
R = nc.random
BATCH = 1_000_000


@dataclass(frozen=True)
class Subject:
    """A distribution: `draw(shape, dtype, key)`, and its law.

    `rounded` says that the numbers of a half type are those of float32, rounded.
    """

    draw: Callable[..., Any]
    law: Any
    rounded: bool = True


def by_shape(f: Callable[..., Any], law: Any) -> Subject:
    """A function that takes a shape and a dtype."""
    return Subject(lambda shape, dtype=None, key=None: f(shape, dtype=dtype, key=key), law)


def by_parameters(f: Callable[..., Any], parameters: tuple[float, ...], law: Any) -> Subject:
    """A function whose result has the dtype of its parameters."""
    first, *rest = parameters

    def draw(shape: Any, dtype: Any = None, key: Any = None) -> Any:
        return f(nc.tensor(first, dtype=dtype), *rest, shape=shape, key=key)

    return Subject(draw, law, rounded=False)


def _part_of_dirichlet(shape: Any, dtype: Any = None, key: Any = None) -> Any:
    return R.dirichlet(nc.tensor([1.0, 2.0, 5.0], dtype=dtype), shape, key=key)[:, 1]


def _along_a_line(shape: Any, dtype: Any = None, key: Any = None) -> Any:
    covariance = nc.tensor([[2.0, 0.6], [0.6, 1.0]], dtype=dtype)
    return R.multivariate_normal(nc.tensor([1.0, -2.0], dtype=dtype), covariance, shape, key=key) @ nc.tensor(
        [1.0, 1.0], dtype=dtype
    )


st = scipy.stats
CHANCES = (0.1, 0.2, 0.65, 0.05)
CLASSES = st.rv_discrete(values=(range(4), CHANCES))
CONTINUOUS = {
    "uniform": Subject(lambda s, dtype=None, key=None: R.uniform(s, dtype=dtype, key=key), st.uniform, rounded=False),
    "uniform in bounds": Subject(
        lambda s, dtype=None, key=None: R.uniform(s, nc.tensor(-2.0), nc.tensor(5.0), dtype=dtype, key=key),
        st.uniform(-2, 7),
        rounded=False,
    ),
    "normal": by_shape(R.normal, st.norm),
    "normal with parameters": by_shape(lambda s, **k: R.normal(s, nc.tensor(3.0), 0.5, **k), st.norm(3.0, 0.5)),
    "exponential": by_shape(R.exponential, st.expon),
    "laplace": by_shape(R.laplace, st.laplace),
    "logistic": by_shape(R.logistic, st.logistic),
    "gumbel": by_shape(R.gumbel, st.gumbel_r),
    "cauchy": by_shape(R.cauchy, st.cauchy),
    "truncated_normal": by_shape(lambda *a, **k: R.truncated_normal(-1.0, 2.5, *a, **k), st.truncnorm(-1.0, 2.5)),
    "upper tail": by_shape(lambda *a, **k: R.truncated_normal(6.0, 9.0, *a, **k), st.truncnorm(6.0, 9.0)),
    "gamma": by_parameters(R.gamma, (2.5,), st.gamma(2.5)),
    "small gamma": by_parameters(R.gamma, (0.3,), st.gamma(0.3)),
    "beta": by_parameters(R.beta, (2.0, 0.7), st.beta(2.0, 0.7)),
    "student_t": by_parameters(R.student_t, (4.0,), st.t(4.0)),
    "von_mises": by_parameters(R.von_mises, (0.0, 2.0), st.vonmises(2.0)),
    "narrow von_mises": by_parameters(R.von_mises, (0.0, 1e4), st.vonmises(1e4)),
    "dirichlet": Subject(_part_of_dirichlet, st.beta(2.0, 6.0), rounded=False),
    "multivariate_normal": Subject(_along_a_line, st.norm(-1.0, np.sqrt(4.2)), rounded=False),
    "uniform angle": by_parameters(R.von_mises, (0.0, 0.0), st.uniform(-np.pi, 2 * np.pi)),
}
COUNTS = {
    "poisson, searched": Subject(lambda s, **k: R.poisson(3.5, s, **k), st.poisson(3.5)),
    "poisson at the limit": Subject(lambda s, **k: R.poisson(10.0, s, **k), st.poisson(10.0)),
    "poisson, proposed": Subject(lambda s, **k: R.poisson(61.3, s, **k), st.poisson(61.3)),
    "poisson, large": Subject(lambda s, **k: R.poisson(3e7, s, **k), st.poisson(3e7)),
    "binomial, searched": Subject(lambda s, **k: R.binomial(12, 0.3, s, **k), st.binom(12, 0.3)),
    "binomial at the limit": Subject(lambda s, **k: R.binomial(20, 0.5, s, **k), st.binom(20, 0.5)),
    "binomial, proposed": Subject(lambda s, **k: R.binomial(200, 0.37, s, **k), st.binom(200, 0.37)),
    "binomial, likely": Subject(lambda s, **k: R.binomial(10**8, 0.98, s, **k), st.binom(10**8, 0.98)),
    "class of multinomial": Subject(
        lambda s, **k: R.multinomial(40, nc.tensor(CHANCES), s, **k)[..., 1], st.binom(40, CHANCES[1])
    ),
    "geometric": Subject(lambda s, **k: R.geometric(0.15, s, **k), st.geom(0.15)),
    "randint": Subject(lambda s, **k: R.randint(-3, 8, s, **k), st.randint(-3, 8)),
    "bernoulli": Subject(lambda s, dtype=None, key=None: R.bernoulli(0.3, s, key=key), st.bernoulli(0.3)),
    "categorical": Subject(
        lambda s, dtype=None, key=None: R.categorical(nc.log(nc.tensor(CHANCES)), s, key=key), CLASSES
    ),
    "choice": Subject(lambda s, dtype=None, key=None: R.choice(4, s, p=nc.tensor(CHANCES), key=key), CLASSES),
    "first of permutations": Subject(
        lambda s, dtype=None, key=None: nc.vmap(lambda k: R.permutation(5, key=k)[0])(R.bits((*s, 2), key=key)),
        st.randint(0, 5),
    ),
}


def drawn(subject: Subject, count: int, dtype: nc.DType, first: int = 0) -> Array:
    """Many numbers, in batches with a key each."""
    sizes = [BATCH] * (count // BATCH) + [count % BATCH] * (count % BATCH > 0)
    parts = [subject.draw((n,), dtype=dtype, key=R.key(first + k)).numpy() for k, n in enumerate(sizes)]
    return np.concatenate(parts).astype(np.float64)


def distance(numbers: Array, law: Any) -> float:
    """The statistic of Kolmogorov and Smirnov, times the root of the count; above 1.95 once in a thousand draws."""
    ordered = np.sort(numbers)
    n = len(ordered)
    chances = law.cdf(ordered)
    return float(np.sqrt(n) * max(np.max(np.arange(1, n + 1) / n - chances), np.max(chances - np.arange(n) / n)))


def chi_squared(numbers: Array, law: Any, classes: int = 60) -> float:
    """The statistic of Pearson for classes of counts, as deviations of the normal distribution."""
    low, high = law.ppf(1e-4), law.ppf(1 - 1e-4)
    edges = np.arange(low, high + 1, max(1, (high - low) // classes))
    wanted = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]])) * len(numbers)
    found = np.bincount(np.searchsorted(edges, numbers), minlength=len(wanted))
    full = wanted > 5
    assert not found[wanted == 0].any()
    statistic = ((found - wanted)[full] ** 2 / wanted[full]).sum()
    return float(st.norm.isf(st.chi2.sf(statistic, full.sum() - 1)))


def deviations(numbers: Array, law: Any) -> Iterator[tuple[str, float]]:
    """How far mean and variance are from those of the law, in their standard errors, where the law has moments."""
    mean, variance, excess = (float(m) for m in law.stats(moments="mvk"))
    if not np.isfinite(mean) or not np.isfinite(variance):
        return
    yield "mean", (numbers.mean() - mean) / np.sqrt(variance / len(numbers))
    if np.isfinite(excess):
        error = variance * np.sqrt((excess + 2) / len(numbers))
        yield "variance", (((numbers - mean) ** 2).mean() - variance) / error


def main(count: int, names: Sequence[str]) -> None:
    """Print the table, of the distributions that are named or of all."""
    print(f"{count} draws: the statistics of Kolmogorov and Smirnov, or of Pearson, and deviations of moments")
    for table, dtype, measure in ((CONTINUOUS, nc.float64, distance), (COUNTS, nc.int64, chi_squared)):
        for name in [n for n in table if not names or n in names]:
            subject = table[name]
            numbers = drawn(subject, count, dtype)
            moments = "  ".join(f"{moment} {size:+.2f}" for moment, size in deviations(numbers, subject.law))
            print(f"{name:24} {measure(numbers, subject.law):6.2f}  {moments}", flush=True)


if __name__ == "__main__":
    main(int(float(sys.argv[1]) * 1e6) if sys.argv[1:] else 10_000_000, sys.argv[2:])
