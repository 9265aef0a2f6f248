"""Tensors over the memory of other libraries, and tensors' memory for them.

Memory of another library is borrowed: it may change at any time, and Nacre never writes to it.  Nacre's own memory is
never written by others, because values are immutable and share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from nacre.base.dtypes import BYTE, NAMED, STORED_FLOATS, DType, as_dtype, bfloat16
from nacre.base.errors import ArgumentError, DTypeError, Error, ExchangeError, GradientError
from nacre.base.state import STATE
from nacre.base.types import TensorType
from nacre.interpret.evaluate import to_numpy
from nacre.ir.primitive import Layout
from nacre.runtime import dlpack
from nacre.runtime.buffer import allocate
from nacre.trace.reads import array_capture
from nacre.trace.value import Value, make, owned

INTEGER, UNSIGNED, FLOAT, BFLOAT, COMPLEX, BOOL = 0, 1, 2, 4, 5, 6  # DLPack's codes of types
FOREIGN_CODES: Final = {
    3: "opaque handle", BFLOAT: "bfloat", COMPLEX: "complex", 7: "float8_e3m4", 8: "float8_e4m3",
    9: "float8_e4m3b11fnuz", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz", 12: "float8_e5m2", 13: "float8_e5m2fnuz",
    14: "float8_e8m0fnu", 15: "float6_e2m3fn", 16: "float6_e3m2fn", 17: "float4_e2m1fn",
    INTEGER: "int", UNSIGNED: "uint", FLOAT: "float", BOOL: "bool",
}  # fmt: skip


def _code(dtype: DType) -> tuple[int, int]:
    """DLPack's code of a dtype, and its bits."""
    if dtype in STORED_FLOATS:
        return next(code for code, name in FOREIGN_CODES.items() if name == dtype.name), dtype.bits
    if dtype is bfloat16:
        code = BFLOAT
    elif dtype.is_complex:
        code = COMPLEX
    elif dtype.is_float:
        code = FLOAT
    elif dtype.is_bool:
        code = BOOL
    else:
        code = INTEGER if dtype.is_signed else UNSIGNED
    return code, dtype.bits if dtype.is_storage else dtype.storage_bits


CODES: Final = {dtype: _code(dtype) for dtype in NAMED}
_PACKED: Final = "export them as uint8, and write nacre.bitcast, or with a byte for each element"
DTYPES: Final = {code: dtype for dtype, code in CODES.items()}


def of_memory(x: dlpack.Strided, dtype: DType, free: Callable[[], None], operation: str, copy: bool | None) -> Value:
    """The tensor of elements in foreign memory, which `free` frees: borrowed, unless `copy` is true.

    Elements that are not aligned are copied.  Raises ExchangeError where `copy` is False and forbids that.
    """
    size = dtype.itemsize
    low, high = dlpack.extent(x.shape, x.strides)
    type = TensorType(x.shape, dtype)
    if not high:
        free()
        return make(type, allocate(0))
    steps = zip(x.shape, x.strides, dlpack.dense_strides(x.shape), strict=True)
    layout = None if all(n == 1 or s == dense for n, s, dense in steps) else Layout(-low, x.strides)
    buffer = dlpack.borrow(x.address + low * size, (high - low) * size, x.readonly, free)
    made = make(type, buffer, layout)
    if x.address % size and copy is False:
        raise ExchangeError(
            f"{operation}: elements must be aligned to {size} bytes to be shared; got address {x.address:#x} and "
            "copy=False; pass copy=None"
        )
    return owned(made) if copy or x.address % size else made


def of_array(array: np.ndarray) -> Value:
    """The tensor over an array's memory.

    Raises ExchangeError where the numbers must be converted first, which needs a copy.
    """
    held = array_capture(array, lambda: _over(array)) if STATE.word else None
    return _over(array) if held is None else held


def _over(array: np.ndarray) -> Value:
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        raise DTypeError("asarray: an array must not have a mask; got a masked array; write array.filled(0)")
    size = array.dtype.itemsize
    if array.dtype.byteorder == ">" or any(s % max(size, 1) for s in array.strides):
        raise ExchangeError(
            "asarray: elements must have the machine's byte order and a distance of whole elements to be shared; got "
            f"dtype {array.dtype.str} and strides {array.strides} with copy=False; pass copy=None"
        )
    dtype = as_dtype(array.dtype)
    strides = tuple(s // size for s in array.strides)
    code, bits = CODES[dtype]
    place = array.__array_interface__["data"][0]
    held = dlpack.Strided(place, code, bits, array.shape, strides, not array.flags.writeable)
    keeper = [array]
    return of_memory(held, dtype, keeper.clear, "asarray", False)


def of_capsule(capsule: object, operation: str, copy: bool | None) -> Value:
    """The tensor that a capsule of DLPack describes.

    Raises DTypeError for elements that Nacre has no dtype of.
    """
    held, free = dlpack.unseal(capsule, operation)
    try:
        dtype = DTYPES.get((held.code, held.bits))
        if dtype is None or (held.bits % BYTE and not held.padded):
            named = FOREIGN_CODES.get(held.code, f"type code {held.code}")
            raise DTypeError(
                f"{operation}: elements must be whole bytes of one of Nacre's dtypes; got {named} of {held.bits} bits; "
                f"{_PACKED if held.bits % BYTE else 'convert the array in the other library'}"
            )
        return of_memory(held, dtype, free, operation, copy)
    except Error:
        free()
        raise


def to_capsule(x: Value, stream: object, max_version: Any, device: object, copy: bool | None, operation: str) -> Any:
    """A capsule of a tensor's elements: Nacre's memory as read-only, or a copy, which the consumer may write to.

    Without a version the protocol has no read-only memory: a copy is made.  So are copies of single numbers, unless
    `copy` is False: Nacre shares these among tensors, and not every library respects the flag for read-only memory.
    """
    if stream is not None:
        raise ArgumentError(f"{operation}: the CPU has no streams; got stream={stream!r}; leave it out")
    if device is not None and device != dlpack.CPU:
        raise ExchangeError(
            f"{operation}: dl_device must be None or {dlpack.CPU}, the CPU; got {device!r}; leave it out"
        )
    require_no_record(x, operation)
    array = to_numpy(x)
    versioned = _is_versioned(max_version, operation)
    if not versioned and copy is False:
        raise ExchangeError(
            f"{operation}: memory that must not be written to needs version 1.0 of DLPack; got max_version="
            f"{max_version!r} and copy=False; pass max_version=(1, 0), or copy=None"
        )
    shared = versioned and not copy and (copy is False or x.content.nbytes > x.type.dtype.itemsize)
    array = array if shared else np.array(array)
    flags = dlpack.READ_ONLY if shared else dlpack.COPIED
    if x.type.dtype.bits < BYTE and x.type.dtype.is_storage:
        flags |= dlpack.PADDED
        if not versioned or max_version < dlpack.NEWEST:
            raise ExchangeError(
                f"{operation}: padded elements of {x.type.dtype.bits} bits need version 1.1 of DLPack; got max_version="
                f"{max_version!r}; pass max_version=(1, 1), or write nacre.bitcast for uint8"
            )
    strides = (
        dlpack.dense_strides(array.shape) if array.size == 0 else tuple(s // array.itemsize for s in array.strides)
    )
    code, bits = CODES[x.type.dtype]
    place = array.__array_interface__["data"][0]
    held = dlpack.Strided(place, code, bits, array.shape, strides, shared)
    return dlpack.seal(held, array, versioned, flags)


def _is_versioned(max_version: Any, operation: str) -> bool:
    if max_version is None:
        return False
    try:
        major, minor = max_version
        return bool((major, minor) >= dlpack.VERSION)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"{operation}: max_version must be a major and a minor version; got {max_version!r}; pass (1, 0)"
        ) from None


def require_no_record(x: Value, operation: str) -> None:
    """Raise GradientError for a tensor whose gradient would be lost in another library."""
    if x.node is not None and STATE.gradients:
        raise GradientError(
            f"{operation}: other libraries record no gradient; got a tensor that requires one; write x.detach() "
            "where no gradient is needed"
        )
