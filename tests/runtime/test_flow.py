"""Plans with loops and branches: rows, barriers, and live ranges."""

from __future__ import annotations

from nacre.runtime.flow import Branch, Loop, cells, launches, lives, loops, rounds, walk, with_loops
from nacre.runtime.layouts import RowKind

USES = [({0}, {1}), ({1}, {2}), ({2, 9}, {3}), ({3}, {4}), ({4}, {5}), ({5}, {6})]
LOOP = Loop(0, 3, (), -1, (1, 2), (3,), ((1, 3),))
TREE = (0, LOOP, Branch(4, (4,), (5,)))


def test_rows_of_a_loop_and_a_branch() -> None:
    rows = walk(USES, TREE)
    assert [r.kind for r in rows] == [
        RowKind.LAUNCH,
        RowKind.ENTER,
        RowKind.LAUNCH,
        RowKind.LAUNCH,
        RowKind.TURN,
        RowKind.LAUNCH,
        RowKind.LEAVE,
        RowKind.BRANCH,
        RowKind.LAUNCH,
        RowKind.JUMP,
        RowKind.LAUNCH,
    ]
    enter, turn, branch, jump = rows[1], rows[4], rows[7], rows[9]
    assert (enter.target, enter.past, turn.target) == (5, 7, 2)
    assert (branch.target, jump.target) == (10, 11)
    assert all(r.sync for r in (enter, turn, branch))
    assert [r.sync for r in rows if r.kind is RowKind.LAUNCH] == [False, False, True, False, False, False]
    assert [r.epoch for r in rows] == sorted(r.epoch for r in rows)
    assert all(r.inside == (LOOP,) for r in rows[1:7]) and not rows[7].inside


def test_a_launch_after_a_loop_or_branch_waits() -> None:
    rows = walk([(set(), {k}) for k in range(4)], (Loop(0, 2, (), -1, (0,), ()), 1, Branch(1, (2,), ()), 3))
    behind = [r for r in rows if r.kind is RowKind.LAUNCH and not r.inside]
    assert [r.sync for r in behind] == [True, False, True]


def test_a_while_tests_before_each_iteration() -> None:
    loop = Loop(0, None, (0,), 7, (1,), (2,))
    rows = walk(USES, (loop,))
    assert [r.kind for r in rows] == [
        RowKind.ENTER,
        RowKind.LAUNCH,
        RowKind.BRANCH,
        RowKind.LAUNCH,
        RowKind.TURN,
        RowKind.LAUNCH,
        RowKind.LEAVE,
    ]
    assert rows[2].cell == 7 and rows[2].target == rows[0].target == 5 and rows[4].target == 1
    assert list(cells((loop,))) == [7] and list(launches((loop,))) == [0, 1, 2]


def test_values_that_a_loop_reads_and_carries_are_live_in_all_iterations() -> None:
    rows = walk(USES, TREE)
    life = lives(rows, USES, lambda v: v if v < 8 else -1)
    loop = rows[1].epoch, rows[6].epoch
    assert life[1] == (0, loop[1]), "read by every round"
    assert life[3] == loop, "handed on"
    assert life[2][1] < loop[1], "of one round"
    assert life[4][1] == rows[7].epoch, "a cell is read where the way turns"
    assert 9 not in life and -1 not in life


def test_iterations_and_changes() -> None:
    inner = Loop(1, 4, (), -1, (1,), ())
    tree = (0, Loop(0, 5, (), -1, (inner, 2), (3,)), Loop(2, None, (4,), 7, (5,), ()))
    assert dict(rounds(tree, {}, 1)) == {0: 1, 1: 20, 2: 5, 3: 1, 4: 1, 5: 1}
    assert [loop.number for loop in loops(tree)] == [0, 1, 2]
    changed = with_loops(
        tree, lambda loop: Loop(loop.number + 10, loop.trips, loop.test, loop.cell, loop.body, loop.epilogue)
    )
    assert [loop.number for loop in loops(changed)] == [10, 11, 12]
