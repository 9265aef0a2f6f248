"""Temporary rows of a kernel, stored in the memory of its results.

A row in scratch memory costs nothing to write and to read.  But the result that is computed from it is then written by
a pass without computation, which waits for memory.  If the row is stored in the result, computing the row loads the
result's cache lines, and the last pass finds them in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nacre.kernel.ast import (
    Alloc,
    Buffer,
    Const,
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
    statements,
)
from nacre.kernel.dependence import loaded, loads
from nacre.kernel.rewrite import map_body


def kept_in_results(kernel: Kernel, spared: frozenset[str]) -> Kernel:
    """The kernel with scratch rows stored in the results that are computed from them, except in `spared` results."""
    loops: list[For] = []
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], For) and body[0].parallel:
        loops.append(body[0])
        body = body[0].body
    results = {b.name: b for b in kernel.outputs if b.name not in spared}
    allocations = [s.buffer.name for s in statements(body) if isinstance(s, Alloc)]
    for s in body:
        if isinstance(s, Alloc) and len(s.buffer.shape) == 1 and allocations.count(s.buffer.name) == 1:
            found = _store(body, s.buffer, results)
            if found is not None:
                del results[found.buffer]
                body = _moved(body, s, found)
    for loop in reversed(loops):
        body = (replace(loop, body=body),)
    return replace(kernel, body=body)


def _store(body: Sequence[Stmt], row: Buffer, results: dict[str, Buffer]) -> Store | None:
    """The store of a result's row in the last loop that uses a scratch row, if it is the last statement there.

    Elements of the result are then free until that store, and the row's element at its index is not used behind it.
    """
    last = next((s for s in reversed(body) if _places((s,), row.name)), None)
    if not isinstance(last, For) or not isinstance(last.body[-1], Store):
        return None
    store = last.body[-1]
    result = results.get(store.buffer)
    if result is None or result.dtype is not row.dtype or not all(isinstance(s, Let | Store) for s in last.body):
        return None
    *outer, place = store.index or (None,)
    plain = place == Index(last.index) and all(isinstance(i, Index | Const) and i != place for i in outer)
    alone = all(index == (place,) for index in _places((last,), row.name))
    once = sum(isinstance(s, Store) and s.buffer == store.buffer for s in statements(tuple(body))) == 1
    whole = last.extent == row.shape[0] == result.shape[-1] and (result.strides or (1,))[-1] == 1
    return store if plain and alone and once and whole and store.buffer not in loaded(body) else None


def _places(body: Sequence[Stmt], row: str) -> list[tuple[Expr, ...]]:
    """The indices at which a body loads from a row and stores to it."""
    stored = [s.index for s in statements(tuple(body)) if isinstance(s, Store) and s.buffer == row]
    return stored + [e.index for e in loads(body) if e.buffer == row]


def _moved(body: Sequence[Stmt], alloc: Alloc, store: Store) -> tuple[Stmt, ...]:
    """A body with a scratch row stored in a result."""
    name, outer = alloc.buffer.name, store.index[:-1]

    def load(e: Expr) -> Expr:
        """A load of the row from the result."""
        if isinstance(e, Load) and e.buffer == name:
            return replace(e, buffer=store.buffer, index=(*outer, *e.index))
        return e

    def visit(s: Stmt) -> Stmt:
        """A statement that stores the row in the result."""
        if isinstance(s, Store) and s.buffer == name:
            return replace(s, buffer=store.buffer, index=(*outer, *s.index))
        if isinstance(s, If):
            return replace(s, body=tuple(map(visit, s.body)), orelse=tuple(map(visit, s.orelse)))
        return replace(s, body=tuple(map(visit, s.body))) if isinstance(s, For | While) else s

    return tuple(map(visit, map_body([s for s in body if s is not alloc], load)))
