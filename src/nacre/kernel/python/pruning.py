"""Removal of what a translation leaves over: names and scratch that nothing reads, empty blocks, loops of no round."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.kernel.affine import names
from nacre.kernel.ast import Accumulate, Alloc, For, If, Let, Stmt, Store, While, expressions, statements


def pruned(body: Sequence[Stmt], outputs: frozenset[str]) -> tuple[Stmt, ...]:
    """The statements that outputs depend on."""
    found = tuple(body)
    while True:
        used = set(outputs)
        for s in statements(found):
            used |= _read(s)
        fewer = _without(found, used)
        if fewer == found:
            return found
        found = fewer


def _read(s: Stmt) -> set[str]:
    """The names and buffers that a statement reads."""
    found: set[str] = set()
    for e in expressions(s):
        found |= names(e, {})
    return found


def _without(body: Sequence[Stmt], used: set[str]) -> tuple[Stmt, ...]:
    found: list[Stmt] = []
    for s in body:
        match s:
            case Let() if s.name not in used:
                pass
            case Store() if s.buffer not in used:
                pass
            case Alloc() if s.buffer.name not in used:
                pass
            case Accumulate() if not used.intersection(s.accumulators):
                pass
            case For():
                inside = _without(s.body, used)
                if inside and s.extent != 0:
                    found.append(For(s.index, s.extent, inside, s.parallel, s.vector))
            case If():
                sides = _without(s.body, used), _without(s.orelse, used)
                if any(sides):
                    found.append(If(s.condition, *sides))
            case While():
                found.append(While(s.condition, _without(s.body, used)))
            case _:
                found.append(s)
    return tuple(found)
