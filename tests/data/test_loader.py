"""Loaders: the same batches with any workers, exact resuming, and errors that name the item."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nacre as nc
from labels import label
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


class Drawing(data.Dataset):
    """Items of `nacre.random`."""

    nested = False

    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return index, nc.random.normal((2,)).numpy()


class AtOnce(Drawing):
    """The same, as batches that the dataset makes itself."""

    def batch(self, numbers: list[int]) -> list[Any]:
        return [np.array(numbers), data.rng().normal(size=2), nc.random.normal((2,)).numpy()]


class Count(data.IterableDataset):
    """Numbers below a limit."""

    def __init__(self, count: int = 17) -> None:
        self.count = count

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.count))


class Placed(Count):
    """The same, with a place from which it resumes without reading earlier items."""

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


@pytest.mark.parametrize("crew", CREWS[:3], ids=label)
@pytest.mark.parametrize(
    "dataset", [Noisy, lambda: Count().map(noise), lambda: Placed().map(noise)], ids=["map", "count", "placed"]
)
def test_resuming_continues_with_the_next_batch(dataset: Callable[[], Any], crew: dict[str, Any]) -> None:
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
        if stop % per_epoch == 0:  # stopped at the last batch: nothing remains of the epoch
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


def test_a_break_starts_the_next_epoch() -> None:
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


@pytest.mark.parametrize("crew", CREWS, ids=label)
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


def test_a_worker_that_ends_raises_an_error() -> None:
    dataset = data.SequenceDataset(range(4)).map(leave)
    loader = data.DataLoader(dataset, num_workers=1, workers="processes", multiprocessing_context="fork")
    with pytest.raises(nc.ArgumentError, match="ended while batch 0"):
        list(loader)


def slow(k: int) -> int:
    time.sleep(1.0)
    return k


def test_a_worker_that_takes_too_long_raises_an_error() -> None:
    loader = data.DataLoader(data.SequenceDataset(range(2)).map(slow), num_workers=1, timeout=0.05)
    with pytest.raises(nc.ArgumentError, match=r"within 0.05 seconds"):
        list(loader)


@pytest.mark.slow
def test_worker_processes() -> None:
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
        (lambda: data.DataLoader(3), "a dataset"),
        (lambda: data.DataLoader([1], 0), "batch_size must be positive; got 0; .*pass 1"),
        (lambda: data.DataLoader([1], num_workers=-1), "num_workers"), (lambda: data.DataLoader([1], workers="x"), "x"),
        (lambda: data.DataLoader(Count(), shuffle=True), "IterableDataset"),
        (lambda: len(data.DataLoader(Count())), "length"),
        (lambda: data.DataLoader([1], shuffle=True, sampler=[0]), "one of"),
        (lambda: data.DataLoader([1], seed=1).load_state_dict(data.DataLoader([1]).state_dict()), "seed must be"),
    ],
    ids=label,
)  # fmt: skip
def test_wrong_settings(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(nc.Error, match=message):
        make()


# ---- lengths and states


def test_streams_are_listed() -> None:
    loader = data.DataLoader(Count(), 4)
    assert [plain(b) for b in list(loader)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15], [16]]
    assert len(tuple(loader)) == len(sorted(loader, key=len)) == 5
    with pytest.raises(TypeError, match="IterableDataset") as caught:
        len(loader)
    assert isinstance(caught.value, nc.Error)


Maker = Callable[[], data.DataLoader]
ALIKE: list[tuple[str, Maker, Maker]] = [
    ("length", lambda: data.DataLoader(range(9), 2), lambda: data.DataLoader(range(8), 2)),
    ("drop_last", lambda: data.DataLoader(range(9), 2), lambda: data.DataLoader(range(9), 2, drop_last=True)),
    ("drop_last", lambda: data.DataLoader(Count(), 2), lambda: data.DataLoader(Count(), 2, drop_last=True)),
    ("batch_size", lambda: data.DataLoader(Count(), 2), lambda: data.DataLoader(Count(), 3)),
    ("seed", lambda: data.DataLoader(Count(), 2), lambda: data.DataLoader(Count(), 2, seed=1)),
    ("order", lambda: data.DataLoader(range(9), 2), lambda: data.DataLoader(range(9), 2, shuffle=True)),
    (
        "order",
        lambda: data.DataLoader(range(3), 2, sampler=[0, 2, 1]),
        lambda: data.DataLoader(range(3), 2, sampler=[2, 0, 1]),
    ),
    (
        "order",
        lambda: data.DataLoader(range(9), sampler=data.RandomSampler(range(9), 1)),
        lambda: data.DataLoader(range(9), sampler=data.RandomSampler(range(9), 5)),
    ),
    (
        "order",
        lambda: data.DataLoader(range(3), batch_sampler=[[0], [1, 2]]),
        lambda: data.DataLoader(range(3), batch_sampler=[[0, 1], [2]]),
    ),
]


def test_an_oversized_batch_late_in_an_epoch_is_reported() -> None:
    first, second = data.DataLoader(range(16), batch_size=4), data.DataLoader(range(16), batch_size=8)
    batches = iter(first)
    for _ in range(3):
        next(batches)
    with pytest.raises(nc.StateError, match="batch_size must be the same; got 4 and 8; to resume, make the loader as"):
        second.load_state_dict(first.state_dict())


@pytest.mark.parametrize("given", [0, 1])
@pytest.mark.parametrize(("name", "one", "other"), ALIKE, ids=[name for name, _, _ in ALIKE])
def test_states_of_loaders_with_other_batches_are_refused(name: str, one: Maker, other: Maker, given: int) -> None:
    for make, another in ((one, other), (other, one)):
        first, second, third = make(), another(), make()
        batches = iter(first)
        for _ in range(given):
            next(batches)
        before = second.state_dict()
        with pytest.raises(nc.StateError, match=f"{name} must be the same.*; to resume, make the loader as .*restore_"):
            second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert second.state_dict() == before
        third.load_state_dict(first.state_dict())
        assert [plain(b) for b in third] == [plain(b) for b in make()][given:]


def test_a_sampler_without_an_order_is_iterated_once_an_epoch() -> None:
    asked: list[int] = []

    class Once:
        """An order that is drawn on request."""

        def __len__(self) -> int:
            return 3

        def __iter__(self) -> Iterator[int]:
            asked.append(1)
            return iter([2, 0, 1])

    loader = data.DataLoader(range(3), sampler=Once())  # type: ignore[arg-type]
    loader.state_dict()
    assert not asked
    list(loader)
    assert len(asked) == 1
    for saved in (None, {}, {"epoch": 0}):
        with pytest.raises(nc.StateError, match="state must have"):
            loader.load_state_dict(saved)  # type: ignore[arg-type]


# ---- workers that fail


class Picky(Exception):
    """An error that cannot be constructed from its text alone."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__(name, number)
        self.number = number


def unreadable(k: int) -> int:
    if k == 3:
        raise FileNotFoundError(2, "no such image", "3.png")
    return k


def picky(k: int) -> int:
    raise Picky("it", k)


class Unpickled(Exception):
    """An error that cannot be unpickled from a process."""

    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


def lost(k: int) -> int:
    raise Unpickled("gone")


def unsendable(batch: Any) -> Any:
    return lambda: batch


def miscollated(batch: Any) -> Any:
    raise ZeroDivisionError("no batch")


def unprepared() -> None:
    raise LookupError("no file")


class Broken(data.IterableDataset):
    """Items followed by an error."""

    def __iter__(self) -> Iterator[int]:
        yield from range(5)
        raise OSError("the wire is cut")


class Whole(data.SequenceDataset):
    """Batches at once, which fail."""

    def batch(self, indices: Any) -> Any:
        raise EOFError("the file ends")


FAULTS: list[tuple[str, type[Exception], int, Callable[..., data.DataLoader]]] = [
    ("no such image", FileNotFoundError, 3,
     lambda **c: data.DataLoader(data.SequenceDataset(range(5)).map(unreadable), 2, **c)),
    ("Picky", Picky, 0, lambda **c: data.DataLoader(data.SequenceDataset(range(5)).map(picky), 2, **c)),
    ("no batch", ZeroDivisionError, 0, lambda **c: data.DataLoader(range(4), 2, collate_fn=miscollated, **c)),
    ("must have one shape", nc.ShapeError, 2, lambda **c: data.DataLoader([np.ones(n) for n in (1, 1, 1, 2)], 2, **c)),
    ("the wire is cut", OSError, 5, lambda **c: data.DataLoader(Broken(), 2, **c)),
    ("the file ends", EOFError, 0, lambda **c: data.DataLoader(Whole(range(4)), 2, **c)),
    ("IndexError", IndexError, 9, lambda **c: data.DataLoader(range(4), sampler=[0, 9], **c)),
]  # fmt: skip


@pytest.mark.parametrize("crew", CREWS, ids=str)
@pytest.mark.parametrize(("text", "kind", "item", "make"), FAULTS, ids=[text for text, *_ in FAULTS])
def test_errors_have_their_own_class_and_the_usual_message(
    text: str, kind: type[Exception], item: int, make: Callable[..., data.DataLoader], crew: dict[str, Any]
) -> None:
    with pytest.raises(data.ItemError, match=rf"(?s)^DataLoader: .*{text}.*In the worker:\nTraceback") as caught:
        list(make(**crew))
    assert isinstance(caught.value, kind) and caught.value.item == item
    assert isinstance(caught.value.__cause__, kind)
    again = pickle.loads(pickle.dumps(caught.value)) if kind is not Picky else caught.value
    assert isinstance(again, kind) and again.item == item and str(again) == str(caught.value)


@pytest.mark.parametrize("crew", CREWS[1:], ids=str)
def test_errors_without_a_class_of_their_own(crew: dict[str, Any]) -> None:
    with pytest.raises(data.ItemError, match="could not be prepared by worker_init_fn: LookupError: no file"):
        list(data.DataLoader(range(4), worker_init_fn=unprepared, **crew))
    with pytest.raises(data.ItemError, match="Unpickled: gone"):
        list(data.DataLoader(data.SequenceDataset(range(4)).map(lost), **crew))
    if crew.get("workers") == "processes":
        with pytest.raises(data.ItemError, match="could not be sent to another process"):
            list(data.DataLoader(range(4), collate_fn=unsendable, **crew))
        with pytest.raises(nc.ArgumentError, match="that can be pickled"):
            list(
                data.DataLoader(
                    data.SequenceDataset(range(4)).map(lambda k: k), **crew | {"multiprocessing_context": "spawn"}
                )
            )


def test_batches_before_a_failing_read_are_yielded() -> None:
    for crew in CREWS:
        seen: list[Any] = []
        with pytest.raises(data.ItemError, match="item 5 of Broken"):
            for batch in data.DataLoader(Broken(), 2, **crew):
                seen.append(plain(batch))
        assert seen == [[0, 1], [2, 3]]


STUCK = """
import sys, time
from nacre import data

def stuck(k):
    if k == 2:
        print("stuck", flush=True)
        time.sleep(1000)
    return k

if __name__ == "__main__":
    options = eval(sys.argv[1])
    print([x.tolist() for x in data.DataLoader(data.SequenceDataset(range(4)).map(stuck), num_workers=2, **options)])
"""


@pytest.mark.parametrize("kind", ["threads", "processes", pytest.param("spawned", marks=pytest.mark.slow)])
@pytest.mark.parametrize("ended", ["timeout", "interrupt"])
def test_a_stuck_worker_does_not_keep_the_program(tmp_path: Path, kind: str, ended: str) -> None:
    script = tmp_path / "stuck.py"
    script.write_text(STUCK)
    options: dict[str, Any] = {"timeout": 0.5} if ended == "timeout" else {}
    if kind != "threads":
        options |= {"workers": "processes", "multiprocessing_context": "fork" if kind == "processes" else "spawn"}
    process = subprocess.Popen(
        [sys.executable, str(script), repr(options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        if ended == "interrupt":
            assert process.stdout is not None and process.stdout.readline() == "stuck\n"
            os.killpg(process.pid, signal.SIGINT)  # like a terminal
        _, said = process.communicate(timeout=60)
    finally:
        left = process.poll() is None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert not left, "the program lives on"
    assert process.returncode != 0
    assert "within 0.5 seconds" in said if ended == "timeout" else "KeyboardInterrupt" in said
    assert said.count("Traceback") <= 2  # workers print nothing of their own


def test_an_abandoned_iteration_ends_its_workers() -> None:
    for crew in CREWS[1:]:
        batches = iter(data.DataLoader(Noisy(), 2, **crew))
        next(batches)
        batches.close()  # type: ignore[attr-defined]
        deadline = time.monotonic() + 20
        while any(t.name == "nacre-data" for t in threading.enumerate()) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not [t for t in threading.enumerate() if t.name == "nacre-data"] and not active_children()


@pytest.mark.parametrize("kind", [Drawing, AtOnce])
def test_numbers_of_nacre_random_belong_to_the_items(kind: type[Drawing]) -> None:
    told = set()
    nc.random.seed(5)
    after = nc.random.uniform(()).item()
    for crew in CREWS:
        nc.random.seed(5)
        loader = data.DataLoader(kind(), 2, shuffle=True, seed=3, **crew)
        epochs = [[np.concatenate([np.ravel(x.numpy()) for x in batch]).tolist() for batch in loader] for _ in range(2)]
        drawn = [number for epoch in epochs for batch in epoch for number in batch if number % 1]
        assert len(set(drawn)) == len(drawn)
        told.add(repr(epochs))
        assert nc.random.uniform(()).item() == after  # the process's own generator is unchanged
    assert len(told) == 1


def test_a_loader_within_an_item_leaves_its_numbers_alone() -> None:
    class Outer(Drawing):
        """Items of another loader's batch, drawn for before and after it."""

        def __getitem__(self, index: int) -> tuple[Any, ...]:
            first = super().__getitem__(index)
            inner = list(data.DataLoader(Drawing(), 9, seed=1)) if self.nested else []
            return (*first, *super().__getitem__(index), len(inner))

    def numbers(nested: bool) -> list[Any]:
        made = Outer()
        made.nested = nested
        return [[np.ravel(x).tolist() for x in batch[:4]] for batch in data.DataLoader(made, 3)]

    assert numbers(True) == numbers(False)


# ---- samplers


@pytest.mark.parametrize(
    "weights", [[1.0, np.inf], [np.nan, 1.0], [1.0, -1.0], [0.0, 0.0], [], [[1.0]], [1e308, 1e308]]
)
def test_weights_that_give_no_probabilities_are_refused(weights: Any) -> None:
    with pytest.raises(nc.ArgumentError, match="WeightedRandomSampler: weights"):
        data.WeightedRandomSampler(weights, 3)


@pytest.mark.parametrize(
    "weights", [[5e-324], [5e-324, 0.0], [0.0, 1.0, 0.0], [1e-308, 3e-308, 0.0], [1e300, 1.0, 0.0]]
)
def test_drawn_items_exist_and_have_a_weight(weights: list[float]) -> None:
    drawn = list(data.WeightedRandomSampler(weights, 2000))
    assert len(drawn) == 2000 and all(weights[k] > 0 for k in drawn)


def test_the_seed_of_a_loader_sets_its_order_and_nothing_else_does() -> None:
    def order(**how: Any) -> list[Any]:
        return [x.tolist() for x in data.DataLoader(range(50), 10, shuffle=True, **how)]

    first = order()
    nc.random.seed(7)
    assert order() == order(seed=0) == first
    assert order(seed=1) != first
    assert "`seed`, 0 by default" in str(data.DataLoader.__doc__)
