"""Expressions as calls: `and`, `or`, `not`, chained comparisons, conditional expressions, `print` and `super()`."""

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


def lazy(expression: ast.expr) -> ast.expr:
    """A function without parameters that computes an expression."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(nothing, expression), expression)


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
        """`print`, `type`, `len`, `max` and `min` as calls for values of the program; `super()` with its arguments."""
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        if called == "super" and not node.args and self.first:
            node.args = [ast.Name("__class__", ast.Load()), ast.Name(self.first, ast.Load())]
        if called in ("type", "len") and len(node.args) == 1 and not node.keywords:
            self.generic_visit(node)
            return self.call(f"{called}_", node, node.func, *node.args)
        if called in ("max", "min"):
            self.generic_visit(node)
            node.args[:0] = [self._at(node), node.func]
            node.func = self.call("most_", node).func
            return node
        if called != "print":
            self.generic_visit(node)
            return node
        node.args = [self._text(x) if isinstance(x, ast.JoinedStr) else x for x in node.args]
        self.generic_visit(node)
        node.args.insert(0, node.func)
        node.func = self.call("print_", node).func
        return node

    def _text(self, node: ast.JoinedStr) -> ast.expr:
        """A text with values as a function of the values, so that it can be made when the program runs."""
        values: list[ast.expr] = []
        names: list[str] = []
        for part in [n for n in ast.walk(node) if isinstance(n, ast.FormattedValue)]:
            values.append(part.value)
            names.append(f"value_{len(names)}")
            part.value = ast.Name(names[-1], ast.Load())
        arguments = ast.arguments(
            posonlyargs=[], args=[ast.arg(name) for name in names], kwonlyargs=[], kw_defaults=[], defaults=[]
        )
        return self.call("text", node, ast.copy_location(ast.Lambda(arguments, node), node), *values)

    def _at(self, node: ast.expr) -> ast.expr:
        return ast.Constant(self.note(Statement("expression", node.lineno)))
