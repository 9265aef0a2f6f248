"""Kernels for any size and constant: sizes and strides become symbols, constants become scalar operands.

Sizes 0 and 1 and the stride −1 stay, because dense, broadcast and reversed axes need different code.  So does the
stride 2 of a last axis, whose rows are read as whole vectors.  Layers of different widths, eager operations on
different shapes, and scalings by different factors then share one kernel.

Sizes have one symbol where the kernel's form makes them equal, as a loop and the axes that it runs along.  Sizes that
are equal by chance, as a batch and its channels may be, have symbols of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
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
    Index,
    Kernel,
    Let,
    Load,
    Stmt,
    Store,
    While,
    expressions,
    size_expr,
    statements,
)
from nacre.kernel.dependence import loads_of

GENERAL_NAME = "nacre_kernel"
SPARSE = 2  # the stride of every second element


@dataclass(frozen=True)
class SymbolicKernel:
    """A kernel over symbols, the size of each symbol, and the constants that its last scalar inputs replace."""

    kernel: Kernel
    sizes: dict[str, Size]
    scalars: tuple[Const, ...]


Place = tuple[object, ...]  # where a kernel has a size: a loop, or an axis of a buffer


class _EqualSizes:
    """The places of sizes in a kernel, in classes that the kernel's form makes equal."""

    def __init__(self, kernel: Kernel) -> None:
        self.parents: dict[Place, Place] = {}
        self.loops = {(s.index, s.extent) for s in statements(kernel.body) if isinstance(s, For)}
        allocated = [s.buffer for s in statements(kernel.body) if isinstance(s, Alloc)]
        self.buffers: dict[str, list[Buffer]] = {}
        for b in (*kernel.buffers, *allocated):
            self.buffers.setdefault(b.name, []).append(b)
        for name, index in _accesses(kernel.body):
            for b in self.buffers.get(name, ()):
                self.join_loops(b, index)
        for b in (*kernel.buffers, *allocated):
            self.join_strides(b)

    def of(self, place: Place) -> Place:
        """The first place of the class of one."""
        while place in self.parents:
            place = self.parents[place]
        return place

    def join(self, a: Place, b: Place) -> None:
        """Make the classes of two places one."""
        a, b = self.of(a), self.of(b)
        if a != b:
            self.parents[b] = a

    def join_loops(self, b: Buffer, index: tuple[Expr, ...]) -> None:
        """Join the axes of a buffer with the loops that run along them."""
        for k, (i, size) in enumerate(zip(index, b.shape, strict=False)):
            if isinstance(i, Index) and (i.name, size) in self.loops:
                self.join(("loop", i.name, size), ("axis", b.name, k, size))

    def join_strides(self, b: Buffer) -> None:
        """Join a stride with the axis that it steps over, or with other buffers' strides along the same loop."""
        steps = tuple(zip(b.shape, b.strides or (), strict=False))
        for k, (size, step) in enumerate(steps):
            over = [j for j, (n, s) in enumerate(steps) if j != k and s == 1 and n == step]
            if over:
                self.join(("axis", b.name, over[0], step), ("stride", b.name, k, step))
            else:
                self.join(("along", self.of(("axis", b.name, k, size)), step), ("stride", b.name, k, step))


def _accesses(body: tuple[Stmt, ...]) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    """The buffers that statements read and write, with the indices."""
    for s in statements(body):
        if isinstance(s, Store):
            yield s.buffer, s.index
        for load in loads_of(expressions(s)):
            yield load.buffer, load.index


class _Symbols:
    def __init__(self, kernel: Kernel) -> None:
        self.equal = _EqualSizes(kernel)
        self.names: dict[object, Dim] = {}
        self.sizes: dict[str, Size] = {}

    def __call__(self, size: Size, place: Place | None = None) -> Size:
        """The symbol of a size at a place; sizes that are symbols already have one for each."""
        if isinstance(size, int) and -1 <= size <= 1:
            return size
        key = self.equal.of(place) if isinstance(size, int) and place is not None else size
        if key not in self.names:
            self.names[key] = Dim.symbol(f"n{len(self.names)}")
            self.sizes[str(self.names[key])] = size
        return self.names[key]

    def buffer(self, b: Buffer) -> Buffer:
        """The buffer with symbols for its sizes."""
        strides = None if b.strides is None else tuple(self.each("stride", b.name, b.strides))
        return replace(b, shape=tuple(self.each("axis", b.name, b.shape)), strides=strides)

    def each(self, kind: str, name: str, sizes: tuple[Size, ...]) -> Iterator[Size]:
        """The symbols of a buffer's sizes or strides."""
        for k, size in enumerate(sizes):
            whole = kind == "stride" and size == SPARSE and k == len(sizes) - 1
            yield size if whole else self(size, (kind, name, k, size))

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
                return replace(s, extent=self(s.extent, ("loop", s.index, s.extent)), body=self.body(s.body))
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
    symbols = _Symbols(kernel)
    general = Kernel(
        GENERAL_NAME,
        tuple(map(symbols.buffer, kernel.inputs)),
        tuple(map(symbols.buffer, kernel.outputs)),
        symbols.body(kernel.body),
    )
    return SymbolicKernel(general, symbols.sizes, scalars)
