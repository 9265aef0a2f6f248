"""Layers of images [N, C, H, W]: convolution, pooling, batch and group normalisation."""

from __future__ import annotations

import math
from typing import Any

from nacre.api.creation import ones, zeros
from nacre.api.operands import TensorLike, as_tensor, constant
from nacre.api.tensor import Tensor
from nacre.base.dtypes import int64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.nn import functional
from nacre.nn.layers import uniform_parameter
from nacre.nn.module import Buffer, Module, Parameter
from nacre.nn.spatial import Sizes, pair


class Conv2d(Module):
    """The cross-correlation with filters [out_channels, in_channels/groups, kh, kw], plus a bias.

    Both start evenly drawn from ±1/√(in_channels/groups · kh · kw), as PyTorch's.

    >>> nn.Conv2d(3, 8, 3, padding=1)(nc.ones((2, 3, 8, 8))).shape
    (2, 8, 8, 8)
    """

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
        dtype: Any = None,
    ) -> None:
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"Conv2d: channels divisible by groups are required; got {in_channels}, {out_channels} and {groups}"
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size = pair(kernel_size, "Conv2d", "kernel_size")
        self.stride, self.dilation = pair(stride, "Conv2d", "stride"), pair(dilation, "Conv2d", "dilation")
        self.padding = padding if isinstance(padding, str) else pair(padding, "Conv2d", "padding")
        self.groups = groups
        shape = (out_channels, in_channels // groups, *self.kernel_size)
        bound = 1 / math.sqrt(max(1, shape[1] * shape[2] * shape[3]))
        self.weight = uniform_parameter(shape, bound, dtype)
        self.bias = uniform_parameter((out_channels,), bound, dtype) if bias else None

    def forward(self, x: TensorLike) -> Tensor:
        """[N, in_channels, H, W] → [N, out_channels, H', W']."""
        return functional.conv2d(
            x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups
        )

    def extra_repr(self) -> str:
        """Channels and window."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        for name, default in (("padding", (0, 0)), ("dilation", (1, 1)), ("groups", 1)):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text + ("" if self.bias is not None else ", bias=False")


class ConvTranspose2d(Module):
    """The transpose of a convolution, with filters [in_channels, out_channels/groups, kh, kw]."""

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
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = pair(kernel_size, "ConvTranspose2d", "kernel_size")
        self.stride, self.padding = stride, padding
        self.output_padding, self.dilation = output_padding, dilation
        shape = (in_channels, out_channels // groups, *self.kernel_size)
        bound = 1 / math.sqrt(max(1, shape[1] * shape[2] * shape[3]))
        self.weight = uniform_parameter(shape, bound, dtype)
        self.bias = uniform_parameter((out_channels,), bound, dtype) if bias else None

    def forward(self, x: TensorLike) -> Tensor:
        """[N, in_channels, H, W] → [N, out_channels, H', W']."""
        return functional.conv_transpose2d(
            x, self.weight, self.bias, self.stride, self.padding, self.output_padding, self.groups, self.dilation
        )

    def extra_repr(self) -> str:
        """Channels and window."""
        return f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"


class MaxPool2d(Module):
    """The largest element of each window."""

    def __init__(
        self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1
    ) -> None:
        self.kernel_size, self.padding, self.dilation = kernel_size, padding, dilation
        self.stride = kernel_size if stride is None else stride

    def forward(self, x: TensorLike) -> Tensor:
        """[N, C, H, W] → [N, C, H', W']."""
        return functional.max_pool2d(x, self.kernel_size, self.stride, self.padding, self.dilation)

    def extra_repr(self) -> str:
        """The window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(Module):
    """The mean of each window."""

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        count_include_pad: bool = True,
    ) -> None:
        self.kernel_size, self.padding, self.count_include_pad = kernel_size, padding, count_include_pad
        self.stride = kernel_size if stride is None else stride

    def forward(self, x: TensorLike) -> Tensor:
        """[N, C, H, W] → [N, C, H', W']."""
        return functional.avg_pool2d(x, self.kernel_size, self.stride, self.padding, self.count_include_pad)

    def extra_repr(self) -> str:
        """The window."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptiveAvgPool2d(Module):
    """Means of windows that divide the image evenly into output_size rows and columns."""

    def __init__(self, output_size: Sizes) -> None:
        self.output_size = output_size

    def forward(self, x: TensorLike) -> Tensor:
        """[N, C, H, W] → [N, C, rows, columns]."""
        return functional.adaptive_avg_pool2d(x, self.output_size)

    def extra_repr(self) -> str:
        """The size."""
        return f"output_size={self.output_size}"


class _BatchNorm(Module):
    """What batch normalisations of all ranks share."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        dtype: Any = None,
    ) -> None:
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight = Parameter(ones(num_features, dtype)) if affine else None
        self.bias = Parameter(zeros(num_features, dtype)) if affine else None
        self.running_mean = Buffer(zeros(num_features, dtype)) if track_running_stats else None
        self.running_var = Buffer(ones(num_features, dtype)) if track_running_stats else None
        self.num_batches_tracked = Buffer(constant(0, int64)) if track_running_stats else None

    ranks: tuple[int, ...] = ()

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape; training moves the running statistics."""
        held = as_tensor(x)
        if held.ndim not in self.ranks:
            raise ShapeError(f"{type(self).__name__}: a rank of {self.ranks} is required; got {held.type}")
        momentum: Any = self.momentum
        if self.training and self.num_batches_tracked is not None:
            count = self.num_batches_tracked.data + 1
            self.num_batches_tracked.assign(count)
            if momentum is None:
                momentum = 1.0 / count.astype("float32")
        return functional.batch_norm(
            held, self.running_mean, self.running_var, self.weight, self.bias, self.training, momentum, self.eps
        )

    def extra_repr(self) -> str:
        """Features and constants."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation of [N, C] or [N, C, L]."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of images [N, C, H, W].

    weight and bias start as 1 and 0, running_mean and running_var too as 0 and 1; without momentum the running
    statistics are the plain mean over the batches seen.

    >>> nn.BatchNorm2d(3)(nc.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    ranks = (4,)


class GroupNorm(Module):
    """Normalisation over groups of channels."""

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, dtype: Any = None
    ) -> None:
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Parameter(ones(num_channels, dtype)) if affine else None
        self.bias = Parameter(zeros(num_channels, dtype)) if affine else None

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return functional.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Groups and channels."""
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.weight is not None}"
