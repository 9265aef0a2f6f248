"""Margin losses over several classes, and the loss of unaligned sequences (CTC), as modules."""

from __future__ import annotations

from nacre.api.operands import TensorLike
from nacre.api.tensor import Tensor
from nacre.nn.functional import margin_losses
from nacre.nn.modules.base import Loss, optional_buffer

__all__ = [
    "CTCLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
]


class CTCLoss(Loss):
    """The negative log-likelihood of label sequences over all alignments.

    `log_probs` is [T, N, C] and `targets` [N, S], with the lengths of both.  Raises ShapeError or ArgumentError for
    targets and lengths that do not fit.

    >>> log_probabilities = nc.full((4, 1, 3), -1.0986123)
    >>> nn.CTCLoss()(log_probabilities, nc.tensor([[1, 2]]), nc.tensor([4]), nc.tensor([2]))
    Tensor(0.8431995, f32[])
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(
        self, log_probs: TensorLike, targets: TensorLike, input_lengths: TensorLike, target_lengths: TensorLike
    ) -> Tensor:
        """A number, or [N] without reduction."""
        return margin_losses.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


class MultiMarginLoss(Loss):
    """Σ max(0, margin − x[target] + x[i])ᵖ / C over the other classes i, for inputs [N, C] and targets [N].

    Raises ArgumentError for a p other than 1 or 2.

    >>> nn.MultiMarginLoss()(nc.tensor([[0.5, 1.0]]), nc.tensor([1])).item()
    0.25
    """

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: TensorLike | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.p, self.margin, self.weight = p, margin, optional_buffer(weight)

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or the target's shape without reduction."""
        return margin_losses.multi_margin_loss(input, target, self.p, self.margin, self.weight, self.reduction)


class MultiLabelMarginLoss(Loss):
    """Margins between the target classes of each row and all other classes.

    Inputs are [N, C]; the targets [N, C] are class numbers up to the first −1 of each row.

    >>> nn.MultiLabelMarginLoss()(nc.tensor([[0.5, 1.0, 0.0]]), nc.tensor([[1, -1, 0]])).item()
    0.1666666716337204
    """

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or [N] without reduction."""
        return margin_losses.multilabel_margin_loss(input, target, self.reduction)


class MultiLabelSoftMarginLoss(Loss):
    """The mean over the classes of the cross entropy of sigmoid(input), for inputs and targets [N, C].

    >>> nn.MultiLabelSoftMarginLoss()(nc.tensor([[0.5, -1.0]]), nc.tensor([[1.0, 0.0]]))
    Tensor(0.39366934, f32[])
    """

    def __init__(self, weight: TensorLike | None = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight = optional_buffer(weight)

    def forward(self, input: TensorLike, target: TensorLike) -> Tensor:
        """A number, or [N] without reduction."""
        return margin_losses.multilabel_soft_margin_loss(input, target, self.weight, self.reduction)
