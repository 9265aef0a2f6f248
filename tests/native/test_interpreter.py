"""The interpreters that native code refuses, each by its name, and the objects of this one."""

from __future__ import annotations

from typing import Any

import pytest

from nacre.base.errors import StateError
from nacre.native import interpreter
from nacre.native.cpython import PyObject
from nacre.native.interpreter import (
    InterpreterFacts,
    different_fields,
    facts,
    refused,
    require_interpreter,
    slot_offset,
)
from nacre.native.records import read_field

USUAL = InterpreterFacts("cpython", wide=True, free_threaded=False, traces_references=False)


def test_this_interpreter_is_a_usual_one() -> None:
    assert facts() == USUAL
    assert refused(USUAL) is None
    assert different_fields() == []
    require_interpreter()


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (USUAL._replace(implementation="pypy"), "the implementation pypy"),
        (USUAL._replace(free_threaded=True), "a free-threaded build"),
        (USUAL._replace(traces_references=True), "traces references"),
        (USUAL._replace(wide=False), "32 bits"),
    ],
    ids=("pypy", "free-threaded", "traces", "narrow"),
)
def test_others_are_refused_by_name(found: InterpreterFacts, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "facts", lambda: found)
    check: Any = interpreter.check_interpreter
    with pytest.raises(StateError, match=f"{name}.*install the usual 64-bit build of CPython"):
        check()


def test_other_places_of_fields_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "slot_offset", lambda cls, name: 8)  # pyright: ignore
    monkeypatch.setattr(interpreter, "weak_references_offset", lambda structure: 0)  # pyright: ignore
    assert different_fields() == ["the slot first", "the slot second", "weak references"]
    with pytest.raises(StateError, match=r"other places for the slot first, .*; install"):
        interpreter.check_interpreter()


def test_slots() -> None:
    class Pair:
        __slots__ = ("a", "b")

    class Triple(Pair):
        __slots__ = ("c",)
        d = 1

    pair: Any = Pair()
    pair.a, pair.b = object(), object()
    assert (slot_offset(Pair, "a"), slot_offset(Pair, "b"), slot_offset(Triple, "c")) == (16, 24, 32)
    assert read_field(id(pair), PyObject, "type") == id(Pair)
    with pytest.raises(TypeError, match=r"Triple\.d is not a slot"):
        slot_offset(Triple, "d")
