"""The package knows primitives by their traits, not by their names: what tells one primitive from others, counted.

Counted are comparisons, memberships and keys of tables on a primitive's name or identity, and traits that one primitive
alone has, outside the primitive's own file.  Operations of kernel IR are another enumeration, and do not count; nor do
caches by primitives of what is computed for each alike.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import nacre.compile.pipeline
import nacre.interpret.batch
import nacre.interpret.flow  # noqa: F401 - as the ones before: primitives and rules that these register
from nacre.compile.primitives import convolve_blocked_p
from nacre.ir.axes import AxisRule
from nacre.ir.primitive import Element, Linear, Nest, Primitive, registered
from nacre.kernel.ast import OPERATIONS, REDUCTIONS

ROOT = Path(__file__).parents[2] / "src" / "nacre"
SHARED = ("base", "native", "runtime", "kernel", "codegen")  # rooms below primitives, or beside them, with words alike
NAMES = set(registered()) - set(OPERATIONS) - set(REDUCTIONS)
LIMIT = 5
REASONS = {
    "AxisRule.is_lookup: take": "the only read of whole rows of a table",
}
CACHES = {"_pointwise", "_plain", "OWN"}  # computed for every primitive alike
# what a primitive is by definition, rather than traits
DEFINITION = {"name", "type_rule", "lowering", "derivative", "batch", "multiple", "kernels", "rules"}


class Places(ast.NodeVisitor):
    """The lines of a file that tell a primitive from others, one for each primitive that they name."""

    def __init__(self, text: str, words: set[str] = NAMES) -> None:
        tree = ast.parse(text)
        self.words = words
        self.lines: list[int] = []
        self.foreign = {a.asname or a.name for s in ast.walk(tree) if isinstance(s, ast.ImportFrom) for a in s.names}
        self.visit(tree)

    def is_primitive(self, e: ast.expr) -> bool:
        """Whether an expression is an equation's primitive."""
        return (isinstance(e, ast.Attribute) and e.attr == "primitive") or (
            isinstance(e, ast.Name) and e.id == "primitive"
        )

    def is_name(self, e: ast.expr) -> bool:
        """Whether an expression is the name of an equation's primitive, or of the family of its kernels."""
        if not (isinstance(e, ast.Attribute) and e.attr == "name"):
            return False
        of = e.value
        lowering = isinstance(of, ast.Attribute) and of.attr == "lowering"
        return self.is_primitive(of) or lowering or (isinstance(of, ast.Name) and of.id in ("low", "lowering"))

    def is_certain(self, e: ast.expr) -> bool:
        """Whether an expression is one certain primitive of another file, or its name."""
        if isinstance(e, ast.Constant):
            return e.value in self.words
        if isinstance(e, ast.Attribute):
            return e.attr.endswith("_p")
        return isinstance(e, ast.Name) and e.id.endswith("_p") and e.id in self.foreign

    def is_key(self, table: ast.expr, key: ast.expr) -> bool:
        """Whether a table that is no cache is asked for a primitive, or for its name."""
        cache = isinstance(table, ast.Name) and table.id in CACHES
        return self.is_name(key) or (self.is_primitive(key) and not cache)

    def count(self, node: ast.expr | ast.pattern, times: int) -> None:
        """Count a line."""
        self.lines += [node.lineno] * times

    def visit_Compare(self, node: ast.Compare) -> None:
        """A comparison, or a membership in what is not a set of names of its own."""
        sides = [node.left, *node.comparators]
        inside = [e for s in sides if isinstance(s, ast.Tuple | ast.List | ast.Set) for e in s.elts]
        member = any(isinstance(op, ast.In | ast.NotIn) for op in node.ops)
        told = any(map(self.is_name, sides)) or (member and self.is_primitive(node.left))
        certain = [e for e in (*sides, *inside) if self.is_certain(e) and not isinstance(e, ast.Constant)]
        self.count(node, max(len(certain), int(told)))
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        """Cases of a name."""
        if self.is_name(node.subject) or self.is_primitive(node.subject):
            self.lines += [c.pattern.lineno for c in node.cases if not isinstance(c.pattern, ast.MatchAs)]
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        """Keys of a table; parameters that are added to others are none."""
        if None not in node.keys:
            self.count(node, sum(k is not None and self.is_certain(k) for k in node.keys))
        self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        """A set of primitives or names."""
        self.count(node, sum(map(self.is_certain, node.elts)))
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """What a table of names has for a primitive."""
        self.count(node, int(self.is_key(node.value, node.slice)))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Parts of names, what a table has for a primitive, and primitives by name."""
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        if called in ("startswith", "endswith") and of is not None:
            self.count(node, int(self.is_name(of)))
        elif called == "get":
            self.count(node, int(of is not None and any(self.is_key(of, a) for a in node.args[:1])))
        elif called in ("frozenset", "set", "fromkeys"):
            inside = [e for a in node.args if isinstance(a, ast.Tuple | ast.List) for e in a.elts]
            self.count(node, sum(map(self.is_certain, inside)))
        elif called == "primitive_named":
            self.count(node, int(any(isinstance(a, ast.Constant) for a in node.args)))
        elif called in ("by", "made", "add", "_add", "only", "_only"):  # what matchers and rewrites call
            self.count(node, sum(isinstance(a, ast.Constant) and a.value in NAMES for a in node.args))
        self.generic_visit(node)


def places() -> Iterator[str]:
    """The places in the package."""
    for path in sorted(ROOT.rglob("*.py")):
        part = path.relative_to(ROOT).parts[0]
        words: set[str] = NAMES if part in ("ir", "interpret", "compile", "transform", "deploy") else set()
        if part not in SHARED or part == "codegen":
            yield from (f"{path.relative_to(ROOT)}:{n}" for n in Places(path.read_text(encoding="utf-8"), words).lines)


def traits() -> Iterator[tuple[str, str]]:
    """Pairs of a trait and the name of a primitive that has it."""
    for p in (p for p in registered().values() if not p.outside):
        parts: list[tuple[type[Any], Any]] = [(Primitive, p)]
        parts += [(AxisRule, p.axes)] if p.axes is not None else []
        parts += [(type(x), x) for x in (p.lowering, p.derivative) if isinstance(x, Element | Nest | Linear)]
        for kind, held in parts:
            for f in fields(kind):
                value = getattr(held, f.name)
                known = (Primitive, Element, Nest, Linear).count(kind) and f.name in (*DEFINITION, "rule", "transposes")
                if not known and value is not None and value is not False and f.name not in ("op", "cost", "needs"):
                    yield f"{kind.__name__}.{f.name}", p.name
        yield from (((f"rule: {kind.name}"), p.name) for kind in p.rules)


def alone() -> list[str]:
    """The traits that one primitive alone has, with its name."""
    holders: dict[str, list[str]] = {}
    for trait, name in traits():
        holders.setdefault(trait, []).append(name)
    return sorted(f"{trait}: {names[0]}" for trait, names in holders.items() if len(names) == 1)


def test_primitives_are_known_by_traits() -> None:
    found = [*places(), *alone()]
    assert len(found) <= LIMIT
    assert sorted(found) == sorted(REASONS)


COUNTED = {
    "e.primitive.name == 'dot'": 1,
    "e.primitive.name in NAMES": 1,
    "e.primitive in TABLE": 1,
    "TABLE[e.primitive.name]": 1,
    "TABLE.get(low.name)": 1,
    "TABLE[e.primitive]": 1,
    "TABLE.get(primitive, 0)": 1,
    "_pointwise[e.primitive]": 0,
    "e.primitive.name.startswith('conv')": 1,
    "from nacre.ops.identity import copy_p\ne.primitive is copy_p": 1,
    "from nacre.ops.identity import copy_p\n{copy_p: 1}": 1,
    "from nacre.ops import identity\ne.primitive is identity.copy_p": 1,
    "frozenset(('convolve', 'winograd'))": 2,
    "{'scan': 1, 'while': 2}": 2,
    "primitive_named('add')": 1,
    "match e.primitive.name:\n    case 'cond':\n        pass\n    case _:\n        pass": 1,
    "copy_p = Primitive('copy')\ne.primitive is copy_p": 0,
    "from nacre.ops.identity import copy_p\nEquation(copy_p, (a,), {}, (b,))": 0,
    "operation(e.primitive) == 'mul'": 0,
    "e.primitive.keeps_order": 0,
}


@pytest.mark.parametrize("text", COUNTED)
def test_what_counts(text: str) -> None:
    assert len(Places(text).lines) == COUNTED[text]


def test_names_are_those_of_primitives() -> None:
    assert {"dot", "reshape", "scan", convolve_blocked_p.name} <= NAMES
    assert "mul" not in NAMES and "sum" not in NAMES
