"""How a kernel is to be done, as data, and the checked rewrites that do it.

A `Schedule` names loops by their index; where loops side by side share an index, it means each of them.  No step
changes a bit of the result: sums keep the canonical order however their loop is done.

    apply(kernel, Schedule(parallel=("i",), vectorise=("j",)))
    default(kernel)                       # choose for a nest that says nothing
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nacre.base.errors import GraphError
from nacre.base.records import dataclass
from nacre.kernel.affine import Scope
from nacre.kernel.ast import (
    Alloc,
    Buffer,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Stmt,
    Store,
    While,
    children,
    const,
    expressions,
    index_add,
    index_mul,
    statements,
)
from nacre.kernel.dependence import accumulated, lane_obstacle, memory_obstacle, obstacle, stride
from nacre.kernel.rewrite import map_loops, substitute

EMPTY = Scope({}, {})


@dataclass(frozen=True)
class Schedule:
    """The transformations of loops, done in the order of the fields.

    `interchange` swaps a loop with the loop that is its whole body.  `tile` splits a loop into blocks of iterations;
    the outer loop's index is `<index>_block`.  `unroll` gives the number of iterations of a serial loop to write out.
    """

    interchange: tuple[tuple[str, str], ...] = ()
    tile: tuple[tuple[str, int], ...] = ()
    parallel: tuple[str, ...] = ()
    vectorise: tuple[str, ...] = ()
    unroll: tuple[tuple[str, int], ...] = ()


def apply(kernel: Kernel, schedule: Schedule) -> Kernel:
    """The kernel under a schedule.

    Raises GraphError with the reason where a step would change the result or names no loop.
    """
    for outer, inner in schedule.interchange:
        kernel = interchange(kernel, outer, inner)
    for index, size in schedule.tile:
        kernel = tile(kernel, index, size)
    for index in schedule.parallel:
        kernel = parallelise(kernel, index)
    for index in schedule.vectorise:
        kernel = vectorise(kernel, index)
    for index, rounds in schedule.unroll:
        kernel = unroll(kernel, index, rounds)
    return kernel


# ---- steps


def interchange(kernel: Kernel, outer: str, inner: str) -> Kernel:
    """Swap a loop with the one that is its whole body; the iterations of both must be independent."""

    def swap(s: For, scope: Scope) -> For:
        """The two loops in the other order; GraphError where results could change."""
        within = s.body[0]
        if len(s.body) != 1 or not isinstance(within, For) or within.index != inner:
            raise GraphError(f"interchange: loop {inner} must be the whole body of loop {outer}")
        below = Scope({**scope.extents, outer: s.extent}, scope.lets)
        _require(obstacle(s, scope), "interchange", "independent rounds", outer)
        _require(obstacle(within, below), "interchange", "independent rounds", inner)
        return replace(within, body=(replace(s, body=within.body),))

    return _rewritten(kernel, outer, "interchange", swap)


def tile(kernel: Kernel, index: str, size: int) -> Kernel:
    """Split a loop into blocks of iterations, in the same order; the size must divide the extent."""

    def split(s: For, scope: Scope) -> For:
        """The loop as a loop over blocks; GraphError if the size does not divide it."""
        folded = accumulated(s.body)
        if folded:
            _require(f"its rounds accumulate into {', '.join(folded)}", "tile", "a loop without accumulators", index)
        if not isinstance(s.extent, int) or size < 1 or s.extent % size:
            _require(f"{size} does not divide {s.extent}", "tile", "a size that divides the extent", index)
        block = f"{index}_block"
        position = index_add(index_mul(Index(block), const(size)), Index(index))
        inner = replace(s, extent=size, body=substitute(s.body, {index: position}))
        return For(block, s.extent // size, (inner,), parallel=s.parallel)

    return _rewritten(kernel, index, "tile", split)


def parallelise(kernel: Kernel, index: str) -> Kernel:
    """Allow the iterations of a loop to run in any order, on any thread."""

    def mark(s: For, scope: Scope) -> For:
        """The loop marked parallel; GraphError if its rounds depend on each other."""
        _require(obstacle(s, scope), "parallel", "independent rounds", index)
        return replace(s, parallel=True)

    return _rewritten(kernel, index, "parallel", mark)


def vectorise(kernel: Kernel, index: str) -> Kernel:
    """Allow the iterations of a loop to run a vector at a time."""
    buffers = buffers_of(kernel)

    def mark(s: For, scope: Scope) -> For:
        """The loop marked vector; GraphError if its rounds cannot be lanes."""
        _require(vector_obstacle(s, buffers, scope), "vector", "rounds that can be lanes", index)
        return replace(s, vector=True)

    return _rewritten(kernel, index, "vector", mark)


def unroll(kernel: Kernel, index: str, rounds: int) -> Kernel:
    """Allow a number of iterations of a loop to be written out."""

    def mark(s: For, _: Scope) -> For:
        """The loop marked to unroll; GraphError unless `rounds` is positive."""
        if rounds < 1:
            _require(f"got {rounds}", "unroll", "a positive number of rounds", index)
        return replace(s, unroll=rounds)

    return _rewritten(kernel, index, "unroll", mark)


def _require(why: str | None, step: str, what: str, index: str) -> None:
    if why is not None:
        raise GraphError(f"{step}: loop {index} must have {what}; {why}")


def _rewritten(kernel: Kernel, index: str, step: str, f: Callable[[For, Scope], For]) -> Kernel:
    indices = [s.index for s in statements(kernel.body) if isinstance(s, For)]
    if index not in indices:
        known = ", ".join(dict.fromkeys(indices)) or "none"
        raise GraphError(f"{step}: the kernel has no loop {index}; its loops are {known}")
    body = map_loops(kernel.body, lambda s, scope: f(s, scope) if s.index == index else s, EMPTY)
    return replace(kernel, body=body)


def buffers_of(kernel: Kernel) -> dict[str, Buffer]:
    """All buffers of a kernel by name, its scratch too."""
    scratch = [s.buffer for s in statements(kernel.body) if isinstance(s, Alloc)]
    return {b.name: b for b in (*kernel.buffers, *scratch)}


def vector_obstacle(s: For, buffers: Mapping[str, Buffer], scope: Scope) -> str | None:
    """Why a loop's iterations cannot be lanes of a vector; None if they can."""
    inside = {t.buffer.name for t in statements(s.body) if isinstance(t, Alloc)}
    scalars = [n for n, b in buffers.items() if b.shape == () and n not in inside]
    return lane_obstacle(s, scalars, buffers, scope) or memory_obstacle(s, scope)


# ---- the choice for a nest that says nothing


def default(kernel: Kernel) -> Kernel:
    """Choose parallel and vector loops for a nest.

    The outer independent loops, as far as they are perfectly nested, become parallel.  One loop on each path becomes
    a vector: the one whose rounds touch neighbouring elements most often; among the parallel loops it is moved
    innermost.
    """
    lets = tuple(s for s in kernel.body if isinstance(s, Let))
    rest = kernel.body[len(lets) :]
    if kernel.body[: len(lets)] != lets:
        lets, rest = (), kernel.body
    scope = Scope({}, {s.name: s.value for s in lets})
    plan = _Plan(buffers_of(kernel), scope)
    if len(rest) == 1 and isinstance(rest[0], For):
        return replace(kernel, body=(*lets, plan.nest(rest[0])))
    return replace(kernel, body=(*lets, *plan.inner(rest, scope)))


@dataclass(frozen=True)
class _Plan:
    buffers: Mapping[str, Buffer]
    scope: Scope

    def nest(self, first: For) -> For:
        """A whole nest: its parallel loops, and its vector loops inside them or the best of them."""
        chain, scope = self.chain(first)
        body = chain[-1].body if chain else (first,)
        within = self.inner(body, scope)
        best = max(chain, key=lambda s: self.gain(s, chain[-1].body), default=None)
        if best is not None and self.able(best, chain) and self.gain(best, body) > self.gain_inside(within, scope):
            chain = [*(s for s in chain if s is not best), replace(best, vector=True)]
            within = body
        if not chain:
            (only,) = within
            assert isinstance(only, For)
            return only
        nest = replace(chain[-1], parallel=True, body=within)
        for s in reversed(chain[:-1]):
            nest = replace(s, parallel=True, body=(nest,))
        return nest

    def chain(self, s: For) -> tuple[list[For], Scope]:
        """The outer independent, perfectly nested loops, and what is known inside them."""
        found: list[For] = []
        scope = self.scope
        while obstacle(s, scope) is None:
            found.append(s)
            scope = Scope({**scope.extents, s.index: s.extent}, scope.lets)
            if len(s.body) != 1 or not isinstance(s.body[0], For):
                break
            s = s.body[0]
        return found, scope

    def able(self, s: For, chain: Sequence[For]) -> bool:
        """Whether a loop of the chain can be the vector loop once it is the innermost of them."""
        scope = Scope({**self.scope.extents, **{c.index: c.extent for c in chain}}, self.scope.lets)
        return vector_obstacle(replace(s, body=chain[-1].body), self.buffers, scope) is None

    def inner(self, body: Sequence[Stmt], scope: Scope) -> tuple[Stmt, ...]:
        """A body whose loops, where they can be, are vectors: outer ones unless inner ones gain more."""

        def visit(s: Stmt, scope: Scope) -> Stmt:
            """The statement with its best innermost loop marked as vector."""
            match s:
                case For():
                    below = Scope({**scope.extents, s.index: s.extent}, scope.lets)
                    within = self.inner(s.body, below)
                    able = vector_obstacle(s, self.buffers, scope) is None and not _folds_below(s)
                    if able and self.gain(s, s.body) > self.gain_inside(within, below):
                        return replace(s, vector=True)
                    return replace(s, body=within)
                case If():
                    return replace(s, body=self.inner(s.body, scope), orelse=self.inner(s.orelse, scope))
                case While():
                    return replace(s, body=self.inner(s.body, scope))
                case _:
                    return s

        result: list[Stmt] = []
        for s in body:
            result.append(visit(s, scope))
            if isinstance(s, Let):
                scope = Scope(scope.extents, {**scope.lets, s.name: s.value})
        return tuple(result)

    def gain(self, s: For, body: Sequence[Stmt]) -> float:
        """How much a loop gains from being a vector: its unit-stride accesses count for it, other strides against."""
        extents = {s.index: s.extent, **{t.index: t.extent for t in statements(tuple(body)) if isinstance(t, For)}}
        scope = Scope({**self.scope.extents, **extents}, self.scope.lets)
        total = 0.5
        for buffer, index, is_store in _accesses(body):
            if self.buffers[buffer].shape != ():
                step = stride(self.buffers[buffer], index, s.index, scope)
                good = 1.0 if step in (1, -1) else 0.0 if step == 0 else -0.75
                total += good * (1.5 if is_store else 1.0)  # a transposed load is cheaper than a transposed store
        filled = min(s.extent, 16) / 16 if isinstance(s.extent, int) else 1.0
        return max(total, 0.1) * filled

    def gain_inside(self, body: Sequence[Stmt], scope: Scope) -> float:
        """What the vector loops of a body gain together."""
        return sum(self.gain(s, s.body) for s in statements(tuple(body)) if isinstance(s, For) and s.vector)


def _folds_below(s: For) -> bool:
    """Whether a loop inside accumulates into accumulators from outside a loop."""
    return any(
        accumulated(t.body)
        for t in statements(s.body)
        if isinstance(t, For) and set(accumulated(t.body)) & set(accumulated(s.body))
    )


def _accesses(body: Sequence[Stmt]) -> list[tuple[str, tuple[Expr, ...], bool]]:
    """The accesses of a body: the buffer, the index, and whether it is a store."""
    found: list[tuple[str, tuple[Expr, ...], bool]] = []
    seen: set[int] = set()

    def visit(e: Expr) -> None:
        """Note the loads in an expression, each once."""
        if id(e) not in seen:
            seen.add(id(e))
            if isinstance(e, Load):
                found.append((e.buffer, e.index, False))
            for c in children(e):
                visit(c)

    for s in statements(tuple(body)):
        if isinstance(s, Store):
            found.append((s.buffer, s.index, True))
        for e in expressions(s):
            visit(e)
    return found
