"""Blocks of code with another ambient state: contexts that are also decorators of functions."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Generator
from functools import wraps
from types import TracebackType
from typing import Any, Generic, TypeVar, cast

from nacre.base.errors import KindError
from nacre.base.state import STATE, record_gradients

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class StateBlock(Generic[T]):
    """A context with another state of the thread, and a decorator of functions that run in it.

    A block may be entered again, also inside of itself and by other threads.
    """

    def __init__(self, name: str, read: Callable[[], T], write: Callable[[T], None], value: T) -> None:
        self._name, self._read, self._write, self._value = name, read, write, value
        self._before: list[tuple[int, T]] = []  # the thread and its state, for each time that it was entered

    @property
    def entered(self) -> bool:
        """Whether this thread is in the block."""
        thread = threading.get_ident()
        return any(each == thread for each, _ in self._before)

    def __enter__(self) -> None:
        before = self._read()
        self._before.append((threading.get_ident(), before))
        try:
            self._write(self._value)
        except BaseException:  # an interrupt: the state must be restored completely
            self.__exit__()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        thread = threading.get_ident()
        place = next(k for k in reversed(range(len(self._before))) if self._before[k][0] == thread)
        _, before = self._before.pop(place)
        try:
            self._write(before)
        except BaseException:
            self._write(before)
            raise

    def __call__(self, function: F, /) -> F:
        """The function, which runs in this state; a generator runs in it between its `yield`s.

        Raises KindError for a class or a coroutine function.
        """
        kind = (
            ("a class", "its methods")
            if isinstance(function, type)
            else ("a coroutine function", "what it calls")
            if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
            else None
        )
        if kind is not None or not callable(function):
            given, instead = kind or (f"a {type(function).__name__}", "a function")
            raise KindError(
                f"{self._name}: only a function can be decorated; got {given}; decorate {instead}, or write "
                f"`with nacre.{self._name}:` inside"
            )

        @wraps(function)
        def within(*args: Any, **kwargs: Any) -> Any:
            """The function's result."""
            with self._again():
                return function(*args, **kwargs)

        @wraps(function)
        def generated(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
            """The function's generator."""
            return self._driven(cast("Generator[Any, Any, Any]", function(*args, **kwargs)))

        return cast("F", generated if inspect.isgeneratorfunction(function) else within)

    def _again(self) -> StateBlock[T]:
        return StateBlock(self._name, self._read, self._write, self._value)

    def _driven(self, generator: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        sent, fault = None, None
        while True:
            with self._again():
                try:
                    item = generator.send(sent) if fault is None else generator.throw(fault)
                except StopIteration as end:
                    return end.value
            try:
                sent, fault = (yield item), None
            except GeneratorExit:
                with self._again():
                    generator.close()
                raise
            except BaseException as raised:
                sent, fault = None, raised


def gradients(enabled: bool, name: str = "no_grad()") -> StateBlock[bool]:
    """A context in which operations are recorded for `backward`, or are not."""
    return StateBlock(name, lambda: STATE.gradients, record_gradients, enabled)


def recorded_unless_inference(enabled: bool, name: str) -> StateBlock[bool]:
    """The same, without an effect in inference mode."""
    return StateBlock(name, lambda: STATE.gradients, lambda on: record_gradients(on and not STATE.inference), enabled)


class ModeFromHere:
    """A block that is entered when it is made; as a context or decorator, it ends at the end of that.

    `with` restores the state before the block was made, and so does a decorator at once.
    """

    def __init__(self, block: StateBlock[bool]) -> None:
        self._block = block
        block.__enter__()

    def __enter__(self) -> None:
        """Keep the state, which `__exit__` ends; a second time, enter it again."""
        if not self._block.entered:
            self._block.__enter__()

    def __exit__(self, *fault: object) -> None:
        self._block.__exit__()

    def __call__(self, function: F, /) -> F:
        self._block.__exit__()
        return self._block(function)


def inference(enabled: bool) -> StateBlock[tuple[bool, bool]]:
    """A context of inference mode, in which nothing is recorded for `backward`, or of normal mode."""
    return StateBlock(
        "inference_mode()",
        lambda: (STATE.gradients, STATE.inference),
        lambda modes: record_gradients(*modes),
        (not enabled, enabled),
    )
