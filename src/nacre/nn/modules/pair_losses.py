"""Losses of two or three tensors of one shape as modules.

The reduction "mean" (default) or "sum" gives a scalar; "none" gives one loss for each element or example.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nacre.api.operands import TensorLike
from nacre.api.tensor import Tensor
from nacre.nn.functional import pair_losses
from nacre.nn.modules.base import Loss, optional_buffer

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CosineEmbeddingLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "MarginRankingLoss",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class MSELoss(Loss):
    """(input − target)², for two tensors of one shape and a floating-point dtype.

    >>> nn.MSELoss()(nc.tensor([0.0, 2.0]), nc.tensor([1.0, 0.0])).item()
    2.5
    """

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return pair_losses.mse_loss(input, target, self.reduction)


class L1Loss(Loss):
    """|input − target|, for two tensors of one shape and a floating-point dtype.

    >>> nn.L1Loss(reduction="sum")(nc.tensor([0.0, 2.0]), nc.tensor([1.0, 0.0])).item()
    3.0
    """

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return pair_losses.l1_loss(input, target, self.reduction)


class HuberLoss(Loss):
    """Squares near zero, lines beyond delta, for two tensors of one shape.

    Raises ArgumentError unless delta is positive.

    >>> nn.HuberLoss()(nc.tensor([0.0, 2.0]), nc.tensor([1.0, 0.0])).item()
    1.0
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return pair_losses.huber_loss(input, target, self.reduction, self.delta)


class SmoothL1Loss(Loss):
    """A parabola up to beta, a line of slope 1 beyond, for two tensors of one shape.

    Raises ArgumentError for a negative beta.

    >>> nn.SmoothL1Loss()(nc.tensor([0.0, 2.0]), nc.tensor([1.0, 0.0])).item()
    1.0
    """

    def __init__(self, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return pair_losses.smooth_l1_loss(input, target, self.reduction, self.beta)


# ---- probabilities


class BCELoss(Loss):
    """The cross entropy of probabilities of two classes, for two tensors of one shape.

    `weight` broadcasts to the shape of the losses.

    >>> nn.BCELoss()(nc.tensor([0.5, 0.5]), nc.tensor([0.0, 1.0]))
    Tensor(0.6931472, f32[])
    """

    def __init__(self, weight: TensorLike | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight = optional_buffer(weight)

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return pair_losses.binary_cross_entropy(input, target, self.weight, self.reduction)


class BCEWithLogitsLoss(Loss):
    """The cross entropy of sigmoid(input), for two tensors of one shape; `pos_weight` weights the targets.

    >>> nn.BCEWithLogitsLoss()(nc.tensor([0.0, 2.0]), nc.tensor([0.0, 1.0]))
    Tensor(0.41003758, f32[])
    """

    def __init__(
        self, weight: TensorLike | None = None, reduction: str = "mean", pos_weight: TensorLike | None = None
    ) -> None:
        super().__init__(reduction)
        self.weight, self.pos_weight = optional_buffer(weight), optional_buffer(pos_weight)

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return pair_losses.binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)


class KLDivLoss(Loss):
    """target · (log target − input), for log-probabilities and targets of one shape.

    The reduction "batchmean" divides the sum by the leading size.

    >>> nn.KLDivLoss("batchmean")(nc.log(nc.tensor([[0.5, 0.5]])), nc.tensor([[0.25, 0.75]]))
    Tensor(0.13081205, f32[])
    """

    def __init__(self, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(reduction)
        self.log_target = log_target

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return pair_losses.kl_div(input, target, self.reduction, self.log_target)


class PoissonNLLLoss(Loss):
    """The negative log-likelihood of Poisson's distribution, for the logarithm of its rate or the rate itself.

    Input and target have one shape.

    >>> nn.PoissonNLLLoss()(nc.tensor([0.0, 1.0]), nc.tensor([1.0, 3.0]))
    Tensor(0.35914087, f32[])
    """

    def __init__(self, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return pair_losses.poisson_nll_loss(input, target, self.log_input, self.full, self.eps, self.reduction)


class GaussianNLLLoss(Loss):
    """The negative log-likelihood of normal distributions with given variances.

    Input and target have one shape; the variance has it too, or size 1 or nothing for the last axis.

    >>> nn.GaussianNLLLoss()(nc.tensor([0.0, 1.0]), nc.tensor([1.0, 1.0]), nc.tensor([1.0, 4.0]))
    Tensor(0.5965736, f32[])
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.full, self.eps = full, eps

    def forward(self, input: TensorLike, target: TensorLike, var: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return pair_losses.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)


# ---- margins


class HingeEmbeddingLoss(Loss):
    """x where the target is 1, max(0, margin − x) where it is −1, for two tensors of one shape.

    >>> nn.HingeEmbeddingLoss()(nc.tensor([0.5, 0.25]), nc.tensor([1.0, -1.0])).item()
    0.625
    """

    def __init__(self, margin: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return pair_losses.hinge_embedding_loss(input, target, self.margin, self.reduction)


class SoftMarginLoss(Loss):
    """log(1 + e^(−target · input)), for two tensors of one shape.

    >>> nn.SoftMarginLoss()(nc.tensor([2.0, -1.0]), nc.tensor([1.0, -1.0]))
    Tensor(0.22009484, f32[])
    """

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return pair_losses.soft_margin_loss(input, target, self.reduction)


class MarginRankingLoss(Loss):
    """max(0, −target · (input1 − input2) + margin), for three tensors of one shape.

    >>> nn.MarginRankingLoss(0.5)(nc.tensor([1.0, 2.0]), nc.tensor([2.0, 1.0]), nc.ones(2)).item()
    0.75
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: TensorLike, input2: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the inputs' shape without reduction."""
        return pair_losses.margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


class CosineEmbeddingLoss(Loss):
    """1 − cos where the target is 1, max(0, cos − margin) where it is −1, for inputs [N, D] and targets [N].

    >>> nn.CosineEmbeddingLoss()(nc.tensor([[1.0, 0.0]]), nc.tensor([[0.0, 1.0]]), nc.ones(1)).item()
    1.0
    """

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: TensorLike, input2: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the target's shape without reduction."""
        return pair_losses.cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


class TripletMarginLoss(Loss):
    """max(0, margin + |anchor − positive| − |anchor − negative|), for three tensors [N, D].

    >>> nn.TripletMarginLoss()(nc.tensor([[0.0, 0.0]]), nc.tensor([[3.0, 4.0]]), nc.tensor([[0.0, 2.0]]))
    Tensor(3.9999995, f32[])
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: TensorLike, positive: TensorLike, negative: TensorLike) -> Tensor:
        """A number, or the shape without the last axis without reduction."""
        return pair_losses.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, self.reduction
        )


class TripletMarginWithDistanceLoss(Loss):
    """`TripletMarginLoss` with any distance of two tensors; the default is `pairwise_distance`.

    >>> def manhattan(x, y):
    ...     return nc.sum(nc.abs(x - y), axis=-1)
    >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=manhattan)
    >>> loss(nc.tensor([[0.0, 0.0]]), nc.tensor([[3.0, 4.0]]), nc.tensor([[0.0, 2.0]])).item()
    6.0
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Any, Any], Any] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction)
        self.distance_function, self.margin, self.swap = distance_function, margin, swap

    def forward(self, anchor: TensorLike, positive: TensorLike, negative: TensorLike) -> Tensor:
        """A number, or the distances' shape without reduction."""
        return pair_losses.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function, margin=self.margin,
            swap=self.swap, reduction=self.reduction,
        )  # fmt: skip
