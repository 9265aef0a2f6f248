"""Losses whose target names a class, as modules.

The reduction "mean" (default) or "sum" gives a scalar; "none" gives one loss for each example.
"""

from __future__ import annotations

from nacre.api.operands import TensorLike
from nacre.api.tensor import Tensor
from nacre.nn.functional import class_losses
from nacre.nn.modules.base import Loss, optional_buffer

__all__ = [
    "CrossEntropyLoss",
    "NLLLoss",
]


class NLLLoss(Loss):
    """−input at the target's class, for log-probabilities [N, C, ...] and classes [N, ...].

    Raises ShapeError or DTypeError for targets that do not fit, ArgumentError for classes out of range;
    so does a compiled function when it runs.

    >>> log_probabilities = nc.log(nc.tensor([[0.25, 0.75], [0.5, 0.5]]))
    >>> nn.NLLLoss()(log_probabilities, nc.tensor([1, 0]))
    Tensor(0.49041462, f32[])
    """

    def __init__(self, weight: TensorLike | None = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight, self.ignore_index = optional_buffer(weight), ignore_index

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the target's shape without reduction."""
        return class_losses.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class CrossEntropyLoss(Loss):
    """−log softmax(input) at the target's class, for logits [N, C, ...] and classes [N, ...] or probabilities.

    Raises ShapeError or DTypeError for targets that do not fit, ArgumentError for classes out of range;
    so does a compiled function when it runs.

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
        self.weight = optional_buffer(weight)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the target's shape without reduction."""
        return class_losses.cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )
