"""Buffer: the protocol, foreign memory, references, exhaustion, native use."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from nacre.base.errors import ArgumentError, Error, OutOfMemory
from nacre.native import engine
from nacre.native.python.types import offset_of
from nacre.runtime import buffer
from nacre.runtime.buffer import Buffer, allocate, sole_owner, statistics, wrap
from nacre.runtime.layouts import BufferObject


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    yield
    buffer.memory_limit(None)


class Holder:
    def __init__(self, made: Buffer) -> None:
        self.buffer = made


def test_fields() -> None:
    made = allocate(100)
    assert (len(made), made.nbytes, made.owner, made.readonly) == (100, 100, None, False)
    assert made.address % 64 == 0
    assert buffer.is_buffer(made) and not buffer.is_buffer(b"")
    assert type(made).__name__ == "Buffer"
    at = id(made)
    assert ctypes.c_void_p.from_address(at + offset_of(BufferObject, "data")).value == made.address
    assert ctypes.c_int64.from_address(at + offset_of(BufferObject, "nbytes")).value == 100
    assert ctypes.c_void_p.from_address(at + offset_of(BufferObject, "owner")).value is None


def test_numpy_sees_the_memory() -> None:
    made = allocate(80)
    array = np.frombuffer(made, np.float64)
    array[:] = np.arange(10)
    assert array.ctypes.data == made.address and array.flags.writeable
    assert memoryview(made).nbytes == 80 and bytes(made)[8:16] == np.float64(1).tobytes()
    del made
    assert np.array_equal(array, np.arange(10))


def test_an_empty_buffer() -> None:
    made = allocate(0)
    assert len(made) == 0 and bytes(made) == b"" and made.address % 64 == 0


def test_the_type_is_closed() -> None:
    kind = type(allocate(1))
    with pytest.raises(TypeError):
        kind()
    with pytest.raises(TypeError):
        kind.address = 3  # pyright: ignore
    with pytest.raises(TypeError):
        type("Sub", (kind,), {})
    with pytest.raises(AttributeError):
        allocate(1).address = 3  # pyright: ignore


def test_foreign_memory_stays_alive_and_is_shared() -> None:
    array = np.arange(12, dtype=np.float32)
    made = wrap(array)
    assert made.address == array.ctypes.data and len(made) == 48
    watch = weakref.ref(array)
    array[3] = 77
    del array
    assert watch() is not None
    assert np.frombuffer(made, np.float32)[3] == 77
    del made
    assert watch() is None


@pytest.mark.parametrize("exporter", [b"bytes", np.zeros(3).tobytes()])
def test_read_only_memory_stays_so(exporter: bytes) -> None:
    made = wrap(exporter)
    assert made.readonly and memoryview(made).readonly
    assert not np.frombuffer(made, np.uint8).flags.writeable
    with pytest.raises((BufferError, TypeError)):
        ctypes.c_char.from_buffer(made)  # pyright: ignore


def test_a_read_only_array() -> None:
    array = np.ones(3)
    array.flags.writeable = False
    assert wrap(array).readonly
    assert not wrap(bytearray(b"abc")).readonly


@pytest.mark.parametrize(
    "value", [np.zeros((4, 4))[:, ::2], np.array(["2020"], "datetime64[D]"), np.array([None, 3]), 3, "text", None]
)
def test_objects_that_cannot_be_wrapped(value: object) -> None:
    with pytest.raises(ArgumentError, match=type(value).__name__):
        wrap(value)


def test_a_program_ends_with_buffers_alive() -> None:
    code = """if True:
    import builtins
    from nacre.runtime.buffer import allocate, wrap
    builtins.late = kept = [allocate(100), allocate(1 << 21), wrap(bytearray(10))]
    kept.append(kept)
    """
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_wrapping_a_buffer_and_a_view() -> None:
    made = allocate(64)
    again = wrap(made)
    assert again.address == made.address
    part = wrap(memoryview(made)[16:32])
    assert part.address == made.address + 16 and len(part) == 16
    assert len(wrap(np.zeros((0, 3)))) == 0


def sole(holder: Holder) -> tuple[bool, bool]:
    """By the function and by the built-in (an assert would have another reference)."""
    return sole_owner(holder.buffer), buffer.native().sole_owner(holder.buffer)


def test_sole_owner() -> None:
    holder = Holder(allocate(8))
    assert sole(holder) == (True, True)
    other = holder.buffer
    assert sole(holder) == (False, False)
    del other
    assert sole(holder) == (True, True)
    view = memoryview(holder.buffer)
    assert sole(holder) == (False, False)
    view.release()
    assert sole(holder) == (True, True)


def test_nothing_leaks() -> None:
    gc.collect()  # without objects in cycles of earlier tests
    before = statistics()
    type_references = sys.getrefcount(buffer.native().type)
    owner = np.zeros(100)
    owner_references = sys.getrefcount(owner)
    for _ in range(1000):
        made = allocate(500)
        wrap(made)
        wrap(owner)
        np.frombuffer(made, np.uint8)
        memoryview(made)
        del made
    gc.collect()
    after = statistics()
    assert (after.allocated, after.buffers) == (before.allocated, before.buffers)
    assert abs(sys.getrefcount(buffer.native().type) - type_references) <= 1
    assert sys.getrefcount(owner) == owner_references


@pytest.mark.parametrize("nbytes", [2**40, 2**46, 2**62, sys.maxsize])
def test_allocations_beyond_memory_raise_an_error(nbytes: int) -> None:
    with pytest.raises(OutOfMemory, match="are needed") as caught:
        allocate(nbytes)
    assert isinstance(caught.value, MemoryError) and isinstance(caught.value, Error)


@pytest.mark.parametrize(
    ("value", "error"), [(-1, ArgumentError), (2**70, OverflowError), ("8", TypeError), (1.5, TypeError)]
)
def test_invalid_sizes(value: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        allocate(value)


def test_the_memory_limit_holds() -> None:
    gc.collect()
    base = statistics().allocated
    held = f"{(base + (3 << 20)) / 2**20:.1f} MiB"
    buffer.memory_limit(base + (4 << 20))
    first = allocate(3 << 20)
    with pytest.raises(OutOfMemory, match=rf"2\.0 MiB are needed; {held} in \d+ buffers"):
        allocate(2 << 20)
    with pytest.raises(OutOfMemory):
        for _ in range(100_000):
            first = [first, allocate(1000)]  # pyright: ignore
    del first
    assert len(allocate(3 << 20)) == 3 << 20
    with pytest.raises(ArgumentError, match="-3"):
        buffer.memory_limit(-3)


def test_memory_in_cycles_is_reclaimed_at_the_limit() -> None:
    gc.collect()
    buffer.memory_limit(statistics().allocated + (4 << 20))
    gc.disable()
    try:
        cycle: list[object] = [allocate(3 << 20)]
        cycle.append(cycle)
        del cycle
        assert len(allocate(2 << 20)) == 2 << 20
    finally:
        gc.enable()


def test_cached_memory_is_freed_at_the_limit() -> None:
    buffer.empty_cache()
    first = allocate(8 << 20)
    del first
    buffer.memory_limit(statistics().allocated + (9 << 20))
    assert statistics().cached == 8 << 20
    second = allocate(5 << 20)
    assert statistics().cached == 0 and len(second) == 5 << 20


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (3 << 30, "3.0 GiB"), (5 << 40, "5.0 TiB")],
)
def test_readable(nbytes: int, text: str) -> None:
    assert buffer.readable(nbytes) == text


def test_native_code_allocates() -> None:
    text = """
    declare ptr @nacre.buffer_new(i64)
    @nacre.buffer_type = external global i8
    define ptr @make(i64 %n) {
      %b = call ptr @nacre.buffer_new(i64 %n)
      ret ptr %b
    }
    define i32 @ours(ptr %o) {
      %p = getelementptr i8, ptr %o, i64 8
      %type = load ptr, ptr %p
      %same = icmp eq ptr %type, @nacre.buffer_type
      %r = zext i1 %same to i32
      ret i32 %r
    }
    """
    library = engine.load(engine.compile_text(text, engine.host_target()), buffer.symbols())
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_int64)(library.address("make"))
    ours = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.py_object)(library.address("ours"))
    made = make(100)
    assert len(made) == 100 and ours(made) == 1 and ours(b"") == 0
    with pytest.raises(OutOfMemory):
        make(1 << 45)


def test_threads() -> None:
    faults: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            rng = np.random.default_rng(seed)
            live: list[tuple[Buffer, int]] = []
            for k in range(400):
                made = allocate(int(rng.integers(1, 5000)))
                np.frombuffer(made, np.uint8)[:] = k % 256
                live.append((made, k % 256))
                if len(live) > 20:
                    old, value = live.pop(int(rng.integers(len(live))))
                    assert (np.frombuffer(old, np.uint8) == value).all()
        except BaseException as fault:
            faults.append(fault)

    before = statistics()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    assert statistics().allocated == before.allocated


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_separate_memory() -> None:
    made = allocate(1000)
    np.frombuffer(made, np.uint8)[:] = 1
    child = os.fork()
    if child == 0:
        np.frombuffer(made, np.uint8)[:] = 2
        more = [allocate(5000) for _ in range(100)]
        os._exit(0 if len(more) == 100 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bytes(made) == b"\x01" * 1000
