"""The position of a loader in its epoch, and its remaining batches."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, cast


def length(loader: Any) -> int | None:
    """The number of batches in an epoch, or None if the loader has no length."""
    try:
        return len(loader)
    except (TypeError, ValueError):
        return None


def place(loader: Any) -> Any:
    """The state of a loader, or None if it has none; such a loader is read from its beginning to resume."""
    return loader.state_dict() if hasattr(loader, "state_dict") else None


def begin_epoch(loader: Any, epoch: int) -> None:
    """Make the next iteration the one of an epoch, for loaders that have `set_epoch`."""
    if hasattr(loader, "set_epoch"):
        loader.set_epoch(epoch)


@contextmanager
def remaining(loader: Iterable[Any], epoch: int, done: int, at: Any) -> Generator[Iterator[Any]]:
    """The batches of an epoch after the first `done` ones, from the loader's state `at`; workers end with the block."""
    known, skip = cast("Any", loader), 0
    if not done:
        begin_epoch(loader, epoch)
    elif at is not None and hasattr(loader, "load_state_dict"):
        known.load_state_dict(at)
    else:
        begin_epoch(loader, epoch)
        skip = done
    batches: Any = iter(loader)
    try:
        yield islice(batches, skip, None)
    finally:
        if hasattr(batches, "close"):
            batches.close()
