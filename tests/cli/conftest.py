"""The common part of the commands' tests: a width that does not depend on the environment of the tests."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """COLUMNS is not set, as for a command in a pipe; processes of pytest-xdist set it."""
    monkeypatch.delenv("COLUMNS", raising=False)
