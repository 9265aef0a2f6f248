"""The entry of a program: it checks its arguments, runs the program, and wraps results.  Native code.

Unusual calls (another type, a view, a traced value, an active interpreter) go to the record's fallback, which is
Python.
"""

from __future__ import annotations

from nacre.codegen.entry.layouts import IGNORED, REFUSED, LayoutObject, NodeRule, ProgramRecord, TensorObject
from nacre.codegen.entry.perform import new_tensor, perform, results_of, undo
from nacre.codegen.entry.tape_stub import NO, YES, is_borrowed, is_plain, recorded, records
from nacre.native.cpython import (
    Py_DecRef,
    PyLong_AsSsize_t,
    PyLong_AsVoidPtr,
    PyObject,
    PyObject_Vectorcall,
    PyTuple_New,
    PyTuple_SetItem,
    none,
)
from nacre.native.python.declarations import inline, native, null
from nacre.native.python.intrinsics import addr, cast, stack_array
from nacre.native.python.types import i64, ptr, u8, u64
from nacre.runtime.layouts import BufferObject


@inline
def call_fallback(fallback: PyObject, arguments: ptr[TensorObject], given: i64) -> PyObject:
    """What Python makes of a call."""
    return PyObject_Vectorcall(fallback, cast(ptr[PyObject], arguments), given, null)


@native
def several(record: ProgramRecord, inputs: i64, outputs: i64, made: ptr[BufferObject]) -> PyObject:
    """The tuple of a program's results; null without memory."""
    results = results_of(record, inputs)
    answer = PyTuple_New(outputs)
    if answer == null:
        undo(made, outputs)
        return null
    for k in range(outputs):
        tensor = new_tensor(record.tensor_class, results[k].type, made[k])
        if tensor == null:
            undo(addr(made[k + 1]), outputs - k - 1)
            Py_DecRef(answer)
            return null
        PyTuple_SetItem(answer, k, tensor)
    return answer


@native(symbol="nacre.entry")
def entry(self: PyObject, arguments: ptr[TensorObject], given: i64) -> PyObject:
    """A program's results for Python's arguments: one, or a tuple."""
    record = cast(ProgramRecord, PyLong_AsVoidPtr(self))
    inputs = record.inputs
    nodes = record.nodes
    if given != inputs or (record.active[0] != 0 and nodes != IGNORED):
        return call_fallback(record.fallback, arguments, given)
    outputs = record.outputs
    tensor_class = record.tensor_class
    buffer_class = record.buffer_class
    room = u64(inputs + outputs + 2)
    bases = stack_array(ptr[u8], room, 16)
    made = stack_array(BufferObject, room, 16)
    read = stack_array(BufferObject, room, 16)
    active: u64 = 0  # a bit for each argument with a node
    for k in range(inputs):  # each argument: class, type, buffer, dense
        x = arguments[k]
        if x.type != tensor_class:
            return call_fallback(record.fallback, arguments, given)
        element = record.operands[k].element
        buffer = x.content
        layout = x.layout
        if x.value_type != record.operands[k].type or buffer.type != buffer_class or (layout != none and element == 0):
            return call_fallback(record.fallback, arguments, given)
        node = x.node
        if node != none and nodes != IGNORED:
            if nodes == REFUSED or not is_plain(node):
                return call_fallback(record.fallback, arguments, given)
            active |= u64(1) << u64(k)
        first = buffer.data
        if layout != none:  # where in its buffer does it begin?
            first = addr(first[PyLong_AsSsize_t(cast(LayoutObject, layout).offset) * element])
        bases[k] = first
        read[k] = buffer
    rule: NodeRule = null
    if active != 0:  # is it recorded, and by which rule?
        recording = records()
        if recording != NO:
            rule = cast(ptr[NodeRule], nodes)[active]
            if recording != YES or rule == null or is_borrowed(read, inputs):
                return call_fallback(record.fallback, arguments, given)
    if not perform(record, inputs, outputs, read, bases, made):
        return null
    if outputs != 1:
        return several(record, inputs, outputs, made)
    tensor = new_tensor(tensor_class, results_of(record, inputs)[0].type, made[0])
    if tensor == null or rule == null:
        return tensor
    return recorded(rule, arguments, inputs, tensor)
