"""Each native function of programs with variables alone: compiled, and called with objects that are made here."""

from __future__ import annotations

import ctypes
import gc
import sys
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

from nacre.base.errors import OutOfMemory
from nacre.codegen.entry import perform, step, step_operands, step_results
from nacre.codegen.entry.layouts import (
    HiddenValue,
    KeptSlot,
    OperandType,
    ProgramRecord,
    ResultType,
    StepRecord,
    TensorObject,
    VariableObject,
)
from nacre.codegen.entry.slots import SLOTS, different_slots
from nacre.native import engine
from nacre.native.cpython import PyObject
from nacre.native.python.declarations import external, native
from nacre.native.python.module import module
from nacre.native.python.types import fields_of, offset_of, ptr, size_of
from nacre.native.python.unit import NativeModule
from nacre.native.records import pack, read_field, write_field
from nacre.runtime import buffer as buffers
from nacre.runtime.layouts import BufferObject, Descriptor
from nacre.runtime.tables import memory_of
from nacre.trace.value import Value
from nacre.trace.variable import Variable
from native.python.compiled import ctype


@external
def PyErr_SetNone(kind: PyObject) -> None: ...


@native
def is_as_it_was(given: StepRecord) -> bool:
    return step_operands.is_as_it_was(given)


@native
def take_back(given: StepRecord, operands: ptr[TensorObject], tensors: ptr[TensorObject], kind: PyObject) -> None:
    PyErr_SetNone(kind)
    step.take_back(given, operands, tensors)


FUNCTIONS: list[Any] = [
    *(is_as_it_was, take_back, perform.hold, step.ask, step.lock, step.unlock, step.run_program, step.fall_back),
    *(step_operands.gather, step_operands.hide, step_operands.show, step.call),
    *(step_results.make_tensors, step_results.store, step_results.answer),
]
TENSOR, BUFFER, TYPE = 8, 16, 24  # addresses of classes that native code only compares
MANY = 1000  # references, so that nothing is freed
NONE = id(None)
HEADER = 64  # bytes
Run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)


@cache
def image() -> bytes:
    return engine.compile_text(module(FUNCTIONS), engine.host_target())


class World:
    """The functions by name, and memory that lives as long."""

    def __init__(self) -> None:
        self.updating = ctypes.c_uint64(0)
        self.runs: list[list[int]] = []  # the addresses that programs were run with
        self.kept: list[Any] = [Run(self._run)]
        address = ctypes.cast(self.kept[0], ctypes.c_void_p).value
        assert address is not None
        symbols = {"nacre.updater": ctypes.addressof(self.updating), "nacre.run": address, "nacre.run_unless": address}
        library = engine.load(image(), buffers.symbols() | symbols).keep()
        self.f = SimpleNamespace()
        for f in FUNCTIONS:
            signature = NativeModule("signatures", []).signature(f)
            kind = ctypes.PYFUNCTYPE(ctype(signature.result), *map(ctype, signature.kinds))
            setattr(self.f, f.__name__, kind(library.address(f.symbol)))

    def _run(self, descriptor: int, bases: Any, workspace: int) -> None:
        self.runs.append([bases[k] or 0 for k in range(3)])

    def record(self, *parts: bytes) -> int:
        self.kept.append(memory_of(*parts))
        return self.kept[-1].ctypes.data

    def object(self, owner: type[Any] = PyObject, **values: int) -> int:
        """An object that is never freed; the words before it, a header in some versions of CPython, are zero."""
        return self.record(bytes(HEADER), pack(owner, **({"references": MANY} | values))) + HEADER

    def words(self, *values: int) -> Any:
        """An array of addresses."""
        self.kept.append((ctypes.c_uint64 * max(1, len(values)))(*values))
        return self.kept[-1]

    def table(self, *values: int) -> int:
        return ctypes.addressof(self.words(*values))

    def tensor(self, **values: int) -> int:
        usual = {"type": TENSOR, "content": self.buffer(), "layout": NONE, "node": NONE, "value_type": TYPE}
        return self.object(TensorObject, **(usual | values))

    def buffer(self, **values: int) -> int:
        return self.object(BufferObject, **({"type": BUFFER, "data": 64} | values))

    def program(self, inputs: int, donors: tuple[int, ...] = (), value_type: int = TYPE, **values: int) -> int:
        usual = {"tensor_class": TENSOR, "buffer_class": BUFFER, "active": self.table(0)}
        usual["descriptor"] = self.record(pack(Descriptor, workspace_bytes=0))
        head = pack(ProgramRecord, inputs=inputs, outputs=len(donors), **(usual | values))
        rows = [pack(OperandType, type=value_type)] * inputs
        return self.record(head, *rows, *(pack(ResultType, type=value_type, nbytes=64, donor=d) for d in donors))

    def step(self, **values: int) -> int:
        return self.record(pack(StepRecord, **values))

    def python(self, function: Any) -> int:
        self.kept.append(function)
        return id(function)


WORLDS: list[World] = []


@pytest.fixture
def world() -> World:
    WORLDS.append(World())  # never freed, because its library is not
    return WORLDS[-1]


def references(at: int) -> int:
    return read_field(at, PyObject, "references") - MANY


def slot(at: int, name: str = "cell") -> int:
    """The address of a slot of a variable."""
    return at + offset_of(VariableObject, name)


def test_structures_are_those_of_python() -> None:
    assert (VariableObject, Variable) in SLOTS and different_slots(VariableObject, Variable) == []
    assert set(fields_of(VariableObject)) == {*fields_of(PyObject), *Variable.__slots__} - {"__weakref__"}
    assert (size_of(HiddenValue), size_of(KeptSlot), size_of(StepRecord)) == (16, 24, 19 * 8)


# ---- operands


def operands_of(world: World, **wrong: int) -> tuple[bool, Any, Any, Any, list[int]]:
    """An argument, a capture and a variable's value are gathered; `wrong` is the state of the third or another one."""
    number, is_set = wrong.pop("number", 2), wrong.pop("is_set", 1)
    tensors = [world.tensor(**(wrong if k == number else {})) for k in range(3)]
    holder = world.object(VariableObject, cell=tensors[2] * is_set)
    sources = world.table(tensors[1], slot(holder))
    made = world.step(program=world.program(3), arguments=1, plain=2, sources=sources)
    outs = [world.words(*[7] * 3) for _ in range(3)]
    found = world.f.gather(made, world.table(tensors[0]), *map(ctypes.addressof, outs))
    return found, *outs, tensors


def test_operands_are_found(world: World) -> None:
    found, operands, read, bases, tensors = operands_of(world)
    assert found and [*operands] == tensors and [*bases] == [64] * 3
    assert [*read] == [read_field(x, TensorObject, "content") for x in tensors]
    assert [references(x) for x in tensors] == [0] * 3


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("field", ["type", "value_type", "layout"])
def test_operands_that_do_not_fit(world: World, number: int, field: str) -> None:
    assert not operands_of(world, **{"number": number, field: 40})[0]


def test_operands_without_a_buffer_or_value(world: World) -> None:
    assert not operands_of(world, content=world.buffer(type=40))[0]
    assert not operands_of(world, is_set=0)[0]


def test_only_values_of_variables_may_have_nodes(world: World) -> None:
    assert [operands_of(world, number=k, node=40)[0] for k in range(3)] == [False, False, True]


def test_slots_that_must_be_as_they_were(world: World) -> None:
    holder = world.object(VariableObject, gradient_cell=NONE, wants_gradient=id(True))

    def holds(*kept: tuple[str, object, bool]) -> bool:
        rows = [pack(KeptSlot, slot=slot(holder, name), object=id(x), has_it=was) for name, x, was in kept]
        return world.f.is_as_it_was(world.step(kept=world.record(*rows), kept_count=len(rows)))

    assert holds() and holds(("gradient_cell", None, True), ("wants_gradient", True, True))
    assert holds(("wants_gradient", False, False)) and not holds(("wants_gradient", False, True))
    assert not holds(("wants_gradient", True, True), ("gradient_cell", None, False))
    program = world.program(0)
    kept = world.record(pack(KeptSlot, slot=slot(holder), object=NONE, has_it=1))
    for count, wanted in ((0, True), (1, False)):
        assert world.f.gather(world.step(program=program, kept=kept, kept_count=count), 0, 0, 0, 0) is wanted


def hidden_values(world: World, cells: list[int]) -> tuple[int, Any, list[int], list[int]]:
    """A step with one argument that hides these cells; its operands, variables and placeholders."""
    variables = [world.object(VariableObject, cell=x) for x in cells]
    placeholders = [world.object() for _ in cells]
    rows = [pack(HiddenValue, operand=1 + k, placeholder=x) for k, x in enumerate(placeholders)]
    sources = world.table(*map(slot, variables))
    made = world.step(arguments=1, sources=sources, hidden=world.record(*rows), hidden_count=len(cells))
    return made, world.table(0, *cells), variables, placeholders


def test_values_are_hidden_and_shown(world: World) -> None:
    cells = [world.tensor(references=2, content=world.buffer(references=1)) for _ in range(2)]
    made, operands, variables, placeholders = hidden_values(world, cells)
    assert world.f.hide(made, operands)
    assert [read_field(v, VariableObject, "cell") for v in variables] == placeholders
    assert [references(x) for x in placeholders] == [1, 1]
    assert [read_field(x, PyObject, "references") for x in cells] == [1, 1]
    assert world.updating.value != 0
    world.f.show(made, operands)
    assert [read_field(v, VariableObject, "cell") for v in variables] == cells
    assert [references(x) for x in placeholders] == [0, 0]
    assert [read_field(x, PyObject, "references") for x in cells] == [2, 2]


def test_nothing_to_hide(world: World) -> None:
    assert world.f.hide(world.step(), 0) and world.updating.value == 0
    world.f.show(world.step(), 0)


@pytest.mark.parametrize("others", ["cell", "buffer"])
@pytest.mark.parametrize("number", [0, 1])
def test_values_with_other_references(world: World, others: str, number: int) -> None:
    cells = [world.tensor(references=2, content=world.buffer(references=1)) for _ in range(2)]
    at = cells[number] if others == "cell" else read_field(cells[number], TensorObject, "content")
    write_field(at, PyObject, "references", 3)
    made, operands, variables, placeholders = hidden_values(world, cells)
    assert not world.f.hide(made, operands)
    assert [read_field(v, VariableObject, "cell") for v in variables] == placeholders  # all are hidden nevertheless


@pytest.mark.skipif(Value.__weakrefoffset__ < 0, reason="objects made here have no headers")
def test_values_with_weak_references(world: World) -> None:
    cell = world.tensor(references=2, content=world.buffer(references=1), weak_references=40)
    made, operands, *_ = hidden_values(world, [cell])
    assert not world.f.hide(made, operands)


# ---- results


def test_tensors_are_made_for_new_outputs(world: World) -> None:
    about = object()
    program = world.program(1, (-1, 0, -1), tensor_class=id(Value), value_type=id(about))
    tensors, before = world.words(7, 7, 7, 7), sys.getrefcount(about)
    assert world.f.make_tensors(world.step(program=program, results=2), ctypes.addressof(tensors))
    assert tensors[1] == tensors[3] == 0 and sys.getrefcount(about) == before + 2
    for x in (tensors[0], tensors[2]):
        values = [read_field(x, TensorObject, name) for name in ("type", "content", "layout", "node", "value_type")]
        assert values == [id(Value), 0, NONE, NONE, id(about)]
    world.f.hold(ctypes.addressof(tensors), 3, False)
    assert sys.getrefcount(about) == before
    made = world.step(program=world.program(1, (0,)), results=2, finish=NONE)
    assert world.f.make_tensors(made, ctypes.addressof(tensors)) and tensors[0] == 0
    assert (read_field(tensors[1], PyObject, "type"), read_field(tensors[1], PyObject, "references")) == (id(tuple), 1)
    world.f.hold(ctypes.addressof(tensors), 2, False)


def test_results_are_stored(world: World) -> None:
    node, before, gradient = (world.object() for _ in range(3))
    donor, new = world.tensor(node=node), [world.tensor(content=0) for _ in range(2)]
    first, second = (world.object(VariableObject, cell=x, gradient_cell=gradient) for x in (donor, before))
    made = world.step(
        program=world.program(2, (-1, 1, -1)),
        results=1,
        written=world.table(slot(first), slot(second)),
        cleared=world.table(slot(second, "gradient_cell")),
        cleared_count=1,
    )
    buffer = [world.buffer() for _ in range(3)]
    tensors, replaced = world.words(new[0], 0, new[1]), world.words(*[7] * 7)
    world.f.store(
        made, world.table(0, donor), ctypes.addressof(tensors), world.table(*buffer), ctypes.addressof(replaced)
    )
    assert [*replaced] == [0, donor, before, 0, node, 0, gradient]
    assert [read_field(v, VariableObject, "cell") for v in (first, second)] == [donor, new[1]]
    assert [read_field(v, VariableObject, "gradient_cell") for v in (first, second)] == [gradient, NONE]
    assert [read_field(x, TensorObject, "content") for x in new] == [buffer[0], buffer[2]]
    assert read_field(donor, TensorObject, "node") == NONE and read_field(donor, TensorObject, "content") not in buffer
    assert [references(x) for x in (donor, *new, *buffer, node, before)] == [1, 0, 0, 0, -1, 0, 0, 0]


def taken(at: int) -> Any:
    """The object at an address, whose reference this takes over."""
    found = ctypes.cast(at, ctypes.py_object).value
    ctypes.pythonapi.Py_DecRef(ctypes.c_void_p(at))
    return found


def owned(objects: list[Any]) -> list[int]:
    """Addresses of objects with a reference for each."""
    for x in objects:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))
    return [id(x) for x in objects]


def test_answers(world: World) -> None:
    values: list[Any] = [["a"], ["b"], ["c"]]

    def answer(finish: int, count: int) -> Any:
        made = world.step(program=world.program(0, (0,) * count), results=count, finish=finish)
        tensors = world.words(*[0] * (count + 1))
        assert world.f.make_tensors(made, ctypes.addressof(tensors))
        tensors[:count] = owned(values[:count])
        return taken(world.f.answer(made, ctypes.addressof(tensors)))

    assert answer(0, 1) is values[0]
    for count in range(4):
        assert answer(NONE, count) == tuple(values[:count])
        assert answer(world.python(lambda x: (len(x), x)), count) == (count, tuple(values[:count]))

    def refuse(x: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        answer(world.python(refuse), 3)


# ---- the call


def failing(*args: Any) -> Any:
    raise KeyError("mine")


def test_questions(world: World) -> None:
    asked: list[Any] = []
    echo = world.python(lambda *args: (asked.append(args), args[0])[1])
    for answer, wanted in ((True, 1), (False, 0), (1, 0), (None, 0)):
        assert world.f.ask(echo, world.table(id(answer)), 1) == wanted and asked[-1] == (answer,)
    with pytest.raises(KeyError, match="mine"):
        world.f.ask(world.python(failing), 0, 0)


def test_the_lock_of_updates(world: World) -> None:
    heard: list[Any] = []
    acquire = world.python(lambda wait: (heard.append(wait), len(heard) == 1)[1])
    release = world.python(lambda: heard.append("released"))
    idle = world.step(acquire=acquire, release=release)
    assert world.f.lock(idle) == 1
    world.f.unlock(idle)
    assert heard == []
    busy = world.step(acquire=acquire, release=release, hidden_count=1)
    assert [world.f.lock(busy) for _ in range(2)] == [1, 0] and heard == [False, False]
    world.updating.value = 5
    world.f.unlock(busy)
    assert heard[2:] == ["released"] and world.updating.value == 0
    with pytest.raises(KeyError, match="mine"):
        world.f.lock(world.step(acquire=world.python(failing), hidden_count=1))


def test_an_exception_takes_everything_back(world: World) -> None:
    cell = world.tensor(references=2, content=world.buffer(references=1))
    made, operands, (variable,), (placeholder,) = hidden_values(world, [cell])
    heard: list[str] = []
    write_field(made, StepRecord, "program", world.program(2, (-1,)))
    write_field(made, StepRecord, "release", world.python(lambda: heard.append("released")))
    world.f.hold(operands, 2, True)
    write_field(cell, PyObject, "references", 2)
    world.f.hide(made, operands)
    write_field(cell, PyObject, "references", 2)  # as the call itself holds it
    output = world.tensor()
    with pytest.raises(KeyboardInterrupt):
        world.f.take_back(made, operands, world.table(output, 0), id(KeyboardInterrupt))
    assert heard == ["released"] and world.updating.value == 0
    assert read_field(variable, VariableObject, "cell") == cell
    assert read_field(cell, PyObject, "references") == 2
    assert (references(placeholder), references(output)) == (0, -1)


class Calls:
    """A step `v <- v + x` with a result, on real objects, with functions that note what happens."""

    def __init__(self, world: World, held: Any = True, free: Any = True) -> None:
        self.world, self.heard, self.answers = world, list[str](), {"holds": held, "acquire": free}
        self.value_type, self.node, self.active = object(), object(), world.words(0)
        self.argument, self.placeholder = self.value(), self.value()
        self.variable = Variable.__new__(Variable)
        self.variable.cell = self.value(node=self.node)
        self.program = world.program(
            2,
            (-1, 1),
            value_type=id(self.value_type),
            tensor_class=id(Value),
            buffer_class=id(buffers.native().type),
            active=ctypes.addressof(self.active),
        )
        self.record = world.step(
            program=self.program,
            arguments=1,
            plain=1,
            results=1,
            sources=world.table(slot(id(self.variable))),
            written=world.table(slot(id(self.variable))),
            hidden=world.record(pack(HiddenValue, operand=1, placeholder=id(self.placeholder))),
            hidden_count=1,
            holds=world.python(lambda *args: self.hear("holds")),
            fallback=world.python(lambda *args: self.hear("fallback")),
            acquire=world.python(lambda wait: self.hear("acquire")),
            release=world.python(lambda: self.hear("release")),
        )
        self.before = self.state()

    def value(self, node: object = None) -> Value:
        x = Value()
        x.type, x.content, x.layout, x.node = self.value_type, buffers.allocate(64), None, node  # type: ignore[assignment]
        return x

    def state(self) -> list[int]:
        """The value of the variable, and the references to all objects."""
        cell = self.variable.cell
        counted = (cell, cell.content, self.value_type, self.argument, self.placeholder)
        return [id(cell), self.world.updating.value, *map(sys.getrefcount, counted)]

    def hear(self, name: str) -> Any:
        self.heard.append(name)
        answer = self.answers.get(name)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def __call__(self, given: int = 1) -> Any:
        arguments = self.world.table(*[id(self.argument)] * given)
        return taken(self.world.f.call(id(self.record), arguments, given))


def test_a_call(world: World) -> None:
    calls = Calls(world)
    nodes = [sys.getrefcount(calls.node)]
    made = calls()
    nodes.append(sys.getrefcount(calls.node))
    assert calls.heard == ["holds", "acquire", "release"] and nodes[1] == nodes[0] - 1
    used = (calls.argument, calls.variable.cell, made)
    assert world.runs == [[x.content.address for x in used]]
    assert type(made) is Value and made.type is calls.value_type and made.node is None and made.layout is None
    assert calls.variable.cell.node is None
    del made, used
    assert calls.state() == calls.before


@pytest.mark.parametrize("case", ["count", "active", "holds", "lock", "argument", "layout", "shared"])
def test_calls_that_go_to_the_fallback(world: World, case: str) -> None:
    calls = Calls(world, held=case != "holds", free=case != "lock")
    before = ["holds", "acquire", "release"]
    if case in ("count", "active", "holds", "lock"):
        before = before[: {"count": 0, "active": 0, "holds": 1, "lock": 2}[case]]
    calls.active[0] = case == "active"
    if case == "argument":
        calls.argument.node = calls.node
    if case == "layout":
        calls.variable.cell.layout = object()  # type: ignore[assignment]
    holder = calls.variable.cell.content if case == "shared" else None
    assert calls(2 if case == "count" else 1) is None
    assert calls.heard == [*before, "fallback"] and world.runs == []
    del holder
    assert calls.state() == calls.before


@pytest.mark.parametrize("name", ["holds", "acquire", "fallback"])
def test_calls_that_raise(world: World, name: str) -> None:
    calls = Calls(world, held=name != "fallback")
    calls.answers[name] = KeyError("mine")
    with pytest.raises(KeyError, match="mine"):
        calls()
    calls.answers.clear()  # the exception knows the arguments
    gc.collect()
    assert calls.heard[-1] == name and world.runs == [] and calls.state() == calls.before


def test_a_call_without_memory(world: World) -> None:
    calls = Calls(world)
    row = size_of(ProgramRecord) + 2 * size_of(OperandType)
    write_field(calls.program + row, ResultType, "nbytes", 1 << 47)
    with pytest.raises(OutOfMemory):
        calls()
    assert calls.heard == ["holds", "acquire", "release"] and world.runs == [] and calls.state() == calls.before
