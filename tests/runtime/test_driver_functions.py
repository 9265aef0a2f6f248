"""Each function of the driver alone: compiled, and called with tables that are made here."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from nacre.native.python.types import fields_of, offset_of, size_of
from nacre.runtime.driver import Context
from nacre.runtime.layouts import Descriptor, Fixup, Move, PlanRow, RowKind, Stamp
from nacre.runtime.tables import row_type, table
from runtime.driver_calls import HandMadeCall, Recorder, SerialPool, loaded, moves_of, plan_row


@pytest.fixture(scope="module")
def native() -> Any:
    """The functions, with a pool of one thread."""
    return loaded(SerialPool())


def pair() -> Any:
    """Memory for two results."""
    return (ctypes.c_int64 * 2)()


def test_layouts() -> None:
    assert size_of(PlanRow) == size_of(Context) == 64 and size_of(Move) == size_of(Fixup) == size_of(Stamp) == 24
    for owner in (PlanRow, Descriptor, Move, Fixup, Stamp, Context):
        kind = row_type(owner)
        assert kind.itemsize == size_of(owner) and kind.names == fields_of(owner)
        assert all(kind.fields and kind.fields[name][1] == offset_of(owner, name) for name in fields_of(owner))


def test_tables_are_read_back() -> None:
    rows = table(PlanRow, [plan_row(extent=-3, idle=True), plan_row(kernel=1 << 47, kind=RowKind.JUMP)])
    assert rows["extent"].tolist() == [-3, 0] and rows["idle"].tolist() == [True, False]
    assert rows["kernel"].tolist() == [0, 1 << 47] and rows["kind"].tolist() == [RowKind.LAUNCH, RowKind.JUMP]
    assert moves_of((1, 2, -3))["distances"].tolist() == [[2, -3]] and len(table(Move, [])) == 0


def test_iterations_run_with_the_scratch_of_their_thread(native: Any) -> None:
    kernel = Recorder()
    call = HandMadeCall([plan_row(), plan_row(kernel=kernel.address, first_argument=2)], [5, 6, 7, 8], team=3)
    native.run_iterations(call.place, 1, 10, 20, 0)
    native.run_iterations(call.place, 1, 20, 23, 2)
    assert kernel.calls == [((7, 8), 10, 20, call.scratch), ((7, 8), 20, 23, call.scratch + 128)]


@pytest.mark.parametrize("extent, idle, second, found", [
    (5, False, 1, 5), (5, False, 2, 5), (5, True, 1, 0), (5, True, 2, 5), (0, False, 2, 0), (-4, False, 2, 0),
    (-4, True, 1, 0),
])  # fmt: skip
def test_extents(native: Any, extent: int, idle: bool, second: int, found: int) -> None:
    call = HandMadeCall([plan_row(extent=extent, idle=idle, first_argument=1)], [0, 1, second])
    assert native.extent_of(call.place, call.row(0)) == found


def test_the_answer_to_the_question_is_kept(native: Any) -> None:
    answers = [0, 5, 0]
    call = HandMadeCall([], [], check=lambda _: answers.pop(0))
    found = [(native.must_stop(call.place), int(call.context["stopped"])) for _ in range(3)]
    assert found == [(False, 0), (True, 5), (False, 0)] and call.asked == [77, 77, 77]


def test_an_epoch_ends_at_a_barrier_at_control_flow_and_at_the_end(native: Any) -> None:
    def launch(extent: int, grain: int, barrier: bool = False) -> PlanRow:
        return plan_row(kernel=1, extent=extent, grain=grain, barrier=barrier)

    rows = [launch(10, 4, True), launch(0, 4), launch(-1, 0), launch(3, 0), launch(8, 4, True), plan_row(kind=1),
            launch(1, 100), launch(101, 100)]  # fmt: skip
    call, found = HandMadeCall(rows, [0, 0]), pair()
    told: list[tuple[int, int, int]] = []
    for first in (0, 1, 4, 6):
        native.count_chunks(call.place, call.row(0), len(rows), first, ctypes.addressof(found))
        told.append((int(call.context["first_row"]), *found))
    assert told == [(0, 4, 6), (1, 4, 3), (4, 5, 2), (6, 8, 3)]
    assert call.ends.tolist() == [3, 0, 0, 3, 2, 0, 1, 3]


@pytest.mark.parametrize("trips", [0, 1, 2, 5, 6])
def test_addresses_move_with_each_iteration_and_back(native: Any, trips: int) -> None:
    moves = moves_of((1, 100, 100), (3, 64, -64), (2, -8, 1 << 40))
    before = [7, 1000, 5, 2000]
    call = HandMadeCall([plan_row(moves=moves.ctypes.data, move_count=3)], before)
    for k in range(trips):
        native.move_addresses(call.arguments.ctypes.data, call.row(0), k & 1)
    even, odd = (trips + 1) // 2, trips // 2
    expected = [7, 1000 + 100 * trips, 5 - 8 * even + (1 << 40) * odd, 2000 + 64 * (even - odd)]
    assert call.arguments.tolist() == expected
    native.restore_addresses(call.arguments.ctypes.data, call.row(0), trips)
    assert call.arguments.tolist() == before


def test_without_moves_nothing_changes(native: Any) -> None:
    call = HandMadeCall([plan_row()], [1, 2])
    native.move_addresses(call.arguments.ctypes.data, call.row(0), 1)
    native.restore_addresses(call.arguments.ctypes.data, call.row(0), 9)
    assert call.arguments.tolist() == [1, 2]


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("fields, word, to, together, after", [
    (dict(kind=RowKind.ENTER, extent=3), 9, "next", lambda m, s: m, 0),
    (dict(kind=RowKind.ENTER, extent=0), 9, "target", lambda m, s: m, 0),
    (dict(kind=RowKind.ENTER, extent=3, alone=True), 9, "next", lambda m, s: False, 0),
    (dict(kind=RowKind.TURN, extent=3), 0, "target", lambda m, s: m, 1),
    (dict(kind=RowKind.TURN, extent=3), 1, "target", lambda m, s: m, 2),
    (dict(kind=RowKind.TURN, extent=3), 2, "next", lambda m, s: m, 3),
    (dict(kind=RowKind.LEAVE), 3, "next", lambda m, s: m, 3),
    (dict(kind=RowKind.LEAVE, alone=True), 3, "next", lambda m, s: m or s, 3),
    (dict(kind=RowKind.JUMP), 3, "target", lambda m, s: m, 3),
])  # fmt: skip
def test_control_flow(
    native: Any, fields: Any, word: int, to: str, together: Any, after: int, many: bool, several: bool
) -> None:
    call, found = HandMadeCall([plan_row(first_argument=1, target=40, **fields)], [0, word]), pair()
    native.control_flow(call.place, call.row(0), 11, many, several, ctypes.addressof(found))
    assert list(found) == [{"next": 11, "target": 40}[to], together(many, several)]
    assert call.arguments.tolist() == [0, after]


@pytest.mark.parametrize("value, to", [(0, 40), (1, 11), (255, 11)])
def test_a_branch_reads_one_byte(native: Any, value: int, to: int) -> None:
    cell, found = np.array([value, 3], np.uint8), pair()
    row = plan_row(kind=RowKind.BRANCH, first_argument=1, target=40)
    call = HandMadeCall([row], [0, cell.ctypes.data])
    native.control_flow(call.place, call.row(0), 11, True, True, ctypes.addressof(found))
    assert list(found) == [to, 1]


def test_the_moves_of_a_turn_are_those_of_its_iteration(native: Any) -> None:
    moves, found = moves_of((0, 3, 50)), pair()
    loop = dict(moves=moves.ctypes.data, move_count=1, first_argument=1, extent=9)
    call = HandMadeCall([plan_row(kind=RowKind.TURN, **loop), plan_row(kind=RowKind.LEAVE, **loop)], [100, 0])
    seen: list[int] = []
    for _ in range(3):
        native.control_flow(call.place, call.row(0), 1, False, False, ctypes.addressof(found))
        seen.append(int(call.arguments[0]))
    assert seen == [103, 153, 156]
    native.control_flow(call.place, call.row(1), 2, False, False, ctypes.addressof(found))
    assert call.arguments.tolist() == [100, 3]


def test_arguments_are_copied_and_their_addresses_computed(native: Any) -> None:
    fixups = [Fixup(argument=a, base=b, offset=o) for a, b, o in ((1, 0, 16), (2, 2, 48), (3, 3, 8), (5, 1, -8))]
    call = HandMadeCall([], [10, 0, 0, 0, 20, 0], fixups)
    bases = np.array([1000, 2000, 0, 0], np.int64)  # 2 is the arena, and 3 is absent
    call.arguments[:] = -1
    workspace = call.workspace.ctypes.data
    native.write_arguments(call.descriptor.ctypes.data, call.arguments.ctypes.data, bases.ctypes.data, workspace)
    assert call.arguments.tolist() == [10, 1016, workspace + 48, 0, 20, 1992]


def test_a_chunk_finds_its_row_and_iterations(native: Any) -> None:
    taken: list[tuple[int, ...]] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    note = kind(lambda context, *rest: taken.append(rest))
    extents = [(99, 1), (10, 4), (0, 4), (3, 1), (5, 100)]
    call = HandMadeCall([plan_row(kernel=1, extent=e, grain=g) for e, g in extents], [0, 0])
    call.context["first_row"] = 1
    call.ends[1:] = [3, 3, 6, 7]
    for chunk in range(7):
        native.take_chunk(call.place, chunk, chunk % 3, ctypes.cast(note, ctypes.c_void_p))
    assert taken == [
        (1, 0, 4, 0), (1, 4, 8, 1), (1, 8, 10, 2), (3, 0, 1, 0), (3, 1, 2, 1), (3, 2, 3, 2), (4, 0, 5, 0)
    ]  # fmt: skip


def test_only_the_caller_asks_before_a_chunk_and_a_stopped_epoch_has_no_work(native: Any) -> None:
    kernel, answers = Recorder(), [0, 3]
    row = plan_row(kernel=kernel.address, extent=9, grain=1)
    call = HandMadeCall([row], [4, 5], check=lambda _: answers.pop(0))
    call.ends[0] = 9
    step = ctypes.cast(native.run_iterations, ctypes.c_void_p)
    for chunk, thread in ((0, 1), (1, 0), (2, 0), (3, 0), (4, 1)):
        native.take_chunk(call.place, chunk, thread, step)
    assert [low for _, low, _, _ in kernel.calls] == [0, 1] and len(call.asked) == 2
    assert call.context["stopped"] == 3
