"""Loss by epoch of the example `digits`: training and validation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import digits

from nacre.inspect.plot import Chart, Series

BY_NAME = False


def collect() -> dict[str, Any]:
    """The losses of each epoch."""
    run, results = digits.trained()
    history = run.trainer.history
    return {
        "example": "digits",
        "seed": digits.SEED,
        "epoch": history["epoch"],
        "loss": history["loss"],
        "valid_loss": history["valid_loss"],
        "accuracy": results["accuracy"],
        "images": results["images"],
    }


def draw(data: Mapping[str, Any]) -> str:
    """Both curves."""

    def line(name: str, column: str) -> Series:
        points = tuple(zip(data["epoch"], data[column], strict=True))
        return Series(name, points, radii=(2.5,) * len(points))

    return Chart(
        "Loss of the digits network",
        "epoch",
        "cross-entropy",
        (line("training", "loss"), line("validation", "valid_loss")),
        (False, True),
        f"nacre train digits --seed {data['seed']}: accuracy {data['accuracy']:.1%} on {data['images']} test images",
    ).svg()
