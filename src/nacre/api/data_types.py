"""Dtypes: conversion, limits, promotion.  Names follow the array API standard."""

from __future__ import annotations

import math
from typing import Any, Final, cast

from ml_dtypes import finfo as finfo_of

from nacre.api.elementwise.one_program import one_program
from nacre.api.operands import (
    TensorLike,
    as_tensor,
    constant,
    distinct,
    filled,
    is_plain,
    is_scalar,
    meet,
    requested_dtype,
    spread,
)
from nacre.api.primitives import pointwise, reduce, view
from nacre.api.tensor import Tensor
from nacre.base.arguments import require_device, shown
from nacre.base.conversion import bounds
from nacre.base.dtypes import (
    BOOLEAN,
    FLOATING,
    INTEGRAL,
    NUMERIC,
    STORED_FLOATS,
    STORED_INTEGERS,
    UNSIGNED,
    Category,
    DType,
    DTypeSet,
    as_dtype,
    complex128,
    float32,
    float64,
    promote,
)
from nacre.base.errors import ArgumentError, DTypeError, ShapeError

__all__ = [
    "astype",
    "bitcast",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
]


KINDS: Final = {  # the array API's words for sets of dtypes; float16 and bfloat16 are "real floating", too
    "bool": BOOLEAN,
    "signed integer": DTypeSet("a signed integer dtype", Category.SIGNED),
    "unsigned integer": DTypeSet("an unsigned integer dtype", Category.UNSIGNED),
    "integral": INTEGRAL,
    "real floating": FLOATING,
    "complex floating": DTypeSet("a complex dtype", Category.COMPLEX),
    "numeric": NUMERIC,
}


def requested(operation: str, x: TensorLike, dtype: Any) -> Any:
    """The operand of a function that a caller gives a dtype, or None.

    Python numbers and lists of them are converted to the dtype.  Tensors and arrays are unchanged, but checked.
    """
    if dtype is None:
        return as_tensor(x)
    wanted = requested_dtype(operation, dtype, x)
    return as_tensor(x, wanted if is_scalar(x) or is_plain(x) else None)


@one_program()
def astype(x: TensorLike, dtype: Any, /, *, copy: bool = True, device: Any = None, saturate: bool = False) -> Tensor:
    """The elements converted to a dtype.  Floats become integers by truncation and saturate; bool is x ≠ 0.

    Other numbers beyond the range of the dtype become infinite, or NaN where it has no infinity, and integers wrap.
    With `saturate=True` they become the nearest finite number of the dtype, and so do infinities; NaN stays NaN.  With
    `copy=False`, a tensor that has the dtype is returned itself.

    Raises DTypeError for complex numbers with `saturate=True`, and GradientError where a derivative of a conversion to
    a storage dtype is needed.

    >>> nc.astype([1.9, -1.9], nc.int32)
    Tensor([ 1, -1], i32[2])
    >>> nc.astype([0.3, 1000.0], nc.float8_e4m3fn), nc.astype([0.3, 1000.0], nc.float8_e4m3fn, saturate=True)
    (Tensor([0.3125,    nan], f8e4m3fn[2]), Tensor([3.125e-01, 4.480e+02], f8e4m3fn[2]))
    """
    require_device(device, "astype")
    held = as_tensor(x)
    if held.type.dtype.is_inexact and (is_scalar(x) or is_plain(x)):
        held = as_tensor(x, complex128 if held.type.dtype.is_complex else float64)  # with all digits
    wanted = as_dtype(dtype) if held is not x else requested_dtype("astype", dtype, held)
    made = _saturated(held, wanted) if saturate else as_tensor(held, wanted)
    return distinct(made, held) if copy else made


def _saturated(x: Any, dtype: DType) -> Any:
    """x converted to the nearest finite number of a dtype."""
    source: DType = x.type.dtype
    if source.is_complex or dtype.is_complex:
        got = f"{source.name} for {dtype.name}"
        raise DTypeError(f"astype: numbers must be real with saturate=True; got {got}; convert the parts")
    x = as_tensor(x, source.number)
    source = source.number
    if source.is_bool or dtype.is_bool or (source.is_float and dtype.python is int):  # these saturate anyway
        return as_tensor(x, dtype)
    if source.is_float:
        x = as_tensor(x, float64 if float64 in (source, dtype) else float32)
    low, high = bounds(dtype) if dtype.python is int else (FloatFacts(dtype).min, FloatFacts(dtype).max)
    if source.is_integer:
        least, most = bounds(source)
        low, high = max(math.ceil(low), least), min(math.floor(high), most)
    within = pointwise.minimum(pointwise.maximum(x, filled(x, low)), filled(x, high))
    if dtype.has_zero:
        return as_tensor(within, dtype)
    above = pointwise.select(pointwise.le(x, filled(x, 0)), filled(x, 1), within)
    least_number = spread(constant(FloatFacts(dtype).smallest_normal, dtype), x.type.shape)
    return pointwise.select(pointwise.le(x, filled(x, 0)), least_number, as_tensor(above, dtype))


def bitcast(x: TensorLike, dtype: Any, /) -> Tensor:
    """The bits of the elements read as another dtype.

    Dtypes of one width keep the shape.  A dtype of 1/k of the width gives [..., k], the low bits first; one of k times
    the width takes [..., k].  So int4 numbers are packed in pairs, as in ONNX.  Derivatives are 0.

    Raises DTypeError for bool and complex numbers, and ShapeError for another last axis.

    >>> nc.bitcast(nc.tensor([1.0, -2.0]), nc.uint32)
    Tensor([1065353216, 3221225472], u32[2])
    >>> packed = nc.bitcast(nc.tensor([[1, -8], [7, 0]], dtype=nc.int4), nc.uint8)
    >>> packed, nc.bitcast(packed, nc.int4)
    (Tensor([129,   7], u8[2]), Tensor([[ 1, -8],
            [ 7,  0]], i4[2, 2]))
    """
    held, wanted = as_tensor(x), as_dtype(dtype)
    source: DType = held.type.dtype
    for each in (source, wanted):
        if each.is_bool or each.is_complex:
            raise DTypeError(f"bitcast: dtypes must be of real numbers; got {each.name}; {_PARTS[each.is_complex]}")
    bits = pointwise.bitcast(held, _unsigned(source.bits))
    if source.bits > wanted.bits:
        bits = _split(bits, wanted.bits)
    elif source.bits < wanted.bits:
        bits = _joined(bits, wanted)
    return distinct(pointwise.bitcast(bits, wanted), held)


_PARTS: Final = ("write x.astype(nacre.uint8)", "write nacre.view_as_real(x)")


def _unsigned(bits: int) -> DType:
    return next(d for d in (*UNSIGNED, *STORED_INTEGERS) if d.bits == bits and not d.is_signed)


def _places(shape: tuple[Any, ...], dtype: DType, width: int) -> Any:
    """The place of each part's low bit, along the last axis."""
    places = pointwise.iota(shape, len(shape) - 1, dtype)
    return pointwise.mul(places, filled(places, width))


def _split(bits: Any, width: int) -> Any:
    """Unsigned integers [...] as narrower ones [..., k]."""
    numbers = as_tensor(bits, bits.type.dtype.number)
    shape = (*numbers.type.shape, bits.type.dtype.bits // width)
    wide = view.broadcast(numbers, shape, tuple(range(len(shape) - 1)))
    return as_tensor(pointwise.shr(wide, _places(shape, wide.type.dtype, width)), _unsigned(width))


def _joined(bits: Any, wanted: DType) -> Any:
    """Unsigned integers [..., k] as wider ones [...]."""
    width, shape = bits.type.dtype.bits, bits.type.shape
    if not shape or shape[-1] != wanted.bits // width:
        raise ShapeError(
            f"bitcast: the last axis must have {wanted.bits // width} elements of {width} bits for {wanted.name}; "
            f"got {bits.type.with_dtype(bits.type.dtype)}; reshape x to [..., {wanted.bits // width}]"
        )
    target = _unsigned(wanted.bits)
    wide = as_tensor(bits, target.number)
    moved = pointwise.shl(wide, _places(shape, wide.type.dtype, width))
    return as_tensor(reduce.sum_(moved, (len(shape) - 1,)), target)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion with `to` gives `to`: no bit of an integer is lost, and kinds stay apart.

    `from_` is a dtype or a tensor.

    >>> nc.can_cast(nc.int8, nc.int32), nc.can_cast(nc.int64, nc.float64)
    (True, False)
    """
    target = as_dtype(to)
    try:
        return promote(_dtype_of(from_), target) is target
    except DTypeError:
        if isinstance(from_, bool | int | float | complex):
            raise
        return False


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: a dtype, a word of the array API standard, or a tuple of these.

    The words are "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating" and
    "numeric".  Raises ArgumentError for another word.

    >>> nc.isdtype(nc.int8, "integral"), nc.isdtype(nc.float32, (nc.bool, "integral"))
    (True, False)
    """
    found = as_dtype(dtype)
    kinds: tuple[Any, ...] = cast("Any", kind) if isinstance(kind, tuple) else (kind,)
    for each in kinds:
        known = KINDS.get(each) if isinstance(each, str) else None
        if known is None and isinstance(each, str):
            raise ArgumentError(f"isdtype: kind must be a dtype, or one of {', '.join(KINDS)}; got {shown(each)}")
        if found in known if known is not None else found is as_dtype(each):
            return True
    return False


def _dtype_of(x: Any) -> DType:
    """A dtype, or that of a tensor or an array."""
    return as_dtype(x.dtype if hasattr(x, "dtype") and not isinstance(x, type) else x)


def finfo(dtype: Any, /) -> FloatFacts:
    """Properties of a floating-point dtype, or of a tensor's: `bits`, `dtype`, `eps`, `max`, `min`,
    `smallest_normal`.

    >>> nc.finfo(nc.float32).bits
    32
    """
    found = _dtype_of(dtype)
    if not (found.is_inexact or found in STORED_FLOATS):
        raise DTypeError(f"finfo: dtype must be floating-point; got {found.name}")
    return FloatFacts(found.real)


def iinfo(dtype: Any, /) -> IntegerFacts:
    """Properties of an integer dtype, or of a tensor's: `bits`, `dtype`, `max`, `min`.

    >>> nc.iinfo(nc.int8).max
    127
    """
    found = _dtype_of(dtype)
    if not (found.is_integer or found in STORED_INTEGERS):
        raise DTypeError(f"iinfo: dtype must be an integer dtype; got {found.name}")
    return IntegerFacts(found)


class FloatFacts:
    """The result of `finfo`; the numbers are Python floats."""

    def __init__(self, dtype: DType) -> None:
        facts = cast("Any", finfo_of(dtype.numpy))
        self.dtype = dtype
        self.bits = dtype.bits
        self.eps = float(facts.eps)
        self.max = float(facts.max)
        self.min = float(facts.min)
        self.smallest_normal = float(facts.smallest_normal)

    def __repr__(self) -> str:
        return f"finfo({self.dtype.name}, eps={self.eps}, max={self.max}, smallest_normal={self.smallest_normal})"


class IntegerFacts:
    """The result of `iinfo`; the numbers are Python integers."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype
        self.bits = dtype.bits
        self.min, self.max = bounds(dtype)

    def __repr__(self) -> str:
        return f"iinfo({self.dtype.name}, min={self.min}, max={self.max})"


def result_type(*xs: Any) -> DType:
    """The dtype to which tensors, dtypes and Python numbers are promoted together.

    >>> nc.result_type(nc.int8, nc.int32)
    nacre.int32
    """
    if not xs:
        raise ArgumentError("result_type: at least one tensor, dtype or number is required; got none")
    return meet("result_type", [constant(1, x) if isinstance(x, DType) else x for x in xs])[1]
