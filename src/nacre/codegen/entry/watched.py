"""Whether the places that a function read while it was traced have the same objects: native code.

Objects are compared by identity.  Where they differ, Python compares their values (see `trace/captures`).
"""

from __future__ import annotations

from nacre.codegen.entry.layouts import CELL, DICT, LIST, NAME, ORDERED, StepRecord, WatchedPlace
from nacre.native.cpython import (
    CellObject,
    Py_DecRef,
    PyDict_GetItemWithError,
    PyDict_Next,
    PyDict_Size,
    PyErr_Clear,
    PyIter_Next,
    PyList_GetItem,
    PyList_Size,
    PyObject,
    PyObject_GetAttr,
    PyObject_GetIter,
)
from nacre.native.python.declarations import native, null
from nacre.native.python.intrinsics import addr, cast, stack
from nacre.native.python.types import i64, struct


@struct
class DictEntry:
    """An entry of a dict, and where the next one is."""

    position: i64
    key: PyObject
    value: PyObject


@native(cold=True)
def find_name(place: WatchedPlace) -> None:
    """Find the position of a name in its dict."""
    entry = stack(DictEntry)
    entry.position = 0
    position: i64 = 0
    while PyDict_Next(place.owner, addr(entry.position), addr(entry.key), addr(entry.value)) != 0:
        if entry.key == place.key:
            place.position = position
            return
        position = entry.position
    place.position = -1


@native
def has_name(place: WatchedPlace) -> bool:
    """Whether a name is the same object, by its last position if it is still there: that takes a third of the time."""
    if place.position >= 0:
        entry = stack(DictEntry)
        entry.position = place.position
        found = PyDict_Next(place.owner, addr(entry.position), addr(entry.key), addr(entry.value))
        if found != 0 and entry.key == place.key and entry.value == place.objects[0]:
            return True
    if PyDict_GetItemWithError(place.owner, place.key) != place.objects[0]:
        PyErr_Clear()
        return False
    if place.position >= 0:
        find_name(place)
    return True


@native
def has_entries(place: WatchedPlace) -> bool:
    """Whether a dict has the same keys and values, in the same order."""
    if PyDict_Size(place.owner) != place.count:
        return False
    entry = stack(DictEntry)
    entry.position = 0
    for k in range(place.count):
        if PyDict_Next(place.owner, addr(entry.position), addr(entry.key), addr(entry.value)) == 0:
            return False
        if place.objects[2 * k] != entry.key or place.objects[2 * k + 1] != entry.value:
            return False
    return True


@native
def has_ordered_entries(place: WatchedPlace) -> bool:
    """Whether an OrderedDict has the same keys and values, in its own order, which its memory as a dict lacks."""
    if PyDict_Size(place.owner) != place.count:
        return False
    keys = PyObject_GetIter(place.owner)
    if keys == null:
        PyErr_Clear()
        return False
    same = True
    for k in range(place.count):
        key = PyIter_Next(keys)
        if key == null:
            same = False
            break
        same = key == place.objects[2 * k] and PyDict_GetItemWithError(place.owner, key) == place.objects[2 * k + 1]
        Py_DecRef(key)
        if not same:
            break
    Py_DecRef(keys)
    PyErr_Clear()
    return same


@native
def has_items(place: WatchedPlace) -> bool:
    """Whether a list has the same items."""
    if PyList_Size(place.owner) != place.count:
        return False
    for k in range(place.count):  # noqa: SIM110 - native code has no generators
        if PyList_GetItem(place.owner, k) != place.objects[k]:
            return False
    return True


@native
def has_attribute(place: WatchedPlace) -> bool:
    """Whether an attribute is the same object."""
    found = PyObject_GetAttr(place.owner, place.key)
    if found == null:
        PyErr_Clear()
        return False
    Py_DecRef(found)
    return found == place.objects[0]


@native
def watched_are_same(step: StepRecord) -> bool:
    """Whether all watched places have the objects that they had."""
    for k in range(step.watched_count):
        place = step.watched[k]
        if place.kind == CELL:
            if cast(CellObject, place.owner).contents != place.objects[0]:
                return False
        elif place.kind == NAME:
            if not has_name(place):
                return False
        elif place.kind == DICT:
            if not has_entries(place):
                return False
        elif place.kind == ORDERED:
            if not has_ordered_entries(place):
                return False
        elif place.kind == LIST:
            if not has_items(place):
                return False
        elif not has_attribute(place):
            return False
    return True
