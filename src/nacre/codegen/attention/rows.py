"""Attention's operations on rows of scores, as loop nests over a row panel in scratch memory.

most        scores → the row's greatest
raised      scores → weights: exp(score − that greatest score)
total       weights → their sum
finish      products with the values → divided by the sum
gradients   scores and the weights' cotangents → weights and the scores' cotangents
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from nacre.base.dims import Dim
from nacre.base.dtypes import DType, bool_
from nacre.base.records import dataclass
from nacre.codegen.loops.kernel import GRAIN, Writer
from nacre.kernel.ast import (
    Accumulate,
    Alloc,
    Buffer,
    Expr,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Stmt,
    Store,
    apply,
    cast,
    const,
)
from nacre.native.isa import Isa
from nacre.native.llvm_values import Val
from nacre.native.text import Function, ModuleText

ROWS, COLUMNS, ROW_STRIDE = Dim.symbol("rows"), Dim.symbol("columns"), Dim.symbol("row_stride")
I, J = Index("i"), Index("j")
RESULTS = ("out", "mixed", "most", "total")
GRADS = ("q", "k", "v")
FACTORS = {"scale": "mul", "divide": "div"}  # steps with a number, and their operations


@dataclass(frozen=True)
class Scores:
    """The function from the product of queries and keys to the scores, before their exponential.

    `steps` are "scale" or "divide", by `scale`, and "mask", in order.  A bool mask sets −inf where it is false, another
    mask is added; `mask_columns` is the stride of its columns, 0 or 1.  `causal` scores are −inf above the diagonal,
    which the kernels handle.  With `shares`, weights are divided by their sum before the product with the values; with
    `empties`, rows of −∞ have weights 0.  The operands may be narrower than `dtype`, which is the type of all
    arithmetic; so may the results, of type `out`.
    """

    dtype: DType
    steps: tuple[str, ...]
    scale: float = 1.0
    mask: DType | None = None
    mask_columns: int = 1
    causal: bool = False
    shares: bool = False
    empties: bool = False
    online: bool = False  # blocks of keys one after the other, as in `kernel.order_attention`
    operands: tuple[DType, ...] = ()  # of queries, keys and values, unless all are `dtype`
    out: DType | None = None
    bounded: bool = False  # a head's first keys alone are read, and may be none; their number is an operand

    @property
    def adds(self) -> bool:
        """Whether a mask is added to the scores."""
        return self.mask is not None and self.mask is not bool_

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The mask's buffer, if there is one."""
        if self.mask is None:
            return ()
        return (Buffer("mask", self.mask, (ROWS, COLUMNS), (Dim.symbol("mask_apart"), self.mask_columns)),)

    def __call__(self, x: Expr) -> Expr:
        """The score of a product."""
        for step in self.steps:
            if step in FACTORS:
                x = apply(FACTORS[step], x, const(self.scale, self.dtype))
            elif self.mask is bool_:
                x = apply("select", self._mask(), x, const(-math.inf, self.dtype))
            else:
                x = apply("add", x, self._mask())
        return x

    def back(self, g: Expr) -> Expr:
        """The cotangent of a product, given that of its score."""
        for step in reversed(self.steps):
            if step in FACTORS:
                g = apply(FACTORS[step], g, const(self.scale, self.dtype))
            elif self.mask is bool_:
                g = apply("select", self._mask(), g, const(0.0, self.dtype))
        return g

    def base(self, most: Expr) -> Expr:
        """The number subtracted from scores: the greatest one, but 0 where all are −∞."""
        nothing = apply("eq", most, const(-math.inf, self.dtype))
        return apply("select", nothing, const(0.0, self.dtype), most)

    def share(self, total: Expr) -> Expr:
        """1 / total; 1 for a row of zeros, if such rows may occur."""
        one = const(1.0, self.dtype)
        if self.empties or self.bounded:
            total = apply("select", apply("eq", total, const(0.0, self.dtype)), one, total)
        return apply("div", one, total)

    def _mask(self) -> Expr:
        assert self.mask is not None
        return Load("mask", (I, J), self.mask)

    def row_panel(self, name: str) -> Buffer:
        """Rows in scratch memory."""
        return Buffer(name, self.dtype, (ROWS, COLUMNS), (ROW_STRIDE, 1))

    def column(self, name: str) -> Buffer:
        """One value for each row."""
        return Buffer(name, self.dtype, (ROWS,), (1,))

    def element(self, name: str) -> Expr:
        """The element of a row panel."""
        return Load(name, (I, J), self.dtype)

    def row(self, name: str) -> Expr:
        """The value of a row."""
        return Load(name, (I,), self.dtype)


def most(s: Scores) -> Kernel:
    """x → most, the greatest score of a row."""
    body: tuple[Stmt, ...] = (
        Alloc(Buffer("a", s.dtype, ())),
        For("j", COLUMNS, (Accumulate("max", ("a",), (s(s.element("x")),)),), vector=True),
        Store("most", (I,), s.base(Load("a", (), s.dtype)) if s.empties and not s.online else Load("a", (), s.dtype)),
    )
    return Kernel("attend_most", (s.row_panel("x"), *s.buffers), (s.column("most"),), (rows_of(body),))


def raised(s: Scores) -> Kernel:
    """x, most → p = exp(score − most), which may be stored over x."""
    power = apply("exp", apply("sub", s(s.element("x")), Local("m", s.dtype)))
    body: tuple[Stmt, ...] = (
        Let("m", s.row("most")),
        For("j", COLUMNS, (Store("p", (I, J), power),), vector=True),
    )
    return Kernel(
        "attend_raised", (s.row_panel("x"), s.column("most"), *s.buffers), (s.row_panel("p"),), (rows_of(body),)
    )


def total(s: Scores) -> Kernel:
    """p → total, the sum of a row, and with `shares` p · (1 / total) in place of p."""
    body: tuple[Stmt, ...] = (
        Alloc(Buffer("b", s.dtype, ())),
        For("j", COLUMNS, (Accumulate("sum", ("b",), (s.element("x"),)),), vector=True),
        Store("total", (I,), Load("b", (), s.dtype)),
    )
    if not s.shares:
        return Kernel("attend_total", (s.row_panel("x"),), (s.column("total"),), (rows_of(body),))
    divided = Store("p", (I, J), apply("mul", s.element("x"), Local("u", s.dtype)))
    body = (*body, Let("u", s.share(Load("b", (), s.dtype))), For("j", COLUMNS, (divided,), vector=True))
    return Kernel("attend_total", (s.row_panel("x"),), (s.row_panel("p"), s.column("total")), (rows_of(body),))


def finish(s: Scores, results: Sequence[str]) -> Kernel:
    """c, total → of `results` "out" = c · (1 / total) and "mixed" = c; if online, c + 0, which is not −0."""
    dtypes = {"out": s.out or s.dtype, "mixed": s.dtype}
    mixed = apply("add", s.element("c"), const(0.0, s.dtype)) if s.online else s.element("c")
    values = {"out": apply("mul", mixed, Local("u", s.dtype)), "mixed": mixed}
    share = Let("u", s.share(s.row("total")))
    columns = For("j", COLUMNS, tuple(Store(r, (I, J), cast(values[r], dtypes[r])) for r in results), vector=True)
    outputs = tuple(Buffer(r, dtypes[r], (ROWS, COLUMNS), (Dim.symbol(f"{r}_apart"), 1)) for r in results)
    return Kernel("attend_finish", (s.row_panel("c"), s.column("total")), outputs, (rows_of((share, columns)),))


def gradients(s: Scores) -> Kernel:
    """x, g, most, shift → p = the weights, d = the cotangents of x; they may be stored over x and g.

    g are the cotangents of the weights without `shift`, the common part of a row.
    """
    raised = Local("v", s.dtype)
    moved = apply("mul", raised, apply("add", s.element("g"), Local("a", s.dtype)))
    body: tuple[Stmt, ...] = (
        Let("m", s.row("most")),
        Let("a", s.row("shift")),
        For(
            "j",
            COLUMNS,
            (
                Let("v", apply("exp", apply("sub", s(s.element("x")), Local("m", s.dtype)))),
                Store("p", (I, J), raised),
                Store("d", (I, J), s.back(moved)),
            ),
            vector=True,
        ),
    )
    inputs = s.row_panel("x"), s.row_panel("g"), s.column("most"), s.column("shift"), *s.buffers
    return Kernel("attend_gradients", inputs, (s.row_panel("p"), s.row_panel("d")), (rows_of(body),))


def rows_of(body: tuple[Stmt, ...]) -> For:
    """A loop over all rows with a body."""
    return For("i", ROWS, body, parallel=True)


@dataclass(frozen=True)
class RowNest:
    """A loop nest as a function of the module."""

    name: str
    buffers: tuple[str, ...]
    sizes: tuple[str, ...]

    def call(self, f: Function, table: Val, buffers: Mapping[str, Val], sizes: Mapping[str, Val], rows: Val) -> None:
        """Run `rows` rows; `table` is memory for the addresses and sizes that the nest reads."""
        for k, name in enumerate(self.buffers):
            f.store(buffers[name], f.gep(table, k, "i64"), 8)
        for k, name in enumerate(self.sizes, len(self.buffers)):
            f.store(sizes[name], f.gep(table, k, "i64"), 8)
        f.call(self.name, "void", [table, f.i64(0), rows, Val("null", "ptr")])


def emit_nest(module: ModuleText, isa: Isa, kernel: Kernel) -> RowNest:
    """Write a nest as a function of the module; its work items are rows, or all rows if they are lanes."""
    params = {"args": "ptr", "lo": "i64", "hi": "i64", "scratch": "ptr"}
    f = module.function(kernel.name, "void", params, linkage="internal", isa=isa)
    writer = Writer(f, isa, kernel)
    extent = writer.write()
    assert extent in (ROWS, (ROWS + (GRAIN - 1)) // GRAIN) and writer.scratch_size == 0
    return RowNest(kernel.name, tuple(b.name for b in kernel.buffers), tuple(map(str, writer.sizes)))
