"""The adaptive softmax, for many classes of which few are frequent (Grave et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from nacre.api.manipulation import concat
from nacre.api.operands import TensorLike, as_tensor
from nacre.api.taking import take_along_axis
from nacre.api.tensor import Tensor
from nacre.base.dtypes import int64
from nacre.base.errors import ArgumentError, ShapeError
from nacre.nn.functional.class_losses import check_target
from nacre.nn.functional.softmaxes import log_softmax
from nacre.nn.module import Module
from nacre.nn.modules.containers import ModuleList, Sequential
from nacre.nn.modules.linear_maps import Linear

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class AdaptiveOutput(NamedTuple):
    """The log-probability of each target, and the mean of their negatives."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of n_classes, with the rare ones in clusters; classes are sorted from frequent to rare.

    The head holds the classes below cutoffs[0] and one entry for each cluster.  The input is projected to in_features /
    div_value^(i + 1) features for the cluster that begins at cutoffs[i].  The input is [N, in_features], the target
    holds classes [N].

    Raises ArgumentError for cutoffs that do not ascend, or a div_value that is too small or too large.

    >>> layer = nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], div_value=2.0)
    >>> layer(nc.ones((3, 8)), nc.tensor([0, 7, 19])).output.shape
    (3,)
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        dtype: Any = None,
    ) -> None:
        ends = [*cutoffs]
        if not ends or ends != sorted(set(ends)) or ends[0] < 1 or ends[-1] >= n_classes:
            raise ArgumentError(
                f"AdaptiveLogSoftmaxWithLoss: cutoffs must ascend between 0 and {n_classes}; got {ends}"
            )
        self.in_features, self.n_classes, self.cutoffs = in_features, n_classes, [*ends, n_classes]
        if not div_value > 0:
            raise ArgumentError(f"AdaptiveLogSoftmaxWithLoss: div_value must be above 0; got {div_value}")
        self.div_value, self.head_bias = div_value, head_bias
        self.shortlist_size, self.n_clusters = ends[0], len(ends)
        self.head = Linear(in_features, ends[0] + len(ends), head_bias, dtype)
        self.tail = ModuleList()
        for k in range(len(ends)):
            inner = int(in_features // div_value ** (k + 1))
            if inner < 1:
                raise ArgumentError(
                    f"AdaptiveLogSoftmaxWithLoss: div_value must leave at least one feature; got {div_value}"
                )
            size = self.cutoffs[k + 1] - self.cutoffs[k]
            self.tail.append(Sequential(Linear(in_features, inner, False, dtype), Linear(inner, size, False, dtype)))

    def reset_parameters(self) -> None:
        """Draw the parameters again, as when the layer was made."""
        for module in self.modules():
            if isinstance(module, Linear):
                module.reset_parameters()

    def log_prob(self, input: TensorLike) -> Tensor:
        """[N, in_features] → the log-probabilities [N, n_classes]."""
        x: Any = as_tensor(input)
        if x.ndim != 2 or x.shape[1] != self.in_features:
            raise ShapeError(f"AdaptiveLogSoftmaxWithLoss: the input must be [N, {self.in_features}]; got {x.type}")
        head: Any = log_softmax(self.head(x), 1)
        parts = [head[:, : self.shortlist_size]]
        for k, cluster in enumerate(self.tail):
            place = self.shortlist_size + k
            parts.append(log_softmax(cluster(x), 1) + head[:, place : place + 1])
        return concat(parts, axis=1)

    def forward(self, input: TensorLike, target: TensorLike) -> AdaptiveOutput:
        """[N, in_features] and classes [N] → (log-probabilities [N], loss); without N for both, one row."""
        x, wanted = as_tensor(input), as_tensor(target, int64)
        single = len(x.type.shape) == 1
        logs: Any = self.log_prob(x[None] if single else x)
        wanted = wanted[None] if single else wanted
        check_target("AdaptiveLogSoftmaxWithLoss", wanted, logs, 1)
        output: Any = take_along_axis(logs, wanted[:, None], axis=1)[:, 0]
        return AdaptiveOutput(output[0] if single else output, -output.mean())

    def predict(self, input: TensorLike) -> Tensor:
        """The most likely class of each row."""
        return self.log_prob(input).argmax(1)
