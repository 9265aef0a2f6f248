"""Checks that a training is finite: its loss, its weights, and the state of its optimiser."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from nacre.api.elementwise.logic import isfinite, isnan
from nacre.api.utility import all as all_
from nacre.base.errors import StateError
from nacre.nn.module import Module
from nacre.optim.optimiser import Optimizer
from nacre.train.step import LOSS

ADVICE = "lower the learning rate, clip gradients (clip_norm), or look at the data"


def require_finite_loss(found: Mapping[str, tuple[float, float]], update: int, saved: Callable[[], str]) -> None:
    """Raise StateError if the loss of an update is not finite.  `saved` describes the last checkpoint."""
    total, _ = found.get(LOSS, (0.0, 0.0))
    if not math.isfinite(total):
        raise StateError(f"Trainer: the loss must be finite; got {total} in update {update}; {ADVICE}; {saved()}")


def require_finite_state(model: Module, optimizer: Optimizer, update: int, saved: Callable[[], str]) -> None:
    """Raise StateError if a parameter or the optimiser's state is not finite, so that no checkpoint holds it."""
    named = {id(p): name for name, p in model.named_parameters()}
    for group in optimizer.param_groups:
        for p in group.params:
            found = [("weights", p.value)] + [(k, v.value) for k, v in optimizer.state.get(p, {}).items()]
            for what, value in found:
                if value.dtype.is_float and not bool(all_(isfinite(value) if what == "weights" else ~isnan(value))):
                    raise StateError(
                        f"Trainer: weights must be finite; {what} of {named.get(id(p), p.name)!r} hold NaN or "
                        f"infinity after update {update}, from a gradient; the loss was finite; {ADVICE}; {saved()}"
                    )
