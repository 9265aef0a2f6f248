"""The training of the example `digits`, once for all pictures of it."""

from __future__ import annotations

from functools import cache
from typing import Any

from nacre import examples

SEED = 0


@cache
def trained() -> tuple[Any, dict[str, Any]]:
    """The example's run after its last epoch, and its results."""
    example = examples.load("digits")
    run = example.build(examples.Settings(SEED, example.EPOCHS, {"progress": False}))
    run.trainer.fit(run.training, run.validation, example.EPOCHS)
    return run, dict(run.results())
