# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""Binary search: the places of numbers in sorted rows.  The order is that of `sort`, in which NaN comes last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.base.dtypes import ORDERED, int64
from nacre.base.errors import ShapeError
from nacre.base.types import TensorType
from nacre.ir.primitive import Constant, Nest, Primitive
from nacre.kernel.ast import (
    Alloc,
    Buffer,
    Index,
    Kernel,
    Let,
    Load,
    Local,
    Store,
    While,
    apply,
    const,
    index_add,
    size_expr,
)
from nacre.ops.reduce import loops
from nacre.ops.rules import require_kind, require_same, require_shape
from nacre.ops.shape import all_to_front, front
from nacre.ops.sort import key
from nacre.trace.bind import bind
from nacre.trace.value import Value


def search(x: Value, v: Value, rows: int = 0, right: bool = False) -> Value:
    """How many elements of a sorted row precede each element of v; with `right`, those equal to it count, too.

    The first `rows` axes of x and v are rows that belong together; x has one more axis, along which it is sorted.
    """
    return bind(search_p, x, v, rows=rows, right=right)


def _search_type(x: TensorType, v: TensorType, rows: int, right: bool) -> TensorType:
    require_same("search", (x.with_shape(()), v.with_shape(())))
    require_kind("search", x, ORDERED)
    if rows < 0 or x.rank != rows + 1 or v.rank < rows:
        raise ShapeError(f"search: x must have {rows} axes of rows and one more; got {x} and {v}")
    require_shape("search", "the rows of v", v.shape[:rows], x.shape[:rows])
    return v.with_dtype(int64)


def _search_kernel(types: tuple[TensorType, ...], results: Any, rows: int, right: bool) -> Kernel:
    """Halve the range in which the place is until it has no element."""
    x, v = types
    place = tuple(Index(f"i{k}") for k in range(v.rank))
    low, high = (Load(name, (), int64) for name in ("low", "high"))
    middle = Local("middle", int64)
    other = key(Load("x", (*place[:rows], middle), x.dtype), descending=False)
    wanted = Local("wanted", other.dtype)
    passed = apply("le" if right else "lt", other, wanted)
    body = (
        Alloc(Buffer("low", int64, ())),
        Alloc(Buffer("high", int64, ())),
        Store("low", (), const(0)),
        Store("high", (), size_expr(x.shape[rows])),
        Let("wanted", key(Load("v", place, v.dtype), descending=False)),
        While(
            apply("lt", low, high),
            (
                Let("middle", apply("shr", apply("add", low, high), const(1))),
                Let("passed", passed),
                Let("above", apply("select", Local("passed", passed.dtype), index_add(middle, const(1)), low)),
                Let("below", apply("select", Local("passed", passed.dtype), high, middle)),
                Store("low", (), Local("above", int64)),
                Store("high", (), Local("below", int64)),
            ),
        ),
        Store("y", place, low),
    )
    buffers = (Buffer("x", x.dtype, x.shape), Buffer("v", v.dtype, v.shape)), (Buffer("y", int64, v.shape),)
    return Kernel("search", *buffers, loops(place, v.shape, body, lanes=False))


def _search_batch(inputs: Sequence[Value], axes: Sequence[int | None], rows: int, right: bool) -> tuple[Value, int]:
    x, v = inputs
    if axes[0] is None and not rows and axes[1] is not None:  # the batch is one more axis of v
        return search(x, front(v, axes[1]), 0, right), 0
    x, v = all_to_front(inputs, axes)
    return search(x, v, rows + 1, right), 0


search_p = Primitive("search", _search_type, Nest(_search_kernel), Constant(), _search_batch)
