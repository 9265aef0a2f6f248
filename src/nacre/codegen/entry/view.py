"""The entry of an operation that is a view: a tensor around its operand's buffer with another type and layout."""

from __future__ import annotations

from nacre.codegen.entry.call import call_fallback
from nacre.codegen.entry.layouts import IGNORED, REFUSED, NodeRule, TensorObject, ViewRecord
from nacre.codegen.entry.perform import new_tensor
from nacre.codegen.entry.tape_stub import NO, YES, is_plain, recorded, records
from nacre.native.cpython import Py_DecRef, Py_IncRef, PyLong_AsVoidPtr, PyObject, none
from nacre.native.python.declarations import native, null
from nacre.native.python.intrinsics import cast
from nacre.native.python.types import i64, ptr


@native(symbol="nacre.view")
def view(self: PyObject, arguments: ptr[TensorObject], given: i64) -> PyObject:
    """A view of Python's only argument."""
    record = cast(ViewRecord, PyLong_AsVoidPtr(self))
    nodes = record.nodes
    if given != 1 or (record.active[0] != 0 and nodes != IGNORED):
        return call_fallback(record.fallback, arguments, given)
    x = arguments[0]
    tensor_class = record.tensor_class
    if x.type != tensor_class:
        return call_fallback(record.fallback, arguments, given)
    buffer = x.content
    if x.value_type != record.operand_type or buffer.type != record.buffer_class or x.layout != none:
        return call_fallback(record.fallback, arguments, given)
    rule: NodeRule = null
    node = x.node
    if node != none and nodes != IGNORED:
        if nodes == REFUSED or not is_plain(node):
            return call_fallback(record.fallback, arguments, given)
        recording = records()
        if recording != NO:
            rule = cast(ptr[NodeRule], nodes)[1]
            if recording != YES or rule == null:
                return call_fallback(record.fallback, arguments, given)
    Py_IncRef(buffer)
    tensor = new_tensor(tensor_class, record.result_type, buffer)
    if tensor == null:
        return null
    Py_DecRef(none)
    layout = record.result_layout
    Py_IncRef(layout)
    tensor.layout = layout
    if rule == null:
        return tensor
    return recorded(rule, arguments, 1, tensor)
