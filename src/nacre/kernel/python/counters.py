"""Names that count a loop and are locals, too: the loop gets a counter of its own, and assigns it to the local."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable


def with_own_counters(node: ast.FunctionDef) -> ast.FunctionDef:
    """A function in which no name that counts a loop is used elsewhere; the function itself if it is one already."""
    counters = {n.target.id for n in ast.walk(node) if isinstance(n, ast.For) and isinstance(n.target, ast.Name)}
    shared = {name for name in counters if _is_local(node.body, name)}
    if not shared:
        return node
    found = copy.deepcopy(node)
    taken = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    for s in ast.walk(found):
        if isinstance(s, ast.For) and isinstance(s.target, ast.Name) and s.target.id in shared:
            local = s.target
            name = f"{local.id}_round"
            while name in taken:
                name += "_"
            taken.add(name)
            s.target = ast.copy_location(ast.Name(name, ast.Store()), local)
            value = ast.copy_location(ast.Name(name, ast.Load()), local)
            s.body.insert(0, ast.copy_location(ast.Assign([local], value), s))
    return found


def _is_local(nodes: Iterable[ast.AST], name: str) -> bool:
    """Whether constructs use a name other than in a loop that counts with it, or assign it in such a loop."""
    return any(_uses(n, name) for n in nodes)


def _uses(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Name():
            return node.id == name
        case ast.For(target=ast.Name(id=target)) if target == name:
            return _uses(node.iter, name) or any(_assigns(s, name) for s in node.body)
        case ast.GeneratorExp() if any(_uses(g.target, name) for g in node.generators):
            return _uses(node.generators[0].iter, name)
        case _:
            return _is_local(ast.iter_child_nodes(node), name)


def _assigns(node: ast.AST, name: str) -> bool:
    """Whether a statement assigns a name, or counts with it in a loop of its own."""
    if isinstance(node, ast.GeneratorExp):
        return False
    if isinstance(node, ast.Name):
        return node.id == name and isinstance(node.ctx, ast.Store)
    return any(_assigns(n, name) for n in ast.iter_child_nodes(node))
