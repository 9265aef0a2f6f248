"""Functions of the C library, as native Python calls them."""

from __future__ import annotations

from nacre.native.python.declarations import external
from nacre.native.python.types import i32, i64, ptr, struct, u8, u64


@struct
class TimeSpec:
    """A time of a clock."""

    seconds: i64
    nanoseconds: i64


@external
def mmap(address: ptr[u8], length: u64, protection: i32, flags: i32, file: i32, offset: i64) -> ptr[u8]: ...


@external
def munmap(address: ptr[u8], length: u64) -> i32: ...


@external
def madvise(address: ptr[u8], length: u64, advice: i32) -> i32: ...


@external
def clock_gettime(clock: i32, time: TimeSpec) -> i32: ...
