"""The kernel of host calls by itself: it calls an object with the address of its arguments, and reports exceptions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from nacre.native import cache as objects
from nacre.native.engine import host_target
from nacre.runtime.executable import HOST_CALL
from nacre.runtime.texts import host_call_text


def kernel(kind: Any) -> Any:
    """The kernel as a function that ctypes calls."""
    target = host_target()
    address = objects.library(host_call_text(target), target).keep().address(HOST_CALL)
    return kind(None, *[ctypes.c_void_p] * 4)(address)


def run(native: Any, function: Callable[[int], None]) -> tuple[int, int]:
    """The address that the function gets, and the outcome."""
    arguments, outcome = (ctypes.c_int64 * 2)(id(function), 5), ctypes.c_int64(-1)
    native(ctypes.addressof(arguments), None, None, ctypes.addressof(outcome))
    return ctypes.addressof(arguments), outcome.value


@pytest.mark.parametrize("kind", [ctypes.CFUNCTYPE, ctypes.PYFUNCTYPE])
def test_it_calls_with_and_without_the_interpreter_lock(kind: Any) -> None:
    seen: list[int] = []
    place, outcome = run(kernel(kind), seen.append)
    assert seen == [place] and outcome == 0


def test_an_exception_stays_set() -> None:
    def fail(address: int) -> None:
        raise KeyError(address)

    arguments, outcome = (ctypes.c_int64 * 1)(id(fail)), ctypes.c_int64(-1)
    with pytest.raises(KeyError):
        kernel(ctypes.PYFUNCTYPE)(ctypes.addressof(arguments), None, None, ctypes.addressof(outcome))
    assert outcome.value == 1
