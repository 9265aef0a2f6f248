"""Windows of elements along axes.  The name follows NumPy; PyTorch has it as a method, `x.unfold`."""

from __future__ import annotations

from typing import Any

from nacre.api.arranging.window_places import windows
from nacre.api.operands import TensorLike, as_tensor
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_numbers
from nacre.base.errors import ShapeError
from nacre.base.types import normal_axis

__all__ = ["sliding_window_view"]


def sliding_window_view(
    x: TensorLike, window_shape: int | tuple[int, ...], /, axis: int | tuple[int, ...] | None = None
) -> Tensor:
    """All windows of some sizes along axes (default: all); the elements of a window are the last axes of the result.

    The result is a copy.  Raises ShapeError where a window is larger than x, or the numbers of sizes and axes differ.

    >>> nc.sliding_window_view([1, 2, 3, 4], 3)
    Tensor([[1, 2, 3],
            [2, 3, 4]], i64[2, 3])
    """
    held: Any = as_tensor(x)
    rank = len(held.type.shape)
    sizes = whole_numbers(window_shape, "sliding_window_view", "window_shape")
    axes = tuple(range(rank)) if axis is None else whole_numbers(axis, "sliding_window_view", "axis")
    if len(sizes) != len(axes):
        raise ShapeError(
            f"sliding_window_view: there must be one size for each of {len(axes)} axes; got {len(sizes)} sizes"
        )
    for size, at in zip(sizes, axes, strict=True):
        held = windows("sliding_window_view", held, normal_axis(at, rank, "sliding_window_view"), size, 1)
    return held
