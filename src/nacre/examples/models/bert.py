"""BERT (Devlin et al. 2018) for masked tokens, with the names of Hugging Face's `BertForMaskedLM`."""

from __future__ import annotations

import nacre as nc
from nacre import nn
from nacre.base.records import dataclass
from nacre.nn import functional as F

__all__ = ["BertConfig", "BertForMaskedLM", "BertModel"]


@dataclass(frozen=True)
class BertConfig:
    """The sizes of a model; the default is that of BERT base."""

    vocab_size: int = 30522
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    dropout: float = 0.1
    layer_norm_eps: float = 1e-12


class BertEmbeddings(nn.Module):
    """The sum of three embeddings: of the token, its position, and its segment."""

    def __init__(self, config: BertConfig) -> None:
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width, padding_idx=0)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, ids: nc.Tensor, segments: nc.Tensor | None) -> nc.Tensor:
        """[N, T] → [N, T, width]; without segments, all tokens are in the first one."""
        kinds = self.token_type_embeddings(nc.zeros_like(ids) if segments is None else segments)
        x = self.word_embeddings(ids) + kinds + self.position_embeddings(nc.arange(ids.shape[1]))
        return self.dropout(self.LayerNorm(x))


class BertSelfAttention(nn.Module):
    """Attention of all tokens to those that are not padding."""

    def __init__(self, config: BertConfig) -> None:
        width = config.hidden_size
        self.heads, self.dropout = config.num_attention_heads, config.dropout
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: nc.Tensor, mask: nc.Tensor | None) -> nc.Tensor:
        """[N, T, width] → the same; `mask` [N, 1, 1, T] is true for tokens."""
        n, t, width = x.shape
        q, k, v = (
            layer(x).reshape(n, t, self.heads, -1).permute(0, 2, 1, 3) for layer in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, mask, self.dropout if self.training else 0.0)
        return mixed.permute(0, 2, 1, 3).reshape(n, t, width)


class BertOutput(nn.Module):
    """A linear layer, dropout, a residual connection, and a layer norm."""

    def __init__(self, inward: int, config: BertConfig) -> None:
        self.dense = nn.Linear(inward, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: nc.Tensor, before: nc.Tensor) -> nc.Tensor:
        """[N, T, inward] and [N, T, width] → [N, T, width]."""
        return self.LayerNorm(self.dropout(self.dense(x)) + before)


class BertLayer(nn.Module):
    """Attention, then a network of two layers."""

    def __init__(self, config: BertConfig) -> None:
        self.attention = nn.ModuleDict(
            {"self": BertSelfAttention(config), "output": BertOutput(config.hidden_size, config)}
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(config.hidden_size, config.intermediate_size)})
        self.output = BertOutput(config.intermediate_size, config)

    def forward(self, x: nc.Tensor, mask: nc.Tensor | None) -> nc.Tensor:
        """[N, T, width] → the same."""
        x = self.attention["output"](self.attention["self"](x, mask), x)
        return self.output(F.gelu(self.intermediate["dense"](x)), x)


class BertModel(nn.Module):
    """Tokens [N, T] of any length up to `max_position_embeddings` → [N, T, width]."""

    def __init__(self, config: BertConfig = BertConfig()) -> None:
        self.embeddings = BertEmbeddings(config)
        layers = nn.ModuleList(BertLayer(config) for _ in range(config.num_hidden_layers))
        self.encoder = nn.ModuleDict({"layer": layers})

    def forward(
        self, ids: nc.Tensor, attention_mask: nc.Tensor | None = None, segments: nc.Tensor | None = None
    ) -> nc.Tensor:
        """[N, T] → [N, T, width]; `attention_mask` [N, T] is 1 for tokens and 0 for padding."""
        mask = None if attention_mask is None else (attention_mask != 0)[:, None, None]
        x = self.embeddings(ids, segments)
        for layer in self.encoder["layer"]:
            x = layer(x, mask)
        return x


class BertPredictions(nn.Module):
    """Scores of all tokens, by the weights of the embedding."""

    def __init__(self, config: BertConfig, embedding: nn.Embedding) -> None:
        width = config.hidden_size
        self.transform = nn.ModuleDict(
            {"dense": nn.Linear(width, width), "LayerNorm": nn.LayerNorm(width, eps=config.layer_norm_eps)}
        )
        self.decoder = nn.Linear(width, config.vocab_size)
        self.decoder.weight = embedding.weight
        self.bias = self.decoder.bias

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        """[N, T, width] → [N, T, vocabulary]."""
        return self.decoder(self.transform["LayerNorm"](F.gelu(self.transform["dense"](x))))


class BertForMaskedLM(nn.Module):
    """Tokens [N, T] → scores of the token at each place [N, T, vocabulary].

    >>> model = BertForMaskedLM(BertConfig(50, 16, 1, 2, 32, 64)).eval()
    >>> model(nc.tensor([[3, 1, 4, 0]]), nc.tensor([[1, 1, 1, 0]])).shape
    (1, 4, 50)
    """

    def __init__(self, config: BertConfig = BertConfig()) -> None:
        self.bert = BertModel(config)
        self.cls = nn.ModuleDict({"predictions": BertPredictions(config, self.bert.embeddings.word_embeddings)})
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif "LayerNorm" not in name:
                nn.init.normal_(parameter, std=0.02)

    def forward(
        self, ids: nc.Tensor, attention_mask: nc.Tensor | None = None, segments: nc.Tensor | None = None
    ) -> nc.Tensor:
        """[N, T] → [N, T, vocabulary]; see `BertModel`."""
        return self.cls["predictions"](self.bert(ids, attention_mask, segments))
