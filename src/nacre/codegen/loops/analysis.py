"""Analysis of a loop nest before code generation: its reductions, its cost, and its width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nacre.base.dtypes import DType, bool_, int64
from nacre.codegen.loops.operations import CHEAP
from nacre.codegen.loops.reductions import Reduction
from nacre.kernel.ast import (
    Accumulate,
    Apply,
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
    children,
    expressions,
    statements,
)
from nacre.native.isa import Isa

LONG = frozenset(("sin", "cos", "tan", "pow", "atan2", "asinh", "acosh", "atanh", "rem"))
CHAIN = 3  # a chain of a length dominates a body of fewer instructions than this multiple of the length
LIGHT = 12  # instructions for an element up to which a loop is memory-bound
HEAVY = 120  # instructions for an element from which on interleaved vectors have no registers left


def reductions(body: Sequence[Stmt], dtypes: dict[str, DType]) -> dict[str, Reduction]:
    """The reductions into accumulators, by the accumulators' names."""
    found: dict[str, Reduction] = {}
    for s in statements(tuple(body)):
        if isinstance(s, Accumulate):
            r = Reduction(s.op, s.accumulators, tuple(dtypes[a] for a in s.accumulators))
            found.update(dict.fromkeys(s.accumulators, r))
    return found


def directly(body: Sequence[Stmt]) -> Iterable[Accumulate]:
    """The accumulations of a body that are not in a loop inside it."""
    for s in body:
        if isinstance(s, Accumulate):
            yield s
        elif isinstance(s, If):
            yield from directly(s.body)
            yield from directly(s.orelse)


def weight(body: Sequence[Stmt]) -> int:
    """A rough count of an iteration's instructions; elementary functions count 20 or 80, inner loops 4 iterations."""
    total = 0
    for s in body:
        total += sum(_weight(e, set()) for e in expressions(s)) + 1
        if isinstance(s, For | While):
            total += 4 * weight(s.body)
        elif isinstance(s, If):
            total += weight(s.body) + weight(s.orelse)
    return total


def _weight(e: Expr, seen: set[int]) -> int:
    if id(e) in seen:
        return 0
    seen.add(id(e))
    own = (1 if e.op in CHEAP else 80 if e.op in LONG else 20) if isinstance(e, Apply) else int(isinstance(e, Load))
    return own + sum(_weight(c, seen) for c in children(e))


def elementary(body: Sequence[Stmt]) -> bool:
    """Whether a body has operations that take many instructions."""
    todo = [e for s in statements(tuple(body)) for e in expressions(s)]
    seen: set[int] = set()
    while todo:
        e = todo.pop()
        if isinstance(e, Apply) and e.op not in CHEAP:
            return True
        if id(e) not in seen:
            seen.add(id(e))
            todo += children(e)
    return False


def chained(body: Sequence[Stmt]) -> bool:
    """Whether a straight-line body is one long chain: most of its instructions depend on the one before."""
    depths: dict[str | int, int] = {}

    def depth(e: Expr) -> int:
        """The length of the longest chain that ends in an expression."""
        if isinstance(e, Local):
            return depths.get(e.name, 0)
        if id(e) not in depths:
            depths[id(e)] = isinstance(e, Apply) + max(map(depth, children(e)), default=0)
        return depths[id(e)]

    longest = 0
    for s in body:
        if not isinstance(s, Let | Store):
            return False
        found = depth(s.value)
        longest = max(longest, found)
        if isinstance(s, Let):
            depths[s.name] = found
    return longest > LIGHT and CHAIN * longest > weight(body)


def value_bits(body: Sequence[Stmt], buffers: dict[str, Buffer]) -> int:
    """The width that determines the number of lanes of a vector loop.

    It is that of the narrowest type of the computation with at least 32 bits; half types are computed in 32 bits.
    Only loops on narrow integers have more lanes.
    """
    found: set[DType] = set()

    def visit(e: Expr) -> None:
        """Record the dtypes of an expression's values, not of its indices."""
        if isinstance(e, Load):
            found.add(e.dtype)  # not its indices
            return
        if isinstance(e, Apply) and e.dtype is not int64:
            found.add(e.dtype)
        for c in children(e):
            visit(c)

    for s in statements(tuple(body)):
        for e in (s.value,) if isinstance(s, Store) else expressions(s):
            visit(e)
        if isinstance(s, Store) and s.buffer in buffers:
            found.add(buffers[s.buffer].dtype)
    bits = {d.arithmetic.storage_bits for d in found if d is not bool_}
    large = [b for b in bits if b >= 32]
    return min(large) if large else max(bits, default=8 if found else 64)


def lanes_for(body: Sequence[Stmt], buffers: dict[str, Buffer], isa: Isa) -> int:
    """The number of lanes of a vector loop."""
    return max(1, isa.vector_bits // value_bits(body, buffers))


def has_local(e: Expr) -> bool:
    """Whether an expression reads a name or a buffer."""
    return isinstance(e, Local | Load) or any(map(has_local, children(e)))


def distinct_loads(body: Sequence[Stmt]) -> list[Load]:
    """The distinct loads of a body."""
    found: dict[tuple[str, tuple[Expr, ...]], Load] = {}
    seen: set[int] = set()

    def visit(e: Expr) -> None:
        """Record the loads in an expression, each once."""
        if id(e) not in seen:
            seen.add(id(e))
            if isinstance(e, Load):
                found[e.buffer, e.index] = e
            for c in children(e):
                visit(c)

    for s in body:
        for e in expressions(s):
            visit(e)
    return list(found.values())


def abreast(body: Sequence[Stmt], isa: Isa) -> int:
    """The number of vectors that an iteration of an innermost loop interleaves.

    Elementary functions are long chains of dependent instructions: with one vector, most of the machine would be idle.
    So are the rounds of a random number.
    """
    load = weight(body)
    if not elementary(body):
        return isa.registers // 8 if chained(body) else 1
    if not LIGHT < load <= HEAVY:
        return 1
    return isa.registers // (8 if load <= HEAVY // 2 else 16)
