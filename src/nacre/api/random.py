"""Counter-based random numbers: a key gives the same numbers on every machine, in every mode, for any number of
threads.

Every function takes a `key` (uint32[2], from `key` or `split`).  Without a key it takes the next key of the generator
that `seed` sets.  The generator's state is a variable, so compiled functions advance it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from nacre.api.draws.gamma import dirichlet_numbers, gamma_numbers, parameters
from nacre.api.draws.standard import (
    inside,
    keys_of,
    located,
    normals_of,
    standard_cauchy,
    standard_exponential,
    standard_gumbel,
    standard_laplace,
    standard_logistic,
    unit,
)
from nacre.api.linear_algebra import matmul
from nacre.api.operands import (
    DEFAULT_FLOAT,
    TensorLike,
    as_tensor,
    filled,
    is_scalar,
    numbers,
    scalar,
    shape_of,
    spread,
)
from nacre.api.primitives import pointwise, randomness, special, view
from nacre.api.searching import argmax
from nacre.api.sorting import argsort
from nacre.api.taking import take
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_number
from nacre.base.conversion import bounds, number
from nacre.base.dims import Dim, Size, require_fitting
from nacre.base.dtypes import DType, as_dtype, float32, float64, int64, uint32, uint64
from nacre.base.errors import ArgumentError, DTypeError
from nacre.base.lazy import LateModule
from nacre.base.locks import renewed
from nacre.interpret.evaluate import from_numpy
from nacre.interpret.randomness import THREAD as _thread
from nacre.interpret.randomness import RandomState
from nacre.trace.bind import executor
from nacre.trace.value import is_concrete

factorisations: Final[Any] = LateModule("nacre.api.linalg.factorisations")
Sizes = Size | Sequence[Size]
MOST_KEYS: Final = 1 << 16  # keys are separate tensors


def key(seed: int) -> Tensor:
    """A key made from an integer of up to 64 bits.

    >>> nc.random.key(7)
    Tensor([7, 0], u32[2])
    """
    seed = whole_number(seed, "random.key", "seed")
    if not 0 <= seed < 1 << 64:
        raise ArgumentError(f"random.key: seed must be an integer in [0, 2^64); got {seed}")
    return from_numpy(np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint32))  # type: ignore[return-value]


def _fresh(number: int) -> Any:
    """The first key of a generator, distinct from the keys that users make from small integers."""
    params = {"shape": (2,), "dtype": uint32}
    return executor().evaluate(randomness.random_bits_p, (key(number),), params)  # numbers, even while tracing


class Generator:
    """A source of keys: a variable that holds the next one.

    >>> nc.random.Generator(0).next_key().shape
    (2,)
    """

    def __init__(self, seed: int = 0) -> None:
        self.state = RandomState(_fresh(seed), name="random")

    def seed(self, number: int) -> None:
        """Restart from a seed."""
        self.state.assign(_fresh(number))

    def next_key(self) -> Tensor:
        """The next key; keys repeat after 2^32 calls.

        Inside `vmap`, `randomness` selects one key for all examples or one for each.  Raises StateError if it selects
        neither.
        """
        with _drawing():
            return self.state.take()  # type: ignore[return-value]


_generators: list[Generator] = []
_drawing = renewed()  # so that no two threads get the same key, or create a generator


def generator() -> Generator:
    """The generator of functions called without a key; while a `DataLoader` makes an item, the generator of that item.

    >>> nc.random.seed(1)
    >>> first = nc.random.generator().next_key()
    >>> nc.random.seed(1)
    >>> bool(nc.all(nc.random.generator().next_key() == first))
    True
    """
    if _thread.generator is not None:
        return _thread.generator()
    if not _generators:
        with _drawing():
            if not _generators:
                _generators.append(Generator(0))
    return _generators[0]


def seed(number: int) -> None:
    """Restart the generator; the same seed gives the same numbers.

    >>> nc.random.seed(0)
    """
    generator().seed(number)


def _key(given: TensorLike | None) -> Any:
    held = generator().next_key() if given is None else as_tensor(given)
    if held.type.dtype is not uint32 or held.type.shape != (2,):
        raise DTypeError(f"random: key must have type u32[2]; got {held.type}; make one with nacre.random.key")
    return held


def split(key: TensorLike, count: int = 2) -> tuple[Tensor, ...]:
    """Independent keys derived from a key, which should not be used again.

    >>> len(nc.random.split(nc.random.key(0), 3))
    3
    """
    if not 0 <= count <= MOST_KEYS:
        raise ArgumentError(
            f"random.split: count must be between 0 and {MOST_KEYS}; got {count}; write "
            "nacre.random.bits((count, 2), key=key) for keys as the rows of one tensor"
        )
    return keys_of(_key(key), count)


def bits(shape: Sizes, dtype: Any = uint32, key: TensorLike | None = None) -> Tensor:
    """Uniformly random bits as unsigned integers.

    >>> nc.random.bits((2,), key=nc.random.key(0)).dtype
    nacre.uint32
    """
    return randomness.random_bits(_key(key), shape_of(shape, "random.bits"), as_dtype(dtype))


def _real(dtype: Any, operation: str) -> DType:
    found = DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    if not found.is_float:
        raise DTypeError(f"{operation}: dtype must be floating-point; got {found.name}")
    return found


def uniform(
    shape: Sizes = (), low: float = 0.0, high: float = 1.0, dtype: Any = None, key: TensorLike | None = None
) -> Tensor:
    """Numbers uniformly distributed in [low, high).

    >>> nc.random.uniform((3,), key=nc.random.key(0)).shape
    (3,)
    """
    if low >= high:
        raise ArgumentError(
            f"random.uniform: low must be less than high; got {low} and {high}; the shape is the first argument"
        )
    found = _real(dtype, "random.uniform")
    drawn = unit(shape_of(shape, "random.uniform"), found, _key(key))
    if low == 0.0 and high == 1.0:
        return drawn
    drawn = pointwise.fma(drawn, filled(drawn, float(high) - float(low)), filled(drawn, float(low)))
    below = np.nextafter(np.array(high, found.numpy), np.array(low, found.numpy))
    return pointwise.minimum(drawn, filled(drawn, float(below)))


def normal(
    shape: Sizes = (), mean: float = 0.0, std: float = 1.0, dtype: Any = None, key: TensorLike | None = None
) -> Tensor:
    """Normally distributed numbers (Box and Muller 1958).

    >>> nc.random.normal((3,), key=nc.random.key(0)).shape
    (3,)
    """
    found = _real(dtype, "random.normal")
    result = normals_of(shape_of(shape, "random.normal"), found.arithmetic, _key(key))
    if mean != 0.0 or std != 1.0:
        result = pointwise.fma(result, filled(result, float(std)), filled(result, float(mean)))
    return as_tensor(result, found)


def bernoulli(p: TensorLike = 0.5, shape: Sizes | None = None, key: TensorLike | None = None) -> Tensor:
    """Bools that are True with probability p; the shape defaults to that of p.

    >>> nc.random.bernoulli(1.0, (2,), key=nc.random.key(0))
    Tensor([ True,  True], bool[2])
    """
    chance = as_tensor(p)
    sizes = chance.type.shape if shape is None else shape_of(shape, "random.bernoulli")
    if is_concrete(chance):
        listed = numbers(chance, "random.bernoulli")
        outside = listed[~((listed >= 0) & (listed <= 1))]
        if outside.size:
            raise ArgumentError(
                f"random.bernoulli: p must be in [0, 1]; got {outside[0]}; clip it, or take sigmoid of logits"
            )
    drawn = unit(sizes, float32, _key(key))
    return pointwise.lt(drawn, spread(as_tensor(chance, float32), sizes))


def _located(
    operation: str,
    standard: Callable[[Any, DType, Any], Any],
    shape: Sizes,
    loc: TensorLike,
    scale: TensorLike,
    dtype: Any,
    key: TensorLike | None,
) -> Tensor:
    """loc + scale · x for numbers x of a standard distribution."""
    found = _real(dtype, operation)
    drawn = standard(shape_of(shape, operation), found.arithmetic, _key(key))
    return located(drawn, loc, scale, found)


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

    Raises ArgumentError if low is not less than high.

    >>> nc.random.truncated_normal(-2.0, 2.0, (3,), key=nc.random.key(0)).shape
    (3,)
    """
    if not low < high:
        raise ArgumentError(f"random.truncated_normal: low must be less than high; got {low} and {high}")
    found = _real(dtype, "random.truncated_normal")
    mirrored = low > 0  # there, the distribution function is close to 1
    start, end = (-high, -low) if mirrored else (low, high)
    below, above = (0.5 * math.erfc(-x / math.sqrt(2.0)) for x in (start, end))
    drawn = inside(shape_of(shape, "random.truncated_normal"), float64, _key(key))
    chance = pointwise.fma(drawn, filled(drawn, above - below), filled(drawn, below))
    quantile = special.erfcinv(pointwise.mul(chance, filled(chance, 2.0)))
    result = pointwise.mul(quantile, filled(quantile, math.sqrt(2.0) * (1.0 if mirrored else -1.0)))
    result = pointwise.maximum(pointwise.minimum(result, filled(result, float(high))), filled(result, float(low)))
    return as_tensor(result, found)


def categorical(logits: TensorLike, shape: Sizes = (), key: TensorLike | None = None) -> Tensor:
    """Classes, drawn with the probabilities softmax(logits) of the last axis, by the maximum of Gumbel numbers.

    The logits have shape [..., classes], and the result [*shape, ...] of int64.

    >>> nc.random.categorical(nc.tensor([-nc.inf, 0.0]), (2,), key=nc.random.key(0))
    Tensor([1, 1], i64[2])
    """
    held = as_tensor(logits)
    if not held.type.dtype.is_float or not held.type.shape:
        raise DTypeError(
            f"random.categorical: logits must be floats with an axis; got {held.type}; take log of probabilities"
        )
    wide = held.type.dtype.arithmetic
    sizes = (*shape_of(shape, "random.categorical"), *held.type.shape)
    noise = standard_gumbel(sizes, wide, _key(key))
    return argmax(pointwise.add(spread(as_tensor(held, wide), sizes), noise), axis=-1)


def permutation(x: TensorLike, axis: int = 0, key: TensorLike | None = None) -> Tensor:
    """The integers below x in random order, or a tensor's slices along an axis in random order.

    >>> nc.random.permutation(3, key=nc.random.key(0)).shape
    (3,)
    """
    if is_scalar(x):
        count = whole_number(x, "random.permutation", "x")
        if count < 0:
            raise ArgumentError(f"random.permutation: x must be at least 0; got {count}")
        return _order(count, key)
    held = as_tensor(x)
    if not held.type.shape:
        raise ArgumentError(f"random.permutation: a tensor must have an axis; got {held.type}; write int(x)")
    axis = range(len(held.type.shape))[axis]
    return take(held, _order(held.type.shape[axis], key), axis=axis)


def _order(count: Size, key: TensorLike | None) -> Tensor:
    return argsort(randomness.random_bits(_key(key), (count,), uint64))


def choice(
    x: TensorLike,
    shape: Sizes = (),
    replace: bool = True,
    p: TensorLike | None = None,
    key: TensorLike | None = None,
) -> Tensor:
    """Integers below x, or a tensor's rows, drawn with equal probabilities or those of the vector p.

    Without `replace` nothing is drawn twice.

    >>> nc.random.choice(nc.tensor([5.0, 5.0]), (2,), key=nc.random.key(0))
    Tensor([5., 5.], f32[2])
    """
    held = None if is_scalar(x) else as_tensor(x)
    count = whole_number(x, "random.choice", "x") if held is None else held.type.shape[0] if held.type.shape else 0
    sizes = shape_of(shape, "random.choice")
    total = math.prod(sizes)
    if count <= 0 or (not replace and total > count):
        raise ArgumentError(
            f"random.choice: x must have at least {1 if replace else total} rows; got {count}; "
            "write replace=True to draw rows several times"
        )
    if p is None:
        drawn = randint(0, count, sizes, key=key) if replace else view.reshape(_order(count, key)[:total], sizes)
        return drawn if held is None else take(held, drawn, axis=0)
    chances = as_tensor(p)
    if not chances.type.dtype.is_float or chances.type.shape != (count,):
        raise DTypeError(f"random.choice: p must be {count} floats; got {chances.type}")
    logits = pointwise.log(as_tensor(chances, chances.type.dtype.arithmetic))
    if replace:
        drawn = categorical(logits, sizes, key)
    else:
        noisy = pointwise.add(logits, standard_gumbel((count,), logits.type.dtype, _key(key)))
        drawn = view.reshape(argsort(noisy, descending=True)[:total], sizes)
    return drawn if held is None else take(held, drawn, axis=0)


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


def gamma(a: TensorLike, shape: Sizes | None = None, key: TensorLike | None = None) -> Tensor:
    """Numbers of the gamma distribution with the parameter a and scale 1; the shape defaults to that of a.

    The gradient by a is the implicit one (Figurnov et al. 2018).  In compiled code, parameters that are not positive
    give NaN.  Source: Marsaglia and Tsang, ACM TOMS 26 (2000).

    >>> nc.random.gamma(2.0, (3,), key=nc.random.key(0)).shape
    (3,)
    """
    (held,), dtype = parameters("random.gamma", shape, a)
    return as_tensor(gamma_numbers(held, _key(key)), dtype)


def beta(a: TensorLike, b: TensorLike, shape: Sizes | None = None, key: TensorLike | None = None) -> Tensor:
    """Numbers of the beta distribution, x / (x + y) of two of the gamma distribution, with gradients by a and b.

    >>> nc.random.beta(2.0, 3.0, (3,), key=nc.random.key(0)).shape
    (3,)
    """
    held, dtype = parameters("random.beta", shape, a, b)
    x, y = (gamma_numbers(p, k) for p, k in zip(held, split(_key(key)), strict=True))
    return as_tensor(pointwise.div(x, pointwise.add(x, y)), dtype)


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
    return as_tensor(dirichlet_numbers(held, _key(key)), dtype)


def student_t(df: TensorLike, shape: Sizes | None = None, key: TensorLike | None = None) -> Tensor:
    """Numbers of Student's t distribution with df degrees of freedom, which have a gradient.

    >>> nc.random.student_t(4.0, (3,), key=nc.random.key(0)).shape
    (3,)
    """
    (held,), dtype = parameters("random.student_t", shape, df)
    first, second = split(_key(key))
    half = pointwise.mul(held, filled(held, 0.5))
    drawn = normals_of(held.type.shape, held.type.dtype, first)
    ratio = pointwise.div(half, gamma_numbers(half, second))
    return as_tensor(pointwise.mul(drawn, pointwise.sqrt(ratio)), dtype)


def randint(low: Size, high: Size, shape: Sizes = (), dtype: Any = int64, key: TensorLike | None = None) -> Tensor:
    """Integers uniformly distributed in [low, high), from the high half of a product; the bias is below (high − low) /
    2^32.

    >>> nc.random.randint(5, 6, (2,), key=nc.random.key(0))
    Tensor([5, 5], i64[2])
    """
    span = high - low
    if not 0 < span <= 1 << 32:
        raise ArgumentError(
            f"random.randint: low must be less than high, and high - low at most 2^32; got {low} and {high}"
        )
    found = as_dtype(dtype)
    for end in (low, high - 1):
        if isinstance(end, Dim):
            require_fitting(end, *bounds(found))
        else:
            number(end, found, "random.randint")
    drawn = pointwise.cast(randomness.random_bits(_key(key), shape_of(shape, "random.randint"), uint32), uint64)
    scaled = pointwise.shr(pointwise.mul(drawn, _everywhere(drawn, span)), filled(drawn, 32))
    moved = scaled if found is uint64 else pointwise.cast(scaled, int64)
    return as_tensor(pointwise.add(moved, _everywhere(moved, low)), found)


def _everywhere(x: Any, value: Size) -> Any:
    """A number or a size in every element of a tensor like x."""
    return spread(scalar(value, x.type.dtype), x.type.shape) if isinstance(value, Dim) else filled(x, value)
