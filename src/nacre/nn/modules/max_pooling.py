"""Maxima of windows as modules, over one, two or three spatial axes, and their reversal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nacre.api.operands import TensorLike
from nacre.api.tensor import Tensor
from nacre.nn import functional
from nacre.nn.functional.max_pooling import Sizes
from nacre.nn.modules.base import Pooling

__all__ = [
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class _MaxPool(Pooling):
    """The largest element of each window."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, x: TensorLike) -> Any:
        """[N, C, …] → [N, C, windows …]; with return_indices also the positions of the maxima."""
        f = getattr(functional, self.function)
        return f(x, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)


class MaxPool1d(_MaxPool):
    """The largest element of each window of signals [N, C, L] or [C, L]; the default stride is the window size.

    With return_indices it returns a pair: the maxima and their positions.  Raises ShapeError for another rank.

    >>> nn.MaxPool1d(2)(nc.ones((1, 3, 8))).shape
    (1, 3, 4)
    """

    function = "max_pool1d"


class MaxPool2d(_MaxPool):
    """The largest element of each window of images [N, C, H, W] or [C, H, W]; the default stride is the window size.

    With return_indices it returns a pair: the maxima and their positions.  Raises ShapeError for another rank.

    >>> nn.MaxPool2d(2)(nc.ones((1, 3, 4, 4))).shape
    (1, 3, 2, 2)
    """

    function = "max_pool2d"


class MaxPool3d(_MaxPool):
    """The largest element of each window of volumes [N, C, D, H, W]; the default stride is the window size.

    With return_indices it returns a pair: the maxima and their positions.  Raises ShapeError for another rank.

    >>> nn.MaxPool3d(2)(nc.ones((1, 3, 8, 8, 8))).shape
    (1, 3, 4, 4, 4)
    """

    function = "max_pool3d"


class _MaxUnpool(Pooling):
    """Maxima put back to their positions among zeros."""

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding = padding

    def forward(self, x: TensorLike, indices: TensorLike, output_size: Sequence[int] | None = None) -> Tensor:
        """[N, C, windows …] → [N, C, …]."""
        return getattr(functional, self.function)(x, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpool):
    """The inverse of `MaxPool1d` with return_indices: maxima at their positions among zeros.

    [N, C, windows] → [N, C, L].

    >>> y, places = nn.MaxPool1d(2, return_indices=True)(nc.ones((1, 3, 8)))
    >>> nn.MaxUnpool1d(2)(y, places).shape
    (1, 3, 8)
    """

    function = "max_unpool1d"


class MaxUnpool2d(_MaxUnpool):
    """The inverse of `MaxPool2d` with return_indices: maxima at their positions among zeros.

    [N, C, h, w] → [N, C, H, W].

    >>> y, places = nn.MaxPool2d(2, return_indices=True)(nc.ones((1, 3, 4, 4)))
    >>> nn.MaxUnpool2d(2)(y, places).shape
    (1, 3, 4, 4)
    """

    function = "max_unpool2d"


class MaxUnpool3d(_MaxUnpool):
    """The inverse of `MaxPool3d` with return_indices: maxima at their positions among zeros.

    >>> y, places = nn.MaxPool3d(2, return_indices=True)(nc.ones((1, 3, 8, 8, 8)))
    >>> nn.MaxUnpool3d(2)(y, places).shape
    (1, 3, 8, 8, 8)
    """

    function = "max_unpool3d"
