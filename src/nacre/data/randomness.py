"""The random numbers of an item: they depend on the seed, the epoch and the item's number, not on the worker."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np

from nacre.api import random
from nacre.base.errors import ArgumentError
from nacre.interpret.randomness import THREAD


class _Current(threading.local):
    def __init__(self) -> None:
        self.item: tuple[int, int, int] | None = None  # seed, epoch, number
        self.generator: np.random.Generator | None = None  # the item's, created at first use
        self.keys: random.Generator | None = None  # the generator of `nacre.random`, created at first use


_CURRENT = _Current()


def rng() -> np.random.Generator:
    """The random generator of the item that is being loaded; outside a loader, a new generator without a seed.

    Functions that a `DataLoader` calls draw from it.  Their results are then the same in every run, with any number of
    workers, and after resuming.  There, the functions of `nacre.random` without a key also draw numbers of the item.
    NumPy's and Python's global generators do not.

    >>> int(data.rng().integers(1))
    0
    """
    if _CURRENT.item is None:
        return np.random.default_rng()
    if _CURRENT.generator is None:
        seed, epoch, number = _CURRENT.item
        key = np.array([seed & 0xFFFFFFFFFFFFFFFF, (epoch & 0xFFFFFFFF) << 32 | number & 0xFFFFFFFF], np.uint64)
        _CURRENT.generator = np.random.Generator(np.random.Philox(key=key))
    return _CURRENT.generator


def _keys() -> random.Generator:
    if _CURRENT.keys is None:
        _CURRENT.keys = random.Generator(_seed_of_item())
    return _CURRENT.keys


def _seed_of_item() -> int:
    """64 random bits for the item that is being loaded."""
    assert _CURRENT.item is not None
    seed, epoch, number = _CURRENT.item
    of_epoch = random.bits((), "uint64", key=random.key((seed & 0xFFFFFFFF) << 32 | epoch & 0xFFFFFFFF))
    return int(of_epoch.item()) ^ number


@contextmanager
def item_randomness(seed: int, epoch: int, number: int) -> Generator[None]:
    """Make `rng` and `nacre.random` draw the numbers of an item, in this thread."""
    before = _CURRENT.item, _CURRENT.generator, _CURRENT.keys, THREAD.generator
    _CURRENT.item, _CURRENT.generator, THREAD.generator = (seed, epoch, number), None, _keys
    if before[0] is not None:  # an item of a loader within an item
        _CURRENT.keys = None
    elif _CURRENT.keys is not None:  # compiled functions refer to it, so all items share it
        _CURRENT.keys.seed(_seed_of_item())
    try:
        yield
    finally:
        _CURRENT.item, _CURRENT.generator, keys, THREAD.generator = before
        if before[0] is not None:
            _CURRENT.keys = keys


def permutation(count: int, seed: int, epoch: int) -> np.ndarray:
    """The numbers 0 to count − 1 in an order of the seed and the epoch, the same on every machine.

    Raises ArgumentError for a seed outside [0, 2^32).

    >>> sorted(data.permutation(4, seed=1, epoch=0).tolist())
    [0, 1, 2, 3]
    """
    if not 0 <= seed < 1 << 32:
        raise ArgumentError(f"permutation: seed must be in [0, 2^32); got {seed}")
    drawn = random.bits((count,), "uint64", key=random.key(seed << 32 | epoch & 0xFFFFFFFF)).numpy()
    return np.argsort(drawn, kind="stable")
