"""Conversion of numbers without a dtype (Python numbers and lists of them) to elements of a dtype.

An integer dtype accepts whole numbers in its range only.  A floating-point dtype takes the nearest number, rounded
once, ties to even, infinite beyond its largest; so does a complex dtype for each part, and it alone accepts complex
numbers.  bool is x ≠ 0.  Tensors and NumPy arrays have a dtype and are
converted by `astype` instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Complex, Integral, Real
from operator import index
from typing import Any, cast

import numpy as np

from nacre.base.dtypes import (
    ANY,
    BITWISE,
    BOOLEAN,
    INTEGRAL,
    ORDERED,
    REAL,
    DType,
    bfloat16,
    bool_,
    complex64,
    float32,
    int64,
)
from nacre.base.errors import DTypeError

Number = bool | int | float | complex
NAMES = "to number the names of classes, write names, y = numpy.unique(labels, return_inverse=True)"
REMEDIES: dict[tuple[type, ...], tuple[str, str]] = {  # for elements that are not numbers, by NumPy's scalar types
    (np.str_, np.bytes_, str): ("text", NAMES),
    (np.datetime64, np.timedelta64): ("dates or durations", "convert them with array.astype('int64')"),
    (np.void,): (
        "records",
        "take a field, as in array['x'], or write numpy.lib.recfunctions.structured_to_unstructured(array)",
    ),
    (np.object_,): ("objects", f"convert them with array.astype(float); {NAMES}"),
}
NO_NUMBERS = tuple(t for types in REMEDIES for t in types)
EXACT = 1 << 53  # whole numbers up to here are exact in float64


def plain(value: object) -> Number:
    """A Python number, from a NumPy scalar, a rank-0 array, or another number.

    Raises DTypeError for other objects.

    >>> import numpy as np
    >>> plain(np.float32(0.5)), plain(np.int8(3)), plain(np.array(True))
    (0.5, 3, True)
    """
    given: Any = value
    kind = type(value).__name__
    if isinstance(value, bool | int | float | complex):
        return value
    if isinstance(value, np.ndarray | np.generic) and given.shape == ():
        held: Any = given.item()
        return held if isinstance(held, bool | int | float | complex) else float(held)
    if isinstance(value, Real) and not isinstance(value, Integral):
        return float(given)
    if isinstance(value, Complex) and not isinstance(value, Integral):
        return complex(given)
    if hasattr(given, "__index__"):
        try:
            return index(given)
        except DTypeError:  # of a tensor
            found = getattr(given, "type", kind)
            raise DTypeError(
                f"number: the value must be a plain number; got a {kind} of type {found}; "
                "write float(x) outside jit, or the number itself"
            ) from None
    raise DTypeError(f"number: the value must be a number; got {kind}")


def natural_dtype(value: object) -> DType:
    """The default dtype of a Python number: bool, int64, float32 or complex64."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, complex):
        return complex64
    return float32 if isinstance(value, float) else int64


def real_number(value: Any) -> Any:
    """A Python number that must not be complex.  Raises DTypeError for a complex one."""
    if isinstance(value, complex):
        raise DTypeError(f"number: the value must be a real number; got {value}; take its .real")
    return value


def bounds(dtype: DType) -> tuple[int, int]:
    """The least and the greatest number of a dtype of integers."""
    low = -(1 << dtype.bits - 1) if dtype.is_signed else 0
    return low, low + (1 << dtype.bits) - 1


def fits(value: Number, dtype: DType) -> bool:
    """Whether a dtype of integers can represent the number."""
    low, high = bounds(dtype)
    return not isinstance(value, complex) and low <= value <= high and value == int(value)


def number(value: Number, dtype: DType, operation: str = "constant") -> Any:
    """A Python number converted to the dtype's kind; `element` rounds it to the dtype.

    Raises DTypeError if the dtype cannot represent it.
    """
    value = plain(value)
    if dtype.is_bool:
        return bool(value)
    if dtype.is_complex:
        return complex(value)
    if isinstance(value, complex) or (not dtype.has_zero and value <= 0):
        raise refused(operation, value, dtype)
    if dtype.python is int:
        if not fits(value, dtype):
            raise refused(operation, value, dtype)
        return int(value)
    try:
        return float(value) if isinstance(value, float) or dtype.bits == 64 else _to_odd(int(value))
    except OverflowError:
        raise refused(operation, value, dtype) from None


def refused(operation: str, value: object, dtype: DType) -> DTypeError:
    """The error for a number that a dtype cannot represent."""
    shown = f"an integer of {value.bit_length()} bits" if isinstance(value, int) and abs(value) >> 128 else repr(value)
    held, remedy, wider = "its range", "a float", "int64"
    if dtype.is_storage:
        remedy, wider = "another number", dtype.number.name
        held = held if dtype.has_zero else "above zero"
    if dtype.python is int:
        held, remedy = "whole, {} to {}".format(*bounds(dtype)), "a wider dtype"
    if isinstance(value, complex):
        held, remedy, wider = "real", "its real part", "complex64"
    return DTypeError(
        f"{operation}: the number must fit {dtype.name} ({held}); got {shown}; use {remedy}, or convert "
        f"the tensor first, as in `x.astype(nacre.{wider})`"
    )


def _to_odd(value: int) -> float:
    """An integer as float64, truncated to an odd last bit if inexact; a second rounding is then correct."""
    extra = abs(value).bit_length() - 53
    if extra <= 0:
        return float(value)
    kept = abs(value) >> extra
    kept |= kept << extra != abs(value)
    return float((kept if value > 0 else -kept) << extra)


def element(value: Number, dtype: DType, operation: str = "constant") -> np.ndarray:
    """A Python number as an array of rank 0.  Raises DTypeError if the dtype cannot represent it."""
    held = number(value, dtype, operation)
    if dtype.is_complex:
        with np.errstate(all="ignore"):
            return np.array(held, np.complex128).astype(dtype.numpy)
    return rounded(np.array(held, np.float64), dtype) if dtype.python is float else np.array(held, dtype.numpy)


def rounded(x: np.ndarray, dtype: DType) -> np.ndarray:
    """float64 numbers rounded once to a floating-point dtype."""
    with np.errstate(all="ignore"):
        return (_single_to_odd(x) if dtype is bfloat16 or dtype.is_storage else x).astype(dtype.numpy)


def _single_to_odd(x: np.ndarray) -> np.ndarray:
    """float64 as float32; if that is inexact, the neighbour with an odd last bit."""
    near = x.astype(np.float32)
    words, back = near.view(np.uint32), near.astype(np.float64)
    moved = np.where(np.abs(back) > np.abs(x), words - np.uint32(1), words + np.uint32(1))
    even = (back != x) & ~np.isnan(x) & (words & np.uint32(1) == 0)
    return np.where(even, moved, words).view(np.float32)


def not_numbers(operation: str, given: object) -> DTypeError:
    """The error for elements or a value that are not numbers; `given` is NumPy's dtype, or the value's type."""
    scalar = np.dtype(cast("Any", given)).type
    what, remedy = next((words for types, words in REMEDIES.items() if issubclass(scalar, types)), ("others", ""))
    name = given.__name__ if isinstance(given, type) else f"NumPy's dtype {given}"
    return DTypeError(f"{operation}: elements must be numbers; got {what} ({name})" + (remedy and f"; {remedy}"))


def require_unmasked(operation: str, array: object) -> None:
    """Raise DTypeError for a masked array, whose mask a tensor would lose."""
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        raise DTypeError(
            f"{operation}: an array must not have a mask; got a masked array; write array.filled(0), for example, and "
            "keep the mask as another tensor"
        )


def elements(array: np.ndarray, leaves: Sequence[Any], dtype: DType | None, operation: str) -> np.ndarray:
    """Nested lists of Python numbers in a dtype, by default their natural one.

    `array` is NumPy's array of them, and `leaves` are the numbers in order.  Raises DTypeError for other objects
    and for numbers that the dtype cannot represent.
    """
    found = array.dtype
    types = set(map(type, leaves))
    whole = bool(types) and all(issubclass(t, int) for t in types)
    if not ANY.holds(found) and not all(issubclass(t, int | float | complex) for t in types):
        raise not_numbers(operation, found)
    if any(issubclass(t, complex) for t in types) or (dtype is not None and dtype.is_complex):
        return _complex_elements(array, leaves, dtype or complex64, operation)
    if dtype is None:
        dtype = bool_ if BOOLEAN.holds(found) else int64 if whole or INTEGRAL.holds(found) else float32
    if dtype.is_bool:
        return array != 0
    if dtype.python is int and BITWISE.holds(found):
        return _within(array, dtype, operation)
    beyond = REAL.holds(found) and dtype.bits < 64 and _beyond(array)
    if dtype.python is int or not dtype.has_zero or found.type is np.object_ or beyond:
        # one by one: NumPy has converted integers to floats, or has no dtype for them
        held = [element(v, dtype, operation) for v in leaves]
        return np.array(held, dtype.numpy).reshape(array.shape)
    return rounded(array.astype(np.float64), dtype)


def _complex_elements(array: np.ndarray, leaves: Sequence[Any], dtype: DType, operation: str) -> np.ndarray:
    """Nested lists that contain complex numbers, or that are converted to a complex dtype."""
    if not dtype.is_complex and not dtype.is_bool:
        raise refused(operation, next(v for v in leaves if isinstance(v, complex)), dtype)
    held = [element(v, dtype, operation) for v in leaves]
    return np.array(held, dtype.numpy).reshape(array.shape)


def _beyond(array: np.ndarray) -> bool:
    """Whether any of these integers may be inexact in float64."""
    return bool((np.abs(array.astype(np.float64)) >= EXACT).any())


def _within(array: np.ndarray, dtype: DType, operation: str) -> np.ndarray:
    low, high = bounds(dtype)
    for value in (int(array.min()), int(array.max())) if array.size else ():
        if not low <= value <= high:
            raise refused(operation, value, dtype)
    return array.astype(dtype.numpy)


def unchanged(array: np.ndarray, dtype: DType, operation: str) -> None:
    """Raise DTypeError unless an integer or bool dtype can represent every number of an array."""
    if dtype.python is float or not array.size or array.dtype == dtype.numpy:
        return
    low, high = bounds(dtype) if dtype.python is int else (0, 1)
    wide = array if BITWISE.holds(array.dtype) else array.astype(np.float64)
    wrong = ~((wide >= low) & (wide <= high) & (wide == np.floor(wide)) & (wide != 2.0**dtype.bits))
    if wrong.any():
        raise refused(operation, wide[wrong][0].item(), dtype)


def converted(array: np.ndarray, dtype: DType, operation: str) -> np.ndarray:
    """float64 numbers in a dtype, converted like Python numbers.  Raises DTypeError for numbers that do not fit."""
    if dtype.python is float:
        return rounded(array, dtype)
    unchanged(array, dtype, operation)
    return array.astype(dtype.numpy)


def integers(x: Any, operation: str) -> np.ndarray:
    """Whole numbers in a list or an array, as int64.  Raises DTypeError for others."""
    array = np.asarray(x)
    if not array.size:
        return np.zeros(array.shape, np.int64)
    if not ORDERED.holds(array.dtype):
        raise DTypeError(f"{operation}: elements must be integers; got NumPy's dtype {array.dtype}")
    unchanged(array, int64, operation)
    return array.astype(np.int64)
