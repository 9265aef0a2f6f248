"""A mixture of experts (Shazeer et al. 2017) as a layer, with the names of Hugging Face's `MixtralSparseMoeBlock`.

The router picks `chosen` experts for each token.  Tokens reach them in one of three ways:

- "onehot": products with one-hot matrices (Lepikhin et al. 2020);
- "scatter": each token is written into a row of its expert, and read back from it;
- "gather": each token gets a copy of the weights of its experts, which suits few tokens.

In the first two, an expert has room for a share of the tokens; those beyond it skip the expert.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

import nacre as nc
from nacre import nn
from nacre.nn import functional as F

__all__ = ["MixtureOfExperts"]


class Experts(nn.Module):
    """The weights of all experts, each a gated network of two layers."""

    def __init__(self, count: int, width: int, hidden: int) -> None:
        self.gate_up_proj = nn.Parameter(nc.random.normal((count, 2 * hidden, width)) * 0.02)
        self.down_proj = nn.Parameter(nc.random.normal((count, width, hidden)) * 0.02)

    def forward(self, x: nc.Tensor, experts: nc.Tensor | None = None) -> nc.Tensor:
        """Rows of each expert [count, rows, width] → the same; or [..., width] for the experts [...] → the same."""
        if experts is None:
            gate, up = nc.split(x @ self.gate_up_proj.mT, sections=2, axis=-1)
            return (F.silu(gate) * up) @ self.down_proj.mT
        gate, up = nc.split(nc.einsum("...ih,...h->...i", self.gate_up_proj[experts], x), sections=2, axis=-1)
        return nc.einsum("...hi,...i->...h", self.down_proj[experts], F.silu(gate) * up)


class MixtureOfExperts(nn.Module):
    """Tokens [..., width] → the same: the sum of the results of each token's experts, weighted by the router.

    An expert has room for `room` times its share of the tokens; with None, it has room for all.

    >>> MixtureOfExperts(8, 16, count=4, chosen=2, way="scatter")(nc.ones((2, 5, 8))).shape
    (2, 5, 8)
    """

    def __init__(
        self,
        width: int = 4096,
        hidden: int = 14336,
        count: int = 8,
        chosen: int = 2,
        way: Literal["onehot", "scatter", "gather"] = "scatter",
        room: float | None = 1.25,
    ) -> None:
        self.count, self.chosen, self.way, self.room = count, chosen, way, room
        self.gate = nn.Linear(width, count, bias=False)
        self.experts = Experts(count, width, hidden)

    def forward(self, x: nc.Tensor) -> nc.Tensor:
        """[..., width] → the same."""
        tokens = x.reshape(-1, x.shape[-1])
        shares, experts = nc.topk(F.softmax(self.gate(tokens)), self.chosen)
        shares = shares / shares.sum(-1, keepdims=True)
        mixed = {"onehot": self.by_onehot, "scatter": self.by_scatter, "gather": self.by_gather}[self.way]
        return mixed(tokens, shares, experts).reshape(x.shape)

    def rows(self, tokens: Any) -> Any:
        """The number of tokens for which an expert has room, in whole numbers: a compiled program serves any number."""
        if self.room is None:
            return tokens
        share = Fraction(self.room).limit_denominator(1000) * self.chosen / self.count
        return min(tokens, -(-tokens * share.numerator // share.denominator))

    def places(self, experts: nc.Tensor) -> nc.Tensor:
        """The number of earlier tokens with the same expert [tokens, chosen]; first choices come before second ones."""
        taken = F.one_hot(experts.T.reshape(-1), self.count)
        before = nc.sum((nc.cumsum(taken, 0) - taken) * taken, axis=1)
        return before.reshape(self.chosen, -1).T

    def by_onehot(self, x: nc.Tensor, shares: nc.Tensor, experts: nc.Tensor) -> nc.Tensor:
        """[tokens, width], shares and experts [tokens, chosen] → [tokens, width]."""
        rows = self.rows(x.shape[0])
        picked = F.one_hot(experts, self.count).astype(x.dtype)
        placed = (self.places(experts)[..., None] == nc.arange(rows)).astype(x.dtype)
        sent = nc.einsum("tke,tkr->ter", picked, placed)
        weighted = nc.einsum("tk,tke,tkr->ter", shares, picked, placed)
        found = self.experts(nc.einsum("ter,th->erh", sent, x))
        return nc.einsum("ter,erh->th", weighted, found)

    def by_scatter(self, x: nc.Tensor, shares: nc.Tensor, experts: nc.Tensor) -> nc.Tensor:
        """[tokens, width], shares and experts [tokens, chosen] → [tokens, width]."""
        width = x.shape[1]
        rows, places = self.rows(x.shape[0]), self.places(experts)
        fits = places < rows
        row = nc.where(fits, experts * rows + places, self.count * rows)  # the last row is for those without room
        sent = nc.zeros((self.count * rows + 1, width), dtype=x.dtype)
        sent[row] = x[:, None].expand(-1, self.chosen, -1)
        found = self.experts(sent[:-1].reshape(self.count, rows, width)).reshape(-1, width)
        taken = nc.take(found, nc.where(fits, row, 0), axis=0)
        return nc.sum(taken * nc.where(fits, shares, 0.0)[..., None], axis=1)

    def by_gather(self, x: nc.Tensor, shares: nc.Tensor, experts: nc.Tensor) -> nc.Tensor:
        """[tokens, width], shares and experts [tokens, chosen] → [tokens, width]."""
        found = self.experts(x[:, None].expand(-1, self.chosen, -1), experts)
        return nc.sum(found * shares[..., None], axis=1)
