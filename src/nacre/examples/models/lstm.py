"""A language model of LSTM layers (Zaremba et al. 2014), with the names of PyTorch's `word_language_model`."""

from __future__ import annotations

import nacre as nc
from nacre import nn

__all__ = ["LstmLanguageModel"]

State = tuple[nc.Tensor, nc.Tensor]  # hidden and cell states [layers, N, hidden]


class LstmLanguageModel(nn.Module):
    """Tokens [T, N] → scores of the next ones [T, N, vocabulary], and the state behind the last token.

    >>> model = LstmLanguageModel(50, 8, 16, layers=2)
    >>> scores, state = model(nc.zeros((7, 3), dtype=nc.int32))
    >>> scores.shape, state[0].shape
    ((7, 3, 50), (2, 3, 16))
    """

    def __init__(
        self, vocabulary: int = 33278, width: int = 650, hidden: int = 650, layers: int = 2, dropout: float = 0.5
    ) -> None:
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(vocabulary, width)
        self.rnn = nn.LSTM(width, hidden, layers, dropout=dropout)
        self.decoder = nn.Linear(hidden, vocabulary)
        for layer in (self.encoder, self.decoder):
            nn.init.uniform_(layer.weight, -0.1, 0.1)

    def forward(self, tokens: nc.Tensor, state: State | None = None) -> tuple[nc.Tensor, State]:
        """[T, N], and the state that an earlier call returned → [T, N, vocabulary], and the new state."""
        y, after = self.rnn(self.drop(self.encoder(tokens)), state)
        return self.decoder(self.drop(y)), after
