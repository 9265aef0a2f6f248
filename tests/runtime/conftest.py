"""What tests of memory share: what other tests left in cycles is gone before theirs count."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def collected() -> None:
    gc.collect()
