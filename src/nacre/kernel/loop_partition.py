"""Loop splitting for choices that depend only on the position in a loop: in ranges of iterations they are constant.

An element of a concatenation, of a padded or of a rolled array is chosen by comparing a loop's index with sizes.  Such
a comparison changes its value at one iteration.  `partition_loops` writes a case for each range between such
iterations, as `if` in the innermost body, with the choices resolved.  Within a case, indices need no clamping, and
other cases' reads are removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from nacre.base.dims import Size
from nacre.base.dtypes import bool_, int64
from nacre.base.errors import ShapeError
from nacre.kernel.affine import Affine, Scope, affine, names
from nacre.kernel.ast import (
    Apply,
    Const,
    Expr,
    Extent,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Stmt,
    Store,
    children,
    expressions,
)
from nacre.kernel.rewrite import map_expression

MOST = 32  # maximum number of cases in a kernel
SHORT = 8  # iterations of a loop up to which lanes do not pay
COMPARED = {"lt": 0, "ge": 0, "le": 1, "gt": 1, "minimum": 1, "maximum": 0}  # the cut minus the difference's root

Ranges = Mapping[str, tuple[Size, Size]]  # of each index: the first iteration, and the one after the last


def partition_loops(kernel: Kernel) -> Kernel:
    """The kernel with a case for each range of its loops, if it is a nest of loops around loads and stores."""
    loops: list[For] = []
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], For):
        loops.append(body[0])
        body = body[0].body
    if not loops or not all(isinstance(s, Let | Store) for s in body):
        return kernel
    scope = Scope({s.index: s.extent for s in loops}, {s.name: s.value for s in body if isinstance(s, Let)})
    found = _cuts(body, scope)
    count = 1
    cuts: list[tuple[For, list[Size]]] = []
    for s in reversed(loops):
        own = _ordered(found.get(s.index, ()), s.extent)
        count *= len(own) + 1
        if own and count <= MOST:
            cuts.insert(0, (s, own))
    if not cuts:
        return kernel
    if any(s is loops[-1] for s, _ in cuts):
        loops = _long_lanes(loops)
    nest = _cases(body, cuts, {}, scope)
    for s in reversed(loops):
        nest = (replace(s, body=nest),)
    return replace(kernel, body=nest)


def long_lanes(kernel: Kernel) -> Kernel:
    """A nest with its last loop but one as the vector loop, if the last is short; its accesses are independent."""
    loops: list[For] = []
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], For):
        loops.append(body[0])
        body = body[0].body
    for s in reversed(_long_lanes(loops)):
        body = (replace(s, body=body),)
    return replace(kernel, body=body)


def _long_lanes(loops: list[For]) -> list[For]:
    """The loops with the last but one as the vector loop, if the last is short: a stack's last axis."""
    if len(loops) < 2:
        return loops
    *outer, before, last = loops
    if not (before.parallel and last.parallel and last.vector):
        return loops
    if not isinstance(last.extent, int) or last.extent > SHORT or _certainly(before.extent, last.extent):
        return loops
    return [*outer, replace(before, vector=True), replace(last, vector=False, parallel=False)]


def _cases(
    body: Sequence[Stmt], cuts: Sequence[tuple[For, list[Size]]], ranges: Ranges, scope: Scope
) -> tuple[Stmt, ...]:
    """The body for each range of the first loop's iterations, and within it of the other loops'."""
    if not cuts:
        return _resolved(body, ranges, scope)
    (loop, own), *rest = cuts
    edges = [0, *own, loop.extent]
    stretches = [_cases(body, rest, {**ranges, loop.index: (low, high)}, scope) for low, high in pairwise(edges)]
    found = stretches[-1]
    for cut, case in zip(reversed(own), reversed(stretches[:-1]), strict=True):
        if case != found:
            found = (If(Apply("lt", (Index(loop.index), Extent(cut)), bool_), case, found),)
    return found


# ---- where cases begin


def _cuts(body: Sequence[Stmt], scope: Scope) -> dict[str, list[Size]]:
    """For each index, the iterations at which a comparison changes its value."""
    found: dict[str, list[Size]] = {}
    for e in _parts(body):
        cut = _cut(e, scope)
        if cut is not None and cut[1] not in found.setdefault(cut[0], []):
            found[cut[0]].append(cut[1])
    return found


def _parts(body: Sequence[Stmt]) -> Iterator[Expr]:
    """All expressions of a body and their subexpressions, without duplicates."""
    seen: set[int] = set()
    todo = [e for s in body for e in expressions(s)]
    while todo:
        e = todo.pop()
        if id(e) not in seen:
            seen.add(id(e))
            yield e
            todo += children(e)


def _cut(e: Expr, scope: Scope) -> tuple[str, Size] | None:
    """The index, and the iteration from which on, or before which, a comparison holds."""
    compared = _compared(e, scope)
    if compared is None:
        return None
    name, sign, root = compared
    assert isinstance(e, Apply)
    if sign > 0:
        return name, root + COMPARED[e.op]
    return name, root + 1 - COMPARED[e.op]


def _compared(e: Expr, scope: Scope) -> tuple[str, int, Size] | None:
    """The index i, its sign and the root r of the difference sign · (i − r) of two compared values.

    In a minimum or maximum, the operand with the index counts as the first.
    """
    if not isinstance(e, Apply) or e.op not in COMPARED or e.args[0].dtype is not int64:
        return None
    a, b = (affine(x, scope) for x in e.args)
    if e.op in ("minimum", "maximum") and not a.terms:
        a, b = b, a
    difference = a.plus(b, -1)
    if len(difference.terms) != 1:
        return None
    ((atom, factor),) = difference.terms
    if not isinstance(atom, Index) or factor not in (1, -1) or atom.name not in scope.extents:
        return None
    return (atom.name, 1, -difference.constant) if factor == 1 else (atom.name, -1, difference.constant)


def _ordered(cuts: Sequence[Size], extent: Size) -> list[Size]:
    """Cuts inside a loop, ascending; without those whose order depends on symbolic sizes."""
    kept: list[Size] = []
    for cut in cuts:
        if _certainly(cut, 0) or _certainly(extent, cut):
            continue
        if not all(_certainly(cut, k) or _certainly(k, cut) for k in (0, extent, *kept)):
            continue
        at = sum(_certainly(k, cut) for k in kept)
        kept.insert(at, cut)
    return kept


def _certainly(a: Size, b: Size) -> bool:
    """Whether a <= b for every size."""
    try:
        return bool(a <= b)
    except ShapeError:
        return False


# ---- simplification of a case


def _resolved(body: Sequence[Stmt], ranges: Ranges, scope: Scope) -> tuple[Stmt, ...]:
    """The body for indices within ranges, with choices resolved and unused values removed."""
    known: dict[str, Expr] = {}
    decide = partial(_decided, ranges=ranges, scope=scope, known=known)
    found: list[Stmt] = []
    for s in body:
        if isinstance(s, Let):
            value = map_expression(s.value, decide)
            if isinstance(value, Const):
                known[s.name] = value
            else:
                found.append(Let(s.name, value))
        elif isinstance(s, Store):
            index = tuple(map_expression(i, decide) for i in s.index)
            found.append(replace(s, index=index, value=map_expression(s.value, decide)))
    wanted: set[str] = set()
    remembered: dict[int, frozenset[str]] = {}
    kept: list[Stmt] = []
    for s in reversed(found):
        if not isinstance(s, Let) or s.name in wanted:
            kept.insert(0, s)
            wanted.update(*(names(e, remembered) for e in expressions(s)))
    return tuple(kept)


def _decided(e: Expr, ranges: Ranges, scope: Scope, known: Mapping[str, Expr]) -> Expr:
    """An expression with simplified operands, simplified itself if possible."""
    match e:
        case Load():
            return replace(e, index=tuple(_plain(i, scope) for i in e.index))
        case Apply(op="select", args=(Const() as c, a, b)):
            return a if c.value else b
        case Apply(op="and" | "or", args=(a, b), dtype=dtype) if dtype is bool_:
            for x, y in ((a, b), (b, a)):
                if isinstance(x, Const):
                    return y if bool(x.value) == (e.op == "and") else x
            return e
        case Apply(op="not", args=(Const() as c,), dtype=dtype) if dtype is bool_:
            return Const(not c.value, bool_)
        case Apply():
            return _compared_decided(e, ranges, scope)
        case _:
            return known.get(getattr(e, "name", ""), e) if not isinstance(e, Index) else e


def _compared_decided(e: Apply, ranges: Ranges, scope: Scope) -> Expr:
    cut, compared = _cut(e, scope), _compared(e, scope)
    if cut is None or compared is None or cut[0] not in ranges:
        return e
    (low, high), sign = ranges[cut[0]], compared[1]
    if _certainly(high, cut[1]):
        below = True
    elif _certainly(cut[1], low):
        below = False
    else:
        return e
    less = below == (sign > 0)  # the difference is less than that of the cut
    if e.op in ("minimum", "maximum"):
        a, b = e.args if affine(e.args[0], scope).terms else reversed(e.args)
        return a if less == (e.op == "minimum") else b
    return Const(less == (e.op in ("lt", "le")), bool_)


def _plain(e: Expr, scope: Scope) -> Expr:
    """A sum of a loop's index and a size, with the size as an `Extent`, which may become a symbol."""
    form: Affine = affine(e, scope)
    if len(form.terms) != 1 or form.constant == 0 or not isinstance(e, Apply):
        return e
    ((atom, factor),) = form.terms
    if not isinstance(atom, Index) or factor != 1:
        return e
    negative = not isinstance(form.constant, int) or form.constant < 0
    size = -form.constant if negative else form.constant
    return Apply("sub" if negative else "add", (atom, Extent(size)), int64)
