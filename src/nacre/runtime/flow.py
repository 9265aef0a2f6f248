"""Loops and branches of a plan: the tree of its steps, and the rows that the driver executes.

A plan's steps are numbered launches.  Its tree gives their order, repetition and conditions; without control flow the
tree is a list of launches.  `walk` flattens the tree: a row for each launch, and rows for loops and branches.  It also
places the barriers: where a launch depends on its own epoch, and at every loop iteration and branch, so that all
threads see the results.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import count
from typing import TypeAlias

from nacre.base.dims import Size, evaluate
from nacre.base.records import dataclass
from nacre.runtime.layouts import RowKind

UNKNOWN_TRIPS = 64  # assumed iterations of a loop of unknown length, for estimates of its work


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of nodes: `trips` iterations, or without a number of trips as long as `cell` is true, up to the `bound`.

    `test` computes the cell before each iteration, `epilogue` runs once after the last one.  The two values of a pair
    in `swaps` are exchanged after each iteration: the second one, written in it, is the first one of the next one.
    """

    number: int
    trips: Size | None
    test: tuple[Node, ...]
    cell: int
    body: tuple[Node, ...]
    epilogue: tuple[Node, ...]
    swaps: tuple[tuple[int, int], ...] = ()
    bound: Size | None = None  # the most iterations, where their number is unknown

    def most(self, otherwise: int) -> Size:
        """The number of iterations; of a loop of unknown length, the most that are possible."""
        return self.trips if self.trips is not None else otherwise if self.bound is None else self.bound


@dataclass(frozen=True, slots=True)
class Branch:
    """Nodes that run if the value `cell` is true, and others that run if it is false."""

    cell: int
    then: tuple[Node, ...]
    orelse: tuple[Node, ...]


Node: TypeAlias = "int | Loop | Branch"
Tree: TypeAlias = "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class DriverRow:
    """A row of the driver's table: a launch, or control flow."""

    kind: RowKind
    epoch: int  # barriers before it, with one more between the sides of a branch
    sync: bool = False  # whether a barrier comes directly before it
    step: int = -1  # the launch
    loop: Loop | None = None
    cell: int = -1
    target: int = -1  # the row to jump to
    past: int = -1  # of ENTER: the row after LEAVE
    inside: tuple[Loop, ...] = ()  # loops around it, the outermost first


class _Walk:
    """Writes the rows of a tree and places the barriers."""

    def __init__(self, uses: Sequence[tuple[Set[int], Set[int]]], alone: Container[int]) -> None:
        self.uses, self.alone = uses, alone
        self.rows: list[DriverRow] = []
        self.now = 0
        self.written: set[int] = set()
        self.read: set[int] = set()
        self.pending = False  # whether the next launch needs a barrier in any case
        self.inside: tuple[Loop, ...] = ()

    def barrier(self) -> None:
        """Place a barrier: all launches before it are complete."""
        self.now += 1
        self.written, self.read, self.pending = set(), set(), False

    def row(self, kind: RowKind, **about: object) -> int:
        """Append a row; returns its number."""
        self.rows.append(DriverRow(kind, self.now, inside=self.inside, **about))  # type: ignore[arg-type]
        return len(self.rows) - 1

    def nodes(self, nodes: Sequence[Node]) -> None:
        """Append the rows of nodes in order."""
        for node in nodes:
            if isinstance(node, Loop):
                self.loop(node)
            elif isinstance(node, Branch):
                self.branch(node)
            else:
                self.launch(node)

    def launch(self, k: int) -> None:
        """Append a launch, with a barrier where it needs one."""
        reads, writes = self.uses[k]
        alone = k in self.alone
        sync = alone or self.pending or bool(self.written & (reads | writes) or self.read & writes)
        if sync:
            self.barrier()
        self.written |= writes
        self.read |= reads
        self.row(RowKind.LAUNCH, sync=sync, step=k)
        self.pending = alone

    def loop(self, loop: Loop) -> None:
        """Append a loop: enter, test, body, turn, `epilogue`, leave."""
        self.inside += (loop,)
        self.barrier()
        enter = self.row(RowKind.ENTER, sync=True, loop=loop)
        top, test = len(self.rows), -1
        if loop.trips is None:
            self.nodes(loop.test)
            self.barrier()
            test = self.row(RowKind.BRANCH, sync=True, cell=loop.cell)
        self.nodes(loop.body)
        self.barrier()
        turn = self.row(RowKind.TURN, sync=True, loop=loop, target=top)
        for k in (enter, test):
            if k >= 0:
                self.rows[k] = replace(self.rows[k], target=turn + 1)
        self.nodes(loop.epilogue)
        self.row(RowKind.LEAVE, loop=loop)
        self.rows[enter] = replace(self.rows[enter], past=len(self.rows))
        self.inside = self.inside[:-1]
        self.pending = True

    def branch(self, branch: Branch) -> None:
        """Append a branch: one side, a jump past the other, the other side."""
        self.barrier()
        first = self.row(RowKind.BRANCH, sync=True, cell=branch.cell)
        self.nodes(branch.then)
        jump = self.row(RowKind.JUMP) if branch.orelse else -1
        self.rows[first] = replace(self.rows[first], target=len(self.rows))
        if branch.orelse:
            self.barrier()  # counts an epoch only: both sides share the barrier before the branch
            self.nodes(branch.orelse)
            self.rows[jump] = replace(self.rows[jump], target=len(self.rows))
        self.pending = True


def walk(
    uses: Sequence[tuple[Set[int], Set[int]]], tree: Tree, alone: Container[int] = frozenset()
) -> tuple[DriverRow, ...]:
    """The rows of a tree, whose launches read and write the values in `uses`; those in `alone` are epochs alone."""
    w = _Walk(uses, alone)
    w.nodes(tree)
    return tuple(w.rows)


def launches(nodes: Sequence[Node]) -> Iterator[int]:
    """The launches of nodes, at any depth."""
    for node in nodes:
        if isinstance(node, Loop):
            yield from launches((*node.test, *node.body, *node.epilogue))
        elif isinstance(node, Branch):
            yield from launches((*node.then, *node.orelse))
        else:
            yield node


def paths(nodes: Sequence[Node]) -> dict[int, dict[int, bool]]:
    """For each launch among nodes the branches around it, by number, and on which side of each it is."""
    found: dict[int, dict[int, bool]] = {}
    numbers = count()

    def visit(nodes: Sequence[Node], around: dict[int, bool]) -> None:
        """Record the launches of nodes that are inside branches."""
        for node in nodes:
            if isinstance(node, Loop):
                visit((*node.test, *node.body, *node.epilogue), around)
            elif isinstance(node, Branch):
                number = next(numbers)
                visit(node.then, {**around, number: True})
                visit(node.orelse, {**around, number: False})
            else:
                found[node] = around

    visit(nodes, {})
    return found


def cells(nodes: Sequence[Node]) -> Iterator[int]:
    """The cells of loops and branches among nodes, at any depth."""
    for node in nodes:
        if isinstance(node, Loop):
            if node.trips is None:
                yield node.cell
            yield from cells((*node.test, *node.body, *node.epilogue))
        elif isinstance(node, Branch):
            yield node.cell
            yield from cells((*node.then, *node.orelse))


def loops(nodes: Sequence[Node]) -> Iterator[Loop]:
    """The loops among nodes, at any depth, outer ones first."""
    for node in nodes:
        if isinstance(node, Loop):
            yield node
            yield from loops((*node.test, *node.body, *node.epilogue))
        elif isinstance(node, Branch):
            yield from loops((*node.then, *node.orelse))


def with_loops(nodes: Sequence[Node], change: Callable[[Loop], Loop]) -> Tree:
    """Nodes with a change applied to every loop among them, inner ones first."""
    found: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop):
            inner = replace(
                node,
                test=with_loops(node.test, change),
                body=with_loops(node.body, change),
                epilogue=with_loops(node.epilogue, change),
            )
            found.append(change(inner))
        elif isinstance(node, Branch):
            found.append(replace(node, then=with_loops(node.then, change), orelse=with_loops(node.orelse, change)))
        else:
            found.append(node)
    return tuple(found)


def lives(
    rows: Sequence[DriverRow], uses: Sequence[tuple[Set[int], Set[int]]], place: Callable[[int], int]
) -> dict[int, tuple[int, int]]:
    """The first and the last epoch in which each place is used; `place` returns a value's place (-1: none).

    Values that a loop reads from outside, writes for outside, or carries between iterations are live in all its
    epochs.
    """
    spans: dict[int, tuple[int, int]] = {}  # the first and the last row
    for k, row in enumerate(rows):
        met: Set[int] = {row.cell} if row.kind is RowKind.BRANCH else set()
        if row.kind is RowKind.LAUNCH:
            met = uses[row.step][0] | uses[row.step][1]
        for v in map(place, met):
            first, _ = spans.get(v, (k, k))
            spans[v] = (first, k)
    spans.pop(-1, None)
    found = {v: (rows[a].epoch, rows[b].epoch) for v, (a, b) in spans.items()}
    for k, row in enumerate(rows):
        if row.kind is not RowKind.ENTER:
            continue
        assert row.loop is not None
        handed = {place(v) for pair in row.loop.swaps for v in pair}
        start, end = row.epoch, rows[row.past - 1].epoch
        for v, (a, b) in spans.items():
            if b >= k and a < row.past and (a < k or b >= row.past or v in handed):
                first, last = found[v]
                found[v] = (min(first, start), max(last, end))
    return found


def rounds(nodes: Sequence[Node], sizes: Mapping[str, int], unknown: int, times: int = 1) -> Iterator[tuple[int, int]]:
    """Each launch among nodes and the number of its runs: both sides of a branch, an `unknown` number of iterations."""
    for node in nodes:
        if isinstance(node, Loop):
            trips = unknown if node.trips is None else max(0, evaluate(node.trips, sizes))
            yield from rounds((*node.test, *node.body), sizes, unknown, times * trips)
            yield from rounds(node.epilogue, sizes, unknown, times)
        elif isinstance(node, Branch):
            yield from rounds((*node.then, *node.orelse), sizes, unknown, times)
        else:
            yield node, times
