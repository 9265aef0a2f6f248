"""Recording for reverse mode in native code: nodes as of `interpret.tape`, made without Python.

An entry that records has a table (see `recording`): for each set of operands with nodes, the rule of the operation's
pullback.  An unknown set goes to the entry's fallback, which is Python and adds the rule.
"""

from __future__ import annotations

from typing import Final

from nacre.codegen.entry.layouts import NodeObject, NodeRule, OriginObject, SilentThreads, TensorObject
from nacre.codegen.entry.perform import new_tensor
from nacre.native.cpython import (
    Py_DecRef,
    Py_IncRef,
    PyIter_Next,
    PyObject,
    PyThread_get_thread_ident,
    PyTuple_New,
    PyTuple_SetItem,
    PyType_GenericAlloc,
    none,
)
from nacre.native.python.declarations import external_variable, inline, native, null
from nacre.native.python.intrinsics import addr, cast
from nacre.native.python.types import i64, ptr
from nacre.runtime.layouts import BufferObject

NO: Final = 0  # whether a thread records
YES: Final = 1
UNKNOWN: Final = 2  # only Python knows

node_class = external_variable(PyObject, "nacre.node_class")
node_numbers = external_variable(PyObject, "nacre.node_numbers")
zero = external_variable(PyObject, "nacre.zero")
silent = external_variable(SilentThreads, "nacre.silent")


@native
def records() -> i64:
    """Whether this thread records."""
    count = silent.count
    if count == 0:
        return YES
    if count > 1:
        return UNKNOWN
    return NO if silent.thread == PyThread_get_thread_ident() else YES


@inline
def is_plain(node: PyObject) -> bool:
    """Whether a node is of no transformation."""
    return cast(OriginObject, node).level == zero


@inline
def is_borrowed(read: ptr[BufferObject], inputs: i64) -> bool:
    """Whether a buffer is another library's memory; Python then records, and the node saves a copy."""
    signs: i64 = 0
    for k in range(inputs):
        signs |= read[k].size_class
    return signs < 0


@inline
def fill_parents(parents: PyObject, rule: NodeRule, arguments: ptr[TensorObject]) -> None:
    """The nodes of the operands that have one."""
    for k in range(rule.parent_count):
        node = arguments[rule.places[k]].node
        Py_IncRef(node)
        PyTuple_SetItem(parents, k, node)


@inline
def fill_saved(
    saved: PyObject, rule: NodeRule, arguments: ptr[TensorObject], inputs: i64, tensor: TensorObject
) -> None:
    """The operands, and perhaps the result, that the rule needs."""
    places = addr(rule.places[rule.parent_count])
    for k in range(rule.saved_count):
        place = places[k]
        value = tensor
        if place < inputs:
            value = arguments[place]
        Py_IncRef(value)
        PyTuple_SetItem(saved, k, value)


@inline
def new_node(rule: NodeRule) -> NodeObject:
    """A node with its number, and tuples for its parents and saved values; null without memory."""
    node = cast(NodeObject, PyType_GenericAlloc(node_class, 0))
    if node == null:
        return null
    Py_IncRef(zero)
    node.level = zero
    Py_IncRef(rule.rule)
    node.rule = rule.rule
    number = PyIter_Next(node_numbers)
    node.number = number
    parents = PyTuple_New(rule.parent_count)
    node.parents = parents
    saved = PyTuple_New(rule.saved_count)
    node.saved = saved
    if number == null or parents == null or saved == null:
        Py_DecRef(node)
        return null
    return node


@inline
def with_node(tensor: TensorObject, node: NodeObject) -> TensorObject:
    """The tensor again with a node, which keeps the one without it; both are taken over.  Null without memory."""
    Py_IncRef(tensor.content)
    noded = new_tensor(tensor.type, tensor.value_type, tensor.content)
    if noded == null:
        Py_DecRef(node)
        Py_DecRef(tensor)
        return null
    layout = tensor.layout
    Py_IncRef(layout)
    Py_DecRef(none)
    noded.layout = layout
    Py_DecRef(none)
    noded.node = node
    Py_DecRef(tensor)
    return noded


@native
def recorded(rule: NodeRule, arguments: ptr[TensorObject], inputs: i64, tensor: TensorObject) -> TensorObject:
    """The tensor, which this takes over, with a node; null with an exception set where there is no memory."""
    if rule.rule == null:
        return tensor
    node = new_node(rule)
    if node == null:
        Py_DecRef(tensor)
        return null
    fill_parents(node.parents, rule, arguments)
    fill_saved(node.saved, rule, arguments, inputs, tensor)
    if rule.keeps_result != 0:
        return with_node(tensor, node)
    Py_DecRef(none)
    tensor.node = node
    return tensor
