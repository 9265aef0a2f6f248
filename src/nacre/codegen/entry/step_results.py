"""The results of a step: tensors for them, their storing in variables, and the answer of the call."""

from __future__ import annotations

from nacre.codegen.entry.layouts import StepRecord, TensorObject
from nacre.codegen.entry.perform import new_tensor, results_of
from nacre.native.cpython import (
    Py_DecRef,
    Py_IncRef,
    PyObject,
    PyObject_Vectorcall,
    PyTuple_New,
    PyTuple_SetItem,
    none,
)
from nacre.native.python.declarations import native, null
from nacre.native.python.intrinsics import addr, cast, fill_bytes, stack_array
from nacre.native.python.types import ptr, u8, u64
from nacre.runtime.layouts import BufferObject


@native
def make_tensors(step: StepRecord, tensors: ptr[TensorObject]) -> bool:
    """A tensor, as yet without memory, for each output that does not take over an input's; null for the others.

    Behind them is the tuple for the results, or null where the only one is the answer.
    """
    program = step.program
    outputs, results, tensor_class = program.outputs, results_of(program, program.inputs), program.tensor_class
    fill_bytes(cast(ptr[u8], tensors), 0, u64(outputs + 1) << 3)
    if step.finish != null:
        whole = PyTuple_New(step.results)
        tensors[outputs] = cast(TensorObject, whole)
        if whole == null:
            return False
    for k in range(outputs):
        if results[k].donor < 0:
            tensor = new_tensor(tensor_class, results[k].type, null)
            tensors[k] = tensor
            if tensor == null:
                return False
    return True


@native
def store(
    step: StepRecord,
    operands: ptr[TensorObject],
    tensors: ptr[TensorObject],
    made: ptr[BufferObject],
    replaced: ptr[PyObject],
) -> None:
    """Store the results; replaced values are released later, because that may call back into Python.

    They are those of written slots, then the nodes of tensors that have other numbers now, then those of cleared slots.
    """
    program = step.program
    outputs, about = program.outputs, results_of(program, program.inputs)
    fill_bytes(cast(ptr[u8], replaced), 0, u64(2 * outputs + step.cleared_count) << 3)
    nodes, old_of_cleared = addr(replaced[outputs]), addr(replaced[2 * outputs])
    for k in range(outputs):
        buffer = made[k]
        tensor = tensors[k]
        if tensor != null:
            tensor.content = buffer
        else:  # the variable's tensor, with other numbers and without a node
            tensor = operands[about[k].donor]
            tensors[k] = tensor
            Py_IncRef(tensor)
            Py_DecRef(buffer)
            nodes[k] = tensor.node
            Py_IncRef(none)
            tensor.node = none
    results, written = step.results, step.written
    for k in range(results, outputs):
        slot = written[k - results]
        replaced[k] = slot.value
        slot.value = tensors[k]
    cleared = step.cleared
    for k in range(step.cleared_count):
        slot = cleared[k]
        old_of_cleared[k] = slot.value
        Py_IncRef(none)
        slot.value = none


@native
def answer(step: StepRecord, tensors: ptr[TensorObject]) -> PyObject:
    """The answer of a call: its result, the tuple of its results, or a conversion of the tuple."""
    finish, results = step.finish, step.results
    if finish == null:
        return tensors[0]
    whole, holder = cast(PyObject, tensors[step.program.outputs]), stack_array(PyObject, 1)
    for k in range(results):
        PyTuple_SetItem(whole, k, tensors[k])
    if finish == none:
        return whole
    holder[0] = whole
    made = PyObject_Vectorcall(finish, holder, 1, null)
    Py_DecRef(whole)
    return made
