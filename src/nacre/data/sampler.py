"""Samplers: the items of an epoch and their order, which depend only on the seed and the epoch's number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nacre.base.errors import ArgumentError
from nacre.data.randomness import item_randomness, permutation, rng


class Sampler:
    """The item numbers of an epoch, in order: a subclass defines `order` and `__len__`.

    >>> class Even(data.Sampler):
    ...     def order(self, epoch): return range(0, 6, 2)
    ...     def __len__(self): return 3
    >>> [x.tolist() for x in data.DataLoader(range(6), batch_size=2, sampler=Even())]
    [[0, 2], [4]]
    """

    def order(self, epoch: int) -> Sequence[int]:
        """The item numbers of an epoch."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> Iterator[int]:
        return iter(self.order(0))


class SequentialSampler(Sampler):
    """All items in the order of the dataset.

    >>> list(data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, source: Any) -> None:
        self.count = len(source)

    def order(self, epoch: int) -> Sequence[int]:
        """0, 1, 2, …"""
        return range(self.count)

    def __len__(self) -> int:
        return self.count


class RandomSampler(Sampler):
    """All items in a random order of the seed and the epoch.

    >>> sorted(data.RandomSampler("abc", seed=5))
    [0, 1, 2]
    """

    def __init__(self, source: Any, seed: int = 0) -> None:
        self.count, self.seed = len(source), seed

    def order(self, epoch: int) -> Sequence[int]:
        """A permutation of all item numbers."""
        return permutation(self.count, self.seed, epoch).tolist()

    def __len__(self) -> int:
        return self.count


class WeightedRandomSampler(Sampler):
    """Items drawn with replacement, with probabilities in proportion to weights.

    Raises ArgumentError for negative weights, for a sum of weights that is 0 or not finite, and for a negative
    num_samples.

    >>> set(data.WeightedRandomSampler([0.0, 1.0, 0.0], 8))
    {1}
    """

    def __init__(self, weights: Sequence[float], num_samples: int, seed: int = 0) -> None:
        array = np.asarray(weights, np.float64)
        with np.errstate(over="ignore"):
            total = float(array.sum()) if array.ndim == 1 else 0.0
        if not (0.0 < total < np.inf and (array >= 0.0).all()) or num_samples < 0:
            raise ArgumentError(
                "WeightedRandomSampler: weights and num_samples must not be negative, and the sum of weights must be "
                f"positive and finite; got the sum {total} and {num_samples}"
            )
        self.sums: np.ndarray = np.cumsum(array)
        self.last = int(np.flatnonzero(array)[-1])  # the last item with a weight
        self.num_samples, self.seed = num_samples, seed

    def order(self, epoch: int) -> Sequence[int]:
        """The drawn item numbers of an epoch."""
        with item_randomness(self.seed, epoch, 0xFFFFFFFF):
            drawn: np.ndarray = rng().random(self.num_samples) * self.sums[-1]
        found: np.ndarray = np.searchsorted(self.sums, drawn, "right")
        return [min(k, self.last) for k in found.tolist()]  # a product of the smallest numbers may round up to the sum

    def __len__(self) -> int:
        return self.num_samples


class DistributedSampler(Sampler):
    """The share of one process: every num_replicas-th item of an order that all processes share.

    Every process gets the same number of items.  The first items are repeated at the end, or the last ones are left out
    (drop_last).  Raises ArgumentError unless 0 ≤ rank < num_replicas.

    >>> [list(data.DistributedSampler("abcde", 2, rank, shuffle=False)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        source: Any,
        num_replicas: int,
        rank: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if not 0 <= rank < num_replicas:
            raise ArgumentError(f"DistributedSampler: rank must be in [0, {num_replicas}); got {rank}")
        self.count, self.num_replicas, self.rank = len(source), num_replicas, rank
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last

    def order(self, epoch: int) -> Sequence[int]:
        """The share of this process."""
        whole = permutation(self.count, self.seed, epoch) if self.shuffle else np.arange(self.count)
        places = np.arange(len(self)) * self.num_replicas + self.rank
        return whole[places % max(1, self.count)].tolist() if self.count else []

    def __len__(self) -> int:
        return self.count // self.num_replicas if self.drop_last else -(-self.count // self.num_replicas)


def batches(order: Sequence[int], size: int, drop_last: bool) -> list[Sequence[int]]:
    """An order cut into batches; the last one may be shorter."""
    found = [order[k : k + size] for k in range(0, len(order), size)]
    if drop_last and found and len(found[-1]) < size:
        found.pop()
    return found


class BatchSampler:
    """The batches of a sampler.

    Raises ArgumentError unless batch_size is positive.

    >>> list(data.BatchSampler(data.SequentialSampler("abcde"), 2, drop_last=True))
    [[0, 1], [2, 3]]
    """

    def __init__(self, sampler: Sampler, batch_size: int, drop_last: bool = False) -> None:
        if batch_size < 1:
            raise ArgumentError(f"BatchSampler: batch_size must be positive; got {batch_size}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def order(self, epoch: int) -> list[list[int]]:
        """The batches of an epoch."""
        return [list(b) for b in batches(self.sampler.order(epoch), self.batch_size, self.drop_last)]

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.order(0))

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)
