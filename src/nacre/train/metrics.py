"""Metrics: functions of prediction and target; their means over batches of different sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from nacre.api.functions import equal
from nacre.api.operands import as_tensor
from nacre.api.reductions import argmax
from nacre.api.reductions import sum as sum_
from nacre.api.sorting import topk
from nacre.base import tree
from nacre.base.errors import ArgumentError, ShapeError
from nacre.trace.value import Value

Metric = Callable[[Any, Any], Any]


def accuracy(prediction: Any, target: Any) -> tuple[Any, int]:
    """How many predictions (n, classes, …) are highest at their class (n, …), and of how many.

    >>> train.accuracy(nc.tensor([[0.1, 0.9], [0.8, 0.2]]), nc.tensor([1, 1]))
    (Tensor(1, i64[]), 2)
    """
    scores, classes = as_tensor(prediction), as_tensor(target)
    if len(scores.shape) < 2 or scores.shape[:1] + scores.shape[2:] != classes.shape:
        raise ShapeError(f"accuracy: scores (n, classes, …) and classes (n, …) are required; got {list(scores.shape)} "
                         f"and {list(classes.shape)}")
    return sum_(equal(argmax(scores, axis=1), classes)), _size(classes)


def top(count: int) -> Metric:
    """A metric: how often the class is among so many with the highest scores (n, classes), and of how many.

    >>> train.top(2)(nc.tensor([[0.1, 0.5, 0.4], [0.8, 0.2, 0.1]]), nc.tensor([2, 2]))
    (Tensor(1, i64[]), 2)
    """
    if count < 1:
        raise ArgumentError(f"top: a positive count is required; got {count}")

    def among(prediction: Any, target: Any) -> tuple[Any, int]:
        """The number of targets among the highest scores."""
        classes = as_tensor(target)
        _, places = topk(as_tensor(prediction), count, axis=-1)
        return sum_(equal(places, classes.reshape((*classes.shape, 1)))), _size(classes)

    return among


def _size(x: Any) -> int:
    return int(x.type.size)


def batch_size(batch: Any) -> int:
    """The leading size of a batch's first tensor; 1 for one without axes."""
    for leaf in tree.flatten(batch)[0]:
        shape = getattr(leaf, "shape", None)
        if isinstance(shape, tuple):
            sizes = cast("tuple[int, ...]", shape)
            return int(sizes[0]) if sizes else 1
    return 1


def measured(found: Mapping[str, Any], size: int) -> dict[str, tuple[float, float]]:
    """Each value of a batch as (total, weight): a pair is that already, a mean counts for the batch's size."""
    return {name: _pair(name, value, size) for name, value in found.items()}


def _pair(name: str, value: Any, size: int) -> tuple[float, float]:
    if isinstance(value, tuple | list):
        parts = cast("Sequence[Any]", value)
        if len(parts) != 2:
            raise ArgumentError(f"Trainer: a number, or a pair (total, count), is required of the metric {name}; got "
                                f"{len(parts)} values")
        return _number(name, parts[0]), _number(name, parts[1])
    return _number(name, value) * size, float(size)


def _number(name: str, value: Any) -> float:
    if isinstance(value, Value):
        if value.type.size != 1:
            raise ShapeError(f"Trainer: a number is required of the metric {name}; got {value.type}; take its mean")
        return float(cast("Any", value).item())
    if isinstance(value, int | float):
        return float(value)
    raise ArgumentError(f"Trainer: a number is required of the metric {name}; got {type(value).__name__}")


class Means:
    """Means of named values over batches, kept as totals and weights, so that they can be saved half-way.

    >>> means = Means()
    >>> means.add({"loss": (6.0, 2.0)}); means.add({"loss": (1.0, 2.0)}); means.values()
    {'loss': 1.75}
    """

    def __init__(self) -> None:
        self.sums: dict[str, tuple[float, float]] = {}

    def add(self, found: Mapping[str, tuple[float, float]]) -> None:
        """Take a batch's totals and weights in."""
        if self.sums and set(found) != set(self.sums):
            raise ArgumentError(f"Trainer: the same names of every batch are required; got {sorted(found)} after "
                                f"{sorted(self.sums)}")
        for name, (total, weight) in found.items():
            before = self.sums.get(name, (0.0, 0.0))
            self.sums[name] = before[0] + total, before[1] + weight

    def values(self) -> dict[str, float]:
        """The means; NaN for what has no weight."""
        return means(self.sums)


def means(found: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """Totals and weights as means; NaN for what has no weight."""
    return {name: total / weight if weight else float("nan") for name, (total, weight) in found.items()}
