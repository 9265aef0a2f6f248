"""Settings of a computation: gradient recording, numerics mode, number of threads, memory."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeVar

from nacre.base.arguments import is_whole, whole_number
from nacre.base.errors import ArgumentError
from nacre.base.state import STATE, gradients
from nacre.codegen.entry.points import forget_packed, rebind
from nacre.native.pool import pool
from nacre.runtime import buffer
from nacre.trace import bind as binding

__all__ = [
    "empty_cache",
    "enable_grad",
    "get_threads",
    "is_grad_enabled",
    "no_grad",
    "numerics",
    "set_memory_limit",
    "set_threads",
]

F = TypeVar("F", bound=Callable[..., Any])


class SettingsBlock(Protocol):
    """A context manager that is also a decorator."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None: ...

    def __call__(self, function: F, /) -> F: ...


def no_grad() -> SettingsBlock:
    """A context or, as `@no_grad()`, a decorator in which nothing is recorded for `backward`.

    No derivative passes through values computed in it, in compiled functions too.

    >>> x = nc.tensor(1.0).requires_grad_()
    >>> with nc.no_grad():
    ...     (x * 2).requires_grad
    False
    """
    return gradients(False)


def enable_grad() -> SettingsBlock:
    """A context in which operations are recorded again inside `no_grad`.

    >>> x = nc.tensor(1.0).requires_grad_()
    >>> with nc.no_grad(), nc.enable_grad():
    ...     (x * 2).requires_grad
    True
    """
    return gradients(True)


def is_grad_enabled() -> bool:
    """Whether operations are recorded for `backward`.

    >>> nc.is_grad_enabled()
    True
    """
    return STATE.gradients


def numerics(mode: str) -> SettingsBlock:
    """A context with a numerics mode: `"exact"` (the default) or `"fast"`, which allows different bits for speed.

    >>> with nc.numerics("fast"):
    ...     pass
    """
    if mode not in ("exact", "fast"):
        raise ArgumentError(f'numerics: mode must be "exact" or "fast"; got {mode!r}')
    return binding.numerics(mode)


def set_threads(count: int) -> None:
    """Set the number of threads that compute.  Results do not depend on it.

    >>> nc.set_threads(nc.get_threads())
    """
    count = whole_number(count, "set_threads", "count")
    if count < 1:
        raise ArgumentError(f"set_threads: count must be at least 1; got {count}")
    pool().set_threads(count)
    rebind()


def get_threads() -> int:
    """The number of threads that compute.

    >>> nc.get_threads() >= 1
    True
    """
    return pool().threads


def set_memory_limit(nbytes: int | None) -> None:
    """Limit the bytes that all tensors and running programs may take.  None, the default, allows what the machine has.

    An allocation beyond the limit first frees memory cached for reuse; if that is not enough, it raises `OutOfMemory`.

    >>> nc.set_memory_limit(1 << 30)
    >>> nc.set_memory_limit(None)
    """
    if nbytes is not None and (not is_whole(nbytes) or nbytes < 0):
        raise ArgumentError(f"set_memory_limit: nbytes must be at least 0, or None; got {nbytes!r}")
    buffer.memory_limit(None if nbytes is None else min(int(nbytes), (1 << 63) - 1))


def empty_cache() -> None:
    """Return memory cached for reuse, and packed weights that programs cache, to the system.

    >>> nc.empty_cache()
    """
    forget_packed()
    buffer.empty_cache()
