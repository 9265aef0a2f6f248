"""Functions of the C library, as native Python calls them."""

from __future__ import annotations

from collections.abc import Callable

from nacre.native.python.declarations import external
from nacre.native.python.types import cstring, i32, i64, ptr, struct, u8, u32, u64


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


# ---- files


@external
def open(path: cstring, flags: i32, *more: object) -> i32: ...


@external
def close(file: i32) -> i32: ...


@external
def read(file: i32, to: ptr[u8], count: u64) -> i64: ...


@external
def write(file: i32, source: cstring, count: u64) -> i64: ...


@external
def access(path: cstring, mode: i32) -> i32: ...


@external
def fchmod(file: i32, mode: u32) -> i32: ...


@external
def umask(mask: u32) -> u32: ...


@external
def mkostemp(template: ptr[u8], flags: i32) -> i32: ...


@external
def realpath(path: cstring, to: ptr[u8]) -> ptr[u8]: ...


@external
def rename(path: cstring, to: cstring) -> i32: ...


@external
def unlink(path: cstring) -> i32: ...


# ---- memory and texts


@external
def malloc(size: u64) -> ptr[u8]: ...


@external
def aligned_alloc(alignment: u64, size: u64) -> ptr[u8]: ...


@external
def memcmp(a: cstring, b: cstring, count: u64) -> i32: ...


@external
def strcmp(a: cstring, b: cstring) -> i32: ...


@external
def strlen(text: cstring) -> u64: ...


@external
def strtol(text: ptr[u8], end: ptr[ptr[u8]], base: i32) -> i64: ...


@external
def snprintf(to: ptr[u8], size: u64, format: cstring, *more: object) -> i32: ...


@external
def dprintf(file: i32, format: cstring, *more: object) -> i32: ...


# ---- the process


@external
def getenv(name: cstring) -> ptr[u8]: ...


@external(symbol="__errno_location")
def errno_place() -> ptr[i32]: ...


@external
def signal(number: i32, handler: ptr[u8]) -> ptr[u8]: ...


@external
def sched_getaffinity(process: i32, size: u64, mask: ptr[u64]) -> i32: ...


@external
def pthread_atfork(before: Callable[[], None], in_parent: Callable[[], None], in_child: Callable[[], None]) -> i32: ...


# ---- clocks


@external
def clock_gettime(clock: i32, time: TimeSpec) -> i32: ...
