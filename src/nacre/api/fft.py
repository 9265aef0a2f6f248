"""Fourier transforms.  Names and parameters follow the array API standard, and NumPy where that has none.

The transform of x with n elements along an axis has the elements y[k] = Σ_j x[j]·exp(−2πi·j·k/n), and the inverse one
has the other sign.  `norm` says which direction has the factor 1/n: the inverse one for "backward", the other one for
"forward", and both have 1/√n for "ortho".  With `n` or `s`, x is cut or padded with zeros to that length first.

float64 and complex128 are computed in 64 bits, other dtypes in 32 bits.  Integers raise DTypeError: write
x.astype(nacre.float64), for example.  Lengths along the axes are numbers: symbolic
sizes must be in other axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any

from nacre.api.creation import arange
from nacre.api.elementwise.apply import of_tensors, require
from nacre.api.manipulation import roll
from nacre.api.operands import DEFAULT_FLOAT, TensorLike, as_tensor, constant, spread
from nacre.api.primitives import fourier, parts, pointwise, view
from nacre.api.tensor import Axes, Tensor
from nacre.base.arguments import plain_number, require_device, whole_number, whole_numbers
from nacre.base.boundary import publish_all
from nacre.base.dims import Size
from nacre.base.dtypes import ANY, FLOATING, INEXACT, as_dtype, complex64, complex128, float32, float64
from nacre.base.errors import ArgumentError, DTypeError
from nacre.base.types import normal_axes, normal_axis

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

NORMS = ("backward", "ortho", "forward")
LAST_TWO = (-2, -1)


# ---- operands: pairs of real numbers along another last axis


def _complex(operation: str, x: TensorLike) -> Any:
    """Real or complex numbers as complex64 or complex128."""
    held = as_tensor(x)
    require(operation, held.type.dtype, INEXACT)
    return as_tensor(held, complex128 if held.type.dtype in (float64, complex128) else complex64)


def _pairs(operation: str, x: TensorLike) -> Any:
    """Real or complex numbers as pairs [..., 2] of float32 or float64."""
    return parts.as_real(_complex(operation, x))


def _numbers(operation: str, x: TensorLike) -> Any:
    """Real numbers as float32 or float64."""
    held = as_tensor(x)
    require(operation, held.type.dtype, ANY)
    if held.type.dtype.is_complex:
        raise DTypeError(f"{operation}: x must be real; got {held.type}; take `nacre.real` of it, or write fft")
    require(operation, held.type.dtype, FLOATING)
    return as_tensor(held, float64 if held.type.dtype is float64 else float32)


def _length(operation: str, size: Size | None, found: Size) -> int:
    """The length along an axis, a number: as given, or else as found."""
    return fourier.fixed_length(operation, found if size is None else whole_number(size, operation, "n"))


def _fitted(x: Any, axis: int, n: int) -> Any:
    """x cut, or padded with zeros, to n elements along an axis."""
    size = x.type.shape[axis]
    if size == n:
        return x
    if size > n:
        return view.slice_axis(x, axis, 0, n)
    nothing = [0] * len(x.type.shape)
    behind = [n - size if k == axis else 0 for k in range(len(nothing))]
    return view.pad(x, constant(0.0, x.type.dtype), nothing, behind)


def _scaled(operation: str, x: Any, n: int, norm: str | None, inverse: bool) -> Any:
    """Real numbers, or parts of complex ones, with the factor of a transform of n numbers."""
    named = "backward" if norm is None else norm
    if named not in NORMS:
        raise ArgumentError(f"{operation}: norm must be one of {', '.join(NORMS)}, or None; got {norm!r}")
    if named == "ortho":
        factor = 1 / sqrt(n)
    elif inverse == (named == "backward"):
        factor = 1 / n
    else:
        return x
    return x if factor == 1 else pointwise.mul(x, spread(constant(factor, x.type.dtype), x.type.shape))


def _along(x: Any, axis: int, behind: int, transform: Any, behind_result: int) -> Any:
    """A transform along an axis; `behind` axes follow the one that it takes, and `behind_result` that of its result."""
    moved = view.move(x, axis, len(x.type.shape) - 1 - behind)
    found = transform(moved)
    return view.move(found, len(found.type.shape) - 1 - behind_result, axis)


def _complex_along(pairs: Any, axis: int, inverse: bool) -> Any:
    return _along(pairs, axis, 1, lambda moved: fourier.fft(moved, inverse), 1)


# ---- one axis


def fft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The transform of complex or real numbers along an axis.  The result is complex.

    Raises DTypeError for integers.

    >>> nc.fft.fft([1.0, 2.0, 3.0, 4.0])
    Tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j], c64[4])
    """
    return _transformed("fft", _one, x, n, axis, norm, False)


def ifft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The inverse of `fft`.

    Raises DTypeError for integers.

    >>> nc.fft.ifft([4.0, 0.0, 0.0, 0.0])
    Tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j], c64[4])
    """
    return _transformed("ifft", _one, x, n, axis, norm, True)


def _transformed(
    operation: str, function: Any, x: TensorLike, n: int | None, axis: int, norm: str | None, inverse: bool
) -> Any:
    """A transform along one axis, which for tensors is one operation."""

    def found(x: TensorLike) -> Any:
        """The transform with these settings."""
        return function(operation, x, n, axis, norm, inverse)

    return of_tensors(operation, found, (x,), n=n, axis=axis, norm=norm)


def _one(operation: str, x: TensorLike, n: int | None, axis: int, norm: str | None, inverse: bool) -> Any:
    held = as_tensor(x)
    at = _axis(operation, held, axis)
    return _several(operation, held, (_length(operation, n, held.type.shape[at]),), (at,), norm, inverse)


def _axis(operation: str, held: Any, axis: int) -> int:
    rank = len(held.type.shape)
    if not rank:
        raise ArgumentError(f"{operation}: x must have an axis to transform; got {held.type}; reshape it to (1,)")
    return normal_axis(axis, rank, operation)


def rfft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The first n//2 + 1 elements of the transform of real numbers; the others are conjugates of these.

    Raises DTypeError for complex numbers and integers.

    >>> nc.fft.rfft([1.0, 2.0, 3.0, 4.0])
    Tensor([10.+0.j, -2.+2.j, -2.+0.j], c64[3])
    """
    return _transformed("rfft", _of_real, x, n, axis, norm, False)


def irfft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The inverse of `rfft`: n real numbers, 2·(m − 1) of m elements if n is not given.

    The imaginary part of the first element is ignored, and that of the last one if n is even.

    Raises DTypeError for integers.

    >>> nc.fft.irfft([4.0, 0.0, 0.0])
    Tensor([1., 1., 1., 1.], f32[4])
    """
    return _transformed("irfft", _to_real, x, n, axis, norm, True)


def hfft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The transform of n numbers that are conjugates of each other, as x[k] and x[n − k]; it is real.

    x has the first n//2 + 1 of them.  Without n, it is 2·(m − 1) for m elements.

    Raises DTypeError for integers.

    >>> nc.fft.hfft([1.0, 2j, 0.0])
    Tensor([ 1.,  5.,  1., -3.], f32[4])
    """
    return _transformed("hfft", _to_real, x, n, axis, norm, False)


def ihfft(x: TensorLike, /, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Tensor:
    """The inverse of `hfft`: the first n//2 + 1 elements.  Raises DTypeError for complex numbers and integers.

    >>> nc.fft.ihfft([4.0, 0.0, 4.0, 0.0])
    Tensor([2.-0.j, 0.-0.j, 2.-0.j], c64[3])
    """
    return _transformed("ihfft", _of_real, x, n, axis, norm, True)


def _of_real(operation: str, x: TensorLike, n: int | None, axis: int, norm: str | None, inverse: bool) -> Any:
    held = _numbers(operation, x)
    at = _axis(operation, held, axis)
    length = _length(operation, n, held.type.shape[at])
    found = _along(_fitted(held, at, length), at, 0, fourier.rfft, 1)
    z = parts.as_complex(_scaled(operation, found, length, norm, inverse))
    return parts.conj(z) if inverse else z


def _to_real(operation: str, x: TensorLike, n: int | None, axis: int, norm: str | None, inverse: bool) -> Any:
    z = _complex(operation, x)
    pairs = parts.as_real(z if inverse else parts.conj(z))
    rank = len(pairs.type.shape) - 1
    if not rank:
        raise ArgumentError(f"{operation}: x must have an axis to transform; got a single number; reshape it to (1,)")
    at = normal_axis(axis, rank, operation)
    length = _length(operation, n, 2 * (pairs.type.shape[at] - 1))
    found = _along(_fitted(pairs, at, length // 2 + 1), at, 1, lambda moved: fourier.irfft(moved, length), 0)
    return _scaled(operation, found, length, norm, inverse)


# ---- several axes


def fftn(
    x: TensorLike, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = "backward"
) -> Tensor:
    """The transform along several axes: all of them, or the last ones for as many lengths as `s` has.

    Raises DTypeError for integers.

    >>> nc.fft.fftn([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]], c64[2, 2])
    """
    return _all("fftn", x, s, axes, norm, False)


def ifftn(
    x: TensorLike, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = "backward"
) -> Tensor:
    """The inverse of `fftn`.

    Raises DTypeError for integers.

    >>> nc.fft.ifftn([[4.0, 0.0], [0.0, 0.0]])
    Tensor([[1.+0.j, 1.+0.j],
            [1.+0.j, 1.+0.j]], c64[2, 2])
    """
    return _all("ifftn", x, s, axes, norm, True)


def rfftn(
    x: TensorLike, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = "backward"
) -> Tensor:
    """`rfft` along the last of several axes, then `fft` along the others.

    Raises DTypeError for complex numbers and integers.

    >>> nc.fft.rfftn([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[10.+0.j, -2.+0.j],
            [-4.+0.j,  0.+0.j]], c64[2, 2])
    """
    return _all_of_real("rfftn", x, s, axes, norm)


def irfftn(
    x: TensorLike, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str | None = "backward"
) -> Tensor:
    """The inverse of `rfftn`.  Without `s`, the last length is 2·(m − 1) for m elements.

    Raises DTypeError for integers.

    >>> nc.fft.irfftn([[4.0, 0.0], [0.0, 0.0]])
    Tensor([[1., 1.],
            [1., 1.]], f32[2, 2])
    """
    return _all_to_real("irfftn", x, s, axes, norm)


def fft2(
    x: TensorLike, /, s: Sequence[int] | None = None, axes: Sequence[int] = LAST_TWO, norm: str | None = "backward"
) -> Tensor:
    """`fftn` along two axes.

    Raises DTypeError for integers.

    >>> nc.fft.fft2(nc.ones((3, 2, 2))).shape
    (3, 2, 2)
    """
    return _all("fft2", x, s, axes, norm, False)


def ifft2(
    x: TensorLike, /, s: Sequence[int] | None = None, axes: Sequence[int] = LAST_TWO, norm: str | None = "backward"
) -> Tensor:
    """The inverse of `fft2`.

    Raises DTypeError for integers.

    >>> nc.fft.ifft2([[4.0, 0.0], [0.0, 0.0]])
    Tensor([[1.+0.j, 1.+0.j],
            [1.+0.j, 1.+0.j]], c64[2, 2])
    """
    return _all("ifft2", x, s, axes, norm, True)


def rfft2(
    x: TensorLike, /, s: Sequence[int] | None = None, axes: Sequence[int] = LAST_TWO, norm: str | None = "backward"
) -> Tensor:
    """`rfftn` along two axes.

    Raises DTypeError for integers.

    >>> nc.fft.rfft2(nc.ones((3, 4, 6))).shape
    (3, 4, 4)
    """
    return _all_of_real("rfft2", x, s, axes, norm)


def irfft2(
    x: TensorLike, /, s: Sequence[int] | None = None, axes: Sequence[int] = LAST_TWO, norm: str | None = "backward"
) -> Tensor:
    """The inverse of `rfft2`.

    Raises DTypeError for integers.

    >>> nc.fft.irfft2(nc.ones((3, 4, 4))).shape
    (3, 4, 6)
    """
    return _all_to_real("irfft2", x, s, axes, norm)


def _all(
    operation: str, x: TensorLike, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str | None, inverse: bool
) -> Any:
    held = as_tensor(x)
    lengths, places = _lengths(operation, held.type.shape, s, axes)
    return _several(operation, held, lengths, places, norm, inverse)


def _several(
    operation: str, x: Any, lengths: Sequence[int], axes: Sequence[int], norm: str | None, inverse: bool
) -> Any:
    """The transform along axes, the last one first."""
    pairs = _complex_along_each(_pairs(operation, x), lengths[::-1], axes[::-1], inverse)
    return parts.as_complex(_scaled(operation, pairs, prod(lengths), norm, inverse))


def _complex_along_each(pairs: Any, lengths: Sequence[int], axes: Sequence[int], inverse: bool) -> Any:
    """The transforms along one axis after another, of elements fitted to their lengths."""
    for n, at in zip(lengths, axes, strict=True):
        pairs = _complex_along(_fitted(pairs, at, n), at, inverse)
    return pairs


def _all_of_real(
    operation: str, x: TensorLike, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str | None
) -> Any:
    held = _numbers(operation, x)
    lengths, places = _lengths(operation, held.type.shape, s, axes)
    *others, last = places
    pairs = _along(_fitted(held, last, lengths[-1]), last, 0, fourier.rfft, 1)
    pairs = _complex_along_each(pairs, lengths[:-1][::-1], others[::-1], False)
    return parts.as_complex(_scaled(operation, pairs, prod(lengths), norm, False))


def _all_to_real(
    operation: str, x: TensorLike, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str | None
) -> Any:
    pairs = _pairs(operation, x)
    lengths, places = _lengths(operation, pairs.type.shape[:-1], s, axes, True)
    *others, last = places
    pairs, n = _complex_along_each(pairs, lengths[:-1], others, True), lengths[-1]
    found = _along(_fitted(pairs, last, n // 2 + 1), last, 1, lambda moved: fourier.irfft(moved, n), 0)
    return _scaled(operation, found, prod(lengths), norm, True)


def _lengths(
    operation: str, shape: Sequence[Size], s: Sequence[int] | None, axes: Sequence[int] | None, half: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The lengths along axes, and the axes; −1 in `s` stands for the size of x.

    With `half` and without `s`, the last axis has half of the elements.
    """
    sizes = None if s is None else whole_numbers(s, operation, "s")
    rank = len(shape)
    if axes is not None:
        given = whole_numbers(axes, operation, "axes")
    else:
        given = tuple(range(rank)) if sizes is None else tuple(range(-len(sizes), 0))
    places = tuple(normal_axis(a, rank, operation) for a in given)
    if len(normal_axes(places, rank, operation)) == 0:
        raise ArgumentError(f"{operation}: there must be an axis to transform; got none; name one in axes")
    if sizes is not None and len(sizes) != len(places):
        raise ArgumentError(
            f"{operation}: s must have one length for each axis; got {len(sizes)} for {len(places)} axes; leave s out "
            "to take the sizes of x"
        )
    found = [shape[at] for at in places]
    if half and sizes is None:
        found[-1] = 2 * (found[-1] - 1)
    wanted = [None if sizes is None or sizes[k] == -1 else sizes[k] for k in range(len(places))]
    return tuple(_length(operation, n, size) for n, size in zip(wanted, found, strict=True)), places


# ---- frequencies


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `fft`: 0, 1, …, then the negative ones up to −1, divided by n·d; d is the sample spacing.

    >>> nc.fft.fftfreq(4)
    Tensor([ 0.  ,  0.25, -0.5 , -0.25], f32[4])
    """
    require_device(device, "fftfreq")
    count = _length("fftfreq", n, n)
    return _frequencies("fftfreq", roll(arange(-(count // 2), (count + 1) // 2), -(count // 2)), count, d, dtype)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `rfft`: 0, 1, …, n//2, divided by n·d; d is the sample spacing.

    >>> nc.fft.rfftfreq(4)
    Tensor([0.  , 0.25, 0.5 ], f32[3])
    """
    require_device(device, "rfftfreq")
    count = _length("rfftfreq", n, n)
    return _frequencies("rfftfreq", arange(count // 2 + 1), count, d, dtype)


def _frequencies(operation: str, numbers: Any, n: int, d: float, dtype: Any) -> Any:
    found = DEFAULT_FLOAT if dtype is None else as_dtype(dtype)
    if not found.is_float:
        raise DTypeError(f"{operation}: dtype must be a floating-point dtype; got {found.name}; convert the result")
    spacing = plain_number(d, operation, "d")
    if spacing == 0:
        raise ArgumentError(f"{operation}: d must not be 0; got {d}; give the spacing of the samples")
    wide = as_tensor(numbers, float64)
    return as_tensor(pointwise.div(wide, spread(constant(n * spacing, float64), wide.type.shape)), found)


def fftshift(x: TensorLike, /, axes: Axes = None) -> Tensor:
    """The elements with frequency 0 in the middle of axes; all axes by default.

    >>> nc.fft.fftshift([0, 1, 2, 3, 4])
    Tensor([3, 4, 0, 1, 2], i64[5])
    """
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: TensorLike, /, axes: Axes = None) -> Tensor:
    """The inverse of `fftshift`.

    >>> nc.fft.ifftshift([3, 4, 0, 1, 2])
    Tensor([0, 1, 2, 3, 4], i64[5])
    """
    return _shifted("ifftshift", x, axes, -1)


def _shifted(operation: str, x: TensorLike, axes: Axes, sign: int) -> Any:
    held = as_tensor(x)
    places = normal_axes(axes, len(held.type.shape), operation)
    shifts = tuple(sign * (held.type.shape[at] // 2) for at in places)
    return roll(held, shifts, axis=places) if places else held


def __dir__() -> list[str]:
    return __all__


publish_all(__name__, __all__)
