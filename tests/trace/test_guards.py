"""Guards: values that were read while tracing, and whether they are unchanged."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from nacre.interpret.stage import stage
from nacre.trace.guards import Guard, recording, report


class Owner:
    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def read(*reads: tuple[Owner, str]) -> list[Guard]:
    """The guards of a trace that reads these attributes."""

    def f() -> list[Any]:
        for owner, name in reads:
            report(owner, name)
        return []

    with recording() as found:
        stage(f, [])
    return found


def test_guards_hold_as_long_as_values_are_equal() -> None:
    owner = Owner(rate=0.1)
    (guard,) = read((owner, "rate"), (owner, "rate"))
    assert guard.holds()
    owner.rate = float("0.1")
    assert guard.holds()
    owner.rate = 0.2
    assert not guard.holds() and str(guard) == "Owner.rate is 0.2, was 0.1"
    del owner.rate
    assert not guard.holds()


@pytest.mark.parametrize("before, after", [(1, True), (1, 1.0), (None, False), ("a", "b"), ((1, 2), [1, 2]), (0, None)])
def test_values_of_other_kinds_differ(before: Any, after: Any) -> None:
    owner = Owner(x=before)
    (guard,) = read((owner, "x"))
    owner.x = after
    assert not guard.holds()


def test_entries_of_dictionaries_and_lists() -> None:
    owner = Owner(options={"eps": 1e-5}, sizes=[1, 2])

    def f() -> list[Any]:
        report(owner, "options", "eps")
        report(owner, "sizes", "1")
        return []

    with recording() as found:
        stage(f, [])
    assert all(g.holds() for g in found) and len(found) == 2
    owner.options["eps"] = 1e-6
    owner.sizes[1] = 3
    assert not any(g.holds() for g in found)
    owner.sizes.clear()
    assert not found[1].holds()


def test_values_that_cannot_be_compared_at_once_differ() -> None:
    owner = Owner(mask=np.zeros(3))
    (guard,) = read((owner, "mask"))
    assert guard.holds()
    owner.mask = np.zeros(3)
    assert not guard.holds()


def test_guards_do_not_keep_owners_alive() -> None:
    owner = Owner(x=1)
    (guard,) = read((owner, "x"))
    del owner
    gc.collect()
    assert not guard.holds() and "gone" in str(guard)


def test_inner_recordings_belong_to_outer_ones() -> None:
    a, b = Owner(x=1), Owner(x=2)

    def inner() -> list[Any]:
        with recording() as found:
            report(b, "x")
        assert len(found) == 1
        return []

    with recording() as outer:
        stage(lambda: (report(a, "x"), inner())[1], [])
    assert [g.owner() for g in outer] == [a, b]


def test_nothing_is_recorded_outside_and_in_other_threads() -> None:
    owner = Owner(x=1)
    report(owner, "x")
    with recording() as found:
        report(owner, "x")
        thread = threading.Thread(target=report, args=(owner, "x"))
        thread.start()
        thread.join()
    assert found == []
