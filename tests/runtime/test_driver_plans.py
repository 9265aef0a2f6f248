"""The driver over plans that are made here: loops, branches, barriers and stops, on one to four threads."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nacre.base.records import dataclass
from nacre.native.pool import pool
from nacre.runtime.executable import pool_functions
from nacre.runtime.layouts import PlanRow, RowKind, Stamp
from nacre.runtime.tables import address, zeros
from runtime.driver_calls import KERNEL, SCRATCH, HandMadeCall, Recorder, SerialPool, loaded, moves_of, plan_row


@dataclass(frozen=True)
class Launch:
    """A launch, perhaps behind a barrier; an idle one has no work."""

    extent: int
    grain: int = 1
    barrier: bool = False
    idle: bool = False


@dataclass(frozen=True)
class Loop:
    """A loop, which moves an argument of its launches."""

    trips: int
    body: tuple[Any, ...]
    alone: bool = False
    even: int = 8
    odd: int = 8


@dataclass(frozen=True)
class Branch:
    """Two sides, of which one runs."""

    holds: bool
    then: tuple[Any, ...]
    orelse: tuple[Any, ...]


class Program:
    """A tree of nodes as tables, and the epochs that it should run."""

    def __init__(self, nodes: Sequence[Any], words: int = 3) -> None:
        self.kernel = Recorder(words)
        self.rows: list[PlanRow] = []
        self.arguments: list[int] = []
        self.cells = np.array([0, 1], np.uint8)
        self.held: list[np.ndarray] = [self.cells]
        self.write(nodes)

    def write(self, nodes: Sequence[Any]) -> list[int]:
        """Append the rows of nodes; the places of the arguments that loops around them move."""
        moved: list[int] = []
        for node in nodes:
            place = len(self.arguments)
            if isinstance(node, Launch):
                self.arguments += [place, 1 if node.idle else 0, 0]
                if node.idle:
                    self.arguments[place + 1] = place
                moved += [] if node.idle else [place + 2]
                self.rows.append(plan_row(kernel=self.kernel.address, first_argument=place, extent=node.extent,
                                          grain=node.grain, barrier=node.barrier, idle=node.idle))  # fmt: skip
            elif isinstance(node, Loop):
                moved += self.write_loop(node, place)
            else:
                moved += self.write_branch(node, place)
        return moved

    def write_loop(self, loop: Loop, place: int) -> list[int]:
        """Append the rows of a loop."""
        self.arguments.append(-1)
        enter = plan_row(kind=RowKind.ENTER, first_argument=place, extent=loop.trips, alone=loop.alone)
        self.rows.append(enter)
        top = len(self.rows)
        moved = self.write(loop.body)
        moves = moves_of(*((at, loop.even, loop.odd) for at in moved))
        self.held.append(moves)
        about: dict[str, Any] = dict(first_argument=place, moves=address(moves), move_count=len(moves))
        self.rows.append(plan_row(kind=RowKind.TURN, extent=loop.trips, target=top, **about))
        enter.target = len(self.rows)
        self.rows.append(plan_row(kind=RowKind.LEAVE, alone=loop.alone, **about))
        return moved

    def write_branch(self, branch: Branch, place: int) -> list[int]:
        """Append the rows of a branch."""
        self.arguments.append(self.cells[int(branch.holds) :].ctypes.data)
        first = plan_row(kind=RowKind.BRANCH, first_argument=place)
        self.rows.append(first)
        moved = self.write(branch.then)
        jump = plan_row(kind=RowKind.JUMP)
        self.rows.append(jump)
        first.target = len(self.rows)
        moved += self.write(branch.orelse)
        jump.target = len(self.rows)
        return moved

    def found(self) -> list[tuple[int, int, int]]:
        """The iterations that ran, in order: the launch, its moved argument, and the number."""
        return [(words[0], words[2], k) for words, low, high, _ in self.kernel.calls for k in range(low, high)]


def expected(nodes: Sequence[Any], place: int = 0, shift: int = 0) -> Iterator[list[tuple[int, int, int]] | None]:
    """The launches in the order of the tree, each as the list of its iterations, and None for each barrier."""
    for node in nodes:
        if isinstance(node, Launch):
            if node.barrier:
                yield None
            yield [] if node.idle else [(place, shift, k) for k in range(node.extent)]
        elif isinstance(node, Loop):
            yield None
            for trip in range(node.trips):
                moved = shift + (trip + 1) // 2 * node.even + trip // 2 * node.odd
                yield from expected(node.body, place + 1, moved)
                yield None
        else:
            yield None
            side, at = (node.then, 0) if node.holds else (node.orelse, sum(map(words_of, node.then)))
            yield from expected(side, place + 1 + at, shift)
            if node.holds:  # behind the other side there is no jump
                yield None
        place += words_of(node)


def words_of(node: Any) -> int:
    """The number of argument words of a node."""
    if isinstance(node, Launch):
        return 3
    inner = node.body if isinstance(node, Loop) else (*node.then, *node.orelse)
    return 1 + sum(map(words_of, inner))


def check_order(program: Program, nodes: Sequence[Any]) -> None:
    """Whether each iteration ran once, and those of each epoch before those of the next one."""
    found, at = program.found(), 0
    epoch: list[tuple[int, int, int]] = []
    for part in (*expected(nodes), None):
        if part is not None:
            epoch += part
            continue
        assert sorted(found[at : at + len(epoch)]) == sorted(epoch)
        at, epoch = at + len(epoch), []
    assert at == len(found)


@pytest.fixture(scope="module", params=[1, 2, 3, 4])
def serial(request: pytest.FixtureRequest) -> Any:
    """The driver with a pool that takes chunks in any order."""
    return loaded(SerialPool(request.param))


NODES = st.recursive(
    st.builds(Launch, st.integers(-1, 9), st.integers(1, 4), st.booleans(), st.booleans()),
    lambda inner: st.one_of(
        st.builds(
            Loop,
            st.integers(0, 5),
            st.lists(inner, max_size=3).map(tuple),
            st.booleans(),
            st.integers(-9, 9),
            st.integers(-9, 9),
        ),
        st.builds(Branch, st.booleans(), *[st.lists(inner, max_size=3).map(tuple)] * 2),
    ),
    max_leaves=8,
)


@given(nodes=st.lists(NODES, max_size=5), team=st.integers(1, 4))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_plans_of_any_shape(serial: Any, nodes: list[Any], team: int) -> None:
    program = Program(nodes)
    call = HandMadeCall(program.rows, program.arguments, team=team)
    for _ in range(2):  # a call changes none of the plan's tables
        program.kernel.calls.clear()
        assert call.run(serial) == 0 and not serial.pool.inside
        check_order(program, nodes)
    threads = {(scratch - call.scratch) // SCRATCH for *_, scratch in program.kernel.calls}
    assert threads <= set(range(min(team, serial.pool.threads)))


@pytest.mark.parametrize("trips", [0, 1, 4, 5])
@pytest.mark.parametrize("alone", [False, True])
def test_a_loop_is_divided_unless_the_caller_runs_it_alone(serial: Any, trips: int, alone: bool) -> None:
    nodes = [Launch(4), Loop(trips, (Launch(6, 2), Loop(2, (Launch(3),), odd=-8)), alone), Launch(5, barrier=True)]
    program = Program(nodes)
    call = HandMadeCall(program.rows, program.arguments, team=4)
    serial.pool.shared.clear()
    call.run(serial)
    check_order(program, nodes)
    inside = [] if alone else [3, 3, 3] * trips
    assert serial.pool.shared == ([4, *inside, 5] if serial.pool.threads > 1 else [])
    whole = Counter((words[0], high - low) for words, low, high, _ in program.kernel.calls)
    if alone or serial.pool.threads == 1:
        assert whole[4, 6] == trips and whole[8, 3] == 2 * trips


def test_arguments_are_those_of_before_after_a_loop(serial: Any) -> None:
    nodes = [Loop(5, (Launch(1), Loop(3, (Launch(2),), even=1, odd=100)), even=7, odd=-3)]
    program = Program(nodes)
    call = HandMadeCall(program.rows, program.arguments)
    call.run(serial)
    counts = [place for place, word in enumerate(program.arguments) if word == -1]
    assert call.arguments[counts].tolist() == [5, 3]
    call.arguments[counts] = -1
    assert call.arguments.tolist() == program.arguments


@pytest.mark.parametrize("asked", range(7))
def test_a_call_stops_in_the_middle(serial: Any, asked: int) -> None:
    nodes = [Launch(2), Loop(2, (Launch(1), Launch(0))), Launch(2, barrier=True)]
    program = Program(nodes)
    answers = iter([0] * asked)
    call = HandMadeCall(program.rows, program.arguments, team=1, check=lambda _: next(answers, 9))
    stopped = call.run(serial)
    assert stopped == (9 if asked < 4 else 0) and len(call.asked) == min(asked + 1, 4) and set(call.asked) <= {77}
    assert len(program.kernel.calls) == min(asked, 4)


@pytest.mark.parametrize("asked", [0, 1, 2, 30])
def test_the_rest_of_an_epoch_and_the_next_ones_have_no_work_after_a_stop(asked: int) -> None:
    made = loaded(held := SerialPool(3))
    program = Program([Launch(8), Launch(8, barrier=True), Loop(2, (Launch(8),))])
    answers = iter([0] * asked)
    call = HandMadeCall(program.rows, program.arguments, team=3, check=lambda _: next(answers, 9))
    stopped = call.run(made)
    assert not held.inside and (stopped == 9) == (len(call.asked) > asked)
    ran = len(program.kernel.calls)
    assert ran == 32 if not stopped else ran < 8 * len(held.shared)
    assert len(held.shared) == 4 or stopped


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_on_the_threads_of_the_process(threads: int) -> None:
    nodes = [Launch(40, 3), Launch(7), Loop(3, (Launch(20, 2), Launch(11, 4, barrier=True)), odd=-8),
             Branch(True, (Launch(30),), (Launch(5),)), Launch(9, 2, barrier=True)]  # fmt: skip
    process_pool: Any = SimpleNamespace(table=pool_functions())
    before = pool().threads
    pool().set_threads(threads)
    try:
        program = Program(nodes)
        call = HandMadeCall(program.rows, program.arguments, team=threads)
        for _ in range(5):
            program.kernel.calls.clear()
            assert call.run(loaded(process_pool)) == 0
            check_order(program, nodes)
    finally:
        pool().set_threads(before)
    assert {scratch - call.scratch for *_, scratch in program.kernel.calls} <= {SCRATCH * k for k in range(threads)}


@pytest.mark.parametrize("threads", [1, 3])
def test_stamps(threads: int) -> None:
    made = loaded(held := SerialPool(threads), stamped=True)
    nodes = [Launch(6), Launch(0), Loop(3, (Launch(4, 2),))]
    program = Program(nodes)
    call = HandMadeCall(program.rows, program.arguments, team=threads)
    stamps = zeros(Stamp, threads * len(program.rows)).reshape(threads, len(program.rows))
    call.descriptor["stamps"] = address(stamps)
    started = made.now()
    call.run(made)
    ended = made.now()
    check_order(program, nodes)
    assert held.threads == threads
    worked = stamps[stamps["begin"] > 0]
    assert np.all((started <= worked["begin"]) & (worked["begin"] <= worked["end"]) & (worked["end"] <= ended))
    assert np.all((worked["busy"] >= 0) & (worked["busy"] <= worked["end"] - worked["begin"]))
    assert np.flatnonzero(stamps["begin"].any(axis=0)).tolist() == [0, 3]
    assert not stamps[stamps["begin"] == 0]["busy"].any()


def test_a_stamp_keeps_the_first_begin_and_adds_up() -> None:
    made = loaded(SerialPool(), stamped=True)
    call = HandMadeCall([plan_row(), plan_row()], [], team=2)
    stamps = zeros(Stamp, 4)
    call.descriptor["stamps"] = address(stamps)
    place = call.descriptor.ctypes.data
    first = made.now()
    made.stamp(place, 1, 1, first)
    end, busy = int(stamps[3]["end"]), int(stamps[3]["busy"])
    assert end - first == busy >= 0
    second = made.now()
    made.stamp(place, 1, 1, second)
    assert stamps[3]["begin"] == first and stamps[3]["end"] >= second >= end
    assert stamps[3]["busy"] == busy + int(stamps[3]["end"]) - second
    assert not stamps[:3]["begin"].any()


def test_a_run_without_a_question(serial: Any) -> None:
    program = Program([Launch(3)])
    call = HandMadeCall(program.rows, program.arguments)
    bases = (ctypes.c_int64 * 4)()
    serial.run(call.descriptor.ctypes.data, ctypes.addressof(bases), call.workspace.ctypes.data)
    assert len(program.kernel.calls) == 1


@pytest.mark.parametrize("raised", [0, 1])
def test_the_caller_runs_a_host_launch_whose_exception_ends_the_run(serial: Any, raised: int) -> None:
    nodes = [Launch(4), Launch(1, barrier=True), Launch(3, barrier=True)]
    program = Program(nodes)

    def answer(arguments: int, low: int, high: int, scratch: int) -> None:
        program.kernel.call(arguments, low, high, scratch)
        ctypes.c_int64.from_address(scratch).value = raised

    host = KERNEL(answer)
    program.rows[1].kernel, program.rows[1].may_stop = ctypes.cast(host, ctypes.c_void_p).value, True  # type: ignore
    call = HandMadeCall(program.rows, program.arguments, team=4)
    serial.pool.shared.clear()
    assert call.run(serial) == raised and not serial.pool.inside
    assert len(serial.pool.shared) == (0 if serial.pool.threads == 1 else 2 - raised)
    assert [(k, scratch) for words, k, _, scratch in program.kernel.calls if words[0] == 3] == [(0, call.scratch)]
    assert len(program.found()) == (5 if raised else 8)
