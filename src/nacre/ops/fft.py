"""Fourier transforms of pairs of real numbers: `fft`, `rfft` and `irfft`, without factors.

A complex number is a pair along the last axis.  `kernel.order_fft` defines the bits.  Lengths are numbers: their
constants are part of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from nacre.base.dims import Size
from nacre.base.dtypes import float32, float64
from nacre.base.errors import DTypeError, ShapeError
from nacre.base.types import TensorType
from nacre.ir.primitive import Linear, Params, Primitive, Template
from nacre.ops.pointwise import fill, mul
from nacre.ops.rules import show
from nacre.ops.shape import broadcast, front
from nacre.ops.view import concatenate
from nacre.trace.bind import bind
from nacre.trace.value import Value


def fft(x: Value, inverse: bool = False) -> Value:
    """The transform of pairs [..., n, 2] along n; the inverse one has no factor 1/n."""
    return bind(fft_p, x, inverse=inverse)


def rfft(x: Value) -> Value:
    """The first n//2 + 1 pairs of the transform of real numbers: [..., n] → [..., n//2 + 1, 2]."""
    return bind(rfft_p, x)


def irfft(x: Value, n: int) -> Value:
    """The n real numbers of which n//2 + 1 pairs are the transform, times n: [..., n//2 + 1, 2] → [..., n].

    The imaginary part of the first pair is not read, nor that of the last one if n is even.
    """
    return bind(irfft_p, x, n=n)


def fixed_length(operation: str, n: Size) -> int:
    """A length as a number.  Raises ShapeError if it depends on a symbol, or is less than 1."""
    try:
        length = int(n)
    except ShapeError:
        raise ShapeError(
            f"{operation}: the length must be a number; got {n}; compile without dynamic_shapes for its axis, or give n"
        ) from None
    if length < 1:
        raise ShapeError(f"{operation}: the length must be at least 1; got {length}; give another n")
    return length


def _require_float(operation: str, x: TensorType) -> None:
    if x.dtype not in (float32, float64):
        raise DTypeError(f"{operation}: the dtype must be float32 or float64; got {x}; convert with `astype`")


def _require_pairs(operation: str, x: TensorType) -> None:
    _require_float(operation, x)
    if x.rank < 2 or x.shape[-1] != 2:
        raise ShapeError(
            f"{operation}: x must have a last axis of size 2, the real and imaginary parts, behind the axis to "
            f"transform; got {show(x.shape)}; use `view_as_real`"
        )


def _fft_type(x: TensorType, inverse: bool) -> TensorType:
    _require_pairs("fft", x)
    fixed_length("fft", x.shape[-2])
    return x


def _rfft_type(x: TensorType) -> TensorType:
    _require_float("rfft", x)
    if x.rank < 1:
        raise ShapeError(f"rfft: x must have an axis to transform; got {x}; reshape it to [1]")
    return x.with_shape((*x.shape[:-1], fixed_length("rfft", x.shape[-1]) // 2 + 1, 2))


def _irfft_type(x: TensorType, n: int) -> TensorType:
    _require_pairs("irfft", x)
    fixed_length("irfft", n)
    if x.shape[-2] != n // 2 + 1:
        raise ShapeError(
            f"irfft: x must have n//2 + 1 = {n // 2 + 1} pairs for n = {n}; got {x.shape[-2]} in {x}; slice or pad it"
        )
    return x.with_shape((*x.shape[:-2], n))


def _weighted(x: Value, n: int, ends: float, middle: float) -> Value:
    """Pairs times a factor: `ends` for those that have no conjugate among n numbers, `middle` for the others."""
    last = 1 - n % 2 if n > 1 else 0
    parts = [fill(value, (count,), x.type.dtype) for count, value in ((1, ends), ((n - 1) // 2, middle), (last, ends))]
    factors = concatenate([p for p in parts if p.type.shape[0]], 0)
    shape = x.type.shape
    return mul(x, broadcast(factors, shape, (len(shape) - 2,)))


def _fft_transpose(g: Value, x: Any, inverse: bool) -> Value:
    return fft(g, not inverse)


def _rfft_transpose(g: Value, x: Any) -> Value:
    n = int(x.type.shape[-1])
    return irfft(_weighted(g, n, 1.0, 0.5), n)


def _irfft_transpose(g: Value, x: Any, n: int) -> Value:
    return _weighted(rfft(g), n, 1.0, 2.0)


def _batch(of: Any) -> Any:
    def rule(inputs: Sequence[Value], batched: Sequence[int], **params: Any) -> tuple[Value, int]:
        """The transform of the last axes, behind the batch axis."""
        return of(front(inputs[0], batched[0]), **params), 0

    return rule


def _length_along(axis: int) -> Any:
    def rule(types: Sequence[TensorType], params: Params) -> tuple[Size, ...]:
        """The length that the kernels have as a number."""
        return (types[0].shape[axis],)

    return rule


fft_p: Final = Primitive(
    "fft", _fft_type, Template("fft", "fourier"), Linear((_fft_transpose,)), _batch(fft), numbers=_length_along(-2)
)
rfft_p: Final = Primitive(
    "rfft", _rfft_type, Template("rfft", "fourier"), Linear((_rfft_transpose,)), _batch(rfft), numbers=_length_along(-1)
)
irfft_p: Final = Primitive(
    "irfft",
    _irfft_type,
    Template("irfft", "fourier"),
    Linear((_irfft_transpose,)),
    _batch(irfft),
    numbers=_length_along(-2),
)
