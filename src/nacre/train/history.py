"""The measured values of a training, epoch by epoch, and a verdict on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any, cast

from nacre.base.arguments import is_number
from nacre.base.errors import ArgumentError, MissingKey
from nacre.train.state import COUNT

__all__ = ["History"]

Points = Sequence[tuple[float, float]]

SEVERAL = 3  # validations after the least loss from which on overfitting is reported
MARGIN = 1.05  # ratio of the last loss to the least one from which on it is reported
VALID = "valid_"  # prefix of the names measured on the validation data


def _is_row(row: object) -> bool:
    return (
        isinstance(row, Mapping)
        and all(isinstance(k, str) for k in cast("Mapping[object, object]", row))
        and _is_measure(cast("Mapping[str, object]", row).get("epoch"))
    )


def _is_measure(value: Any) -> bool:
    """Whether a value is a number that converts to float."""
    return is_number(value) and (not isinstance(value, int) or -COUNT < value < COUNT)


class MissingColumn(MissingKey):
    """The history has no column of this name."""


class History:
    """The rows of a training's epochs: `history["valid_loss"]` is a column, `history[-1]` the last row.

    A row is a dict with the number of its "epoch" and the measured values by name.  Raises ArgumentError for other
    rows.

    >>> history = train.History([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25}])
    >>> history["loss"], history[-1]["epoch"], len(history)
    ([0.5, 0.25], 2, 2)
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]] = ()) -> None:
        wrong = [row for row in cast("Sequence[object]", rows) if not _is_row(row)]
        if wrong:
            raise ArgumentError(
                f'History: each row must be a dict of values by name, with a number as "epoch"; got {wrong[0]!r:.60}'
            )
        self.rows: list[dict[str, Any]] = [dict(row) for row in rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, str) and self.rows and key not in self.names:
            raise MissingColumn(f"History: no column {key!r}; the columns are {', '.join(self.names)}")
        return [row.get(key) for row in self.rows] if isinstance(key, str) else self.rows[key]

    def __repr__(self) -> str:
        return f"History({len(self)} epochs, {', '.join(self.names)})"

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def points(self, name: str) -> list[tuple[float, float]]:
        """The pairs (epoch, value) for the finite values of a column."""
        found: list[tuple[Any, Any]] = [(row["epoch"], row.get(name)) for row in self.rows]
        return [(float(e), float(v)) for e, v in found if _is_measure(v) and math.isfinite(v)]

    def compared(self) -> list[str]:
        """The names that were measured on both the training data and the validation data."""
        return [name for name in self.names if VALID + name in self.names]

    def verdict(self) -> str:
        """The meaning of the training and validation losses, in one sentence: overfitting, level, or still falling.

        >>> rows = [(1, 0.9, 0.8), (2, 0.5, 0.5), (3, 0.3, 0.6), (4, 0.2, 0.7), (5, 0.1, 0.8)]
        >>> print(train.History([{"epoch": e, "loss": a, "valid_loss": b} for e, a, b in rows]).verdict())
        overfitting: the validation loss rose from 0.5 after epoch 2 to 0.8, while the training loss fell to 0.1
        """
        training, validation = self.points("loss"), self.points(VALID + "loss")
        if len(validation) < 2 or len(training) < 2:
            return "too few epochs with a validation loss to detect overfitting"
        at, least = min(validation, key=lambda p: p[1])
        last, end = validation[-1][1], training[-1][1]
        if overfits(training, validation):
            return (
                f"overfitting: the validation loss rose from {least:.4g} after epoch {at:.0f} to {last:.4g}, while "
                f"the training loss fell to {end:.4g}"
            )
        if at == validation[-1][0]:
            return f"the validation loss is still falling ({last:.4g}); more epochs may help"
        if end > max(v for e, v in training if e <= at):
            return f"the training loss has risen to {end:.4g}, so the training diverges; lower the learning rate"
        return f"the validation loss is level: the least was {least:.4g} after epoch {at:.0f}, the last is {last:.4g}"


def overfits(training: Points, validation: Points) -> bool:
    """Whether the validation loss rises over several epochs while the training loss falls; pairs (epoch, loss).

    After its least value the validation loss must have at least SEVERAL values, the last of them MARGIN above the least
    one, and the later half of them above the earlier half on average.  A loss that jumps once and stays is level.

    >>> overfits([(1, 0.9), (2, 0.5), (3, 0.3), (4, 0.1)], [(1, 0.6), (2, 0.7), (3, 0.8), (4, 0.9)])
    True
    """
    least = min(range(len(validation)), key=lambda k: validation[k][1])
    at, value = validation[least]
    after = [v for _, v in validation[least + 1 :]]
    half = len(after) // 2
    if len(after) < SEVERAL or after[-1] <= MARGIN * value or fmean(after[-half:]) <= fmean(after[:half]):
        return False
    before = [v for epoch, v in training if epoch <= at]
    return bool(before) and training[-1][1] < before[-1]
