"""What surrounds a computation: gradient recording, the numerics mode, the number of threads, the memory."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, TypeVar

from nacre.base.errors import ArgumentError
from nacre.base.state import STATE, gradients
from nacre.codegen.entry import forget_packed, rebind
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


class Block(Protocol):
    """What a `with` statement or a decorated function goes through."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> bool | None: ...

    def __call__(self, function: F, /) -> F: ...


def no_grad() -> Block:
    """A block, or with `@no_grad()` a function, in which nothing is recorded for `backward`: no derivative goes through it.

    >>> x = nc.tensor(1.0).requires_grad_()
    >>> with nc.no_grad():
    ...     (x * 2).requires_grad
    False
    """
    return gradients(False)


def enable_grad() -> Block:
    """A block in which operations are recorded again inside `no_grad`.

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


def numerics(mode: str) -> Block:
    """A block with a numerics mode: `"exact"`, the default, or `"fast"`, which allows other bits for speed.

    >>> with nc.numerics("fast"):
    ...     pass
    """
    if mode not in ("exact", "fast"):
        raise ArgumentError(f'numerics: "exact" or "fast" is required; got {mode!r}')
    return binding.numerics(mode)


def set_threads(count: int) -> None:
    """Compute with so many threads.  Results do not depend on it.

    >>> nc.set_threads(nc.get_threads())
    """
    if count < 1:
        raise ArgumentError(f"set_threads: at least one thread is required; got {count}")
    pool().set_threads(count)
    rebind()


def get_threads() -> int:
    """How many threads compute.

    >>> nc.get_threads() >= 1
    True
    """
    return pool().threads


def set_memory_limit(nbytes: int | None) -> None:
    """Bound the bytes that all tensors and running programs may take; None, the default, for what the machine has.

    Where it would be passed, `OutOfMemory` is raised, after what is kept for reuse has been given back.

    >>> nc.set_memory_limit(1 << 30)
    >>> nc.set_memory_limit(None)
    """
    if nbytes is not None and (isinstance(nbytes, bool) or not isinstance(nbytes, int) or nbytes < 0):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(f"set_memory_limit: a number of bytes of 0 or more, or None, is required; got {nbytes!r}")
    buffer.memory_limit(nbytes)


def empty_cache() -> None:
    """Give memory that is kept for reuse, and weights that programs keep packed, back to the system.

    >>> nc.empty_cache()
    """
    forget_packed()
    buffer.empty_cache()
