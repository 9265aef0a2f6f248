"""The backward pass over plain nodes in native code, on the dicts and the list of `interpret.backward.Sweep`.

A call processes nodes in the order of the Python code, until one is not plain.  Such a node has no native pullback for
the thread's mode, or is released, or has a changed or traced value, or its cotangent was taken.  Python processes it,
and calls again.  After some nodes a call returns anyway, so that Python handles signals and other threads.
"""

from __future__ import annotations

from typing import Final

from nacre.codegen.entry.layouts import (
    MOST_PULLED,
    NodeObject,
    PulledValues,
    PullRecord,
    SweepState,
    TensorObject,
)
from nacre.codegen.entry.tape_stub import node_class, zero
from nacre.native.cpython import (
    Py_DecRef,
    Py_IncRef,
    PyDict_DelItem,
    PyDict_GetItemWithError,
    PyDict_New,
    PyDict_SetItem,
    PyDict_Size,
    PyList_Append,
    PyList_GetItem,
    PyList_SetSlice,
    PyList_Size,
    PyLong_AsSsize_t,
    PyLong_AsVoidPtr,
    PyLong_FromVoidPtr,
    PyNumber_Negative,
    PyObject,
    PyObject_GetAttr,
    PyObject_Vectorcall,
    PySequence_GetItem,
    PySequence_Size,
    PyTuple_GetItem,
    PyTuple_New,
    PyTuple_SetItem,
    none,
    true,
)
from nacre.native.python.declarations import external_variable, inline, native, null
from nacre.native.python.intrinsics import cast, stack, stack_array
from nacre.native.python.types import i64, ptr, u64

AT_ONCE: Final = 64  # nodes in one call
DONE: Final = 0  # what became of a node: it was processed
OTHER: Final = 1  # Python must process it
RAISED: Final = 2  # an exception is set

leaf_class = external_variable(PyObject, "nacre.leaf_class")
buffer_class = external_variable(PyObject, "nacre.buffer_class")
heap_push = external_variable(PyObject, "nacre.heap_push")
heap_pop = external_variable(PyObject, "nacre.heap_pop")
changed = external_variable(PyObject, "nacre.changed")
native_operations = external_variable(PyObject, "nacre.native_operations")
add_primitive = external_variable(PyObject, "nacre.add_primitive")
add_function = external_variable(PyObject, "nacre.add_function")
swept_name = external_variable(PyObject, "nacre.swept_name")


@native
def call_of_two(function: PyObject, first: PyObject, second: PyObject) -> PyObject:
    """A function's result for two arguments; null with an exception set."""
    arguments = stack_array(PyObject, 2, 16)
    arguments[0] = first
    arguments[1] = second
    return PyObject_Vectorcall(function, arguments, 2, null)


@native
def pair(first: PyObject, second: PyObject) -> PyObject:
    """A tuple of two objects, the first of which this takes over; null without memory."""
    made = PyTuple_New(2)
    if made == null:
        Py_DecRef(first)
        return null
    PyTuple_SetItem(made, 0, first)
    Py_IncRef(second)
    PyTuple_SetItem(made, 1, second)
    return made


@native
def find_adder(state: SweepState, type: PyObject) -> bool:
    """Find the target of additions of a type, if there is one; whether there was memory."""
    key = PyTuple_New(3)
    if key == null:
        return False
    Py_IncRef(add_primitive)
    PyTuple_SetItem(key, 0, add_primitive)
    Py_IncRef(type)
    PyTuple_SetItem(key, 1, type)
    Py_IncRef(type)
    PyTuple_SetItem(key, 2, type)
    found = PyDict_GetItemWithError(native_operations, key)
    Py_DecRef(key)
    if found != null:
        Py_IncRef(found)
        if state.adder != null:
            Py_DecRef(state.adder)
            Py_DecRef(state.added)
        state.adder = found
        Py_IncRef(type)
        state.added = type
    return True


@native
def total(state: SweepState, before: PyObject, cotangent: PyObject) -> PyObject:
    """The sum of two cotangents, as Python's `add` computes it; null with an exception set."""
    type = cast(TensorObject, cotangent).value_type
    if cast(TensorObject, before).value_type != type:
        return call_of_two(add_function, before, cotangent)
    if state.added != type and not find_adder(state, type):
        return null
    adder = state.adder
    if state.added != type:
        return call_of_two(add_function, before, cotangent)
    return call_of_two(adder, before, cotangent)


@native
def enqueue(state: SweepState, node: NodeObject) -> bool:
    """Add a node to the queue; whether there was memory."""
    number = PyNumber_Negative(node.number)
    if number == null:
        return False
    item = pair(number, node)
    if item == null:
        return False
    if PyList_Size(state.queue) == 0:
        done = PyList_Append(state.queue, item) == 0
        Py_DecRef(item)
        return done
    pushed = call_of_two(heap_push, state.queue, item)
    Py_DecRef(item)
    if pushed == null:
        return False
    Py_DecRef(pushed)
    return True


@native
def dequeue(state: SweepState) -> bool:
    """Remove the first node of the queue, to which the caller has a reference; whether there was memory."""
    if PyList_Size(state.queue) == 1:
        return PyList_SetSlice(state.queue, 0, 1, null) == 0
    queue = stack_array(PyObject, 1, 16)
    queue[0] = state.queue
    item = PyObject_Vectorcall(heap_pop, queue, 1, null)
    if item == null:
        return False
    Py_DecRef(item)
    return True


@native
def put_to_node(state: SweepState, node: NodeObject, cotangent: PyObject) -> bool:
    """Add to the cotangent of a node's only result; False with an exception set."""
    waiting = PyDict_GetItemWithError(state.pending, node)
    if waiting == null:
        waiting = PyDict_New()
        if waiting == null:
            return False
        first = PyDict_SetItem(waiting, zero, cotangent) == 0 and PyDict_SetItem(state.pending, node, waiting) == 0
        Py_DecRef(waiting)
        return first and enqueue(state, node)
    before = PyDict_GetItemWithError(waiting, zero)
    if before == null:
        return PyDict_SetItem(waiting, zero, cotangent) == 0
    Py_IncRef(waiting)
    Py_IncRef(before)
    added = total(state, before, cotangent)
    Py_DecRef(before)
    done = False
    if added != null:
        done = PyDict_SetItem(waiting, zero, added) == 0
        Py_DecRef(added)
    Py_DecRef(waiting)
    return done


@native
def put_to_leaf(state: SweepState, leaf: PyObject, cotangent: PyObject) -> bool:
    """Add to the cotangent of a leaf; False with an exception set."""
    key = PyLong_FromVoidPtr(leaf)
    if key == null:
        return False
    Py_IncRef(cotangent)
    sum = cotangent
    end = PyDict_GetItemWithError(state.ends, key)
    if end != null:
        before = PyTuple_GetItem(end, 1)
        Py_IncRef(before)
        sum = total(state, before, cotangent)
        Py_DecRef(before)
        Py_DecRef(cotangent)
    done = False
    if sum != null:
        Py_IncRef(leaf)
        made = pair(leaf, sum)
        Py_DecRef(sum)
        if made != null:
            done = PyDict_SetItem(state.ends, key, made) == 0
            Py_DecRef(made)
    Py_DecRef(key)
    return done


@native
def put(state: SweepState, node: PyObject, cotangent: PyObject) -> bool:
    """Add to the cotangent of a node or an end; False with an exception set."""
    if node.type == node_class:
        return put_to_node(state, cast(NodeObject, node), cotangent)
    if node.type == leaf_class:
        return put_to_leaf(state, node, cotangent)
    answer = call_of_two(state.put, node, cotangent)
    if answer == null:
        return False
    Py_DecRef(answer)
    return True


@native
def release(values: ptr[TensorObject], count: i64) -> None:
    """Release references to values."""
    for k in range(count):
        Py_DecRef(values[k])


@native
def is_changed(x: TensorObject) -> bool:
    """Whether a tensor was ever changed by `x[i] = v`."""
    key = PyLong_FromVoidPtr(x)
    if key == null:
        return True
    found = PyDict_GetItemWithError(changed, key)
    Py_DecRef(key)
    return found != null


@inline
def is_plain(x: TensorObject, record: PullRecord) -> bool:
    """Whether a tensor has numbers, and is dense where that is necessary."""
    return x.content.type == buffer_class and (record.dense == 0 or x.layout == none)


@native
def gather(node: NodeObject, record: PullRecord, values: ptr[TensorObject]) -> bool:
    """Get references to a node's saved values, if they are plain; otherwise to none of them."""
    watching = PyDict_Size(changed) != 0
    for k in range(record.saved):
        x = cast(TensorObject, PySequence_GetItem(node.saved, k))
        values[k] = x
        if not is_plain(x, record) or (watching and is_changed(x)):
            release(values, k + 1)
            return False
    return True


@native
def are_apart(parents: PyObject) -> bool:
    """Whether the parents are different nodes, none of which is one of several results."""
    count = PySequence_Size(parents)
    for k in range(count):
        parent = PySequence_GetItem(parents, k)
        Py_DecRef(parent)  # the parents have one
        if parent.type != node_class and parent.type != leaf_class:
            return False
        for j in range(k):
            other = PySequence_GetItem(parents, j)
            Py_DecRef(other)
            if other == parent:
                return False
    return True


@native
def distribute(
    state: SweepState, record: PullRecord, parents: PyObject, values: ptr[TensorObject], result: PyObject
) -> bool:
    """Put the cotangents of a node's operands; False with an exception set."""
    for k in range(record.count):
        cotangent = result
        source = record.operands[k].source
        if result == null:
            cotangent = values[source]
        elif record.results != 1:
            cotangent = PyTuple_GetItem(result, source)
        parent = PySequence_GetItem(parents, record.operands[k].parent)
        Py_IncRef(cotangent)
        done = put(state, parent, cotangent)
        Py_DecRef(cotangent)
        Py_DecRef(parent)
        if not done:
            return False
    return True


@inline
def replace_lists(node: NodeObject, empty: PyObject) -> None:
    """Free a node's saved values and parents, as far as nothing else refers to them."""
    saved = node.saved
    parents = node.parents
    Py_IncRef(none)
    node.saved = none
    node.parents = empty
    Py_DecRef(saved)
    Py_DecRef(parents)


@native
def pull(state: SweepState, record: PullRecord, node: NodeObject, values: ptr[TensorObject]) -> bool:
    """Take a node from the queue, free its saved values, and put the cotangents of its operands."""
    parents = node.parents
    Py_IncRef(parents)
    done = dequeue(state) and PyDict_DelItem(state.pending, node) == 0
    if done and not state.keeps:
        empty = PyTuple_New(0)
        done = empty != null
        if done:
            replace_lists(node, empty)
    result: PyObject = null
    if done and record.function != null:
        memory = stack(PulledValues, 16)
        for k in range(record.given):
            memory.values[k] = values[record.order[k]]
        arguments = cast(ptr[PyObject], memory.values)
        result = PyObject_Vectorcall(record.function, arguments, record.given, null)
        done = result != null
    if done:
        done = distribute(state, record, parents, values, result)
    if result != null:
        Py_DecRef(result)
    Py_DecRef(parents)
    return done


@native
def pull_plain(state: SweepState, record: PullRecord, node: NodeObject) -> i64:
    """What became of the first node of the queue, whose rule has a record."""
    saved = record.saved
    if node.saved == none or PySequence_Size(node.saved) != saved:
        return OTHER
    waiting = PyDict_GetItemWithError(state.pending, node)
    if waiting == null or PyDict_Size(waiting) != 1:
        return OTHER
    cotangent = cast(TensorObject, PyDict_GetItemWithError(waiting, zero))
    if cotangent == null or not is_plain(cotangent, record):
        return OTHER
    if record.apart != 0 and not are_apart(node.parents):
        return OTHER
    memory = stack(PulledValues, 16)
    values = cast(ptr[TensorObject], memory.values)
    if not gather(node, record, values):
        return OTHER
    Py_IncRef(cotangent)
    values[saved] = cotangent
    Py_IncRef(node)
    done = pull(state, record, node, values)
    release(values, saved + 1)
    Py_DecRef(node)
    return DONE if done else RAISED


@native
def process(state: SweepState) -> i64:
    """What became of the first node of the queue."""
    node = cast(NodeObject, PyTuple_GetItem(PyList_GetItem(state.queue, 0), 1))
    swept = PyObject_GetAttr(node.rule, swept_name)
    if swept == null:
        return RAISED
    record = cast(PullRecord, PyLong_AsVoidPtr(swept))
    outcome: i64 = OTHER
    if record != null and record.mode == state.mode and record.saved <= MOST_PULLED:
        outcome = pull_plain(state, record, node)
    Py_DecRef(swept)
    return outcome


@native(symbol="nacre.sweep")
def sweep(self: PyObject, arguments: ptr[PyObject], given: i64) -> PyObject:
    """Process nodes; True after many, None where the next one is for Python, or there is none.

    The arguments are `pending`, `queue`, `ends`, `put`, whether nodes stay as they are, and the number of the mode.
    """
    state = stack(SweepState, 16)
    state.pending = arguments[0]
    state.queue = arguments[1]
    state.ends = arguments[2]
    state.put = arguments[3]
    state.keeps = arguments[4] == true
    state.mode = u64(PyLong_AsSsize_t(arguments[5]))
    state.added = null
    state.adder = null
    outcome: i64 = DONE
    left: i64 = AT_ONCE
    while outcome == DONE and left > 0:
        if PyList_Size(state.queue) == 0:
            outcome = OTHER
        else:
            outcome = process(state)
        left -= 1
    if state.adder != null:
        Py_DecRef(state.adder)
        Py_DecRef(state.added)
    if outcome == RAISED:
        return null
    answer = true if outcome == DONE else none
    Py_IncRef(answer)
    return answer
