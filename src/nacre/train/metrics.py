"""Metrics: functions of prediction and target, and their means over batches of different sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from nacre.api.elementwise.comparison import equal
from nacre.api.operands import as_tensor
from nacre.api.searching import argmax
from nacre.api.sorting import topk
from nacre.api.statistical import sum as sum_
from nacre.base import tree
from nacre.base.errors import ArgumentError, ShapeError
from nacre.trace.value import Value

__all__ = [
    "Means",
    "accuracy",
    "top",
]

Metric = Callable[[Any, Any], Any]


def accuracy(prediction: Any, target: Any) -> tuple[Any, int]:
    """The accuracy as a pair: how many predictions are right, and how many there are.

    `prediction` holds scores (n, classes, …), `target` integer classes (n, …).  A prediction is right if the class has
    the highest score.  Raises ShapeError for other shapes.

    >>> train.accuracy(nc.tensor([[0.1, 0.9], [0.8, 0.2]]), nc.tensor([1, 1]))
    (Tensor(1, i64[]), 2)
    """
    scores, classes = as_tensor(prediction), as_tensor(target)
    if len(scores.shape) < 2 or scores.shape[:1] + scores.shape[2:] != classes.shape:
        raise ShapeError(
            f"accuracy: prediction must be (n, classes, …) and target (n, …); got shapes {list(scores.shape)} and "
            f"{list(classes.shape)}"
        )
    return sum_(equal(argmax(scores, axis=1), classes)), _size(classes)


def top(count: int) -> Metric:
    """A metric: how many targets are among the `count` classes with the highest scores (n, classes), and of how many.

    Raises ArgumentError unless `count` is positive.

    >>> train.top(2)(nc.tensor([[0.1, 0.5, 0.4], [0.8, 0.2, 0.1]]), nc.tensor([2, 2]))
    (Tensor(1, i64[]), 2)
    """
    if count < 1:
        raise ArgumentError(f"top: count must be positive; got {count}")

    def among(prediction: Any, target: Any) -> tuple[Any, int]:
        """The number of targets among the highest scores."""
        classes = as_tensor(target)
        _, places = topk(as_tensor(prediction), count, axis=-1)
        return sum_(equal(places, classes.reshape((*classes.shape, 1)))), _size(classes)

    return among


def _size(x: Any) -> int:
    return int(x.type.size)


def batch_size(batch: Any) -> int:
    """The leading size of a batch's first tensor; 1 if it has no axes."""
    for leaf in tree.flatten(batch)[0]:
        shape = getattr(leaf, "shape", None)
        if isinstance(shape, tuple):
            sizes = cast("tuple[int, ...]", shape)
            return int(sizes[0]) if sizes else 1
    return 1


def measured(found: Mapping[str, Any], size: int) -> dict[str, tuple[float, float]]:
    """Each value of a batch as (total, weight): a pair is one already, a mean has the batch's size as its weight."""
    return {name: _pair(name, value, size) for name, value in found.items()}


def _pair(name: str, value: Any, size: int) -> tuple[float, float]:
    if isinstance(value, tuple | list):
        parts = cast("Sequence[Any]", value)
        if len(parts) != 2:
            raise ArgumentError(
                f"Trainer: metric {name} must return a number or a pair (total, count); got {len(parts)} values"
            )
        return _number(name, parts[0]), _number(name, parts[1])
    return _number(name, value) * size, float(size)


def _number(name: str, value: Any) -> float:
    if isinstance(value, Value):
        if value.type.size != 1:
            raise ShapeError(f"Trainer: metric {name} must return one number; got {value.type}; take its mean")
        return float(cast("Any", value).item())
    if isinstance(value, int | float):
        return float(value)
    raise ArgumentError(f"Trainer: metric {name} must return a number; got {type(value).__name__}")


class Means:
    """Means of named values over batches, held as totals and weights so that they can be saved within an epoch.

    Raises ArgumentError for a batch with other names than the batches before.

    >>> means = Means()
    >>> means.add({"loss": (6.0, 2.0)}); means.add({"loss": (1.0, 2.0)}); means.values()
    {'loss': 1.75}
    """

    def __init__(self) -> None:
        self.sums: dict[str, tuple[float, float]] = {}

    def add(self, found: Mapping[str, tuple[float, float]]) -> None:
        """Add the totals and weights of a batch."""
        if self.sums and set(found) != set(self.sums):
            raise ArgumentError(
                f"Trainer: every batch must give the same names; got {sorted(found)} after {sorted(self.sums)}"
            )
        for name, (total, weight) in found.items():
            before = self.sums.get(name, (0.0, 0.0))
            self.sums[name] = before[0] + total, before[1] + weight

    def values(self) -> dict[str, float]:
        """The means by name; NaN where the weight is 0."""
        return means(self.sums)


def means(found: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Totals and weights as means; NaN where the weight is 0."""
    return {name: total / weight if weight else float("nan") for name, (total, weight) in found.items()}
