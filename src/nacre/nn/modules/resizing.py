"""Padding, resizing, patches and shuffles as modules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from nacre.api.operands import TensorLike
from nacre.api.tensor import Tensor
from nacre.base.arguments import whole_numbers
from nacre.nn.functional import resizing
from nacre.nn.functional.max_pooling import Sizes
from nacre.nn.modules.base import ModuleWithSettings

__all__ = [
    "ChannelShuffle",
    "CircularPad1d",
    "CircularPad2d",
    "CircularPad3d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "Fold",
    "PixelShuffle",
    "PixelUnshuffle",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReflectionPad3d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ReplicationPad3d",
    "Unfold",
    "Upsample",
    "UpsamplingBilinear2d",
    "UpsamplingNearest2d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Margin(ModuleWithSettings):
    """Margins of `rank` axes: one number for all, or before and after for the last axis, then the axis before it, …"""

    rank: ClassVar[int]
    mode: ClassVar[str]

    def __init__(self, padding: Sizes) -> None:
        self.padding = whole_numbers(padding, type(self).__name__, "padding", 2 * self.rank)

    def forward(self, x: TensorLike) -> Tensor:
        """The last axes are longer by their margins."""
        return resizing.pad(x, self.padding, self.mode)


class ZeroPad1d(_Margin):
    """Adds margins of zeros to signals [N, C, L] or [C, L].

    >>> nn.ZeroPad1d(1)(nc.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[0.0, 1.0, 2.0, 3.0, 0.0]]
    """

    rank, mode = 1, "constant"


class ZeroPad2d(_Margin):
    """Adds margins of zeros to images [N, C, H, W] or [C, H, W].

    >>> nn.ZeroPad2d(1)(nc.ones((1, 3, 2, 2))).shape
    (1, 3, 4, 4)
    """

    rank, mode = 2, "constant"


class ZeroPad3d(_Margin):
    """Adds margins of zeros to volumes [N, C, D, H, W].

    >>> nn.ZeroPad3d(1)(nc.ones((1, 3, 2, 2, 2))).shape
    (1, 3, 4, 4, 4)
    """

    rank, mode = 3, "constant"


class ReflectionPad1d(_Margin):
    """Adds margins that mirror the inside of signals [N, C, L] or [C, L].

    Raises ArgumentError for margins as large as the signal.

    >>> nn.ReflectionPad1d(1)(nc.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[2.0, 1.0, 2.0, 3.0, 2.0]]
    """

    rank, mode = 1, "reflect"


class ReflectionPad2d(_Margin):
    """Adds margins that mirror the inside of images [N, C, H, W] or [C, H, W].

    Raises ArgumentError for margins as large as the image.

    >>> nn.ReflectionPad2d(1)(nc.tensor([[[1.0, 2.0], [3.0, 4.0]]]))[0, 0].tolist()
    [4.0, 3.0, 4.0, 3.0]
    """

    rank, mode = 2, "reflect"


class ReflectionPad3d(_Margin):
    """Adds margins that mirror the inside of volumes [N, C, D, H, W].

    Raises ArgumentError for margins as large as the volume.

    >>> nn.ReflectionPad3d(1)(nc.ones((1, 3, 2, 2, 2))).shape
    (1, 3, 4, 4, 4)
    """

    rank, mode = 3, "reflect"


class ReplicationPad1d(_Margin):
    """Adds margins that repeat the edge of signals [N, C, L] or [C, L].

    >>> nn.ReplicationPad1d(1)(nc.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[1.0, 1.0, 2.0, 3.0, 3.0]]
    """

    rank, mode = 1, "replicate"


class ReplicationPad2d(_Margin):
    """Adds margins that repeat the edge of images [N, C, H, W] or [C, H, W].

    >>> nn.ReplicationPad2d(1)(nc.tensor([[[1.0, 2.0], [3.0, 4.0]]]))[0, 0].tolist()
    [1.0, 1.0, 2.0, 2.0]
    """

    rank, mode = 2, "replicate"


class ReplicationPad3d(_Margin):
    """Adds margins that repeat the edge of volumes [N, C, D, H, W].

    >>> nn.ReplicationPad3d(1)(nc.ones((1, 3, 2, 2, 2))).shape
    (1, 3, 4, 4, 4)
    """

    rank, mode = 3, "replicate"


class CircularPad1d(_Margin):
    """Adds margins that continue with the other side of signals [N, C, L] or [C, L].

    >>> nn.CircularPad1d(1)(nc.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[3.0, 1.0, 2.0, 3.0, 1.0]]
    """

    rank, mode = 1, "circular"


class CircularPad2d(_Margin):
    """Adds margins that continue with the other side of images [N, C, H, W] or [C, H, W].

    >>> nn.CircularPad2d(1)(nc.tensor([[[1.0, 2.0], [3.0, 4.0]]]))[0, 0].tolist()
    [4.0, 3.0, 4.0, 3.0]
    """

    rank, mode = 2, "circular"


class CircularPad3d(_Margin):
    """Adds margins that continue with the other side of volumes [N, C, D, H, W].

    >>> nn.CircularPad3d(1)(nc.ones((1, 3, 2, 2, 2))).shape
    (1, 3, 4, 4, 4)
    """

    rank, mode = 3, "circular"


class _ConstantMargin(_Margin):
    """Margins filled with one number."""

    mode = "constant"

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, x: TensorLike) -> Tensor:
        """The last axes are longer by their margins."""
        return resizing.pad(x, self.padding, "constant", self.value)


class ConstantPad1d(_ConstantMargin):
    """Adds margins of one number to signals [N, C, L] or [C, L].

    >>> nn.ConstantPad1d(1, 9.0)(nc.tensor([[1.0, 2.0, 3.0]])).tolist()
    [[9.0, 1.0, 2.0, 3.0, 9.0]]
    """

    rank = 1


class ConstantPad2d(_ConstantMargin):
    """Adds margins of one number to images [N, C, H, W] or [C, H, W].

    >>> nn.ConstantPad2d((1, 0, 0, 0), 9.0)(nc.tensor([[[1.0, 2.0], [3.0, 4.0]]])).tolist()
    [[[9.0, 1.0, 2.0], [9.0, 3.0, 4.0]]]
    """

    rank = 2


class ConstantPad3d(_ConstantMargin):
    """Adds margins of one number to volumes [N, C, D, H, W].

    >>> nn.ConstantPad3d(1, 9.0)(nc.ones((1, 3, 2, 2, 2))).shape
    (1, 3, 4, 4, 4)
    """

    rank = 3


class Upsample(ModuleWithSettings):
    """Resizes signals, images or volumes [N, C, ...] to a size, or by a factor; see `functional.interpolate`.

    >>> nn.Upsample(scale_factor=2)(nc.ones((1, 3, 2, 2))).shape
    (1, 3, 4, 4)
    """

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        self.size, self.scale_factor, self.mode, self.align_corners = size, scale_factor, mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, x: TensorLike) -> Tensor:
        """[N, C, ...] → [N, C, size ...]."""
        return resizing.interpolate(
            x, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )


class UpsamplingNearest2d(Upsample):
    """Resizes images [N, C, H, W] to a size, or by a factor, with the nearest pixels.

    >>> nn.UpsamplingNearest2d(scale_factor=2)(nc.tensor([[[[1.0, 2.0]]]])).tolist()
    [[[[1.0, 1.0, 2.0, 2.0], [1.0, 1.0, 2.0, 2.0]]]]
    """

    def __init__(self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Resizes images [N, C, H, W] bilinearly; the corner pixels keep their positions.

    >>> nn.UpsamplingBilinear2d(size=(1, 3))(nc.tensor([[[[1.0, 2.0]]]])).tolist()
    [[[[1.0, 1.5, 2.0]]]]
    """

    def __init__(self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class PixelShuffle(ModuleWithSettings):
    """[..., C · r², H, W] → [..., C, H · r, W · r]: channels become pixels.

    Raises ShapeError unless r² divides the channels.

    >>> nn.PixelShuffle(2)(nc.ones((1, 12, 4, 4))).shape
    (1, 3, 8, 8)
    """

    def __init__(self, upscale_factor: int) -> None:
        self.upscale_factor = upscale_factor

    def forward(self, x: TensorLike) -> Tensor:
        """Channels become pixels."""
        return resizing.pixel_shuffle(x, self.upscale_factor)


class PixelUnshuffle(ModuleWithSettings):
    """[..., C, H · r, W · r] → [..., C · r², H, W]: pixels become channels.

    Raises ShapeError unless r divides height and width.

    >>> nn.PixelUnshuffle(2)(nc.ones((1, 3, 8, 8))).shape
    (1, 12, 4, 4)
    """

    def __init__(self, downscale_factor: int) -> None:
        self.downscale_factor = downscale_factor

    def forward(self, x: TensorLike) -> Tensor:
        """Pixels become channels."""
        return resizing.pixel_unshuffle(x, self.downscale_factor)


class ChannelShuffle(ModuleWithSettings):
    """Reorders the channels of [N, C, ...]: the first of each group, then the second of each group, and so on.

    Raises ShapeError unless groups divides the channels.

    >>> nn.ChannelShuffle(2)(nc.arange(4).reshape((1, 4, 1)))[0, :, 0].tolist()
    [0, 2, 1, 3]
    """

    def __init__(self, groups: int) -> None:
        self.groups = groups

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return resizing.channel_shuffle(x, self.groups)


class Unfold(ModuleWithSettings):
    """The patches of images [N, C, H, W] as columns [N, C · kh · kw, patches].

    Raises ShapeError for images smaller than a patch.

    >>> nn.Unfold(3)(nc.ones((1, 2, 4, 5))).shape
    (1, 18, 6)
    """

    def __init__(self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> None:
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, x: TensorLike) -> Tensor:
        """[N, C, H, W] → [N, C · kh · kw, patches]."""
        return resizing.unfold(x, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(ModuleWithSettings):
    """Patches [N, C · kh · kw, patches] added up to images [N, C, *output_size].

    Raises ShapeError for columns that do not fit.

    >>> nn.Fold((3, 3), 2)(nc.ones((1, 4, 4)))[0, 0].tolist()
    [[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]
    """

    def __init__(
        self, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, x: TensorLike) -> Tensor:
        """[N, C · kh · kw, patches] → [N, C, *output_size]."""
        return resizing.fold(x, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)
