"""What the first layer of the trained digits network looks for, and what it finds in one image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import digits
from drawing import box, cells, text

import nacre as nc
from nacre.inspect.plot import document, heading

BY_NAME = False
IMAGE = 3  # of the images held back
LEFT, ACROSS, WIDTH = 16, 8, 560
FILTER, MAP = 15.0, 7.2  # the side of a cell
STEP = 66  # from one matrix to the next


def collect() -> dict[str, Any]:
    """The 16 filters, an image, and the 16 maps of it after the first normalisation and ReLU."""
    run, _ = digits.trained()
    model = run.trainer.model
    image, label = run.validation.dataset[IMAGE]
    with nc.no_grad():
        model.eval()
        maps = nc.asarray(image)[None]
        for layer in list(model)[:3]:
            maps = layer(maps)
    filters = model.state_dict()["0.weight"]
    return {
        "example": "digits",
        "seed": digits.SEED,
        "label": int(label),
        "image": rounded(nc.asarray(image)[0]),
        "filters": rounded(filters[:, 0]),
        "maps": rounded(maps[0]),
    }


def rounded(x: Any) -> Any:
    """Numbers in lists, with four digits after the point."""
    return x.numpy().astype("float64").round(4).tolist()


def draw(data: Mapping[str, Any]) -> str:
    """The image, the filters and the maps."""
    strongest = max(abs(v) for f in data["filters"] for row in f for v in row)
    brightest = max(v for m in data["maps"] for row in m for v in row)
    body = [
        heading("The first layer of the trained digits network"),
        text(LEFT, 56, f"One image that the network has not seen: a {data['label']}"),
        *_grey(LEFT, 66, 11, data["image"], 1.0),
    ]
    for k, sign in enumerate(("negative weights", "positive weights")):
        body += [box(LEFT + 110, 100 + 20 * k, 12, 12, str(k)), text(LEFT + 128, 110 + 20 * k, sign, "faint")]
    top = 186
    body.append(text(LEFT, top, "The 16 filters of 3 × 3 weights"))
    for k, weights in enumerate(data["filters"]):
        body += cells(LEFT + k % ACROSS * STEP, top + 12 + k // ACROSS * 58, FILTER, weights, strongest, ("0", "1"))
    top += 152
    body.append(text(LEFT, top, "What each filter finds (after batch normalisation and ReLU)"))
    for k, found in enumerate(data["maps"]):
        body += _grey(LEFT + k % ACROSS * STEP, top + 12 + k // ACROSS * STEP, MAP, found, brightest)
    return document("Filters of the digits network", WIDTH, top + 150, body)


def _grey(x: float, y: float, side: float, rows: list[list[float]], most: float) -> Iterator[str]:
    """Numbers that are not negative, from the panel's colour to the ink's."""
    yield box(x, y, side * len(rows[0]), side * len(rows), "panel")
    yield from cells(x, y, side, rows, most, ("ink", "ink"))
