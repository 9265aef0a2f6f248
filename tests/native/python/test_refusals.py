"""Programs that are not native Python are refused, with the file, the line, and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre.base.errors import CompileError
from nacre.native.engine import cross_target
from nacre.native.python.declarations import native
from nacre.native.python.module import module
from nacre.native.python.source import NativeSyntaxError
from native.python.compiled import HEAD, module_of

STRUCT = """
@struct
class Pair:
    first: u32
    second: Pair
"""
WRONG = {  # the statements of a function `f(a: u32, b: i64, p: Pair) -> u32`, and a part of the message
    "return unknown": "unknown: a name must be defined",
    "return a + b": r"\+: both operands must have one type; got u32 and i64",
    "return b": "b: the type must be u32; got i64; convert it explicitly",
    "if a > 1:\n        return a": "f: every way must end in a return",
    "if a > 1:\n        x = a\n    return x": "x: a variable must have a value on every way",
    "while a > 1:\n        x = a\n        a -= 1\n    return x": "x: a variable must have a value on every way",
    "for k in range(a):\n        pass\n    return k": "k: a variable must have a value on every way",
    "return a\n    b = 3": "control must reach every statement",
    "x = y\n    y = a\n    return x": "y: a variable must be assigned before it is read",
    "return 4294967296": r"4294967296: a number must fit u32; it is not in 0 … 4294967295",
    "return -1": "-1: a number must fit u32",
    "return a << 32": "u32 shifts by 0 to 31 bits; got 32",
    "return a // 0": "//: the operands must be unsigned, and the divisor not 0; got 0",
    "return u32(b // 2)": "//: the operands must be unsigned, and the divisor not 0; got i64",
    "return u32(b % b)": "%: the operands must be unsigned, and the divisor not 0; got i64",
    "return min(3, 4)": "min: the operand must be an integer; got None",
    "return u32(offset_of(Pair, 'first'))": "offset_of: the function must be native; got <function offset_of",
    "return a / 2": "/: the operator must exist for the type; u32 has none",
    "return a ** 2": r"\*\*: the operator must be one of",
    "a /= 2\n    return a": "/: the operator must exist for the type; u32 has none",
    "return +a": r"\+: it must be - of a number or ~ of an integer; got \+ of u32",
    "return -p": "-: it must be - of a number or ~ of an integer; got - of Pair",
    "return u32(~f64(a))": "~: it must be - of a number or ~ of an integer; got ~ of f64",
    "return ~1.5": "~: it must be - of a number or ~ of an integer; got ~ of 1.5",
    "return u32(f64(a) % 2)": "%: the operator must exist for the type; f64 has none",
    "return u32(f32(a) + f64(a))": r"\+: both operands must have one type; got f32 and f64",
    "return u32(f32(p))": "f32: the value must be a number; got Pair",
    "return u32(f64(1 << 2000))": "1 << 2000: a number must fit f64".replace("1 << 2000", str(1 << 2000)),
    "return u32(f32(1e39))": r"1e\+39: a number must fit f32; it is not in -3.4\d*e\+38 … 3.4",
    "return 1.5 & 1": "&: the operator must apply to 1.5 and 1; unsupported operand",
    "return a + 1.5": "the type must be u32; got 1.5",
    "return a + 1j": "1j: a constant must be a number, a bool or bytes",
    "x: float = a\n    return a": "x: type: an annotation must be a native type",
    "return half": "half: a constant must be Final",
    "return u32(null == null)": "==: both operands must have one type; got none",
    "return u32((a > 1) + (a > 2))": r"\+: the operator must exist for the type; bool has none",
    "return a[True].b": "elements are those of pointers",
    "return 1 // 0": "division by zero|modulo by zero",
    "x = 5\n    return x": "5: a constant needs a type; got none; write a type such as u64",
    "x = a\n    x = b\n    return a": "x: a variable must keep its type u32; got i64",
    "x: u32 = b\n    return x": "b: the type must be u32; got i64",
    "return a if b else a": "b: the type must be bool; got i64",
    "if a:\n        return a\n    return a": "a: the type must be bool; got u32",
    "return g(a)": "g: 2 arguments are needed; got 1",
    "return u32()": "u32: 1 arguments are needed; got 0",
    "return u32(printf())": "printf: 1 or more arguments are needed; got 0",
    "return g(a, b)": "b: the type must be u32; got i64",
    "return g(a, y=a)": "g: arguments must be in order",
    "return p.third": "Pair.third: the field must exist; got none; use one of first, second",
    "return a.first": "fields are those of structures; got u32",
    "return a[0]": "elements are those of pointers; got u32",
    "p.second = a\n    return a": "a: the type must be Pair; got u32",
    "return u32(p)": "u32: the value must be a number; got Pair",
    "return a < p": "<: both operands must have one type",
    "return u32(p < p)": "<: the operator must exist for the type; Pair has none",
    "return u32(p is null)": "is: the operator must be one of .* == != .*; got is",
    "return r(a)": "r: an inlined function must not call itself",
    "return s(a)": "s: an inlined function must return",
    "return [a][0]": "an expression must be native Python; got List",
    "with a:\n        return a": "With: a statement must be native Python",
    "a\n    return a": "a: a statement must do something",
    "for k in [1, 2]:\n        pass\n    return a": "it must be over range",
    "for k in range(a, a, 0):\n        pass\n    return a": "range: the bounds must be .* and the step 1 or -1; got",
    "for k in range(a, a, 2):\n        pass\n    return a": "the step 1 or -1; got range.a, a, 2.; use `while`",
    "for k in range():\n        pass\n    return a": "range: 1 to 3 arguments are needed; got 0",
    "for k in range(3):\n        pass\n    return a": "k: the numbers must have a type",
    "return changing": "changing: a constant must be Final",
    "x = y = a\n    return x": "assignment: there must be one target",
    "x, y = a\n    return x": "assignment: 2 values are needed; got a",
    "p.first, x = a, a\n    return x": "assignment: several values are for names",
    "return": "return: the result must be u32; got none",
    "x = nothing()\n    return a": "x: a variable needs a value",
    "return print(a)": "print: a name must be defined",
    "return len(a)": "len: a name must be defined",
    "return u32('text')": "a constant must be a number, a bool or bytes",
    "return u32(0 < a < 3)": "0 < a < 3: a comparison must be of two values; got a chain; use `and`",
    "return atomic_load(p.first, 'consume')": "order: it must be one of relaxed acquire seq_cst",
    "return cast(u32, a)": "cast: one type must be a pointer; got u32 and u32",
    "return min(a)": "min: 2 arguments are needed; got 1",
    "return leading_zeros(True)": "the operand must be an integer; got bool",
    "return u32(1.5)": "the type must be u32; got 1.5",
    "return stack(u32)": "stack: the argument must be a structure",
    "return stack_array(u32, u64(a), a)[0]": "a: an alignment must be a constant",
    "return stack_array(tuple[u32, u32], a)[0]": "stack_array: elements must have a size",
    "return stack_array(u32, b)[0]": "b: the type must be u64; got i64",
    "while a > 1:\n        a = stack_array(u32, u64(a))[0]\n    return a": "the number must be a constant in a loop",
    "while room(a) > 1:\n        a -= 1\n    return a": "the number must be a constant in a loop",
    "return u32(target_is('sparc'))": "target_is: it must be one of x86_64 aarch64; got 'sparc'",
    "return u32(printf(null, u8(a)))": "printf: further arguments have 32 or 64 bits and are no f32; got u8",
    "return u32(printf(null, f32(a)))": "printf: further arguments have 32 or 64 bits and are no f32; got f32",
    "return a(1)": "only functions are called; got u32",
    "x: list = a\n    return a": "x: type: an annotation must be a native type",
    "x: missing = a\n    return a": "x: the type must exist; got missing",
    "return (lambda: a)()": "an expression must be native Python; got Lambda",
    "while a > 1:\n        a -= 1\n    else:\n        a = 0\n    return a": "else: a loop must have none",
    "a: u64 = 3\n    return a": "a: a variable must keep its type u32; got u64",
    "return True": "True: the type must be u32; got bool",
    "return null": "null: the type must be u32; got null",
    "return r": "r: the type must be u32; got @inline r",
}
AROUND = """
changing = 3
half = 0.5


@native
def g(x: u32, y: u32) -> u32:
    return x


@inline
def r(x: u32) -> u32:
    return r(x)


@inline
def s(x: u32) -> u32:
    while True:
        pass


@inline
def nothing() -> None:
    pass


@inline
def room(n: u32) -> u32:
    return stack_array(u32, u64(n))[0]


@external
def printf(form: ptr[u8], *more: object) -> i32: ...


@native
def f(a: u32, b: i64, p: Pair) -> u32:
    """


@pytest.mark.parametrize("statements", WRONG, ids=range(len(WRONG)))
def test_wrong_programs_are_refused(statements: str, tmp_path: Path) -> None:
    before = STRUCT + AROUND
    made = module_of(tmp_path / "wrong.py", before + statements + "\n")
    with pytest.raises(NativeSyntaxError, match=WRONG[statements]) as caught:
        module([made.f])
    first = (HEAD + before).count("\n") + 1
    message = str(caught.value)
    assert message.startswith(f"wrong.py:{caught.value.line}: ")
    inside = "inlined function" in message or "return s" in statements or "room" in statements
    assert caught.value.line >= first - 1 or inside
    assert message.count("; ") >= 1 and caught.value.file == "wrong.py"


SIGNATURES = {
    "def f(a) -> u32:\n    return 1": "a: a native function must name all types",
    "def f(a: u32):\n    return 1": "return: a native function must name all types",
    "def f(a: u32 = 3) -> u32:\n    return a": "f: parameters must be plain names with types",
    "def f(*a: u32) -> u32:\n    return 1": "f: parameters must be plain names with types",
    "def f() -> tuple[u32, u32]:\n    return 1, 2": "f: several results are for @inline alone",
    "def f(a: str) -> u32:\n    return 1": "a: type: an annotation must be a native type",
    "def f(a: None) -> u32:\n    return 1": "a: a parameter must be a number, bool or pointer; got None",
}


@pytest.mark.parametrize("text", SIGNATURES)
def test_wrong_signatures_are_refused(text: str, tmp_path: Path) -> None:
    made = module_of(tmp_path / "wrong.py", f"@native\n{text}\n")
    with pytest.raises(NativeSyntaxError, match=SIGNATURES[text]) as caught:
        module([made.f])
    assert caught.value.line == HEAD.count("\n") + 2


def test_wrong_fields_are_refused_where_they_are_used(tmp_path: Path) -> None:
    text = "@struct\nclass S:\n    x: str\n\n\n@native\ndef f(s: S) -> u32:\n    return s.x\n"
    made = module_of(tmp_path / "wrong.py", text)
    with pytest.raises(NativeSyntaxError, match=r"S\.x: type: an annotation must be a native type; got <class 'str'>"):
        module([made.f])


def test_instructions_of_another_processor_are_refused(tmp_path: Path) -> None:
    made = module_of(tmp_path / "wrong.py", "@native\ndef f() -> u64:\n    return xgetbv(0)\n")
    with pytest.raises(NativeSyntaxError, match="xgetbv: the target must be x86_64; got another one"):
        module([made.f], target=cross_target("neon"))


def test_unknown_attributes_are_refused() -> None:
    with pytest.raises(
        CompileError, match="print: attributes must be some of baseline cold noinline; got hot; remove it"
    ):
        native(hot=True)(print)


def test_entries_must_be_native() -> None:
    with pytest.raises(CompileError, match="module: entries must be functions with @native"):
        module([print])


def test_symbols_are_unique(tmp_path: Path) -> None:
    one, two = (module_of(tmp_path / f"m{k}.py", "@native\ndef f(a: u32) -> u32:\n    return a\n") for k in (1, 2))
    with pytest.raises(CompileError, match="module: symbols must be unique; got two of f"):
        module([one.f, two.f])


def test_missing_sources_are_named(tmp_path: Path) -> None:
    made = module_of(tmp_path / "gone.py", "@native\ndef f(a: u32) -> u32:\n    return a\n")
    (tmp_path / "gone.py").unlink()
    with pytest.raises(CompileError, match=r"f: native functions need their source; .*gone\.py is missing"):
        module([made.f])
