"""The values of expressions in a kernel: scalars with a dtype, arrays, tuples, and objects known before it runs.

Types follow NumPy's scalars, so that the function computes the same in plain Python.  A Python number is *weak*: an int
is an int64 and a float is a float64, which take the dtype of a NumPy number beside them.
"""

from __future__ import annotations

import ast
from typing import Any, Union

import numpy as np

from nacre.base.conversion import fits
from nacre.base.dims import Size
from nacre.base.dtypes import DType, as_dtype, bool_, float64, int64, promote, uint64
from nacre.base.errors import DTypeError
from nacre.base.records import dataclass
from nacre.kernel.ast import Apply, Const, Expr, Extent, cast
from nacre.kernel.python.refusal import Refused

Number = bool | int | float


@dataclass(frozen=True)
class ScalarType:
    """The type of a scalar: its dtype, and whether it is that of a Python number."""

    dtype: DType
    weak: bool = False

    def __str__(self) -> str:
        return ("Python's " + ("float" if self.dtype is float64 else "int")) if self.weak else self.dtype.name


WEAK_INT, WEAK_FLOAT, TRUTH = ScalarType(int64, True), ScalarType(float64, True), ScalarType(bool_)


@dataclass(frozen=True)
class Scalar:
    """A number: its expression, its type, and its value or its size if that is known before the kernel runs.

    `early` are Python's integers that a local of a narrower dtype may have in its place.
    """

    expr: Expr
    type: ScalarType
    value: Number | None = None
    size: Size | None = None
    early: frozenset[int] = frozenset()

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self.type.dtype

    @property
    def whole(self) -> int | None:
        """The integer that it is, of any type; None for others, and for those that are not known."""
        known = self.expr.value if isinstance(self.expr, Const) else self.value
        return known if isinstance(known, int) and self.dtype.is_integer else None


@dataclass(frozen=True)
class Array:
    """An array, or a row of one: the buffer, the indices so far, and the sizes of the other axes."""

    buffer: str
    dtype: DType
    shape: tuple[Size, ...]
    index: tuple[Expr, ...] = ()


@dataclass(frozen=True)
class Known:
    """An object that is not part of the kernel: a module, a function, a dtype, a string, None."""

    object: Any


Value = Union[Scalar, Array, Known, "tuple[Value, ...]"]


def is_number(x: object) -> bool:
    """Whether an object is a real number of Python or NumPy, or a bool."""
    return isinstance(x, bool | int | float) or (isinstance(x, np.generic) and _dtype_of(x) is not None)


def _dtype_of(x: Any) -> DType | None:
    try:
        found = as_dtype(x.dtype)
    except DTypeError:
        return None
    return None if found.is_complex or found.is_storage else found


def is_representable(x: Number | np.generic) -> bool:
    """Whether a number that is an integer of Python is an int64 or a uint64."""
    return isinstance(x, np.generic) or not isinstance(x, int) or fits(x, int64) or fits(x, uint64)


def number(value: Number | np.generic) -> Scalar:
    """A number of Python, or one of NumPy with its dtype."""
    if isinstance(value, np.generic):
        dtype = _dtype_of(value)
        assert dtype is not None
        return number(bool(value)) if dtype.is_bool else Scalar(Const(value.item(), dtype), ScalarType(dtype))
    if isinstance(value, bool):
        return Scalar(Const(value, bool_), TRUTH, value)
    if isinstance(value, int) and not fits(value, int64):
        return Scalar(Const(value, uint64), ScalarType(uint64), value)
    if isinstance(value, int):
        return Scalar(Const(value, int64), WEAK_INT, value, value)
    return Scalar(Const(value, float64), WEAK_FLOAT, value)


def of_size(size: Size) -> Scalar:
    """A size, as a Python int."""
    if isinstance(size, int):
        return number(size)
    return Scalar(Extent(size), WEAK_INT, None, size)


def described(value: Value) -> str:
    """A value in messages."""
    match value:
        case Scalar():
            return f"a number of type {value.type}" if value.value is None else f"the number {value.value}"
        case Array():
            return f"an array of {len(value.shape)} axes" if value.index else f"the array {value.buffer}"
        case Known():
            return repr(value.object)
        case _:
            return f"a tuple of {len(value)} values"


def converted(x: Scalar, type: ScalarType, node: ast.AST) -> Scalar:
    """A number as another type.  Raises Refused for a number that the dtype cannot represent."""
    if x.type == type:
        return x
    dtype = type.dtype
    if x.value is None:
        return Scalar(cast(x.expr, dtype), type, None, x.size if type == WEAK_INT else None)
    if dtype.is_integer and not fits(x.value, dtype):
        raise Refused(node, f"the number must fit {dtype.name}", "use a wider dtype", str(x.value))
    value = bool(x.value) if dtype.is_bool else int(x.value) if dtype.is_integer else float(x.value)
    return Scalar(Const(value, dtype), type, value if type.weak or dtype.is_bool else None, None)


def common(a: ScalarType, b: ScalarType, node: ast.AST) -> ScalarType:
    """The type of an operation on two numbers, as NumPy's scalars have it.  Raises Refused where kinds do not mix."""
    if a == b:
        return a
    if a.weak and b.weak:
        return WEAK_FLOAT
    if a.weak or b.weak:
        strong, weak = (b, a) if a.weak else (a, b)
        if weak == WEAK_FLOAT and not strong.dtype.is_float:
            return ScalarType(float64)
        return ScalarType(int64) if strong.dtype.is_bool else strong
    if float64 in (a.dtype, b.dtype):
        return ScalarType(float64)
    if bool_ in (a.dtype, b.dtype):
        return ScalarType(b.dtype if a.dtype.is_bool else a.dtype)
    try:
        return ScalarType(promote(a.dtype, b.dtype))
    except DTypeError:
        wider = next((d for d in (a.dtype, b.dtype) if d.is_float), int64)
        raise Refused(
            node,
            "both numbers must be integers, or both floating-point",
            f"convert one, as in numpy.{wider.name}(x)",
            f"{a} and {b} in `{ast.unparse(node)}`",
        ) from None


def joined(a: ScalarType, b: ScalarType, name: str, node: ast.AST) -> ScalarType:
    """The type of a local that gets values of both types.  Raises Refused if it would lose digits of one."""
    if a == b:
        return a
    if a.weak and b.weak:
        return WEAK_FLOAT
    if a.weak != b.weak:
        strong, weak = (b, a) if a.weak else (a, b)
        if strong.dtype.is_float or (weak == WEAK_INT and strong.dtype.is_integer):
            return strong
    raise Refused(
        node, f"the local {name} must have one dtype", f"convert it, as in numpy.{b.dtype.name}(x)", f"{a} and {b}"
    )


def truth(x: Scalar) -> Scalar:
    """A number as a condition: whether it is not zero."""
    if x.value is not None:
        return number(bool(x.value))
    if x.dtype.is_bool:
        return x
    return Scalar(Apply("ne", (x.expr, Const(0, x.dtype)), bool_), TRUTH)
