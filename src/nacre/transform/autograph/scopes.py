"""Scopes: the names that statements bind, their other writes, and how they leave a block."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple, cast

Inner = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
Loop = ast.For | ast.While | ast.AsyncFor
APPEND: Final = "append_"  # the run-time function for `name.append(value)`
CHANGES: Final = frozenset(
    ("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "update", "setdefault", "popitem")
    + ("add", "discard", "appendleft", "popleft")
)

SEES: Final = {"locals": 0, "vars": 0, "dir": 0, "exec": 1, "eval": 1}  # functions, and their most arguments to do so


class Write(NamedTuple):
    """A statement that changes an object: the name at its start, its text and its line."""

    root: str
    text: str
    line: int
    is_item: bool  # `name[…] = value`, which tensors take
    is_call: bool = False  # of a method


def walked(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of one function's scope in order; of inner functions and classes only the definition."""
    waiting = list(nodes)[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting += node.decorator_list
            continue
        waiting += list(ast.iter_child_nodes(node))[::-1]


def bound(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that statements bind in their function's scope."""
    found = set[str]()
    for node in walked(nodes):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            found.add(node.id)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
    return found - _of_comprehensions(nodes)


def _of_comprehensions(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that only comprehensions bind."""
    own, others = set[str](), set[str]()
    for node in walked(nodes):
        if isinstance(node, ast.comprehension):
            own |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
    if not own:
        return own
    targets = {id(n) for node in walked(nodes) if isinstance(node, ast.comprehension) for n in ast.walk(node.target)}
    for node in walked(nodes):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del) and id(node) not in targets:
            others.add(node.id)
    return own - others


def has_walrus(node: ast.AST) -> bool:
    """Whether an expression binds names."""
    return any(isinstance(n, ast.NamedExpr) for n in ast.walk(node))


def declared(nodes: Iterable[ast.AST], kind: type[ast.Global | ast.Nonlocal]) -> set[str]:
    """The names that a function's scope declares as global, or as nonlocal."""
    return {
        name
        for node in walked(nodes)
        if isinstance(node, ast.Global | ast.Nonlocal) and isinstance(node, kind)
        for name in node.names
    }


def writes(nodes: Iterable[ast.AST]) -> list[Write]:
    """The places where statements write attributes and items, or call methods that change containers."""
    found: list[Write] = []
    for node in walked(nodes):
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
            simple = isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)
            found.append(Write(_root(node), ast.unparse(node), node.lineno, simple))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == APPEND:
            found.append(
                Write(name := cast("ast.Name", node.args[0]).id, f"{name}.append", node.lineno, False, is_call=True)
            )
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CHANGES:
            found.append(Write(_root(node.func), ast.unparse(node.func), node.lineno, False, is_call=True))
    return found


def _root(node: ast.AST) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def exits(node: ast.AST) -> set[str]:
    """How a statement may leave its block: by `return`, `break` or `continue`."""
    if isinstance(node, ast.Return):
        return {"return"}
    if isinstance(node, ast.Break | ast.Continue):
        return {"break" if isinstance(node, ast.Break) else "continue"}
    if isinstance(node, Inner) or not isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
        return set()
    if isinstance(node, Loop):
        inner = set[str]().union(*map(exits, node.body)) - {"break", "continue"}
        return inner.union(*map(exits, node.orelse))
    return set[str]().union(*map(exits, ast.iter_child_nodes(node)))


def ends(block: list[ast.stmt]) -> bool:
    """Whether control never reaches the end of a block."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.If):
        return ends(last.body) and ends(last.orelse)
    return isinstance(last, ast.Return | ast.Raise | ast.Break | ast.Continue)


def sees_variables(node: ast.AST, own: Collection[str]) -> ast.Call | None:
    """A call of a built-in function that sees the variables around it; `own` are names that mean something else."""
    calls = [n for n in _functions(node) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    own = {*own, *bound(_functions(node)), *(n.arg for n in ast.walk(node) if isinstance(n, ast.arg))}
    for call in calls:
        name = cast("ast.Name", call.func).id
        most = SEES.get(name, -1)  # arguments with which it does
        if name not in own and not call.keywords and len(call.args) <= most:
            return call
    return None


def _functions(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function and of those in it, without classes."""
    yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.ClassDef):
            yield from _functions(child)


def names_in_tree(node: ast.AST) -> set[str]:
    """All names that occur in a tree, so that new ones can differ from them."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    found |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    for n in ast.walk(node):
        if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(n.name)
    return found
