"""Which settings of an operation have targets: those that come first, as numbers and places may have many values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nacre.base.types import TensorType

MOST: Final = 64  # settings of one operation that have targets
REMEMBERED: Final = 1 << 14  # settings, and operations with settings


class FirstSettings:
    """The settings that have targets, and how many there are of each operation."""

    def __init__(self) -> None:
        self.count: dict[object, int] = {}

    def forget(self) -> None:
        """Drop all settings."""
        self.count.clear()

    def has(self, key: Sequence[object], shared: Sequence[object]) -> bool:
        """Whether the key of an operation with its settings has a target; `shared` is the key without settings."""
        whole, operation = without_sizes(key), without_sizes(shared)
        if whole not in self.count:
            found = self.count.get(operation, 0)
            if found >= MOST:
                return False
            if len(self.count) >= REMEMBERED:
                self.count.clear()
            self.count.update({operation: found + 1, whole: 1})
        return True


def without_sizes(key: Sequence[object]) -> tuple[Any, ...]:
    """A key with the dtypes and ranks of types in their places."""
    return tuple([part.kind if type(part) is TensorType else part for part in key])
