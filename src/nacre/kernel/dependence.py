"""Dependences between iterations of a loop: which loops may run in any order, and which as lanes of a vector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nacre.base.dims import Size, lower, upper
from nacre.kernel.affine import Affine, Scope, affine, names, offset
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Buffer,
    Expr,
    For,
    Index,
    Let,
    Load,
    Stmt,
    Store,
    While,
    children,
    expressions,
    statements,
)


def allocated(body: Sequence[Stmt]) -> frozenset[str]:
    """The buffers that a body allocates."""
    return frozenset(s.buffer.name for s in statements(tuple(body)) if isinstance(s, Alloc))


def written(body: Sequence[Stmt]) -> list[str]:
    """The outer buffers that a body stores to or accumulates into, in order."""
    found: dict[str, None] = {}
    for s in statements(tuple(body)):
        if isinstance(s, Store):
            found[s.buffer] = None
        elif isinstance(s, Accumulate):
            found.update(dict.fromkeys(s.accumulators))
    inside = allocated(body)
    return [name for name in found if name not in inside]


def loads(body: Sequence[Stmt]) -> list[Load]:
    """The loads of a body, without duplicates."""
    return loads_of([e for s in statements(tuple(body)) for e in expressions(s)])


def loads_of(given: Sequence[Expr]) -> list[Load]:
    """The loads of expressions, without duplicates."""
    found: list[Load] = []
    seen: set[int] = set()
    todo = list(given)
    while todo:
        e = todo.pop()
        if id(e) not in seen:
            seen.add(id(e))
            todo += children(e)
            if isinstance(e, Load):
                found.append(e)
    return found


def loaded(body: Sequence[Stmt]) -> set[str]:
    """The buffers that a body loads from, including its own scratch."""
    return {e.buffer for e in loads(body)}


def varying(body: Sequence[Stmt], index: str) -> set[str]:
    """The names in a loop's body whose values may differ between its iterations."""
    found = {index}
    remembered: dict[int, frozenset[str]] = {}
    for s in statements(tuple(body)):
        match s:
            case For():
                found.add(s.index)
            case Alloc():
                found.add(s.buffer.name)
            case Store():
                found.add(s.buffer)
            case Accumulate():
                found.update(s.accumulators)
            case Let() if names(s.value, remembered) & found:
                found.add(s.name)
            case _:
                pass
    return found


def across(body: Sequence[Stmt], index: str) -> set[str]:
    """The names in a loop's body that differ between the lanes when the loop runs as a vector."""
    found = {index} | allocated(body)
    remembered: dict[int, frozenset[str]] = {}
    for s in statements(tuple(body)):
        if isinstance(s, Let) and names(s.value, remembered) & found:
            found.add(s.name)
    return found


def lane_obstacle(loop: For, states: Iterable[str], buffers: Mapping[str, Buffer], scope: Scope) -> str | None:
    """Why iterations of a loop cannot be lanes of a vector; None if they can, provided that they are independent.

    `states` are the scalars (buffers of shape ()) allocated around the loop, `buffers` all others.
    """
    lanes = across(loop.body, loop.index)
    outer = set(states)
    private = allocated(loop.body)
    remembered: dict[int, frozenset[str]] = {}
    for s in statements(loop.body):
        if isinstance(s, While) and names(s.condition, remembered) & lanes:
            return "its rounds would leave a while at different times"
        if isinstance(s, Store) and s.buffer not in private:
            if s.buffer in outer:
                return f"the scalar {s.buffer} is carried from round to round"
            form = offset(buffers[s.buffer], s.index, scope)
            if form.coefficient(loop.index) == 0 and not any(names(a, remembered) & lanes for a, _ in form.terms):
                return f"its rounds store to the same element of {s.buffer}"
    return None


def obstacle(loop: For, scope: Scope) -> str | None:
    """Why iterations of a loop are not independent of each other; None if they are.

    They are independent if each buffer that is stored to has an axis in which every access has the same index, and that
    index differs between iterations.  The iterations then store to different elements.
    """
    folded = accumulated(loop.body)
    if folded:
        return f"its rounds accumulate into {', '.join(folded)}"
    return memory_obstacle(loop, scope)


def accumulated(body: Sequence[Stmt]) -> list[str]:
    """The outer accumulators that a body accumulates into."""
    private = allocated(body)
    found = [a for s in statements(tuple(body)) if isinstance(s, Accumulate) for a in s.accumulators]
    return [a for a in dict.fromkeys(found) if a not in private]


def memory_obstacle(loop: For, scope: Scope) -> str | None:
    """Why iterations of a loop may store to the same elements; None if they store to different ones."""
    folded = accumulated(loop.body)
    for name in written(loop.body):
        if name not in folded and not separate(loop, name, scope):
            return f"its rounds may store to the same elements of {name}"
    return None


def separate(loop: For, buffer: str, scope: Scope) -> bool:
    """Whether iterations of a loop access different elements of a buffer that they store to."""
    inside = within(loop, scope)
    changing = varying(loop.body, loop.index)
    accesses = list(_accesses(loop.body, buffer))
    return any(_separates(loop, axis, inside, changing) for axis in zip(*accesses, strict=True))


def within(loop: For, scope: Scope) -> Scope:
    """The scope with the loop, all loops inside, and all names of its body."""
    inner = list(statements(loop.body))
    extents = {s.index: s.extent for s in (loop, *inner) if isinstance(s, For)}
    lets = {s.name: s.value for s in inner if isinstance(s, Let)}
    return Scope({**scope.extents, **extents}, {**scope.lets, **lets})


def _accesses(body: Sequence[Stmt], buffer: str) -> Iterable[tuple[Expr, ...]]:
    """The indices at which a body stores to a buffer or loads from it."""

    def loads(e: Expr) -> Iterable[tuple[Expr, ...]]:
        """The indices of the expression's loads from the buffer."""
        if isinstance(e, Load) and e.buffer == buffer:
            yield e.index
        for c in children(e):
            yield from loads(c)

    for s in statements(tuple(body)):
        if isinstance(s, Store) and s.buffer == buffer:
            yield s.index
        for e in expressions(s):
            yield from loads(e)


def _separates(loop: For, axis: Sequence[Expr], scope: Scope, changing: set[str]) -> bool:
    """Whether index expressions along an axis differ between iterations by more than within one.

    They are one expression, with constants.
    """
    forms = [affine(e, scope) for e in axis]
    first = forms[0]
    step = first.coefficient(loop.index)
    apart = [f.constant - first.constant for f in forms]
    if any(f.terms != first.terms for f in forms) or not isinstance(step, int) or step == 0:
        return False
    if not all(isinstance(d, int) for d in apart):
        return False
    return _reach(first, loop.index, scope, changing) + max(map(lower, apart)) - min(map(lower, apart)) < abs(step)


def _reach(form: Affine, index: str, scope: Scope, changing: set[str]) -> int:
    """The most by which a form can differ within one iteration of the loop of an index."""
    total = 0
    for atom, c in form.terms:
        if names(atom, {}) & changing and atom != Index(index):
            if not isinstance(atom, Index) or not isinstance(c, int):
                return 1 << 62
            total += abs(c) * max(upper(scope.extents[atom.name]) - 1, 0)
    return total


def stride(buffer: Buffer, index: Sequence[Expr], loop: str, scope: Scope) -> Size | None:
    """The distance in memory between an access in one iteration and in the next; None if it is not constant."""
    form = offset(buffer, index, scope)
    if any(not isinstance(a, Index) and loop in names(a, {}) for a, _ in form.terms):
        return None
    return form.coefficient(loop)
