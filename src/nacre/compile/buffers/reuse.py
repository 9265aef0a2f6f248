"""Memory reuse: which results may overwrite an operand.

A kernel may write a result over an operand if the work item that writes an element reads the same element of the
operand before, and no other item reads it.  An element is stored once only.  If the operand has no later use, the two
share memory: a temporary reuses its place in the arena, and a variable is updated in place.

Loop carries are updated in place by the same rule; otherwise they have two places that alternate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nacre.base.identity_cache import cached_by_identity
from nacre.base.records import dataclass
from nacre.kernel.affine import Scope
from nacre.kernel.ast import Buffer, Expr, For, If, Kernel, Let, Load, Stmt, Store, While, children, expressions
from nacre.kernel.dependence import separate
from nacre.runtime.flow import DriverRow, Loop, Tree, lives, loops, paths, walk, with_loops
from nacre.runtime.layouts import RowKind
from nacre.runtime.plan import Launch, Plan, PlannedValue, holder, stopping, uses


@dataclass(frozen=True, slots=True)
class Carry:
    """A loop carry: the value that an iteration reads, the one that it writes, and the loop's result."""

    loop: int
    given: int
    made: int
    result: int


@cached_by_identity
def overwritable(kernel: Kernel) -> list[tuple[int, int]]:
    """Pairs (input, output) of a kernel such that the output may be written over the input."""
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], For) and body[0].parallel:
        body = body[0].body
    bodies = _Bodies({})
    found: list[tuple[int, int]] = []
    for i, x in enumerate(kernel.inputs):
        for o, y in enumerate(kernel.outputs):
            if same_layout(x, y) and bodies.before(body, x.name, y.name):
                found.append((i, o))
    return found


def same_layout(x: Buffer, y: Buffer) -> bool:
    """Whether two buffers have equal layouts, in which no two elements share a place."""
    steps = zip(x.shape, x.strides or (), strict=False)
    return (
        x.dtype is y.dtype
        and x.shape == y.shape
        and x.strides == y.strides
        and all(step != 0 or size == 1 for size, step in steps)
    )


@dataclass(frozen=True)
class _Bodies:
    """The bodies of a kernel, by their statements' accesses to buffers."""

    known: dict[int, list[tuple[Stmt, _Accesses]]]

    def of(self, body: tuple[Stmt, ...]) -> list[tuple[Stmt, _Accesses]]:
        """The statements of a body that access buffers."""
        found = self.known.get(id(body))
        if found is None:
            every = [(s, _accesses(s)) for s in body]
            found = self.known[id(body)] = [(s, a) for s, a in every if a.loads or a.stores]
        return found

    def before(self, body: tuple[Stmt, ...], x: str, y: str) -> bool:
        """Whether all loads of x, at the index at which y is stored, come before that store."""
        mentions = [(s, a) for s, a in self.of(body) if x in a.loads or y in a.stores]
        if len(mentions) == 1 and isinstance(loop := mentions[0][0], For):
            if not self.before(loop.body, x, y):
                return False
            lets = {s.name: s.value for s in body if isinstance(s, Let)}
            return _once(loop, y, Scope({}, lets))
        return _stored_last(mentions, x, y)


def _stored_last(mentions: Sequence[tuple[Stmt, _Accesses]], x: str, y: str) -> bool:
    """Whether y is stored once, behind all loads of x, which are at its index."""
    stored: tuple[Expr, ...] | None = None
    indices: set[tuple[Expr, ...]] = set()
    for s, accesses in mentions:
        loads = accesses.loads.get(x, ())
        stores = accesses.stores.get(y, ())
        if stored is not None and (loads or stores):
            return False
        if stores and isinstance(s, For | If | While):
            return False
        indices.update(loads)
        if stores:
            stored = stores[0]
    return stored is not None and indices == {stored}


def _once(loop: For, y: str, scope: Scope) -> bool:
    """Whether iterations of a loop store to different elements."""
    return loop.parallel or y not in _accesses(loop).stores or separate(loop, y, scope)


def _inside(s: Stmt) -> tuple[Stmt, ...]:
    match s:
        case For() | While():
            return s.body
        case If():
            return s.body + s.orelse
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class _Accesses:
    """The indices at which a statement, and those inside it, read and write each buffer."""

    loads: dict[str, list[tuple[Expr, ...]]]
    stores: dict[str, list[tuple[Expr, ...]]]


@cached_by_identity
def _accesses(s: Stmt) -> _Accesses:
    found = _Accesses({}, {})
    todo = list(expressions(s))
    while todo:
        e = todo.pop()
        if isinstance(e, Load):
            found.loads.setdefault(e.buffer, []).append(e.index)
        todo += children(e)
    if isinstance(s, Store):
        found.stores.setdefault(s.buffer, []).append(s.index)
    for inside in map(_accesses, _inside(s)):
        for mine, its in ((found.loads, inside.loads), (found.stores, inside.stores)):
            for name, indices in its.items():
                mine.setdefault(name, []).extend(indices)
    return found


def plan_memory(
    values: Sequence[PlannedValue],
    steps: Sequence[Launch],
    inputs: int,
    outputs: int,
    tree: Tree = (),
    carries: Sequence[Carry] = (),
) -> Plan:
    """A plan with barriers where they are needed; results reuse operands' memory where that is allowed.

    A program overwrites an input only where it can no longer end early: behind its last check, and with loops or host
    calls nowhere.
    """
    order = tree or tuple(range(len(steps)))
    reused = list(values)
    if not tree:
        _computed_in_results(reused, steps)
    order = _in_place(reused, steps, order, carries)
    met = uses(steps, reused)
    last = stopping(steps)
    rows = walk(met, order, last)
    at = dict(sorted((row.step, row.epoch) for row in rows if row.kind is RowKind.LAUNCH))
    life = lives(rows, met, lambda v: holder(reused, v))
    swapped = {v for loop in loops(order) for pair in loop.swaps for v in pair}
    readers: dict[int, list[int]] = {}
    writers: dict[int, list[int]] = {}
    for k, (read, written) in enumerate(met):
        for v in read:
            readers.setdefault(v, []).append(k)
        for v in written:
            writers.setdefault(v, []).append(k)
    sure = max((at[k] for k in last), default=-1)  # the epoch behind which nothing ends the program
    donation = _Donation(reused, steps, readers, writers, at, paths(order))
    donations: list[tuple[int, int]] = []
    taken: set[int] = set()
    for k, step in enumerate(steps):
        for a, b in step.over:
            a, b = _whole(reused, a), _whole(reused, b)
            if a < 0 or b < 0 or a == b or {a, b} & swapped:
                continue
            if life[a][1] != at[k] or any(r != k and at[r] == at[k] for r in readers[a]):
                continue
            if reused[a].kind == "input" and reused[b].kind == "output":
                if at[k] > sure and donation.allowed(a, b, k):
                    donations.append((b - inputs, a))
            elif (
                a not in taken
                and reused[b].reuses < 0
                and reused[a].kind == "temporary"
                and reused[b].kind == "temporary"
                and reused[a].nbytes == reused[b].nbytes
                and life[b][0] == at[k]
            ):
                reused[b] = replace(reused[b], reuses=a)
                taken.add(a)
    early = any(s.host is not None for s in steps) or any(True for _ in loops(order))
    allowed = () if early else tuple(sorted(donations))
    return Plan(tuple(reused), tuple(steps), inputs, outputs, tuple(at.values()), allowed, order if tree else ())


@dataclass(frozen=True)
class _Donation:
    """Decides whether an output may be written over an input, whichever sides of the branches run."""

    values: Sequence[PlannedValue]
    steps: Sequence[Launch]
    readers: Mapping[int, Sequence[int]]  # of each value, the launches
    writers: Mapping[int, Sequence[int]]
    epochs: Mapping[int, int]
    paths: Mapping[int, Mapping[int, bool]]

    def allowed(self, given: int, made: int, k: int) -> bool:
        """Whether each other writer of the output runs after launch k, the input's last reader, or excludes it."""
        others = [m for m in self.writers.get(made, ()) if m != k]
        return all(self.excluded(m, given, made, k) or self.epochs[m] > self.epochs[k] for m in others)

    def excluded(self, m: int, given: int, made: int, k: int) -> bool:
        """Whether launch m is on another side of a branch than k, and may write the output over the input, too."""
        if not self.exclusive(m, k):
            return False
        pairs = {(_whole(self.values, x), _whole(self.values, y)) for x, y in self.steps[m].over}
        readers = [r for r in self.readers.get(given, ()) if not self.exclusive(r, m)]
        later = [r for r in readers if r != m and self.epochs[r] >= self.epochs[m]]
        return not later and ((given, made) in pairs or m not in readers)

    def exclusive(self, a: int, b: int) -> bool:
        """Whether two launches are on different sides of a branch."""
        return any(self.paths[b].get(branch, side) != side for branch, side in self.paths[a].items())


def _computed_in_results(values: list[PlannedValue], steps: Sequence[Launch]) -> None:
    """Store a temporary in a result if its only reader is the copy that initialises the result; that copy is idle."""
    for step in steps:
        for a, b in step.over if step.idle else ():
            alone = sum(a in s.reads for s in steps) == 1 and not any(
                b in pair for s in steps if s is not step for pair in s.over
            )
            if alone and values[b].kind == "output" and values[a] == PlannedValue("temporary", values[b].nbytes):
                values[a] = PlannedValue("part", values[b].nbytes, of=b)


def _whole(values: Sequence[PlannedValue], value: int) -> int:
    """The whole value that a part covers, or the value itself; -1 for a part at an offset, or one that a loop moves."""
    while values[value].kind == "part":
        if values[value].loop >= 0 or values[value].offset != 0:
            return -1
        value = values[value].of
    return value


def _in_place(values: list[PlannedValue], steps: Sequence[Launch], tree: Tree, carries: Sequence[Carry]) -> Tree:
    """Store a carry in the loop's result if an iteration may update it in place, else in two alternating places."""
    swaps: dict[int, list[tuple[int, int]]] = {}
    for c in carries:
        if _updates(c, values, steps, tree):
            for v in (c.given, c.made):
                values[v] = PlannedValue("part", values[v].nbytes, of=c.result)
        else:
            swaps.setdefault(c.loop, []).append((c.given, c.made))

    def change(loop: Loop) -> Loop:
        """The loop with the carries whose two places alternate."""
        return replace(loop, swaps=tuple(swaps.get(loop.number, ())))

    return with_loops(tree, change) if carries else tree


def _updates(c: Carry, values: Sequence[PlannedValue], steps: Sequence[Launch], tree: Tree) -> bool:
    """Whether the first step in an iteration that writes a carry may overwrite its old value: it is no longer read."""
    met = uses(steps, values)
    rows = walk(met, tree, stopping(steps))
    start = next(k for k, r in enumerate(rows) if r.kind is RowKind.ENTER and r.loop and r.loop.number == c.loop)
    loop = rows[start].loop
    assert loop is not None
    end = next(k for k in range(start, len(rows)) if rows[k].kind is RowKind.TURN and rows[k].loop is loop)
    iteration: list[DriverRow] = list(rows[start + 1 : end])
    writers = [row for row in iteration if row.kind is RowKind.LAUNCH and c.made in met[row.step][1]]
    if not writers or writers[0].step not in loop.body:
        return False
    first = writers[0]
    pairs = {(_whole(values, a), _whole(values, b)) for a, b in steps[first.step].over}
    if (c.given, c.made) not in pairs:
        return False
    readers = [
        row
        for row in iteration
        if row is not first
        and (
            c.given == holder(values, row.cell)
            if row.kind is RowKind.BRANCH
            else row.kind is RowKind.LAUNCH and c.given in met[row.step][0]
        )
    ]
    return all(row.epoch < first.epoch for row in readers)
