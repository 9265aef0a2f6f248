"""Layer and RMS normalisation, multi-head attention, and transformer blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nacre.api.creation import ones, zeros
from nacre.api.manipulation import permute_dims, reshape, split
from nacre.api.operands import TensorLike, as_tensor
from nacre.api.tensor import Tensor
from nacre.base.errors import ArgumentError
from nacre.nn import functional
from nacre.nn.layers import Dropout, Linear, uniform_parameter
from nacre.nn.module import Module, Parameter


def _shape(value: int | Sequence[int]) -> tuple[int, ...]:
    return (value,) if isinstance(value, int) else tuple(value)


class LayerNorm(Module):
    """(x − mean) / √(variance + eps) · weight + bias over the last axes.

    >>> nn.LayerNorm(4)(nc.ones((2, 4))).shape
    (2, 4)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        self.normalized_shape, self.eps, self.elementwise_affine = _shape(normalized_shape), eps, elementwise_affine
        self.weight = Parameter(ones(self.normalized_shape, dtype)) if elementwise_affine else None
        self.bias = Parameter(zeros(self.normalized_shape, dtype)) if elementwise_affine and bias else None

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return functional.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Shape and constants."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(Module):
    """x / √(mean(x²) + eps) · weight over the last axes."""

    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-6, dtype: Any = None) -> None:
        self.normalized_shape, self.eps = _shape(normalized_shape), eps
        self.weight = Parameter(ones(self.normalized_shape, dtype))

    def forward(self, x: TensorLike) -> Tensor:
        """The same shape."""
        return functional.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Shape and constant."""
        return f"{self.normalized_shape}, eps={self.eps}"


class MultiheadAttention(Module):
    """Attention with several heads, for batches [N, L, embed_dim] (`batch_first`, always).

    in_proj_weight [3·embed_dim, embed_dim] holds the projections of query, key and value one above the other.

    >>> nn.MultiheadAttention(8, 2)(nc.ones((1, 3, 8))).shape
    (1, 3, 8)
    """

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, dtype: Any = None
    ) -> None:
        if num_heads < 1 or embed_dim % num_heads:
            raise ArgumentError(
                f"MultiheadAttention: an embed_dim divisible by num_heads is required; got {embed_dim}, {num_heads}"
            )
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        bound = math.sqrt(6 / (4 * embed_dim))
        self.in_proj_weight = uniform_parameter((3 * embed_dim, embed_dim), bound, dtype)
        self.in_proj_bias = Parameter(zeros(3 * embed_dim, dtype)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype)
        if self.out_proj.bias is not None:
            self.out_proj.bias.assign(zeros(embed_dim, dtype))

    def forward(
        self,
        query: TensorLike,
        key: TensorLike | None = None,
        value: TensorLike | None = None,
        attn_mask: TensorLike | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """[N, L, E] for queries, [N, S, E] for keys and values (the queries unless given) → [N, L, E]."""
        q = as_tensor(query)
        k = q if key is None else as_tensor(key)
        v = k if value is None else as_tensor(value)
        heads = self._projected(q, k, v)
        rate = self.dropout if self.training else 0.0
        mixed = functional.scaled_dot_product_attention(*heads, attn_mask, rate, is_causal)
        joined = reshape(permute_dims(mixed, (0, 2, 1, 3)), (*q.shape[:-1], self.embed_dim))
        return self.out_proj(joined)

    def _projected(self, q: Any, k: Any, v: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value projected and cut into heads: [N, heads, length, E/heads]."""
        if q is k and k is v:
            parts = split(functional.linear(q, self.in_proj_weight, self.in_proj_bias), 3, axis=-1)
        else:
            weights = split(self.in_proj_weight, 3)
            biases = (None,) * 3 if self.in_proj_bias is None else split(self.in_proj_bias, 3)
            parts = tuple(functional.linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases, strict=True))
        size = self.embed_dim // self.num_heads
        a, b, c = (permute_dims(reshape(p, (*p.shape[:-1], self.num_heads, size)), (0, 2, 1, 3)) for p in parts)
        return a, b, c

    def extra_repr(self) -> str:
        """Sizes."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"


class TransformerEncoderLayer(Module):
    """Attention and a feed-forward network, each with a residual connection and layer normalisation.

    Names are PyTorch's (self_attn, linear1, linear2, norm1, norm2); inputs are [N, L, d_model].

    >>> nn.TransformerEncoderLayer(8, 2, 16)(nc.ones((1, 3, 8))).shape
    (1, 3, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        norm_first: bool = False,
        dtype: Any = None,
    ) -> None:
        if activation not in ("relu", "gelu"):
            raise ArgumentError(f'TransformerEncoderLayer: "relu" or "gelu" is required; got {activation!r}')
        self.activation, self.norm_first = activation, norm_first
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, dtype=dtype)
        self.linear1 = Linear(d_model, dim_feedforward, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, dtype=dtype)
        self.norm1, self.norm2 = LayerNorm(d_model, dtype=dtype), LayerNorm(d_model, dtype=dtype)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def forward(self, x: Tensor, mask: TensorLike | None = None, is_causal: bool = False) -> Tensor:
        """[N, L, d_model] → the same."""
        if self.norm_first:
            x = x + self._attend(self.norm1(x), mask, is_causal)
            return x + self._feed(self.norm2(x))
        x = self.norm1(x + self._attend(x, mask, is_causal))
        return self.norm2(x + self._feed(x))

    def _attend(self, x: Tensor, mask: TensorLike | None, is_causal: bool) -> Tensor:
        return self.dropout1(self.self_attn(x, attn_mask=mask, is_causal=is_causal))

    def _feed(self, x: Tensor) -> Tensor:
        inner = self.linear1(x)
        active = functional.relu(inner) if self.activation == "relu" else functional.gelu(inner)
        return self.dropout2(self.linear2(self.dropout(active)))
