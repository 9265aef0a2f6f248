"""Maxima and sums of windows that slide over the last two axes of [N, C, H, W], and their adjoints.

Positions outside the image are ignored.  Elements of a window are processed in ascending order of row and column.  Of
equal maxima the first one is chosen, and the first NaN before all numbers.  Contributions of several windows to one
element are added in ascending order of the windows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nacre.base.dims import Dim, Size
from nacre.base.dtypes import NUMERIC, REAL, DType, bool_, int64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.base.records import dataclass
from nacre.base.types import Shape, TensorType
from nacre.ir.primitive import BatchRule, Jvp, Linear, Nest, Primitive
from nacre.kernel.ast import (
    Alloc,
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
    const,
    index_add,
    index_mul,
    size_expr,
)
from nacre.kernel.ast import cast as convert
from nacre.kernel.order import least
from nacre.ops.convolution import NO_PADDING, Padding, Pair, window_count
from nacre.ops.pointwise import cast
from nacre.ops.reduce import loops
from nacre.ops.rules import require_dtype, require_kind, require_shape
from nacre.ops.shape import Source, all_to_front, reshape
from nacre.trace.bind import bind
from nacre.trace.value import Value

Types = tuple[TensorType, ...]
Extents = tuple[Size, Size]  # of a window; a symbolic one covers its axis


@dataclass(frozen=True)
class WindowGeometry:
    """The geometry of windows over an image of `shape` [N, C, H, W]."""

    shape: Shape
    size: Extents
    stride: Pair
    padding: Padding
    dilation: Pair = (1, 1)

    def result(self, operation: str) -> Shape:
        """The shape of the windows' values; raises ShapeError or ArgumentError."""
        if len(self.shape) != 4:
            raise ShapeError(f"{operation}: the operand must be [N, C, H, W]; got rank {len(self.shape)}")
        if len(self.size) != 2 or any(type(s) not in (int, Dim) or s < 1 for s in self.size):
            raise ArgumentError(f"{operation}: a window must have two sizes of at least 1; got {self.size}")
        for size, length, margins in zip(self.size, self.shape[2:], self.padding, strict=True):
            if isinstance(size, Dim) and (size != length or any(margins)):
                raise ArgumentError(
                    f"{operation}: a window of symbolic size must cover its whole axis, without padding; got {size} "
                    f"for an axis of {length}; give the window a fixed size"
                )
        spatial = (
            window_count(
                operation,
                self.shape[k + 2],
                self.size[k],
                self.stride[k],
                self.padding[k],
                self.dilation[k],
            )
            for k in (0, 1)
        )
        return (*self.shape[:2], *spatial)

    def covers(self, axis: int) -> bool:
        """Whether one window covers the whole axis, without padding, as each symbolic one does."""
        size, length = self.size[axis], self.shape[axis + 2]
        return isinstance(size, Dim) or (size == length and self.padding[axis] == (0, 0) and self.dilation[axis] == 1)

    def position(self, axis: int, out: Expr, tap: Expr) -> Expr:
        """The image index, maybe outside the image, of a window's tap along a spatial axis."""
        moved = index_add(index_mul(out, const(self.stride[axis])), index_mul(tap, const(self.dilation[axis])))
        low = self.padding[axis][0]
        return apply("sub", moved, const(low)) if low else moved

    def inside(self, row: Expr, column: Expr) -> Expr | None:
        """Whether a position is inside the image; None if all are."""
        tests: list[Expr] = []
        for axis, at in enumerate((row, column)):
            low, high = self.padding[axis]
            if low:
                tests.append(apply("ge", at, const(0)))
            if high or low:
                tests.append(apply("lt", at, size_expr(self.shape[axis + 2])))
        if not tests:
            return None
        found = tests[0]
        for t in tests[1:]:
            found = apply("and", found, t)
        return found


def _params(size: Extents, stride: Pair, padding: Padding) -> dict[str, Any]:
    return {"size": tuple(size), "stride": tuple(stride), "padding": tuple(map(tuple, padding))}


def window_max(
    x: Value,
    size: Extents,
    stride: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    dilation: Pair = (1, 1),
) -> Value:
    """The maximum of each window; the dtype's least number for a window entirely outside."""
    return bind(window_max_p, x, **_params(size, stride, padding), dilation=tuple(dilation))


def window_max_take(
    t: Value,
    x: Value,
    size: Extents,
    stride: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    dilation: Pair = (1, 1),
) -> Value:
    """The element of t at the maximum of each window of x; 0 for a window entirely outside."""
    return bind(window_max_take_p, t, x, **_params(size, stride, padding), dilation=tuple(dilation))


def window_max_grad(
    g: Value,
    x: Value,
    size: Extents,
    stride: Pair = (1, 1),
    padding: Padding = NO_PADDING,
    dilation: Pair = (1, 1),
) -> Value:
    """Each element of g added at its window's maximum in x (the transpose of `window_max_take`)."""
    dtype = g.type.dtype
    params = {**_params(size, stride, padding), "dilation": tuple(dilation)}
    if dtype.is_widened:
        wide = dtype.arithmetic
        return cast(bind(window_max_grad_p, cast(g, wide), cast(x, wide), **params), dtype)
    return bind(window_max_grad_p, g, x, **params)


def window_sum(x: Value, size: Extents, stride: Pair = (1, 1), padding: Padding = NO_PADDING) -> Value:
    """The sum of each window, accumulated in float32 for half types."""
    return bind(window_sum_p, x, **_params(size, stride, padding))


def window_sum_grad(
    g: Value, shape: Shape, size: Extents, stride: Pair = (1, 1), padding: Padding = NO_PADDING
) -> Value:
    """For each element of an image of the given shape, the sum of g over the windows that contain it."""
    return bind(window_sum_grad_p, g, shape=tuple(shape), **_params(size, stride, padding))


# ---- types


def _max_type(x: TensorType, **params: Any) -> TensorType:
    require_kind("window_max", x, REAL)
    return x.with_shape(WindowGeometry(x.shape, **params).result("window_max"))


def _max_take_type(t: TensorType, x: TensorType, **params: Any) -> TensorType:
    require_kind("window_max_take", x, REAL)
    require_dtype("window_max_take", "the tangent", t, x.dtype)
    require_shape("window_max_take", "the tangent", t.shape, x.shape)
    return x.with_shape(WindowGeometry(x.shape, **params).result("window_max_take"))


def _max_grad_type(g: TensorType, x: TensorType, **params: Any) -> TensorType:
    require_kind("window_max_grad", x, REAL)
    require_dtype("window_max_grad", "the cotangent", g, x.dtype)
    wanted = WindowGeometry(x.shape, **params).result("window_max_grad")
    require_shape("window_max_grad", "the cotangent", g.shape, wanted)
    return x


def _sum_type(x: TensorType, **params: Any) -> TensorType:
    require_kind("window_sum", x, NUMERIC)
    return x.with_shape(WindowGeometry(x.shape, **params).result("window_sum"))


def _sum_grad_type(g: TensorType, shape: Shape, **params: Any) -> TensorType:
    require_kind("window_sum_grad", g, NUMERIC)
    wanted = WindowGeometry(shape, **params).result("window_sum_grad")
    require_shape("window_sum_grad", "the cotangent", g.shape, wanted)
    return g.with_shape(shape)


# ---- kernels

N, C, R, Q, KH, KW = (Index(name) for name in ("n", "c", "r", "q", "i", "j"))


def _taps(window: WindowGeometry, body: Callable[[Expr, Expr], Sequence[Stmt]]) -> Stmt:
    """Loops over the taps of the window at (r, q) around a body of its position in the image."""
    row, column = window.position(0, R, KH), window.position(1, Q, KW)
    inner = tuple(body(row, column))
    inside = window.inside(row, column)
    if inside is not None:
        inner = (If(inside, inner),)
    return For("i", window.size[0], (For("j", window.size[1], inner),))


def _state(name: str, dtype: DType, start: float | int | bool) -> tuple[tuple[Stmt, ...], Load]:
    """A variable of the kernel: its initialisation, and its value."""
    begin = (Alloc(Buffer(name, dtype, ())), Store(name, (), Const(start, dtype)))
    return begin, Load(name, (), dtype)


def _buffer(name: str, type: TensorType) -> Buffer:
    return Buffer(name, type.dtype, type.shape)


def _over(shape: Shape, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    return loops((N, C, R, Q), shape, body)


def _max_kernel(types: Types, results: Types, **params: Any) -> Kernel:
    x, y = types[0], results[0]
    begin, best = _state("best", x.dtype, least(x.dtype))
    taps = _taps(
        WindowGeometry(x.shape, **params),
        lambda row, column: [Store("best", (), apply("maximum", best, Load("x", (N, C, row, column), x.dtype)))],
    )
    body = (*begin, taps, Store("y", (N, C, R, Q), best))
    return Kernel("window_max", (_buffer("x", x),), (_buffer("y", y),), _over(y.shape, body))


def _better(x: TensorType, row: Expr, column: Expr, best: Expr, seen: Expr) -> tuple[Stmt, ...]:
    """Bind `v`, an element, and `better`, whether it replaces the maximum."""
    v = Local("v", x.dtype)
    wins = apply("or", apply("not", seen), apply("gt", v, best))
    if x.dtype.is_float:
        first_nan = apply("and", apply("isnan", v), apply("not", apply("isnan", best)))
        wins = apply("or", wins, first_nan)
    return Let("v", Load("x", (N, C, row, column), x.dtype)), Let("better", wins)


def _max_take_kernel(types: Types, results: Types, **params: Any) -> Kernel:
    t, x = types
    begin_best, best = _state("best", x.dtype, 0)
    begin_seen, seen = _state("seen", bool_, False)
    begin_found, found = _state("found", t.dtype, 0)
    better = Local("better", bool_)
    taps = _taps(
        WindowGeometry(x.shape, **params),
        lambda row, column: [
            *_better(x, row, column, best, seen),
            Store("best", (), apply("select", better, Local("v", x.dtype), best)),
            Store("found", (), apply("select", better, Load("t", (N, C, row, column), t.dtype), found)),
            Store("seen", (), Const(True, bool_)),
        ],
    )
    body = (*begin_best, *begin_seen, *begin_found, taps, Store("y", (N, C, R, Q), found))
    inputs = (_buffer("t", t), _buffer("x", x))
    return Kernel("window_max_take", inputs, (_buffer("y", results[0]),), _over(results[0].shape, body))


def _max_grad_kernel(types: Types, results: Types, **params: Any) -> Kernel:
    """Planes are independent, and so are the windows of a row if they do not overlap."""
    g, x = types
    window = WindowGeometry(x.shape, **params)
    begin_best, best = _state("best", x.dtype, 0)
    begin_row, at_row = _state("row", int64, -1)
    begin_column, at_column = _state("column", int64, 0)
    better = Local("better", bool_)
    seen = apply("ge", at_row, const(0))
    taps = _taps(
        window,
        lambda row, column: [
            *_better(x, row, column, best, seen),
            Store("best", (), apply("select", better, Local("v", x.dtype), best)),
            Store("column", (), apply("select", better, column, at_column)),
            Store("row", (), apply("select", better, row, at_row)),
        ],
    )
    at = (N, C, Local("r_at", int64), Local("q_at", int64))
    total = apply("add", Load("y", at, g.dtype), Load("g", (N, C, R, Q), g.dtype))
    add = (Let("r_at", at_row), Let("q_at", at_column), Store("y", at, total))
    one = (*begin_best, *begin_row, *begin_column, taps, If(seen, add))
    row, column = Index("h"), Index("w")
    erase = Store("y", (N, C, row, column), Const(0, g.dtype))
    clear = For("h", x.shape[2], (For("w", x.shape[3], (erase,), vector=True),))
    apart = isinstance(window.size[1], int) and window.stride[1] > (window.size[1] - 1) * window.dilation[1]
    sweep = For("r", g.shape[2], (For("q", g.shape[3], one, vector=apart),))
    planes = (For("n", x.shape[0], (For("c", x.shape[1], (clear, sweep), parallel=True),), parallel=True),)
    inputs = (_buffer("g", g), _buffer("x", x))
    return Kernel("window_max_grad", inputs, (_buffer("y", results[0]),), planes)


def _sum_kernel(types: Types, results: Types, **params: Any) -> Kernel:
    x, y = types[0], results[0]
    wide = x.dtype.arithmetic
    begin, total = _state("total", wide, 0)
    taps = _taps(
        WindowGeometry(x.shape, **params),
        lambda row, column: [
            Store(
                "total",
                (),
                apply("add", total, convert(Load("x", (N, C, row, column), x.dtype), wide)),
            )
        ],
    )
    body = (*begin, taps, Store("y", (N, C, R, Q), convert(total, x.dtype)))
    return Kernel("window_sum", (_buffer("x", x),), (_buffer("y", y),), _over(y.shape, body))


def _hit(window: WindowGeometry, axis: int, index: Expr, tap: Expr, count: Size) -> tuple[Expr, Expr]:
    """The window whose tap is at an image index along an axis, and whether there is one.

    Taps are counted from the last, so that windows ascend.
    """
    size = window.size[axis]
    if isinstance(size, Dim) or window.covers(axis):
        return const(0), Const(True, bool_)
    back = apply("sub", const(size - 1), tap)
    low, step = window.padding[axis][0], window.stride[axis]
    offset = apply("sub", index_add(index, const(low)), back)
    out = offset if step == 1 else apply("idiv", offset, const(step))
    found = apply("and", apply("ge", offset, const(0)), apply("lt", out, size_expr(count)))
    if step > 1:
        found = apply("and", found, apply("eq", apply("rem", offset, const(step)), const(0)))
    return out, found


def _sum_grad_kernel(types: Types, results: Types, shape: Shape, **params: Any) -> Kernel:
    g, y = types[0], results[0]
    window = WindowGeometry(shape, **params)
    wide = g.dtype.arithmetic
    begin, total = _state("total", wide, 0)
    row, row_hit = _hit(window, 0, R, KH, g.shape[2])
    column, column_hit = _hit(window, 1, Q, KW, g.shape[3])
    element = convert(Load("g", (N, C, row, column), g.dtype), wide)
    add = If(column_hit, (Store("total", (), apply("add", total, element)),))
    taps, across = (1 if window.covers(axis) else s for axis, s in enumerate(window.size))
    taps = For("i", taps, (If(row_hit, (For("j", across, (add,)),)),))
    body = (*begin, taps, Store("y", (N, C, R, Q), convert(total, g.dtype)))
    return Kernel("window_sum_grad", (_buffer("g", g),), (_buffer("y", y),), _over(y.shape, body))


# ---- derivatives and batching


def _max_tangent(y: Value, xs: Sequence[Value], ts: Sequence[Value], **params: Any) -> Value:
    return window_max_take(ts[0], xs[0], **params)


def _take_transpose(g: Value, t: Source, x: Value, **params: Any) -> Value:
    return window_max_grad(g, x, **params)


def _grad_transpose(h: Value, g: Source, x: Value, **params: Any) -> Value:
    return window_max_take(h, x, **params)


def _sum_transpose(g: Value, x: Source, **params: Any) -> Value:
    return window_sum_grad(g, x.type.shape, **params)


def _sum_grad_transpose(h: Value, g: Source, shape: Shape, **params: Any) -> Value:
    return window_sum(h, **params)


def _fitted(types: Types, params: Mapping[str, Any]) -> Types:
    """The cotangent's type, which the parameter `shape` decides."""
    (g,) = types
    about = {name: value for name, value in params.items() if name != "shape"}
    return (g.with_shape(WindowGeometry(params["shape"], **about).result("window_sum_grad")),)


def _batch(apply_to: Callable[..., Value]) -> BatchRule:
    """Merge the examples of a batch into the images."""

    def rule(inputs: Sequence[Value], axes: Sequence[int | None], **params: Any) -> tuple[Value, int]:
        lined = all_to_front(inputs, axes)
        size, images = lined[0].type.shape[:2]
        merged = [reshape(x, (size * images, *x.type.shape[2:])) for x in lined]
        if "shape" in params:
            params["shape"] = (size * images, *params["shape"][1:])
        result = apply_to(*merged, **params)
        return reshape(result, (size, images, *result.type.shape[1:])), 0

    return rule


FUSES: dict[str, Any] = {"takes_prologue": True, "takes_epilogue": True}

window_max_p = Primitive("window_max", _max_type, Nest(_max_kernel), Jvp(_max_tangent), _batch(window_max), **FUSES)
window_max_take_p = Primitive(
    "window_max_take",
    _max_take_type,
    Nest(_max_take_kernel),
    Linear((_take_transpose, None)),
    _batch(window_max_take),
)
window_max_grad_p = Primitive(
    "window_max_grad",
    _max_grad_type,
    Nest(_max_grad_kernel),
    Linear((_grad_transpose, None)),
    _batch(window_max_grad),
    **FUSES,
)
window_sum_p = Primitive(
    "window_sum", _sum_type, Nest(_sum_kernel), Linear((_sum_transpose,)), _batch(window_sum), **FUSES
)
window_sum_grad_p = Primitive(
    "window_sum_grad",
    _sum_grad_type,
    Nest(_sum_grad_kernel),
    Linear((_sum_grad_transpose,)),
    _batch(window_sum_grad),
    fitted=_fitted,
    **FUSES,
)
