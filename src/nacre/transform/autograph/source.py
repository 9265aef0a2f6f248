"""The source of a function: the syntax tree of its definition, found by its code object."""

from __future__ import annotations

import ast
import copy
import linecache
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_NEWLOCALS
from types import CodeType
from typing import Final

from nacre.base.places import is_users
from nacre.base.records import dataclass
from nacre.transform.autograph.refusal import NotConverted, shown_name
from nacre.transform.autograph.scopes import bound

Definition = ast.FunctionDef | ast.Lambda
FEATURES: Final = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR


@dataclass(frozen=True)
class Source:
    """The definition of a function: a copy of its tree, the classes around it (outermost first), its file's imports."""

    node: Definition
    classes: tuple[str, ...]
    imports: tuple[str, ...]  # names that the file imports; the compiler calls their attributes in another way
    own: frozenset[str]  # names that the file binds


def source_of(code: CodeType, packages: bool = False) -> Source:
    """The definition that a code object was compiled from; with `packages`, also in an installed package.

    Raises NotConverted, with the reason, if there is none.
    """
    file = code.co_filename
    if code.co_flags & FEATURES:
        kind = "a generator" if code.co_flags & CO_GENERATOR else "an async function"
        raise NotConverted(
            f"{shown_name(code)} is {kind}, which cannot become part of a program; "
            + ("return a list instead" if code.co_flags & CO_GENERATOR else "write a plain function")
        )
    if not code.co_flags & CO_NEWLOCALS:
        raise NotConverted(f"{shown_name(code)} is not a function; move the statement into one")
    if not is_users(file, installed=packages or not os.path.isfile(file)):  # code without a file may have one
        raise NotConverted(f"{shown_name(code)} belongs to an installed package, whose code is not converted")
    lines = tuple(linecache.getlines(file))
    if not lines:
        raise NotConverted(f"the source of {shown_name(code)} is not to be had; define the function in a file")
    found = [(node, classes) for node, classes in _definitions(file, lines) if _matches(node, code)]
    if len(found) > 1:
        found = [(node, classes) for node, classes in found if _has_body(node, code)]
        found = [each for each in found if _span(each[0]) == min(_span(node) for node, _ in found)]
    if not found:
        raise NotConverted(f"the source of {shown_name(code)} has changed since it was loaded; load it again")
    if len(found) > 1:
        raise NotConverted(f"several functions in the line of {shown_name(code)} look the same; give each a line")
    own = frozenset(bound(_tree(file, lines).body))
    return Source(copy.deepcopy(found[0][0]), found[0][1], _imports(file, lines), own)


@lru_cache(64)
def _definitions(file: str, lines: tuple[str, ...]) -> tuple[tuple[Definition, tuple[str, ...]], ...]:
    """All functions in a file, each with the classes around it."""
    tree = _tree(file, lines)
    found: list[tuple[Definition, tuple[str, ...]]] = []
    waiting: list[tuple[ast.AST, tuple[str, ...]]] = [(tree, ())]
    while waiting:
        node, classes = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            found.append((node, classes))
        inner = (*classes, node.name) if isinstance(node, ast.ClassDef) else classes
        waiting += [(child, inner) for child in ast.iter_child_nodes(node)]
    return tuple(found)


@lru_cache(64)
def _tree(file: str, lines: tuple[str, ...]) -> ast.Module:
    try:
        return ast.parse("".join(lines), file)
    except SyntaxError as fault:
        raise NotConverted(f"{os.path.basename(file)} is not valid Python now: {fault.msg}") from None


@lru_cache(64)
def _imports(file: str, lines: tuple[str, ...]) -> tuple[str, ...]:
    """The names that the statements of a file import, outside of functions and classes."""
    return tuple(sorted({(a.asname or a.name).partition(".")[0] for a in _module_imports(_tree(file, lines).body)}))


def _module_imports(body: Iterable[ast.AST]) -> Iterator[ast.alias]:
    for node in body:
        if isinstance(node, ast.alias):
            yield node
        elif not isinstance(node, ast.expr | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _module_imports(ast.iter_child_nodes(node))


def parameters(node: Definition) -> list[str]:
    """The names of a function's parameters, in the order of its code's local variables."""
    a = node.args
    named = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    return [*named, *([a.vararg.arg] if a.vararg else []), *([a.kwarg.arg] if a.kwarg else [])]


def _matches(node: Definition, code: CodeType) -> bool:
    """Whether a definition has the line, the name and the parameters of a code object."""
    decorated = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    first = min([node.lineno, *(d.lineno for d in decorated)])
    name = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"
    given = parameters(node)
    held = [name.rpartition("__")[2] if name.startswith("_") else name for name in code.co_varnames[: len(given)]]
    plain = [name.rpartition("__")[2] if name.startswith("_") else name for name in given]
    return first == code.co_firstlineno and name == code.co_name and held == plain


def _has_body(node: Definition, code: CodeType) -> bool:
    """Whether the code of a lambda, or of the function of a line, is within this body."""
    first, last = (node.body, node.body) if isinstance(node, ast.Lambda) else (node.body[0], node.body[-1])
    begin, end = (first.lineno, first.col_offset), (last.end_lineno, last.end_col_offset)
    return all(
        begin <= (line, column) and (end_line, end_column) <= end
        for line, end_line, column, end_column in code.co_positions()
        if None not in (line, end_line, column, end_column) and (column, end_column) != (0, 0)
    )


def _span(node: Definition) -> tuple[int, int]:
    """The size of a lambda's body; of two around each other, the inner one has the code."""
    body = node.body if isinstance(node, ast.Lambda) else node.body[-1]
    return (body.end_lineno or 0) - body.lineno, (body.end_col_offset or 0) - body.col_offset
