"""Transformers (Vaswani et al. 2017): layers of encoders and decoders, stacks of them, and both together.

Names, arguments and defaults are PyTorch's; sequences are [L, N, d_model], or [N, L, d_model] with batch_first.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from nacre.api.creation import full, triu
from nacre.api.operands import TensorLike, as_tensor, shape_of
from nacre.api.tensor import Tensor
from nacre.base.dtypes import as_dtype, float32
from nacre.base.errors import ArgumentError, DTypeError
from nacre.nn import functional, init
from nacre.nn.module import Module
from nacre.nn.modules.attention import MultiheadAttention
from nacre.nn.modules.containers import ModuleList
from nacre.nn.modules.dropouts import Dropout
from nacre.nn.modules.linear_maps import Linear
from nacre.nn.modules.normalisation import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Any], Any]
Mask = TensorLike | None


def _activation(kind: str, given: Activation) -> Callable[[Any], Any]:
    if callable(given):
        return given
    if given not in ("relu", "gelu"):
        raise ArgumentError(f'{kind}: activation must be "relu", "gelu" or a function; got {given!r}')
    return functional.relu if given == "relu" else functional.gelu


class _Layer(Module):
    """The common part of encoder and decoder layers: self-attention and a feed-forward network."""

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        self.activation, self.norm_first = _activation(type(self).__name__, activation), norm_first
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype)
        self.norm1, self.norm2 = (LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype) for _ in range(2))
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def _attend(self, x: Tensor, mask: Mask, padding: Mask, is_causal: bool) -> Tensor:
        """Self-attention."""
        mixed, _ = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
        )
        return self.dropout1(mixed)

    def _feed(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_Layer):
    """Self-attention and a feed-forward network, each with a residual connection and layer normalisation.

    [L, N, d_model], or [N, L, d_model] with batch_first → the same.  Raises ArgumentError unless nhead divides d_model,
    or for an unknown activation.

    >>> nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(nc.ones((1, 3, 8))).shape
    (1, 3, 8)
    """

    def forward(
        self,
        src: TensorLike,
        src_mask: Mask = None,
        src_key_padding_mask: Mask = None,
        is_causal: bool = False,
    ) -> Tensor:
        """[L, N, d_model] → the same; bool masks are true where a key does not take part."""
        x: Any = as_tensor(src)
        masks = src_mask, src_key_padding_mask, is_causal
        if self.norm_first:
            x = x + self._attend(self.norm1(x), *masks)
            return x + self.dropout2(self._feed(self.norm2(x)))
        x = self.norm1(x + self._attend(x, *masks))
        return self.norm2(x + self.dropout2(self._feed(x)))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, and a feed-forward network.

    Targets [T, N, d_model] and a memory [S, N, d_model] → [T, N, d_model].  Raises ArgumentError unless nhead divides
    d_model, or for an unknown activation.

    >>> nn.TransformerDecoderLayer(8, 2, 16)(nc.ones((3, 1, 8)), nc.ones((5, 1, 8))).shape
    (3, 1, 8)
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, dtype
        )
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.dropout3 = Dropout(dropout)
        held = vars(self)
        for name in ("linear1", "dropout", "linear2", "norm1", "norm2", "norm3", "dropout1", "dropout2", "dropout3"):
            held[name] = held.pop(name)  # after both attentions, as in PyTorch's order of parameters

    def forward(
        self,
        tgt: TensorLike,
        memory: TensorLike,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """[T, N, d_model] and a memory [S, N, d_model] → [T, N, d_model]."""
        x: Any = as_tensor(tgt)
        held: Any = as_tensor(memory)
        own = tgt_mask, tgt_key_padding_mask, tgt_is_causal
        other = memory_mask, memory_key_padding_mask, memory_is_causal
        if self.norm_first:
            x = x + self._attend(self.norm1(x), *own)
            x = x + self._look(self.norm2(x), held, *other)
            return x + self.dropout3(self._feed(self.norm3(x)))
        x = self.norm1(x + self._attend(x, *own))
        x = self.norm2(x + self._look(x, held, *other))
        return self.norm3(x + self.dropout3(self._feed(x)))

    def _look(self, x: Tensor, memory: Tensor, mask: Mask, padding: Mask, is_causal: bool) -> Tensor:
        """Attention to the memory."""
        mixed, _ = self.multihead_attn(
            x, memory, memory, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
        )
        return self.dropout2(mixed)


def _copies(layer: Module, count: int) -> ModuleList:
    if count < 1:
        raise ArgumentError(f"transformer: num_layers must be positive; got {count}")
    return ModuleList(copy.deepcopy(layer) for _ in range(count))


class TransformerEncoder(Module):
    """A stack of copies of a layer, with an optional normalisation at the end.

    [L, N, d_model] → the same.  Raises ArgumentError unless num_layers is positive.

    >>> layer = nn.TransformerEncoderLayer(8, 2, 16)
    >>> nn.TransformerEncoder(layer, 2)(nc.ones((3, 1, 8))).shape
    (3, 1, 8)
    """

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, src: TensorLike, mask: Mask = None, src_key_padding_mask: Mask = None, is_causal: bool = False
    ) -> Tensor:
        """[L, N, d_model] → the same."""
        x: Any = src
        for layer in self.layers:
            x = layer(x, mask, src_key_padding_mask, is_causal)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """A stack of copies of a layer, with an optional normalisation at the end.

    Targets [T, N, d_model] and a memory [S, N, d_model] → [T, N, d_model].  Raises ArgumentError unless num_layers is
    positive.

    >>> decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 2)
    >>> decoder(nc.ones((3, 4, 8)), nc.ones((3, 5, 8))).shape
    (3, 4, 8)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: TensorLike,
        memory: TensorLike,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """[T, N, d_model] and a memory [S, N, d_model] → [T, N, d_model]."""
        x: Any = tgt
        for layer in self.layers:
            x = layer(
                x, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal,
                memory_is_causal,
            )  # fmt: skip
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder and a decoder, each with a normalisation at the end.

    Sources [S, N, d_model] and targets [T, N, d_model] → [T, N, d_model].  Raises ArgumentError unless nhead divides
    d_model, or for an unknown activation.

    >>> net = nn.Transformer(8, 2, 1, 1, 16)
    >>> net(nc.ones((5, 1, 8)), nc.ones((3, 1, 8))).shape
    (3, 1, 8)
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        settings = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, dtype,
        )  # fmt: skip
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        first, last = (LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype) for _ in range(2))
        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*settings), num_encoder_layers, first
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*settings), num_decoder_layers, last
        )
        for p in self.parameters():
            if len(p.shape) > 1:
                init.xavier_uniform_(p)

    def forward(
        self,
        src: TensorLike,
        tgt: TensorLike,
        src_mask: Mask = None,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        src_key_padding_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        src_is_causal: bool = False,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Sources [S, N, d_model] and targets [T, N, d_model] → [T, N, d_model]."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal,
            memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, dtype: Any = None) -> Tensor:
        """A mask for the scores that excludes later keys: −∞ above the diagonal, 0 elsewhere, [sz, sz].

        Raises DTypeError for a dtype that is not floating-point.

        >>> nn.Transformer.generate_square_subsequent_mask(2)
        Tensor([[  0., -inf],
                [  0.,   0.]], f32[2, 2])
        """
        wanted = float32 if dtype is None else as_dtype(dtype)
        if not wanted.is_float:
            raise DTypeError(f"generate_square_subsequent_mask: the dtype must be floating-point; got {wanted.name}")
        (size,) = shape_of(sz, "generate_square_subsequent_mask")
        return triu(full((size, size), -math.inf, wanted), k=1)
