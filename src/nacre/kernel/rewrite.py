"""Rebuilding kernels: a function is applied to their expressions, and the rest is unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nacre.kernel.ast import Accumulate, Apply, Expr, For, If, Index, Let, Load, Stmt, Store, While

HIGHEST = 32  # of a tree of operations without names


def map_expression(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """e with f applied to each subexpression, operands first; shared subexpressions stay shared."""
    done: dict[int, Expr] = {}

    def visit(x: Expr) -> Expr:
        """The expression rewritten from its leaves up, each shared subexpression once."""
        found = done.get(id(x))
        if found is None:
            match x:
                case Load():
                    y: Expr = replace(x, index=tuple(map(visit, x.index)))
                case Apply():
                    y = replace(x, args=tuple(map(visit, x.args)))
                case _:
                    y = x
            found = done[id(x)] = f(y)
        return found

    return visit(e)


def with_names(e: Expr, name: Callable[[Expr], Expr]) -> Expr:
    """e with `name` applied to operations that several operands share, and to some inside of deep ones.

    If it binds them to names, as `let` does, the rest is a small tree.
    """
    order, uses = _operations(e)
    done: dict[int, tuple[Expr, int]] = {}  # each operation and its height
    for x in order:
        parts = [done.get(id(a), (a, 0)) for a in x.args]
        new: Expr = replace(x, args=tuple(a for a, _ in parts))
        height = 1 + max((h for _, h in parts), default=0)
        if x is not e and (uses[id(x)] > 1 or height >= HIGHEST):
            new, height = name(new), 0
        done[id(x)] = new, height
    return done.get(id(e), (e, 0))[0]


def _operations(e: Expr) -> tuple[list[Apply], dict[int, int]]:
    """The operations of an expression, operands first, and how many operands of others each one is."""
    order: list[Apply] = []
    uses: dict[int, int] = {}
    todo: list[tuple[Expr, bool]] = [(e, False)]
    while todo:
        x, ready = todo.pop()
        if not isinstance(x, Apply):
            continue
        if ready:
            order.append(x)
            continue
        uses[id(x)] = uses.get(id(x), 0) + 1
        if uses[id(x)] == 1:
            todo.append((x, True))
            todo += [(a, False) for a in reversed(x.args)]
    return order, uses


def map_body(
    body: Sequence[Stmt], f: Callable[[Expr], Expr], place: Callable[[Store], tuple[Expr, ...]] = lambda s: s.index
) -> tuple[Stmt, ...]:
    """A body with f applied to each subexpression of each expression; `place` may give stores another index before."""

    def of(e: Expr) -> Expr:
        """The expression rewritten."""
        return map_expression(e, f)

    def visit(s: Stmt) -> Stmt:
        """The statement with its expressions rewritten."""
        match s:
            case Let():
                return replace(s, value=of(s.value))
            case Store():
                return replace(s, index=tuple(map(of, place(s))), value=of(s.value))
            case Accumulate():
                return replace(s, values=tuple(map(of, s.values)))
            case For():
                return replace(s, body=block(s.body))
            case If():
                return replace(s, condition=of(s.condition), body=block(s.body), orelse=block(s.orelse))
            case While():
                return replace(s, condition=of(s.condition), body=block(s.body))
            case _:
                return s

    def block(part: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """The statements of a block rewritten."""
        return tuple(map(visit, part))

    return block(body)


def substitute(body: Sequence[Stmt], indices: Mapping[str, Expr]) -> tuple[Stmt, ...]:
    """A body with loop indices replaced by expressions."""
    return map_body(body, lambda e: indices.get(e.name, e) if isinstance(e, Index) else e)
