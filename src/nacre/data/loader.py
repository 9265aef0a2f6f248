"""`DataLoader`: batches of a dataset, prepared ahead by workers, always in the same order; it can resume."""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any, NamedTuple, cast

from nacre.base.arguments import is_whole, shown
from nacre.base.errors import ArgumentError, Error, KindError, StateError
from nacre.data.collate import to_tensors
from nacre.data.dataset import Dataset, IterableDataset, MapIterable, SequenceDataset, groups, has_state
from nacre.data.sampler import RandomSampler, Sampler, SequentialSampler, batches
from nacre.data.worker import Fetch, ItemError, Workers, result, unread


class _PendingBatch(NamedTuple):
    """A batch in preparation, the number of items read with it, and the dataset's state after it."""

    future: Future[Any]
    items: int
    state: Any


class LengthError(Error, TypeError):
    """The dataset of the loader has no length; `list` and similar functions work without one."""


class DataLoader:
    """Batches of a dataset as tensors.

    `dataset` has numbered items, or is an `IterableDataset`.  `shuffle` draws an order from `seed`, 0 by default, and
    the number of the epoch: loaders with one seed give the same order, and other seeds give others.
    `nacre.random.seed` does not change it.  `sampler` or `batch_sampler` set the order themselves.

    `num_workers` threads prepare up to `prefetch_factor` batches each ahead of time; 0 prepares them on demand.  With
    `workers="processes"` they are processes, started by `multiprocessing_context`.  The batches do not depend on the
    workers, and neither do the random numbers of `data.rng()`.

    `state_dict` records the place after the last batch; a loader that receives it continues with the next batch.  Each
    iteration is an epoch; `set_epoch` chooses the number of the next one.

    Raises ItemError, with the item's number, if an item fails.  Raises ArgumentError or KindError for settings out of
    range.

    >>> rows = data.TensorDataset(nc.tensor([[1.0], [2.0], [3.0]]), nc.tensor([0, 1, 0]))
    >>> for x, y in data.DataLoader(rows, batch_size=2): print(x.tolist(), y.tolist())
    [[1.0], [2.0]] [0, 1]
    [[3.0]] [0]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Sampler | Sequence[int] | None = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Sequence[Any]], Any] | None = None,
        drop_last: bool = False,
        timeout: float = 0.0,
        worker_init_fn: Callable[[], Any] | None = None,
        multiprocessing_context: str = "spawn",
        prefetch_factor: int = 2,
        seed: int = 0,
        workers: str = "threads",
        tensors: bool = True,
    ) -> None:
        self.iterable = isinstance(dataset, IterableDataset)
        if not self.iterable and not hasattr(dataset, "__getitem__"):
            raise ArgumentError(f"DataLoader: dataset must be a dataset or a sequence; got {type(dataset).__name__}")
        self.dataset = dataset if isinstance(dataset, Dataset | IterableDataset) else SequenceDataset(dataset)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.num_workers, self.prefetch_factor, self.workers = num_workers, prefetch_factor, workers
        self.multiprocessing_context, self.worker_init_fn = multiprocessing_context, worker_init_fn
        self.collate_fn, self.timeout, self.seed, self.tensors = collate_fn, timeout, seed, tensors
        self._check(shuffle, sampler, batch_sampler)
        self.batch_sampler = batch_sampler
        self.sampler: Any = sampler
        if sampler is None and not self.iterable:
            self.sampler = RandomSampler(self.dataset, seed) if shuffle else SequentialSampler(self.dataset)
        self.epoch = 0
        self._batch = self._items = 0  # yielded in this epoch
        self._running = False
        self._resume: Mapping[str, Any] | None = None
        self._order: tuple[int, str] | None = None  # an epoch, and the hash of its order
        self._state: Any = None  # the dataset's, after the last batch

    def _check(self, shuffle: bool, sampler: Any, batch_sampler: Any) -> None:
        if self.batch_size < 1:
            raise ArgumentError(
                f"DataLoader: batch_size must be positive; got {self.batch_size}; for batches of one item pass 1"
            )
        if self.num_workers < 0 or self.prefetch_factor < 1 or self.timeout < 0:
            raise ArgumentError(
                "DataLoader: num_workers and timeout must not be negative, and prefetch_factor must be positive; got "
                f"{self.num_workers}, {self.timeout}, {self.prefetch_factor}"
            )
        if not math.isfinite(self.timeout):
            raise ArgumentError(f"DataLoader: timeout must be finite, in seconds; got {self.timeout}; write 0 for none")
        for name, order in (("sampler", sampler), ("batch_sampler", batch_sampler)):
            if order is not None and not (hasattr(order, "order") or hasattr(order, "__iter__")):
                raise KindError(
                    f"DataLoader: {name} must be a Sampler or a sequence of item numbers; got {shown(order)}; write "
                    "range(5) for the first 5 items"
                )
        if self.workers not in ("threads", "processes"):
            raise ArgumentError(f'DataLoader: workers must be "threads" or "processes"; got {self.workers!r}')
        if self.iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise ArgumentError(
                "DataLoader: an IterableDataset takes neither shuffle nor a sampler; use its `shuffled`"
            )
        if shuffle + (sampler is not None) + (batch_sampler is not None) > 1:
            raise ArgumentError("DataLoader: pass only one of shuffle, sampler and batch_sampler; got several")

    def __len__(self) -> int:
        if self.iterable:
            raise LengthError("DataLoader: an IterableDataset has no length; count its batches as they come")
        if self.batch_sampler is not None:
            return len(self.batch_sampler)
        whole, rest = divmod(len(self.sampler), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def _plan(self, epoch: int) -> list[Sequence[int]]:
        """The item numbers of all batches of an epoch."""
        if self.batch_sampler is not None:
            return list(_order(self.batch_sampler, epoch))
        return [list(b) for b in batches(_order(self.sampler, epoch), self.batch_size, self.drop_last)]

    # ---- iterating

    def __iter__(self) -> Iterator[Any]:
        if self._running:
            self.epoch, self._batch, self._items = self.epoch + 1, 0, 0
        resumed, self._resume = self._resume, None
        if resumed is None:
            self._batch = self._items = 0
        self._running = True
        functions, source = _unwrapped(self.dataset) if self.iterable else ((), self.dataset)
        fetch = Fetch(None if self.iterable else source, functions, self.collate_fn, self.seed)
        pool = Workers(fetch, self.num_workers, self.workers, self.multiprocessing_context, self.worker_init_fn)
        first = 0 if resumed is None else int(resumed["batch"])  # other iterators may move `_batch` meanwhile
        return self._given(pool, self._submitted(pool, source, resumed, first))

    def _submitted(
        self, pool: Workers, source: Any, resumed: Mapping[str, Any] | None, first: int
    ) -> Iterator[_PendingBatch]:
        """The remaining batches of the epoch, each submitted to the workers on demand."""
        if not self.iterable:
            plan = self._plan(self.epoch)
            self._order = self.epoch, _hashed(plan)
            for numbers in plan[first:]:
                yield _PendingBatch(pool.submit(self.epoch, numbers, None), len(numbers), None)
            return
        has_own_state = has_state(source)
        if resumed is not None and has_own_state:
            source.load_state_dict(resumed["dataset"])
        items, number = _read(source, self._items if resumed is not None and has_own_state else 0), self._items
        try:
            if resumed is not None and not has_own_state:
                for _ in islice(items, self._items):
                    pass
            for group in groups(items, self.batch_size, self.drop_last):
                numbers = range(number, number + len(group))
                number += len(group)
                state = source.state_dict() if has_own_state else None
                yield _PendingBatch(pool.submit(self.epoch, numbers, group), len(group), state)
        except ItemError as fault:  # raised after the batches before it
            failed: Future[Any] = Future()
            failed.set_exception(fault)
            yield _PendingBatch(failed, 0, None)

    def _given(self, pool: Workers, submitted: Iterator[_PendingBatch]) -> Iterator[Any]:
        """The batches in order, while the workers prepare the next ones."""
        pending: deque[_PendingBatch] = deque()
        most = max(1, self.num_workers * self.prefetch_factor)
        try:
            while True:
                while len(pending) < most and (one := next(submitted, None)) is not None:
                    pending.append(one)
                if not pending:
                    break
                first = pending.popleft()
                batch = result(first.future, self.timeout or None, self._batch)
                self._batch, self._items, self._state = self._batch + 1, self._items + first.items, first.state
                yield to_tensors(batch) if self.tensors else batch
            self.epoch, self._batch, self._items, self._running = self.epoch + 1, 0, 0, False
        finally:
            pool.close()

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch of the next iteration, which then begins at its beginning.

        Raises ArgumentError unless it is a whole number of 0 or more.
        """
        if not is_whole(epoch) or epoch < 0:
            raise ArgumentError(
                f"set_epoch: epoch must be a whole number of 0 or more; got {shown(epoch)}; count epochs from 0"
            )
        self.epoch, self._batch, self._items, self._running, self._resume = int(epoch), 0, 0, False, None

    # ---- saving

    def state_dict(self) -> dict[str, Any]:
        """The epoch, the number of its batches and items so far, and the dataset's state if it has one."""
        return {
            "epoch": self.epoch, "batch": self._batch, "items": self._items, **self._identity(self.epoch),
            "dataset": self._state,
        }  # fmt: skip

    def _identity(self, epoch: int) -> dict[str, Any]:
        """The settings that determine an epoch's batches."""
        return {
            "seed": self.seed,
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "length": None if self.iterable else _length(self.dataset),
            "order": self._digest(epoch),
        }

    def _digest(self, epoch: int) -> str | None:
        """An epoch's order as a hash; None if there is none, or if computing it might change it."""
        if self._order is None or self._order[0] != epoch:
            order = self.sampler if self.batch_sampler is None else self.batch_sampler
            if self.iterable or not (hasattr(order, "order") or isinstance(order, list | tuple | range)):
                return None
            self._order = epoch, _hashed(self._plan(epoch))
        return self._order[1]

    def load_state_dict(self, saved: Any) -> None:
        """Continue after the last batch that was given when `state_dict` was called.

        Raises StateError if the dataset's length, seed, batch size, drop_last or order differ, because the batches
        would differ too.  Raises StateError for anything that is not a loader's state.  Then nothing is changed.
        """
        state: Mapping[str, Any] = cast("Any", saved) if isinstance(saved, Mapping) else {}
        lacking = [k for k in ("epoch", "batch", "items", "seed", "batch_size", "dataset") if k not in state]
        if lacking:
            raise StateError(
                f"DataLoader.load_state_dict: the state must have {', '.join(lacking)}; got {saved!r:.60}; pass the "
                "result of a loader's state_dict"
            )
        self._require_place(state)
        for name, own in self._identity(int(state["epoch"])).items():
            if state.get(name, own) != own and (own is None) == (state[name] is None):
                got = "another one; check shuffle and sampler" if name == "order" else f"{state[name]} and {own}"
                raise StateError(
                    f"DataLoader.load_state_dict: {name} must be the same; got {got}; to resume, make the loader as it "
                    f"was; for another {name}, begin a new run in another folder, with the weights alone: "
                    "train.restore_model(model, checkpoint)"
                )
        self._require_inside(state["batch"])
        self.epoch, self._batch, self._items = state["epoch"], state["batch"], state["items"]
        self._state, self._running = state["dataset"], False
        self._resume = state if state["batch"] else None

    def _require_place(self, state: Mapping[str, Any]) -> None:
        """Raise StateError for a place that no epoch has."""
        for name in ("epoch", "batch", "items"):
            if not is_whole(state[name]) or not 0 <= state[name] < 1 << 63:
                raise StateError(
                    f"DataLoader.load_state_dict: {name} must be a whole number of 0 or more; got "
                    f"{shown(state[name])}; pass the result of a loader's state_dict"
                )

    def _require_inside(self, batch: int) -> None:
        """Raise StateError for a batch outside the epoch."""
        count = None if self.iterable else _length(self)
        if count is not None and batch > count:
            raise StateError(
                f"DataLoader.load_state_dict: the epoch has {count} batches; got batch {batch}; load the "
                "state of a loader of the same data"
            )


def _order(sampler: Any, epoch: int) -> Any:
    """The order of a sampler in an epoch; a sampler without `order` gives the same one in every epoch."""
    return sampler.order(epoch) if hasattr(sampler, "order") else list(sampler)


def _length(dataset: Any) -> int | None:
    """A dataset's length, if it has one."""
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def _hashed(plan: Sequence[Sequence[Any]]) -> str:
    """The batches of an epoch as a hash."""
    found = hashlib.sha256()
    for numbers in plan:
        found.update(f"{','.join(map(str, numbers))};".encode())
    return found.hexdigest()


def _read(source: Any, number: int) -> Iterator[Any]:
    """The items of a stream; raises ItemError if the next one cannot be read."""
    try:
        for item in source:
            yield item
            number += 1
    except Exception as fault:
        raise unread(source, number, fault) from fault


def _unwrapped(dataset: Any) -> tuple[tuple[Callable[[Any], Any], ...], Any]:
    """The functions that workers apply, and the dataset that they apply them to."""
    functions: list[Callable[[Any], Any]] = []
    while isinstance(dataset, MapIterable):
        functions.append(dataset.f)
        dataset = dataset.source
    return tuple(reversed(functions)), dataset
