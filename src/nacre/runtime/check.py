"""The kernel of checks in native Python: it ends the run at the first check that has failed.

Launches before it have found the position of the first integer out of bounds, except of checks of few integers.  The
caller's own thread runs the kernel.
"""

from __future__ import annotations

from typing import Final

from nacre.native.python.declarations import inline, native, null
from nacre.native.python.intrinsics import addr, cast
from nacre.native.python.types import embed, i8, i16, i32, i64, ptr, u8, u16, u32, u64
from nacre.runtime.layouts import CheckArguments, Outcome, Stopped

NO: Final = int(Stopped.NO)
FAILED: Final = int(Stopped.FAILED)
UNSIGNED_WORD: Final = -8  # the width of integers that may be larger than those of 64 bits with a sign


@inline
def element(values: ptr[u8], position: i64, width: i64) -> i64:
    """An integer of a width in bytes, which is negative for integers without a sign."""
    if width == 1:
        return i64(cast(ptr[i8], values)[position])
    if width == 2:
        return i64(cast(ptr[i16], values)[position])
    if width == 4:
        return i64(cast(ptr[i32], values)[position])
    if width == -1:
        return i64(values[position])
    if width == -2:
        return i64(cast(ptr[u16], values)[position])
    if width == -4:
        return i64(cast(ptr[u32], values)[position])
    return cast(ptr[i64], values)[position]


@native
def find(each: CheckArguments) -> i64:
    """The position of the first integer out of bounds, or their number."""
    for k in range(each.count):
        found = element(each.values, k, each.width)
        if found < each.low or found >= each.high or (each.width == UNSIGNED_WORD and found < 0):
            return k
    return each.count


@native(symbol="nacre.check")
def check(arguments: ptr[u64], low: i64, high: i64, outcome: Outcome) -> None:
    """Stop the run if a check has failed.  The arguments: the first check's number, how many there are, and they."""
    outcome.stopped = NO
    checks = cast(ptr[embed[CheckArguments]], addr(arguments[2]))
    for k in range(i64(arguments[1])):
        each = checks[k]
        position = find(each) if each.position == null else each.position[0]
        if position < each.count:
            outcome.stopped = FAILED
            outcome.number = i64(arguments[0]) + k
            outcome.low = each.low
            outcome.high = each.high
            outcome.got = element(each.values, position, each.width)
            return
