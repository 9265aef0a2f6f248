"""Charts with logarithmic axes as SVG: lines and points, a grid, a legend.

    >>> chart = Chart("squares", "n", "n²", (Series("n²", ((1, 1), (10, 100))),))
    >>> chart.svg().startswith("<svg")
    True
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 860, 520
LEFT, RIGHT, TOP, BOTTOM = 72, 230, 44, 56
COLOURS = ("#2f6db5", "#c8502f", "#3f8f4f", "#8a56ac", "#b8860b", "#2a9d9d", "#c2447e", "#6b6b6b", "#7a5230", "#4c4c9c")


@dataclass(frozen=True)
class Series:
    """Named points (x, y), both positive; joined by a line, or each by itself with a radius and a tooltip."""

    name: str
    points: tuple[tuple[float, float], ...]
    joined: bool = True
    dashed: bool = False
    radii: tuple[float, ...] = ()
    tips: tuple[str, ...] = ()


@dataclass(frozen=True)
class Chart:
    """Series over logarithmic axes."""

    title: str
    across: str
    up: str
    series: tuple[Series, ...]

    def svg(self) -> str:
        """The chart as a standalone SVG document."""
        xs, ys = zip(*(p for s in self.series for p in s.points), strict=True)
        frame = _Frame(_whole(xs), _whole(ys))
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
class _Frame:
    """Where numbers lie on the page: the axes' powers of ten."""

    x: tuple[int, int]
    y: tuple[int, int]

    def place(self, x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - self.x[0]) / (self.x[1] - self.x[0])
        up = (math.log10(y) - self.y[0]) / (self.y[1] - self.y[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    def grid(self, across: str, up: str) -> Iterator[str]:
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        for power in range(self.x[0], self.x[1] + 1):
            x, _ = self.place(10.0**power, 10.0**self.y[0])
            yield f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{bottom}" stroke="#ddd"/>'
            yield f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{_power(power)}</text>'
        for power in range(self.y[0], self.y[1] + 1):
            _, y = self.place(10.0**self.x[0], 10.0**power)
            yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="#ddd"/>'
            yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_power(power)}</text>'
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


def _whole(values: tuple[float, ...]) -> tuple[int, int]:
    """The powers of ten around positive numbers."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _power(power: int) -> str:
    """A power of ten, short."""
    return f"{10**power:,}" if 0 <= power <= 3 else f"{10.0**power:g}" if -3 <= power < 0 else f"1e{power}"
