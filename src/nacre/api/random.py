"""Counter-based random numbers: a key gives the same numbers on every machine, in every mode, for any number of
threads.

Every function takes a `key` (uint32[2], from `key` or `split`).  Without a key it takes the next key of the generator
that `seed` sets.  The generator's state is a variable, so compiled functions advance it too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nacre.api.operands import DEFAULT_FLOAT, TensorLike, as_tensor, filled, numbers, scalar, shape_of, spread
from nacre.api.primitives import pointwise, randomness, view
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_number
from nacre.base.conversion import bounds, number
from nacre.base.dims import Dim, Size, require_fitting
from nacre.base.dtypes import DType, as_dtype, float32, float64, int64, uint32, uint64
from nacre.base.errors import ArgumentError, DTypeError
from nacre.base.locks import renewed
from nacre.interpret.evaluate import from_numpy
from nacre.interpret.randomness import THREAD as _thread
from nacre.interpret.randomness import RandomState
from nacre.trace.bind import executor
from nacre.trace.value import is_concrete

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
    drawn = randomness.random_bits(_key(key), (count, 2), uint32)
    rows = (view.slice_(drawn, (k, 0), (k + 1, 2), (1, 1)) for k in range(count))
    return tuple(view.reshape(row, (2,)) for row in rows)


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


_PRECISION: Final = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


def _unit(shape: Any, dtype: DType, held: Any) -> Any:
    """Numbers in [0, 1): as many leading random bits as the fraction has, times a power of two."""
    precision = _PRECISION[dtype.name]
    drawn = randomness.random_bits(held, shape, uint64 if dtype is float64 else uint32)
    top = pointwise.shr(drawn, filled(drawn, drawn.type.dtype.bits - precision))
    number = pointwise.cast(top, dtype)
    return pointwise.mul(number, filled(number, 2.0**-precision))


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
    drawn = _unit(shape_of(shape, "random.uniform"), found, _key(key))
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
    wide = float64 if found is float64 else float32
    sizes = shape_of(shape, "random.normal")
    drawn = _unit((2, *sizes), wide, _key(key))
    first, second = (
        view.reshape(view.slice_(drawn, (k, *(0 for _ in sizes)), (k + 1, *sizes), (1,) * (len(sizes) + 1)), sizes)
        for k in (0, 1)
    )
    above_zero = pointwise.sub(filled(first, 1.0), first)
    radius = pointwise.sqrt(pointwise.mul(filled(first, -2.0), pointwise.log(above_zero)))
    result = pointwise.mul(radius, pointwise.cos(pointwise.mul(second, filled(second, 2 * math.pi))))
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
    drawn = _unit(sizes, float32, _key(key))
    return pointwise.lt(drawn, spread(as_tensor(chance, float32), sizes))


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
