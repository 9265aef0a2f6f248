"""The expected results of operations, by NumPy in higher precision or in the canonical order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np

from nacre.base.dtypes import DType, as_dtype
from nacre.kernel import order, order_convolution, order_window
from nacre.kernel.softfloat import fma, maximum, minimum
from ops.samples import Array

HALVES = ("float16", "bfloat16")


def dtype_of(x: Array) -> DType:
    """The dtype of an array."""
    return as_dtype(x.dtype.name)


def widened(x: Array) -> Array:
    """In higher precision: float64 for short floats, the long double for float64."""
    if not dtype_of(x).is_float:
        return x
    return x.astype(np.longdouble if x.dtype == np.float64 else np.float64)


def in_more_precision(f: Callable[..., Array]) -> Callable[..., Array]:
    """f computed in higher precision and rounded to the operands' dtype."""

    def reference(*xs: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(f(*map(widened, xs))).astype(xs[0].dtype)

    return reference


def single(x: Array) -> Array:
    """Half types as float32, in which their arithmetic is done."""
    return x.astype(np.float32) if x.dtype.name in HALVES else x


def rounded_once(f: Callable[..., Array]) -> Callable[..., Array]:
    """f in the operands' dtype, or in float32 and rounded for half types."""

    def reference(*xs: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(f(*map(single, xs))).astype(xs[0].dtype)

    return reference


def by_mpmath(f: Callable[..., Any]) -> Callable[..., Array]:
    """A function of mpmath that is constant outside ±200 on every element, at 40 digits."""

    def one(x: float) -> np.longdouble:
        if not np.isfinite(x):
            return np.longdouble(f(mpmath.mpf(float(x))))
        with mpmath.workdps(40):
            near = mpmath.mpf(min(max(float(x), -200.0), 200.0))
            return np.longdouble(mpmath.nstr(f(near), 30))

    def reference(x: Array) -> Array:
        if not x.size:
            return x
        with np.errstate(all="ignore"):
            flat = np.array([one(v) for v in x.astype(np.float64).ravel()], np.longdouble)
            return flat.reshape(x.shape).astype(x.dtype)

    return reference


# ---- arithmetic


def sign(x: Array) -> Array:
    """-1, 1, +0 or NaN."""
    with np.errstate(invalid="ignore"):
        difference = (x > 0).astype(x.dtype) - (x < 0).astype(x.dtype)  # no -1, which unsigned dtypes do not have
        return np.where(x == x, difference, x)


def fused(a: Array, b: Array, c: Array) -> Array:
    """a·b + c rounded once; integers wrap."""
    with np.errstate(all="ignore"):
        if not dtype_of(a).is_float:
            return np.asarray(a * b + c)
        if a.dtype.name in HALVES:
            return np.asarray(fma(*(x.astype(np.float64) for x in (a, b, c)))).astype(a.dtype)
        return np.asarray(fma(a, b, c))


def divide_integers(a: Array, b: Array) -> Array:
    """The quotient toward zero; x / 0 is 0; the least integer / -1 wraps to itself."""

    def one(x: int, y: int) -> int:
        return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

    return _exact_integers(one, a, b)


def remainder(a: Array, b: Array) -> Array:
    """a - b·(a / b), exact; 0 for integers modulo 0."""
    if dtype_of(a).is_float:
        return rounded_once(np.fmod)(a, b)

    def one(x: int, y: int) -> int:
        return 0 if y == 0 else abs(x) % abs(y) * (-1 if x < 0 else 1)

    return _exact_integers(one, a, b)


def shift_left(a: Array, b: Array) -> Array:
    """A shift by an unsigned amount; 0 if it is at least the width."""
    bits = 8 * a.dtype.itemsize
    return _exact_integers(lambda x, n: x << n if 0 <= n < bits else 0, a, b)


def shift_right(a: Array, b: Array) -> Array:
    """A shift by an unsigned amount; 0 or -1 if it is at least the width."""
    bits = 8 * a.dtype.itemsize
    return _exact_integers(lambda x, n: x >> (n if 0 <= n < bits else bits), a, b)


def _exact_integers(f: Callable[[int, int], int], a: Array, b: Array) -> Array:
    bits = 8 * a.dtype.itemsize
    wrapped = [f(int(x), int(y)) & ((1 << bits) - 1) for x, y in zip(a.ravel(), b.ravel(), strict=True)]
    unsigned = np.array(wrapped, np.uint64).astype(f"uint{bits}")
    return unsigned.view(a.dtype).reshape(a.shape)


def smaller(a: Array, b: Array) -> Array:
    """IEEE minimum for floats."""
    return _extremum(minimum, np.minimum, a, b)


def larger(a: Array, b: Array) -> Array:
    """IEEE maximum for floats."""
    return _extremum(maximum, np.maximum, a, b)


def _extremum(ieee: Any, plain: Any, a: Array, b: Array) -> Array:
    if not dtype_of(a).is_float:
        return np.asarray(plain(a, b))
    return np.asarray(ieee(single(a), single(b))).astype(a.dtype)


def convert(x: Array, dtype: DType) -> Array:
    """Numbers in another dtype; floats converted to integers saturate."""
    if not dtype_of(x).is_float or not dtype.is_integer:
        return x != 0 if dtype.kind == "b" else x.astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)

    def one(v: float) -> int:
        if v != v:
            return 0
        return int(min(max(v, info.min), info.max)) if abs(v) != np.inf else (info.max if v > 0 else info.min)

    return np.array([one(float(v)) for v in x.ravel()], dtype.numpy).reshape(x.shape)


# ---- reductions in the canonical order


def reduced(op: str, x: Array, axes: Sequence[int]) -> Array:
    """The canonical reduction: runs of adjacent axes, the innermost first."""
    combine = {
        "sum": np.add,
        "prod": np.multiply,
        "max": maximum,
        "min": minimum,
        "any": np.logical_or,
        "all": np.logical_and,
    }[op]
    if op in ("max", "min") and not dtype_of(x).is_float:
        combine = {"max": np.maximum, "min": np.minimum}[op]
    y = single(x)
    with np.errstate(all="ignore"):
        for run in reversed(_runs(axes)):
            kept = [k for k in range(y.ndim) if k not in run]
            moved = y.transpose(*run, *kept)
            flat = moved.reshape(-1, *moved.shape[len(run) :]) if moved.size else None
            if flat is None:
                y = np.full([y.shape[k] for k in kept], order.empty(op, dtype_of(x)), y.dtype)
            else:
                y = np.asarray(order.tree(flat, lambda a, b: np.asarray(combine(a, b)).astype(a.dtype)))
    return y.astype(x.dtype)


def _runs(axes: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for a in axes:
        if runs and runs[-1][-1] == a - 1:
            runs[-1].append(a)
        else:
            runs.append([a])
    return runs


def running_sum(x: Array, axis: int, reverse: bool) -> Array:
    """Sums in order, in float32 for half types."""
    y = np.flip(x, axis) if reverse else x
    total = np.add.accumulate(single(y), axis, dtype=single(y).dtype)
    return (np.flip(total, axis) if reverse else total).astype(x.dtype)


def running_product(x: Array, axis: int) -> Array:
    """Products in order, in float32 for half types."""
    return np.multiply.accumulate(single(x), axis, dtype=single(x).dtype).astype(x.dtype)


# ---- contractions


def chained(a: Array, b: Array) -> Array:
    """The matrix product [batch, m, k] · [batch, k, n] in the canonical order."""
    shape = (a.shape[0], a.shape[1], b.shape[2])
    total: Array | None = None
    for start in range(0, a.shape[2], 256):
        chain = np.zeros(shape, a.dtype)
        for k in range(start, min(a.shape[2], start + 256)):
            left = np.broadcast_to(a[:, :, k, None], shape)
            chain = np.asarray(fused(left, np.broadcast_to(b[:, k, None, :], shape), chain))
        total = chain if total is None else total + chain
    return np.zeros(shape, a.dtype) if total is None else total


def convolution(
    x: Sequence[int], w: Sequence[int], stride: Any, padding: Any, dilation: Any, groups: int
) -> order_convolution.Convolution:
    """The description of a convolution from its operands' shapes."""
    return order_convolution.convolution(
        x[1],
        x[2],
        x[3],
        w[0],
        (w[2], w[3]),
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=groups,
    )


def windows(x: Sequence[int], size: Any, stride: Any, padding: Any, dilation: Any = (1, 1)) -> order_window.Window:
    """The description of a pooling window from its operand's shape."""
    return order_window.window(x[1], x[2], x[3], size, stride=stride, padding=padding, dilation=dilation)


def padded(x: Array, value: Array, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Array:
    """x with a value around it and between its elements."""
    spans = [n + max(n - 1, 0) * i for n, i in zip(x.shape, interior, strict=True)]
    y = np.full([a + b + s for a, b, s in zip(low, high, spans, strict=True)], value, x.dtype)
    y[tuple(slice(a, a + s, i + 1) for a, s, i in zip(low, spans, interior, strict=True))] = x
    return y


def added_along(x: Array, indices: Array, updates: Array, axis: int) -> Array:
    """Updates added one after another at an index each; those out of range are dropped."""
    y = np.moveaxis(single(x).copy(), axis, 0)
    at, u = np.moveaxis(indices, axis, 0), np.moveaxis(single(updates), axis, 0)
    with np.errstate(all="ignore"):
        for place in np.ndindex(*at.shape):
            if 0 <= at[place] < y.shape[0]:
                y[(int(at[place]), *place[1:])] += u[place]
    return np.moveaxis(y, 0, axis).astype(x.dtype)


def taken(x: Array, indices: Array, axis: int) -> Array:
    """np.take with clamped indices."""
    return np.take(x, np.clip(indices, 0, x.shape[axis] - 1).astype(np.int64), axis)


def slices_added(x: Array, indices: Array, updates: Array, axis: int) -> Array:
    """Slices added one after another; those out of range are dropped."""
    y = np.moveaxis(single(x).copy(), axis, 0)
    rest = [k for k in range(updates.ndim) if not axis <= k < axis + indices.ndim]
    u = single(updates).transpose(*range(axis, axis + indices.ndim), *rest)
    with np.errstate(all="ignore"):
        for place in np.ndindex(*indices.shape):
            if 0 <= indices[place] < y.shape[0]:
                y[int(indices[place])] += u[place]
    return np.moveaxis(y, 0, axis).astype(x.dtype)


# ---- random bits

MASK = (1 << 32) - 1


def threefry(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """Threefry-2x32 with 20 rounds, in Python's integers."""
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    a, b = ((c + k) & MASK for c, k in zip(counter, key, strict=True))
    for k in range(20):
        by = (13, 15, 26, 6, 17, 29, 16, 24)[k % 8]
        a = (a + b) & MASK
        b = (((b << by) | (b >> (32 - by))) & MASK) ^ a
        if k % 4 == 3:
            turn = k // 4 + 1
            a, b = (a + keys[turn % 3]) & MASK, (b + keys[(turn + 1) % 3] + turn) & MASK
    return a, b


def random_words(key: Array, count: int, dtype: DType) -> Array:
    """The first elements of a key's stream."""
    pair = int(key[0]), int(key[1])
    words = [threefry(pair, (p & MASK, p >> 32)) for p in range(count)]
    bits = [b << 32 | a if dtype.bits == 64 else a & ((1 << dtype.bits) - 1) for a, b in words]
    return np.array(bits, np.uint64).astype(dtype.numpy)
