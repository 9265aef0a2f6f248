"""The correlation that a direct convolution computes: the taps of output pixels, tiles of pixels, and runs of taps.

Forward convolution and the gradient of the input are both one correlation.  `Correlation` lists the taps of every
output row and column.  Stride, padding and dilation, forward or transposed, differ only in these lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nacre.base.cached_property import cached_property
from nacre.base.records import dataclass
from nacre.codegen.convolution.sequence import ceil_div
from nacre.kernel.order_convolution import Convolution, Taps


@dataclass(frozen=True)
class Correlation:
    """The reduction into each output pixel; sizes are those of one group."""

    groups: int
    inputs: int
    outputs: int
    in_shape: tuple[int, int]
    kernel: tuple[int, int]
    rows: tuple[Taps, ...]
    columns: tuple[Taps, ...]
    phase: int  # output columns at this distance have the same taps
    reach: int  # and read input columns at this distance

    @property
    def out_shape(self) -> tuple[int, int]:
        """Output rows and columns."""
        return len(self.rows), len(self.columns)

    @cached_property
    def row_step(self) -> tuple[int, int]:
        """From one tap of a row to the next: the step in kh, and in the input row."""
        for taps in self.rows:
            if len(taps) > 1:
                return taps[1][0] - taps[0][0], taps[1][1] - taps[0][1]
        return 1, 0

    @cached_property
    def even_step(self) -> int | None:
        """The input rows from one output row to the next, if all have the same taps from 0 on; None otherwise."""
        first, *others = self.rows or ((),)
        if not first or first[0] != (0, 0):
            return None
        step = others[0][0][1] if others and others[0] else 1
        moved = (tuple((kh, i + row * step) for kh, i in first) for row in range(1, len(self.rows)))
        return step if all(taps == now for taps, now in zip(others, moved, strict=True)) else None


def forward_correlation(conv: Convolution) -> Correlation:
    """The correlation of a forward convolution."""
    rows, columns = conv.rows, conv.columns
    return Correlation(
        conv.groups,
        conv.group_channels,
        conv.group_filters,
        (rows.size, columns.size),
        (rows.kernel, columns.kernel),
        tuple(rows.taps(i) for i in range(rows.out)),
        tuple(columns.taps(i) for i in range(columns.out)),
        1,
        columns.stride,
    )


def gradient_correlation(conv: Convolution) -> Correlation:
    """The correlation that computes the gradient of the input from that of the output."""
    rows, columns = conv.rows, conv.columns
    return Correlation(
        conv.groups,
        conv.group_filters,
        conv.group_channels,
        (rows.out, columns.out),
        (rows.kernel, columns.kernel),
        tuple(rows.hits(i) for i in range(rows.size)),
        tuple(columns.hits(i) for i in range(columns.size)),
        columns.stride,
        1,
    )


@dataclass(frozen=True)
class Tile:
    """Pixels of one output row: the first pixel's column, and their taps relative to it.

    `taps` has (kw, input column relative to `base`, pixels that have the tap), kw ascending.
    """

    column: int
    base: int
    pixels: int
    taps: tuple[tuple[int, int, tuple[int, ...]], ...]

    @property
    def shape(self) -> tuple[int, tuple[tuple[int, int, tuple[int, ...]], ...]]:
        """The properties on which the micro-kernel depends."""
        return self.pixels, self.taps


def column_tiles(c: Correlation, most: int, *, even: bool = True) -> list[Tile]:
    """Cut the output columns into tiles of at most `most` pixels, each within one phase.

    The tiles of a phase have equal lengths, or all but the last have `most` pixels.
    """
    tiles: list[Tile] = []
    for residue in range(min(c.phase, len(c.columns))):
        columns = list(range(residue, len(c.columns), c.phase))
        count = ceil_div(len(columns), most)
        size, longer = divmod(len(columns), count)
        start = 0
        for t in range(count):
            end = start + size + (t < longer) if even else min(start + most, len(columns))
            tiles.append(_tile(c, columns[start:end]))
            start = end
    return tiles


def _tile(c: Correlation, columns: Sequence[int]) -> Tile:
    """The taps of the given output columns, by kw."""
    found: dict[int, dict[int, int]] = {}
    for pixel, column in enumerate(columns):
        for kw, i in c.columns[column]:
            found.setdefault(kw, {})[pixel] = i - pixel * c.reach
    starts = {kw: next(iter(pixels.values())) for kw, pixels in sorted(found.items())}
    base = min(starts.values(), default=0)
    taps = tuple((kw, start - base, tuple(found[kw])) for kw, start in starts.items())
    return Tile(columns[0], base, len(columns), taps)


def tile_runs(tiles: Sequence[Tile], c: Correlation) -> list[tuple[Tile, int]]:
    """Groups of successive tiles that differ only in their place: the first tile and the number of tiles."""
    runs: list[tuple[Tile, int]] = []
    for tile in tiles:
        if runs and _follows(runs[-1][0], tile, runs[-1][1], c):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((tile, 1))
    return runs


def _follows(first: Tile, tile: Tile, distance: int, c: Correlation) -> bool:
    """Whether a tile continues a run of equal tiles that began `distance` tiles ago."""
    step = distance * first.pixels
    return (
        tile.shape == first.shape
        and tile.column == first.column + step * c.phase
        and tile.base == first.base + step * c.reach
    )


@dataclass(frozen=True)
class TapRun:
    """Successive kw with the same pixels and evenly spaced input columns; one loop."""

    kw: int
    count: int
    kw_step: int
    column: int
    column_step: int
    pixels: tuple[int, ...]

    def step_to(self, kw: int, column: int) -> tuple[int, int]:
        """The steps in kw and input column from the run's last tap to another tap."""
        done = self.count - 1
        return (kw - self.kw - done * self.kw_step, column - self.column - done * self.column_step)


def tap_runs(taps: Sequence[tuple[int, int, tuple[int, ...]]]) -> list[TapRun]:
    """Group a tile's taps into runs."""
    runs: list[TapRun] = []
    for kw, column, pixels in taps:
        if runs and runs[-1].pixels == pixels:
            run = runs[-1]
            steps = run.step_to(kw, column)
            if run.count == 1 or steps == (run.kw_step, run.column_step):
                runs[-1] = replace(run, count=run.count + 1, kw_step=steps[0], column_step=steps[1])
                continue
        runs.append(TapRun(kw, 1, 0, column, 0, pixels))
    return runs
