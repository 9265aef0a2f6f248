"""Kernels for tests: one written by hand, and random ones."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from nacre.base.dims import Dim, Size
from nacre.base.dtypes import DType, bfloat16, bool_, float32, float64, int32, int64, uint8
from nacre.kernel import elementary
from nacre.kernel.ast import (
    OPERATIONS,
    Accumulate,
    Alloc,
    Apply,
    Buffer,
    Const,
    Expr,
    For,
    If,
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
    index_add,
    index_mul,
)

N, M = Dim.symbol("N", 0, 4096), Dim.symbol("M")
DTYPES = (float32, float64, bfloat16, int32, int64, uint8, bool_)
CHEAP = (
    "add",
    "sub",
    "mul",
    "div",
    "minimum",
    "maximum",
    "neg",
    "abs",
    "sqrt",
    "fma",
    "and",
    "xor",
    "not",
    "floor",
    "shl",
    "idiv",
    "rem",
)


def softmax() -> Kernel:
    """Softmax over rows, unscheduled."""
    x, y = Buffer("x", float32, (N, M)), Buffer("y", float32, (N, M))
    i, j = Index("i"), Index("j")
    m, s = Buffer("m", float32, ()), Buffer("s", float32, ())
    e = Local("e", float32)
    return Kernel(
        "softmax",
        (x,),
        (y,),
        (
            For(
                "i",
                N,
                (
                    Alloc(m),
                    For("j", M, (Accumulate("max", ("m",), (Load("x", (i, j), float32),)),)),
                    Alloc(s),
                    For(
                        "j",
                        M,
                        (
                            Let("e", apply("exp", apply("sub", Load("x", (i, j), float32), Load("m", (), float32)))),
                            Store("y", (i, j), e),
                            Accumulate("sum", ("s",), (e,)),
                        ),
                    ),
                    For(
                        "j", M, (Store("y", (i, j), apply("div", Load("y", (i, j), float32), Load("s", (), float32))),)
                    ),
                ),
            ),
        ),
    )


class Chance:
    """Generates random kernels; equal seeds give equal kernels."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.buffers: list[Buffer] = []
        self.locals: list[Local] = []
        self.count = 0

    def pick(self, choices: Sequence[object]) -> object:
        return self.random.choice(choices)

    def dtype(self) -> DType:
        return self.random.choice(DTYPES)

    def buffer(self, dtype: DType | None = None) -> Buffer:
        layouts: list[tuple[tuple[Size, ...], tuple[Size, ...] | None]] = [
            ((N, M), None),
            ((N, M), (1, N)),
            ((N, M), (M, 1)),
            ((N,), None),
            ((M,), None),
        ]
        shape, strides = self.random.choice(layouts)
        b = Buffer(f"x{len(self.buffers)}", dtype or self.dtype(), shape, strides)
        self.buffers.append(b)
        return b

    def load(self, b: Buffer) -> Load:
        names = {(N, M): ("i", "j"), (N,): ("i",), (M,): ("j",)}[b.shape]  # type: ignore[index]
        return Load(b.name, tuple(map(Index, names)), b.dtype)

    def number(self, dtype: DType) -> Const:
        if dtype is bool_:
            return const(self.random.random() < 0.5, bool_)
        if dtype.is_integer:
            return const(self.random.randrange(0, 9), dtype)
        return const(self.random.choice((0.0, -0.0, 1.5, math.inf, -math.inf, math.nan, 0.1, -3e-39, 1e30)), dtype)

    def leaf(self, dtype: DType) -> Expr:
        known = [v for v in self.locals if v.dtype is dtype]
        if known and self.random.random() < 0.5:
            return self.random.choice(known)
        if dtype is int64 and self.random.random() < 0.4:
            return index_add(index_mul(Index("i"), const(3)), Index("j"))
        if self.random.random() < 0.25:
            return self.number(dtype)
        same = [b for b in self.buffers if b.dtype is dtype]
        return self.load(self.random.choice(same) if same and self.random.random() < 0.7 else self.buffer(dtype))

    def value(self, dtype: DType, depth: int) -> Expr:
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf(dtype)
        roll = self.random.random()
        if roll < 0.15:
            return cast(self.value(self.dtype(), depth - 1), dtype)
        if roll < 0.3:
            return apply("select", self.value(bool_, depth - 1), *(self.value(dtype, depth - 1) for _ in range(2)))
        if dtype is bool_:
            other = self.dtype()
            op = self.random.choice(("eq", "ne", "lt", "le", "gt", "ge"))
            return apply(op, self.value(other, depth - 1), self.value(other, depth - 1))
        op = self.random.choice([op for op in CHEAP if elementary.supports(op, dtype)])
        return Apply(op, tuple(self.value(dtype, depth - 1) for _ in range(OPERATIONS[op][0])), dtype)

    def kernel(self) -> Kernel:
        """A pointwise kernel or a reduction over the inner axis, with lets and conditions."""
        outputs: list[Buffer] = []
        body: list[Stmt] = []
        for k in range(self.random.randrange(1, 3)):
            v = self.value(self.dtype(), 2)
            body.append(Let(f"t{k}", v))
            self.locals.append(Local(f"t{k}", v.dtype))
        for k in range(self.random.randrange(1, 3)):
            y = Buffer(f"y{k}", self.dtype(), (N, M))
            outputs.append(y)
            store: Stmt = Store(y.name, (Index("i"), Index("j")), self.value(y.dtype, 3))
            if self.random.random() < 0.3:
                store = If(
                    self.value(bool_, 1), (store,), (Store(y.name, (Index("i"), Index("j")), self.value(y.dtype, 1)),)
                )
            body.append(store)
        around: list[Stmt] = []
        after: list[Stmt] = []
        for k in range(self.random.randrange(0, 3)):
            op = self.random.choice(("sum", "max", "min", "prod"))
            dtype = self.random.choice((float32, float64, int32, int64))
            z, s = Buffer(f"z{k}", dtype, (N,)), Buffer(f"s{k}", dtype, ())
            outputs.append(z)
            around.append(Alloc(s))
            body.append(Accumulate(op, (s.name,), (self.value(dtype, 2),)))
            after.append(Store(z.name, (Index("i"),), Load(s.name, (), dtype)))
        nest = For("i", N, (*around, For("j", M, tuple(body)), *after))
        return Kernel("random", tuple(self.buffers), tuple(outputs), (nest,))
