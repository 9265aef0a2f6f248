"""Distances of vectors as modules."""

from __future__ import annotations

from typing import Any

from nacre.api.operands import TensorLike
from nacre.api.tensor import Tensor
from nacre.nn.functional import distances
from nacre.nn.modules.base import ModuleWithSettings

__all__ = [
    "CosineSimilarity",
    "PairwiseDistance",
]


class CosineSimilarity(ModuleWithSettings):
    """The cosine of the angle between vectors along an axis, 1 by default, which the result lacks.

    >>> nn.CosineSimilarity()(nc.tensor([[3.0, 4.0]]), nc.tensor([[4.0, 3.0]]))
    Tensor([0.96], f32[1])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        self.dim, self.eps = dim, eps

    def forward(self, x1: TensorLike, x2: TensorLike) -> Tensor:
        """The shape without the axis."""
        return distances.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(ModuleWithSettings):
    """The p-norm of x1 − x2 + eps along the last axis, which the result lacks.

    >>> nn.PairwiseDistance()(nc.tensor([[3.0, 4.0]]), nc.tensor([[0.0, 0.0]]))
    Tensor([5.0000014], f32[1])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Any, x2: Any) -> Tensor:
        """The shape without the last axis, which `keepdim` leaves with size 1."""
        return distances.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
