"""Sorting: `argsort`, one stable order for every dtype, and `sort` and `topk`, which read at its positions.

`first_positions` finds the first positions of that order without the rest.

Numbers are ordered by unsigned keys made from their bits: zeros of both signs are equal, NaN comes last in either
direction, and equal elements keep their order.  Short rows count for each element how many precede it.  Longer rows use
a radix sort on the bytes of the keys.  A small number of first elements is maintained while a row is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nacre.base.dims import Size
from nacre.base.dtypes import ORDERED, DType, bool_, int64, uint8, uint16, uint32, uint64
from nacre.base.errors import ShapeError
from nacre.base.types import TensorType
from nacre.ir.primitive import Constant, Nest, Primitive
from nacre.kernel.ast import (
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
    While,
    apply,
    const,
    index_add,
    size_expr,
)
from nacre.kernel.ast import cast as convert
from nacre.ops.gather import gather
from nacre.ops.reduce import loops
from nacre.ops.rules import require_axis, require_kind
from nacre.ops.shape import front
from nacre.ops.view import slice_axis
from nacre.trace.bind import bind
from nacre.trace.value import Value

FEW = 32  # the most elements of a row whose ranks are counted
MANY = 64  # the most first elements that are maintained in order, instead of sorting the row
RUN = 64  # elements whose least key is compared with the last of the first elements
BYTE = 256
KEYS = {1: uint8, 8: uint8, 16: uint16, 32: uint32, 64: uint64}

At = Callable[[Expr], Expr]  # the element of a row at a position


def argsort(x: Value, axis: int, descending: bool = False) -> Value:
    """The int64 positions that sort x along an axis; equal elements keep their order, and NaN comes last."""
    return bind(argsort_p, x, axis=axis, descending=descending)


def sort(x: Value, axis: int, descending: bool = False) -> Value:
    """The elements in order along an axis."""
    return gather(x, argsort(x, axis, descending), axis)


def topk(x: Value, k: int, axis: int, largest: bool = True) -> tuple[Value, Value]:
    """The k greatest (least) elements along an axis, in order, and their positions."""
    size = x.type.shape[axis]
    if k < 0 or (isinstance(size, int) and k > size):
        raise ShapeError(f"topk: k must be from 0 to {size} along axis {axis} of {x.type}; got {k}")
    if isinstance(size, int) and size > FEW and 0 < k <= min(MANY, size // 4):
        positions = first_positions(x, k, axis, largest)
    else:
        positions = slice_axis(argsort(x, axis, largest), axis, 0, k)
    return gather(x, positions, axis), positions


def first_positions(x: Value, count: int, axis: int, descending: bool = False) -> Value:
    """The first `count` of the positions that sort x along an axis."""
    return bind(first_positions_p, x, count=count, axis=axis, descending=descending)


def _argsort_type(x: TensorType, axis: int, descending: bool) -> TensorType:
    require_kind("argsort", x, ORDERED)
    require_axis("argsort", axis, x)
    return x.with_dtype(int64)


def key(x: Expr, descending: bool) -> Expr:
    """An unsigned number with the same order as x."""
    to = KEYS[x.dtype.bits]
    if x.dtype is bool_:
        found = convert(x, to)
    elif x.dtype.is_float:
        found = _key_of_float(x, to)
    elif x.dtype.is_signed:
        found = apply("xor", Apply("bitcast", (x,), to), Const(_top(to), to))
    else:
        found = x
    if descending:
        found = apply("not", found)
    if not x.dtype.is_float:
        return found
    return apply("select", apply("isnan", x), Const(_all(to), to), found)


def _key_of_float(x: Expr, to: DType) -> Expr:
    """The bits with the top one set where positive, all inverted where negative."""
    zero = Const(0.0, x.dtype)
    bits = Apply("bitcast", (apply("select", apply("eq", x, zero), zero, x),), to)
    return apply("select", apply("lt", x, zero), apply("not", bits), apply("or", bits, Const(_top(to), to)))


def _top(dtype: DType) -> int:
    return 1 << dtype.bits - 1


def _all(dtype: DType) -> int:
    return (1 << dtype.bits) - 1


class _Row:
    """A row of the operand `x` along an axis: the loops around it, and its elements by position."""

    def __init__(self, x: TensorType, axis: int, descending: bool) -> None:
        self.x, self.axis, self.descending = x, axis, descending
        self.keys = KEYS[x.dtype.bits]
        self.others = [Index(f"i{k}") for k in range(x.rank) if k != axis]
        self.extents = [s for k, s in enumerate(x.shape) if k != axis]

    def place(self, i: Expr) -> tuple[Expr, ...]:
        """The index of a position in the row."""
        return (*self.others[: self.axis], i, *self.others[self.axis :])

    def key(self, i: Expr) -> Expr:
        """The key of an element of the row."""
        return key(Load("x", self.place(i), self.x.dtype), self.descending)


# ---- the kernel


def _argsort_kernel(types: tuple[TensorType, ...], results: Any, axis: int, descending: bool) -> Kernel:
    x = types[0]
    row, size = _Row(x, axis, descending), x.shape[axis]
    few = isinstance(size, int) and size <= FEW
    body = list((_ranked if few else _by_bytes)(size, row.keys, row.key, row.place))
    buffers = (Buffer("x", x.dtype, x.shape),), (Buffer("y", int64, x.shape),)
    return Kernel("argsort", *buffers, loops(row.others, row.extents, body))


def _ranked(size: Size, dtype: DType, element: At, place: Callable[[Expr], tuple[Expr, ...]]) -> Iterator[Stmt]:
    """The place of each element is the number of elements that precede it."""
    i, j = Index("i"), Index("j")
    own, other = Load("keys", (i,), dtype), Load("keys", (j,), dtype)
    before = apply("or", apply("lt", other, own), apply("and", apply("eq", other, own), apply("lt", j, i)))
    yield Alloc(Buffer("keys", dtype, (size,)))
    yield For("e", size, (Store("keys", (Index("e"),), element(Index("e"))),))
    yield For(
        "i",
        size,
        (
            Alloc(Buffer("rank", int64, ())),
            For("j", size, (Accumulate("sum", ("rank",), (convert(before, int64),)),), vector=True),
            Let("at", Load("rank", (), int64)),
            Store("y", place(Local("at", int64)), i),
        ),
    )


def _by_bytes(size: Size, dtype: DType, element: At, place: Callable[[Expr], tuple[Expr, ...]]) -> Iterator[Stmt]:
    """Distribute the elements by each byte of their keys in turn; each pass preserves the order so far."""
    passes = dtype.bits // 8
    yield Alloc(Buffer("counts", int64, (passes * BYTE,)))
    yield from (Alloc(Buffer(f"keys{p}", dtype, (size,))) for p in range(2))
    yield Alloc(Buffer("order", int64, (size,)))
    yield For("z", passes * BYTE, (Store("counts", (Index("z"),), const(0)),), vector=True)
    e = Index("e")
    counting: list[Stmt] = [Let("key", element(e)), Store("keys0", (e,), Local("key", dtype))]
    for p in range(passes):
        counting += _counted(p, Local("key", dtype), f"digit{p}", const(1))
    yield For("e", size, tuple(counting))
    for p in range(passes):
        yield from _starts(p)
        yield For(f"m{p}", size, tuple(_dealt(p, passes, dtype, place)))


def _counted(p: int, key: Expr, name: str, step: Expr) -> Iterator[Stmt]:
    """Advance the count of the key's byte."""
    byte = apply("and", apply("shr", key, Const(8 * p, key.dtype)), Const(BYTE - 1, key.dtype))
    yield Let(name, index_add(convert(byte, int64), const(p * BYTE)))
    there = Local(name, int64)
    yield Store("counts", (there,), index_add(Load("counts", (there,), int64), step))


def _starts(p: int) -> Iterator[Stmt]:
    """Turn the counts of a byte into the places where its elements begin."""
    total, here = Buffer(f"total{p}", int64, ()), Local(f"here{p}", int64)
    at = index_add(Index(f"s{p}"), const(p * BYTE))
    yield Alloc(total)
    yield Store(total.name, (), const(0))
    yield For(
        f"s{p}",
        BYTE,
        (
            Let(here.name, Load("counts", (at,), int64)),
            Store("counts", (at,), Load(total.name, (), int64)),
            Store(total.name, (), index_add(Load(total.name, (), int64), here)),
        ),
    )


def _dealt(p: int, passes: int, dtype: DType, place: Callable[[Expr], tuple[Expr, ...]]) -> Iterator[Stmt]:
    """Put an element behind the previous ones with its byte.  The order after the last byte is the result."""
    i, into_result = Index(f"m{p}"), (passes - 1 - p) % 2 == 0
    source: Expr = i if p == 0 else Load("order", (i,), int64) if into_result else Load("y", place(i), int64)
    key, place_name, old = Local(f"key{p}", dtype), f"byte{p}", f"old{p}"
    yield Let(key.name, Load(f"keys{p % 2}", (i,), dtype))
    yield Let(old, source)
    counted = list(_counted(p, key, place_name, const(1)))
    yield counted[0]
    at = Local(f"at{p}", int64)
    yield Let(at.name, Load("counts", (Local(place_name, int64),), int64))
    yield counted[1]
    if p < passes - 1:
        yield Store(f"keys{(p + 1) % 2}", (at,), key)
    if into_result:
        yield Store("y", place(at), Local(old, int64))
    else:
        yield Store("order", (at,), Local(old, int64))


def _argsort_batch(inputs: Sequence[Value], batched: Sequence[int], axis: int, descending: bool) -> tuple[Value, int]:
    return argsort(front(inputs[0], batched[0]), axis + 1, descending), 0


argsort_p = Primitive("argsort", _argsort_type, Nest(_argsort_kernel), Constant(), _argsort_batch)

# ---- the first positions


def _first_type(x: TensorType, count: int, axis: int, descending: bool) -> TensorType:
    require_kind("first_positions", x, ORDERED)
    require_axis("first_positions", axis, x)
    size = x.shape[axis]
    if count < 1 or not size >= count:
        raise ShapeError(
            f"first_positions: count must be from 1 to {size} along axis {axis} of {x}; got {count}; take fewer"
        )
    return x.with_dtype(int64).with_shape((*x.shape[:axis], count, *x.shape[axis + 1 :]))


def _first_kernel(types: tuple[TensorType, ...], results: Any, count: int, axis: int, descending: bool) -> Kernel:
    """Read a row in runs.  A run is skipped if its least key is not less than the last of the first elements so far."""
    x = types[0]
    row, size = _Row(x, axis, descending), x.shape[axis]
    to, runs = row.keys, (size - count) // RUN
    last = Load("keys", (const(count - 1),), to)

    def inserted(i: Expr, name: str) -> tuple[Stmt, ...]:
        """Insert an element if it precedes the last of the first elements so far."""
        precedes = apply("lt", Local(f"key{name}", to), last)
        return Let(f"key{name}", row.key(i)), If(precedes, _insertion(row, i, name, const(count - 1)))

    first, run, one, again, rest = (Index(name) for name in ("f", "r", "e", "g", "t"))
    start = index_add(apply("mul", run, const(RUN)), const(count))
    after = index_add(apply("mul", size_expr(runs), const(RUN)), const(count))
    least = Accumulate("min", ("least",), (row.key(index_add(start, one)),))
    body = (
        Alloc(Buffer("keys", to, (count,))),
        For("f", count, (Let("keyf", row.key(first)), *_insertion(row, first, "f", first))),
        For(
            "r",
            runs,
            (
                Alloc(Buffer("least", to, ())),
                For("e", RUN, (least,), vector=True),
                If(
                    apply("lt", Load("least", (), to), last),
                    (For("g", RUN, inserted(index_add(start, again), "g")),),
                ),
            ),
        ),
        For("t", size - count - runs * RUN, inserted(index_add(after, rest), "t")),
    )
    buffers = (Buffer("x", x.dtype, x.shape),), (Buffer("y", int64, results[0].shape),)
    return Kernel("first_positions", *buffers, loops(row.others, row.extents, body, lanes=False))


def _insertion(row: _Row, i: Expr, name: str, count: Expr) -> tuple[Stmt, ...]:
    """Insert an element before those with greater keys: of the first elements so far, `count` stay in the buffer."""
    own, at = Local(f"key{name}", row.keys), Load(f"at{name}", (), int64)
    before = apply("maximum", apply("sub", at, const(1)), const(0))
    later = apply("lt", own, Load("keys", (before,), row.keys))
    return (
        Alloc(Buffer(f"at{name}", int64, ())),
        Store(f"at{name}", (), count),
        While(
            apply("and", apply("gt", at, const(0)), later),
            (
                Store("keys", (at,), Load("keys", (before,), row.keys)),
                Store("y", row.place(at), Load("y", row.place(before), int64)),
                Store(f"at{name}", (), before),
            ),
        ),
        Store("keys", (at,), own),
        Store("y", row.place(at), i),
    )


def _first_batch(
    inputs: Sequence[Value], batched: Sequence[int], count: int, axis: int, descending: bool
) -> tuple[Value, int]:
    return first_positions(front(inputs[0], batched[0]), count, axis + 1, descending), 0


first_positions_p = Primitive("first_positions", _first_type, Nest(_first_kernel), Constant(), _first_batch)
