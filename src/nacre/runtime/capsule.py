"""Capsules of DLPack in native Python: a capsule's destructor, and the deleter that a consumer of the memory calls.

They are native because both run where Python code may not: while an exception is pending, on a thread that Python does
not know, or after the interpreter has ended.  The manager of an exported tensor is a Python object that keeps both the
description and the memory alive; the deleter releases it.
"""

from __future__ import annotations

from typing import Annotated

from nacre.native.cpython import (
    Py_DecRef,
    Py_IncRef,
    Py_IsInitialized,
    PyCapsule_GetPointer,
    PyCapsule_IsValid,
    PyCapsule_New,
    PyCapsule_SetName,
    PyGILState_Ensure,
    PyGILState_Release,
    PyObject,
)
from nacre.native.python.declarations import native, null
from nacre.native.python.intrinsics import cast
from nacre.native.python.types import array, i64, ptr, struct, u8, u64


@struct
class UnversionedManager:
    """DLManagedTensor, as far as these functions use it."""

    tensor: Annotated[array[u64], 6]
    manager: PyObject
    deleter: ptr[u8]


@struct
class VersionedManager:
    """DLManagedTensorVersioned, as far as these functions use it."""

    version: u64
    manager: PyObject
    deleter: ptr[u8]
    flags: u64


@native
def release(manager: PyObject) -> None:
    """Release the reference that an exported tensor has to its manager."""
    if Py_IsInitialized() != 0:
        lock = PyGILState_Ensure()
        Py_DecRef(manager)
        PyGILState_Release(lock)


@native(symbol="nacre.dlpack_delete")
def delete(tensor: UnversionedManager) -> None:
    """The deleter of an exported tensor without a version."""
    release(tensor.manager)


@native(symbol="nacre.dlpack_delete_versioned")
def delete_versioned(tensor: VersionedManager) -> None:
    """The deleter of an exported tensor with a version."""
    release(tensor.manager)


@native
def destroy(capsule: PyObject) -> None:
    """The destructor of a capsule: it frees a tensor that was not consumed, by its name."""
    if PyCapsule_IsValid(capsule, b"dltensor") != 0:
        delete(cast(UnversionedManager, PyCapsule_GetPointer(capsule, b"dltensor")))
    if PyCapsule_IsValid(capsule, b"dltensor_versioned") != 0:
        delete_versioned(cast(VersionedManager, PyCapsule_GetPointer(capsule, b"dltensor_versioned")))


@native(symbol="nacre.dlpack_seal")
def seal(description: ptr[u8], versioned: i64) -> PyObject:
    """A capsule of a described tensor, whose manager it holds a reference to; null with an exception set."""
    if versioned != 0:
        manager = cast(VersionedManager, description).manager
        capsule = PyCapsule_New(description, b"dltensor_versioned", destroy)
        if capsule != null:
            Py_IncRef(manager)
        return capsule
    manager = cast(UnversionedManager, description).manager
    capsule = PyCapsule_New(description, b"dltensor", destroy)
    if capsule != null:
        Py_IncRef(manager)
    return capsule


@native(symbol="nacre.dlpack_consume")
def consume(capsule: PyObject) -> i64:
    """Rename a capsule, so that its tensor belongs to the caller; 0 if it has no tensor."""
    if PyCapsule_IsValid(capsule, b"dltensor_versioned") != 0:
        return i64(PyCapsule_SetName(capsule, b"used_dltensor_versioned") == 0)
    if PyCapsule_IsValid(capsule, b"dltensor") != 0:
        return i64(PyCapsule_SetName(capsule, b"used_dltensor") == 0)
    return 0
