"""Losses as modules, for those who keep them beside their model."""

from __future__ import annotations

from nacre.api.operands import TensorLike
from nacre.api.tensor import Tensor
from nacre.nn import losses
from nacre.nn.module import Buffer, Module


class _Criterion(Module):
    """A loss with a reduction."""

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = reduction


class MSELoss(_Criterion):
    """(input − target)²."""

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return losses.mse_loss(input, target, self.reduction)


class L1Loss(_Criterion):
    """|input − target|."""

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return losses.l1_loss(input, target, self.reduction)


class HuberLoss(_Criterion):
    """Squares near zero, lines beyond delta."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return losses.huber_loss(input, target, self.reduction, self.delta)


class BCEWithLogitsLoss(_Criterion):
    """The cross entropy of sigmoid(input)."""

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the input's shape without reduction."""
        return losses.binary_cross_entropy_with_logits(input, target, self.reduction)


class NLLLoss(_Criterion):
    """−input at the target's class."""

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the target's shape without reduction."""
        return losses.nll_loss(input, target, reduction=self.reduction)


class CrossEntropyLoss(_Criterion):
    """−log softmax(input) at the target's class.

    >>> nn.CrossEntropyLoss()(nc.zeros((1, 2)), nc.tensor([1]))
    Tensor(0.6931472, f32[])
    """

    def __init__(
        self,
        weight: TensorLike | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(reduction)
        self.weight = None if weight is None else Buffer(weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the target's shape without reduction."""
        return losses.cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )
