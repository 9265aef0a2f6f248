"""Means and p-norms of windows as modules, over one, two or three spatial axes."""

from __future__ import annotations

from nacre.api.operands import TensorLike
from nacre.api.tensor import Tensor
from nacre.nn import functional
from nacre.nn.functional.max_pooling import Sizes
from nacre.nn.modules.base import Pooling

__all__ = [
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
]


class AvgPool1d(Pooling):
    """The mean of each window of signals [N, C, L] or [C, L]; the default stride is the window size.

    Raises ShapeError for another rank, DTypeError for integers.

    >>> nn.AvgPool1d(2)(nc.ones((1, 3, 8))).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad

    def forward(self, x: TensorLike) -> Tensor:
        """[N, C, L] → [N, C, windows]."""
        return functional.avg_pool1d(
            x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad
        )


class _AvgPool(Pooling):
    """The mean of each window."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def forward(self, x: TensorLike) -> Tensor:
        """[N, C, …] → [N, C, windows …]."""
        f = getattr(functional, self.function)
        return f(
            x, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad,
            self.divisor_override,
        )  # fmt: skip


class AvgPool2d(_AvgPool):
    """The mean of each window of images [N, C, H, W] or [C, H, W]; the default stride is the window size.

    Raises ShapeError for another rank, DTypeError for integers.

    >>> nn.AvgPool2d(2)(nc.ones((1, 3, 4, 4))).shape
    (1, 3, 2, 2)
    """

    function = "avg_pool2d"


class AvgPool3d(_AvgPool):
    """The mean of each window of volumes [N, C, D, H, W]; the default stride is the window size.

    Raises ShapeError for another rank, DTypeError for integers.

    >>> nn.AvgPool3d(2)(nc.ones((1, 3, 8, 8, 8))).shape
    (1, 3, 4, 4, 4)
    """

    function = "avg_pool3d"


class _LPPool(Pooling):
    """(Σ xᵖ)^(1/p) of each window."""

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, x: TensorLike) -> Tensor:
        """[N, C, …] → [N, C, windows …]."""
        return getattr(functional, self.function)(x, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPool):
    """The p-norm of each window of signals [N, C, L] or [C, L]; the default stride is the window size.

    Raises ArgumentError for a norm_type of 0.

    >>> nn.LPPool1d(2.0, 2)(nc.ones((1, 3, 8))).shape
    (1, 3, 4)
    """

    function = "lp_pool1d"


class LPPool2d(_LPPool):
    """The p-norm of each window of images [N, C, H, W] or [C, H, W]; the default stride is the window size.

    Raises ArgumentError for a norm_type of 0.

    >>> nn.LPPool2d(2.0, 2)(nc.ones((1, 3, 8, 8))).shape
    (1, 3, 4, 4)
    """

    function = "lp_pool2d"


class LPPool3d(_LPPool):
    """The p-norm of each window of volumes [N, C, D, H, W]; the default stride is the window size.

    Raises ArgumentError for a norm_type of 0.

    >>> nn.LPPool3d(2.0, 2)(nc.ones((1, 3, 8, 8, 8))).shape
    (1, 3, 4, 4, 4)
    """

    function = "lp_pool3d"
