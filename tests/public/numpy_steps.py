"""Operations for random programs, each written once for Nacre and for NumPy, with a bound for the difference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import nacre as nc
from nacre.base.dtypes import DType

Shape = tuple[int, ...]
Run = Callable[[Any, Sequence[Any], int], Any]  # of a namespace, operands, and a number that chooses among variants
DTYPES = (
    nc.bool, nc.int8, nc.int16, nc.int32, nc.int64, nc.uint8, nc.uint16, nc.uint32, nc.uint64,
    nc.float16, nc.bfloat16, nc.float32, nc.float64, nc.complex64, nc.complex128,
)  # fmt: skip


class Operation(NamedTuple):
    """A function of tensors or arrays, the kinds of its operands, and what the error is relative to.

    A further operand has the first one's dtype and broadcasts with it (`=`), or is of a kind of its own and broadcasts
    (`b`), or has any shape (`i`).  `scale` gives the sizes of the numbers that are added, where they may cancel.
    """

    name: str
    run: Run
    kinds: str = "biufc"
    others: str = ""
    allowed: Callable[[Shape], bool] = lambda shape: True
    scale: Run | None = None


def wide(dtype: DType) -> np.dtype[Any]:
    """The dtype in which NumPy computes: float64 and complex128 for all inexact numbers."""
    if dtype.is_inexact:
        return np.dtype(np.complex128 if dtype.is_complex else np.float64)
    return dtype.numpy


def cast(xp: Any, x: Any, dtype: DType) -> Any:
    """x in another dtype; NumPy's arrays keep the wide one."""
    return nc.astype(x, dtype) if xp is nc else np.asarray(x).astype(wide(dtype))


def is_float(x: Any) -> bool:
    """Whether a tensor or an array has real floating-point numbers."""
    return x.dtype.kind == "f"


def axis_of(x: Any, c: int) -> int:
    """One of the axes of x."""
    return c % len(x.shape)


def axes_of(x: Any, c: int) -> Any:
    """One axis, several, or all."""
    rank = len(x.shape)
    chosen = tuple(k for k in range(rank) if (c + 1) >> k & 1)
    return None if c % 5 == 4 else chosen[0] if len(chosen) == 1 and c % 2 else chosen


def not_zero(xp: Any, x: Any) -> Any:
    """x with ones in place of zeros."""
    return xp.where(x == 0, xp.ones_like(x), x)


def limited(xp: Any, x: Any, most: float) -> Any:
    """x, with its real numbers at most so large."""
    return xp.clip(x, -most, most) if is_float(x) else x


def named(names: str, kinds: str, others: str = "") -> list[Operation]:
    """Elementwise functions that have one name in both."""

    def one(name: str) -> Operation:
        return Operation(name, lambda xp, xs, c: getattr(xp, name)(*xs), kinds, others)

    return [one(name) for name in names.split()]


def _converted(xp: Any, xs: Sequence[Any], c: int) -> Any:
    """The numbers in another dtype, those of floats within a range that every integer dtype holds."""
    (x,) = xs
    dtype = DTYPES[c % len(DTYPES)]
    if x.dtype.kind == "c":
        dtype = (nc.complex64, nc.complex128)[c % 2]
    elif is_float(x) and dtype.is_integer:
        x = xp.clip(xp.where(xp.isfinite(x), x, xp.zeros_like(x)), 0.0 if not dtype.is_signed else -100.0, 100.0)
    return cast(xp, x, dtype)


def _with_number(xp: Any, xs: Sequence[Any], c: int) -> Any:
    (x,) = xs
    small = 1 + c % 3
    return (
        lambda: x + small,
        lambda: small - x,
        lambda: x * small,
        lambda: x * 0.5 if x.dtype.kind in "fc" else x * 2,
        lambda: x / small if x.dtype.kind in "fc" else x // small,
        lambda: x**2,
        lambda: 1.0 / x if x.dtype.kind in "fc" else x % (small + 1),
    )[c % 7]()


def _power(xp: Any, xs: Sequence[Any], c: int) -> Any:
    x, y = xs
    return xp.pow(xp.abs(limited(xp, x, 4.0)), limited(xp, y, 3.0))


def _divided(xp: Any, xs: Sequence[Any], c: int) -> Any:
    """The quotient.  By an infinite complex number it is zero, as in C, where NumPy has NaN if a part is NaN."""
    x, y = xs
    if xp is nc or y.dtype.kind != "c":
        return xp.divide(x, y)
    by_infinity = np.isfinite(x) & (np.isinf(y.real) | np.isinf(y.imag))
    return np.where(by_infinity, 0, np.divide(x, y))


def _shift(xp: Any, xs: Sequence[Any], c: int) -> Any:
    x, y = xs
    return (xp.bitwise_left_shift if c % 2 else xp.bitwise_right_shift)(x, xp.bitwise_and(y, 7 * xp.ones_like(y)))


def _part(xp: Any, xs: Sequence[Any], c: int) -> Any:
    (x,) = xs
    key = [slice(c % 2, None), slice(None, None, 2), slice(None, None, -1), slice(None, -1)]
    return x[tuple(key[(c + k) % 4] for k in range(len(x.shape)))]


def _reshaped(xp: Any, xs: Sequence[Any], c: int) -> Any:
    (x,) = xs
    return (
        lambda: xp.reshape(x, (-1,) if x.size else (0,)),
        lambda: xp.expand_dims(x, axis=c % (len(x.shape) + 1)),
        lambda: xp.reshape(x, (*x.shape, 1)),
        lambda: xp.broadcast_to(x, (2, *x.shape)),
        lambda: xp.squeeze(x, axis=tuple(k for k, n in enumerate(x.shape) if n == 1)),
    )[c % 5]()


def _moved(xp: Any, xs: Sequence[Any], c: int) -> Any:
    (x,) = xs
    k, rank = axis_of(x, c), len(x.shape)
    return (
        lambda: xp.permute_dims(x, sorted(range(rank), key=lambda k: (k * 7 + c) % 5)),
        lambda: xp.flip(x, axis=k),
        lambda: xp.roll(x, c % 5 - 2, axis=k),
        lambda: xp.moveaxis(x, k, 0),
        lambda: xp.tile(x, (2,)),
        lambda: xp.repeat(x, 2, axis=k),
        lambda: xp.tril(x, k=c % 3 - 1) if rank > 1 else x,
        lambda: xp.triu(x, k=c % 3 - 1) if rank > 1 else x,
    )[c % 8]()


def _joined(xp: Any, xs: Sequence[Any], c: int) -> Any:
    x, y = xp.broadcast_arrays(*xs)
    if c % 3 == 0:
        return xp.stack([x, y], axis=c % (len(x.shape) + 1))
    return xp.concat([x, y], axis=axis_of(x, c) if x.shape else None)


def _taken(xp: Any, xs: Sequence[Any], c: int) -> Any:
    x, i = xs
    k = axis_of(x, c)
    places = cast(xp, cast(xp, i, nc.int64) % x.shape[k], nc.int64)
    if c % 3 == 0:
        return x[(slice(None),) * k + (places,)]
    if c % 3 == 1:
        return xp.take(x, xp.reshape(places, (-1,)), axis=k)
    return xp.take_along_axis(x, xp.argsort(x, axis=k, stable=True), axis=k)


def _is_long(x: Any) -> bool:
    """Whether a tensor or an array has integers of eight bytes."""
    return x.dtype.kind == "i" and x.dtype.itemsize == 8


def _updated(xp: Any, xs: Sequence[Any], c: int) -> Any:
    x, y = xs
    key = (slice(c % 2, None, 1 + c % 2),)
    value = xp.sum(y) if 0 in y.shape or _is_long(y) else xp.max(y) if y.dtype.kind != "c" else y.mean()
    if xp is nc:
        return nc.index_update(x, key, value)
    made = np.array(x)
    made[key] = value
    return made


def _reduced(name: str) -> Run:
    return lambda xp, xs, c: getattr(xp, name)(xs[0], axis=axes_of(xs[0], c), keepdims=c % 3 == 0)


def _squares(xp: Any, xs: Sequence[Any], c: int) -> Any:
    return xp.mean(xs[0] * xs[0], axis=axes_of(xs[0], c), keepdims=c % 3 == 0)


def _product(xp: Any, xs: Sequence[Any], c: int) -> Any:
    x, y = xs
    if not y.shape or y.shape[-1] == 0:
        return xp.multiply(x, y)
    a, b = xp.reshape(x, (-1, x.shape[-1])), xp.reshape(y, (-1, y.shape[-1]))
    if a.shape[1] != b.shape[1]:
        return xp.multiply(x, y)
    return (lambda: a @ b.T, lambda: xp.vecdot(a, b), lambda: xp.tensordot(a, b, axes=((1,), (1,))))[
        c % 3 if a.shape[0] == b.shape[0] else 0
    ]()


def _searched(xp: Any, xs: Sequence[Any], c: int) -> Any:
    x, y = xs
    return xp.searchsorted(xp.sort(xp.reshape(x, (-1,))), y, side="left" if c % 2 else "right")


def some(shape: Shape) -> bool:
    """Whether there is an axis, and there are elements."""
    return len(shape) > 0 and 0 not in shape


def has_axis(shape: Shape) -> bool:
    """Whether there is an axis."""
    return len(shape) > 0


def _along(name: str) -> Run:
    return lambda xp, xs, c: getattr(xp, name)(xs[0], axis=axis_of(xs[0], c))


OPERATIONS: tuple[Operation, ...] = (
    *named("negative", "iufc"),
    *named("abs square sign", "iufc"),
    *named("sin cos tanh sqrt exp log", "fc"),
    *named("atan asinh expm1 log1p exp2 log2 log10 cbrt floor ceil trunc round reciprocal", "f"),
    *named("floor ceil round", "iu"),
    *named("isnan isfinite", "fc"),
    *named("signbit", "f"),
    *named("conj real imag", "c"),
    *named("logical_not", "b"),
    *named("bitwise_invert", "biu"),
    *named("add subtract multiply", "iufc", "="),
    *named("add multiply", "iufc", "="),
    *named("maximum minimum", "iuf", "="),
    Operation("divide", _divided, "fc", "="),
    *named("atan2 hypot copysign", "f", "="),
    Operation("logaddexp", lambda xp, xs, c: xp.logaddexp(*xs), "f", "=",
              scale=lambda xp, xs, c: xp.abs(xp.maximum(*xs)) + 0.7),  # log(2) at most is added to the greater one
    *named("equal not_equal", "biufc", "="),
    *named("less less_equal greater greater_equal", "iuf", "="),
    *named("logical_and logical_or logical_xor", "b", "="),
    *named("bitwise_and bitwise_or bitwise_xor", "biu", "="),
    Operation("floor_divide", lambda xp, xs, c: xp.floor_divide(xs[0], not_zero(xp, xs[1])), "iu", "="),
    Operation("remainder", lambda xp, xs, c: xp.remainder(xs[0], not_zero(xp, xs[1])), "iuf", "="),
    Operation("shift", _shift, "iu", "="),
    Operation("pow", _power, "f", "="),
    Operation("number", _with_number, "iufc", scale=lambda xp, xs, c: xp.abs(xs[0]) + 3.0 if c % 7 < 2 else xp.abs(
        _with_number(xp, xs, c))),
    Operation("where", lambda xp, xs, c: xp.where(xs[1], xs[0], xs[2]), "biufc", "b="),
    Operation("clip", lambda xp, xs, c: xp.clip(xs[0], 0, 2 + c % 3), "iuf"),
    Operation("fma", lambda xp, xs, c: xs[0] * xs[1] + xs[0], "fc", "=",
              scale=lambda xp, xs, c: xp.abs(xs[0] * xs[1]) + xp.abs(xs[0])),
    *(Operation("astype", _converted) for _ in range(3)),
    *(Operation("part", _part, allowed=has_axis) for _ in range(2)),
    *(Operation("reshape", _reshaped) for _ in range(2)),
    *(Operation("move", _moved, allowed=has_axis) for _ in range(2)),
    Operation("concat", _joined, others="="),
    *(Operation("take", _taken, "biuf", "i", some) for _ in range(2)),
    Operation("index_update", _updated, "f", "=", some, scale=lambda xp, xs, c: xp.abs(xs[0])),
    *(Operation("sum", _reduced("sum"), allowed=has_axis, scale=lambda xp, xs, c: _reduced("sum")(
        xp, [xp.abs(xs[0])], c)) for _ in range(2)),
    Operation("mean", _reduced("mean"), "fc", allowed=some,
              scale=lambda xp, xs, c: _reduced("mean")(xp, [xp.abs(xs[0])], c)),
    Operation("prod", _reduced("prod"), "biufc", allowed=has_axis),
    *(Operation(name, _reduced(name), "iuf", allowed=some) for name in ("max", "min")),
    Operation("var", _reduced("var"), "f", allowed=some, scale=_squares),
    *(Operation(name, _reduced(name), allowed=has_axis) for name in ("any", "all")),
    Operation("count_nonzero", lambda xp, xs, c: xp.count_nonzero(xs[0], axis=axis_of(xs[0], c)), allowed=has_axis),
    *(Operation(name, _along(name), "iuf", allowed=some) for name in ("argmax", "argmin", "sort")),
    Operation("argsort", lambda xp, xs, c: xp.argsort(xs[0], axis=axis_of(xs[0], c), stable=True), "iuf", allowed=some),
    Operation("cumulative_sum", _along("cumulative_sum"), "iufc", allowed=has_axis,
              scale=lambda xp, xs, c: _along("cumulative_sum")(xp, [xp.abs(xs[0])], c)),
    Operation("cumulative_prod", _along("cumulative_prod"), "iufc", allowed=has_axis),
    Operation("diff", _along("diff"), "iufc", allowed=some),
    Operation("searchsorted", _searched, "iuf", "=", some),
    *(Operation("matmul", _product, "iufc", "=", some,
                scale=lambda xp, xs, c: _product(xp, list(map(xp.abs, xs)), c)) for _ in range(2)),
)  # fmt: skip
