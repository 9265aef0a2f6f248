"""LLVM text is written by its builder and by native Python: no other file has instructions in strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "nacre"
BUILDERS = {  # files that write the instructions for all others, and what they write
    "native/text.py": "the builder: each instruction once",
    "native/loop_counters.py": "a rotation behind the step of a loop",
    "native/python/arithmetic.py": "native Python's operators and conversions",
    "native/python/intrinsics.py": "native Python's casts, atomics and questions of the processor",
    "native/python/memory.py": "native Python's arrays on the stack",
}
WORDS = "load store select call ret br switch fence freeze add sub mul and or xor"  # of English, too
TERMS = (
    "alloca getelementptr phi icmp fcmp atomicrmw cmpxchg udiv sdiv urem srem shl lshr ashr fadd fsub fmul fdiv frem "
    "fneg sext zext trunc fpext fptrunc bitcast inttoptr ptrtoint sitofp uitofp fptosi fptoui extractvalue insertvalue "
    "extractelement insertelement shufflevector"
)
FLAGS = "nsw nuw exact inbounds fast contract volatile atomic tail eq ne ugt uge ult ule sgt sge slt sle oeq olt une"
FLAG, WORD, TERM = ("(?:" + "|".join(words.split()) + r")\b" for words in (FLAGS, WORDS, TERMS))
TYPE = r"(?:(?:void|ptr|i\d+|half|bfloat|float|double|label)\b|[<\[]\d)"
RESULT = r"(?:%|\{\})[\w.{}]* = "
LINE = re.compile(
    "|".join((
        r"^\s*(?:define|declare)\s.*@[\w.{}]+\(",  # a function
        r"^\s*@[\w.{}]+ = .*\b(?:global|constant)\b",  # a variable
        rf"^\s*{RESULT}(?:{WORD}|{TERM})",  # an instruction
        rf"^\s*(?:{WORD}|{TERM})(?: {FLAG})* {TYPE}",
        rf"^\s*{TERM}(?: {FLAG})* \{{",
        r"\bgetelementptr\b|\bbr (?:label|i1) |\bret void\b",
    ))
)  # fmt: skip


def strings(text: str) -> Iterator[str]:
    """The strings of a file, but for docstrings; values in them are shown as `{}`."""
    tree, known = ast.parse(text), set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            known.add(id(node.value))  # a docstring
        elif isinstance(node, ast.JoinedStr):
            known |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in known:
            yield node.value


def lines(text: str) -> list[str]:
    """The lines of LLVM text in the strings of a file."""
    return [line for string in strings(text) for line in string.splitlines() if LINE.search(line)]


@pytest.mark.parametrize(
    "line",
    [
        "define internal i64 @f(ptr %x) nounwind {",
        "declare ptr @g(ptr, ...)",
        "@x = external global i8",
        "  %x = load i64, ptr %y",
        "%{}.p = getelementptr i64, ptr %args, i64 {}",
        "{} = add i64 {}, 0",
        "  store atomic i64 0, ptr %x release, align 8",
        "add nsw i64 {}, 1",
        "icmp eq ptr {}, null",
        "  br label %end",
        "  ret void",
        "call void @llvm.{}()",
        "  call <4 x float> @f()",
        "atomicrmw {} {}, {}",
    ],
)
def test_what_llvm_text_is(line: str) -> None:
    assert lines(f"x = {line!r}") == [line]
    assert lines(f'"""{line}"""') == []


@pytest.mark.parametrize(
    "line",
    [
        "define the operation in a module, @ is its sign",
        "it must be at least {} and at most {}",
        "load: the object must define @{} and all symbols that it calls",
        "call it with a tensor",
        "select one of {}",
        "add {}",
        "x = load(path)",
        "ret",
        "or {}, which is shorter",
    ],
)
def test_what_other_text_is(line: str) -> None:
    assert lines(f"x = {line!r}") == []


def test_values_in_texts() -> None:
    assert lines("x = f'  {a} = load {b}, ptr {c}'") == ["  {} = load {}, ptr {}"]
    assert lines("x = '''\n  %a = load i8, ptr %b\n  ret i8 %a\n'''") == ["  %a = load i8, ptr %b", "  ret i8 %a"]


def test_builders_are_files_with_instructions() -> None:
    assert all(lines((ROOT / name).read_text(encoding="utf-8")) for name in BUILDERS)


def test_no_other_file_has_llvm_text() -> None:
    found = {path.relative_to(ROOT).as_posix(): lines(path.read_text(encoding="utf-8")) for path in ROOT.rglob("*.py")}
    assert {name: some for name, some in found.items() if some and name not in BUILDERS} == {}
