"""Expressions as calls: `and`, `or`, `not`, chained comparisons, conditional expressions, built-in functions."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from nacre.transform.autograph.scopes import has_walrus
from nacre.transform.autograph.statements import Statement

SYMBOLS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}

CALLED: Final = ("len", "type", "max", "min", "any", "all")  # built-in functions that the run-time functions know


def lazy(expression: ast.expr) -> ast.expr:
    """A function without parameters that computes an expression."""
    return ast.copy_location(ast.Lambda(_parameters([]), expression), expression)


def _generator(node: ast.expr) -> list[ast.expr]:
    """The iterable of a generator expression, and functions of an item: its value, its condition; empty for others."""
    if not isinstance(node, ast.GeneratorExp) or len(node.generators) != 1 or has_walrus(node):
        return []
    (loop,) = node.generators
    targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
    names = [x.id for x in targets if isinstance(x, ast.Name)]
    if loop.is_async or len(names) < len(targets):
        return []
    tests = [ast.BoolOp(ast.And(), loop.ifs)] if len(loop.ifs) > 1 else loop.ifs
    return [loop.iter, *(_of_item(x, names, loop.target) for x in (node.elt, *tests))]


def _of_item(expression: ast.expr, names: list[str], target: ast.expr) -> ast.expr:
    """A function of an item, which the names of a target are parts of."""
    made = ast.Lambda(_parameters(names), expression)
    if isinstance(target, ast.Tuple):
        item = ast.Starred(ast.Name("item", ast.Load()), ast.Load())
        made = ast.Lambda(_parameters(["item"]), ast.Call(made, [item], []))
    return ast.copy_location(made, expression)


def _parameters(names: list[str]) -> ast.arguments:
    return ast.arguments(
        posonlyargs=[], args=[ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[]
    )


class Expressions(ast.NodeTransformer):
    """Rewrites the expressions of one function.  Inner functions and classes are left to their own conversion."""

    def __init__(self, call: Callable[..., ast.Call], note: Callable[[Statement], int], first: str) -> None:
        self.call, self.note, self.first = call, note, first  # `first` is the parameter that `super()` means

    def visit(self, node: ast.AST) -> Any:
        """The converted node."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return node
        return super().visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """`a and b` as `and_(a, lambda: b)`."""
        plain = any(map(has_walrus, node.values[1:]))
        self.generic_visit(node)
        if plain:
            return node
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return self.call(name, node, self._at(node), node.values[0], *map(lazy, node.values[1:]))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """`not a` as `not_(a)`."""
        self.generic_visit(node)
        return self.call("not_", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """`a < b < c` as `compare(a, "<", lambda: b, "<", lambda: c)`."""
        plain = len(node.ops) < 2 or any(map(has_walrus, node.comparators))
        self.generic_visit(node)
        if plain:
            return node
        pairs = zip(node.ops, node.comparators, strict=True)
        parts = [part for op, right in pairs for part in (ast.Constant(SYMBOLS[type(op)]), lazy(right))]
        return self.call("compare", node, self._at(node), node.left, *parts)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """`a if test else b` as `if_else(test, lambda: a, lambda: b)`."""
        plain = has_walrus(node.body) or has_walrus(node.orelse)
        self.generic_visit(node)
        if plain:
            return node
        return self.call("if_else", node, self._at(node), node.test, lazy(node.body), lazy(node.orelse))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Functions with names of built-in ones as calls for values of the program; `super()` with its arguments."""
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        if called == "print":
            node.args = [self._text(x) if isinstance(x, ast.JoinedStr) else x for x in node.args]
        self.generic_visit(node)
        if called == "super" and not node.args and not node.keywords and self.first:
            return self.call("super_", node, node.func, *(ast.Name(x, ast.Load()) for x in ("__class__", self.first)))
        plain = called == "type" and (len(node.args) != 1 or isinstance(node.args[0], ast.Starred))  # makes a class
        if called in ("any", "all") and len(node.args) == 1 and not node.keywords:
            parts = _generator(node.args[0])
            if parts:
                return self.call("decided_", node, self._at(node), node.func, *parts)
        if called == "print":
            node.args.insert(0, node.func)
            node.func = self.call("print_", node).func
        elif called in CALLED and not plain:
            node.args[:0] = [self._at(node), node.func]
            node.func = self.call("called_", node).func
        return node

    def _text(self, node: ast.JoinedStr) -> ast.expr:
        """A text with values as a function of the values, so that it can be made when the program runs."""
        values: list[ast.expr] = []
        names: list[str] = []
        for part in [n for n in ast.walk(node) if isinstance(n, ast.FormattedValue)]:
            values.append(part.value)
            names.append(f"value_{len(names)}")
            part.value = ast.Name(names[-1], ast.Load())
        return self.call("text", node, ast.copy_location(ast.Lambda(_parameters(names), node), node), *values)

    def _at(self, node: ast.expr) -> ast.expr:
        return ast.Constant(self.note(Statement("expression", node.lineno)))
