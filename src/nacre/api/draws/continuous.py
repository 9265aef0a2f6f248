"""Distributions of real numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nacre.api.draws.circular import angles, wrapped
from nacre.api.draws.gamma import beta_numbers, dirichlet_numbers, gamma_numbers
from nacre.api.draws.keys import Sizes, key_of, split
from nacre.api.draws.parameters import parameters, require
from nacre.api.draws.standard import (
    everywhere,
    inside,
    located,
    normals_of,
    standard_cauchy,
    standard_exponential,
    standard_gumbel,
    standard_laplace,
    standard_logistic,
    unit,
)
from nacre.api.elementwise.apply import of_tensors
from nacre.api.linear_algebra import matmul
from nacre.api.operands import (
    DEFAULT_FLOAT,
    TensorLike,
    as_tensor,
    filled,
    operands,
    settled_number,
    shape_of,
    spread,
)
from nacre.api.primitives import pointwise, special, view
from nacre.api.tensor import Tensor
from nacre.base.dtypes import DType, as_dtype, float64
from nacre.base.errors import ArgumentError, DTypeError
from nacre.base.lazy import LateModule
from nacre.base.types import Shape

factorisations: Final[Any] = LateModule("nacre.api.linalg.factorisations")
LEAST_PROBABILITY: Final = 1e-300


def _real(dtype: Any, operation: str) -> DType:
    found = DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    if not found.is_float:
        raise DTypeError(f"{operation}: dtype must be floating-point; got {found.name}")
    return found


def uniform(
    shape: Sizes = (), low: TensorLike = 0.0, high: TensorLike = 1.0, dtype: Any = None, key: TensorLike | None = None
) -> Tensor:
    """Numbers uniformly distributed in [low, high), which have gradients by both bounds.

    Raises ArgumentError if low is not less than high; compiled code, which does not read bounds that are tensors,
    gives numbers of no meaning then.

    >>> nc.random.uniform((3,), key=nc.random.key(0)).shape
    (3,)
    """
    found = _real(dtype, "random.uniform")
    sizes = shape_of(shape, "random.uniform")
    if not isinstance(low, int | float) or not isinstance(high, int | float):
        return _between(sizes, as_tensor(low, found.arithmetic), as_tensor(high, found.arithmetic), found, key)
    if not low < high:
        raise ArgumentError(
            f"random.uniform: low must be less than high; got {low} and {high}; the shape is the first argument"
        )
    drawn = unit(sizes, found, key_of(key))
    if low == 0.0 and high == 1.0:
        return drawn
    drawn = pointwise.fma(drawn, filled(drawn, float(high) - float(low)), filled(drawn, float(low)))
    below = np.nextafter(np.array(high, found.numpy), np.array(low, found.numpy))
    return pointwise.minimum(drawn, filled(drawn, float(below)))


def _between(sizes: Shape, low: Any, high: Any, dtype: DType, key: TensorLike | None) -> Tensor:
    """Numbers between bounds that are tensors; those that are rounded to the upper bound are the lower one."""
    start, end = operands("random.uniform", low, high)
    span = pointwise.sub(end, start)
    require("random.uniform", "low must be less than high; the difference must be positive", span, lambda d: d > 0)
    drawn = unit(sizes, dtype, key_of(key))
    drawn = as_tensor(drawn, dtype.arithmetic)
    drawn = as_tensor(pointwise.fma(drawn, everywhere(span, drawn), everywhere(start, drawn)), dtype)
    inner = pointwise.lt(drawn, everywhere(end, drawn))
    return pointwise.select(inner, drawn, everywhere(start, drawn))


def normal(
    shape: Sizes = (), mean: TensorLike = 0.0, std: TensorLike = 1.0, dtype: Any = None, key: TensorLike | None = None
) -> Tensor:
    """Normally distributed numbers (Box and Muller 1958), which have gradients by the mean and the deviation.

    Raises ArgumentError if a deviation is negative; compiled code, which does not read deviations that are tensors,
    gives mirrored numbers then.

    >>> nc.random.normal((3,), key=nc.random.key(0)).shape
    (3,)
    """
    return _located("random.normal", normals_of, shape, mean, std, dtype, key, "std")


def _located(
    operation: str,
    standard: Callable[[Any, DType, Any], Any],
    shape: Sizes,
    loc: TensorLike,
    scale: TensorLike,
    dtype: Any,
    key: TensorLike | None,
    name: str = "scale",
) -> Tensor:
    """loc + scale · x for numbers x of a standard distribution."""
    found = _real(dtype, operation)
    drawn = standard(shape_of(shape, operation), found.arithmetic, key_of(key))
    width = scale if isinstance(scale, int | float) else as_tensor(scale, found.arithmetic)
    require(operation, f"{name} must be at least 0", width, lambda listed: listed >= 0)
    return located(drawn, loc, width, found)


def exponential(shape: Sizes = (), scale: TensorLike = 1.0, dtype: Any = None, key: TensorLike | None = None) -> Tensor:
    """Exponentially distributed numbers with mean `scale`, which has a gradient.

    >>> nc.random.exponential((3,), key=nc.random.key(0)).shape
    (3,)
    """
    return _located("random.exponential", standard_exponential, shape, 0.0, scale, dtype, key)


def laplace(
    shape: Sizes = (), loc: TensorLike = 0.0, scale: TensorLike = 1.0, dtype: Any = None, key: TensorLike | None = None
) -> Tensor:
    """Numbers of the Laplace distribution: exponential ones with random signs.

    >>> nc.random.laplace((3,), key=nc.random.key(0)).shape
    (3,)
    """
    return _located("random.laplace", standard_laplace, shape, loc, scale, dtype, key)


def logistic(
    shape: Sizes = (), loc: TensorLike = 0.0, scale: TensorLike = 1.0, dtype: Any = None, key: TensorLike | None = None
) -> Tensor:
    """Numbers of the logistic distribution, log(u / (1 − u)).

    >>> nc.random.logistic((3,), key=nc.random.key(0)).shape
    (3,)
    """
    return _located("random.logistic", standard_logistic, shape, loc, scale, dtype, key)


def gumbel(
    shape: Sizes = (), loc: TensorLike = 0.0, scale: TensorLike = 1.0, dtype: Any = None, key: TensorLike | None = None
) -> Tensor:
    """Numbers of the Gumbel distribution, −log(−log u).

    >>> nc.random.gumbel((3,), key=nc.random.key(0)).shape
    (3,)
    """
    return _located("random.gumbel", standard_gumbel, shape, loc, scale, dtype, key)


def cauchy(
    shape: Sizes = (), loc: TensorLike = 0.0, scale: TensorLike = 1.0, dtype: Any = None, key: TensorLike | None = None
) -> Tensor:
    """Numbers of the Cauchy distribution, tan(π(u − ½)).

    >>> nc.random.cauchy((3,), key=nc.random.key(0)).shape
    (3,)
    """
    return _located("random.cauchy", standard_cauchy, shape, loc, scale, dtype, key)


def truncated_normal(
    low: float, high: float, shape: Sizes = (), dtype: Any = None, key: TensorLike | None = None
) -> Tensor:
    """Standard normally distributed numbers between two bounds, by the inverse of the distribution function.

    Without a bound on one side, write -37.0 or 37.0: numbers further out have a probability below 1e-299.  Raises
    ArgumentError if low is not less than high, or if both are further than 37 from 0.

    >>> nc.random.truncated_normal(-2.0, 2.0, (3,), key=nc.random.key(0)).shape
    (3,)
    """
    low, high = (settled_number(end, "random.truncated_normal", name) for name, end in (("low", low), ("high", high)))
    if not low < high:
        raise ArgumentError(f"random.truncated_normal: low must be less than high; got {low} and {high}")
    found = _real(dtype, "random.truncated_normal")
    mirrored = low > 0  # there, the distribution function is close to 1
    start, end = (-high, -low) if mirrored else (low, high)
    below, above = (0.5 * math.erfc(-x / math.sqrt(2.0)) for x in (start, end))
    if above < LEAST_PROBABILITY:
        raise ArgumentError(
            f"random.truncated_normal: an end of the interval must be within 37 of 0; got {low} and {high}; "
            f"further out, write low + nacre.random.exponential(shape, 1 / low)"
        )
    drawn = inside(shape_of(shape, "random.truncated_normal"), float64, key_of(key))
    chance = pointwise.fma(drawn, filled(drawn, above - below), filled(drawn, below))
    quantile = special.erfcinv(pointwise.mul(chance, filled(chance, 2.0)))
    result = pointwise.mul(quantile, filled(quantile, math.sqrt(2.0) * (1.0 if mirrored else -1.0)))
    result = pointwise.maximum(pointwise.minimum(result, filled(result, float(high))), filled(result, float(low)))
    return as_tensor(result, found)


def multivariate_normal(
    mean: TensorLike, covariance: TensorLike, shape: Sizes = (), key: TensorLike | None = None
) -> Tensor:
    """Normally distributed vectors [*shape, N] with a mean [N] and a covariance matrix [N, N], which have gradients.

    Raises LinAlgError if the matrix is not positive definite.

    >>> nc.random.multivariate_normal(nc.zeros(2), nc.eye(2), (3,), key=nc.random.key(0)).shape
    (3, 2)
    """
    centre, matrix = as_tensor(mean), as_tensor(covariance)
    size = centre.type.shape
    if not centre.type.dtype.is_float or len(size) != 1 or matrix.type.shape != (*size, *size):
        raise DTypeError(
            "random.multivariate_normal: mean must be floats [N], and covariance [N, N]; got "
            f"{centre.type} and {matrix.type}"
        )
    factor = factorisations.cholesky(as_tensor(matrix, centre.type.dtype))
    drawn = normal((*shape_of(shape, "random.multivariate_normal"), *size), dtype=centre.type.dtype, key=key)
    moved = matmul(drawn, view.permute(factor, (1, 0)))
    return pointwise.add(moved, spread(centre, moved.type.shape))


def _gamma(a: Any, key: Any) -> Any:
    return of_tensors("random.gamma", gamma_numbers, (a, key))


def gamma(a: TensorLike, shape: Sizes | None = None, key: TensorLike | None = None) -> Tensor:
    """Numbers of the gamma distribution with the parameter a and scale 1; the shape defaults to that of a.

    The gradient by a is the implicit one (Figurnov et al. 2018).  In compiled code, parameters that are not positive
    give NaN.  Source: Marsaglia and Tsang, ACM TOMS 26 (2000).

    >>> nc.random.gamma(2.0, (3,), key=nc.random.key(0)).shape
    (3,)
    """
    (held,), dtype = parameters("random.gamma", shape, a)
    return as_tensor(_gamma(held, key_of(key)), dtype)


def beta(a: TensorLike, b: TensorLike, shape: Sizes | None = None, key: TensorLike | None = None) -> Tensor:
    """Numbers of the beta distribution, x / (x + y) of two of the gamma distribution, with gradients by a and b.

    >>> nc.random.beta(2.0, 3.0, (3,), key=nc.random.key(0)).shape
    (3,)
    """
    held, dtype = parameters("random.beta", shape, a, b)
    return as_tensor(of_tensors("random.beta", beta_numbers, (*held, *split(key_of(key)))), dtype)


def dirichlet(a: TensorLike, shape: Sizes = (), key: TensorLike | None = None) -> Tensor:
    """Probabilities [*shape, ..., N] of the Dirichlet distribution with parameters [..., N], which have gradients.

    >>> nc.random.dirichlet(nc.ones(3), (2,), key=nc.random.key(0)).shape
    (2, 3)
    """
    vector = as_tensor(a)
    sizes = (*shape_of(shape, "random.dirichlet"), *vector.type.shape)
    if not vector.type.shape:
        raise DTypeError(f"random.dirichlet: a must have an axis; got {vector.type}; write a[None]")
    (held,), dtype = parameters("random.dirichlet", sizes, vector)
    return as_tensor(of_tensors("random.dirichlet", dirichlet_numbers, (held, key_of(key))), dtype)


def student_t(df: TensorLike, shape: Sizes | None = None, key: TensorLike | None = None) -> Tensor:
    """Numbers of Student's t distribution with df degrees of freedom, which have a gradient.

    >>> nc.random.student_t(4.0, (3,), key=nc.random.key(0)).shape
    (3,)
    """
    (held,), dtype = parameters("random.student_t", shape, df)
    first, second = split(key_of(key))
    half = pointwise.mul(held, filled(held, 0.5))
    drawn = normals_of(held.type.shape, held.type.dtype, first)
    ratio = pointwise.div(half, _gamma(half, second))
    return as_tensor(pointwise.mul(drawn, pointwise.sqrt(ratio)), dtype)


def von_mises(
    loc: TensorLike, concentration: TensorLike, shape: Sizes | None = None, key: TensorLike | None = None
) -> Tensor:
    """Angles in [−π, π] of the von Mises distribution about `loc`, with gradients by both parameters.

    A concentration of 0 gives uniform angles; the gradient by it is the implicit one (Figurnov et al. 2018).  In
    compiled code, concentrations that are negative or not finite give NaN.  Source: Best and Fisher, Appl. Stat. 28
    (1979).

    >>> nc.random.von_mises(0.0, 4.0, (3,), key=nc.random.key(0)).shape
    (3,)
    """
    (centre, kappa), dtype = parameters("random.von_mises", shape, loc, concentration, positive=False)
    require("random.von_mises", "the concentration must be at least 0 and finite", kappa, _is_concentration)
    return as_tensor(of_tensors("random.von_mises", _turned, (centre, kappa, key_of(key))), dtype)


def _is_concentration(listed: np.ndarray) -> Any:
    return (listed >= 0) & (listed <= np.finfo(listed.dtype).max / 2)


def _turned(centre: Any, kappa: Any, key: Any) -> Any:
    return wrapped(pointwise.add(centre, angles(kappa, key)))
