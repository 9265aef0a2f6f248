"""Llama (Touvron et al. 2023) with a cache of keys and values, with the names of Hugging Face's `LlamaForCausalLM`."""

from __future__ import annotations

import nacre as nc
from nacre import nn
from nacre.base.records import dataclass
from nacre.nn import functional as F

__all__ = ["Llama", "LlamaCache", "LlamaConfig"]


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of a model; the default is that of Llama 3.2 1B."""

    vocab_size: int = 128256
    hidden_size: int = 2048
    intermediate_size: int = 8192
    num_hidden_layers: int = 16
    num_attention_heads: int = 32
    num_key_value_heads: int = 8
    rms_norm_eps: float = 1e-5
    rope_theta: float = 500000.0

    @property
    def head_size(self) -> int:
        """The size of a query, a key or a value."""
        return self.hidden_size // self.num_attention_heads


class LlamaCache:
    """Keys and values of all layers, with room for `length` tokens of `batch` sequences."""

    def __init__(self, config: LlamaConfig, batch: int, length: int, dtype: nc.DType = nc.float32) -> None:
        empty = nc.zeros((batch, config.num_key_value_heads, length, config.head_size), dtype=dtype)
        self.layers = [(nn.Buffer(empty), nn.Buffer(empty)) for _ in range(config.num_hidden_layers)]


def rotated(x: nc.Tensor, cos: nc.Tensor, sin: nc.Tensor) -> nc.Tensor:
    """Queries or keys [..., T, size], rotated by the angles of their positions [T, size] (Su et al. 2021)."""
    low, high = nc.split(x, sections=2, axis=-1)
    return x * cos + nc.cat([-high, low], axis=-1) * sin


class LlamaAttention(nn.Module):
    """Causal attention in which several queries share a key and a value."""

    def __init__(self, config: LlamaConfig) -> None:
        self.size = config.head_size
        width, shared = config.hidden_size, config.num_key_value_heads * self.size
        self.q_proj, self.k_proj = nn.Linear(width, width, bias=False), nn.Linear(width, shared, bias=False)
        self.v_proj, self.o_proj = nn.Linear(width, shared, bias=False), nn.Linear(width, width, bias=False)

    def forward(
        self,
        x: nc.Tensor,
        cos: nc.Tensor,
        sin: nc.Tensor,
        cache: tuple[nn.Buffer, nn.Buffer] | None,
        position: nc.Tensor | int,
    ) -> nc.Tensor:
        """[N, T, width] → the same; with a cache, the tokens begin at a position, and attend to those before it too."""
        n, t, width = x.shape
        q, k, v = (
            layer(x).reshape(n, t, -1, self.size).permute(0, 2, 1, 3)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        if cache is None:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            keys, values = cache
            places = position + nc.arange(t)
            keys[:, :, places], values[:, :, places] = k, v
            seen = nc.arange(keys.shape[2]) <= places[:, None]
            mixed = F.scaled_dot_product_attention(
                q, keys.value, values.value, seen, enable_gqa=True, lengths=position + t
            )
        return self.o_proj(mixed.permute(0, 2, 1, 3).reshape(n, t, width))


class LlamaMlp(nn.Module):
    """A gated network of two layers (Shazeer 2020)."""

    def __init__(self, config: LlamaConfig) -> None:
        width, hidden = config.hidden_size, config.intermediate_size
        self.gate_proj, self.up_proj = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        """[..., width] → the same."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    """Attention and a gated network, each behind an RMS norm and with a residual connection."""

    def __init__(self, config: LlamaConfig) -> None:
        self.self_attn, self.mlp = LlamaAttention(config), LlamaMlp(config)
        self.input_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(
        self,
        x: nc.Tensor,
        cos: nc.Tensor,
        sin: nc.Tensor,
        cache: tuple[nn.Buffer, nn.Buffer] | None,
        position: nc.Tensor | int,
    ) -> nc.Tensor:
        """[N, T, width] → the same."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, cache, position)
        return x + self.mlp(self.post_attention_layernorm(x))


class LlamaModel(nn.Module):
    """The embedding, the layers, and an RMS norm."""

    def __init__(self, config: LlamaConfig) -> None:
        self.size, self.theta = config.head_size, config.rope_theta
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(LlamaLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, ids: nc.Tensor, cache: LlamaCache | None, position: nc.Tensor | int) -> nc.Tensor:
        """[N, T] → [N, T, width]."""
        x = self.embed_tokens(ids)
        frequencies = self.theta ** (-nc.arange(0, self.size, 2, dtype=nc.float32) / self.size)
        places = (position + nc.arange(ids.shape[1])).astype(nc.float32)
        angles = places[:, None] * nc.tile(frequencies, 2)
        cos, sin = nc.cos(angles).astype(x.dtype), nc.sin(angles).astype(x.dtype)
        for k, layer in enumerate(self.layers):
            x = layer(x, cos, sin, None if cache is None else cache.layers[k], position)
        return self.norm(x)


class Llama(nn.Module):
    """Tokens [N, T] → scores of the next ones [N, T, vocabulary].

    With a cache, the tokens begin at `position`, which may be a tensor; their keys and values are stored in it.  That
    is for `nc.no_grad()`, because a cache holds numbers alone.

    >>> config = LlamaConfig(50, 16, 32, 2, 4, 2)
    >>> model, cache = Llama(config), LlamaCache(config, batch=1, length=8)
    >>> with nc.no_grad():
    ...     first = model(nc.tensor([[3, 1, 4]]), cache, 0)
    ...     second = model(nc.tensor([[1]]), cache, 3)
    >>> second.shape
    (1, 1, 50)
    """

    def __init__(self, config: LlamaConfig = LlamaConfig()) -> None:
        self.model = LlamaModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids: nc.Tensor, cache: LlamaCache | None = None, position: nc.Tensor | int = 0) -> nc.Tensor:
        """[N, T] → [N, T, vocabulary]."""
        return self.lm_head(self.model(ids, cache, position))
