"""The classes that the tutorial's network sees in the plane, and the points that it was trained on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from drawing import cells, frame, text

import nacre as nc
from nacre.inspect.plot import document, footnote, heading

BY_NAME = False
TUTORIAL = Path(__file__).resolve().parents[1] / "tutorial.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEEDED = ("turn * nc.cos(angle)", "step(points, side)")  # what the two blocks contain that make and train it
REACH, CELLS = 1.15, 92  # the plane from -REACH to REACH, in so many cells
LEFT, TOP, SIDE = 62, 44, 460


def collect() -> dict[str, Any]:
    """Run the tutorial's blocks, and ask the trained network about every cell."""
    names: dict[str, Any] = {"nc": nc}
    blocks = BLOCK.findall(TUTORIAL.read_text(encoding="utf-8"))
    with redirect_stdout(StringIO()):
        for mark in NEEDED:
            exec(next(block for block in blocks if mark in block), names)
    centres = ((np.arange(CELLS) + 0.5) / CELLS * 2 - 1) * REACH
    grid = np.stack(np.meshgrid(centres, centres), -1).reshape(-1, 2).astype(np.float32)
    with nc.no_grad():
        odds = nc.nn.functional.softmax(names["model"](nc.asarray(grid)), axis=-1).numpy()[:, 1]
    return {
        "reach": REACH,
        "probability of class 1": odds.reshape(CELLS, CELLS).astype(float).round(2).tolist(),
        "points": names["points"].numpy().astype(float).round(3).tolist(),
        "classes": names["side"].tolist(),
    }


def draw(data: Mapping[str, Any]) -> str:
    """The plane in the colours of the classes, and the points."""

    def place(x: float, y: float) -> tuple[float, float]:
        return (LEFT + (x / data["reach"] + 1) / 2 * SIDE, TOP + (1 - y / data["reach"]) / 2 * SIDE)

    sure = [[2 * p - 1 for p in row] for row in reversed(data["probability of class 1"])]  # -1 to 1, the top row first
    marks = [((v / data["reach"] + 1) / 2, f"{v:g}") for v in (-1, -0.5, 0, 0.5, 1)]
    dots = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" stroke-width="0.8" class="f-{k} s-ground"/>'
        for (x, y), k in ((place(*p), k) for p, k in zip(data["points"], data["classes"], strict=True))
    )
    legend = (
        part
        for k in (0, 1)
        for part in (
            f'<circle cx="{LEFT + 6 + 120 * k}" cy="{TOP + SIDE + 64}" r="5" class="f-{k}"/>',
            text(LEFT + 18 + 120 * k, TOP + SIDE + 68, f"class {k}"),
        )
    )
    return document(
        "Decision boundary of the tutorial's network",
        LEFT + SIDE + 22,
        TOP + SIDE + 104,
        [
            heading("Two spirals: what the tutorial's network has learnt"),
            *cells(LEFT, TOP, SIDE / len(sure), sure, 1.0, ("0", "1"), 0.42),
            *dots,
            *frame(LEFT, TOP, SIDE, SIDE, marks, marks, ("x₀", "x₁")),
            *legend,
            footnote(
                "The plane's shade is the probability of the class; it fades at the boundary.", TOP + SIDE + 92, LEFT
            ),
        ],
    )
