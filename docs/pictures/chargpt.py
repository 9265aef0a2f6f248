"""Loss by epoch of the example `chargpt`, beside that of the trigram model, and a sample of its text."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from nacre import examples
from nacre.inspect.plot import Chart, Series

BY_NAME = True  # the training takes minutes
SEED = 0


def collect() -> dict[str, Any]:
    """The losses of each epoch, the loss of the trigram model, and the text that the network writes at the end."""
    example = examples.load("chargpt")
    run = example.build(examples.Settings(SEED, example.EPOCHS, {"progress": False}))
    history = run.trainer.fit(run.training, run.validation, example.EPOCHS)
    results = run.results()
    return {
        "example": "chargpt",
        "seed": SEED,
        "python": ".".join(map(str, sys.version_info[:3])),
        "epoch": history["epoch"],
        "loss": history["loss"],
        "valid_loss": history["valid_loss"],
        **{name: results[name] for name in ("trigram_loss", "validation_loss", "characters", "parameters", "text")},
    }


def draw(data: Mapping[str, Any]) -> str:
    """Both curves, and the trigram model as a line."""

    def line(name: str, losses: list[float], **how: Any) -> Series:
        return Series(name, tuple(zip(data["epoch"], losses, strict=True)), **how)

    points = (2.5,) * len(data["epoch"])
    return Chart(
        "Loss of the character GPT",
        "epoch",
        "cross-entropy in nats per character",
        (
            line("training", data["loss"], radii=points),
            line("validation", data["valid_loss"], radii=points),
            line("trigram model", [data["trigram_loss"]] * len(data["epoch"]), dashed=True),
        ),
        (False, False),
        f"nacre train chargpt --seed {data['seed']}: the manual of Python {data['python']}, "
        f"{data['parameters']:,} parameters",
    ).svg()
