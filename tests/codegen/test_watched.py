"""The native functions that compare watched places alone: compiled, and called with places that are made here."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from types import CellType, SimpleNamespace
from typing import Any

import pytest

from nacre.codegen.entry import watched
from nacre.codegen.entry.layouts import WATCHED, StepRecord, WatchedPlace
from nacre.native import engine
from nacre.native.python.module import module
from nacre.native.python.unit import NativeModule
from nacre.native.records import pack, read_field
from nacre.runtime.tables import memory_of
from native.python.compiled import ctype

FUNCTIONS: dict[str, Any] = {
    f.__name__: f
    for f in (watched.has_name, watched.has_entries, watched.has_items, watched.has_attribute, watched.watched_are_same)
}
KEPT: list[Any] = []


@cache
def functions() -> SimpleNamespace:
    library = engine.load(engine.compile_text(module(list(FUNCTIONS.values())), engine.host_target()), {}).keep()
    made = SimpleNamespace()
    for name, f in FUNCTIONS.items():
        signature = NativeModule("signatures", []).signature(f)
        kind = ctypes.PYFUNCTYPE(ctype(signature.result), *map(ctype, signature.kinds))
        setattr(made, name, kind(library.address(f.symbol)))
    return made


def place(kind: str, owner: Any, key: str | None, *objects: Any) -> bytes:
    """A place with the objects that it must have."""
    table = (ctypes.c_uint64 * max(1, len(objects)))(*map(id, objects))
    KEPT.append((table, owner, key, objects))
    count = len(objects) // 2 if kind == "dict" else len(objects)
    return pack(
        WatchedPlace,
        kind=WATCHED[kind],
        owner=id(owner),
        key=id(key),
        objects=ctypes.addressof(table),
        count=count,
    )


def address(*parts: bytes) -> int:
    KEPT.append(memory_of(*parts))
    return KEPT[-1].ctypes.data


A, B, C = "first", "second", object()


@pytest.mark.parametrize(
    ("held", "objects", "same"),
    [
        ({A: B}, (A, B), True),
        ({A: B, B: C}, (A, B, B, C), True),
        ({}, (), True),
        ({A: C}, (A, B), False),
        ({B: B}, (A, B), False),
        ({B: C, A: B}, (A, B, B, C), False),
        ({A: B}, (A, B, B, C), False),
        ({A: B, B: C}, (A, B), False),
        ({}, (A, B), False),
    ],
)
def test_entries_of_a_dict(held: dict[Any, Any], objects: tuple[Any, ...], same: bool) -> None:
    assert bool(functions().has_entries(address(place("dict", held, None, *objects)))) is same


@pytest.mark.parametrize(
    ("held", "objects", "same"),
    [([A, B], (A, B), True), ([], (), True), ([A], (A, B), False), ([A, B], (A,), False), ([B, A], (A, B), False)],
)
def test_items_of_a_list(held: list[Any], objects: tuple[Any, ...], same: bool) -> None:
    assert bool(functions().has_items(address(place("list", held, None, *objects)))) is same


def test_attributes() -> None:
    class Held:
        __slots__ = ("first",)
        second = C

    held = Held()
    held.first = B
    has = functions().has_attribute
    KEPT.clear()
    before = sys.getrefcount(C)
    assert has(address(place("attribute", held, "first", B))) and has(address(place("attribute", Held, "second", C)))
    assert not has(address(place("attribute", held, "first", C)))
    del held.first
    assert not has(address(place("attribute", held, "first", B)))  # the error is cleared: the call raises nothing
    KEPT.clear()
    assert sys.getrefcount(C) == before


def test_all_places_are_compared() -> None:
    cell, names, entries, items = CellType(A), {"v": B}, {A: C}, [C]
    held = SimpleNamespace(first=A)
    places = [
        place("cell", cell, None, A),
        place("name", names, "v", B),
        place("dict", entries, None, A, C),
        place("list", items, None, C),
        place("attribute", held, "first", A),
    ]
    step = address(pack(StepRecord, watched=address(*places), watched_count=len(places)))
    none = address(pack(StepRecord, watched=0, watched_count=0))
    same = functions().watched_are_same
    assert same(step) and same(none)
    for change, restore in (
        (lambda: setattr(cell, "cell_contents", B), lambda: setattr(cell, "cell_contents", A)),
        (lambda: delattr(cell, "cell_contents"), lambda: setattr(cell, "cell_contents", A)),
        (lambda: names.update(v=A), lambda: names.update(v=B)),
        (names.clear, lambda: names.update(v=B)),
        (lambda: entries.update({B: B}), lambda: entries.pop(B)),
        (lambda: items.append(A), items.pop),
        (lambda: setattr(held, "first", C), lambda: setattr(held, "first", A)),
    ):
        change()
        assert not same(step)
        restore()
        assert same(step)


def test_names_are_found_wherever_they_move() -> None:
    names: dict[Any, Any] = {"before": C, "v": B, "behind": C}
    at = address(place("name", names, next(k for k in names if k == "v"), B))
    same = functions().has_name
    position = "position"
    assert same(at) and read_field(at, WatchedPlace, position) == 1 and same(at)
    del names["before"]
    assert same(at) and same(at)
    names.pop("v")
    assert not same(at)
    names["v"] = C
    assert not same(at)
    names["v"] = B
    assert same(at) and same(at)
    names.update({str(k): k for k in range(1000)})
    assert same(at)
    equal = address(place("name", {"ab" * 20: B}, "".join(["ab"] * 20), B))
    assert same(equal) and read_field(equal, WatchedPlace, position) == -1 and same(equal)
