"""Each thread has its own ambient state, and contexts restore it."""

from __future__ import annotations

import threading

import pytest

from nacre.base.state import STATE, signature
from nacre.trace.modes import gradients


def test_contexts_restore_the_previous_mode() -> None:
    assert STATE.gradients
    with gradients(False):
        with gradients(True):
            assert STATE.gradients
        assert not STATE.gradients and signature()[0] is False
        with pytest.raises(KeyError), gradients(True):
            raise KeyError
        assert not STATE.gradients
    assert STATE.gradients


def test_each_thread_has_its_own_state() -> None:
    found: list[object] = []

    def look() -> None:
        found.append((STATE.gradients, STATE.word, list(STATE.interpreters)))

    with gradients(False):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert found == [(True, 0, [])]
