"""Pointwise kernels as straight-line code, which a generator inserts where an element or a vector is in registers."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.codegen.loops.operations import constant, operate
from nacre.kernel.ast import Apply, Const, Expr, For, Kernel, Let, Load, Local, Stmt, Store
from nacre.native.llvm_values import Val
from nacre.native.text import Function


def inline_body(kernel: Kernel) -> tuple[Stmt, ...] | None:
    """The innermost body of a kernel whose loops are perfectly nested; None unless it computes with values alone.

    The places of elements and symbolic sizes are not known where it is inserted.
    """
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], For):
        body = body[0].body
    known: set[int] = set()
    todo: list[Expr] = []
    for s in body:
        if not isinstance(s, Let | Store):
            return None
        todo.append(s.value)
    while todo:
        e = todo.pop()
        if id(e) in known:
            continue
        known.add(id(e))
        if isinstance(e, Apply):
            todo += e.args
        elif not isinstance(e, Const | Local | Load):
            return None
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
