"""How the gradient of a convolution's weights is divided into lanes, tiles and work items."""

from __future__ import annotations

from math import gcd

from nacre.base.cached_property import cached_property
from nacre.base.records import dataclass
from nacre.codegen.convolution.pixel_pairs import PixelPairs
from nacre.codegen.convolution.sequence import ceil_div, panel_vectors, round_up
from nacre.kernel.order_convolution import Convolution, restart_rows

ITEMS_OF_THREAD = 2
FEWEST_ROWS = 48  # rows of an item that pay for transposing dy
LARGEST_SUMS = 4  # largest size of the workspace of sums, in multiples of dy
SUMS_IN_CACHE = 256 << 10
ALIAS = 2048  # plane strides that are a multiple of this many bytes use few cache sets
ALIASED_CHANNELS = 6


@dataclass(frozen=True)
class Segment:
    """Elements start … end of a row of dy that have the same taps kw."""

    start: int
    end: int
    kws: tuple[int, ...]


@dataclass(frozen=True)
class WeightPlan:
    """How the weight gradient is divided: lanes, tiles and work items."""

    conv: Convolution
    lanes: int
    registers: int
    element: int
    threads: int
    depthwise: bool  # each lane has an input channel of its own; `conv` then has only one
    result: str  # the type of dw
    pairs: PixelPairs | None = None  # of bfloat16, instead of pixels

    @property
    def vectors(self) -> int:
        """Vectors of output channels in a tile."""
        return 1 if self.depthwise else panel_vectors(self.conv.group_filters, self.lanes)

    @property
    def pixel(self) -> int:
        """Elements of a pixel of x: one, or one for each lane with packed lanes."""
        return self.lanes if self.depthwise else 1

    @property
    def width(self) -> int:
        """Output channels of a panel."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        """Panels of all groups."""
        return self.group_panels * self.conv.groups

    @property
    def group_panels(self) -> int:
        """Panels of one group."""
        return ceil_div(self.conv.group_filters, self.width)

    @property
    def plane(self) -> int:
        """Elements of one channel of x."""
        return self.conv.rows.size * self.line

    @property
    def line(self) -> int:
        """Elements of one row of x: pixels or pairs."""
        return self.conv.columns.size if self.pairs is None else self.pairs.line

    @property
    def result_row(self) -> int:
        """Elements of one row of dy: pixels or pairs."""
        return self.conv.columns.out if self.pairs is None else self.pairs.results

    def place(self, kw: int) -> int:
        """The place in a row of x of the element that a tap multiplies with the first one of dy."""
        axis = self.conv.columns
        return kw * axis.dilation - axis.low if self.pairs is None else self.pairs.place(kw)

    @cached_property
    def kw_chunk(self) -> int:
        """Successive kw of one tile."""
        kernel = self.conv.columns.kernel
        return ceil_div(kernel, ceil_div(kernel, self._tile_rows))

    @property
    def _tile_rows(self) -> int:
        return (self.registers - 2 - self.vectors) // self.vectors

    @cached_property
    def tile_channels(self) -> int:
        """Channels of one tile."""
        most = max(1, self._tile_rows // self.kw_chunk)
        if self.plane * self.element % ALIAS == 0:
            most = min(most, ALIASED_CHANNELS)
        channels = max(1, self.conv.group_channels)
        return ceil_div(channels, ceil_div(channels, most))

    @cached_property
    def panel_items(self) -> int:
        """Work items that share a panel: enough for the threads, each with enough rows."""
        rows = self.conv.group_channels * self.conv.taps
        count = ceil_div(ITEMS_OF_THREAD * self.threads, self.panels)
        size = rows * self.width * self.element
        return max(1, min(count, rows // FEWEST_ROWS), ceil_div(size, SUMS_IN_CACHE))

    @cached_property
    def part_channels(self) -> int:
        """Channels of a unit; a unit is these channels of one kernel row."""
        channels = max(1, self.conv.group_channels)
        parts = self.panel_items // gcd(self.panel_items, self.conv.rows.kernel)
        return min(round_up(ceil_div(channels, parts), self.tile_channels), channels)

    @property
    def parts(self) -> int:
        """Units of one kernel row."""
        return ceil_div(max(1, self.conv.group_channels), self.part_channels)

    @property
    def units(self) -> int:
        """Units of one panel."""
        return self.parts * self.conv.rows.kernel

    @property
    def unit_size(self) -> int:
        """Elements of the sums of one unit."""
        return self.part_channels * self.conv.columns.kernel * self.width

    @cached_property
    def item_units(self) -> int:
        """Units of one work item."""
        return self.units if self.by_image else ceil_div(self.units, self.panel_items)

    @cached_property
    def by_image(self) -> bool:
        """Whether a work item is an image, because there are too few weights to divide."""
        if self.panels * self.panel_items >= ITEMS_OF_THREAD * self.threads // 2:
            return False
        image = self.conv.filters * self.conv.rows.out * self.conv.columns.out
        sums = self.blocks * self.panels * self.conv.group_channels * self.conv.taps * self.width
        return sums <= LARGEST_SUMS * image

    @property
    def block_rows(self) -> int:
        """Output rows of one chain."""
        return min(restart_rows(self.conv.columns.out), max(1, self.conv.rows.out))

    @property
    def blocks(self) -> int:
        """Chains of one image."""
        return ceil_div(self.conv.rows.out, self.block_rows) if self.conv.columns.out else 0

    @property
    def block_lines(self) -> int:
        """Input rows that a block of output rows reads, at most."""
        rows = self.conv.rows
        return min(rows.size, (self.block_rows - 1) * rows.stride + (rows.kernel - 1) * rows.dilation + 1)

    def segments(self, kw: int) -> list[Segment]:
        """The elements of a row of dy by their taps among kw … kw + kw_chunk."""
        if self.pairs is not None:
            return [Segment(0, self.pairs.results, tuple(range(self.conv.columns.kernel)[kw : kw + self.kw_chunk]))]
        found: list[Segment] = []
        for column in range(self.conv.columns.out):
            taps = self.conv.columns.taps(column)
            kws = tuple(k for k, _ in taps if kw <= k < kw + self.kw_chunk)
            if found and found[-1].kws == kws:
                found[-1] = Segment(found[-1].start, column + 1, kws)
            else:
                found.append(Segment(column, column + 1, kws))
        return [s for s in found if s.kws]
