"""Dtypes: conversion, limits, promotion.  Names follow the array API standard."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from ml_dtypes import finfo as finfo_of

from nacre.api.operands import (
    TensorLike,
    as_tensor,
    constant,
    distinct,
    meet,
)
from nacre.api.tensor import Tensor
from nacre.base.dtypes import DType, as_dtype
from nacre.base.errors import DTypeError

__all__ = [
    "astype",
    "finfo",
    "iinfo",
    "result_type",
]


def astype(x: TensorLike, dtype: Any, /) -> Tensor:
    """The elements converted to a dtype.  Floats are truncated towards zero and saturate; bool is x ≠ 0.

    >>> nc.astype([1.9, -1.9], nc.int32)
    Tensor([ 1, -1], i32[2])
    """
    held = as_tensor(x)
    return distinct(as_tensor(held, as_dtype(dtype)), held)


def finfo(dtype: Any, /) -> Any:
    """Properties of a floating-point dtype: `bits`, `eps`, `max`, `min`, `smallest_normal`.

    >>> nc.finfo(nc.float32).bits
    32
    """
    found = as_dtype(dtype.dtype if hasattr(dtype, "dtype") else dtype)
    if not found.is_inexact:
        raise DTypeError(f"finfo: dtype must be floating-point; got {found.name}")
    return FloatFacts(found.real)


def iinfo(dtype: Any, /) -> Any:
    """Properties of an integer dtype: `bits`, `max`, `min`.

    >>> nc.iinfo(nc.int8).max
    127
    """
    found = as_dtype(dtype.dtype if hasattr(dtype, "dtype") else dtype)
    if not found.is_integer:
        raise DTypeError(f"iinfo: dtype must be an integer dtype; got {found.name}")
    return np.iinfo(found.numpy)


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


def result_type(*xs: Any) -> DType:
    """The dtype to which tensors, dtypes and Python numbers are promoted together.

    >>> nc.result_type(nc.int8, nc.int32)
    nacre.int32
    """
    return meet("result_type", [constant(0, x) if isinstance(x, DType) else x for x in xs])[1]
