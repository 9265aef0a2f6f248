"""Multi-head attention, with PyTorch's arguments, results and parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nacre.api.creation import zeros
from nacre.api.linear_algebra import matmul
from nacre.api.manipulation import concat, permute_dims, reshape, split
from nacre.api.operands import TensorLike, as_tensor
from nacre.api.primitives import view
from nacre.api.searching import where
from nacre.api.statistical import mean
from nacre.api.tensor import Tensor
from nacre.base.dtypes import bool_
from nacre.base.errors import ArgumentError, ShapeError
from nacre.nn import functional, init
from nacre.nn.functional.softmaxes import masked_softmax
from nacre.nn.module import Module, Parameter
from nacre.nn.modules.linear_maps import Linear, uniform

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention with several heads (Vaswani et al. 2017), for [L, N, embed_dim], or [N, L, …] with batch_first.

    in_proj_weight [3·embed_dim, embed_dim] stacks the projections of query, key and value.  If keys or values have
    other sizes (kdim, vdim), the projections are q_proj_weight, k_proj_weight and v_proj_weight.

    Raises ArgumentError unless num_heads divides embed_dim, ShapeError for inputs or masks that do not fit.

    >>> output, weights = nn.MultiheadAttention(8, 2, batch_first=True)(nc.ones((1, 3, 8)))
    >>> output.shape, weights.shape
    ((1, 3, 8), (1, 3, 3))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        dtype: Any = None,
    ) -> None:
        if num_heads < 1 or embed_dim < 1 or embed_dim % num_heads:
            raise ArgumentError(
                f"MultiheadAttention: num_heads must divide embed_dim; got embed_dim {embed_dim} and num_heads "
                f"{num_heads}"
            )
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.add_zero_attn, self.batch_first = add_zero_attn, batch_first
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        if self.kdim == self.vdim == embed_dim:
            bound = math.sqrt(6 / (4 * embed_dim))
            self.in_proj_weight = Parameter(uniform((3 * embed_dim, embed_dim), bound, dtype))
        else:
            self.in_proj_weight = None
            for name, size in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
                drawn = uniform((embed_dim, size), math.sqrt(6 / (embed_dim + size)), dtype)
                setattr(self, f"{name}_proj_weight", Parameter(drawn))
        self.in_proj_bias = Parameter(zeros(3 * embed_dim, dtype)) if bias else None
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)
        self.bias_k = init.xavier_normal_(Parameter(zeros((1, 1, embed_dim), dtype))) if add_bias_kv else None
        self.bias_v = init.xavier_normal_(Parameter(zeros((1, 1, embed_dim), dtype))) if add_bias_kv else None

    def forward(
        self,
        query: TensorLike,
        key: TensorLike | None = None,
        value: TensorLike | None = None,
        key_padding_mask: TensorLike | None = None,
        need_weights: bool = True,
        attn_mask: TensorLike | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """[L, N, E] for queries, [S, N, E] for keys and values (the queries by default) → [L, N, E], weights.

        A bool mask is true where a key does not take part; a floating-point mask is added to the scores.
        `key_padding_mask` is [N, S]; `attn_mask` is [L, S] or [N · heads, L, S]; `is_causal` excludes later keys.
        Weights are [N, L, S], the mean over the heads, or [N, heads, L, S].  Without `need_weights` they are None,
        which saves memory.
        """
        q: Any = as_tensor(query)
        k: Any = q if key is None else as_tensor(key)
        v: Any = k if value is None else as_tensor(value)
        if not q.ndim == k.ndim == v.ndim or q.ndim not in (2, 3) or q.shape[-1] != self.embed_dim:
            raise ShapeError(
                "MultiheadAttention: queries, keys and values must have rank 2 or 3 and a last axis of "
                f"{self.embed_dim}; got {q.type}, {k.type}, {v.type}"
            )
        single = q.ndim == 2
        same = q is k and k is v
        parts = [x[None] if single else x if self.batch_first else permute_dims(x, (1, 0, 2)) for x in (q, k, v)]
        padding = None if key_padding_mask is None else _rows(key_padding_mask, single)
        heads = self._heads(*self._projected(parts, same))
        mask = self._mask(heads, padding, attn_mask, is_causal)
        rate, causal = self.dropout if self.training else 0.0, is_causal and mask is None
        mixed: Any
        weights: Any = None
        if need_weights:
            mixed, weights = _weighted(heads[0], heads[1], heads[2], mask, rate, causal)
        else:
            mixed = functional.scaled_dot_product_attention(heads[0], heads[1], heads[2], mask, rate, causal)
        joined = permute_dims(mixed, (0, 2, 1, 3))
        y: Any = self.out_proj(reshape(joined, (*joined.shape[:2], self.embed_dim)))
        if weights is not None and average_attn_weights:
            weights = mean(weights, axis=1)
        if single:
            return y[0], None if weights is None else weights[0]
        return y if self.batch_first else permute_dims(y, (1, 0, 2)), weights

    def _projected(self, parts: list[Any], same: bool) -> list[Any]:
        """Queries, keys and values [N, length, E], with the additional key and value at the end."""
        if same and self.in_proj_weight is not None:
            found: list[Any] = list(
                split(functional.linear(parts[0], self.in_proj_weight, self.in_proj_bias), sections=3, axis=-1)
            )
        else:
            if self.in_proj_weight is not None:
                weights: Any = split(self.in_proj_weight, sections=3)
            else:
                weights = [getattr(self, f"{name}_proj_weight") for name in "qkv"]
            biases = (None,) * 3 if self.in_proj_bias is None else split(self.in_proj_bias, sections=3)
            found = [functional.linear(x, w, b) for x, w, b in zip(parts, weights, biases, strict=True)]
        for place, more in ((1, self.bias_k), (2, self.bias_v)):
            if more is not None:
                row = view.broadcast(more.value, (found[place].shape[0], 1, self.embed_dim), (0, 1, 2))
                found[place] = concat([found[place], row], axis=1)
        return found

    def _heads(self, *projected: Any) -> list[Any]:
        """[N, heads, length, E/heads], with an optional key and value of zeros at the end."""
        size = self.embed_dim // self.num_heads
        found = [permute_dims(reshape(p, (*p.shape[:-1], self.num_heads, size)), (0, 2, 1, 3)) for p in projected]
        if self.add_zero_attn:
            for place in (1, 2):
                x = found[place]
                found[place] = concat([x, zeros((*x.shape[:2], 1, size), x.dtype)], axis=2)
        return found

    def _mask(self, heads: list[Any], padding: Any, attn_mask: TensorLike | None, is_causal: bool) -> Any:
        """Both masks as one for `scaled_dot_product_attention`: bools, true for keys that take part, or numbers.

        Additional keys at the end take part.
        """
        count, _, length, _ = heads[0].shape
        keys = heads[1].shape[2]
        given: list[Any] = []
        if attn_mask is not None:
            held: Any = as_tensor(attn_mask)
            whole = held.ndim == 3
            if held.ndim not in (2, 3) or (whole and held.shape[0] != count * self.num_heads):
                raise ShapeError(
                    f"MultiheadAttention: attn_mask must be [L, S] or [{count * self.num_heads}, L, S]; got {held.type}"
                )
            given.append(reshape(held, (count, self.num_heads, *held.shape[1:])) if whole else held)
        elif is_causal and (padding is not None or self.bias_k is not None or self.add_zero_attn):
            own = keys - (self.bias_k is not None) - self.add_zero_attn
            given.append(as_tensor(np.triu(np.ones((length, own), bool), 1)))
        if padding is not None:
            given.append(padding[:, None, None, :])
        return _combined([_longer(m, keys) for m in given], heads[0].dtype)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"


def _rows(mask: TensorLike, single: bool) -> Any:
    held: Any = as_tensor(mask)
    held = held[None] if single and held.ndim == 1 else held
    if held.ndim != 2:
        raise ShapeError(f"MultiheadAttention: key_padding_mask must be [N, S]; got {held.type}")
    return held


def _longer(mask: Any, keys: Any) -> Any:
    """A mask extended by additional keys, which take part."""
    more = keys - mask.shape[-1]
    if not more:
        return mask
    return concat([mask, zeros((*mask.shape[:-1], more), mask.dtype)], axis=-1)


def _combined(masks: list[Any], dtype: Any) -> Any:
    if not masks:
        return None
    if all(m.dtype is bool_ for m in masks):
        allowed = ~masks[0]
        for m in masks[1:]:
            allowed = allowed & ~m
        return allowed
    sums = [where(m, as_tensor(-math.inf, dtype), as_tensor(0.0, dtype)) if m.dtype is bool_ else m for m in masks]
    total = sums[0]
    for s in sums[1:]:
        total = total + s
    return total


def _weighted(q: Any, k: Any, v: Any, mask: Any, rate: float, causal: bool) -> tuple[Any, Any]:
    """The weighted values, and their weights."""
    scores: Any = matmul(q, k.mT) * (1.0 / math.sqrt(int(q.shape[-1])))
    if causal:
        mask = as_tensor(np.tri(int(q.shape[2]), int(k.shape[2]), dtype=bool))
    if mask is not None:
        scores = where(mask, scores, -math.inf) if mask.dtype is bool_ else scores + mask
    weights: Any = functional.dropout(masked_softmax(scores), rate, rate > 0.0)
    return matmul(weights, v), weights
