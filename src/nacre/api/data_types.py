"""Dtypes: conversion, limits, promotion.  Names follow the array API standard."""

from __future__ import annotations

from typing import Any, Final, cast

from ml_dtypes import finfo as finfo_of

from nacre.api.operands import (
    TensorLike,
    as_tensor,
    constant,
    distinct,
    meet,
)
from nacre.api.tensor import Tensor
from nacre.base.arguments import require_device, shown
from nacre.base.conversion import bounds
from nacre.base.dtypes import BOOLEAN, FLOATING, INTEGRAL, NUMERIC, Category, DType, DTypeSet, as_dtype, promote
from nacre.base.errors import ArgumentError, DTypeError

__all__ = [
    "astype",
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


def astype(x: TensorLike, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The elements converted to a dtype.  Floats become integers by truncation and saturate; bool is x ≠ 0.

    With `copy=False`, a tensor that has the dtype is returned itself.

    >>> nc.astype([1.9, -1.9], nc.int32)
    Tensor([ 1, -1], i32[2])
    """
    require_device(device, "astype")
    held = as_tensor(x)
    made = as_tensor(held, as_dtype(dtype))
    return distinct(made, held) if copy else made


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
    return as_dtype(x.dtype if hasattr(x, "dtype") else x)


def finfo(dtype: Any, /) -> FloatFacts:
    """Properties of a floating-point dtype, or of a tensor's: `bits`, `dtype`, `eps`, `max`, `min`,
    `smallest_normal`.

    >>> nc.finfo(nc.float32).bits
    32
    """
    found = _dtype_of(dtype)
    if not found.is_inexact:
        raise DTypeError(f"finfo: dtype must be floating-point; got {found.name}")
    return FloatFacts(found.real)


def iinfo(dtype: Any, /) -> IntegerFacts:
    """Properties of an integer dtype, or of a tensor's: `bits`, `dtype`, `max`, `min`.

    >>> nc.iinfo(nc.int8).max
    127
    """
    found = _dtype_of(dtype)
    if not found.is_integer:
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
    return meet("result_type", [constant(0, x) if isinstance(x, DType) else x for x in xs])[1]
