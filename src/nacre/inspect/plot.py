"""Charts as SVG with linear or logarithmic axes: lines and points, a grid, a legend; light or dark as the reader's
system is.

    >>> chart = Chart("squares", "n", "n²", (Series("n²", ((1, 1), (10, 100))),))
    >>> chart.svg().startswith("<svg")
    True
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from nacre.base.records import dataclass

WIDTH, PLOT = 560, 300  # of a chart, and the height of the area inside its axes
LEFT, RIGHT, TOP = 76, 22, 44
UNDER = 52  # for the marks and the name of the horizontal axis
LINE, LETTER, SWATCH = 20, 7.5, 30  # of the legend: a line's height, a letter's and a coloured square's width
LIGHT = ("#2f6db5", "#c8502f", "#3f8f4f", "#8a56ac", "#a87800", "#1f8a8a", "#c2447e", "#6b6b6b", "#7a5230", "#4c4c9c")
DARK = ("#6ea8e8", "#f08c66", "#6fc283", "#bf92e2", "#dfb23c", "#5cc8c8", "#f083b4", "#a8a8a8", "#c49a78", "#9a9aea")
SHADES = {
    "ground": ("#ffffff", "#131519"),
    "ink": ("#1f2328", "#e4e6ea"),
    "faint": ("#5b6570", "#9aa4af"),
    "panel": ("#f3f5f8", "#1f232a"),
    "grid": ("#d9dee4", "#343a44"),
}  # in light and in dark


def _rules(dark: bool) -> str:
    shades = {name: pair[dark] for name, pair in SHADES.items()}
    shades |= {str(k): colour for k, colour in enumerate(DARK if dark else LIGHT)}
    return "".join(f".nacre .f-{name}{{fill:{c}}}.nacre .s-{name}{{stroke:{c}}}" for name, c in shades.items())


STYLE = (
    f"<style>{_rules(False)}@media (prefers-color-scheme: dark){{{_rules(True)}}}"
    "@media (max-width: 430px){.nacre{font-size:15px}}</style>"
)  # for small pictures


def document(title: str, width: float, height: float, body: Iterable[str]) -> str:
    """A picture as a standalone SVG document: its title, and elements with the classes of `STYLE`.

    Class `f-NAME` fills and `s-NAME` strokes, where NAME is of `SHADES` or the number of a series' colour.

    >>> print(document("dot", 20, 20, ['<circle cx="10" cy="10" r="5" class="f-0"/>'])[:4])
    <svg
    """
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="nacre" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" font-family="sans-serif" font-size="13">'
    )
    return "\n".join(
        [
            head,
            f"<title>{escape(title)}</title>",
            STYLE,
            f'<rect width="{width:g}" height="{height:g}" class="f-ground"/>',
            *body,
            "</svg>",
            "",
        ]
    )


def heading(title: str, x: float = 16) -> str:
    """The title line of a picture."""
    return f'<text x="{x:g}" y="26" font-size="15" font-weight="bold" class="f-ink">{escape(title)}</text>'


def footnote(text: str, y: float, x: float = 16) -> str:
    """A line of small print, such as where a picture's times were measured."""
    return f'<text x="{x:g}" y="{y:g}" font-size="11.5" class="f-faint">{escape(text)}</text>'


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
    """Series over axes: logarithmic (for positive numbers) or linear.  A note stands below the legend."""

    title: str
    across: str
    up: str
    series: tuple[Series, ...]
    logarithmic: tuple[bool, bool] = (True, True)
    note: str = ""

    def svg(self) -> str:
        """The chart as a standalone SVG document."""
        xs, ys = zip(*(p for s in self.series for p in s.points), strict=True)
        kinds = [LogarithmicAxis if log else LinearAxis for log in self.logarithmic]
        frame = _Frame(kinds[0].around(xs), kinds[1].around(ys))
        lines = [heading(self.title), *frame.grid(self.across, self.up)]
        for k, s in enumerate(self.series):
            lines += _drawn(frame, s, k % len(LIGHT))
        legend, height = _legend([s.name for s in self.series], TOP + PLOT + UNDER)
        if self.note:
            legend.append(footnote(self.note, height + 6, LEFT))
            height += 22
        return document(self.title, WIDTH, height, [*lines, *legend])


def _legend(names: Sequence[str], top: float) -> tuple[list[str], float]:
    """The series' names, in lines one below another, and where they end."""
    lines: list[str] = []
    x, y = float(LEFT), top + 14
    for k, name in enumerate(names):
        wide = SWATCH + LETTER * len(name)
        if x > LEFT and x + wide > WIDTH:
            x, y = float(LEFT), y + LINE
        lines += [
            f'<rect x="{x:.1f}" y="{y - 10:.1f}" width="11" height="11" class="f-{k % len(LIGHT)}"/>',
            f'<text x="{x + 16:.1f}" y="{y:.1f}" class="f-ink">{escape(name)}</text>',
        ]
        x += wide
    return lines, y + 14


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
    """The positions of numbers on the page."""

    x: Axis
    y: Axis

    def place(self, x: float, y: float) -> tuple[float, float]:
        """The point of the page for a pair of numbers."""
        return LEFT + self.x.place(x) * (WIDTH - LEFT - RIGHT), TOP + (1 - self.y.place(y)) * PLOT

    def grid(self, across: str, up: str) -> Iterator[str]:
        right, bottom, middle = WIDTH - RIGHT, TOP + PLOT, TOP + PLOT / 2
        for value, text in self.x.ticks():
            x = LEFT + self.x.place(value) * (right - LEFT)
            yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" class="s-grid"/>'
            yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle" class="f-faint">{text}</text>'
        for value, text in self.y.ticks():
            y = bottom - self.y.place(value) * PLOT
            yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" class="s-grid"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end" class="f-faint">{text}</text>'
        yield (
            f'<text x="{(LEFT + right) / 2}" y="{bottom + 40}" text-anchor="middle" class="f-ink">{escape(across)}'
            "</text>"
        )
        yield (
            f'<text x="16" y="{middle}" text-anchor="middle" transform="rotate(-90 16 {middle})" class="f-ink">'
            f"{escape(up)}</text>"
        )


def _drawn(frame: _Frame, s: Series, colour: int) -> Iterator[str]:
    placed = [frame.place(x, y) for x, y in s.points]
    if s.joined:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        dash = ' stroke-dasharray="5 4"' if s.dashed else ""
        yield f'<polyline points="{path}" fill="none" stroke-width="2"{dash} class="s-{colour}"/>'
    for k, (x, y) in enumerate(placed if s.radii or not s.joined else ()):
        radius = s.radii[k] if s.radii else 4.0
        tip = f"<title>{escape(s.tips[k])}</title>" if s.tips else ""
        yield (
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill-opacity="0.55" '
            f'class="f-{colour} s-{colour}">{tip}</circle>'
        )


def _power(power: int) -> str:
    """A power of ten, short."""
    return f"{10**power:,}" if 0 <= power <= 3 else f"{10.0**power:g}" if -3 <= power < 0 else f"1e{power}"
