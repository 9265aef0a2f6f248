"""Programs made ahead: those of pullbacks of recorded operations, which the backward pass takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nacre as nc
from nacre.compile.extensions import changed
from nacre.compile.program import ahead, cache
from nacre.native import compile_workers
from nacre.nn import functional as F

Jobs = list[Callable[[], None]]


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    """The work that was queued for later."""
    queued: Jobs = []
    monkeypatch.setattr(compile_workers, "begin_later", queued.append)
    return queued


def recorded(size: int) -> tuple[Any, Any]:
    x = nc.linspace(-4.0, 4.0, size, dtype=nc.float64).requires_grad_()
    return x, F.softplus(x, 0.75)


def gradient(x: Any, y: Any) -> bytes:
    y.backward(nc.asarray(np.ones(y.shape)))
    return x.grad.numpy().tobytes()


def test_the_backward_pass_takes_what_was_made_ahead(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = recorded(37)
    assert jobs
    before = cache.programs_made()
    for job in jobs:
        job()
    assert cache.programs_made() == before  # counted when it is used
    made: list[Any] = []
    monkeypatch.setattr(cache, "made", lambda *given: made.append(given))
    found = gradient(x, y)
    assert not made and cache.programs_made() == before + 1
    monkeypatch.undo()
    again = nc.linspace(-4.0, 4.0, 37, dtype=nc.float64)
    expected = nc.jit(nc.grad(lambda x: nc.sum(F.softplus(x, 0.75))))(again)
    assert found == expected.numpy().tobytes()


def test_the_backward_pass_makes_what_is_not_ready(jobs: Jobs) -> None:
    x, y = recorded(38)
    assert gradient(x, y)
    for job in jobs:  # the thread comes too late
        job()


def test_each_pullback_is_begun_once(jobs: Jobs) -> None:
    recorded(39)
    count = len(jobs)
    recorded(39)
    assert len(jobs) == count


def test_nothing_is_begun_for_operations_without_nodes(jobs: Jobs) -> None:
    x = nc.linspace(-4.0, 4.0, 41, dtype=nc.float64)
    with nc.no_grad():
        F.softplus(x.requires_grad_(), 0.75)
    F.softplus(x.detach(), 0.75)
    assert not jobs


def test_another_generation_drops_what_was_made(jobs: Jobs) -> None:
    x, y = recorded(43)
    for job in jobs:
        job()
    assert ahead._made
    changed()
    assert not ahead._made
    assert gradient(x, y)
