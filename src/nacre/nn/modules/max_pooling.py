"""Pooling as modules, over one, two or three spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from nacre.api.operands import TensorLike
from nacre.api.tensor import Tensor
from nacre.nn import functional
from nacre.nn.functional.adaptive_pooling import OptionalSizes
from nacre.nn.functional.max_pooling import Sizes
from nacre.nn.module import Module, settings


class _Pool(Module):
    """The common part of pooling modules: the name of the function, and the text of the settings."""

    function: ClassVar[str]

    def extra_repr(self) -> str:
        """The windows."""
        return settings(self)


class _MaxPool(_Pool):
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


class _MaxUnpool(_Pool):
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


class AvgPool1d(_Pool):
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


class _AvgPool(_Pool):
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


class _LPPool(_Pool):
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


class _AdaptivePool(_Pool):
    """A given number of windows along each axis."""

    def __init__(self, output_size: OptionalSizes) -> None:
        self.output_size = output_size

    def forward(self, x: TensorLike) -> Tensor:
        """[N, C, …] → [N, C, *output_size]."""
        return getattr(functional, self.function)(x, self.output_size)


class AdaptiveMaxPool1d(_AdaptivePool):
    """The maxima of output_size windows that cover signals [N, C, L].

    >>> nn.AdaptiveMaxPool1d(3)(nc.ones((1, 3, 8))).shape
    (1, 3, 3)
    """

    function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptivePool):
    """The maxima of output_size windows that cover images [N, C, H, W].

    >>> nn.AdaptiveMaxPool2d(3)(nc.ones((1, 3, 8, 8))).shape
    (1, 3, 3, 3)
    """

    function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptivePool):
    """The maxima of output_size windows that cover volumes [N, C, D, H, W].

    >>> nn.AdaptiveMaxPool3d(3)(nc.ones((1, 3, 8, 8, 8))).shape
    (1, 3, 3, 3, 3)
    """

    function = "adaptive_max_pool3d"


class AdaptiveAvgPool1d(_AdaptivePool):
    """The means of output_size windows that cover signals [N, C, L].

    >>> nn.AdaptiveAvgPool1d(3)(nc.ones((1, 3, 8))).shape
    (1, 3, 3)
    """

    function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptivePool):
    """The means of output_size windows that cover images [N, C, H, W].

    >>> nn.AdaptiveAvgPool2d(3)(nc.ones((1, 3, 8, 8))).shape
    (1, 3, 3, 3)
    """

    function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptivePool):
    """The means of output_size windows that cover volumes [N, C, D, H, W].

    >>> nn.AdaptiveAvgPool3d(3)(nc.ones((1, 3, 8, 8, 8))).shape
    (1, 3, 3, 3, 3)
    """

    function = "adaptive_avg_pool3d"
