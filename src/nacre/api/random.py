"""Counter-based random numbers: a key gives the same numbers on every machine, in every mode, for any number of
threads.

Every function takes a `key` (uint32[2], from `key` or `split`).  Without a key it takes the next key of the generator
that `seed` sets.  The generator's state is a variable, so compiled functions advance it too.
"""

from nacre.api.draws.continuous import (
    beta,
    cauchy,
    dirichlet,
    exponential,
    gamma,
    gumbel,
    laplace,
    logistic,
    multivariate_normal,
    normal,
    student_t,
    truncated_normal,
    uniform,
    von_mises,
)
from nacre.api.draws.discrete import (
    bernoulli,
    binomial,
    categorical,
    choice,
    geometric,
    multinomial,
    permutation,
    poisson,
    randint,
)
from nacre.api.draws.keys import Generator, bits, generator, key, seed, split

__all__ = [
    "Generator",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "choice",
    "dirichlet",
    "exponential",
    "gamma",
    "generator",
    "geometric",
    "gumbel",
    "key",
    "laplace",
    "logistic",
    "multinomial",
    "multivariate_normal",
    "normal",
    "permutation",
    "poisson",
    "randint",
    "seed",
    "split",
    "student_t",
    "truncated_normal",
    "uniform",
    "von_mises",
]
