"""Reliable timing: warm-up first, candidates in turn in each round, and spread beside minimum and median."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median, quantiles
from typing import Any

from nacre.base.errors import ArgumentError
from nacre.base.records import dataclass

WARM = 2  # calls before the first timed one


@dataclass(frozen=True)
class Times:
    """The seconds of all timed calls."""

    seconds: tuple[float, ...]

    @property
    def least(self) -> float:
        """The shortest time: the machine without disturbance."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The middle time: typical use."""
        return median(self.seconds)

    @property
    def spread(self) -> float:
        """The distance between the quartiles over the median: the uncertainty of the times."""
        if len(self.seconds) < 2:
            return 0.0
        low, _, high = quantiles(self.seconds, n=4, method="inclusive")
        return (high - low) / self.median


def interleaved(calls: Mapping[str, Callable[[], Any]], rounds: int = 5, seconds: float = 0.3) -> dict[str, Times]:
    """Time calls in turn: each round runs each of them for about the given seconds, and at least once.

    >>> sorted(interleaved({"a": lambda: 1, "b": lambda: 2}, rounds=2, seconds=0.001))
    ['a', 'b']

    Raises ArgumentError for less than one round.
    """
    if rounds < 1:
        raise ArgumentError(f"timing: rounds must be at least 1; got {rounds}")
    for call in calls.values():
        for _ in range(WARM):
            call()
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            end = time.perf_counter() + seconds
            while True:
                start = time.perf_counter()
                call()
                now = time.perf_counter()
                found[name].append(now - start)
                if now >= end:
                    break
    return {name: Times(tuple(taken)) for name, taken in found.items()}
