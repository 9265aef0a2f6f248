"""Shared by the memory tests: objects in cycles of earlier tests are freed before a test counts."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def collected() -> None:
    gc.collect()
