"""Attributes that are computed when they are first read."""

from __future__ import annotations

import threading
from pathlib import Path

from nacre.base.cached_property import cached_property

ROOT = Path(__file__).parents[2] / "src" / "nacre"


class Measured:
    """Counts how often its attribute is computed."""

    def __init__(self) -> None:
        self.count = 0

    @cached_property
    def size(self) -> list[int]:
        """The size."""
        self.count += 1
        return [self.count]


def test_computed_once_for_each_instance() -> None:
    a, b = Measured(), Measured()
    assert a.size is a.size and a.size is not b.size
    assert (a.count, b.count) == (1, 1)
    assert isinstance(Measured.size, cached_property) and Measured.size.__doc__ == "The size."


class Slow:
    """Its attribute waits for an event, if there is one."""

    def __init__(self, event: threading.Event | None) -> None:
        self.event, self.begun = event, threading.Event()

    @cached_property
    def value(self) -> int:
        """One."""
        self.begun.set()
        assert self.event is None or self.event.wait(60)
        return 1


def test_an_instance_does_not_wait_for_another_one() -> None:
    event = threading.Event()
    waiting = Slow(event)
    thread = threading.Thread(target=lambda: waiting.value)
    thread.start()
    assert waiting.begun.wait(60)
    assert Slow(None).value == 1 and thread.is_alive()
    event.set()
    thread.join()


def test_no_attribute_has_the_lock_of_functools() -> None:
    texts = [p.read_text(encoding="utf-8") for p in ROOT.rglob("*.py")]
    imports = [line for text in texts for line in text.splitlines() if line.startswith("from functools import")]
    assert not [line for line in imports if "cached_property" in line]
