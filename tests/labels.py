"""The names of parametrised tests, the same in every process, so that processes can share the tests."""

from __future__ import annotations

from typing import Any


def label(value: Any) -> str:
    """What a value is called in a test's name: a function by its name, which tells no address; others as they print."""
    return str(getattr(value, "__name__", None) or value)
