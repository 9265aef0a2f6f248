"""Keys, and generators of keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from nacre.api.draws.standard import keys_of
from nacre.api.operands import TensorLike, as_tensor, shape_of
from nacre.api.primitives import randomness
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_number
from nacre.base.dims import Size
from nacre.base.dtypes import as_dtype, uint32
from nacre.base.errors import ArgumentError, DTypeError
from nacre.base.hints import mark_absent
from nacre.base.locks import renewed
from nacre.base.porting.methods import GENERATOR
from nacre.interpret.evaluate import from_numpy
from nacre.interpret.randomness import THREAD as _thread
from nacre.interpret.randomness import RandomState
from nacre.trace.bind import executor

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


mark_absent(Generator, GENERATOR)
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


def key_of(given: TensorLike | None) -> Any:
    """The key that a caller gives, or the next one of the generator."""
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
    return keys_of(key_of(key), count)


def bits(shape: Sizes, dtype: Any = uint32, key: TensorLike | None = None) -> Tensor:
    """Uniformly random bits as unsigned integers.

    >>> nc.random.bits((2,), key=nc.random.key(0)).dtype
    nacre.uint32
    """
    return randomness.random_bits(key_of(key), shape_of(shape, "random.bits"), as_dtype(dtype))
