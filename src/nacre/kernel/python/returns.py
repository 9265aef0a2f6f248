"""Functions that kernels call: their `return` becomes an assignment to a local."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from nacre.kernel.python.refusal import Refused

RESULT = "result."  # no name of Python


def in_tail_position(node: ast.FunctionDef) -> tuple[list[ast.stmt], str]:
    """The statements of a function, each of whose ways ends with an assignment to a local, and the local's name."""
    return _ended(node.body, node), RESULT


def _ended(body: Sequence[ast.stmt], node: ast.AST) -> list[ast.stmt]:
    for k, s in enumerate(body):
        if isinstance(s, ast.Return):
            if s.value is None:
                break
            target = ast.copy_location(ast.Name(RESULT, ast.Store()), s)
            return [*body[:k], ast.copy_location(ast.Assign([target], s.value), s)]
        if isinstance(s, ast.If) and any(isinstance(t, ast.Return) for t in ast.walk(s)):
            rest = list(body[k + 1 :])
            then = _ended([*s.body, *rest], s)
            other = _ended([*s.orelse, *rest], s)
            return [*body[:k], ast.copy_location(ast.If(s.test, then, other), s)]
        if any(isinstance(t, ast.Return) for t in ast.walk(s)):
            raise Refused(s, "a function in a kernel must not return out of a loop", "assign a local, and break")
    raise Refused(node, "a function in a kernel must return a number on each way", "end it with return")
