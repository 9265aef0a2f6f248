"""U-Net with transposed convolutions (Ronneberger et al. 2015), with the names that PyTorch's ports commonly have."""

from __future__ import annotations

import nacre as nc
from nacre import nn
from nacre.nn import functional as F

__all__ = ["UNet"]


class DoubleConv(nn.Module):
    """Two convolutions, each with batch norm and ReLU."""

    def __init__(self, inward: int, outward: int) -> None:
        self.double_conv = nn.Sequential(
            nn.Conv2d(inward, outward, 3, padding=1, bias=False), nn.BatchNorm2d(outward), nn.ReLU(),
            nn.Conv2d(outward, outward, 3, padding=1, bias=False), nn.BatchNorm2d(outward), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        """[N, inward, H, W] → [N, outward, H, W]."""
        return self.double_conv(x)


class Down(nn.Module):
    """The maximum of each 2 × 2 pixels, then two convolutions."""

    def __init__(self, inward: int, outward: int) -> None:
        self.maxpool_conv = nn.Sequential(nn.MaxPool2d(2), DoubleConv(inward, outward))

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        """[N, inward, H, W] → [N, outward, ⌊H / 2⌋, ⌊W / 2⌋]."""
        return self.maxpool_conv(x)


class Up(nn.Module):
    """A transposed convolution to twice the size, then two convolutions of it and of the image from the way down."""

    def __init__(self, inward: int, outward: int) -> None:
        self.up = nn.ConvTranspose2d(inward, inward // 2, 2, stride=2)
        self.conv = DoubleConv(inward, outward)

    def forward(self, x: nc.Tensor, skipped: nc.Tensor) -> nc.Tensor:
        """[N, inward, ⌊H / 2⌋, ⌊W / 2⌋] and [N, inward / 2, H, W] → [N, outward, H, W]."""
        x = self.up(x)
        rows, columns = skipped.shape[2] - x.shape[2], skipped.shape[3] - x.shape[3]  # 1 where the size is odd
        x = F.pad(x, (columns // 2, columns - columns // 2, rows // 2, rows - rows // 2))
        return self.conv(nc.cat([skipped, x], axis=1))


class OutConv(nn.Module):
    """A product of each pixel's channels."""

    def __init__(self, inward: int, outward: int) -> None:
        self.conv = nn.Conv2d(inward, outward, 1)

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        """[N, inward, H, W] → [N, outward, H, W]."""
        return self.conv(x)


class UNet(nn.Module):
    """Images [N, channels, H, W] of any size from 16 × 16 → scores of each pixel [N, classes, H, W].

    >>> UNet(1, 2, first=4)(nc.zeros((1, 1, 33, 50))).shape
    (1, 2, 33, 50)
    """

    def __init__(self, channels: int = 3, classes: int = 2, first: int = 64) -> None:
        self.inc = DoubleConv(channels, first)
        self.down1, self.down2 = Down(first, 2 * first), Down(2 * first, 4 * first)
        self.down3, self.down4 = Down(4 * first, 8 * first), Down(8 * first, 16 * first)
        self.up1, self.up2 = Up(16 * first, 8 * first), Up(8 * first, 4 * first)
        self.up3, self.up4 = Up(4 * first, 2 * first), Up(2 * first, first)
        self.outc = OutConv(first, classes)

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        """[N, channels, H, W] → [N, classes, H, W]."""
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x4 = self.down3(x3)
        x = self.up1(self.down4(x4), x4)
        return self.outc(self.up4(self.up3(self.up2(x, x3), x2), x1))
