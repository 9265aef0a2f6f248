"""Proofs about the elements that a kernel accesses: each one is stored once, or is read a few times at most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import field
from math import prod

from nacre.base.dims import Size
from nacre.base.records import dataclass
from nacre.kernel.affine import Affine, Scope, affine
from nacre.kernel.ast import (
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Stmt,
    Store,
    While,
    expressions,
    statements,
)
from nacre.kernel.dependence import loaded, loads_of

# ---- stores


def stored_once(kernel: Kernel, outputs: Set[str]) -> bool:
    """Whether a kernel stores each element of some outputs once, for all inputs.

    Elements of one index are stored in one block, of which each side of an `if` may have its own.
    """
    shapes = {b.shape for b in kernel.outputs if b.name in outputs}
    if len(shapes) != 1:
        return False
    found = _stored(kernel.body, outputs, Scope({}, {}))
    return found is not None and _is_whole(*found, shapes.pop())


_Found = tuple[list[Affine], Mapping[str, Size]]  # the index that a block stores, and the loops around


def _stored(body: Sequence[Stmt], outputs: Set[str], scope: Scope) -> _Found | None:
    """The one index at which a block stores each of some outputs once; None if there is no such index."""
    found: _Found | None = None
    rest = set(outputs)
    for s in body:
        mine = {t.buffer for t in (s, *statements((s,))) if isinstance(t, Store)} & outputs
        here: _Found | None = None
        match s:
            case Let():
                scope = scope.behind(s.name, s.value)
            case Store() if mine:
                here = [affine(e, scope) for e in s.index], scope.extents
            case For() if mine:
                here = _stored(s.body, outputs, scope.inside(s.index, s.extent))
            case If() if mine:
                sides = [_stored(b, outputs, scope) for b in (s.body, s.orelse)]
                here = sides[0] if sides[0] == sides[1] else None
            case _:
                pass
        if not mine:
            continue
        if here is None or not mine <= rest or (found is not None and found != here):
            return None
        if mine != outputs and not isinstance(s, Store):
            return None
        found, rest = here, rest - mine
    return None if rest else found


def _is_whole(index: Sequence[Affine], loops: Mapping[str, Size], shape: Sequence[Size]) -> bool:
    """Whether the loops around an index reach each element of a shape once, forwards or backwards."""
    used: set[str] = set()
    for form, size in zip(index, shape, strict=True):
        if len(form.terms) != 1:
            return False
        ((atom, factor),) = form.terms
        if not isinstance(atom, Index) or atom.name not in loops or atom.name in used or factor not in (1, -1):
            return False
        if loops[atom.name] != size or form.constant != (0 if factor == 1 else size - 1):
            return False
        used.add(atom.name)
    return all(extent == 1 for name, extent in loops.items() if name not in used)


# ---- loads


def reads_of_each(kernel: Kernel, buffer: str) -> int | None:
    """The most times that a kernel loads an element of an input; None if that is not known.

    Equal loads of a block, and of those in it, are one.
    """
    return _reads(kernel.body, buffer, Scope({}, {}), set())


def _reads(body: Sequence[Stmt], buffer: str, scope: Scope, seen: Set[Load]) -> int | None:
    total, known = 0, set(seen)
    for s in body:
        if isinstance(s, While):
            if buffer in loaded((s,)):
                return None
            continue
        for load in loads_of(expressions(s)):
            if load.buffer != buffer:
                continue
            times = 0 if load in known else _times(load, scope)
            if times is None:
                return None
            known.add(load)
            total += times
        inner: list[int | None] = []
        match s:
            case Let():
                scope = scope.behind(s.name, s.value)
            case For():
                inner = [_reads(s.body, buffer, scope.inside(s.index, s.extent), known)]
            case If():
                inner = [_reads(b, buffer, scope, known) for b in (s.body, s.orelse)]
            case _:
                pass
        if None in inner:
            return None
        total += max((n for n in inner if n is not None), default=0)
    return total


def _times(load: Load, scope: Scope) -> int | None:
    """The most times that the loops around a load reach one index; None if data decides it, or symbolic sizes do.

    Along each axis one loop moves the index.  The others repeat it.
    """
    rest = dict(scope.extents)
    moving: set[str] = set()
    axes: list[tuple[str | None, set[str]]] = []
    for form in (affine(e, scope) for e in load.index):
        if not all(isinstance(atom, Index) for atom, _ in form.terms):
            return None
        here = {atom.name for atom, _ in form.terms if isinstance(atom, Index)}
        chosen = max(here & rest.keys(), key=lambda n: _rank(rest[n]), default=None)
        if chosen is not None:
            rest.pop(chosen)
            moving.add(chosen)
        axes.append((chosen, here))
    if any(chosen is not None and moving & (here - {chosen}) for chosen, here in axes):
        return None
    extents = [n for n in rest.values() if n != 1]
    return prod(n for n in extents if isinstance(n, int)) if all(isinstance(n, int) for n in extents) else None


def _rank(extent: Size) -> int:
    """The order of extents, symbolic ones last."""
    return extent if isinstance(extent, int) else 1 << 62


# ---- places


@dataclass(frozen=True)
class AccessPlace:
    """A block that accesses a buffer: the loops around it."""

    block: tuple[Stmt, ...]
    loops: tuple[For, ...]

    @property
    def in_vectors(self) -> bool:
        """Whether iterations around it run as lanes of vectors."""
        return any(s.vector for s in self.loops)

    @property
    def in_threads(self) -> bool:
        """Whether iterations around it run on several threads."""
        return any(s.parallel for s in self.loops)

    @property
    def iteration(self) -> tuple[Stmt, ...]:
        """The statements of the innermost loop."""
        return self.loops[-1].body if self.loops else self.block


@dataclass
class _Places:
    buffers: Set[str]
    found: list[AccessPlace] = field(default_factory=list[AccessPlace])

    def block(self, body: tuple[Stmt, ...], loops: tuple[For, ...]) -> None:
        """Note a block, and those inside of it."""
        stored = {s.buffer for s in body if isinstance(s, Store)}
        read = {load.buffer for load in loads_of([e for s in body for e in expressions(s)])}
        own = not self.buffers.isdisjoint(stored | read)
        if own:
            self.found.append(AccessPlace(body, loops))
        for s in body:
            match s:
                case For():
                    self.block(s.body, (*loops, s))
                case If():
                    self.block(s.body, loops)
                    self.block(s.orelse, loops)
                case While():
                    self.block(s.body, loops)
                case _:
                    pass


def places(kernel: Kernel, buffers: Set[str]) -> list[AccessPlace]:
    """The blocks of a kernel that themselves load from some buffers or store to them."""
    walk = _Places(buffers)
    walk.block(kernel.body, ())
    return walk.found
