"""The functions of the parallel runtime on systems that are not Linux: all regions run on the caller alone."""

from __future__ import annotations

from collections.abc import Callable

from nacre.native.python.declarations import native
from nacre.native.python.types import i64, ptr, u8


@native(symbol="nacre.pool_enter")
def enter(most: i64) -> i64:
    """The threads of a region: the caller."""
    return 1


@native(symbol="nacre.pool_leave")
def leave() -> None:
    """Nothing is to be released."""


@native(symbol="nacre.pool_share")
def share(function: Callable[[ptr[u8], i64, i64], None], argument: ptr[u8], chunks: i64) -> None:
    """Do all chunks of a region."""
    run(function, argument, chunks)


@native(symbol="nacre.pool_run")
def run(function: Callable[[ptr[u8], i64, i64], None], argument: ptr[u8], chunks: i64) -> None:
    """Do all chunks in order."""
    for chunk in range(chunks):
        function(argument, chunk, 0)


@native(symbol="nacre.pool_forked")
def forked() -> None:
    """Nothing is to be restored."""


@native(symbol="nacre.pool_threads")
def threads() -> i64:
    """The largest number of threads."""
    return 1


@native(symbol="nacre.pool_set")
def set_team(count: i64, processors: ptr[u8]) -> None:
    """Nothing is to be set."""


@native(symbol="nacre.pool_started")
def started() -> i64:
    """The number of threads that run."""
    return 1
