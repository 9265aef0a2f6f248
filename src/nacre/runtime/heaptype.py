"""The Buffer type itself: a CPython heap type in native Python, using exported functions only.

Generated code calls `nacre.buffer_new(nbytes)`, which returns a new reference, or null with an exception set.  The
interpreter lock is always held.
"""

from __future__ import annotations

from typing import Annotated, Final

from nacre.native.cpython import (
    DEALLOCATE,
    DOCUMENTATION,
    GETBUFFER,
    LENGTH,
    MEMBER_BOOL,
    MEMBER_OBJECT,
    MEMBER_READ_ONLY,
    MEMBER_SSIZE,
    MEMBER_ULONG,
    MEMBERS,
    METHOD_OF_ONE_ARGUMENT,
    METHOD_STATIC,
    METHODS,
    TYPE_IMMUTABLE,
    TYPE_WITHOUT_CALL,
    BufferView,
    MemberDefinition,
    MethodDefinition,
    Py_DecRef,
    Py_IncRef,
    PyBool_FromLong,
    PyBuffer_FillInfo,
    PyBuffer_Release,
    PyErr_Occurred,
    PyLong_AsSsize_t,
    PyLong_FromSsize_t,
    PyObject,
    PyObject_CallOneArg,
    PyObject_Free,
    PyObject_GetBuffer,
    PyObject_New,
    PyType_FromSpec,
    TypeSlot,
    TypeSpec,
)
from nacre.native.python.declarations import address, inline, native, null, row, text, variable
from nacre.native.python.intrinsics import cast, stack
from nacre.native.python.types import array, embed, i32, i64, offset_of, ptr, size_of, struct, u8, u32, u64
from nacre.runtime import allocator
from nacre.runtime.allocator import LARGEST, FreeBlock, class_of, give, state, take
from nacre.runtime.layouts import BufferObject

FOREIGN: Final = -1  # the class of memory that is not ours


@struct
class TypeState:
    """The type, the functions that are called where memory runs out, and numbers that are counted."""

    type: PyObject
    reclaim: PyObject
    refuse: PyObject
    serials: u64
    sole_references: u32


this = variable(TypeState)


@inline
def next_serial() -> u64:
    """A number that no contents of a buffer had."""
    serial = this.serials + 1
    this.serials = serial
    return serial


@inline
def new_object(data: ptr[u8], nbytes: u64, owner: PyObject, size_class: i64, size: u64, readonly: i64) -> BufferObject:
    """A Buffer object over a block, or over foreign memory whose owner it takes over; null without memory."""
    self = cast(BufferObject, PyObject_New(this.type))
    if self != null:
        self.data = data
        self.nbytes = nbytes
        self.owner = owner
        self.size_class = size_class
        self.size = size
        self.readonly = readonly
        serial = next_serial()
        self.serial = serial if size_class >= 0 else 0
        state.buffers += 1
    return self


@native(symbol="nacre.buffer_renew")
def renew(self: BufferObject) -> None:
    """Note that our own memory is about to be overwritten."""
    if self.serial != 0:
        self.serial = next_serial()


@native
def deallocate(self: BufferObject) -> None:
    """Free a Buffer without references."""
    state.buffers -= 1
    if self.size_class >= 0:
        give(cast(FreeBlock, self.data), self.size_class, self.size)
    else:
        Py_DecRef(self.owner)
    kind = self.type
    PyObject_Free(self)
    Py_DecRef(kind)


@native(cold=True)
def tell(function: PyObject, n: i64) -> bool:
    """Call a Python function with a number; whether it returned."""
    number = PyLong_FromSsize_t(n)
    if number == null:
        return False
    result = PyObject_CallOneArg(function, number)
    Py_DecRef(number)
    if result == null:
        return False
    Py_DecRef(result)
    return True


@native(cold=True)
def reclaimed(nbytes: u64, size_class: i64, size: u64) -> FreeBlock:
    """Memory ran out: reclaim (Python's cycles may hold some), try again, else raise."""
    if nbytes < LARGEST:
        if not tell(this.reclaim, i64(nbytes)):
            return null
        block = take(size_class, size)
        if block != null:
            return block
    tell(this.refuse, i64(nbytes))
    return null


@native(symbol="nacre.buffer_new")
def new(nbytes: u64) -> BufferObject:
    """A new Buffer of uninitialised memory; null with an exception set where there is none."""
    size_class, size = class_of(nbytes)
    block: FreeBlock = take(size_class, size) if nbytes < LARGEST else null
    if block == null:
        block = reclaimed(nbytes, size_class, size)
        if block == null:
            return null
    self = new_object(cast(ptr[u8], block), nbytes, null, size_class, size, 0)
    if self == null:
        give(block, size_class, size)
    return self


@native
def allocate(unused: PyObject, number: PyObject) -> PyObject:
    """The static method that makes a Buffer of a number of bytes."""
    n = PyLong_AsSsize_t(number)
    if n >= 0:
        return new(u64(n))
    if PyErr_Occurred() == null:
        tell(this.refuse, n)
    return null


@native
def wrap(unused: PyObject, view: PyObject) -> PyObject:
    """Foreign memory through a memoryview, which holds the export for as long as the Buffer holds it."""
    info = stack(BufferView)
    if PyObject_GetBuffer(view, info, 0) != 0:
        return null
    data, nbytes, readonly = info.memory, u64(info.nbytes), i64(info.readonly)
    PyBuffer_Release(info)
    Py_IncRef(view)
    self = new_object(data, nbytes, view, FOREIGN, nbytes, readonly)
    if self == null:
        Py_DecRef(view)
    return self


@native
def get_buffer(self: BufferObject, view: BufferView, flags: i32) -> i32:
    """Export the memory by the buffer protocol."""
    return PyBuffer_FillInfo(view, self, self.data, i64(self.nbytes), i32(self.readonly), flags)


@native
def length(self: BufferObject) -> i64:
    """The number of bytes."""
    return i64(self.nbytes)


@native
def references(unused: PyObject, object: PyObject) -> PyObject:
    """The static method that returns an object's number of references."""
    return PyLong_FromSsize_t(i64(object.references))


@native
def sole_owner(unused: PyObject, object: PyObject) -> PyObject:
    """The static method that returns whether an object has no references but those of the call."""
    return PyBool_FromLong(i64(object.references <= this.sole_references))


@struct
class TypeMembers:
    """The attributes, with an empty one at the end."""

    items: Annotated[array[embed[MemberDefinition]], 5]


@struct
class TypeMethods:
    """The static methods, with an empty one at the end."""

    items: Annotated[array[embed[MethodDefinition]], 5]


@struct
class TypeSlots:
    """The functions and tables of the type, with an empty slot at the end."""

    items: Annotated[array[embed[TypeSlot]], 7]


def member(name: str, kind: int, field: str) -> MemberDefinition:
    """An attribute that Python code reads."""
    return MemberDefinition(
        name=text(name),
        kind=kind,
        offset=offset_of(BufferObject, field),
        flags=MEMBER_READ_ONLY,
        documentation=null,
    )


def method(name: str, function: object) -> MethodDefinition:
    """A static method of one argument."""
    return MethodDefinition(
        name=text(name), function=address(function), flags=METHOD_OF_ONE_ARGUMENT | METHOD_STATIC, documentation=null
    )


def slot(number: int, value: object) -> TypeSlot:
    """A slot that has the address of a function or table."""
    return TypeSlot(slot=number, value=address(value))


members = variable(
    TypeMembers,
    initial=TypeMembers(
        items=row(
            member("address", MEMBER_ULONG, "data"),
            member("nbytes", MEMBER_SSIZE, "nbytes"),
            member("owner", MEMBER_OBJECT, "owner"),
            member("readonly", MEMBER_BOOL, "readonly"),
        )
    ),
)
methods = variable(
    TypeMethods,
    initial=TypeMethods(
        items=row(
            method("allocate", allocate),
            method("wrap", wrap),
            method("references", references),
            method("sole_owner", sole_owner),
        )
    ),
)
DOCUMENTED: Final = "Counted memory, 64-byte aligned unless it is foreign; it exports the buffer protocol."
slots = variable(
    TypeSlots,
    initial=TypeSlots(
        items=row(
            slot(DEALLOCATE, deallocate),
            slot(GETBUFFER, get_buffer),
            slot(LENGTH, length),
            slot(MEMBERS, members),
            slot(METHODS, methods),
            TypeSlot(slot=DOCUMENTATION, value=text(DOCUMENTED)),
        )
    ),
)
specification = variable(
    TypeSpec,
    initial=TypeSpec(
        name=text("nacre.runtime.buffer.Buffer"),
        basic_size=size_of(BufferObject),
        item_size=0,
        flags=TYPE_IMMUTABLE | TYPE_WITHOUT_CALL,
        slots=address(slots),
    ),
)


@native(symbol="nacre.buffer_create", cold=True)
def create(reclaim: PyObject, refuse: PyObject) -> PyObject:
    """Make the type, once; the two functions are called where memory runs out."""
    Py_IncRef(reclaim)
    Py_IncRef(refuse)
    this.reclaim = reclaim
    this.refuse = refuse
    this.type = PyType_FromSpec(specification)
    Py_IncRef(this.type)
    return this.type


@native(symbol="nacre.buffer_calibrate", cold=True)
def calibrate(references: u32) -> None:
    """Set the number of references that an object has while it is passed to `sole_owner`, and no other one."""
    this.sole_references = references


empty_cache = allocator.empty_cache  # one of the entries
