"""DLPack's descriptions of tensors in memory, and the capsules in which libraries pass them to each other."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from nacre.base.errors import ArgumentError, KindError
from nacre.base.locks import once
from nacre.native import cache as objects
from nacre.native.engine import host_target
from nacre.native.interpreter import require_interpreter
from nacre.runtime.buffer import Buffer, wrap
from nacre.runtime.texts import capsule_text

VERSION: Final = (1, 0)  # of the protocol; its minor versions add only what may be ignored
NEWEST: Final = (1, 1)  # the version with padded elements
CPU: Final = (1, 0)  # kDLCPU, and the only such device
DEVICES: Final = {
    1: "cpu", 2: "cuda", 3: "cuda_host", 4: "opencl", 7: "vulkan", 8: "metal", 9: "vpi", 10: "rocm", 11: "rocm_host",
    12: "ext_dev", 13: "cuda_managed", 14: "oneapi", 15: "webgpu", 16: "hexagon", 17: "maia", 18: "trainium",
}  # fmt: skip
READ_ONLY: Final = 1  # flags
COPIED: Final = 2
PADDED: Final = 4  # an element of less than a byte has a byte of its own
MOST_AXES: Final = 64  # NumPy's limit
NAMES: Final = (b"dltensor_versioned", b"dltensor")


class TensorDescription(ctypes.Structure):
    """DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_number", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Unversioned(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (("tensor", TensorDescription), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class Versioned(ctypes.Structure):
    """DLManagedTensorVersioned."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", TensorDescription),
    )


class Manager:
    """The object that an exported tensor keeps alive: its memory, its description, its shape and strides."""

    __slots__ = ("held",)

    def __init__(self, *held: object) -> None:
        self.held = held


class Strided(NamedTuple):
    """Elements in memory: the address of the first, then sizes and strides in elements."""

    address: int
    code: int
    bits: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    readonly: bool
    padded: bool = False  # an element of less than a byte has a byte of its own


class NativeCapsules:
    """The native functions of capsules."""

    def __init__(self) -> None:
        require_interpreter()
        target = host_target()
        address = objects.library(capsule_text(target), target).keep().address
        self.seal = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int64)(address("nacre.dlpack_seal"))
        self.consume = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.py_object)(address("nacre.dlpack_consume"))
        self.deleters = address("nacre.dlpack_delete"), address("nacre.dlpack_delete_versioned")
        python = ctypes.pythonapi
        arguments = ctypes.py_object, ctypes.c_char_p
        self.is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, *arguments)(("PyCapsule_IsValid", python))
        self.pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, *arguments)(("PyCapsule_GetPointer", python))


@once
def native() -> NativeCapsules:
    """The native functions, compiled at the first use."""
    return NativeCapsules()


def seal(x: Strided, owner: object, versioned: bool, flags: int) -> Any:
    """A capsule of elements in the memory of an owner, which lives until the consumer or the capsule frees it."""
    row = ctypes.c_int64 * max(1, len(x.shape))
    shape, strides = row(*x.shape), row(*x.strides)
    made = Versioned() if versioned else Unversioned()
    described = made.tensor
    described.data, described.byte_offset = x.address, 0
    described.device_type, described.device_number = CPU
    described.ndim, described.code, described.bits, described.lanes = len(x.shape), x.code, x.bits, 1
    described.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    described.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
    manager = Manager(owner, made, shape, strides)
    made.manager, made.deleter = id(manager), native().deleters[versioned]
    if isinstance(made, Versioned):
        (made.major, made.minor), made.flags = NEWEST if flags & PADDED else VERSION, flags
    return native().seal(ctypes.addressof(made), versioned)


def unseal(capsule: object, operation: str) -> tuple[Strided, Callable[[], None]]:
    """The elements that a capsule describes, and the function that frees them: from now on the caller owns them.

    A capsule that is refused keeps its tensor.  Raises KindError for an object that is no capsule of a tensor,
    ArgumentError for another device, for lanes, and for sizes and strides that no memory has.
    """
    functions = native()
    name = next((n for n in NAMES if functions.is_valid(capsule, n)), None)
    if name is None:
        raise KindError(
            f"{operation}: __dlpack__ must return a capsule that was not consumed before; got {_shown(capsule)}; "
            "call __dlpack__ again"
        )
    pointer = functions.pointer(capsule, name)
    kind = Versioned if name == NAMES[0] else Unversioned
    made = kind.from_address(pointer)
    flags = 0
    if isinstance(made, Versioned):
        if made.major != VERSION[0]:
            raise ArgumentError(
                f"{operation}: the version of DLPack must be {VERSION[0]}; got {made.major}.{made.minor}; "
                "let the other library use the version that max_version names"
            )
        flags = made.flags
    found = _read(made.tensor, bool(flags & READ_ONLY), bool(flags & PADDED), operation)
    release = Release(made.deleter, pointer)
    functions.consume(capsule)
    return found, release


def _shown(capsule: object) -> str:
    name = repr(capsule).partition('"')[2].partition('"')[0]
    return f'a capsule named "{name}"' if name else f"a {type(capsule).__name__}"


def _read(x: TensorDescription, readonly: bool, padded: bool, operation: str) -> Strided:
    """The elements of a description, checked as far as it can be."""
    if x.device_type != CPU[0]:
        device = DEVICES.get(x.device_type, f"device type {x.device_type}")
        raise _unfit(operation, 'memory must be on "cpu"', f"{device}:{x.device_number}")
    if x.lanes != 1:
        raise _unfit(operation, "elements must have one lane", f"{x.lanes} lanes")
    if not 0 <= x.ndim <= MOST_AXES:
        raise _unfit(operation, f"there must be 0 to {MOST_AXES} axes", str(x.ndim))
    if x.ndim and not x.shape:
        raise _unfit(operation, "axes must have sizes", "none")
    shape = tuple(x.shape[: x.ndim]) if x.ndim else ()
    if any(n < 0 for n in shape):
        raise _unfit(operation, "sizes must be at least 0", str(shape))
    strides = tuple(x.strides[: x.ndim]) if x.ndim and x.strides else dense_strides(shape)
    address = (x.data or 0) + x.byte_offset
    low, high = extent(shape, strides)
    size = -(-x.bits // 8)
    if high and (not x.data or address + low * size < 0 or address + high * size >= 1 << 63):
        raise _unfit(
            operation,
            "elements must be in the machine's address space",
            f"shape {shape} and strides {strides} at {address:#x}",
        )
    return Strided(address, x.code, x.bits, shape, strides, readonly, padded)


def _unfit(operation: str, needed: str, got: str) -> ArgumentError:
    return ArgumentError(f"{operation}: {needed}; got {got}; copy it to the CPU in the other library, or to an array")


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of dense elements in row-major order.

    >>> dense_strides((2, 3, 4))
    (12, 4, 1)
    """
    strides: list[int] = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def extent(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int]:
    """The positions of the lowest element, and behind the highest one, relative to the first; none without elements.

    >>> extent((2, 3), (3, -1)), extent((0, 3), (3, 1))
    ((-2, 4), (0, 0))
    """
    if 0 in shape:
        return 0, 0
    moves = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return sum(m for m in moves if m < 0), sum(m for m in moves if m > 0) + 1


class Release:
    """The function that frees a tensor of another library, by its deleter, once."""

    __slots__ = ("deleter", "pointer")

    def __init__(self, deleter: int | None, pointer: int) -> None:
        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter) if deleter else None
        self.pointer = pointer

    def __call__(self) -> None:
        deleter, self.deleter = self.deleter, None
        if deleter is not None:
            deleter(self.pointer)


class ForeignMemory:
    """Bytes of another library, which are freed when no Buffer needs them any more."""

    def __init__(self, address: int, nbytes: int, readonly: bool, free: Callable[[], None]) -> None:
        self.free = free
        self.__array_interface__ = {"data": (address, readonly), "shape": (nbytes,), "typestr": "|u1", "version": 3}

    def __del__(self) -> None:
        self.free()


def borrow(address: int, nbytes: int, readonly: bool, free: Callable[[], None]) -> Buffer:
    """A Buffer over bytes of another library.  Nothing writes to it; `free` is called when it is not needed."""
    return wrap(np.asarray(ForeignMemory(address, nbytes, readonly, free)))
