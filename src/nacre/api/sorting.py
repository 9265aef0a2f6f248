"""Sorting.  Names follow the array API standard; `topk` follows PyTorch.

Equal elements keep their order, zeros of both signs are equal, and NaN comes last, in either direction.
"""

from __future__ import annotations

from nacre.api.elementwise.apply import require
from nacre.api.elementwise.one_program import one_program
from nacre.api.operands import TensorLike, as_tensor
from nacre.api.primitives import sorting
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_number
from nacre.base.dtypes import ORDERED
from nacre.base.types import normal_axis

__all__ = ["argsort", "sort", "topk"]


@one_program()
def sort(x: TensorLike, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis; `stable` has no effect, as the order is always stable.

    NaN comes last in either direction.  PyTorch treats it as the largest number.

    >>> nc.sort([3.0, nc.nan, 1.0, 2.0])
    Tensor([ 1.,  2.,  3., nan], f32[4])
    """
    held, along = _operand(x, axis, "sort")
    return sorting.sort(held, along, descending)


@one_program()
def argsort(x: TensorLike, /, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """The positions (int64) that sort x along an axis; equal elements keep their order, and NaN comes last.

    >>> nc.argsort([3, 1, 3, 2], descending=True)
    Tensor([0, 2, 3, 1], i64[4])
    """
    held, along = _operand(x, axis, "argsort")
    return sorting.argsort(held, along, descending)


def topk(x: TensorLike, k: int, /, axis: int = -1, *, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along an axis, in order, and their positions (int64).

    NaN comes last, so it is taken only where the other elements do not suffice; PyTorch takes it first of the largest.
    Of equal elements the first is taken.  Raises ShapeError if the axis has fewer than k elements.

    >>> nc.topk([1, 5, 3, 5], 3)
    (Tensor([5, 5, 3], i64[3]), Tensor([1, 3, 2], i64[3]))
    """
    k = whole_number(k, "topk", "k")
    held, along = _operand(x, axis, "topk")
    return sorting.topk(held, k, along, largest)


def _operand(x: TensorLike, axis: int, operation: str) -> tuple[Tensor, int]:
    held = as_tensor(x)
    require(operation, held.type.dtype, ORDERED)
    return held, normal_axis(axis, len(held.type.shape), operation)
