"""User settings: threads, memory and modes."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import nacre as nc
from nacre.base.errors import ArgumentError, OutOfMemory
from nacre.runtime import buffer


def test_an_allocation_beyond_the_memory_limit_raises_an_error() -> None:
    gc.collect()  # a later collection would free memory
    nc.empty_cache()
    try:
        nc.set_memory_limit(buffer.statistics().allocated + (1 << 20))
        with pytest.raises(OutOfMemory, match="MiB are needed"):
            nc.zeros((1 << 20,))
        assert nc.zeros((1 << 10,)).sum().item() == 0
    finally:
        nc.set_memory_limit(None)
    assert nc.ones((1 << 20,)).sum().item() == 1 << 20


@pytest.mark.parametrize("limit", [-1, 1.5, "1G", True])
def test_limits_are_numbers_of_bytes(limit: Any) -> None:
    with pytest.raises(ArgumentError, match="set_memory_limit"):
        nc.set_memory_limit(limit)


def test_cached_memory_can_be_returned() -> None:
    x = nc.ones((1 << 18,))
    del x
    assert buffer.statistics().cached > 0
    nc.empty_cache()
    assert buffer.statistics().cached == 0
