"""Loops over the rows of traced tensors, and lists that such loops fill: what operations know of them."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final

from nacre.base.dims import Size
from nacre.trace.value import Value, is_concrete

UNROLLED: Final = 32  # rows of a tensor up to which a loop over them is plain Python


class _Loops(threading.local):
    def __init__(self) -> None:
        self.offer: Callable[[], None] | None = None  # requests the conversion of the function that begins a loop


LOOPS: Final = _Loops()


def is_long(size: Size) -> bool:
    """Whether a loop over this many rows becomes a part of the program."""
    return not isinstance(size, int) or size > UNROLLED


def begin_rows(x: Value) -> None:
    """Python iterates over a tensor: a trace may convert the function instead."""
    if LOOPS.offer is not None and not is_concrete(x) and x.type.shape and is_long(x.type.shape[0]):
        LOOPS.offer()


class Stackable(ABC):
    """Items that are one tensor already."""

    @abstractmethod
    def stacked(self, size: int | None) -> Any:
        """The tensor; with `size`, of this number of rows, with zeros behind the items."""
