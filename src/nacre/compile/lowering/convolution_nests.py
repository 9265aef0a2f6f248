"""Convolutions of images whose sizes are symbols, as nests of kernel IR: pixels are in vector lanes.

They have the order of sums of `kernel.order_convolution`, and serve every channel count and dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nacre.base.dims import Size
from nacre.base.dtypes import bool_
from nacre.base.records import dataclass
from nacre.base.types import TensorType
from nacre.kernel.ast import (
    Alloc,
    Buffer,
    Const,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Load,
    Stmt,
    Store,
    apply,
    const,
    index_add,
    index_mul,
    size_expr,
)
from nacre.kernel.ast import cast as convert
from nacre.kernel.order_convolution import CHAIN_LENGTH, CHANNEL_BLOCK, restart_blocks
from nacre.ops.reduce import loops

Types = Sequence[TensorType]
Pair = tuple[int, int]

N, C, R, Q, KH, KW = (Index(name) for name in ("n", "c", "r", "q", "i", "j"))


@dataclass(frozen=True)
class Sum:
    """The sums of a convolution: the product of `channels` channels and the taps of a kernel.

    `row` and `column` give, for a tap, the place in the source and the tests for its presence.  `term` gives both
    factors of a channel at a place.
    """

    channels: int
    kernel: tuple[int, int]
    row: tuple[Expr, list[Expr]]
    column: tuple[Expr, list[Expr]]
    term: Callable[[Expr, Expr, Expr], tuple[Expr, Expr]]  # (channel of the group, row, column)

    def chains(self) -> tuple[Stmt, ...]:
        """The statements that sum all channels to `total`."""
        span = CHANNEL_BLOCK * restart_blocks(self.kernel[0] * self.kernel[1])
        whole, rest = divmod(self.channels, span)
        if whole == 0 or (whole == 1 and rest == 0):
            return self.chain(const(0), self.channels, True)
        first = self.chain(const(0), span, True)
        at = index_mul(index_add(Index("span"), const(1)), const(span))
        middle = (For("span", whole - 1, self.chain(at, span, False)),) if whole > 1 else ()
        last = self.chain(const(whole * span), rest, False) if rest else ()
        return (*first, *middle, *last)

    def chain(self, start: Expr, channels: int, first: bool) -> tuple[Stmt, ...]:
        """The statements of one chain, and of its addition to `total`."""
        whole, rest = divmod(channels, CHANNEL_BLOCK)
        blocks: list[Stmt] = [Store("chain", (), Const(0, self.dtype))]
        if whole:
            at = index_add(start, index_mul(Index("block"), const(CHANNEL_BLOCK)))
            blocks.append(For("block", whole, self.taps(at, CHANNEL_BLOCK)))
        if rest:
            blocks += self.taps(index_add(start, const(whole * CHANNEL_BLOCK)), rest)
        done = Load("chain", (), self.dtype)
        total = done if first else apply("add", Load("total", (), self.dtype), done)
        return (*blocks, Store("total", (), total))

    @property
    def dtype(self) -> Any:
        """The dtype of the sums."""
        return self.term(const(0), const(0), const(0))[0].dtype

    def taps(self, start: Expr, channels: int) -> tuple[Stmt, ...]:
        """The loops over the taps of some channels."""
        channel = index_add(start, Index("k")) if channels > 1 else start
        a, b = self.term(channel, self.row[0], self.column[0])
        step = Store("chain", (), apply("fma", a, b, Load("chain", (), self.dtype)))
        inner = _where(self.column[1], (For("k", channels, (step,)),) if channels > 1 else (step,))
        return (For("i", self.kernel[0], _where(self.row[1], (For("j", self.kernel[1], inner),))),)


def _where(tests: Sequence[Expr], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The statements where all tests hold."""
    if not tests:
        return body
    found = tests[0]
    for test in tests[1:]:
        found = apply("and", found, test)
    return (If(found, body),)


def _read(out: Expr, tap: Expr, size: Size, stride: int, pad: Pair, dilation: int) -> tuple[Expr, list[Expr]]:
    """The place that a tap of a window reads, and the tests for its being in the image."""
    at = index_add(index_mul(out, const(stride)), index_mul(tap, const(dilation)))
    if pad[0]:
        at = apply("sub", at, const(pad[0]))
    low = [apply("ge", at, const(0))] if pad[0] else []
    return at, [*low, apply("lt", at, size_expr(size))] if max(pad) else low


def _touched(index: Expr, tap: Expr, count: Size, stride: int, pad: Pair, dilation: int) -> tuple[Expr, list[Expr]]:
    """The window whose tap reads a place of the image, and the tests for there being one."""
    offset = apply("sub", index_add(index, const(pad[0])), index_mul(tap, const(dilation)))
    out = offset if stride == 1 else apply("idiv", offset, const(stride))
    tests = [apply("ge", offset, const(0)), apply("lt", out, size_expr(count))]
    if stride > 1:
        tests.append(apply("eq", apply("rem", offset, const(stride)), const(0)))
    return out, tests


def _buffer(name: str, type: TensorType) -> Buffer:
    return Buffer(name, type.dtype, type.shape)


def _group(filters: int, groups: int) -> Expr:
    """The group of the channel `c` of a result."""
    if groups == 1:
        return const(0)
    return C if filters == groups else apply("idiv", C, const(filters // groups))


def _kernel(name: str, source: TensorType, w: TensorType, y: TensorType, about: Sum) -> Kernel:
    body: tuple[Stmt, ...] = (
        Alloc(Buffer("chain", about.dtype, ())),
        Alloc(Buffer("total", about.dtype, ())),
        Store("total", (), Const(0, about.dtype)),
        *(about.chains() if about.channels else ()),
        Store("y", (N, C, R, Q), convert(Load("total", (), about.dtype), y.dtype)),
    )
    inputs = (_buffer("x", source), _buffer("w", w))
    return Kernel(name, inputs, (_buffer("y", y),), loops((N, C, R, Q), y.shape, body))


def forward(
    types: Types, results: Types, stride: Pair, padding: tuple[Pair, Pair], dilation: Pair, groups: int
) -> Kernel:
    """y = conv(x, w)."""
    (x, w), (y,) = types, results
    filters, channels = int(w.shape[0]), int(w.shape[1])
    wide = x.dtype.arithmetic
    base = index_mul(_group(filters, groups), const(channels))

    def term(channel: Expr, row: Expr, column: Expr) -> tuple[Expr, Expr]:
        """A pixel and its weight."""
        pixel = Load("x", (N, index_add(base, channel), row, column), x.dtype)
        return convert(pixel, wide), convert(Load("w", (C, channel, KH, KW), w.dtype), wide)

    places = (
        _read(out, tap, x.shape[k + 2], stride[k], padding[k], dilation[k])
        for k, (out, tap) in enumerate(((R, KH), (Q, KW)))
    )
    row, column = places
    return _kernel("convolve", x, w, y, Sum(channels, _window(w), row, column, term))


def input_grad(
    types: Types,
    results: Types,
    shape: tuple[Size, ...],
    stride: Pair,
    padding: tuple[Pair, Pair],
    dilation: Pair,
    groups: int,
) -> Kernel:
    """dx = the gradient of a convolution's image."""
    (g, w), (dx,) = types, results
    filters, channels = int(w.shape[0]), int(w.shape[1])
    wide, each = g.dtype.arithmetic, filters // groups
    group = _group(channels * groups, groups)
    base = index_mul(group, const(each))
    inside = apply("sub", C, index_mul(group, const(channels))) if groups > 1 else C

    def term(channel: Expr, row: Expr, column: Expr) -> tuple[Expr, Expr]:
        """A gradient and its weight."""
        filter = index_add(base, channel)
        pixel = Load("x", (N, filter, row, column), g.dtype)
        return convert(pixel, wide), convert(Load("w", (filter, inside, KH, KW), w.dtype), wide)

    places = (
        _touched(index, tap, g.shape[k + 2], stride[k], padding[k], dilation[k])
        for k, (index, tap) in enumerate(((R, KH), (Q, KW)))
    )
    row, column = places
    return _kernel("convolve_input_grad", g, w, dx, Sum(each, _window(w), row, column, term))


def weight_grad(
    types: Types,
    results: Types,
    shape: tuple[Size, ...],
    stride: Pair,
    padding: tuple[Pair, Pair],
    dilation: Pair,
    groups: int,
) -> Kernel:
    """dw = the gradient of a convolution's filters, whose chains restart by the width that a call has."""
    (x, g), (dw,) = types, results
    filters, channels = int(dw.shape[0]), int(dw.shape[1])
    wide = x.dtype.arithmetic
    (row, rows), (column, columns) = (
        _read(out, tap, x.shape[k + 2], stride[k], padding[k], dilation[k])
        for k, (out, tap) in enumerate(((R, KH), (Q, KW)))
    )
    filter = Index("o")
    group = const(0) if groups == 1 else apply("idiv", filter, const(filters // groups))
    pixel = convert(Load("x", (N, index_add(index_mul(group, const(channels)), C), row, column), x.dtype), wide)
    slope = convert(Load("g", (N, filter, R, Q), g.dtype), wide)
    chain, total, last = Load("chain", (), wide), Load("total", (), wide), size_expr(g.shape[2] - 1)
    extend = (Store("chain", (), apply("fma", slope, pixel, chain)),)
    span = apply("idiv", const(CHAIN_LENGTH), size_expr(g.shape[3]))
    behind = apply("rem", index_add(R, const(1)), apply("maximum", span, const(1)))
    done = apply("or", apply("eq", behind, const(0)), apply("eq", R, last))
    added = apply("select", Load("seen", (), bool_), apply("add", total, chain), chain)
    finish = (
        Store("total", (), added),
        Store("seen", (), Const(True, bool_)),
        Store("chain", (), Const(0, wide)),
    )
    line = (*_where(rows, (For("q", g.shape[3], _where(columns, extend)),)), If(done, finish))
    body = (
        *(Alloc(Buffer(name, dtype, ())) for name, dtype in (("chain", wide), ("total", wide), ("seen", bool_))),
        *(Store(name, (), Const(0, wide)) for name in ("chain", "total")),
        Store("seen", (), Const(False, bool_)),
        For("n", x.shape[0], (For("r", g.shape[2], line),)),
        Store("y", (filter, C, KH, KW), convert(total, dw.dtype)),
    )
    nest = loops((C, KH, KW, filter), (*dw.shape[1:], filters), body)
    return Kernel("convolve_weight_grad", (_buffer("x", x), _buffer("g", g)), (_buffer("y", dw),), nest)


def _window(w: TensorType) -> tuple[int, int]:
    return int(w.shape[2]), int(w.shape[3])
