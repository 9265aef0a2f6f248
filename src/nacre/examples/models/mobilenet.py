"""MobileNetV3 (Howard et al. 2019), with the names of TorchVision's `mobilenet_v3_large` and `mobilenet_v3_small`."""

from __future__ import annotations

from collections.abc import Sequence

import nacre as nc
from nacre import nn
from nacre.base.records import dataclass

__all__ = ["LARGE", "SMALL", "Bottleneck", "MobileNetV3"]


@dataclass(frozen=True)
class Bottleneck:
    """A row of the paper's tables: channels in the block and behind it, and whether it has squeeze-and-excitation.

    `swish` says whether its activation is hard swish instead of ReLU.
    """

    kernel: int
    expanded: int
    channels: int
    excited: bool
    swish: bool
    stride: int


LARGE = (
    Bottleneck(3, 16, 16, False, False, 1),
    Bottleneck(3, 64, 24, False, False, 2),
    Bottleneck(3, 72, 24, False, False, 1),
    Bottleneck(5, 72, 40, True, False, 2),
    Bottleneck(5, 120, 40, True, False, 1),
    Bottleneck(5, 120, 40, True, False, 1),
    Bottleneck(3, 240, 80, False, True, 2),
    Bottleneck(3, 200, 80, False, True, 1),
    Bottleneck(3, 184, 80, False, True, 1),
    Bottleneck(3, 184, 80, False, True, 1),
    Bottleneck(3, 480, 112, True, True, 1),
    Bottleneck(3, 672, 112, True, True, 1),
    Bottleneck(5, 672, 160, True, True, 2),
    Bottleneck(5, 960, 160, True, True, 1),
    Bottleneck(5, 960, 160, True, True, 1),
)
SMALL = (
    Bottleneck(3, 16, 16, True, False, 2),
    Bottleneck(3, 72, 24, False, False, 2),
    Bottleneck(3, 88, 24, False, False, 1),
    Bottleneck(5, 96, 40, True, True, 2),
    Bottleneck(5, 240, 40, True, True, 1),
    Bottleneck(5, 240, 40, True, True, 1),
    Bottleneck(5, 120, 48, True, True, 1),
    Bottleneck(5, 144, 48, True, True, 1),
    Bottleneck(5, 288, 96, True, True, 2),
    Bottleneck(5, 576, 96, True, True, 1),
    Bottleneck(5, 576, 96, True, True, 1),
)


def near(channels: float, divisor: int = 8) -> int:
    """The multiple of the divisor nearest to a number of channels, but at least 90 % of it."""
    found = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return found + divisor if found < 0.9 * channels else found


def convolution(
    inward: int, outward: int, kernel: int, stride: int = 1, groups: int = 1, activation: nn.Module | None = None
) -> nn.Sequential:
    """A convolution without a bias, batch norm, and an activation."""
    layers: list[nn.Module] = [
        nn.Conv2d(inward, outward, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outward, eps=0.001, momentum=0.01),
    ]
    return nn.Sequential(*layers, *([] if activation is None else [activation]))


class SqueezeExcitation(nn.Module):
    """Channels scaled by factors that depend on the means of all channels (Hu et al. 2017)."""

    def __init__(self, channels: int, squeezed: int) -> None:
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)
        self.activation, self.scale_activation = nn.ReLU(), nn.Hardsigmoid()

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        """[N, channels, H, W] → the same."""
        return x * self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(x)))))


class InvertedResidual(nn.Module):
    """A product to more channels, a depthwise convolution, and a product back; a shortcut where sizes are equal."""

    def __init__(self, inward: int, row: Bottleneck) -> None:
        self.shortcut = row.stride == 1 and inward == row.channels
        activation = nn.Hardswish if row.swish else nn.ReLU
        layers: list[nn.Module] = []
        if row.expanded != inward:
            layers.append(convolution(inward, row.expanded, 1, activation=activation()))
        layers.append(
            convolution(row.expanded, row.expanded, row.kernel, row.stride, row.expanded, activation=activation())
        )
        if row.excited:
            layers.append(SqueezeExcitation(row.expanded, near(row.expanded // 4)))
        layers.append(convolution(row.expanded, row.channels, 1))
        self.block = nn.Sequential(*layers)

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        """[N, inward, H, W] → [N, channels, H / stride, W / stride]."""
        return x + self.block(x) if self.shortcut else self.block(x)


class MobileNetV3(nn.Module):
    """Images [N, 3, H, W] → scores [N, classes]; `MobileNetV3(SMALL, 1024)` is the small one of the paper.

    >>> model = MobileNetV3((Bottleneck(3, 32, 16, True, True, 2),), last=32, classes=10)
    >>> model(nc.zeros((2, 3, 32, 32))).shape
    (2, 10)
    """

    def __init__(
        self, blocks: Sequence[Bottleneck] = LARGE, last: int = 1280, classes: int = 1000, dropout: float = 0.2
    ) -> None:
        inward = (16, *(row.channels for row in blocks))
        wide = 6 * inward[-1]
        self.features = nn.Sequential(
            convolution(3, 16, 3, 2, activation=nn.Hardswish()),
            *(InvertedResidual(channels, row) for channels, row in zip(inward, blocks)),
            convolution(inward[-1], wide, 1, activation=nn.Hardswish()),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(
            nn.Linear(wide, last), nn.Hardswish(), nn.Dropout(dropout), nn.Linear(last, classes)
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.01)
            if isinstance(module, nn.Conv2d | nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        """[N, 3, H, W] → [N, classes]."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))
