"""Conditions around accesses that are not provably inside of their arrays.

A negative index counts from the end, as in Python.  An element outside of an array is 0 when it is read, and a store
outside has no effect; a kernel in debug mode also reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from nacre.base.records import dataclass
from nacre.kernel.ast import (
    Alloc,
    Buffer,
    Expr,
    For,
    If,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    While,
    apply,
    const,
    size_expr,
    zero_of,
)
from nacre.kernel.python.debug import Recorder
from nacre.kernel.value_bounds import GREATEST, ValueBounds


@dataclass
class Guards:
    """Writes a body again, with conditions; `fresh` gives new names."""

    buffers: dict[str, Buffer]
    fresh: Callable[[str], str]
    recorder: Recorder | None = None  # of debug mode

    def block(self, body: Sequence[Stmt], values: ValueBounds) -> tuple[Stmt, ...]:
        """A block, whose values have the bounds given at its beginning."""
        found: list[Stmt] = []
        for s in body:
            for part in self.statement(s, values):
                if isinstance(part, Let):
                    values = values.behind(part.name, part.value)
                found.append(part)
        return tuple(found)

    def statement(self, s: Stmt, values: ValueBounds) -> Iterator[Stmt]:
        """The statements in the place of one."""
        match s:
            case Let(value=Load() as e) if e.index:
                yield from self.load(s, e, values)
            case Store() if s.index:
                yield from self.store(s, values)
            case For():
                inside = values.inside(s.index, s.extent)
                yield self.loop(s, inside)
            case If():
                sides = ((s.body, True), (s.orelse, False))
                yield If(s.condition, *(self.block(b, values.where(s.condition, holds)) for b, holds in sides))
            case While():
                yield While(s.condition, self.block(s.body, values.where(s.condition, True)))
            case _:
                yield s

    def loop(self, s: For, values: ValueBounds) -> For:
        """A loop; in debug mode all iterations run in order."""
        if self.recorder is None:
            return replace(s, body=self.block(s.body, values))
        before, self.recorder.rounds = self.recorder.rounds, self.recorder.inside(s)
        body = self.block(s.body, values)
        self.recorder.rounds = before
        return For(s.index, s.extent, body)

    def uses(self, s: Stmt, buffer: str, index: Sequence[Expr], stores: bool) -> list[Stmt]:
        """The statements of debug mode before an access."""
        return [] if self.recorder is None else self.recorder.used(s, buffer, index, stores)

    def load(self, s: Let, e: Load, values: ValueBounds) -> Iterator[Stmt]:
        """A load, whose value is 0 if its index is outside."""
        before, index, inside, reports = self.guarded(s, e.buffer, e.index, values)
        uses = self.uses(s, e.buffer, index, False)
        if inside is None:
            yield from (*uses, s)
            return
        yield from before
        held = self.fresh(f"{s.name}_held")
        yield Alloc(Buffer(held, e.dtype, ()))
        yield Store(held, (), zero_of(e.dtype))
        yield If(inside, (*uses, Store(held, (), Load(e.buffer, index, e.dtype))), tuple(reports))
        yield Let(s.name, Load(held, (), e.dtype))

    def store(self, s: Store, values: ValueBounds) -> Iterator[Stmt]:
        """A store, which has no effect if its index is outside."""
        before, index, inside, reports = self.guarded(s, s.buffer, s.index, values)
        uses = self.uses(s, s.buffer, index, True)
        if inside is None:
            yield from (*uses, s)
            return
        yield from before
        yield If(inside, (*uses, Store(s.buffer, index, s.value)), tuple(reports))

    def guarded(
        self, s: Stmt, buffer: str, index: Sequence[Expr], values: ValueBounds
    ) -> tuple[list[Stmt], tuple[Expr, ...], Expr | None, list[Stmt]]:
        """The statements before an access, its index, the condition that it is inside, and the reports if not."""
        before: list[Stmt] = []
        places: list[Expr] = []
        inside: Expr | None = None
        reports: list[Stmt] = []
        for axis, (e, size) in enumerate(zip(index, self.buffers[buffer].shape, strict=True)):
            if values.from_zero_to(e, size - 1):
                places.append(e)
                continue
            place, holds = e, apply("lt", e, size_expr(size))
            if not values.from_zero_to(e, GREATEST):
                name = self.fresh("place")
                moved = apply("select", apply("lt", e, const(0)), apply("add", e, size_expr(size)), e)
                before.append(Let(name, moved))
                place = Local(name, e.dtype)
                holds = apply("and", apply("ge", place, const(0)), apply("lt", place, size_expr(size)))
            if self.recorder is not None:
                reports.append(If(apply("not", holds), tuple(self.recorder.outside(s, buffer, axis, size, e))))
            places.append(place)
            inside = holds if inside is None else apply("and", inside, holds)
        return before, tuple(places), inside, reports
