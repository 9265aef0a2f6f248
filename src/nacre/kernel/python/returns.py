"""Returns: that of a number becomes an assignment to a local, and a bare one an end of the branch that it is in.

One in a loop becomes a break out of each loop around it, and a flag that they test.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from nacre.kernel.python.refusal import Refused

RESULT, LEFT = "result.", "left."  # no names of Python


def in_tail_position(node: ast.FunctionDef) -> tuple[list[ast.stmt], str]:
    """The statements of a function, each of whose ways ends with an assignment to a local, and the local's name."""
    return _ended(_out_of_loops(node.body, True), node), RESULT


def _ended(body: Sequence[ast.stmt], node: ast.AST) -> list[ast.stmt]:
    for k, s in enumerate(body):
        if isinstance(s, ast.Return):
            if s.value is None:
                break
            if isinstance(s.value, ast.Name) and s.value.id == RESULT:
                return [*body[:k], ast.copy_location(ast.Pass(), s)]
            target = ast.copy_location(ast.Name(RESULT, ast.Store()), s)
            return [*body[:k], ast.copy_location(ast.Assign([target], s.value), s)]
        if isinstance(s, ast.If) and any(isinstance(t, ast.Return) for t in ast.walk(s)):
            rest = list(body[k + 1 :])
            then = _ended([*s.body, *rest], s)
            other = _ended([*s.orelse, *rest], s)
            return [*body[:k], ast.copy_location(ast.If(s.test, then, other), s)]
    raise Refused(node, "a function in a kernel must return a number on each way", "end it with return")


def has_result(node: ast.FunctionDef) -> bool:
    """Whether a function returns a value somewhere."""
    return any(isinstance(s, ast.Return) and not _is_bare(s) for s in ast.walk(node))


def without_returns(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of a function without a result, none of which is a return."""
    return _without(_out_of_loops(body, False))


def _without(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    for k, s in enumerate(body):
        if isinstance(s, ast.Return) and _is_bare(s):
            return [*body[:k], ast.copy_location(ast.Pass(), s)]
        if isinstance(s, ast.If) and _returns(s):
            rest = body[k + 1 :]
            sides = (_without([*side, *rest]) for side in (s.body, s.orelse))
            return [*body[:k], ast.copy_location(ast.If(s.test, *sides), s)]
    return list(body)


def _returns(s: ast.AST) -> bool:
    return any(isinstance(t, ast.Return) for t in ast.walk(s))


# ---- in loops


def _out_of_loops(body: Sequence[ast.stmt], result: bool) -> list[ast.stmt]:
    """The statements of a function, with breaks and a flag for returns in loops; `result`: it returns numbers."""
    if not any(isinstance(t, ast.For | ast.While) and _returns(t) for s in body for t in ast.walk(s)):
        return list(body)
    return [_assigned(LEFT, ast.Constant(False), body[0]), *_left(body, result, False)]


def _left(body: Sequence[ast.stmt], result: bool, inside: bool) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    for s in body:
        match s:
            case ast.Return() if inside and (result or _is_bare(s)):
                if result and (s.value is None or _is_bare(s)):
                    raise Refused(s, "a function in a kernel must return a number on each way", "return a number")
                found += [_assigned(RESULT, s.value, s)] if result and s.value is not None else []
                found += [_assigned(LEFT, ast.Constant(True), s), ast.copy_location(ast.Break(), s)]
            case ast.If() if _returns(s):
                sides = (_left(side, result, inside) for side in (s.body, s.orelse))
                found.append(ast.copy_location(ast.If(s.test, *sides), s))
            case ast.For() | ast.While() if _returns(s):
                loop = copy.copy(s)
                loop.body = _left(s.body, result, True)
                end = ast.Break() if inside else ast.Return(_read(RESULT, s) if result else None)
                found += [loop, ast.copy_location(ast.If(_read(LEFT, s), [ast.copy_location(end, s)], []), s)]
            case _:
                found.append(s)
    return found


def _assigned(name: str, value: ast.expr, node: ast.AST) -> ast.stmt:
    target = ast.copy_location(ast.Name(name, ast.Store()), node)
    return ast.copy_location(ast.Assign([target], ast.copy_location(value, node)), node)


def _read(name: str, node: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Name(name, ast.Load()), node)


def _is_bare(s: ast.Return) -> bool:
    return s.value is None or (isinstance(s.value, ast.Constant) and s.value.value is None)
