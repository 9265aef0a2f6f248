"""What is watched of a training: its best value so far, and when to stop for want of a better one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nacre.base.arguments import is_number as is_real
from nacre.base.arguments import is_whole, shown
from nacre.base.errors import ArgumentError, KindError, StateError
from nacre.base.records import dataclass
from nacre.train.state import is_count, is_number


@dataclass(frozen=True)
class EarlyStopping:
    """Stop when the watched value has not got better, by more than `min_delta`, for `patience` validations in a row.

    With `restore_best` the model has the weights of its best epoch at the end.

    >>> train.EarlyStopping(patience=3)
    EarlyStopping(patience=3, min_delta=0.0, restore_best=False)
    """

    patience: int = 5
    min_delta: float = 0.0
    restore_best: bool = False

    def __post_init__(self) -> None:
        if not is_whole(self.patience) or not is_real(self.min_delta):
            raise KindError(f"EarlyStopping: a whole number as patience and a number as min_delta are required; got "
                            f"{shown(self.patience)}, {shown(self.min_delta)}")
        if self.patience < 1 or not self.min_delta >= 0:
            raise ArgumentError("EarlyStopping: a positive patience and a min_delta that is not negative are required; "
                                f"got {self.patience}, {self.min_delta}")


class Watch:
    """The best of the values that were seen, and for how many in a row none was better by enough."""

    def __init__(self, mode: str, stopping: EarlyStopping | None) -> None:
        if mode not in ("min", "max"):
            raise ArgumentError(f'Trainer: a mode "min" or "max" is required; got {mode!r}')
        self.mode, self.stopping = mode, stopping
        self.best = self.last_good = math.inf if mode == "min" else -math.inf
        self.best_step = -1
        self.bad = 0

    def see(self, value: float, step: int) -> bool:
        """Take a value in; whether it is the best so far.  NaN never is."""
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
        """Whether it is time to stop."""
        return self.stopping is not None and self.bad >= self.stopping.patience

    def state_dict(self) -> dict[str, Any]:
        """What is needed to go on."""
        return {k: getattr(self, k) for k in _STATE}

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave.  Raises StateError for what it cannot have given."""
        if not all(k in saved and is_number(saved[k]) for k in _STATE) or not is_count(saved["bad"]) or not (
                is_count(saved["best_step"] + 1)):
            raise StateError(f"checkpoint: numbers {', '.join(_STATE)} are required of what was watched; got "
                             f"{saved!r:.90}; read it with what wrote it, or begin anew in another folder")
        for k in _STATE:
            setattr(self, k, saved[k])


_STATE = ("best", "last_good", "best_step", "bad")
