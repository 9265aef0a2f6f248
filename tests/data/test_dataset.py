"""Datasets, samplers and collating."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import nacre as nc
from labels import label
from nacre import data


def test_datasets_by_number() -> None:
    letters = data.SequenceDataset("abcdefg")
    assert list(letters.map(str.upper).shard(1, 3)) == ["B", "E"] and letters[-1] == "g"
    assert sorted(letters.shuffled(1)) == list("abcdefg") and list(letters.shuffled(1)) != list("abcdefg")
    assert list(letters.shuffled(1)) == list(letters.shuffled(1)) != list(letters.shuffled(2))
    assert list(letters.batched(3)) == [["a", "b", "c"], ["d", "e", "f"], ["g"]] and len(letters.batched(3, True)) == 2
    joined = letters.subset([6, 0]) + data.SequenceDataset("xy")
    assert list(joined) == ["g", "a", "x", "y"] and len(joined) == 4 and joined[-1] == "y"
    parts = data.random_split(letters, [4, 3], seed=2)
    assert sorted([*parts[0], *parts[1]]) == list("abcdefg") and [len(p) for p in parts] == [4, 3]
    rows = data.TensorDataset(nc.ones((2, 3)), [1, 2])
    assert rows.batch([1, 0])[1].tolist() == [2, 1] and len(rows) == 2


def test_streams() -> None:
    stream = data.Streamed(range(10))
    assert list(stream.map(lambda k: k + 1).take(3)) == [1, 2, 3] and list(stream.shard(2, 4)) == [2, 6]
    assert sorted(stream.shuffled(4)) == list(range(10)) and list(stream.shuffled(4)) == list(stream.shuffled(4))
    assert list(stream.shuffled(4)) != list(range(10)) and list(stream.shuffled(1)) == list(range(10))
    assert [b.tolist() for b in stream.batched(4)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(list(stream.batched(4, drop_last=True))) == 2


def test_orders_are_those_of_the_seed_and_the_epoch() -> None:
    order = data.permutation(6, seed=7, epoch=1)
    np.testing.assert_array_equal(order, [0, 5, 3, 2, 1, 4])
    sampler = data.RandomSampler(range(100), seed=1)
    assert sorted(sampler.order(0)) == list(range(100)) and sampler.order(0) != sampler.order(1)
    shares = [data.DistributedSampler(range(10), 4, rank, seed=3).order(2) for rank in range(4)]
    assert {len(s) for s in shares} == {3} and set().union(*map(set, shares)) == set(range(10))
    cut = [data.DistributedSampler(range(10), 4, rank, drop_last=True).order(0) for rank in range(4)]
    assert sorted(k for s in cut for k in s) == sorted(set(k for s in cut for k in s)) and {len(s) for s in cut} == {2}
    weighted = data.WeightedRandomSampler([1.0, 0.0, 3.0], 4000, seed=1).order(0)
    assert weighted.count(1) == 0 and abs(weighted.count(2) / 4000 - 0.75) < 0.03
    batches = data.BatchSampler(data.SequentialSampler(range(5)), 2)
    assert len(batches) == 3 and batches.order(0) == [[0, 1], [2, 3], [4]]


class Pair(NamedTuple):
    x: Any
    y: Any


def test_collating() -> None:
    found = data.default_collate([Pair(nc.ones(2), {"a": [1, "s"]}), Pair(nc.zeros(2), {"a": [2, "t"]})])
    assert isinstance(found, Pair) and found.x.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert found.y["a"][0].tolist() == [1, 2] and found.y["a"][1] == ["s", "t"]
    assert data.default_collate([True, False]).dtype == np.bool_ and data.default_collate([1.0]).dtype == np.float32
    assert data.default_collate([None, None]) == [None, None]
    tensors = data.to_tensors(found)
    assert isinstance(tensors, Pair) and isinstance(tensors.x, nc.Tensor) and tensors.y["a"][1] == ["s", "t"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: data.default_collate([]), "at least one"), (lambda: data.default_collate([[1], [1, 2]]), "item 1"),
        (lambda: data.default_collate([{"a": 1}, {"b": 1}]), "keys"),
        (lambda: data.default_collate([object()]), "object"),
        (lambda: data.default_collate([np.ones(2), np.ones(3)]), "one shape"),
        (lambda: data.default_collate([np.ones(2), np.ones(2, "f")]), "one dtype"),
        (lambda: data.TensorDataset(), "at least one"), (lambda: data.TensorDataset([1], [1, 2]), "leading size"),
        (lambda: data.SequenceDataset("ab").shard(2, 2), "index must be in"),
        (lambda: data.Streamed("a").batched(0), "size"),
        (lambda: data.SequenceDataset("ab").subset([2]), "must be in .0, 2"),
        (lambda: data.Streamed("a").shuffled(0), "buffer"),
        (lambda: data.random_split(data.SequenceDataset("ab"), [1]), "sum to 2"),
        (lambda: data.permutation(3, -1, 0), "seed"),
        (lambda: data.random_split(data.SequenceDataset("ab"), [0.4]), "sum to 1"),
        (lambda: data.DistributedSampler("ab", 2, 2), "rank"),
        (lambda: data.WeightedRandomSampler([0.0], 1), "weights"),
        (lambda: data.BatchSampler(data.SequentialSampler("ab"), 0), "batch_size"),
    ],
    ids=label,
)  # fmt: skip
def test_errors(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        make()
