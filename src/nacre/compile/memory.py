"""Memory reuse: which results may take the place of an operand.

A kernel may write a result over an operand when every element of the operand is read, by the work item that writes
the same element of the result, before it is written.  Then, where nobody reads the operand any more, the two share
memory: a temporary passes its place in the arena on, and a variable is updated in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from nacre.kernel.ast import Buffer, Expr, For, If, Kernel, Load, Stmt, Store, While, children, expressions
from nacre.runtime.plan import Launch, Plan, Storage, epochs


def overwritable(kernel: Kernel) -> list[tuple[int, int]]:
    """Pairs (input, output) of a kernel such that the output may be written over the input."""
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], For) and body[0].parallel:
        body = body[0].body
    found: list[tuple[int, int]] = []
    for i, x in enumerate(kernel.inputs):
        for o, y in enumerate(kernel.outputs):
            if _alike(x, y) and _before(body, x.name, y.name):
                found.append((i, o))
    return found


def _alike(x: Buffer, y: Buffer) -> bool:
    return x.dtype is y.dtype and x.shape == y.shape and x.strides == y.strides and 0 not in (x.strides or ())


def _before(body: Sequence[Stmt], x: str, y: str) -> bool:
    """Whether all loads of x, at the index at which y is stored, come before that store."""
    mentions = [s for s in body if next(_loads(s, x), None) or next(_stores(s, y), None)]
    if len(mentions) == 1 and isinstance(mentions[0], For):
        return _before(mentions[0].body, x, y)
    stored: tuple[Expr, ...] | None = None
    indices: set[tuple[Expr, ...]] = set()
    for s in mentions:
        loads = list(_loads(s, x))
        stores = list(_stores(s, y))
        if stored is not None and (loads or stores):
            return False
        if stores and isinstance(s, For | If | While):
            return False
        indices.update(loads)
        if stores:
            stored = stores[0]
    return stored is not None and indices == {stored}


def _inside(s: Stmt) -> tuple[Stmt, ...]:
    match s:
        case For() | While():
            return s.body
        case If():
            return s.body + s.orelse
        case _:
            return ()


def _loads(s: Stmt, name: str) -> Iterator[tuple[Expr, ...]]:
    for e in expressions(s):
        yield from _expression_loads(e, name)
    for t in _inside(s):
        yield from _loads(t, name)


def _expression_loads(e: Expr, name: str) -> Iterator[tuple[Expr, ...]]:
    if isinstance(e, Load) and e.buffer == name:
        yield e.index
    for c in children(e):
        yield from _expression_loads(c, name)


def _stores(s: Stmt, name: str) -> Iterator[tuple[Expr, ...]]:
    if isinstance(s, Store) and s.buffer == name:
        yield s.index
    for t in _inside(s):
        yield from _stores(t, name)


def plan_memory(values: Sequence[Storage], steps: Sequence[Launch], inputs: int, outputs: int,
                at: tuple[int, ...] | None = None) -> Plan:
    """A plan with operands' memory passed on where that is allowed.

    `at` says how many barriers stand before each step; without it there are those that the order of the steps needs.
    """
    at = epochs(steps) if at is None else at
    last: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    for k, step in enumerate(steps):
        for v in {*step.reads, *step.writes}:
            last[v] = max(last.get(v, -1), at[k])
        for v in set(step.reads):
            readers.setdefault(v, []).append(k)
    reused = list(values)
    donations: list[tuple[int, int]] = []
    taken: set[int] = set()
    for k, step in enumerate(steps):
        for a, b in step.over:
            if last[a] != at[k] or any(r != k and at[r] == at[k] for r in readers[a]):
                continue
            if values[a].kind == "input" and values[b].kind == "output":
                donations.append((b - inputs, a))
            elif a not in taken and reused[b].reuses < 0 and values[a].kind == "temporary" \
                    and values[b].kind == "temporary" and values[a].nbytes == values[b].nbytes:
                reused[b] = replace(values[b], reuses=a)
                taken.add(a)
    return Plan(tuple(reused), tuple(steps), inputs, outputs, at, tuple(sorted(donations)))
