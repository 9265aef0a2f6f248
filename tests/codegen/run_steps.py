"""Compiles and runs a convolution's or window's steps on NumPy arrays, split as a test asks."""

from __future__ import annotations

import ctypes
import mmap
import time

import numpy as np

from nacre.base.errors import DeviceError
from nacre.codegen.convolution.sequence import ConvolutionStep, Steps
from nacre.native.engine import Library, compile_text, host_target, load
from nacre.runtime.plan import READY

CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def aligned(nbytes: int) -> np.ndarray:
    """Zero bytes on a 64-byte boundary."""
    raw = np.zeros(nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + nbytes]


class Guarded:
    """Memory that ends, or begins, at a page which faults when it is touched."""

    def __init__(self, nbytes: int, at_end: bool) -> None:
        page = mmap.PAGESIZE
        inside = -(-max(nbytes, 1) // page) * page
        self.map = mmap.mmap(-1, inside + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        libc = ctypes.CDLL(None, use_errno=True)
        for guard in (start, start + page + inside):
            assert libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
        at = page + inside - nbytes if at_end else page
        self.bytes = np.frombuffer(self.map, np.uint8)[at : at + nbytes]


class Compiled:
    """The steps of one operation, loaded."""

    def __init__(self, steps: Steps, isa: str) -> None:
        self.steps, self.milliseconds = steps, []
        self.libraries: list[Library] = []
        self.functions = [self._load(step, isa) for step in steps.steps]

    def _load(self, step: ConvolutionStep, isa: str):
        start = time.perf_counter()
        library = load(compile_text(step.text, host_target(isa)), {})
        self.milliseconds.append((time.perf_counter() - start) * 1e3)
        self.libraries.append(library)
        return CALL(library.address(step.name))

    def bind(self, batch: int, buffers: dict[str, np.ndarray], packed: dict[str, np.ndarray] | None = None):
        """(function, argument slots, items, scratch) of every step, over the given arrays."""
        spaces = {name: aligned(size(batch)) for name, size in self.steps.workspaces.items()}
        every = {**buffers, **spaces, **(packed or {})}
        calls = []
        for step, function in zip(self.steps.steps, self.functions, strict=True):
            slots = np.array([_address(every.get(b)) for b in step.buffers] + [batch, *step.sizes], np.int64)
            calls.append((function, slots, step.items(batch), aligned(step.scratch), every))
        return calls

    def run_guarded(self, batch: int, buffers: dict[str, np.ndarray], at_end: bool, keeps: bool = False) -> None:
        """Run all steps on copies that fault where a kernel leaves its buffers or its scratch."""
        spaces = {name: size(batch) for name, size in self.steps.workspaces.items()}
        if keeps:
            spaces |= {name: READY + nbytes for name, (_, nbytes) in self.steps.packed.items()}
        sizes = {name: a.nbytes for name, a in buffers.items()} | spaces
        held = {name: Guarded(size, at_end) for name, size in sizes.items()}
        for name, array in buffers.items():
            held[name].bytes[:] = array.reshape(-1).view(np.uint8)
        for step, function in zip(self.steps.steps, self.functions, strict=True):
            scratch = Guarded(-(-step.scratch // 64) * 64, at_end)
            slots = np.array(
                [_address(held[b].bytes if b in held else None) for b in step.buffers] + [batch, *step.sizes], np.int64
            )
            function(slots.ctypes.data, 0, step.items(batch), scratch.bytes.ctypes.data)
        for name, array in buffers.items():
            array.reshape(-1).view(np.uint8)[:] = held[name].bytes

    def run(
        self,
        batch: int,
        buffers: dict[str, np.ndarray],
        chunk: int | None = None,
        packed: dict[str, np.ndarray] | None = None,
    ) -> None:
        """Run all steps; every `chunk` items are a call of their own."""
        for function, slots, items, scratch, _ in self.bind(batch, buffers, packed):
            size = chunk or max(items, 1)
            for start in range(0, items, size):
                scratch.view(np.uint8)[:] = 0xFF  # a kernel must not read memory that it has not written
                function(slots.ctypes.data, start, min(items, start + size), scratch.ctypes.data)


def assert_packed_alike(
    compiled: Compiled, batch: int, arrays: dict[str, np.ndarray], out: str, wanted: np.ndarray
) -> None:
    """Check that prepacked operands give the same bits, and that the kernel then reads only those."""
    packed = {name: aligned(READY + nbytes) for name, (_, nbytes) in compiled.steps.packed.items()}
    gone = {operand: np.full_like(arrays[operand], np.nan) for operand, _ in compiled.steps.packed.values()}
    for ready in (0, 1) if packed else ():
        for room in packed.values():
            room[:8] = ready
        arrays[out].fill(np.nan)
        compiled.run(batch, arrays | gone if ready else arrays, 2, packed)
        assert_same_bits(arrays[out], wanted)


def _address(array: np.ndarray | None) -> int:
    return 0 if array is None else array.ctypes.data


def available(isa: str) -> bool:
    """Whether this machine runs an instruction set."""
    try:
        host_target(isa)
    except DeviceError:
        return False
    return True


def assert_same_bits(got: np.ndarray, expected: np.ndarray) -> None:
    """Whether the bits are equal, with one NaN for all."""
    assert got.dtype == expected.dtype and got.shape == expected.shape
    bits = f"u{got.itemsize}"
    a, b = (np.where(np.isnan(v), got.dtype.type(np.nan), v).view(bits) for v in (got, expected))
    wrong = np.argwhere(a != b)
    assert not len(wrong), f"{len(wrong)} of {a.size} differ, first at {tuple(wrong[0])}"
