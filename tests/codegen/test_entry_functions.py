"""Each native function of the entries alone, with objects made by hand, and memory that runs out at each allocation."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Generator
from typing import Any

import pytest

from codegen.entry_machine import Machine, NumberObject
from nacre.codegen.entry.layouts import (
    IGNORED,
    REFUSED,
    InterruptClock,
    LayoutObject,
    NodeObject,
    NodeRule,
    OperandType,
    PackedSource,
    PackedTable,
    ProgramRecord,
    ResultType,
    SilentThreads,
    TensorObject,
    ViewRecord,
)
from nacre.native.cpython import PyObject
from nacre.native.python.types import offset_of, size_of
from nacre.native.records import pack
from nacre.runtime.layouts import BufferObject, Descriptor, Stopped
from nacre.trace.value import Value


@pytest.fixture
def machine() -> Generator[Machine]:
    made = Machine()
    yield made
    assert not made.faults


class Program:
    """A program of some inputs, outputs (their donors, or -1) and workspace, and what a call of it needs."""

    def __init__(self, m: Machine, inputs: int, donors: list[int], nbytes: int = 0, packs: bool = False, **fields: Any):
        self.m, self.inputs, self.donors = m, inputs, donors
        self.type, self.fallback = m.object(PyObject), m.object(PyObject)
        self.descriptor, self.active = m.descriptor(nbytes), m.words(0)
        self.table = m.memory(
            pack(PackedTable, nbytes=128, source_count=1, value_count=2), pack(PackedSource), m.words(0, 24).tobytes()
        )
        head = {
            "descriptor": self.descriptor,
            "fallback": self.fallback,
            "tensor_class": m.tensor_class,
            "buffer_class": m.buffer_class,
            "active": self.active.ctypes.data,
            "packed": self.table if packs else 0,
        }
        self.operand = size_of(ProgramRecord)
        self.record = m.memory(
            pack(ProgramRecord, inputs=inputs, outputs=len(donors), **{**head, **fields}),
            *[pack(OperandType, type=self.type)] * inputs,
            *(pack(ResultType, type=self.type, nbytes=8 + k, donor=d) for k, d in enumerate(donors)),
        )
        self.tensors = [m.tensor(value_type=self.type) for _ in range(inputs)]
        self.buffers = [m.get(x, TensorObject, "content") for x in self.tensors]
        self.data = [m.get(x, BufferObject, "data") for x in self.buffers]
        room = inputs + len(donors) + 2
        self.read, self.bases = m.words(*self.buffers, 0), m.words(*self.data, *[9] * (room - inputs))
        self.made = m.words(*[0] * room)

    def perform(self) -> bool:
        read, bases, made = (x.ctypes.data for x in (self.read, self.bases, self.made))
        return self.m.perform_program(self.record, read, bases, made)

    def call(self, *args: int) -> Any:
        given = self.m.words(*(args or self.tensors))
        return self.m.entry(self.record, given.ctypes.data, len(given))


# ---- packed inputs


def test_alike_compares_and_notes_serials_and_addresses(machine: Machine) -> None:
    p = Program(machine, 2, [])
    args = p.table, p.read.ctypes.data, p.bases.ctypes.data
    source = p.table + offset_of(PackedTable, "sources")
    machine.put(source, PackedSource, "operand", 1)
    for serial, alike in ((0, False), (0, False), (4, False), (4, True), (5, False), (5, True)):
        machine.put(p.buffers[1], BufferObject, "serial", serial)
        assert machine.alike(*args) is alike
        assert machine.get(source, PackedSource, "serial") == serial
        assert machine.get(source, PackedSource, "address") == p.data[1]
    p.bases[1] += 8
    assert [machine.alike(*args), machine.alike(*args)] == [False, True]


def test_declare_writes_the_first_word_of_each_value(machine: Machine) -> None:
    p, block = Program(machine, 1, []), machine.buffer()
    machine.declare(p.table, block, 7)
    data = machine.get(block, BufferObject, "data")
    assert list((ctypes.c_int64 * 8).from_address(data)) == [7, 1, 2, 7, 4, 5, 6, 7]


def test_packed_inputs_are_kept_from_the_second_call_on(machine: Machine) -> None:
    p = Program(machine, 1, [])
    args = p.table, p.read.ctypes.data, p.bases.ctypes.data
    machine.put(p.buffers[0], BufferObject, "serial", 3)
    assert machine.packed(*args) is None and machine.log == []
    block = machine.packed(*args)
    assert machine.log == [("new", 128)] and machine.counts[block] == 1
    machine.keep(*args, block, True)
    assert machine.get(p.table, PackedTable, "block") == block and machine.counts[block] == 1
    assert machine.packed(*args) == block and machine.counts[block] == 2
    machine.keep(*args, block, True)
    assert machine.counts[block] == 1
    machine.put(p.buffers[0], BufferObject, "serial", 4)
    assert machine.packed(*args) is None and machine.freed == [block]
    assert machine.get(p.table, PackedTable, "block") == 0


def test_packing_without_memory_does_without(machine: Machine) -> None:
    p = Program(machine, 1, [])
    args = p.table, p.read.ctypes.data, p.bases.ctypes.data
    machine.put(p.buffers[0], BufferObject, "serial", 3)
    machine.packed(*args)
    machine.room = 0
    assert machine.packed(*args) is None and machine.log == ["clear"]


@pytest.mark.parametrize("reason", ["interrupted", "other inputs", "another block"])
def test_blocks_that_are_not_kept_are_released(machine: Machine, reason: str) -> None:
    p, block, other = Program(machine, 1, []), machine.buffer(), machine.buffer()
    args = p.table, p.read.ctypes.data, p.bases.ctypes.data
    if reason != "other inputs":
        machine.put(p.buffers[0], BufferObject, "serial", 3)
        machine.alike(*args)
    if reason == "another block":
        machine.put(p.table, PackedTable, "block", other)
    machine.keep(*args, block, reason != "interrupted")
    assert machine.freed == [block]
    machine.keep(*args, 0, True)
    assert machine.freed == [block]


def test_forget(machine: Machine) -> None:
    p, block = Program(machine, 1, []), machine.buffer()
    machine.forget(p.table)
    machine.put(p.table, PackedTable, "block", block)
    machine.forget(p.table)
    assert machine.freed == [block] and machine.get(p.table, PackedTable, "block") == 0


# ---- parts of a call


def test_hold_and_undo(machine: Machine) -> None:
    objects = [machine.object(PyObject) for _ in range(3)]
    place = machine.words(*objects).ctypes.data
    machine.hold(place, 2, True)
    assert [machine.counts[x] for x in objects] == [2, 2, 1]
    machine.hold(place, 2, False)
    machine.undo(place, 0)
    assert [machine.counts[x] for x in objects] == [1, 1, 1]
    machine.undo(place, 2)
    assert machine.freed == [objects[1], objects[0]]


def test_a_tensor_takes_its_buffer_over(machine: Machine) -> None:
    kind, buffer = machine.object(PyObject), machine.buffer()
    before = machine.counts[machine.none]
    made = machine.new_tensor(machine.tensor_class, kind, buffer)
    values = {"type": machine.tensor_class, "content": buffer, "layout": machine.none, "node": machine.none}
    assert all(machine.get(made, TensorObject, name) == x for name, x in values.items())
    assert machine.get(made, TensorObject, "value_type") == kind
    assert (machine.counts[machine.none], machine.counts[kind], machine.counts[buffer]) == (before + 2, 2, 1)
    machine.Py_DecRef(made)
    assert (machine.counts[machine.none], machine.counts[kind], machine.counts[buffer]) == (before, 1, 0)
    machine.room = 0
    buffer = machine.buffer()
    assert machine.new_tensor(machine.tensor_class, kind, buffer) is None
    assert machine.counts[buffer] == 0 and machine.counts[kind] == 1
    assert machine.new_tensor(machine.tensor_class, kind, 0) is None


@pytest.mark.parametrize(
    ("now", "asks"), [((7, 100), False), ((7, 100_000_100), False), ((7, 100_000_101), True), ((8, 0), True)]
)
def test_signals_are_handled_every_tenth_of_a_second(machine: Machine, now: tuple[int, int], asks: bool) -> None:
    clock = machine.memory(pack(InterruptClock, seconds=7, nanoseconds=100, thread=77))
    machine.now = now
    assert machine.interrupted(clock) == 0
    assert machine.log == (["restore", "signals", "save"] if asks else [])
    found = [machine.get(clock, InterruptClock, name) for name in ("seconds", "nanoseconds")]
    assert found == (list(now) if asks else [7, 100])
    machine.raises, machine.now = -1, (9, 0)
    assert machine.interrupted(clock) == 1


def test_weak_references_are_found(machine: Machine) -> None:
    class Plain(Value):
        __slots__ = ()

    made = Plain()
    assert not machine.has_weak_references(id(made))
    reference = weakref.ref(made)
    assert machine.has_weak_references(id(made)) and reference() is made


# ---- running a program


def test_outputs_have_new_buffers_or_those_of_donors(machine: Machine) -> None:
    p = Program(machine, 2, [-1, 1])
    assert p.perform()
    new, old = p.made.tolist()[:2]
    assert old == p.buffers[1] and machine.counts[old] == 2 and machine.counts[new] == 1
    assert p.bases.tolist() == [*p.data, machine.get(new, BufferObject, "data"), p.data[1], 9, 0]
    assert [x[:2] for x in machine.log] == [("new", 8), ("renew", old), ("run", p.descriptor)]


def test_packed_inputs_are_passed_behind_the_outputs(machine: Machine) -> None:
    p = Program(machine, 1, [], packs=True)
    machine.put(p.buffers[0], BufferObject, "serial", 3)
    assert p.perform() and p.bases[-1] == 0
    assert p.perform()
    block = machine.get(p.table, PackedTable, "block")
    assert p.bases[-1] == machine.get(block, BufferObject, "data") and machine.counts[block] == 1


@pytest.mark.parametrize("nbytes", [8192, 8193])
def test_a_small_workspace_is_on_the_stack(machine: Machine, nbytes: int) -> None:
    p = Program(machine, 1, [], nbytes)
    assert p.perform()
    names = [x[0] for x in machine.log]
    assert names == (["run"] if nbytes == 8192 else ["new", "run"])
    assert machine.log[-1][2] % 64 == 0 or nbytes > 8192
    assert set(machine.living()) >= {*p.buffers} and len(machine.freed) == len(names) - 1


@pytest.mark.parametrize("interruptible", [False, True])
def test_long_programs_run_without_the_lock(machine: Machine, interruptible: bool) -> None:
    p = Program(machine, 2, [-1], releases=1, interruptible=int(interruptible))
    assert p.perform()
    names = [x if isinstance(x, str) else x[0] for x in machine.log]
    assert names == ["new", "new", "save", "run_unless", "restore"]
    assert machine.log[3][1] == p.descriptor and machine.log[3][3:] == (interruptible, 77)
    assert [machine.counts[x] for x in p.buffers] == [1, 1] and len(machine.freed) == 1


@pytest.mark.parametrize("releases", [0, 1])
@pytest.mark.parametrize("nbytes", [64, 1 << 20])
def test_a_failed_check_raises_its_error_and_leaves_nothing(machine: Machine, nbytes: int, releases: int) -> None:
    p = Program(machine, 2, [0, -1], nbytes, packs=True, releases=releases, failure=55)
    machine.put(p.descriptor, Descriptor, "scratch_offset", 24)
    machine.put(p.buffers[0], BufferObject, "serial", 3)
    p.m.alike(p.table, p.read.ctypes.data, p.bases.ctypes.data)
    before = machine.living()
    machine.stops = Stopped.FAILED
    assert not p.perform()
    workspace = next(x[2] for x in machine.log if x[0] in ("run", "run_unless"))
    assert [x for x in machine.log if x[0] == "failure"] == [("failure", 55, workspace + 24)]
    assert machine.living() == before and machine.get(p.table, PackedTable, "block") == 0


def test_an_interrupted_program_leaves_nothing(machine: Machine) -> None:
    p = Program(machine, 2, [0, -1], packs=True, releases=1, interruptible=1)
    machine.put(p.buffers[0], BufferObject, "serial", 3)
    p.m.alike(p.table, p.read.ctypes.data, p.bases.ctypes.data)
    before = machine.living()
    machine.stops = 1
    assert not p.perform()
    assert machine.living() == before and machine.get(p.table, PackedTable, "block") == 0


@pytest.mark.parametrize("releases", [0, 1])
def test_running_without_memory_leaves_nothing(machine: Machine, releases: int) -> None:
    p = Program(machine, 1, [-1, 0, -1], 1 << 20, packs=True, releases=releases)
    machine.put(p.buffers[0], BufferObject, "serial", 3)
    p.m.alike(p.table, p.read.ctypes.data, p.bases.ctypes.data)
    before = machine.living()
    for room in (0, 1, 3):  # the first output, the last one, the arena
        machine.room = room
        assert not p.perform()
        assert machine.living() == before
    machine.room = 2  # the packed copies: the program does without, but then there is no arena
    assert not p.perform()
    machine.room = 4
    assert p.perform()


# ---- the entry


def test_one_result_and_several(machine: Machine) -> None:
    p = Program(machine, 2, [-1])
    made = p.call()
    assert machine.get(made, TensorObject, "value_type") == p.type and machine.counts[made] == 1
    q = Program(machine, 2, [-1, 0])
    both = q.call()
    assert [machine.get(x, TensorObject, "type") for x in machine.tuples[both]] == [machine.tensor_class] * 2
    assert machine.get(machine.tuples[both][1], TensorObject, "content") == q.buffers[0]
    assert (
        machine.tuples[Program(machine, 0, []).call(0)] if False else Program(machine, 1, []).call() in machine.tuples
    )


def refused_by(p: Program, change: str) -> Any:
    """A call that differs from the usual one."""
    m, x = p.m, p.tensors[1]
    if change == "count":
        return p.call(p.tensors[0])
    if change == "active":
        p.active[0] = 1
    elif change in ("type", "value_type"):
        m.put(x, TensorObject, change, m.object(PyObject))
    elif change == "content":
        m.put(x, TensorObject, "content", m.object(BufferObject, type=m.tensor_class))
    elif change in ("layout", "node"):
        m.put(x, TensorObject, change, m.object(NodeObject, level=m.zero))
    elif change == "level":
        m.put(x, TensorObject, "node", m.object(NodeObject, level=m.object(PyObject)))
    return p.call()


@pytest.mark.parametrize("change", ["count", "active", "type", "value_type", "content", "layout", "node"])
def test_unusual_calls_go_to_the_fallback(machine: Machine, change: str) -> None:
    p = Program(machine, 2, [-1], nodes=REFUSED)
    machine.answer = 1234
    assert refused_by(p, change) == 1234
    ((name, function, _, count),) = machine.log
    assert (name, function, count) == ("fallback", p.fallback, 1 if change == "count" else 2)


@pytest.mark.parametrize("change", ["active", "node"])
def test_nodes_may_be_ignored(machine: Machine, change: str) -> None:
    p = Program(machine, 2, [-1], nodes=IGNORED)
    made = refused_by(p, change)
    assert machine.get(made, TensorObject, "node") == machine.none


def test_views_begin_at_their_offset(machine: Machine) -> None:
    p = Program(machine, 2, [-1])
    for k in range(2):
        machine.put(p.record + size_of(ProgramRecord) + k * size_of(OperandType), OperandType, "element", 4)
    offset = machine.object(NumberObject, number=3)
    machine.put(p.tensors[1], TensorObject, "layout", machine.object(LayoutObject, offset=offset))
    firsts: list[int] = []
    machine.run = lambda descriptor, bases, workspace: firsts.extend((ctypes.c_int64 * 2).from_address(bases)) or 0
    assert p.call() and firsts == [p.data[0], p.data[1] + 12]


@pytest.mark.parametrize("donors", [[-1], [-1, 0, -1]])
def test_entries_without_memory_leave_nothing(machine: Machine, donors: list[int]) -> None:
    p = Program(machine, 1, donors, 1 << 20)
    before = machine.living()
    rooms = 3 if len(donors) == 1 else 7  # buffers, the arena, perhaps a tuple, tensors
    for room in range(rooms):
        machine.room = room
        assert p.call() is None
        assert machine.living() == before, room
    machine.room = rooms
    assert p.call()


# ---- recording


class Recorded(Program):
    """A program that records by a rule for its first operand, which saves that operand and perhaps the result."""

    def __init__(self, m: Machine, keeps: bool) -> None:
        self.rule = m.object(PyObject)
        places = m.words(0, 0, *([2] if keeps else []))
        self.node_rule = m.memory(
            pack(NodeRule, rule=self.rule, parent_count=1, saved_count=len(places) - 1, keeps_result=int(keeps)),
            places.tobytes(),
        )
        self.rules = m.words(0, self.node_rule, 0, 0)
        super().__init__(m, 2, [-1], nodes=self.rules.ctypes.data)
        self.node = m.object(NodeObject, level=m.zero)
        m.counts[m.zero] += 1
        m.put(self.tensors[0], TensorObject, "node", self.node)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_result_has_a_node(machine: Machine, keeps: bool) -> None:
    p = Recorded(machine, keeps)
    before = machine.living()
    made = p.call()
    node = machine.get(made, TensorObject, "node")
    fields = {name: machine.get(node, NodeObject, name) for name in ("level", "rule", "parents", "saved")}
    assert (fields["level"], fields["rule"]) == (machine.zero, p.rule)
    assert machine.tuples[fields["parents"]] == [p.node]
    saved = machine.tuples[fields["saved"]]
    assert saved[0] == p.tensors[0] and len(saved) == 1 + keeps
    if keeps:
        assert machine.get(saved[1], TensorObject, "node") == machine.none
        assert machine.get(saved[1], TensorObject, "content") == machine.get(made, TensorObject, "content")
    machine.Py_DecRef(made)
    assert machine.living() == before


@pytest.mark.parametrize("keeps", [False, True])
def test_recording_without_memory_leaves_nothing(machine: Machine, keeps: bool) -> None:
    p = Recorded(machine, keeps)
    before = machine.living()
    rooms = 6 + keeps  # buffer, tensor, node, number, two tuples, and perhaps a second tensor
    for room in range(rooms):
        machine.room = room
        assert p.call() is None
        assert machine.living() == before, room
    machine.room = rooms
    assert p.call()


def test_threads_that_do_not_record(machine: Machine) -> None:
    p = Recorded(machine, False)
    for count, thread, found in ((0, 0, 1), (1, 4, 1), (1, 5, 0), (2, 5, 2)):
        machine.put(machine.silent, SilentThreads, "count", count)
        machine.put(machine.silent, SilentThreads, "thread", thread)
        assert machine.records() == found
        machine.log.clear()
        made = p.call()
        assert (made is None) == (found == 2) and (("fallback" in [x[0] for x in machine.log]) == (found == 2))
        if made:
            assert (machine.get(made, TensorObject, "node") == machine.none) == (found == 0)


def test_unknown_sets_and_other_levels_go_to_the_fallback(machine: Machine) -> None:
    p = Recorded(machine, False)
    assert refused_by(p, "node") is None and machine.log[-1][0] == "fallback"
    p = Recorded(machine, False)
    assert refused_by(p, "level") is None and machine.log[-1][0] == "fallback"


def test_a_rule_without_a_node(machine: Machine) -> None:
    p = Recorded(machine, False)
    machine.put(p.node_rule, NodeRule, "rule", 0)
    assert machine.get(p.call(), TensorObject, "node") == machine.none


# ---- views


class View:
    """An operation that is a view."""

    def __init__(self, m: Machine, **fields: Any) -> None:
        self.m, self.type, self.other, self.layout = m, m.object(PyObject), m.object(PyObject), m.object(LayoutObject)
        self.active, self.fallback = m.words(0), m.object(PyObject)
        head = {
            "operand_type": self.type,
            "result_type": self.other,
            "result_layout": self.layout,
            "fallback": self.fallback,
            "tensor_class": m.tensor_class,
            "buffer_class": m.buffer_class,
            "active": self.active.ctypes.data,
            **fields,
        }
        self.record = m.memory(pack(ViewRecord, **head))
        self.tensor = m.tensor(value_type=self.type)

    def call(self, *args: int) -> Any:
        given = self.m.words(*(args or [self.tensor]))
        return self.m.view(self.record, given.ctypes.data, len(given))


def test_a_view_shares_the_buffer(machine: Machine) -> None:
    v = View(machine)
    before = machine.living()
    made = v.call()
    fields = [machine.get(made, TensorObject, name) for name in ("value_type", "layout", "node", "content")]
    assert fields == [v.other, v.layout, machine.none, machine.get(v.tensor, TensorObject, "content")]
    machine.Py_DecRef(made)
    assert machine.living() == before
    machine.room = 0
    assert v.call() is None and machine.living() == before


@pytest.mark.parametrize("change", ["count", "active", "type", "value_type", "content", "layout", "node"])
def test_unusual_views_go_to_the_fallback(machine: Machine, change: str) -> None:
    v = View(machine, nodes=REFUSED)
    machine.answer = 99
    if change == "active":
        v.active[0] = 1
    elif change != "count":
        made = machine.object(BufferObject if change == "content" else NodeObject)
        machine.put(v.tensor, TensorObject, change, made)
    assert v.call(*([v.tensor] * 2 if change == "count" else [])) == 99
    assert machine.log[0][:2] == ("fallback", v.fallback)


def test_a_view_is_recorded(machine: Machine) -> None:
    rule = machine.object(PyObject)
    node_rule = machine.memory(pack(NodeRule, rule=rule, parent_count=1), machine.words(0).tobytes())
    v = View(machine, nodes=machine.words(0, node_rule).ctypes.data)
    node = machine.object(NodeObject, level=machine.zero)
    machine.counts[machine.zero] += 1
    machine.put(v.tensor, TensorObject, "node", node)
    before = machine.living()
    made = v.call()
    own = machine.get(made, TensorObject, "node")
    assert machine.get(own, NodeObject, "rule") == rule
    assert machine.tuples[machine.get(own, NodeObject, "parents")] == [node]
    machine.Py_DecRef(made)
    for room in range(5):
        machine.room = room
        assert v.call() is None and machine.living() == before
