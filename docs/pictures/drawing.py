"""Elements of pictures as SVG: text, lines of code in panels, cells in shades, axes with marks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

MONO = "font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\""
SHADES = 16  # of a colour
SPACE = ' xml:space="preserve"'  # keeps the indentation of code


def text(
    x: float, y: float, words: str, colour: str = "ink", anchor: str = "start", size: float = 0, bold: bool = False
) -> str:
    """Words at a place, in the size of the picture's text unless another is given."""
    large = f' font-size="{size:g}"' if size else ""
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{large}{weight} class="f-{colour}">{escape(words)}</text>'
    )


def code(x: float, y: float, line: str, size: float = 11.5, colour: str = "ink") -> str:
    """A line of code, its indentation kept."""
    return f'<text x="{x:.1f}" y="{y:.1f}" {MONO} font-size="{size:g}"{SPACE} class="f-{colour}">{escape(line)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str, opacity: float = 1.0, tip: str = "") -> str:
    """A filled rectangle, with a tooltip where one is given."""
    shade = "" if opacity == 1 else f' fill-opacity="{opacity:.3g}"'
    inside = f"<title>{escape(tip)}</title>" if tip else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"{shade} class="f-{fill}">{inside}'
        "</rect>"
    )


def cells(
    x: float,
    y: float,
    side: float,
    rows: Sequence[Sequence[float]],
    most: float,
    colours: tuple[str, str],
    opacity: float = 1.0,
) -> Iterator[str]:
    """A matrix as squares: as opaque as that at `most`; `colours` are those of negative and of positive numbers.

    Squares of one shade are one path, their neighbours in a row joined.
    """
    paths: dict[tuple[str, int], list[str]] = {}
    for i, row in enumerate(rows):
        at = 0
        for level, run in groupby(round(max(-1.0, min(1.0, v / most)) * SHADES) for v in row):
            count = len(list(run))
            path = f"M{x + at * side:.1f} {y + i * side:.1f}h{count * side:.1f}v{side:.1f}h{-count * side:.1f}z"
            paths.setdefault((colours[level > 0], abs(level)), []).append(path)
            at += count
    for (colour, level), drawn in sorted(paths.items()):
        if level:
            yield (
                f'<path d="{"".join(drawn)}" fill-opacity="{opacity * level / SHADES:.3g}" '
                f'shape-rendering="crispEdges" class="f-{colour}"/>'
            )


def frame(
    left: float,
    top: float,
    width: float,
    height: float,
    across: Sequence[tuple[float, str]],
    up: Sequence[tuple[float, str]],
    names: tuple[str, str],
) -> Iterator[str]:
    """Two axes around a rectangle: marks (place from 0 to 1, text) and the axes' names."""
    right, bottom = left + width, top + height
    for place, mark in across:
        x = left + place * width
        yield f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 5}" class="s-faint"/>'
        yield text(x, bottom + 19, mark, "faint", "middle")
    for place, mark in up:
        y = bottom - place * height
        yield f'<line x1="{left - 5}" y1="{y:.1f}" x2="{left}" y2="{y:.1f}" class="s-faint"/>'
        yield text(left - 9, y + 4, mark, "faint", "end")
    yield f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" class="s-faint"/>'
    yield text((left + right) / 2, bottom + 40, names[0], anchor="middle")
    middle = (top + bottom) / 2
    yield (
        f'<text x="16" y="{middle:.1f}" text-anchor="middle" transform="rotate(-90 16 {middle:.1f})" class="f-ink">'
        f"{escape(names[1])}</text>"
    )
