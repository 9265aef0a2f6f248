"""The ambient state of a thread: active interpreters, gradient mode, numerics mode."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any


class State(threading.local):
    """What surrounds the code that a thread runs.

    `interpreters` is the stack of active ones, outermost first (see `trace.bind`).  `word` is 0 exactly when
    an operation on plain tensors may run at once: no interpreter is active.
    """

    def __init__(self) -> None:
        self.interpreters: list[Any] = []
        self.word = 0
        self.gradients = True
        self.numerics = "exact"


STATE = State()


@contextmanager
def gradients(enabled: bool) -> Generator[None]:
    """Record operations for `backward` inside, or not."""
    before, STATE.gradients = STATE.gradients, enabled
    try:
        yield
    finally:
        STATE.gradients = before


def signature() -> tuple[object, ...]:
    """What of the ambient state a compiled function depends on."""
    return STATE.gradients, STATE.numerics
