"""Garbage collection is paused inside a context and restored after it."""

from __future__ import annotations

import gc
import weakref

import pytest

from nacre.base import gc_pause
from nacre.base.gc_pause import gc_paused


class Node:
    other: Node


@pytest.fixture(autouse=True)
def nothing_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that has not frozen objects, which the tests before have."""
    gc.unfreeze()
    monkeypatch.setattr(gc_pause, "_frozen", False)


def test_collection_pauses_and_resumes() -> None:
    assert gc.isenabled()
    with gc_paused():
        assert not gc.isenabled()
        with gc_paused():
            node = Node()
            node.other = node
            seen = weakref.ref(node)
            del node
        assert not gc.isenabled() and seen() is not None
    assert gc.isenabled()
    gc.collect()
    assert seen() is None


def test_a_disabled_collector_stays_disabled() -> None:
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_frozen_objects_stay_frozen() -> None:
    gc.freeze()
    count = gc.get_freeze_count()
    try:
        with gc_paused():
            pass
        assert gc.get_freeze_count() == count
    finally:
        gc.unfreeze()


def test_frozen_objects_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = list[int]()
    monkeypatch.setattr(gc, "get_freeze_count", lambda: counts.append(3) or 3)
    for _ in range(5):
        with gc_paused():
            pass
    assert counts == [3] and gc.isenabled()


def test_an_interrupt_at_the_end_leaves_the_collector_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(gc, "freeze", interrupted)
    with pytest.raises(KeyboardInterrupt), gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled() and not gc.get_freeze_count()
