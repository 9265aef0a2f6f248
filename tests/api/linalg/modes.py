"""Bits of a function of matrices: the same in eager and compiled code, in batches, by vmap, and with one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import nacre as nc
from tensor_bits import bits

Function = Callable[[Any], Any]


def check_every_mode(f: Function, x: Any) -> None:
    """Check f for matrices x [b, n, n] against its results for each of them."""
    wanted = _joined([bits(f(each)) for each in x])
    assert bits(f(x)) == wanted
    assert bits(nc.jit(f)(x)) == wanted
    assert bits(nc.vmap(f)(x)) == wanted
    before = nc.get_threads()
    nc.set_threads(1)
    try:
        assert bits(f(x)) == wanted
    finally:
        nc.set_threads(before)


def check_large_batch(f: Function, x: Any) -> None:
    """Check f for matrices x [a, b, n, n] against its results for each: lanes of vectors have the bits of single ones.

    With a b that is no multiple of the width, some matrices are behind the last whole vector.
    """
    assert bits(f(x)) == _joined([bits(f(each)) for row in x for each in row])


def _joined(each: list[list[bytes]]) -> list[bytes]:
    return [b"".join(parts) for parts in zip(*each, strict=True)]
