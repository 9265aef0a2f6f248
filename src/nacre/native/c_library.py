"""Functions of the C library, as native Python calls them."""

from __future__ import annotations

from nacre.native.python.declarations import external
from nacre.native.python.types import i32, i64, ptr, u8, u64


@external
def mmap(address: ptr[u8], length: u64, protection: i32, flags: i32, file: i32, offset: i64) -> ptr[u8]: ...


@external
def munmap(address: ptr[u8], length: u64) -> i32: ...


@external
def madvise(address: ptr[u8], length: u64, advice: i32) -> i32: ...
