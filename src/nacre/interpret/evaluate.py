"""Conversion of values with numbers to and from NumPy arrays, and views without copies."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nacre.base.conversion import NO_NUMBERS, not_numbers, require_unmasked
from nacre.base.dtypes import as_dtype
from nacre.base.errors import OutOfMemory, TraceError, UnknownNumber, explain
from nacre.base.state import STATE
from nacre.base.types import TensorType, row_major
from nacre.ir.primitive import Element, Primitive
from nacre.runtime.buffer import allocate
from nacre.trace.captures import register_reader
from nacre.trace.reads import note_numbers
from nacre.trace.value import PLACEHOLDERS, DonatedValue, Payload, Value, layout_of, make


def from_numpy(array: Any) -> Value:
    """A value with a copy of an array's numbers (any array that NumPy reads, of one of Nacre's dtypes)."""
    require_unmasked("tensor", array)
    source = np.asarray(array)
    if source.dtype.byteorder == ">":
        source = source.astype(source.dtype.newbyteorder("="))
    if issubclass(source.dtype.type, NO_NUMBERS):
        raise not_numbers("tensor", source.dtype)
    dtype = as_dtype(source.dtype)
    dense = np.ascontiguousarray(source)
    buffer = allocate(dense.nbytes)
    if dense.nbytes:
        ctypes.memmove(buffer.address, dense.ctypes.data, dense.nbytes)
    return make(TensorType(source.shape, dtype), buffer)


def number_tensor(value: float | int) -> Value:
    """A Python number as a scalar of float64 or int64."""
    return from_numpy(np.array(value, np.float64 if type(value) is float else np.int64))


def to_numpy(x: Value) -> np.ndarray:
    """The value's numbers as a read-only array that shares its memory.

    A function that is being traced is then compiled for these numbers alone.
    """
    array = _array(x)
    if STATE.word:
        note_numbers(x, array)
    return array


def of_placeholder(x: Value, operation: str, wrong: str, right: str = "x * 2") -> UnknownNumber:
    """The error where Python requests the numbers of a placeholder: the code that does, and that for a graph."""
    made = 'x = nc.placeholder((), name="x")\n'
    return UnknownNumber(
        explain(
            f"{operation}: the tensor must have known numbers; got a placeholder of type {x.type}, or a result of one",
            f"{made}y = {wrong}",
            "nc.placeholder makes an input of a graph.  It has numbers in calls of the graph alone, so Python "
            "cannot read them.",
            f"{made}graph = nc.Graph.build(x, {right})\ny = graph(nc.tensor(3.0))      # a tensor with numbers",
        ),
        operation,
    )


def _array(x: Value) -> np.ndarray:
    held: object = x.content
    if isinstance(held, DonatedValue):
        held.process()
    if isinstance(held, Payload):
        if held.level == PLACEHOLDERS:
            raise of_placeholder(x, "numpy", "np.from_dlpack(x)")
        raise TraceError(f"numpy: the value must have known numbers; got a traced value of type {x.type}")
    stored = x.type.dtype.is_storage  # NumPy cannot make views of some of these dtypes by strides
    dtype = np.dtype(np.uint8) if stored else x.type.dtype.numpy
    shape = tuple(int(n) for n in x.type.shape)
    if math.prod(n for n in shape if n) * dtype.itemsize >= 1 << 63:
        raise OutOfMemory(f"numpy: the shape must fit the machine's address space; got {list(shape)}; slice it first")
    if 0 in shape:
        empty = np.zeros(shape, x.type.dtype.numpy)
        empty.flags.writeable = False
        return empty
    flat = np.frombuffer(x.content, dtype)
    if x.layout is None:
        array = flat[: int(x.type.size)].reshape(shape)
    else:
        steps = tuple(s * dtype.itemsize for s in x.layout.strides)
        array = np.lib.stride_tricks.as_strided(flat[x.layout.offset :], shape, steps)
    array = array.view(x.type.dtype.numpy) if stored else array
    array.flags.writeable = False
    return array


def view(
    primitive: Primitive, inputs: tuple[Value, ...] | list[Value], params: Mapping[str, Any], result: TensorType
) -> Value | None:
    """The result as a view of the operand's memory, or None if it must be computed."""
    low = primitive.lowering
    if not isinstance(low, Element) or low.view is None or low.resized:
        return None
    x = inputs[0]
    layout = low.view(layout_of(x), x.type, result, **params)
    if layout is None:
        return None
    if layout.offset == 0 and layout.strides == row_major(result.shape):
        return make(result, x.content)
    return make(result, x.content, layout)


register_reader(_array)
