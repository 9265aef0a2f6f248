"""Datasets: items by number or in a stream, which can be mapped, split, shuffled and joined."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from nacre.api.operands import as_tensor
from nacre.base.arguments import is_whole, shown
from nacre.base.conversion import integers
from nacre.base.errors import ArgumentError, KindError, ShapeError
from nacre.data.collate import default_collate
from nacre.data.randomness import permutation
from nacre.trace.value import stripped


class Dataset:
    """A dataset with numbered items: a subclass defines `__len__` and `__getitem__`.

    >>> class Squares(data.Dataset):
    ...     def __len__(self): return 5
    ...     def __getitem__(self, k): return k * k
    >>> list(Squares().map(lambda x: x + 1).shard(1, 2))
    [2, 10]
    """

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def map(self, f: Callable[[Any], Any]) -> Dataset:
        """The dataset of f(item); f draws random numbers from `data.rng()`."""
        return MapDataset(self, f)

    def subset(self, indices: Sequence[int]) -> Dataset:
        """The items of the given numbers."""
        return Subset(self, indices)

    def shuffled(self, seed: int = 0) -> Dataset:
        """All items in a fixed random order that the seed determines."""
        return Subset(self, permutation(len(self), seed, 0).tolist())

    def shard(self, index: int, count: int) -> Dataset:
        """Every count-th item, beginning with item `index`: the share of one of several machines.

        Raises ArgumentError unless 0 ≤ index < count.
        """
        _check_shard(index, count)
        return Subset(self, range(index, len(self), count))

    def batched(self, size: int, drop_last: bool = False) -> Dataset:
        """The dataset of batches of consecutive items, collated.

        Raises ArgumentError unless the size is positive.
        """
        return BatchDataset(self, size, drop_last)

    def __add__(self, other: Dataset) -> Dataset:
        return ConcatDataset([self, other])


def _check_shard(index: int, count: int) -> None:
    if not 0 <= index < count:
        raise ArgumentError(f"shard: index must be in [0, {count}); got {index}")


def checked(index: int, count: int, kind: str) -> int:
    """A non-negative index; raises IndexError outside the dataset, which ends plain iteration."""
    if type(index) is not int and not is_whole(index):
        raise KindError(
            f"{kind}: an index must be a whole number; got {shown(index)}; take several items with subset, as "
            "subset(range(3))"
        )
    if not -count <= index < count:
        raise IndexError(f"{kind}: an index must be below {count}; got {index}")
    return index % count


class TensorDataset(Dataset):
    """Rows of tensors or arrays with one leading size; an item is a tuple of rows.

    Raises ArgumentError without tensors, ShapeError if the leading sizes differ.

    >>> rows = data.TensorDataset(nc.ones((3, 2)), [7, 8, 9])
    >>> len(rows), int(rows[1][1])
    (3, 8)
    """

    def __init__(self, *tensors: Any) -> None:
        if not tensors:
            raise ArgumentError("TensorDataset: at least one tensor is required; got none")
        self.arrays: tuple[np.ndarray, ...] = tuple(stripped(as_tensor(t)).numpy() for t in tensors)  # type: ignore[attr-defined]
        shapes = [a.shape for a in self.arrays]
        if any(not s or s[0] != shapes[0][0] for s in shapes):
            raise ShapeError(f"TensorDataset: tensors must have one leading size; got {shapes}")

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        at = checked(index, len(self), "TensorDataset")
        return tuple(a[at] for a in self.arrays)

    def batch(self, indices: Sequence[int]) -> tuple[np.ndarray, ...]:
        """Several items, collated into one batch."""
        rows = integers(indices, "TensorDataset")
        return tuple(a[rows] for a in self.arrays)


class SequenceDataset(Dataset):
    """The items of a list, or of any object with a length and numbered items.

    >>> data.SequenceDataset("abc")[1]
    'b'
    """

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[checked(index, len(self), "SequenceDataset")]


class MapDataset(Dataset):
    """A function of each item."""

    def __init__(self, source: Dataset, f: Callable[[Any], Any]) -> None:
        self.source, self.f = source, f

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        return self.f(self.source[index])


class Subset(Dataset):
    """Some items of a dataset, by number.

    Raises ArgumentError for a number outside the dataset.

    >>> list(data.Subset(data.SequenceDataset("abcd"), [3, 0]))
    ['d', 'a']
    """

    def __init__(self, source: Dataset, indices: Sequence[int]) -> None:
        self.source, self.indices = source, indices
        if len(indices) and not (min(indices) >= 0 and max(indices) < len(source)):
            raise ArgumentError(f"Subset: indices must be in [0, {len(source)}); got {min(indices)} to {max(indices)}")

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.source[self.indices[checked(index, len(self), "Subset")]]


class ConcatDataset(Dataset):
    """Several datasets, one after the other.

    >>> list(data.SequenceDataset("ab") + data.SequenceDataset("c"))
    ['a', 'b', 'c']
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        self.ends = list(itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __getitem__(self, index: int) -> Any:
        at = checked(index, len(self), "ConcatDataset")
        which = bisect_right(self.ends, at)
        return self.datasets[which][at - (self.ends[which - 1] if which else 0)]


class BatchDataset(Dataset):
    """Batches of consecutive items."""

    def __init__(self, source: Dataset, size: int, drop_last: bool = False) -> None:
        if size < 1:
            raise ArgumentError(f"batched: size must be positive; got {size}")
        self.source, self.size, self.drop_last = source, size, drop_last

    def __len__(self) -> int:
        whole, rest = divmod(len(self.source), self.size)
        return whole + (rest > 0 and not self.drop_last)

    def __getitem__(self, index: int) -> Any:
        start = checked(index, len(self), "Batched") * self.size
        return default_collate([self.source[k] for k in range(start, min(start + self.size, len(self.source)))])


def random_split(dataset: Dataset, lengths: Sequence[int | float], seed: int = 0) -> list[Dataset]:
    """Disjoint random parts of a dataset; the seed determines them.

    `lengths` are numbers of items with the dataset's length as their sum, or shares with the sum 1.  Raises
    ArgumentError for other lengths.

    >>> [len(part) for part in data.random_split(data.SequenceDataset(range(10)), [0.8, 0.2])]
    [8, 2]
    """
    count = len(dataset)
    if all(isinstance(n, int) for n in lengths):
        sizes = [int(n) for n in lengths]
    else:
        sizes = [int(count * n) for n in lengths]
        if abs(sum(lengths) - 1.0) > 1e-6:
            raise ArgumentError(f"random_split: shares must sum to 1; got {list(lengths)}")
        for k in range(count - sum(sizes)):
            sizes[k % len(sizes)] += 1
    if sum(sizes) != count or min(sizes, default=0) < 0:
        raise ArgumentError(f"random_split: lengths must sum to {count}; got {list(lengths)}")
    order = permutation(count, seed, 0).tolist()
    ends = list(itertools.accumulate(sizes))
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


# ---- one after the other


class IterableDataset:
    """A stream of items: a subclass defines `__iter__`, which begins again each time.

    A subclass with `state_dict` and `load_state_dict` for its place can resume without reading the earlier items again.

    >>> class Count(data.IterableDataset):
    ...     def __iter__(self): return iter(range(6))
    >>> list(Count().map(lambda k: k * k).shard(0, 2))
    [0, 4, 16]
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def map(self, f: Callable[[Any], Any]) -> IterableDataset:
        """The stream of f(item); the workers of a loader call f."""
        return MapIterable(self, f)

    def shard(self, index: int, count: int) -> IterableDataset:
        """Every count-th item, beginning with item `index`.

        Raises ArgumentError unless 0 ≤ index < count.
        """
        _check_shard(index, count)
        return _Chain(self, lambda items: itertools.islice(items, index, None, count))

    def take(self, count: int) -> IterableDataset:
        """The first `count` items.  Raises ArgumentError for a negative count."""
        if not is_whole(count) or count < 0:
            raise ArgumentError(f"take: count must be a whole number of 0 or more; got {shown(count)}; write take(10)")
        return _Chain(self, lambda items: itertools.islice(items, count))

    def shuffled(self, buffer_size: int, seed: int = 0) -> IterableDataset:
        """The items in another order: each one is drawn from a buffer, which the next item then fills up.

        Raises ArgumentError unless buffer_size is positive.
        """
        if buffer_size < 1:
            raise ArgumentError(f"shuffled: buffer_size must be positive; got {buffer_size}")
        return _Chain(self, lambda items: _from_buffer(items, buffer_size, seed))

    def batched(self, size: int, drop_last: bool = False) -> IterableDataset:
        """Batches of consecutive items, collated.

        Raises ArgumentError unless the size is positive.
        """
        if size < 1:
            raise ArgumentError(f"batched: size must be positive; got {size}")
        return _Chain(self, lambda items: (default_collate(b) for b in groups(items, size, drop_last)))


class _Chain(IterableDataset):
    """A dataset computed from the items of another one."""

    def __init__(self, source: Iterable[Any], f: Callable[[Iterator[Any]], Iterator[Any]]) -> None:
        self.source, self.f = source, f

    def __iter__(self) -> Iterator[Any]:
        return self.f(iter(self.source))


class MapIterable(IterableDataset):
    """A function of each item of a stream."""

    def __init__(self, source: IterableDataset, f: Callable[[Any], Any]) -> None:
        self.source, self.f = source, f

    def __iter__(self) -> Iterator[Any]:
        return map(self.f, self.source)


class Streamed(IterableDataset):
    """A stream of the items of any object that can be iterated over more than once.

    >>> list(data.Streamed("abc").shuffled(2, seed=3)) != list("abcd")
    True
    """

    def __init__(self, source: Iterable[Any]) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        return iter(self.source)


def groups(items: Iterator[Any], size: int, drop_last: bool) -> Iterator[list[Any]]:
    """Lists of `size` items; the last one may be shorter."""
    while group := list(itertools.islice(items, size)):
        if len(group) == size or not drop_last:
            yield group


def _from_buffer(items: Iterator[Any], size: int, seed: int) -> Iterator[Any]:
    generator = np.random.Generator(np.random.Philox(key=seed))
    buffer = list(itertools.islice(items, size))
    for item in items:
        k = int(generator.integers(len(buffer)))
        yield buffer[k]
        buffer[k] = item
    while buffer:
        yield buffer.pop(int(generator.integers(len(buffer))))


def has_state(dataset: Any) -> bool:
    """Whether a dataset can save its place and resume from it."""
    return hasattr(dataset, "state_dict") and hasattr(dataset, "load_state_dict")
