"""Patterns of sizes: which sizes of several calls were equal in all of them, and which have changed."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

from nacre.base.records import dataclass

LEAST: Final = 2  # smaller sizes belong to the kind of a call: broadcasting treats 1 in another way, and 0 is empty


@dataclass(frozen=True)
class SizePattern:
    """How the sizes of calls of one kind vary: `groups` numbers the axes; those that were always equal share one."""

    first: tuple[int, ...]
    groups: tuple[int, ...]
    varied: frozenset[int] = frozenset()  # the axes with more than one size

    @staticmethod
    def of(sizes: tuple[int, ...]) -> SizePattern:
        """The pattern of one call."""
        return SizePattern(sizes, _numbered(sizes))

    def joined(self, sizes: tuple[int, ...]) -> SizePattern:
        """The pattern of these and the earlier calls."""
        varied = self.varied.union(k for k, (n, m) in enumerate(zip(sizes, self.first, strict=True)) if n != m)
        return SizePattern(self.first, _numbered(tuple(zip(self.groups, sizes, strict=True))), varied)


def _numbered(items: Sequence[Hashable]) -> tuple[int, ...]:
    """Equal items as equal numbers, in order."""
    numbers: dict[Hashable, int] = {}
    return tuple([numbers.setdefault(x, len(numbers)) for x in items])
