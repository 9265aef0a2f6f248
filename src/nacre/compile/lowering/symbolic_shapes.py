"""Kernels for any size and constant: sizes and strides become symbols, constants become scalar operands.

Sizes 0 and 1 and the stride −1 stay, because dense, broadcast and reversed axes need different code.  So does the
stride 2 of a last axis, whose rows are read as whole vectors.  Layers of
different widths, eager operations on different shapes, and scalings by different factors then share one kernel.
"""

from __future__ import annotations

from dataclasses import replace

from nacre.base.dims import Dim, Size
from nacre.base.identity_cache import cached_by_identity
from nacre.base.records import dataclass
from nacre.compile.lowering.constants_to_operands import split_constants
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
    Kernel,
    Let,
    Load,
    Stmt,
    Store,
    While,
    size_expr,
)

GENERAL_NAME = "nacre_kernel"
SPARSE = 2  # the stride of every second element


@dataclass(frozen=True)
class SymbolicKernel:
    """A kernel over symbols, the size of each symbol, and the constants that its last scalar inputs replace."""

    kernel: Kernel
    sizes: dict[str, Size]
    scalars: tuple[Const, ...]


class _Symbols:
    def __init__(self) -> None:
        self.names: dict[Size, Dim] = {}

    def __call__(self, size: Size) -> Size:
        if isinstance(size, int) and -1 <= size <= 1:
            return size
        if size not in self.names:
            self.names[size] = Dim.symbol(f"n{len(self.names)}")
        return self.names[size]

    def buffer(self, b: Buffer) -> Buffer:
        """The buffer with symbols for its sizes."""
        strides = None if b.strides is None else tuple(map(self, b.strides))
        if b.strides and b.strides[-1] == SPARSE:
            strides = (*(strides or ())[:-1], SPARSE)
        return replace(b, shape=tuple(map(self, b.shape)), strides=strides)

    def body(self, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The statements with symbols for their sizes."""
        return tuple(map(self.statement, body))

    def expression(self, e: Expr) -> Expr:
        """The expression with symbols for its sizes."""
        match e:
            case Extent():
                return size_expr(self(e.size))
            case Load():
                return replace(e, index=tuple(map(self.expression, e.index)))
            case Apply():
                return replace(e, args=tuple(map(self.expression, e.args)))
            case _:
                return e

    def statement(self, s: Stmt) -> Stmt:
        """The statement with symbols for its sizes."""
        match s:
            case For():
                return replace(s, extent=self(s.extent), body=self.body(s.body))
            case If():
                condition = self.expression(s.condition)
                return replace(s, condition=condition, body=self.body(s.body), orelse=self.body(s.orelse))
            case While():
                return replace(s, condition=self.expression(s.condition), body=self.body(s.body))
            case Let():
                return replace(s, value=self.expression(s.value))
            case Store():
                return replace(s, index=tuple(map(self.expression, s.index)), value=self.expression(s.value))
            case Accumulate():
                return replace(s, values=tuple(map(self.expression, s.values)))
            case Alloc() if s.buffer.shape:
                return Alloc(self.buffer(s.buffer))
            case _:
                return s


@cached_by_identity
def with_symbolic_shapes(kernel: Kernel) -> SymbolicKernel:
    """The kernel with symbols for sizes and strides, and inputs for constants; buffers must state their strides."""
    kernel, scalars = split_constants(kernel)
    symbols = _Symbols()
    general = Kernel(
        GENERAL_NAME,
        tuple(map(symbols.buffer, kernel.inputs)),
        tuple(map(symbols.buffer, kernel.outputs)),
        symbols.body(kernel.body),
    )
    return SymbolicKernel(general, {str(symbol): size for size, symbol in symbols.names.items()}, scalars)
