"""CPython's structures and exported functions, as native Python uses them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

from nacre.native.python.declarations import external, external_variable
from nacre.native.python.types import cstring, i32, i64, ptr, struct, u8, u32, u64


@struct
class PyObject:
    """Any object; the upper half of the references is not used by all versions."""

    references: u32
    references_above: u32
    type: PyObject


@struct
class ObjectHeader:
    """The words before an object whose class manages weak references itself, as from CPython 3.12 on."""

    weak_references: PyObject
    attributes: PyObject
    collector_next: u64
    collector_previous: u64


@struct
class SlotDescriptor(PyObject):
    """PyMemberDescrObject: a slot, as the dict of its class has it."""

    owner: PyObject
    name: PyObject
    qualified_name: PyObject
    member: MemberDefinition


@struct
class CellObject(PyObject):
    """A closure's cell."""

    contents: PyObject


@struct
class FrameObject(PyObject):
    """A frame, as Python code has it."""

    back: PyObject
    frame: InterpreterFrame


@struct
class InterpreterFrame:
    """The frame of a running function, as far as its function; the lowest bits of that belong to CPython."""

    if sys.version_info >= (3, 12):
        code: PyObject
        previous: InterpreterFrame
    function: PyObject


@struct
class RaisedError:
    """An exception while it is not set."""

    kind: PyObject
    value: PyObject
    traceback: PyObject


@struct
class BufferView:
    """Py_buffer: memory that an object exports."""

    memory: ptr[u8]
    owner: PyObject
    nbytes: i64
    itemsize: i64
    readonly: i32
    dimensions: i32
    format: ptr[u8]
    shape: ptr[i64]
    strides: ptr[i64]
    suboffsets: ptr[i64]
    internal: ptr[u8]


@struct
class TypeSlot:
    """PyType_Slot."""

    slot: i32
    value: ptr[u8]


@struct
class TypeSpec:
    """PyType_Spec."""

    name: ptr[u8]
    basic_size: i32
    item_size: i32
    flags: u32
    slots: ptr[u8]


@struct
class MethodDefinition:
    """PyMethodDef."""

    name: ptr[u8]
    function: Callable[[PyObject, PyObject], PyObject]
    flags: i32
    documentation: ptr[u8]


@struct
class MemberDefinition:
    """PyMemberDef."""

    name: ptr[u8]
    kind: i32
    offset: i64
    flags: i32
    documentation: ptr[u8]


GETBUFFER: Final = 1  # numbers of slots
LENGTH: Final = 4
DEALLOCATE: Final = 52
DOCUMENTATION: Final = 56
METHODS: Final = 64
MEMBERS: Final = 72
MEMBER_OBJECT: Final = 6  # types of members
MEMBER_BOOL: Final = 14
MEMBER_ULONG: Final = 18
MEMBER_SSIZE: Final = 19
MEMBER_READ_ONLY: Final = 1
METHOD_OF_ONE_ARGUMENT: Final = 8  # METH_O
METHOD_STATIC: Final = 32
METHOD_FASTCALL: Final = 128
TYPE_IMMUTABLE: Final = 256
TYPE_WITHOUT_CALL: Final = 128  # it makes no instances when it is called

HAS_OBJECT_HEADERS: Final[bool] = sys.version_info >= (3, 12)

none = external_variable(PyObject, "_Py_NoneStruct")
true = external_variable(PyObject, "_Py_TrueStruct")
false = external_variable(PyObject, "_Py_FalseStruct")


@external(symbol="_PyObject_New")
def PyObject_New(type: PyObject) -> PyObject: ...


@external
def PyObject_Free(object: PyObject) -> None: ...


@external
def Py_DecRef(object: PyObject) -> None: ...


@external
def Py_IncRef(object: PyObject) -> None: ...


@external
def PyType_GenericAlloc(type: PyObject, count: i64) -> PyObject: ...


@external
def PyType_FromSpec(spec: TypeSpec) -> PyObject: ...


@external
def PyLong_FromSsize_t(number: i64) -> PyObject: ...


@external
def PyLong_FromVoidPtr(place: PyObject) -> PyObject: ...


@external
def PyLong_AsSsize_t(object: PyObject) -> i64: ...


@external
def PyLong_AsVoidPtr(object: PyObject) -> ptr[u8]: ...


@external
def PyTuple_New(count: i64) -> PyObject: ...


@external
def PyTuple_SetItem(tuple: PyObject, index: i64, item: PyObject) -> i32: ...


@external
def PyTuple_GetItem(tuple: PyObject, index: i64) -> PyObject: ...


@external
def PySequence_Size(sequence: PyObject) -> i64: ...


@external
def PySequence_GetItem(sequence: PyObject, index: i64) -> PyObject: ...


@external
def PyNumber_Negative(number: PyObject) -> PyObject: ...


@external
def PyDict_New() -> PyObject: ...


@external
def PyDict_SetItem(dict: PyObject, key: PyObject, value: PyObject) -> i32: ...


@external
def PyDict_DelItem(dict: PyObject, key: PyObject) -> i32: ...


@external
def PyDict_Size(dict: PyObject) -> i64: ...


@external
def PyDict_GetItemWithError(dict: PyObject, key: PyObject) -> PyObject: ...


@external
def PyDict_Next(dict: PyObject, position: ptr[i64], key: ptr[PyObject], value: ptr[PyObject]) -> i32: ...


@external
def PyList_Size(list: PyObject) -> i64: ...


@external
def PyList_GetItem(list: PyObject, index: i64) -> PyObject: ...


@external
def PyList_Append(list: PyObject, item: PyObject) -> i32: ...


@external
def PyList_SetSlice(list: PyObject, start: i64, end: i64, items: PyObject) -> i32: ...


@external
def PyObject_GetAttr(object: PyObject, name: PyObject) -> PyObject: ...


@external
def PyObject_GetIter(object: PyObject) -> PyObject: ...


@external
def PyIter_Next(iterator: PyObject) -> PyObject: ...


@external
def PyThread_get_thread_ident() -> u64: ...


@external
def PyEval_SaveThread() -> ptr[u8]: ...


@external
def PyEval_RestoreThread(state: ptr[u8]) -> None: ...


@external
def PyErr_CheckSignals() -> i32: ...


@external
def PyErr_Clear() -> None: ...


@external
def PyErr_Fetch(kind: ptr[PyObject], value: ptr[PyObject], traceback: ptr[PyObject]) -> None: ...


@external
def PyErr_Restore(kind: PyObject, value: PyObject, traceback: PyObject) -> None: ...


@external
def PyBool_FromLong(number: i64) -> PyObject: ...


@external
def PyErr_Occurred() -> PyObject: ...


@external
def PyGILState_Ensure() -> i32: ...


@external
def PyGILState_Release(state: i32) -> None: ...


@external
def Py_IsInitialized() -> i32: ...


@external
def PyCapsule_New(pointer: ptr[u8], name: cstring, destructor: Callable[[PyObject], None]) -> PyObject: ...


@external
def PyCapsule_IsValid(capsule: PyObject, name: cstring) -> i32: ...


@external
def PyCapsule_GetPointer(capsule: PyObject, name: cstring) -> ptr[u8]: ...


@external
def PyCapsule_SetName(capsule: PyObject, name: cstring) -> i32: ...


@external
def PyObject_CallOneArg(function: PyObject, argument: PyObject) -> PyObject: ...


@external
def PyObject_Vectorcall(function: PyObject, arguments: ptr[PyObject], count: i64, names: PyObject) -> PyObject: ...


@external
def PyObject_GetBuffer(object: PyObject, view: BufferView, flags: i32) -> i32: ...


@external
def PyBuffer_Release(view: BufferView) -> None: ...


@external
def PyBuffer_FillInfo(
    view: BufferView, owner: PyObject, memory: ptr[u8], nbytes: i64, readonly: i32, flags: i32
) -> i32: ...
