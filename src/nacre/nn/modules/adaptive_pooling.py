"""Pooling into a given number of windows as modules."""

from __future__ import annotations

from nacre.api.operands import TensorLike
from nacre.api.tensor import Tensor
from nacre.nn import functional
from nacre.nn.functional.adaptive_pooling import OptionalSizes
from nacre.nn.modules.base import Pooling

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
]


class _AdaptivePool(Pooling):
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
