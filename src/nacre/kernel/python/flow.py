"""What a function does with its locals, found before it is translated: assignments, uses, and ends of iterations."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from nacre.base.records import dataclass

Loop = ast.For | ast.While
CONSTRUCTS: Final = 4096  # whose names are known; each pass over a function, and each local of it, needs them


@lru_cache(maxsize=CONSTRUCTS)
def stored(node: ast.AST) -> frozenset[str]:
    """The names that a construct assigns, its own loops' targets included."""
    if isinstance(node, ast.GeneratorExp):
        return frozenset()
    if isinstance(node, ast.Name):
        return frozenset((node.id,) if isinstance(node.ctx, ast.Store) else ())
    return stored_in(ast.iter_child_nodes(node))


def stored_in(body: Iterable[ast.AST]) -> frozenset[str]:
    """The names that statements assign."""
    return frozenset[str]().union(*map(stored, body))


@lru_cache(maxsize=CONSTRUCTS)
def read(node: ast.AST) -> frozenset[str]:
    """The names that a construct reads; an augmented assignment reads its target."""
    found = read_in(ast.iter_child_nodes(node))
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return found | {node.id}
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return found | {node.target.id}
    if isinstance(node, ast.GeneratorExp):
        return found - {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
    return found


def read_in(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The names that constructs read."""
    return frozenset[str]().union(*map(read, nodes))


def ends_round(s: ast.stmt) -> bool:
    """Whether a statement may end an iteration of the loop around it, by `break` or `continue`."""
    if isinstance(s, ast.Break | ast.Continue):
        return True
    return isinstance(s, ast.If) and any(map(ends_round, [*s.body, *s.orelse]))


def always_ends(body: Sequence[ast.stmt]) -> bool:
    """Whether statements end with `break` or `continue`, and have none before."""
    return bool(body) and isinstance(body[-1], ast.Break | ast.Continue) and not any(map(ends_round, body[:-1]))


def breaks(body: Iterable[ast.stmt]) -> bool:
    """Whether statements may leave the loop around them by `break`."""
    return any(
        isinstance(s, ast.Break) or (isinstance(s, ast.If) and (breaks(s.body) or breaks(s.orelse))) for s in body
    )


@dataclass(frozen=True)
class Exposure:
    """What statements do with a name: whether one may read it before it is assigned, and whether it is assigned."""

    reads: bool
    assigns: bool


def exposure(body: Iterable[ast.stmt], name: str) -> Exposure:
    """Whether statements may read a name before they assign it, and whether they always assign it."""
    for s in body:
        found = _of_statement(s, name)
        if found.reads or found.assigns:
            return found
    return Exposure(False, False)


def _of_statement(s: ast.stmt, name: str) -> Exposure:
    match s:
        case ast.If():
            if name in read(s.test):
                return Exposure(True, False)
            sides = [_side(s.body, name), _side(s.orelse, name)]
            return Exposure(any(x.reads for x in sides), all(x.assigns for x in sides))
        case ast.For():
            if name in read(s.iter):
                return Exposure(True, False)
            inside = Exposure(False, False) if name in stored(s.target) else exposure(s.body, name)
            return Exposure(inside.reads, False)
        case ast.While():
            return Exposure(name in read(s.test) or exposure(s.body, name).reads, False)
        case ast.Assign() | ast.AnnAssign():
            reads = name in read_in([s.value] if s.value else [])
            targets = s.targets if isinstance(s, ast.Assign) else [s.target]
            reads = reads or name in read_in(targets)
            return Exposure(reads, not reads and name in stored_in(targets))
        case _:
            return Exposure(name in read(s), False)


def exposed(body: Iterable[ast.stmt], name: str) -> ast.stmt | None:
    """The innermost statement that may read a name before statements assign it; None if there is none."""
    for s in body:
        found = _of_statement(s, name)
        if found.reads:
            parts = [getattr(s, word, []) for word in ("body", "orelse")]
            return next((inner for part in parts if (inner := exposed(part, name)) is not None), s)
        if found.assigns:
            return None
    return None


def _side(body: Sequence[ast.stmt], name: str) -> Exposure:
    """A side of an if; what ends the iteration needs no assignment for the statements behind."""
    found = exposure(body, name)
    return Exposure(found.reads, found.assigns or always_ends(body))


def homes(body: Sequence[ast.stmt]) -> dict[str, ast.stmt | None]:
    """For each name that is assigned, the innermost loop that may have it to itself; None for the function.

    All uses of the name are in the loop, and none of its iterations reads the name before it assigns it.
    """
    targets = {n for s in body for n in loop_targets(s)}
    return {name: _home(name, body, None) for name in sorted(stored_in(body) - targets)}


def loop_targets(s: ast.AST) -> set[str]:
    """The names that loops inside of a statement count with."""
    return {n for f in ast.walk(s) if isinstance(f, ast.For) for n in stored(f.target)}


def _home(name: str, body: Sequence[ast.stmt], here: ast.stmt | None) -> ast.stmt | None:
    users = [s for s in body if name in stored(s) | read(s)]
    while len(users) == 1 and isinstance(users[0], ast.If) and name not in read(users[0].test):
        branches = [b for b in (users[0].body, users[0].orelse) if name in stored_in(b) | read_in(b)]
        if len(branches) != 1:
            break
        users = [s for s in branches[0] if name in stored(s) | read(s)]
    if len(users) != 1 or not isinstance(users[0], Loop):
        return here
    loop = users[0]
    head = [loop.iter, loop.target] if isinstance(loop, ast.For) else [loop.test]
    if name in stored_in(head) | read_in(head) or exposure(loop.body, name).reads:
        return here
    return _home(name, loop.body, loop)
