"""Datasets: items by number, or one after the other; mapped, taken apart, shuffled, put together."""

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
    """Items by number: a kind defines `__len__` and `__getitem__`.

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
        return Mapped(self, f)

    def subset(self, indices: Sequence[int]) -> Dataset:
        """Some items, by number."""
        return Subset(self, indices)

    def shuffled(self, seed: int = 0) -> Dataset:
        """All items in an order of the seed, which stays."""
        return Subset(self, permutation(len(self), seed, 0).tolist())

    def shard(self, index: int, count: int) -> Dataset:
        """Every count-th item, from the index on: what one of several machines reads."""
        _check_shard(index, count)
        return Subset(self, range(index, len(self), count))

    def batched(self, size: int, drop_last: bool = False) -> Dataset:
        """The dataset of batches of items that follow each other, collated."""
        return Batched(self, size, drop_last)

    def __add__(self, other: Dataset) -> Dataset:
        return ConcatDataset([self, other])


def _check_shard(index: int, count: int) -> None:
    if not 0 <= index < count:
        raise ArgumentError(f"shard: an index below the count is required; got {index} and {count}")


def checked(index: int, count: int, kind: str) -> int:
    """An index counted from the front; raises IndexError outside of the dataset, which ends plain iteration."""
    if type(index) is not int and not is_whole(index):
        raise KindError(f"{kind}: a whole number is required as index; got {shown(index)}; take several items with "
                        "subset, as subset(range(3))")
    if not -count <= index < count:
        raise IndexError(f"{kind}: an index below {count} is required; got {index}")
    return index % count


class TensorDataset(Dataset):
    """Rows of tensors or arrays of one leading size; an item is a tuple of rows.

    >>> rows = data.TensorDataset(nc.ones((3, 2)), [7, 8, 9])
    >>> len(rows), int(rows[1][1])
    (3, 8)
    """

    def __init__(self, *tensors: Any) -> None:
        if not tensors:
            raise ArgumentError("TensorDataset: tensors are required; got none")
        self.arrays: tuple[np.ndarray, ...] = tuple(stripped(as_tensor(t)).numpy() for t in tensors)  # type: ignore[attr-defined]
        shapes = [a.shape for a in self.arrays]
        if any(not s or s[0] != shapes[0][0] for s in shapes):
            raise ShapeError(f"TensorDataset: tensors of one leading size are required; got {shapes}")

    def __len__(self) -> int:
        return len(self.arrays[0])

    def __getitem__(self, index: int) -> tuple[np.ndarray, ...]:
        at = checked(index, len(self), "TensorDataset")
        return tuple(a[at] for a in self.arrays)

    def batch(self, indices: Sequence[int]) -> tuple[np.ndarray, ...]:
        """Several items at once, collated."""
        rows = integers(indices, "TensorDataset")
        return tuple(a[rows] for a in self.arrays)


class SequenceDataset(Dataset):
    """The items of a list, or of anything else with a length and numbers.

    >>> data.SequenceDataset("abc")[1]
    'b'
    """

    def __init__(self, items: Sequence[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        return self.items[checked(index, len(self), "SequenceDataset")]


class Mapped(Dataset):
    """A function of each item."""

    def __init__(self, source: Dataset, f: Callable[[Any], Any]) -> None:
        self.source, self.f = source, f

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        return self.f(self.source[index])


class Subset(Dataset):
    """Items of a dataset by number.

    >>> list(data.Subset(data.SequenceDataset("abcd"), [3, 0]))
    ['d', 'a']
    """

    def __init__(self, source: Dataset, indices: Sequence[int]) -> None:
        self.source, self.indices = source, indices
        if len(indices) and not (min(indices) >= 0 and max(indices) < len(source)):
            raise ArgumentError(f"Subset: indices below {len(source)} are required; got others")

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> Any:
        return self.source[self.indices[checked(index, len(self), "Subset")]]


class ConcatDataset(Dataset):
    """Datasets one after the other.

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


class Batched(Dataset):
    """Batches of items that follow each other."""

    def __init__(self, source: Dataset, size: int, drop_last: bool = False) -> None:
        if size < 1:
            raise ArgumentError(f"batched: a positive size is required; got {size}")
        self.source, self.size, self.drop_last = source, size, drop_last

    def __len__(self) -> int:
        whole, rest = divmod(len(self.source), self.size)
        return whole + (rest > 0 and not self.drop_last)

    def __getitem__(self, index: int) -> Any:
        start = checked(index, len(self), "Batched") * self.size
        return default_collate([self.source[k] for k in range(start, min(start + self.size, len(self.source)))])


def random_split(dataset: Dataset, lengths: Sequence[int | float], seed: int = 0) -> list[Dataset]:
    """Parts of a dataset that have no item in common, of given lengths or shares, in an order of the seed.

    >>> [len(part) for part in data.random_split(data.SequenceDataset(range(10)), [0.8, 0.2])]
    [8, 2]
    """
    count = len(dataset)
    if all(isinstance(n, int) for n in lengths):
        sizes = [int(n) for n in lengths]
    else:
        sizes = [int(count * n) for n in lengths]
        if abs(sum(lengths) - 1.0) > 1e-6:
            raise ArgumentError(f"random_split: shares with sum 1 are required; got {list(lengths)}")
        for k in range(count - sum(sizes)):
            sizes[k % len(sizes)] += 1
    if sum(sizes) != count or min(sizes, default=0) < 0:
        raise ArgumentError(f"random_split: lengths with sum {count} are required; got {list(lengths)}")
    order = permutation(count, seed, 0).tolist()
    ends = list(itertools.accumulate(sizes))
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


# ---- one after the other


class IterableDataset:
    """Items one after the other: a kind defines `__iter__`, which begins anew each time.

    A kind that also has `state_dict` and `load_state_dict`, for the place it is at, is resumed without reading what
    was read before.

    >>> class Count(data.IterableDataset):
    ...     def __iter__(self): return iter(range(6))
    >>> list(Count().map(lambda k: k * k).shard(0, 2))
    [0, 4, 16]
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def map(self, f: Callable[[Any], Any]) -> IterableDataset:
        """The dataset of f(item); a loader's workers do it."""
        return MappedIterable(self, f)

    def shard(self, index: int, count: int) -> IterableDataset:
        """Every count-th item, from the index on."""
        _check_shard(index, count)
        return _Chain(self, lambda items: itertools.islice(items, index, None, count))

    def take(self, count: int) -> IterableDataset:
        """The first items; raises ArgumentError for a negative count."""
        if not is_whole(count) or count < 0:
            raise ArgumentError(f"take: a count of 0 or more is required; got {shown(count)}; write take(10)")
        return _Chain(self, lambda items: itertools.islice(items, count))

    def shuffled(self, buffer_size: int, seed: int = 0) -> IterableDataset:
        """Items in another order: each is taken at random from a buffer that the next one fills up again."""
        if buffer_size < 1:
            raise ArgumentError(f"shuffled: a positive buffer_size is required; got {buffer_size}")
        return _Chain(self, lambda items: _from_buffer(items, buffer_size, seed))

    def batched(self, size: int, drop_last: bool = False) -> IterableDataset:
        """Batches of items that follow each other, collated."""
        if size < 1:
            raise ArgumentError(f"batched: a positive size is required; got {size}")
        return _Chain(self, lambda items: (default_collate(b) for b in groups(items, size, drop_last)))


class _Chain(IterableDataset):
    """What a function makes of the items of another dataset."""

    def __init__(self, source: Iterable[Any], f: Callable[[Iterator[Any]], Iterator[Any]]) -> None:
        self.source, self.f = source, f

    def __iter__(self) -> Iterator[Any]:
        return self.f(iter(self.source))


class MappedIterable(IterableDataset):
    """A function of each item."""

    def __init__(self, source: IterableDataset, f: Callable[[Any], Any]) -> None:
        self.source, self.f = source, f

    def __iter__(self) -> Iterator[Any]:
        return map(self.f, self.source)


class Streamed(IterableDataset):
    """The items of anything that can be iterated over more than once.

    >>> list(data.Streamed("abc").shuffled(2, seed=3)) != list("abcd")
    True
    """

    def __init__(self, source: Iterable[Any]) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        return iter(self.source)


def groups(items: Iterator[Any], size: int, drop_last: bool) -> Iterator[list[Any]]:
    """Lists of so many items, the last one maybe shorter."""
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
    """Whether a dataset tells its place and can go on from one."""
    return hasattr(dataset, "state_dict") and hasattr(dataset, "load_state_dict")


