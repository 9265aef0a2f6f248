"""Pointwise kernels as straight-line code, which a generator inserts where an element or a vector is in registers."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.codegen.loops.operations import constant, operate
from nacre.kernel.ast import Apply, Const, Expr, For, Kernel, Let, Load, Local, Stmt, Store
from nacre.native.llvm_values import Val
from nacre.native.text import Function


def inline_body(kernel: Kernel) -> tuple[Stmt, ...]:
    """The innermost body of a kernel whose loops are perfectly nested."""
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], For):
        body = body[0].body
    return body


def computed(f: Function, body: Sequence[Stmt], loaded: dict[str, Val], lanes: int) -> dict[str, Val]:
    """Emit a straight-line body on vectors; returns the values that it stores, in memory types."""
    names: dict[str, Val] = {}
    memo: dict[Expr, Val] = {}

    def value(e: Expr) -> Val:
        match e:
            case Const():
                return constant(f, e.dtype, e.value, lanes)
            case Local():
                return names[e.name]
            case Load():
                return loaded[e.buffer]
            case Apply():
                if e not in memo:
                    source = e.args[1 if e.op == "select" else 0].dtype
                    memo[e] = operate(f, e.op, [value(a) for a in e.args], source, e.dtype)
                return memo[e]
            case _:
                raise AssertionError(f"an epilogue has no {type(e).__name__}")

    stored: dict[str, Val] = {}
    for s in body:
        if isinstance(s, Let):
            names[s.name] = value(s.value)
        else:
            assert isinstance(s, Store)
            result = value(s.value)
            stored[s.buffer] = f.cast("zext", result, "i8") if s.value.dtype.is_bool else result
    return stored
