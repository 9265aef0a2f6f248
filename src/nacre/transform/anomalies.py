"""`detect_anomalies`: a context in which the first operation with an anomaly is an error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from functools import wraps
from types import TracebackType
from typing import Any, TypeVar, cast

from nacre.base.errors import ArgumentError, KindError, StateError
from nacre.base.state import STATE
from nacre.interpret.anomalies.detector import Detector, begin, end
from nacre.interpret.anomalies.kinds import ALL, KINDS, Kinds

__all__ = ["detect_anomalies"]

F = TypeVar("F", bound=Callable[..., Any])


class AnomalyDetection(threading.local):
    """A context in which operations are examined, and a decorator of functions that run in it."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self._entered: list[tuple[Detector, Detector | None]] = []

    def __enter__(self) -> None:
        before = STATE.detector
        if STATE.word and not (before is not None and STATE.interpreters[-1] is before):
            raise StateError(
                "detect_anomalies: the block must be outside of traced code; got one inside; put it around the call of "
                "the compiled or transformed function, or write nc.jit(f, detect_anomalies=True)"
            )
        self._entered.append((begin(self.kinds), before))

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        end(*self._entered.pop())

    def __call__(self, function: F, /) -> F:
        """The function, which runs in the context."""
        if not callable(function) or isinstance(function, type):
            raise KindError(f"detect_anomalies: only a function can be decorated; got {function!r}")

        @wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            """The function's result."""
            with self:
                return function(*args, **kwargs)

        return cast("F", within)


def detect_anomalies(kinds: str | Collection[str] = "all") -> AnomalyDetection:
    """A context or decorator in which the first operation with an anomaly raises AnomalyError, forward or backward.

    `kinds` are `"all"` or some of `"nan"`, `"overflow"`, `"division"`, `"input"`, `"underflow"` and `"saturation"`; the
    first four together cost little.  Compiled functions are examined, too.  The error's `anomaly` has the kind, the
    operation, the share of elements, the ranges of the operands, your line and the path of the module.  Variables keep
    the values that they had before the call of a compiled function.  Raises ArgumentError for other kinds, StateError
    inside of traced code.

    >>> x = nc.tensor([1.0, 0.0])
    >>> try:
    ...     with nc.detect_anomalies():
    ...         y = nc.log(x)
    ... except nc.AnomalyError as error:
    ...     print(error.anomaly.kind, error.anomaly.operation, error.anomaly.share)
    division log 0.5
    """
    found = checked_kinds("detect_anomalies", kinds)
    if not found:
        raise ArgumentError(f'detect_anomalies: kinds must be "all" or some of {", ".join(KINDS)}; got {kinds!r}')
    return AnomalyDetection(found)


def checked_kinds(operation: str, kinds: Any) -> Kinds:
    """The kinds as a set, which is empty for False; ArgumentError for others."""
    if kinds is True or kinds is False:
        return ALL if kinds else frozenset()
    if kinds == "all":
        return ALL
    if isinstance(kinds, str | Collection):
        found: Kinds = frozenset([kinds] if isinstance(kinds, str) else cast("Collection[str]", kinds))
        if found <= ALL:
            return found
    raise ArgumentError(f'{operation}: kinds must be "all" or some of {", ".join(KINDS)}; got {kinds!r}')


def traced_with_places() -> AnomalyDetection:
    """A context in which functions are traced with the paths of modules in their equations' sources."""
    return AnomalyDetection(ALL)
