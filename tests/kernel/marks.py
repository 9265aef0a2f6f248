"""Marks for unmarked loop nests: which loops are parallel, and which are vector loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nacre.base.records import dataclass
from nacre.kernel.affine import Scope
from nacre.kernel.ast import (
    Alloc,
    Buffer,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Stmt,
    Store,
    While,
    children,
    expressions,
    statements,
)
from nacre.kernel.dependence import accumulated, lane_obstacle, memory_obstacle, obstacle, stride


def buffers_of(kernel: Kernel) -> dict[str, Buffer]:
    """All buffers of a kernel by name, including its scratch."""
    scratch = [s.buffer for s in statements(kernel.body) if isinstance(s, Alloc)]
    return {b.name: b for b in (*kernel.buffers, *scratch)}


def vector_obstacle(s: For, buffers: Mapping[str, Buffer], scope: Scope) -> str | None:
    """Why a loop's iterations cannot be lanes of a vector; None if they can."""
    inside = {t.buffer.name for t in statements(s.body) if isinstance(t, Alloc)}
    scalars = [n for n, b in buffers.items() if b.shape == () and n not in inside]
    return lane_obstacle(s, scalars, buffers, scope) or memory_obstacle(s, scope)


def marked(kernel: Kernel) -> Kernel:
    """Choose parallel and vector loops for a nest.

    The outer independent loops, as far as they are perfectly nested, become parallel.  One loop on each path becomes a
    vector loop: the one whose iterations access adjacent elements most often.  Among the parallel loops it is moved
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
        """A whole nest: its parallel loops, and vector loops inside them, or the best of them as the vector loop."""
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
        """The outer independent, perfectly nested loops, and the scope inside them."""
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
        """A body whose loops are vector loops if possible: outer ones unless inner ones gain more."""

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
        """The gain of a loop from vectorisation: its unit-stride accesses count for it, other strides against it."""
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
        """The total gain of the vector loops of a body."""
        return sum(self.gain(s, s.body) for s in statements(tuple(body)) if isinstance(s, For) and s.vector)


def _folds_below(s: For) -> bool:
    """Whether an inner loop accumulates into accumulators from outside the loop."""
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
        """Record the loads in an expression, without duplicates."""
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
