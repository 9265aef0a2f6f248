"""Parameters of distributions: their dtypes and shapes, and checks of the numbers that are known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nacre.api.operands import TensorLike, as_tensor, default_float, is_scalar, numbers, operands, shape_of, spread
from nacre.api.primitives import drawing, pointwise
from nacre.base.arguments import shown
from nacre.base.dtypes import DType, as_dtype, float64
from nacre.base.errors import ArgumentError, DTypeError, ShapeError
from nacre.base.types import Shape, broadcast_shapes
from nacre.ops.rules import show
from nacre.trace.value import is_concrete

Check = Callable[[Any], Any]  # the numbers of a parameter → which of them are possible


def parameters(operation: str, shape: Any, *xs: TensorLike, positive: bool = True) -> tuple[list[Any], DType]:
    """Parameters in the dtype of computation and in the shape of the result, and the dtype of the result."""
    held = operands(operation, *(xs if any(not is_scalar(x) for x in xs) else map(default_float, xs)))
    dtype: DType = held[0].type.dtype
    if not dtype.is_float:
        raise DTypeError(f"{operation}: parameters must be floats; got {dtype.name}")
    if positive:
        for x in held:
            require(operation, "parameters must be positive", x, lambda listed: listed > 0)
    sizes = held[0].type.shape if shape is None else shape_of(shape, operation)
    return [_filling(operation, as_tensor(x, dtype.arithmetic), sizes) for x in held], dtype


def _filling(operation: str, x: Any, sizes: Shape) -> Any:
    """A parameter in the shape of the result."""
    own: Shape = x.type.shape
    behind = sizes[len(sizes) - len(own) :]
    if len(own) > len(sizes) or any(n != m and n != 1 for n, m in zip(own, behind, strict=True)):
        raise ShapeError(
            f"{operation}: the parameters must broadcast to the shape; got {show(own)} and {show(sizes)}; "
            f"write shape=(..., {', '.join(map(str, own))})"
        )
    return spread(x, sizes)


def require(operation: str, text: str, x: Any, check: Check, advice: str = "") -> None:
    """Raise ArgumentError with the first number that is not possible; traced numbers are not known."""
    if isinstance(x, int | float):
        wrong = [] if check(x) else [x]
    else:
        listed = numbers(x, operation) if is_concrete(x) else np.empty(0)
        wrong = listed[~check(listed)].ravel()
    if len(wrong):
        raise ArgumentError(f"{operation}: {text}; got {wrong[0]}{advice}")


def in_one_shape(operation: str, shape: Any, *xs: Any) -> list[Any]:
    """Parameters as float64, in the shape of the result."""
    common = broadcast_shapes(*(x.type.shape for x in xs), operation=operation)
    sizes = common if shape is None else shape_of(shape, operation)
    return [_filling(operation, as_tensor(x, float64), sizes) for x in xs]


def count_dtype(operation: str, dtype: Any) -> DType:
    """The dtype of counts: signed integers, or floats."""
    found = as_dtype(dtype)
    if not found.is_float and not (found.is_integer and found.is_signed):
        raise DTypeError(f"{operation}: dtype must be a signed integer or floating-point; got {shown(dtype)}")
    return found


def counted(law: str, drawn: Any, dtype: DType, *moving: Any) -> Any:
    """Counts in a dtype; −1 as integers where they are NaN.  Floats refuse derivatives by the parameters `moving`."""
    if dtype.is_float:
        return drawing.drawn(law, as_tensor(drawn, dtype), *(as_tensor(x, dtype) for x in moving))
    impossible = pointwise.isnan(drawn)
    return as_tensor(pointwise.select(impossible, pointwise.fill(-1.0, drawn.type.shape, float64), drawn), dtype)
