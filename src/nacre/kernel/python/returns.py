"""Returns: that of a number becomes an assignment to a local, and a bare one an end of the branch that it is in."""

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


def has_result(node: ast.FunctionDef) -> bool:
    """Whether a function returns a value somewhere."""
    return any(isinstance(s, ast.Return) and not _is_bare(s) for s in ast.walk(node))


def without_returns(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of a function without a result, none of which is a return."""
    for k, s in enumerate(body):
        if isinstance(s, ast.Return) and _is_bare(s):
            return [*body[:k], ast.copy_location(ast.Pass(), s)]
        if isinstance(s, ast.If) and any(isinstance(t, ast.Return) for t in ast.walk(s)):
            rest = body[k + 1 :]
            sides = (without_returns([*side, *rest]) for side in (s.body, s.orelse))
            return [*body[:k], ast.copy_location(ast.If(s.test, *sides), s)]
        if isinstance(s, ast.For | ast.While):
            found = next((t for t in ast.walk(s) if isinstance(t, ast.Return)), None)
            if found is not None:
                raise Refused(found, "a kernel must not return out of a loop", "write break, and a condition behind it")
    return list(body)


def _is_bare(s: ast.Return) -> bool:
    return s.value is None or (isinstance(s.value, ast.Constant) and s.value.value is None)
