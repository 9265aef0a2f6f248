"""A vision transformer (Dosovitskiy et al. 2020), with the names of TorchVision's `vit_b_16`."""

from __future__ import annotations

import math
from collections import OrderedDict

import nacre as nc
from nacre import nn

__all__ = ["VisionTransformer"]


class EncoderBlock(nn.Module):
    """Self-attention and a network of two layers, each behind a layer norm and with a residual connection."""

    def __init__(self, width: int, heads: int, hidden: int, dropout: float) -> None:
        self.ln_1 = nn.LayerNorm(width, eps=1e-6)
        self.self_attention = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)
        self.ln_2 = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(), nn.Dropout(dropout), nn.Linear(hidden, width), nn.Dropout(dropout)
        )

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        """[N, S, width] → the same."""
        y = self.ln_1(x)
        y, _ = self.self_attention(y, y, y, need_weights=False)
        x = x + self.dropout(y)
        return x + self.mlp(self.ln_2(x))


class Encoder(nn.Module):
    """Learned positions, the blocks, and a layer norm."""

    def __init__(self, length: int, layers: int, width: int, heads: int, hidden: int, dropout: float) -> None:
        self.pos_embedding = nn.Parameter(nc.random.normal((1, length, width)) * 0.02)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(
            OrderedDict((f"encoder_layer_{k}", EncoderBlock(width, heads, hidden, dropout)) for k in range(layers))
        )
        self.ln = nn.LayerNorm(width, eps=1e-6)

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        """[N, S, width] → the same."""
        return self.ln(self.layers(self.dropout(x + self.pos_embedding)))


class VisionTransformer(nn.Module):
    """Images [N, 3, image_size, image_size] → scores [N, classes]; the default is ViT-B/16.

    >>> model = VisionTransformer(32, 8, layers=1, width=16, heads=2, hidden=32, classes=10)
    >>> model(nc.zeros((2, 3, 32, 32))).shape
    (2, 10)
    """

    def __init__(
        self,
        image_size: int = 224,
        patch_size: int = 16,
        layers: int = 12,
        width: int = 768,
        heads: int = 12,
        hidden: int = 3072,
        dropout: float = 0.0,
        classes: int = 1000,
    ) -> None:
        self.conv_proj = nn.Conv2d(3, width, patch_size, stride=patch_size)
        self.class_token = nn.Parameter(nc.zeros((1, 1, width)))
        patches = (image_size // patch_size) ** 2
        self.encoder = Encoder(patches + 1, layers, width, heads, hidden, dropout)
        head = nn.Linear(width, classes)
        self.heads = nn.Sequential(OrderedDict(head=head))
        nn.init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / (3 * patch_size**2)))
        nn.init.zeros_(head.weight)

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        """[N, 3, image_size, image_size] → [N, classes]."""
        x = self.conv_proj(x).flatten(2).permute(0, 2, 1)
        x = nc.cat([self.class_token.expand(x.shape[0], -1, -1), x], axis=1)
        return self.heads(self.encoder(x)[:, 0])
