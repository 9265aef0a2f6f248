"""A loop of LLVM text while its body is written."""

from __future__ import annotations

from dataclasses import field

from nacre.base.records import dataclass
from nacre.native.llvm_values import Val


@dataclass
class LoopText:
    """The index of a loop, its carried values, and its results."""

    index: Val
    carried: list[Val]
    following: list[Val] = field(default_factory=list[Val])
    results: list[Val] = field(default_factory=list[Val])

    def next(self, *values: Val) -> None:
        """Set the carried values of the next iteration."""
        self.following = list(values)
