"""Loaders: the same batches with any workers, exact resuming, and errors that name the item."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre import data

CREWS: list[dict[str, Any]] = [
    {}, {"num_workers": 1}, {"num_workers": 3, "prefetch_factor": 4},
    {"num_workers": 2, "workers": "processes", "multiprocessing_context": "fork"},
]  # fmt: skip


class Noisy(data.Dataset):
    """Items that are drawn at random."""

    def __init__(self, count: int = 23) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": data.rng().normal(size=3).astype("f"), "k": index, "name": f"item {index}"}


class Count(data.IterableDataset):
    """Numbers below a limit."""

    def __init__(self, count: int = 17) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))


class Placed(Count):
    """The same, which goes on from a place without reading what is before."""

    at = start = read = 0

    def __iter__(self) -> Iterator[int]:
        start, self.start = self.start, 0
        for k in range(start, self.count):
            self.at, self.read = k + 1, self.read + 1
            yield k

    def state_dict(self) -> dict[str, int]:
        return {"at": self.at}

    def load_state_dict(self, saved: dict[str, int]) -> None:
        self.at = self.start = saved["at"]


def noise(k: int) -> tuple[int, float]:
    return k, float(data.rng().random())


def plain(batch: Any) -> Any:
    if isinstance(batch, dict):
        return {k: plain(v) for k, v in batch.items()}
    if isinstance(batch, tuple | list):
        return [plain(v) for v in batch]
    return batch.tolist() if isinstance(batch, nc.Tensor) else batch


def epochs(loader: data.DataLoader, count: int = 2) -> list[Any]:
    return [[plain(b) for b in loader] for _ in range(count)]


@pytest.mark.parametrize("dataset", [Noisy, lambda: Count().map(noise), lambda: Count().shuffled(5).map(noise)])
def test_batches_do_not_depend_on_the_workers(dataset: Callable[[], Any]) -> None:
    shuffle = {} if isinstance(dataset(), data.IterableDataset) else {"shuffle": True}
    told = [epochs(data.DataLoader(dataset(), 4, seed=3, **shuffle, **crew)) for crew in CREWS]
    assert all(t == told[0] for t in told)
    assert told[0][0] != told[0][1]
    again = epochs(data.DataLoader(dataset(), 4, seed=4, **shuffle))
    assert again != told[0]


@pytest.mark.parametrize("crew", CREWS[:3], ids=str)
@pytest.mark.parametrize(
    "dataset", [Noisy, lambda: Count().map(noise), lambda: Placed().map(noise)], ids=["map", "count", "placed"]
)
def test_resuming_goes_on_with_the_next_batch(dataset: Callable[[], Any], crew: dict[str, Any]) -> None:
    def loader() -> data.DataLoader:
        shuffle = {} if isinstance(dataset(), data.IterableDataset) else {"shuffle": True}
        return data.DataLoader(dataset(), 4, **shuffle, **crew)

    whole = [b for e in epochs(loader(), 3) for b in e]
    per_epoch = len(whole) // 3
    for stop in (1, 3, per_epoch, per_epoch + 2):
        first = loader()
        seen: list[Any] = []
        while len(seen) < stop:
            for batch in first:
                seen.append(plain(batch))
                if len(seen) == stop:
                    break
        saved = json.loads(json.dumps(first.state_dict()))
        second = loader()
        second.load_state_dict(saved)
        rest = [plain(b) for b in second]
        end = -(-(stop + (stop % per_epoch == 0)) // per_epoch) * per_epoch
        if stop % per_epoch == 0:  # stopped at the last batch: nothing is left of the epoch
            assert rest == []
            rest, end = [plain(b) for b in second], stop + per_epoch
        assert seen + rest == whole[:end]


def test_a_dataset_with_a_place_reads_nothing_twice() -> None:
    first = data.DataLoader(Placed(), 4)
    batches = iter(first)
    next(batches)
    next(batches)
    source = Placed()
    second = data.DataLoader(source, 4)
    second.load_state_dict(first.state_dict())
    assert [plain(b) for b in second] == [[8, 9, 10, 11], [12, 13, 14, 15], [16]] and source.read == 9


def test_breaking_off_begins_the_next_epoch() -> None:
    loader = data.DataLoader(Noisy(), 5, shuffle=True)
    whole = epochs(data.DataLoader(Noisy(), 5, shuffle=True), 3)
    for batch in loader:
        assert plain(batch) == whole[0][0]
        break
    assert [plain(b) for b in loader] == whole[1]
    loader.set_epoch(0)
    assert [plain(b) for b in loader] == whole[0]


def failing(k: int) -> int:
    if k == 7:
        raise KeyError("seven")
    return k


class Sequence(data.Dataset):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> int:
        return failing(index)


@pytest.mark.parametrize("crew", CREWS, ids=str)
@pytest.mark.parametrize("dataset", [Sequence, lambda: Count(10).map(failing)], ids=["map", "iterable"])
def test_errors_name_the_item_and_the_line(dataset: Callable[[], Any], crew: dict[str, Any]) -> None:
    batches = iter(data.DataLoader(dataset(), 2, **crew))
    for k in range(3):
        assert plain(next(batches)) == [2 * k, 2 * k + 1]
    with pytest.raises(data.ItemError, match=r"(?s)item 7 of .*KeyError: 'seven'.*in failing") as caught:
        next(batches)
    assert caught.value.item == 7


def leave(k: int) -> int:
    os._exit(3)


def test_a_worker_that_ends_is_told() -> None:
    dataset = data.SequenceDataset(range(4)).map(leave)
    loader = data.DataLoader(dataset, num_workers=1, workers="processes", multiprocessing_context="fork")
    with pytest.raises(nc.ArgumentError, match="ended while batch 0"):
        list(loader)


def slow(k: int) -> int:
    time.sleep(1.0)
    return k


def test_a_worker_that_takes_too_long_is_told() -> None:
    loader = data.DataLoader(data.SequenceDataset(range(2)).map(slow), num_workers=1, timeout=0.05)
    with pytest.raises(nc.ArgumentError, match=r"within 0.05 seconds"):
        list(loader)


@pytest.mark.slow
def test_processes_that_begin_anew() -> None:
    loader = data.DataLoader(data.TensorDataset(nc.arange(5)), 2, num_workers=1, workers="processes")
    assert [plain(b) for b in loader] == [[[0, 1]], [[2, 3]], [[4]]]


def test_forms_of_batches() -> None:
    rows = data.TensorDataset(nc.ones((5, 2)), np.arange(5))
    loader = data.DataLoader(rows, 2, drop_last=True)
    assert len(loader) == 2 and [b[1].tolist() for b in loader] == [[0, 1], [2, 3]]
    assert isinstance(next(iter(data.DataLoader(rows, tensors=False)))[0], np.ndarray)
    assert plain(next(iter(data.DataLoader([1.5, 2.5], 2)))) == [1.5, 2.5]
    ordered = data.DataLoader(rows, batch_sampler=[[4, 0], [2]])
    assert [b[1].tolist() for b in ordered] == [[4, 0], [2]] and len(ordered) == 2
    assert [b[1].tolist() for b in data.DataLoader(rows, 2, sampler=[3, 1, 0])] == [[3, 1], [0]]
    joined = data.DataLoader(data.SequenceDataset("abc"), 3, collate_fn="".join)
    assert list(joined) == ["abc"]
    prepared: list[int] = []
    list(data.DataLoader(rows, num_workers=2, worker_init_fn=lambda: prepared.append(1)))
    assert prepared
    mixed = data.DataLoader(data.SequenceDataset([(1.0, 0), (2.0, 1)] * 4), 4, collate_fn=data.MixUp(2))
    assert epochs(mixed, 1) == epochs(data.DataLoader(mixed.dataset, 4, collate_fn=data.MixUp(2), num_workers=2), 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: data.DataLoader(3), "a dataset"), (lambda: data.DataLoader([1], 0), "batch_size"),
        (lambda: data.DataLoader([1], num_workers=-1), "num_workers"), (lambda: data.DataLoader([1], workers="x"), "x"),
        (lambda: data.DataLoader(Count(), shuffle=True), "IterableDataset"),
        (lambda: len(data.DataLoader(Count())), "length"),
        (lambda: data.DataLoader([1], shuffle=True, sampler=[0]), "one of"),
        (lambda: data.DataLoader([1], seed=1).load_state_dict(data.DataLoader([1]).state_dict()), "same seed"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_settings(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        make()
