"""The workers of a loader: they load the items of a batch and collate them, in threads or in processes.

A worker never keeps the program running.  Its thread is a daemon.  Its process ends with the loader's iteration and
with its parent process, even in the middle of an item.
"""

from __future__ import annotations

import pickle
import signal
import threading
import traceback
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from queue import SimpleQueue
from typing import Any, cast

from nacre.base import signals
from nacre.base.errors import ArgumentError, Error
from nacre.base.records import dataclass
from nacre.data.collate import default_collate
from nacre.data.randomness import item_randomness


class ItemError(Error, RuntimeError):
    """An item of a dataset, or the batch that begins with it, could not be made.

    `item` is its number, and the message has the worker's traceback.  `__cause__` is the original error of the dataset
    or of a function, unless it cannot be sent from another process.  The error is also an instance of its cause's
    class, so an `except` for that class catches it.

    >>> def fail(k): raise FileNotFoundError(f"{k}.png")
    >>> try: list(data.DataLoader(data.SequenceDataset([7]).map(fail)))
    ... except FileNotFoundError as fault: print(isinstance(fault, data.ItemError), fault.item, repr(fault.__cause__))
    True 0 FileNotFoundError('7.png')
    """

    item = -1

    def __init__(self, text: str, item: int) -> None:
        super().__init__(text)
        self.item = item

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return item_error, (str(self), self.item, self.__cause__)


def item_error(text: str, item: int, cause: BaseException | None) -> ItemError:
    """An ItemError that is also an instance of its cause's class, if one class can be both."""
    kind: Any = type(cause)
    try:
        plain = cause is None or issubclass(ItemError, kind) or isinstance(cause, StopIteration)  # ends generators
        both = (
            ItemError
            if plain
            else cast("type[ItemError]", type("ItemError", (ItemError, kind), {"__module__": __name__}))
        )
        made: Any = kind.__new__(both) if both is not ItemError else ItemError("", item)
        made.args, made.item = (text,), item
    except Exception:  # a class without subclasses, or with required arguments
        made = ItemError(text, item)
    made.__cause__ = cause
    return made


def _at_fault(what: str, item: int, fault: Exception) -> ItemError:
    """An ItemError with the current traceback."""
    lines = "".join(traceback.format_exception(fault)).rstrip()
    return item_error(f"DataLoader: {what}: {type(fault).__name__}: {fault}\n\nIn the worker:\n{lines}", item, fault)


_COLLATING = 1 << 31  # added to a batch's first item, so that its random numbers differ from the item's


@dataclass(frozen=True)
class Fetch:
    """How batches are made: from a dataset by number, or from items that were read before."""

    dataset: Any
    functions: tuple[Callable[[Any], Any], ...]
    collate: Callable[[Sequence[Any]], Any] | None
    seed: int

    def load(self, epoch: int, numbers: Sequence[int], items: Sequence[Any] | None) -> Any:
        """A batch; `items` are the items that were read, or None to read them from the dataset.

        Raises ItemError with the number of the failing item.
        """
        at_once = items is None and self.collate is None and not self.functions and hasattr(self.dataset, "batch")
        found = (
            []
            if at_once
            else [self._item(epoch, n, None if items is None else items[k]) for k, n in enumerate(numbers)]
        )
        try:
            with item_randomness(self.seed, epoch, _COLLATING | numbers[0]):
                return self.dataset.batch(numbers) if at_once else (self.collate or default_collate)(found)
        except ItemError:
            raise
        except Exception as fault:
            raise _at_fault(
                f"the batch of the items {', '.join(map(str, numbers))} could not be made", numbers[0], fault
            ) from fault

    def _item(self, epoch: int, number: int, item: Any) -> Any:
        try:
            with item_randomness(self.seed, epoch, number):
                if self.dataset is not None:
                    item = self.dataset[number]
                for f in self.functions:
                    item = f(item)
                return item
        except ItemError:
            raise
        except Exception as fault:
            raise unread(self.dataset, number, fault) from fault


def unread(dataset: Any, number: int, fault: Exception) -> ItemError:
    """The error for an item that could not be read."""
    name = type(dataset).__name__ if dataset is not None else "the dataset"
    return _at_fault(f"item {number} of {name} could not be loaded", number, fault)


# ---- in processes


class _WorkerEnd(Exception):
    """A worker process ended before it returned its batch."""


Prepare = Callable[[], Any] | None


def _serve(requests: Connection, parent_end: Connection | None, start: Any) -> None:
    """The main loop of a worker process: it makes batches on request until None arrives or the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C, and ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signals.unblock(signals.ENDING)  # the parent blocked them, so that none arrives before this function decides
    if parent_end is not None:
        parent_end.close()
    parent = parent_process()
    ready: tuple[Fetch, BaseException | None] | None = None
    while requests in wait([requests, *([parent.sentinel] if parent is not None else [])]):
        try:
            wanted = requests.recv()
        except EOFError:
            return
        if wanted is None:
            return
        epoch, numbers, items = wanted
        try:
            ready = ready or _begin(start, numbers[0])
            if ready[1] is not None:
                raise ready[1]
            answer = ForkingPickler.dumps((True, ready[0].load(epoch, numbers, items)))
        except ItemError as fault:
            answer = _packed(fault)
        except Exception as fault:
            answer = _packed(
                _at_fault(
                    f"the batch of the items {', '.join(map(str, numbers))} could not be sent to another process",
                    numbers[0],
                    fault,
                )
            )
        with suppress(OSError):  # the parent has ended
            requests.send_bytes(answer)


def _begin(start: Any, item: int) -> tuple[Fetch, BaseException | None]:
    """The tools of a worker process, and the error if preparing them failed."""
    fetch, prepare = pickle.loads(start) if isinstance(start, bytes) else start
    return fetch, _prepared(prepare, item)


def _prepared(prepare: Prepare, item: int) -> ItemError | None:
    """Prepare a worker; returns the error if that fails."""
    try:
        if prepare is not None:
            prepare()
    except Exception as fault:
        return _at_fault("a worker could not be prepared by worker_init_fn", item, fault)
    return None


def _packed(fault: ItemError) -> Any:
    """An error as bytes, without its cause if the cause cannot be pickled."""
    whole = str(fault), fault.item, fault.__cause__
    try:
        packed = ForkingPickler.dumps((False, whole))
        pickle.loads(packed)
        return packed
    except Exception:
        return ForkingPickler.dumps((False, (*whole[:2], None)))


class _Process:
    """A worker process, seen from the thread that waits for its batches."""

    def __init__(self, context: Any, fork: bool, start: Any) -> None:
        self.pipe, child_end = context.Pipe()
        self.process = context.Process(target=_serve, args=(child_end, self.pipe if fork else None, start), daemon=True)
        with signals.blocked(signals.ENDING):
            self.process.start()
        child_end.close()
        self.busy = False

    def load(self, epoch: int, numbers: Sequence[int], items: Sequence[Any] | None) -> Any:
        """A batch; raises ItemError, or _Ended."""
        self.busy = True
        try:
            request = ForkingPickler.dumps((epoch, numbers, items))
            self.pipe.send_bytes(request)
            wait([self.pipe, self.process.sentinel])
            if not self.pipe.poll():
                raise _WorkerEnd
            whole, found = self.pipe.recv()
        except (EOFError, OSError):
            raise _WorkerEnd from None
        finally:
            self.busy = False
        if not whole:
            raise item_error(*found)
        return found

    def end(self) -> None:
        """End the process and wait for it."""
        with suppress(OSError):  # it has ended
            self.pipe.send(None)
        self.process.join(1.0)
        if self.process.is_alive():
            self.process.kill()
        self.pipe.close()


# ---- threads, which make batches or wait for processes that do


class _Queue:
    """The queue of tasks, and whether it is still open."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[tuple[Future[Any], tuple[Any, ...]] | None] = SimpleQueue()
        self.closed = False
        self.workers = 0
        self.processes: list[_Process] = []

    def close(self) -> None:
        """Close the queue: idle workers end, and busy processes are ended at once."""
        self.closed = True
        for _ in range(self.workers):
            self.tasks.put(None)
        for start in self.processes:
            if start.busy:
                start.process.kill()

    def work(self, load: Callable[..., Any], prepare: Prepare, process: _Process | None) -> None:
        """The main loop of a worker thread."""
        fault: Any = None
        prepared = prepare is None
        while (task := self.tasks.get()) is not None:
            future, request = task
            if self.closed:
                future.cancel()
                continue
            try:
                if not prepared:
                    fault, prepared = _prepared(prepare, request[1][0]), True
                if fault is not None:
                    raise fault
                future.set_result(load(*request))
            except BaseException as error:  # any error is raised where the batch is requested
                future.set_exception(error)
        if process is not None:
            process.end()


class Workers:
    """The threads or processes that make batches; without any, batches are made on demand."""

    def __init__(self, fetch: Fetch, count: int, kind: str, context: str, prepare: Prepare = None) -> None:
        self.fetch, self.count, self.prepare = fetch, count, prepare
        self.context = get_context(context) if count and kind == "processes" else None
        self.fork = context == "fork"
        self.start: Any = None  # the arguments of the processes
        self.queue = _Queue()
        self.closing = weakref.finalize(self, self.queue.close)  # at the end of the program, too

    def submit(self, epoch: int, numbers: Sequence[int], items: Sequence[Any] | None) -> Future[Any]:
        """The future of a batch."""
        future: Future[Any] = Future()
        if not self.count:
            future.set_result(self.fetch.load(epoch, numbers, items))
            return future
        if self.queue.workers < self.count:
            self._add()
        self.queue.tasks.put((future, (epoch, numbers, items)))
        return future

    def _add(self) -> None:
        """Start one more worker."""
        process: _Process | None = None
        if self.context is not None:
            process = self._process(self.context)
            self.queue.processes.append(process)
        load, prepare = (self.fetch.load, self.prepare) if process is None else (process.load, None)
        self.queue.workers += 1
        threading.Thread(target=self.queue.work, args=(load, prepare, process), name="nacre-data", daemon=True).start()

    def _process(self, context: Any) -> _Process:
        try:
            if self.start is None:
                given = self.fetch, self.prepare
                self.start = given if self.fork else bytes(ForkingPickler.dumps(given))
            return _Process(context, self.fork, self.start)
        except Exception as fault:
            raise ArgumentError(
                "DataLoader: worker processes need a dataset and functions that can be pickled; got "
                f'{type(fault).__name__}: {fault}; define them in a module, or pass workers="threads"'
            ) from fault

    def close(self) -> None:
        """End the workers: pending batches are dropped, and busy processes are ended."""
        self.closing()


def result(future: Future[Any], timeout: float | None, batch: int) -> Any:
    """The result of a submitted batch; raises ItemError, or ArgumentError for a worker that ended or takes too long."""
    try:
        return future.result(timeout)
    except _WorkerEnd as fault:
        raise ArgumentError(
            f"DataLoader: a worker process ended while batch {batch} was made; the dataset and its functions must be "
            "importable by, and picklable for, another process, and fit its memory"
        ) from fault
    except TimeoutError as fault:
        if future.done():  # raised by the dataset
            raise
        raise ArgumentError(
            f"DataLoader: batch {batch} was not ready within {timeout} seconds; raise `timeout`, or look for a slow "
            "item"
        ) from fault
