"""Charts as SVG with linear or logarithmic axes: lines and points, a grid, a legend.

    >>> chart = Chart("squares", "n", "n²", (Series("n²", ((1, 1), (10, 100))),))
    >>> chart.svg().startswith("<svg")
    True
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from nacre.base.records import dataclass

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 72, 230, 44, 56
COLOURS = ("#2f6db5", "#c8502f", "#3f8f4f", "#8a56ac", "#b8860b", "#2a9d9d", "#c2447e", "#6b6b6b", "#7a5230", "#4c4c9c")


@dataclass(frozen=True)
class Series:
    """Named points (x, y), joined by a line, or separate with a radius and a tooltip."""

    name: str
    points: tuple[tuple[float, float], ...]
    joined: bool = True
    dashed: bool = False
    radii: tuple[float, ...] = ()
    tips: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chart:
    """Series over axes: logarithmic (for positive numbers) or linear."""

    title: str
    across: str
    up: str
    series: tuple[Series, ...]
    logarithmic: tuple[bool, bool] = (True, True)

    def svg(self) -> str:
        """The chart as a standalone SVG document."""
        xs, ys = zip(*(p for s in self.series for p in s.points), strict=True)
        kinds = [LogarithmicAxis if log else LinearAxis for log in self.logarithmic]
        frame = _Frame(kinds[0].around(xs), kinds[1].around(ys))
        lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
                 'font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
                 f'<text x="{LEFT}" y="24" font-size="15" font-weight="bold">{escape(self.title)}</text>',
                 *frame.grid(self.across, self.up)]
        for k, s in enumerate(self.series):
            colour = COLOURS[k % len(COLOURS)]
            lines += _drawn(frame, s, colour)
            y = TOP + 8 + 18 * k
            lines += [f'<rect x="{WIDTH - RIGHT + 14}" y="{y - 9}" width="10" height="10" fill="{colour}"/>',
                      f'<text x="{WIDTH - RIGHT + 30}" y="{y}">{escape(s.name)}</text>']
        return "\n".join([*lines, "</svg>", ""])


@dataclass(frozen=True)
class LogarithmicAxis:
    """An axis from one power of ten to another."""

    low: int
    high: int

    @classmethod
    def around(cls, values: Sequence[float]) -> LogarithmicAxis:
        """The axis that covers positive numbers."""
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(low, max(high, low + 1))

    def place(self, value: float) -> float:
        """The position of a number, from 0 to 1."""
        return (math.log10(value) - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """The marked numbers, and their labels."""
        return [(10.0**power, _power(power)) for power in range(self.low, self.high + 1)]


@dataclass(frozen=True)
class LinearAxis:
    """An axis marked at multiples of a step of 1, 2 or 5 times a power of ten.

    >>> [text for _, text in LinearAxis.around((0.12, 0.9)).ticks()]
    ['0', '0.2', '0.4', '0.6', '0.8', '1']
    """

    first: int
    last: int
    step: float

    @classmethod
    def around(cls, values: Sequence[float]) -> LinearAxis:
        """The axis that covers numbers."""
        low, high = min(values), max(values)
        wide = high - low or abs(high) or 1.0
        power = 10.0 ** math.floor(math.log10(wide / 5))
        step = next(n * power for n in (1, 2, 5, 10) if wide / (n * power) <= 6)
        first = math.floor(low / step + 1e-9)
        return cls(first, max(math.ceil(high / step - 1e-9), first + 1), step)

    def place(self, value: float) -> float:
        """The position of a number, from 0 to 1."""
        return (value / self.step - self.first) / (self.last - self.first)

    def ticks(self) -> list[tuple[float, str]]:
        """The marked numbers, and their labels."""
        return [(k * self.step, f"{round(k * self.step, 12):.6g}") for k in range(self.first, self.last + 1)]


Axis = LogarithmicAxis | LinearAxis


@dataclass(frozen=True)
class _Frame:
    """Where numbers lie on the page."""

    x: Axis
    y: Axis

    def place(self, x: float, y: float) -> tuple[float, float]:
        """The point of the page for a pair of numbers."""
        return (LEFT + self.x.place(x) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - self.y.place(y) * (HEIGHT - TOP - BOTTOM))

    def grid(self, across: str, up: str) -> Iterator[str]:
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        for value, text in self.x.ticks():
            x = LEFT + self.x.place(value) * (right - LEFT)
            yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>'
            yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{text}</text>'
        for value, text in self.y.ticks():
            y = bottom - self.y.place(value) * (bottom - TOP)
            yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>'
        yield f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 14}" text-anchor="middle">{escape(across)}</text>'
        yield (f'<text x="18" y="{(TOP + bottom) / 2}" text-anchor="middle" '
               f'transform="rotate(-90 18 {(TOP + bottom) / 2})">{escape(up)}</text>')


def _drawn(frame: _Frame, s: Series, colour: str) -> Iterator[str]:
    placed = [frame.place(x, y) for x, y in s.points]
    if s.joined:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        dash = ' stroke-dasharray="5 4"' if s.dashed else ""
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>'
    for k, (x, y) in enumerate(placed if s.radii or not s.joined else ()):
        radius = s.radii[k] if s.radii else 4.0
        tip = f"<title>{escape(s.tips[k])}</title>" if s.tips else ""
        yield (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour}" fill-opacity="0.55" '
               f'stroke="{colour}">{tip}</circle>')


def _power(power: int) -> str:
    """A power of ten, short."""
    return f"{10**power:,}" if 0 <= power <= 3 else f"{10.0**power:g}" if -3 <= power < 0 else f"1e{power}"
