"""Training curves in the terminal: training and validation in one frame, drawn with braille dots."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from nacre.inspect.plot import LinearAxis
from nacre.train.history import VALID, History

WIDTH, HEIGHT = 64, 12  # characters inside of the frame
ACROSS, DOWN = 2, 4  # dots in a character
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # the bits of a braille character, by column and row
BLANK = 0x2800
STYLES = {"training": "blue", "validation": "red"}
Points = Sequence[tuple[float, float]]


class _Canvas:
    """Characters of dots, each with the name of the series that was drawn there last."""

    def __init__(self, x: LinearAxis, y: LinearAxis) -> None:
        self.x, self.y = x, y
        self.bits = [[0] * WIDTH for _ in range(HEIGHT)]
        self.names = [[""] * WIDTH for _ in range(HEIGHT)]

    def dot(self, across: int, down: int, name: str) -> None:
        """Set a dot, counted from the left and the top."""
        row, column = down // DOWN, across // ACROSS
        self.bits[row][column] |= DOTS[across % ACROSS][down % DOWN]
        self.names[row][column] = name

    def place(self, x: float, y: float) -> tuple[int, int]:
        """The dot for a pair of numbers."""
        return (round(self.x.place(x) * (WIDTH * ACROSS - 1)), round((1 - self.y.place(y)) * (HEIGHT * DOWN - 1)))

    def line(self, points: Points, name: str) -> None:
        """Join points by lines."""
        placed = [self.place(x, y) for x, y in points]
        for (x0, y0), (x1, y1) in zip(placed, placed[1:] or placed, strict=False):
            count = max(abs(x1 - x0), abs(y1 - y0), 1)
            for k in range(count + 1):
                self.dot(round(x0 + (x1 - x0) * k / count), round(y0 + (y1 - y0) * k / count), name)


def drawn(history: History, name: str = "loss") -> Text | None:
    """A measure of the training data and of the validation data, by epoch; None for fewer than two epochs.

    >>> rows = [{"epoch": k, "loss": 1 / k, "valid_loss": 0.3 + abs(k - 4) / 10} for k in range(1, 9)]
    >>> print(drawn(History(rows)).plain.splitlines()[0])
    loss: training (blue, 0.125), validation (red, 0.7)
    """
    series = {kind: history.points(prefix + name) for kind, prefix in (("training", ""), ("validation", VALID))}
    series = {kind: points for kind, points in series.items() if points}
    every = [p for points in series.values() for p in points]
    if len({x for x, _ in every}) < 2:
        return None
    canvas = _Canvas(LinearAxis.around([x for x, _ in every]), LinearAxis.around([y for _, y in every]))
    for kind, points in series.items():
        canvas.line(points, kind)
    output = Text(f"{name}: ")
    for k, (kind, points) in enumerate(series.items()):
        output.append(", " * (k > 0))
        output.append(f"{kind} ({STYLES[kind]}, {points[-1][1]:.4g})", STYLES[kind])
    marks = {canvas.place(0, value)[1] // DOWN: text for value, text in canvas.y.ticks()}
    for row in range(HEIGHT):
        output.append(f"\n{marks.get(row, ''):>8} {'┤' if row in marks else '│'}")
        for bits, kind in zip(canvas.bits[row], canvas.names[row], strict=True):
            output.append(chr(BLANK + bits) if bits else " ", STYLES.get(kind))
    return output.append(f"\n{'':>8} └{'─' * WIDTH}\n{'':>10}").append(_beneath(canvas.x))


def _beneath(axis: LinearAxis) -> str:
    """The marks of the axis across, where they fit."""
    line = ""
    for value, text in axis.ticks():
        at = round(axis.place(value) * (WIDTH - 1))
        if at >= len(line) and at + len(text) <= WIDTH + 4:
            line = line.ljust(at) + text + " "
    return line + "epoch"
