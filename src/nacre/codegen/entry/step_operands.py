"""The operands of a step: arguments, captures and values of variables, and the hiding of values that it overwrites."""

from __future__ import annotations

from nacre.codegen.entry.layouts import StepRecord, TensorObject, UpdatingThread
from nacre.codegen.entry.perform import hold, weak_references
from nacre.native.cpython import Py_DecRef, Py_IncRef, PyObject, PyThread_get_thread_ident, none
from nacre.native.python.declarations import external_variable, inline, native, null
from nacre.native.python.intrinsics import cast
from nacre.native.python.types import i64, ptr, u8, u64
from nacre.runtime.layouts import BufferObject

updating = external_variable(UpdatingThread, "nacre.updater")


@inline
def is_as_it_was(step: StepRecord) -> bool:
    """Whether the slots that must keep or lack a value do."""
    kept = step.kept
    for k in range(step.kept_count):
        each = kept[k]
        if i64(each.slot.value == each.object) != each.has_it:
            return False
    return True


@native
def gather(
    step: StepRecord,
    args: ptr[PyObject],
    operands: ptr[TensorObject],
    read: ptr[BufferObject],
    bases: ptr[ptr[u8]],
) -> bool:
    """Find the operands, their buffers and addresses.

    False where one is not a dense tensor of its type, an argument or capture has a node, or a slot is not as it was.
    """
    program = step.program
    tensor_class, buffer_class = program.tensor_class, program.buffer_class
    arguments, plain, sources = step.arguments, step.plain, step.sources
    for k in range(program.inputs):
        if k < arguments:
            found = args[k]
        else:
            source = sources[k - arguments]
            found = cast(PyObject, source)
            if k >= plain:
                found = source.value
                if found == null:
                    return False
        if found.type != tensor_class:
            return False
        x = cast(TensorObject, found)
        buffer = x.content
        if x.value_type != program.operands[k].type or buffer.type != buffer_class or x.layout != none:
            return False
        if x.node != none and k < plain:
            return False
        operands[k] = x
        read[k] = buffer
        bases[k] = buffer.data
    return is_as_it_was(step)


@native
def hide(step: StepRecord, operands: ptr[TensorObject]) -> bool:
    """Give variables placeholders for overwritten values.  Whether only the call refers to each, once."""
    count = step.hidden_count
    if count == 0:
        return True
    updating.thread = PyThread_get_thread_ident()
    arguments, sources, hidden = step.arguments, step.sources, step.hidden
    others: u64 = 0  # not 0: another object refers to a value or to its buffer, or the memory is borrowed
    for k in range(count):
        each = hidden[k]
        operand, placeholder = each.operand, each.placeholder
        slot = sources[operand - arguments]
        cell = operands[operand]
        Py_IncRef(placeholder)
        slot.value = placeholder
        Py_DecRef(cell)
        others |= u64(cell.references - 1) | u64(cell.content.references - 1) | cast(u64, weak_references(cell))
        others |= cast(u64, cell.content.owner)
    return others == 0


@native
def show(step: StepRecord, operands: ptr[TensorObject]) -> None:
    """Restore the hidden values of variables."""
    arguments, sources, hidden = step.arguments, step.sources, step.hidden
    for k in range(step.hidden_count):
        operand = hidden[k].operand
        slot = sources[operand - arguments]
        cell = operands[operand]
        placeholder = slot.value
        Py_IncRef(cell)
        slot.value = cell
        Py_DecRef(placeholder)


@inline
def prepare(
    step: StepRecord,
    args: ptr[PyObject],
    operands: ptr[TensorObject],
    read: ptr[BufferObject],
    bases: ptr[ptr[u8]],
) -> bool:
    """Find the operands, acquire them, and hide those that will be overwritten; where they do not fit, do nothing."""
    if not gather(step, args, operands, read, bases):
        return False
    inputs = step.program.inputs
    hold(cast(ptr[PyObject], operands), inputs, True)
    if hide(step, operands):
        return True
    show(step, operands)  # another object refers to memory that would be overwritten
    hold(cast(ptr[PyObject], operands), inputs, False)
    return False
