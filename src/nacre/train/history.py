"""What a training measured, epoch by epoch, and what that says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

VALID = "valid_"  # before the names of what was measured on the validation data


class History:
    """The rows of a training's epochs: `history["valid_loss"]` is a column, `history[-1]` the last row.

    >>> history = train.History([{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25}])
    >>> history["loss"], history[-1]["epoch"], len(history)
    ([0.5, 0.25], 2, 2)
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]] = ()) -> None:
        self.rows: list[dict[str, Any]] = [dict(row) for row in rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, key: str | int) -> Any:
        return [row.get(key) for row in self.rows] if isinstance(key, str) else self.rows[key]

    def __repr__(self) -> str:
        return f"History({len(self)} epochs, {', '.join(self.names)})"

    @property
    def names(self) -> list[str]:
        """The columns' names."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def points(self, name: str) -> list[tuple[float, float]]:
        """(epoch, value) where a column has a finite value."""
        found = [(row["epoch"], row.get(name)) for row in self.rows]
        return [(float(e), float(v)) for e, v in found if v is not None and math.isfinite(v)]

    def compared(self) -> list[str]:
        """What was measured on both the training data and the validation data."""
        return [name for name in self.names if VALID + name in self.names]

    def verdict(self) -> str:
        """What the losses of training and validation say, in a sentence.

        >>> rows = [(1, 0.9, 0.8), (2, 0.5, 0.6), (3, 0.3, 0.5), (4, 0.2, 0.6), (5, 0.1, 0.8)]
        >>> print(train.History([{"epoch": e, "loss": a, "valid_loss": b} for e, a, b in rows]).verdict())
        overfitting: the validation loss was least after epoch 3 (0.5) and has risen to 0.8, while the training loss \
fell on to 0.1
        """
        training, validation = self.points("loss"), self.points(VALID + "loss")
        if len(validation) < 2 or len(training) < 2:
            return "too few epochs with a validation loss to say whether it overfits"
        at, least = min(validation, key=lambda p: p[1])
        last, end = validation[-1][1], training[-1][1]
        before = dict(training).get(at, end)
        if last > least * 1.05 and end < before:
            return (f"overfitting: the validation loss was least after epoch {at:.0f} ({least:.4g}) and has risen to "
                    f"{last:.4g}, while the training loss fell on to {end:.4g}")
        if at == validation[-1][0]:
            return f"the validation loss is still falling ({last:.4g}); more epochs may help"
        return f"the validation loss was least after epoch {at:.0f} ({least:.4g}), and is now {last:.4g}: level"
