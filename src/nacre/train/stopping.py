"""The best value of a training so far, and early stopping."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nacre.base.arguments import is_number as is_real
from nacre.base.arguments import is_whole, shown
from nacre.base.errors import ArgumentError, KindError, StateError
from nacre.base.records import dataclass
from nacre.train.state import is_count, is_number

__all__ = ["EarlyStopping"]


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when the monitored value has not improved by more than `min_delta` for `patience` validations in a row.

    With `restore_best` the model has the weights of its best epoch at the end.  Raises KindError or ArgumentError
    unless `patience` is a positive integer and `min_delta` a number that is not negative.

    >>> train.EarlyStopping(patience=3)
    EarlyStopping(patience=3, min_delta=0.0, restore_best=False)
    """

    patience: int = 5
    min_delta: float = 0.0
    restore_best: bool = False

    def __post_init__(self) -> None:
        if not is_whole(self.patience) or not is_real(self.min_delta):
            raise KindError(
                f"EarlyStopping: patience must be a whole number and min_delta a number; got {shown(self.patience)}, "
                f"{shown(self.min_delta)}"
            )
        if self.patience < 1 or not self.min_delta >= 0:
            raise ArgumentError(
                f"EarlyStopping: patience must be positive and min_delta must not be negative; got {self.patience}, "
                f"{self.min_delta}"
            )


class Watch:
    """The best value so far, and how many values in a row did not improve on it."""

    def __init__(self, mode: str, stopping: EarlyStopping | None) -> None:
        if mode not in ("min", "max"):
            raise ArgumentError(f'Trainer: mode must be "min" or "max"; got {mode!r}')
        self.mode, self.stopping = mode, stopping
        self.best = self.last_good = math.inf if mode == "min" else -math.inf
        self.best_step = -1
        self.bad = 0

    def see(self, value: float, step: int) -> bool:
        """Record a value; returns whether it is the best so far.  NaN never is."""
        sign = 1 if self.mode == "min" else -1
        if sign * value < sign * self.last_good - (self.stopping.min_delta if self.stopping else 0.0):
            self.last_good, self.bad = value, 0
        else:
            self.bad += 1
        found = sign * value < sign * self.best
        if found:
            self.best, self.best_step = value, step
        return found

    @property
    def stops(self) -> bool:
        """Whether the training should stop."""
        return self.stopping is not None and self.bad >= self.stopping.patience

    def state_dict(self) -> dict[str, Any]:
        """The state that resuming needs."""
        return {k: getattr(self, k) for k in _STATE}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Restore the result of `state_dict`.  Raises StateError for anything else."""
        if (
            not all(k in saved and is_number(saved[k]) for k in _STATE)
            or not is_count(saved["bad"])
            or not (is_count(saved["best_step"] + 1))
        ):
            raise StateError(
                f"checkpoint: the early-stopping state must hold the numbers {', '.join(_STATE)}; got {saved!r:.90}; "
                "read it with the Nacre version that wrote it, or begin anew in another folder"
            )
        for k in _STATE:
            setattr(self, k, saved[k])


_STATE = ("best", "last_good", "best_step", "bad")
