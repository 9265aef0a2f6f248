"""Convolutions and transposed convolutions of signals, images and volumes as modules."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from nacre.api.creation import zeros
from nacre.api.operands import TensorLike
from nacre.api.tensor import Tensor
from nacre.base.errors import ArgumentError
from nacre.nn import functional
from nacre.nn.functional.max_pooling import Sizes, sizes
from nacre.nn.module import Module, Parameter
from nacre.nn.modules.linear_maps import draw_again

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
]


class _Convolution(Module):
    """The common part of convolutions of all ranks.  Weight and bias start uniform in ±1/√fan_in, as in PyTorch."""

    rank: ClassVar[int]
    function: ClassVar[str]

    def _sizes(self, value: Sizes, what: str) -> tuple[int, ...]:
        return sizes(value, self.rank, type(self).__name__, what)

    def _fill(self, channels: tuple[int, int], kernel_size: Sizes, stride: Sizes, dilation: Sizes, groups: int) -> None:
        """The settings of both kinds."""
        if groups < 1 or channels[0] % groups or channels[1] % groups:
            raise ArgumentError(
                f"{type(self).__name__}: groups must divide the channels; got {channels[0]} and {channels[1]} "
                f"channels and {groups} groups"
            )
        self.in_channels, self.out_channels = channels
        self.kernel_size = self._sizes(kernel_size, "kernel_size")
        self.stride, self.dilation = self._sizes(stride, "stride"), self._sizes(dilation, "dilation")
        self.groups = groups

    def _draw(self, shape: tuple[int, ...], bias: bool, dtype: Any) -> None:
        self.weight = Parameter(zeros(shape, dtype))
        self.bias = Parameter(zeros(self.out_channels, dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters again, as when the layer was made."""
        draw_again(1 / math.sqrt(max(1, math.prod(self.weight.shape[1:]))), self.weight, self.bias)

    def extra_repr(self) -> str:
        """Channels and window."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        plain = {"padding": (0,) * self.rank, "output_padding": (0,) * self.rank, "dilation": (1,) * self.rank,
                 "groups": 1, "padding_mode": "zeros"}  # fmt: skip
        for name, default in plain.items():
            if getattr(self, name, default) != default:
                text += f", {name}={getattr(self, name)!r}"
        return text + ("" if self.bias is not None else ", bias=False")


_MARGINS = {"zeros": "constant", "reflect": "reflect", "replicate": "replicate", "circular": "circular"}


class _Conv(_Convolution):
    """The cross-correlation with filters [out_channels, in_channels/groups, ...], plus a bias."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        dtype: Any = None,
    ) -> None:
        self._fill((in_channels, out_channels), kernel_size, stride, dilation, groups)
        if padding_mode not in _MARGINS:
            raise ArgumentError(
                f"{type(self).__name__}: padding_mode must be one of {', '.join(_MARGINS)}; got {padding_mode!r}"
            )
        self.padding = padding if isinstance(padding, str) else self._sizes(padding, "padding")
        self.padding_mode = padding_mode
        self._draw((out_channels, in_channels // groups, *self.kernel_size), bias, dtype)

    def forward(self, x: TensorLike) -> Tensor:
        """[N, in_channels, ...] → [N, out_channels, ...]."""
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            x, padding = functional.pad(x, self._margins(), _MARGINS[self.padding_mode]), 0
        f = getattr(functional, self.function)
        return f(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _margins(self) -> list[int]:
        """The margins in the order of `pad`: the last axis first."""
        found: list[int] = []
        for k in reversed(range(self.rank)):
            if isinstance(self.padding, str):
                total = self.dilation[k] * (self.kernel_size[k] - 1) if self.padding == "same" else 0
                found += [total // 2, total - total // 2]
            else:
                found += [self.padding[k]] * 2
        return found


class Conv1d(_Conv):
    """The cross-correlation of signals with filters [out_channels, in_channels/groups, k], plus a bias.

    [N, in_channels, L] or [in_channels, L] → [N, out_channels, L'].  Raises ArgumentError unless groups divides both
    channels, ShapeError for inputs that do not fit.

    >>> nn.Conv1d(3, 8, 3, padding=1)(nc.ones((2, 3, 8))).shape
    (2, 8, 8)
    """

    rank, function = 1, "conv1d"


class Conv2d(_Conv):
    """The cross-correlation of images with filters [out_channels, in_channels/groups, kh, kw], plus a bias.

    [N, in_channels, H, W] or [in_channels, H, W] → [N, out_channels, H', W'].  Filters and bias start uniform in
    ±1/√(in_channels/groups · kh · kw), as in PyTorch.  Raises ArgumentError unless groups divides both channels,
    ShapeError for inputs that do not fit.

    >>> nn.Conv2d(3, 8, 3, padding=1)(nc.ones((2, 3, 8, 8))).shape
    (2, 8, 8, 8)
    """

    rank, function = 2, "conv2d"


class Conv3d(_Conv):
    """The cross-correlation of volumes with filters [out_channels, in_channels/groups, kd, kh, kw], plus a bias.

    [N, in_channels, D, H, W] or [in_channels, D, H, W] → [N, out_channels, D', H', W'].  Raises ArgumentError unless
    groups divides both channels, ShapeError for inputs that do not fit.

    >>> nn.Conv3d(1, 2, 3)(nc.ones((1, 1, 4, 4, 4))).shape
    (1, 2, 2, 2, 2)
    """

    rank, function = 3, "conv3d"


class _ConvTranspose(_Convolution):
    """The transpose of a convolution, with filters [in_channels, out_channels/groups, ...]."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        dtype: Any = None,
    ) -> None:
        self._fill((in_channels, out_channels), kernel_size, stride, dilation, groups)
        self.padding = self._sizes(padding, "padding")
        self.output_padding = self._sizes(output_padding, "output_padding")
        self._draw((in_channels, out_channels // groups, *self.kernel_size), bias, dtype)

    def forward(self, x: TensorLike, output_size: Sizes | None = None) -> Tensor:
        """[N, in_channels, ...] → [N, out_channels, ...], of size output_size if that is given."""
        more = self.output_padding if output_size is None else self._missing(x, output_size)
        f = getattr(functional, self.function)
        return f(x, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation)

    def _missing(self, x: Any, output_size: Sizes) -> tuple[int, ...]:
        """The output_padding that gives a result of the wanted size."""
        wanted = self._sizes(output_size, "output_size")
        given = x.shape[-self.rank :]
        least = [
            (given[k] - 1) * self.stride[k] - 2 * self.padding[k] + self.dilation[k] * (self.kernel_size[k] - 1) + 1
            for k in range(self.rank)
        ]
        found = tuple(w - n for w, n in zip(wanted, least, strict=True))
        if any(not 0 <= n < max(1, s) for n, s in zip(found, self.stride, strict=True)):
            raise ArgumentError(
                f"{type(self).__name__}: output_size must be at least {least}, by less than the stride; got "
                f"{list(wanted)}"
            )
        return found


class ConvTranspose1d(_ConvTranspose):
    """The transpose of a convolution of signals, with filters [in_channels, out_channels/groups, k].

    [N, in_channels, L] or [in_channels, L] → [N, out_channels, L'].  Raises ArgumentError unless groups divides both
    channels, ShapeError for inputs that do not fit.

    >>> nn.ConvTranspose1d(8, 3, 2, stride=2)(nc.ones((1, 8, 4))).shape
    (1, 3, 8)
    """

    rank, function = 1, "conv_transpose1d"


class ConvTranspose2d(_ConvTranspose):
    """The transpose of a convolution of images, with filters [in_channels, out_channels/groups, kh, kw].

    [N, in_channels, H, W] or [in_channels, H, W] → [N, out_channels, H', W'].  Raises ArgumentError unless groups
    divides both channels, ShapeError for inputs that do not fit.

    >>> nn.ConvTranspose2d(8, 3, 2, stride=2)(nc.ones((1, 8, 4, 4))).shape
    (1, 3, 8, 8)
    """

    rank, function = 2, "conv_transpose2d"


class ConvTranspose3d(_ConvTranspose):
    """The transpose of a convolution of volumes, with filters [in_channels, out_channels/groups, kd, kh, kw].

    [N, in_channels, D, H, W] or [in_channels, D, H, W] → [N, out_channels, D', H', W'].  Raises ArgumentError unless
    groups divides both channels, ShapeError for inputs that do not fit.

    >>> nn.ConvTranspose3d(8, 3, 2, stride=2)(nc.ones((1, 8, 2, 2, 2))).shape
    (1, 3, 4, 4, 4)
    """

    rank, function = 3, "conv_transpose3d"
