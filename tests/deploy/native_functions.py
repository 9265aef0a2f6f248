"""The native functions of executables alone: compiled, and called with memory that is made here."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from nacre.native import engine
from nacre.native.python.module import module
from nacre.native.python.unit import NativeModule
from native.python.compiled import callable_of, ctype

PROTECTED = 0  # PROT_NONE


def loaded(functions: Sequence[Any], stubs: Mapping[str, Callable[..., Any]] = {}) -> Any:
    """The functions by name, in a library with variables of its own; stubs of ctypes stand for other functions."""
    target = engine.host_target()
    image = engine.compile_text(module(functions, target=target), target)
    symbols = {name: address_of(stub) for name, stub in stubs.items()}
    library = engine.load(image, symbols).keep()
    return SimpleNamespace(stubs=stubs, **{f.__name__: callable_of(library, f) for f in functions})


def stub_of(external: Any, function: Callable[..., Any]) -> Any:
    """A Python function as native code calls an external one; `ctypes.set_errno` is the error that it leaves."""
    signature = NativeModule("signatures", []).signature(external)
    kind = ctypes.CFUNCTYPE(ctype(signature.result), *map(ctype, signature.kinds), use_errno=True)
    return kind(function)


def address_of(stub: Any) -> int:
    """The address of a function of ctypes."""
    return ctypes.cast(stub, ctypes.c_void_p).value or 0


def memory_file(data: bytes) -> int:
    """A file descriptor of a file with these bytes, which no folder has."""
    file = os.memfd_create("data")
    os.write(file, data)
    os.lseek(file, 0, os.SEEK_SET)
    return file


def text(written: str | bytes) -> ctypes.Array[ctypes.c_char]:
    """A text that ends in a zero byte; keep it as long as its address is used."""
    return ctypes.create_string_buffer(written.encode() if isinstance(written, str) else written)


class GuardedBytes:
    """Memory whose last byte is the last one that may be read: the page behind it is protected."""

    def __init__(self, room: int = 1 << 16) -> None:
        self.room = -(-room // mmap.PAGESIZE) * mmap.PAGESIZE
        self.memory = mmap.mmap(-1, self.room + mmap.PAGESIZE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        end = ctypes.c_void_p(self.start + self.room)
        assert protect(end, ctypes.c_size_t(mmap.PAGESIZE), PROTECTED) == 0

    def place(self, data: bytes) -> int:
        """The address of a copy that ends at the protected page."""
        self.memory[self.room - len(data) : self.room] = data
        return self.start + self.room - len(data)
