"""Kernels as text: `show` prints one, `parse` reads it back, exactly.

    kernel softmax(x: f32[R, 1024]) -> (y: f32[R, 1024]):
      parallel for i in R:
        alloc m: f32[]
        vector for j in 1024:
          accumulate max m <- x[i, j]
        ...
        y[i, j] = div(e, s[])

Sizes are sums of products of symbols; symbols with bounds are listed first (`where R in 1..512`).  An expression is
`op(operands)`, `cast[f32](x)`, a load `x[i, j]`, a number with its dtype (`1.5:f32`; int64 without one), `size(R)`, or
the name of a loop or of a `let`.  Sums and products of int64 are written with + - *.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nacre.base.dims import LIMIT, Dim, Size, Symbol
from nacre.base.dtypes import bool_, int64
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Apply,
    Buffer,
    Const,
    Expr,
    Extent,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    While,
    children,
    expressions,
    statements,
)
from nacre.kernel.parse import parse

__all__ = ["lines", "parse", "show", "show_expression", "symbols"]

INFIX = {"add": "+", "sub": "-", "mul": "*"}


def show(kernel: Kernel) -> str:
    """The text of a kernel; `parse(show(kernel)) == kernel`."""
    return "\n".join(text for text, _ in lines(kernel)) + "\n"


def lines(kernel: Kernel) -> Iterator[tuple[str, Stmt | None]]:
    """The lines of a kernel's text, each with its statement, or the one that it begins."""
    inputs, outputs = (", ".join(map(_buffer, bs)) for bs in (kernel.inputs, kernel.outputs))
    yield f"kernel {kernel.name}({inputs}) -> ({outputs}):", None
    for s in sorted(symbols(kernel), key=lambda s: s.name):
        if (s.low, s.high) != (0, LIMIT):
            yield f"  where {s.name} in {s.low}..{s.high}", None
    yield from _block(kernel.body, "  ")


def _block(body: Sequence[Stmt], indent: str) -> Iterator[tuple[str, Stmt | None]]:
    if not body:
        yield f"{indent}pass", None
    for s in body:
        yield indent + _statement(s), s
        match s:
            case For() | While():
                yield from _block(s.body, indent + "  ")
            case If():
                yield from _block(s.body, indent + "  ")
                if s.orelse:
                    yield f"{indent}else:", None
                    yield from _block(s.orelse, indent + "  ")
            case _:
                pass


def _statement(s: Stmt) -> str:
    e = show_expression
    match s:
        case For():
            marks = ("parallel " if s.parallel else "") + ("vector " if s.vector else "")
            return f"{marks}for {s.index} in {s.extent}:"
        case Let():
            return f"let {s.name} = {e(s.value)}"
        case Store():
            return f"{s.buffer}[{', '.join(map(e, s.index))}] = {e(s.value)}"
        case Accumulate():
            return f"accumulate {s.op} {', '.join(s.accumulators)} <- {', '.join(map(e, s.values))}"
        case Alloc():
            return f"alloc {_buffer(s.buffer)}"
        case If():
            return f"if {e(s.condition)}:"
        case While():
            return f"while {e(s.condition)}:"


def _buffer(b: Buffer) -> str:
    strides = "" if b.strides is None else f" strides [{', '.join(map(str, b.strides))}]"
    return f"{b.name}: {b.dtype.short}[{', '.join(map(str, b.shape))}]{strides}"


def show_expression(e: Expr) -> str:
    """The text of an expression."""
    match e:
        case Const():
            return _number(e)
        case Index() | Local():
            return e.name
        case Extent():
            return f"size({e.size})"
        case Load():
            return f"{e.buffer}[{', '.join(map(show_expression, e.index))}]"
        case Apply() if e.op in INFIX and e.dtype is int64:
            a, b = map(_operand, e.args)
            return f"{a} {INFIX[e.op]} {b}"
        case Apply():
            to = f"[{e.dtype.short}]" if e.op in ("cast", "bitcast") else ""
            return f"{e.op}{to}({', '.join(map(show_expression, e.args))})"


def _operand(e: Expr) -> str:
    text = show_expression(e)
    return f"({text})" if isinstance(e, Apply) and e.op in INFIX and e.dtype is int64 else text


def _number(c: Const) -> str:
    if c.dtype is bool_:
        return "true" if c.value else "false"
    text = repr(float(c.value) if c.dtype.python is float else int(c.value))
    return text if c.dtype is int64 else f"{text}:{c.dtype.short}"


def symbols(kernel: Kernel) -> set[Symbol]:
    """The symbols of all sizes in a kernel."""

    def sizes() -> Iterable[Size]:
        """All sizes that the kernel mentions."""
        scratch = [s.buffer for s in statements(kernel.body) if isinstance(s, Alloc)]
        for b in (*kernel.buffers, *scratch):
            yield from (*b.shape, *(b.strides or ()))
        for s in statements(kernel.body):
            if isinstance(s, For):
                yield s.extent
            for e in expressions(s):
                yield from _extents(e, set())

    return {symbol for size in sizes() if isinstance(size, Dim) for symbol in size.symbols()}


def _extents(e: Expr, seen: set[int]) -> Iterator[Size]:
    if id(e) not in seen:
        seen.add(id(e))
        if isinstance(e, Extent):
            yield e.size
        for c in children(e):
            yield from _extents(c, seen)
