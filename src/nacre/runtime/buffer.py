"""Buffer: reference-counted, 64-byte aligned memory, as a Python type that is built without a C compiler.

The type and its allocator are compiled (or read from the object cache) at the first allocation, not at import.  All of
their functions are called with the interpreter lock.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from nacre.base.errors import ArgumentError, OutOfMemory
from nacre.base.locks import once
from nacre.native import cache as objects
from nacre.native import limits
from nacre.native.engine import Library, host_target
from nacre.native.interpreter import require_interpreter
from nacre.runtime.layouts import STATE
from nacre.runtime.texts import buffer_text

UNASKED: Final = 1 << 19  # bytes up to which an allocation skips the check of the limit
CACHE_SHARE = 4  # freed blocks may hold a quarter of the memory


class Buffer(Protocol):
    """Reference-counted memory, 64-byte aligned unless it is foreign; it exports the buffer protocol."""

    @property
    def address(self) -> int:
        """The address of the first byte."""
        ...

    @property
    def nbytes(self) -> int:
        """The requested number of bytes."""
        ...

    @property
    def owner(self) -> object:
        """The owner of foreign memory, which stays alive; None for own memory."""
        ...

    @property
    def readonly(self) -> bool:
        """Whether the memory is foreign and must not be written."""
        ...

    def __len__(self) -> int: ...

    def __buffer__(self, flags: int, /) -> memoryview: ...


class MemoryFigures(NamedTuple):
    """The allocator's figures, in bytes (`buffers` and `mapped` are counts)."""

    allocated: int
    peak: int
    cached: int
    limit: int
    cache_limit: int
    slabs: int
    buffers: int
    mapped: int


class Native:
    """The type and its functions, as built for this process.

    `allocate(nbytes)`, `wrap(memoryview)`, `references(object)` and `sole_owner(object)` are the built-in functions
    themselves, for callers that avoid the cost of another Python call.
    """

    def __init__(self) -> None:
        require_interpreter()
        target = host_target()
        self.library: Library = objects.library(buffer_text(target), target).keep()
        address = self.library.address
        self.new_address = address("nacre.buffer_new")
        self.renew_address = address("nacre.buffer_renew")
        self.state = (ctypes.c_int64 * len(STATE)).from_address(address("nacre.memory"))
        total = limits.memory()
        self.state[STATE.index("limit")] = total
        self.state[STATE.index("cache_limit")] = total // CACHE_SHARE
        create = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)(address("nacre.buffer_create"))
        self.type: Any = create(_reclaim, _refuse)
        self.allocate: Callable[[int], Buffer] = self.type.allocate
        self.wrap: Callable[[memoryview], Buffer] = self.type.wrap
        self.references: Callable[[object], int] = self.type.references
        self.sole_owner: Callable[[object], bool] = self.type.sole_owner
        self.empty_cache = ctypes.PYFUNCTYPE(None)(address("nacre.empty_cache"))
        # The number of references that a call itself has differs among CPython's versions: measure it.
        holder = _Holder()
        holder.buffer = self.allocate(0)
        ctypes.PYFUNCTYPE(None, ctypes.c_int32)(address("nacre.buffer_calibrate"))(self.references(holder.buffer))
        self.sole_references = _references(self, holder.buffer)


class _Holder:
    __slots__ = ("buffer",)
    buffer: Buffer


def _references(native_type: Native, value: object) -> int:
    return native_type.references(value)


@once
def native() -> Native:
    """The type and its functions, created at the first call."""
    return Native()


def symbols() -> dict[str, int]:
    """The symbols for generated code: functions that create a Buffer and renew its serial, and the type object."""
    native_type = native()
    return {
        "nacre.buffer_new": native_type.new_address,
        "nacre.buffer_renew": native_type.renew_address,
        "nacre.buffer_type": id(native_type.type),
    }


def is_buffer(value: object) -> bool:
    """Whether a value is a Buffer."""
    return type(value) is native().type


def allocate(nbytes: int) -> Buffer:
    """A Buffer of uninitialised memory; its length may be zero.

    Raises OutOfMemory if the limit or the system refuses the memory, even after memory has been reclaimed;
    ArgumentError for a negative number.

    >>> len(allocate(100)), allocate(100).address % 64
    (100, 0)
    """
    return native().allocate(nbytes)


def require_room(nbytes: int) -> None:
    """Raise OutOfMemory if the limit or the system refuses this number of bytes, before NumPy allocates them.

    >>> require_room(100)
    """
    if nbytes > UNASKED:
        allocate(min(nbytes, 1 << 62))


def wrap(exporter: Any) -> Buffer:
    """A Buffer over a C-contiguous exporter of the buffer protocol, which it keeps alive.

    Raises ArgumentError if the object exports no contiguous memory.

    >>> bytes(wrap(b"abc")), wrap(b"abc").readonly
    (b'abc', True)
    """
    try:
        view = memoryview(exporter)
        if "O" in view.format:
            raise TypeError("it holds references to Python objects")
        return native().wrap(view)
    except (TypeError, ValueError, BufferError) as fault:
        raise ArgumentError(
            f"wrap: the object must export contiguous memory by the buffer protocol; got "
            f"{type(exporter).__name__} ({fault}); copy it to a contiguous array"
        ) from None


def sole_owner(value: object) -> bool:
    """Whether the attribute that `value` was just read from has the only reference to it.

    Write the attribute in the call, `sole_owner(holder.buffer)`: a variable would count as well.
    """
    native_type = native()
    return native_type.references(value) <= native_type.sole_references


def statistics() -> MemoryFigures:
    """Bytes allocated, the peak, bytes cached, and the limits."""
    return MemoryFigures(*native().state)


def reset_peak() -> None:
    """Reset the peak to the bytes allocated now."""
    state = native().state
    state[STATE.index("peak")] = state[STATE.index("allocated")]


def empty_cache() -> None:
    """Return cached memory to the system."""
    native().empty_cache()


def memory_limit(nbytes: int | None) -> None:
    """Limit the bytes of all Buffers together; None for all memory that this process may use."""
    if nbytes is not None and nbytes < 0:
        raise ArgumentError(
            f"memory_limit: the limit must be a number of bytes or None; got {nbytes}; give a size of 0 or more"
        )
    native().state[STATE.index("limit")] = limits.memory() if nbytes is None else nbytes


def cache_limit(nbytes: int | None) -> None:
    """Limit the cached bytes; None for a quarter of the memory."""
    if nbytes is not None and nbytes < 0:
        raise ArgumentError(
            f"cache_limit: the limit must be a number of bytes or None; got {nbytes}; give a size of 0 or more"
        )
    native().state[STATE.index("cache_limit")] = limits.memory() // CACHE_SHARE if nbytes is None else nbytes
    if statistics().cached > statistics().cache_limit:
        empty_cache()


def _reclaim(nbytes: int) -> None:
    """Free objects that only cycles refer to; called when memory runs out, before another attempt."""
    gc.collect()


def _refuse(nbytes: int) -> NoReturn:
    if nbytes < 0:
        raise ArgumentError(f"allocate: the number of bytes must be at least 0; got {nbytes}; correct the size")
    now = statistics()
    raise OutOfMemory(
        f"allocate: {readable(nbytes)} are needed; {readable(now.allocated)} in {now.buffers} "
        f"buffers are in use of a limit of {readable(now.limit)}; free tensors, lower the batch "
        "size, or raise the limit where the machine has more"
    )


def readable(nbytes: int) -> str:
    """A number of bytes for readers: `1.5 GiB`."""
    size = float(nbytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{nbytes} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
