"""Only the module of the dtypes tests NumPy's letters for kinds of dtypes; rules use sets of dtypes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from nacre.base import dtypes

HOME = Path(dtypes.__file__)
LETTERS = set("biufcOSUVMmT")
RULES = re.compile("require(_kind)?$|unary$|binary$|ternary$|reduction$")  # functions that take dtypes


def _is_letters(node: ast.AST) -> bool:
    """Whether an expression is a text of NumPy's letters for kinds of dtypes, or a collection of them."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return bool(node.elts) and all(map(_is_letters, node.elts))
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and text != "" and set(text) <= LETTERS


def letters_in(tree: ast.AST) -> set[int]:
    """The lines that test the kind of a dtype by its letter, or use the letter as a key."""
    found: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = (node.left, *node.comparators)
            kinds = [p for p in parts if isinstance(p, ast.Attribute) and p.attr in ("kind", "char")]
            if kinds and any(map(_is_letters, parts)):
                found.add(node.lineno)
        elif isinstance(node, ast.Attribute) and node.attr in ("kind", "char", "letter"):
            if ast.unparse(node.value).endswith(("dtype", "numpy", "category")):
                found.add(node.lineno)
        elif isinstance(node, ast.Call) and RULES.search(ast.unparse(node.func)):
            found.update(a.lineno for a in node.args if _is_letters(a))
    return found


def test_letters_are_found() -> None:
    for text in (
        'x.dtype.kind in "iuf"',
        'kind.kind == "b"',
        'held.kind not in ("i", "u")',
        "RANK[x.dtype.kind]",
        'require_kind("sum", x, "iuf")',
        'require("relu", dtype, "iuf")',
        '_unary("exp", "f", rule)',
    ):
        assert letters_in(ast.parse(text)) == {1}, text
    assert not letters_in(ast.parse('require_shape("solve", "b", b.shape, a.shape)'))
    assert not letters_in(ast.parse('row.kind == "part" or o.kind in ("row", "full") or KINDS[o.kind]'))


def test_no_file_tests_letters_of_kinds() -> None:
    found = {
        f"{path.relative_to(HOME.parents[1])}:{line}"
        for path in sorted(HOME.parents[1].rglob("*.py"))
        if path != HOME
        for line in letters_in(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert not found
