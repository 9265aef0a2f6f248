"""What workers of a loader do: load the items of a batch and collate them, in threads or in processes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from nacre.base.errors import ArgumentError, Error
from nacre.base.records import dataclass
from nacre.data.collate import default_collate
from nacre.data.randomness import item_randomness


class ItemError(Error, RuntimeError):
    """An item of a dataset could not be loaded; `item` is its number, and the text has the worker's traceback."""

    def __init__(self, text: str, item: int) -> None:
        super().__init__(text)
        self.item = item

    def __reduce__(self) -> tuple[Any, ...]:
        return ItemError, (str(self), self.item)


_COLLATING = 1 << 31  # added to a batch's first item, so that its random numbers are not the item's


@dataclass(frozen=True)
class Fetch:
    """How batches are made: from a dataset by number, or from items that were read before, by functions."""

    dataset: Any
    functions: tuple[Callable[[Any], Any], ...]
    collate: Callable[[Sequence[Any]], Any] | None
    seed: int

    def load(self, epoch: int, numbers: Sequence[int], items: Sequence[Any] | None) -> Any:
        """A batch; `items` are what was read, or None where the dataset is asked.

        Raises ItemError, which names the item at fault.
        """
        if items is None and self.collate is None and not self.functions and hasattr(self.dataset, "batch"):
            return self.dataset.batch(numbers)
        found = [self._item(epoch, n, None if items is None else items[k]) for k, n in enumerate(numbers)]
        with item_randomness(self.seed, epoch, _COLLATING | numbers[0]):
            return (self.collate or default_collate)(found)

    def _item(self, epoch: int, number: int, item: Any) -> Any:
        try:
            with item_randomness(self.seed, epoch, number):
                if self.dataset is not None:
                    item = self.dataset[number]
                for f in self.functions:
                    item = f(item)
                return item
        except Exception as fault:
            told = "".join(traceback.format_exception(fault)).rstrip()
            name = type(self.dataset).__name__ if self.dataset is not None else "the dataset"
            raise ItemError(
                f"DataLoader: item {number} of {name} could not be loaded: {type(fault).__name__}: {fault}\n\n"
                f"In the worker:\n{told}", number,
            ) from fault  # fmt: skip


# ---- in processes

_HELD: list[Fetch] = []  # a worker process's own


def _begin(fetch: Fetch, prepare: Callable[[], Any] | None) -> None:
    _HELD[:] = [fetch]
    if prepare is not None:
        prepare()


def _work(epoch: int, numbers: Sequence[int], items: Sequence[Any] | None) -> Any:
    return _HELD[0].load(epoch, numbers, items)


class Workers:
    """Threads or processes that make batches; without any, batches are made where they are asked for."""

    def __init__(
        self, fetch: Fetch, count: int, kind: str, context: str, prepare: Callable[[], Any] | None = None
    ) -> None:
        self.fetch, self.kind = fetch, kind
        self.executor: Executor | None = None
        if count and kind == "threads":
            self.executor = ThreadPoolExecutor(count, "nacre-data", prepare or _nothing)
        elif count:
            self.executor = ProcessPoolExecutor(count, get_context(context), _begin, (fetch, prepare))

    def submit(self, epoch: int, numbers: Sequence[int], items: Sequence[Any] | None) -> Future[Any]:
        """A batch to come."""
        if self.executor is None:
            done: Future[Any] = Future()
            done.set_result(self.fetch.load(epoch, numbers, items))
            return done
        if self.kind == "threads":
            return self.executor.submit(self.fetch.load, epoch, numbers, items)
        return self.executor.submit(_work, epoch, numbers, items)

    def close(self) -> None:
        """Let the workers go; what they have not begun is not done."""
        if self.executor is not None:
            self.executor.shutdown(wait=False, cancel_futures=True)


def _nothing() -> None:
    """The preparation of a worker that needs none."""


def result(future: Future[Any], timeout: float | None, batch: int) -> Any:
    """A batch that was submitted; raises ItemError, or ArgumentError for workers that ended or take too long."""
    try:
        return future.result(timeout)
    except BrokenProcessPool as fault:
        raise ArgumentError(
            f"DataLoader: workers that live are required; got one that ended while batch {batch} was made; the dataset "
            "and its functions must be importable by, and picklable for, another process, and fit its memory"
        ) from fault
    except TimeoutError as fault:
        raise ArgumentError(
            f"DataLoader: batch {batch} within {timeout} seconds is required; got none; raise `timeout` or look for an "
            "item that takes long"
        ) from fault
