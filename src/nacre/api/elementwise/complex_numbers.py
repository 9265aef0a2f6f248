"""Complex numbers and their parts.  Names follow the array API standard, then NumPy and PyTorch.

The derivative of a real function of complex numbers is the direction of steepest ascent, ∂f/∂x + i·∂f/∂y, as in
PyTorch.  That of a holomorphic function is the conjugate of its complex derivative.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from nacre.api.elementwise.apply import of_tensors, require
from nacre.api.operands import TensorLike, as_tensor, distinct, filled, operands
from nacre.api.primitives import parts, pointwise
from nacre.api.tensor import Tensor
from nacre.base.dtypes import FLOATING, NUMERIC, Category, DTypeSet

__all__ = [
    "angle",
    "complex",
    "conj",
    "imag",
    "polar",
    "real",
    "view_as_complex",
    "view_as_real",
]

COMPLEX = DTypeSet("a complex dtype", Category.COMPLEX)


def complex(real: TensorLike, imag: TensorLike, /) -> Tensor:
    """The complex numbers real + i·imag.  Raises DTypeError unless both have a floating-point dtype.

    float64 gives complex128, other dtypes give complex64.

    >>> nc.complex([1.0, 2.0], [0.5, 0.0])
    Tensor([1.+0.5j, 2.+0.j ], c64[2])
    """
    return of_tensors("complex", _joined, (real, imag))


def _joined(re: TensorLike, im: TensorLike) -> Any:
    a, b = operands("complex", re, im)
    require("complex", a.type.dtype, FLOATING)
    wide = a.type.dtype.arithmetic
    return parts.complex_(as_tensor(a, wide), as_tensor(b, wide))


def _part(operation: str, x: TensorLike, function: Any, otherwise: Any) -> Any:
    """A function of complex numbers, and another of real ones."""

    def found(x: TensorLike) -> Any:
        """The function of this operand's dtype."""
        held = as_tensor(x)
        require(operation, held.type.dtype, NUMERIC)
        return distinct((function if held.type.dtype.is_complex else otherwise)(held), held)

    return of_tensors(operation, found, (x,))


def real(x: TensorLike, /) -> Tensor:
    """The real part; of real numbers x itself.

    >>> nc.real(nc.tensor([1 + 2j]))
    Tensor([1.], f32[1])
    """
    return _part("real", x, parts.real, lambda held: held)


def imag(x: TensorLike, /) -> Tensor:
    """The imaginary part; of real numbers 0.

    >>> nc.imag(nc.tensor([1 + 2j]))
    Tensor([2.], f32[1])
    """
    return _part("imag", x, parts.imag, partial(filled, value=0))


def conj(x: TensorLike, /) -> Tensor:
    """The complex conjugate; of real numbers x itself.

    >>> nc.conj(nc.tensor([1 + 2j]))
    Tensor([1.-2.j], c64[1])
    """
    return _part("conj", x, parts.conj, lambda held: held)


def angle(x: TensorLike, /) -> Tensor:
    """The angle in radians from the positive real axis, in [−π, π]; of real numbers 0 or π.

    Raises DTypeError for integers.

    >>> nc.angle(nc.tensor([1j, -1.0]))
    Tensor([1.5707964, 3.1415927], f32[2])
    """

    def found(held: Any) -> Any:
        """The angle of floating-point numbers."""
        require("angle", held.type.dtype, FLOATING)
        return pointwise.atan2(filled(held, 0.0), held)

    return _part("angle", x, lambda z: pointwise.atan2(parts.imag(z), parts.real(z)), found)


def polar(abs: TensorLike, angle: TensorLike, /) -> Tensor:
    """The complex numbers with a modulus and an angle in radians: abs·cos(angle) + i·abs·sin(angle).

    >>> nc.polar(2.0, 0.0)
    Tensor(2.+0.j, c64[])
    """

    def found(r: TensorLike, angle: TensorLike) -> Any:
        """The numbers of promoted operands."""
        a, b = operands("polar", r, angle)
        require("polar", a.type.dtype, FLOATING)
        a, b = (as_tensor(v, a.type.dtype.arithmetic) for v in (a, b))
        return parts.complex_(*(pointwise.mul(a, f(b)) for f in (pointwise.cos, pointwise.sin)))

    return of_tensors("polar", found, (abs, angle))


def view_as_real(x: TensorLike, /) -> Tensor:
    """The real and the imaginary parts along a new last axis of size 2.

    >>> nc.view_as_real(nc.tensor([1 + 2j, 3j]))
    Tensor([[1., 2.],
            [0., 3.]], f32[2, 2])
    """
    held = as_tensor(x)
    require("view_as_real", held.type.dtype, COMPLEX)
    return parts.as_real(held)


def view_as_complex(x: TensorLike, /) -> Tensor:
    """The complex numbers whose parts are along the last axis, of size 2.

    Raises DTypeError unless x has dtype float32 or float64, ShapeError unless its last axis has size 2.

    >>> nc.view_as_complex([[1.0, 2.0], [0.0, 3.0]])
    Tensor([1.+2.j, 0.+3.j], c64[2])
    """
    return parts.as_complex(as_tensor(x))
