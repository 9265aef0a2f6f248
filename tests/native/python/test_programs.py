"""Random small programs compute the same natively and as plain Python, where each operation is wrapped in its type."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from nacre.native.python.types import IntKind
from native.python.compiled import compiled, module_of

KINDS = ["i8", "u8", "i16", "u32", "i64", "u64"]
NAMES = ["a", "b", "c"]
DIVISIONS = {"u": ["//", "%"], "i": ["*", "&"]}  # only unsigned integers are divided
COMPARISONS = ["<", "<=", "==", "!=", ">", ">="]
DEPTH = 3  # of nested statements


@cache
def expressions(kind: str, depth: int) -> st.SearchStrategy[str]:
    """An expression of a type; every operation is converted to it, so that Python computes the same."""
    low, high = IntKind(int(kind[1:]), kind[0] == "i").bounds
    leaf = st.one_of(st.sampled_from(NAMES), st.integers(low, high).map(lambda n: f"{kind}({n})"))
    if depth == 0:
        return leaf
    inner = expressions(kind, depth - 1)
    other = st.sampled_from(KINDS)
    width = int(kind[1:])
    return st.one_of(
        leaf,
        st.builds(lambda a, o, b: f"{kind}({a} {o} {b})", inner, st.sampled_from(list("+-*&|^")), inner),
        st.builds(lambda a, o, b: f"{kind}({a} {o} ({b} & 7 | 1))", inner, st.sampled_from(DIVISIONS[kind[0]]), inner),
        st.builds(
            lambda a, o, n: f"{kind}({a} {o} {n})", inner, st.sampled_from(["<<", ">>"]), st.integers(0, width - 1)
        ),
        st.builds(lambda a, k: f"{kind}({k}({a}))", inner, other),
        st.builds(lambda a, c, b: f"({a} if {c} else {b})", inner, conditions(kind, depth - 1), inner),
        st.builds(lambda o, a: f"{kind}({o}{a})", st.sampled_from(["-", "~"]), inner),
        st.builds(lambda o, a, b: f"{o}({a}, {b})", st.sampled_from(["min", "max"]), inner, inner),
        st.builds(lambda a, b: f"helper({a}, {b})", inner, inner),
    )


@cache
def conditions(kind: str, depth: int) -> st.SearchStrategy[str]:
    inner = expressions(kind, max(0, depth - 1))
    compare = st.builds(lambda a, o, b: f"{a} {o} {b}", inner, st.sampled_from(COMPARISONS), inner)
    if depth == 0:
        return compare
    more = conditions(kind, depth - 1)
    return st.one_of(
        compare,
        st.builds(lambda a, o, b: f"({a} {o} {b})", more, st.sampled_from(["and", "or"]), more),
        more.map(lambda c: f"(not {c})"),
        st.builds(lambda a, b: f"holds({a}, {b})", inner, inner),
    )


@cache
def statements(kind: str, depth: int, loop: bool) -> st.SearchStrategy[list[str]]:
    """Some lines; loops are short."""
    simple = [
        st.builds(lambda n, e: [f"{n} = {e}"], st.sampled_from(NAMES), expressions(kind, 2)),
        st.builds(lambda n, e: [f"{n} = {kind}({n} + {e})"], st.sampled_from(NAMES), expressions(kind, 1)),
        st.just([f"a, b = b, {kind}(a ^ c)"]),
    ]
    if depth < DEPTH:
        simple.append(expressions(kind, 1).map(lambda e: [f"return {e}"]))
    if loop:
        simple += [st.just(["break"]), st.just(["continue"])]
    if depth == 0:
        return st.one_of(simple)

    def block(loop: bool) -> st.SearchStrategy[list[str]]:
        lines = st.lists(statements(kind, depth - 1, loop), min_size=1, max_size=3)
        return lines.map(lambda groups: cut([line for g in groups for line in g]))

    choice = st.builds(
        lambda c, yes, no: [f"if {c}:", *indented(yes), "else:", *indented(no)],
        conditions(kind, 1),
        block(loop),
        block(loop),
    )
    counted = st.builds(
        lambda n, s, body: [f"for k{depth} in range({kind}({n}), {kind}(100), {s}):", *indented(body)],
        st.integers(80, 101),
        st.sampled_from([1, -1]),
        block(True),
    )
    repeated = st.builds(
        lambda c, body: [
            f"n{depth}: u8 = 0",
            f"while n{depth} < 5 and {c}:",
            *indented([f"n{depth} = u8(n{depth} + 1)", *body]),
        ],
        conditions(kind, 1),
        block(True),
    )
    nested = st.one_of(choice, counted, repeated)
    return st.one_of(st.one_of(simple), nested, nested)


def cut(lines: list[str]) -> list[str]:
    """Lines without those of the same block behind its end."""
    ends = [k for k, line in enumerate(lines) if line.startswith(("return", "break", "continue"))]
    return lines[: ends[0] + 1] if ends else lines


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, str]:
    kind = draw(st.sampled_from(KINDS))
    groups = draw(st.lists(statements(kind, DEPTH, False), min_size=2, max_size=5))
    body = cut([line for g in groups for line in g])
    if not body[-1].startswith("return"):
        body.append(f"return {kind}(a + b * c)")
    head = f"""
@inline
def helper(x: {kind}, y: {kind}) -> {kind}:
    if x < y:
        return {kind}(x * 3)
    for k in range({kind}(x & 31), {kind}(40)):
        if k == y:
            return k
    return {kind}(x - y)


@inline
def holds(x: {kind}, y: {kind}) -> bool:
    if x == y:
        return True
    for k in range({kind}(x & 31), {kind}(40), 1):
        if k == y or x < 3:
            return k != 38 and not x > y
    return x > y


@native
def f(a: {kind}, b: {kind}, c: {kind}) -> {kind}:
"""
    return kind, head + "\n".join(indented(body)) + "\n"


@given(programs(), st.lists(st.tuples(*[st.integers(0, 2**64 - 1)] * 3), min_size=3, max_size=3))
@settings(max_examples=60, deadline=None)
def test_native_and_plain_python_agree(program: tuple[str, str], inputs: list[tuple[int, int, int]]) -> None:
    name, text = program
    kind = IntKind(int(name[1:]), name[0] == "i")
    with tempfile.TemporaryDirectory() as folder:
        made = module_of(Path(folder) / "program.py", text)
        (native,) = compiled(made.f)
        for given_ in [(0, 1, 2), *inputs]:
            a, b, c = (kind(x) for x in given_)
            assert native(a, b, c) == made.f(a, b, c)
