# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
"""Complex numbers and their parts: joined from two real numbers, and taken apart.

The tangent t of a complex value is complex, and a cotangent c pairs with it as the real number Re(c·t).  So the
transposes of holomorphic operations do not conjugate; what users get as a derivative is conjugated once, where it is
returned (`interpret/conjugation.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.base.dtypes import COMPLEX, FLOATING, Category, DTypeSet
from nacre.base.errors import DTypeError, ShapeError
from nacre.base.types import TensorType, row_major
from nacre.ir.primitive import Element, Layout, Linear, Operand, Primitive
from nacre.kernel.ast import Apply, Const, Expr, apply, const
from nacre.ops.elementwise import Unary, lined_up, of_one, of_two, pointwise_primitive
from nacre.ops.rules import require_kind
from nacre.ops.shape import front
from nacre.trace.bind import bind
from nacre.trace.value import Value

PAIRED = DTypeSet("a complex dtype", Category.COMPLEX)

complex_p = pointwise_primitive("complex", FLOATING, Linear((lambda g, x, y: real(g), lambda g, x, y: imag(conj(g)))))
complex_ = of_two(complex_p)
real = of_one(pointwise_primitive("real", PAIRED, Linear((lambda g, z: from_real(g),))))
imag = of_one(pointwise_primitive("imag", PAIRED, Linear((lambda g, z: conj(from_imag(g)),))))
conj = of_one(pointwise_primitive("conj", PAIRED, Linear((lambda g, z: conj(g),))))


def conjugate(x: Value) -> Value:
    """The complex conjugate, which is x itself for real numbers."""
    return conj(x) if x.type.dtype.is_complex else x


def _embedding(name: str, transpose: Unary, place: int) -> Unary:
    """Real numbers as complex ones: one part is 0."""

    def element(index: tuple[Expr, ...], operands: tuple[Operand, ...], types: Any, result: TensorType) -> Expr:
        """The pair of the operand's element and 0."""
        x = operands[0](index)
        zero = Const(0.0, x.dtype)
        return apply("complex", *((zero, x) if place else (x, zero)))

    def type_rule(x: TensorType) -> TensorType:
        """The complex type."""
        require_kind(name, x, FLOATING)
        return x.with_dtype(x.dtype.paired)

    primitive = Primitive(
        name,
        type_rule,
        Element(element),
        Linear((lambda g, x: transpose(g),)),
        lined_up(lambda: primitive),
    )
    return of_one(primitive)


from_real = _embedding("from_real", real, 0)  # (x, 0)
from_imag = _embedding("from_imag", lambda g: imag(conj(g)), 1)  # (0, x)

# ---- views: a complex tensor as a real one with another axis of two


def as_real(z: Value) -> Value:
    """The parts of complex numbers along a new last axis."""
    return bind(as_real_p, z)


def as_complex(x: Value) -> Value:
    """The complex numbers whose parts are along the last axis, of size 2."""
    return bind(as_complex_p, x)


def _as_real_type(z: TensorType) -> TensorType:
    require_kind("view_as_real", z, PAIRED)
    return TensorType((*z.shape, 2), z.dtype.real)


def _as_complex_type(x: TensorType) -> TensorType:
    if x.dtype not in {d.component for d in COMPLEX}:
        raise DTypeError(f"view_as_complex: the dtype must be float32 or float64; got {x}; convert with `astype`")
    if not x.rank or x.shape[-1] != 2:
        raise ShapeError(f"view_as_complex: the last axis must have size 2; got {x}")
    return TensorType(x.shape[:-1], x.dtype.paired)


def _real_part_at(index: tuple[Expr, ...], operands: tuple[Operand, ...], types: Any, result: TensorType) -> Expr:
    z = operands[0](index[:-1])
    first = apply("eq", index[-1], const(0))
    return apply("select", first, apply("real", z), apply("imag", z))


def _pair_at(index: tuple[Expr, ...], operands: tuple[Operand, ...], types: Any, result: TensorType) -> Expr:
    return Apply("complex", tuple(operands[0]((*index, const(k))) for k in range(2)), result.dtype)


def _view(layout: Layout, x: TensorType, result: TensorType) -> Layout | None:
    """The same memory, if elements follow each other there."""
    return _dense(result) if _is_dense(layout, x) else None


def _dense(x: TensorType) -> Layout:
    """The layout of elements that follow each other from the beginning of the memory."""
    return Layout(0, row_major(x.shape))  # type: ignore[arg-type]


def _is_dense(layout: Layout, x: TensorType) -> bool:
    """Whether elements follow each other from the beginning of the memory."""
    return layout.offset == 0 and layout.strides == row_major(x.shape)


def _as_real_batch(inputs: Sequence[Value], batched: Sequence[int]) -> tuple[Value, int]:
    return as_real(inputs[0]), batched[0]


def _as_complex_batch(inputs: Sequence[Value], batched: Sequence[int]) -> tuple[Value, int]:
    return as_complex(front(inputs[0], batched[0])), 0


as_real_p = Primitive(
    "view_as_real",
    _as_real_type,
    Element(_real_part_at, view=_view, resized=True),
    Linear((lambda g, z: conj(as_complex(g)),)),
    _as_real_batch,
)
as_complex_p = Primitive(
    "view_as_complex",
    _as_complex_type,
    Element(_pair_at, view=_view, resized=True),
    Linear((lambda g, x: as_real(conj(g)),)),
    _as_complex_batch,
)
