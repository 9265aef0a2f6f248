"""Rebuilding kernels: a function is applied to their expressions, and the rest is unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nacre.kernel.ast import Accumulate, Apply, Expr, For, If, Index, Let, Load, Stmt, Store, While


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


def map_body(body: Sequence[Stmt], f: Callable[[Expr], Expr]) -> tuple[Stmt, ...]:
    """A body with f applied to each subexpression of each expression."""

    def of(e: Expr) -> Expr:
        """The expression rewritten."""
        return map_expression(e, f)

    def visit(s: Stmt) -> Stmt:
        """The statement with its expressions rewritten."""
        match s:
            case Let():
                return replace(s, value=of(s.value))
            case Store():
                return replace(s, index=tuple(map(of, s.index)), value=of(s.value))
            case Accumulate():
                return replace(s, values=tuple(map(of, s.values)))
            case For():
                return replace(s, body=map_body(s.body, f))
            case If():
                return replace(s, condition=of(s.condition), body=map_body(s.body, f), orelse=map_body(s.orelse, f))
            case While():
                return replace(s, condition=of(s.condition), body=map_body(s.body, f))
            case _:
                return s

    return tuple(map(visit, body))


def substitute(body: Sequence[Stmt], indices: Mapping[str, Expr]) -> tuple[Stmt, ...]:
    """A body with loop indices replaced by expressions."""
    return map_body(body, lambda e: indices.get(e.name, e) if isinstance(e, Index) else e)
