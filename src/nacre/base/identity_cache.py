"""Results cached by the identity of an argument, for values that are slow to compare."""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Concatenate, ParamSpec, TypeVar

from nacre.base.locks import forkable

X = TypeVar("X")
R = TypeVar("R")
P = ParamSpec("P")
LIMIT = 256  # cached results: those of the objects that are compiled at one time


def cached_by_identity(function: Callable[Concatenate[X, P], R]) -> Callable[Concatenate[X, P], R]:
    """A pure function that caches its latest results by the first argument's identity and the other arguments' values.

    >>> @cached_by_identity
    ... def size(x: list[int]) -> list[int]:
    ...     return [len(x)]
    >>> one = [1, 2]
    >>> size(one) is size(one), size(one) is size([1, 2])
    (True, False)
    """
    known: dict[Any, tuple[X, R]] = {}
    lock = forkable()

    def cached(x: X, *args: P.args, **kwargs: P.kwargs) -> R:
        key = (id(x), *args, *kwargs.items())
        found = known.get(key)
        if found is None:
            found = x, function(x, *args, **kwargs)  # references x, so that no other object gets its id
            with lock:
                known[key] = found
                if len(known) > LIMIT:
                    del known[next(iter(known))]
        return found[1]

    return update_wrapper(cached, function)
