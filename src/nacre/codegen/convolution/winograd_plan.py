"""The division of the work of Winograd's convolution, and the layout of its data."""

from __future__ import annotations

from nacre.base.cached_property import cached_property
from nacre.base.records import dataclass
from nacre.codegen.convolution.pack import PanelLayout
from nacre.codegen.convolution.sequence import ceil_div, panel_vectors, round_up
from nacre.kernel.order_winograd import PATCH, TILE, Sides

POINTS = PATCH * PATCH
FILTERS_IN_CACHE = 1 << 20
CHUNK = 64  # channels of a chunk; divides the channels of a chain
TILES_OF_ROW_PANEL = 16  # of a work item that transforms its own pixels
TILES_OF_BLOCK = 64  # that a work item of one panel processes at a time


@dataclass(frozen=True)
class WinogradPlan:
    """The division of the work, and the layout of its data; sizes are in elements."""

    sides: Sides
    lanes: int
    registers: int
    element: int

    @cached_property
    def vectors(self) -> int:
        """Vectors of output channels in a panel."""
        return panel_vectors(self.sides.outputs, self.lanes)

    @property
    def width(self) -> int:
        """Output channels of a panel."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        """Panels of one group."""
        return ceil_div(self.sides.outputs, self.width)

    @property
    def chunk(self) -> int:
        """Channels of a chunk."""
        return min(CHUNK, round_up(max(1, self.sides.inputs), self.lanes))

    @property
    def chunks(self) -> int:
        """Chunks of one group; one, which is empty, without channels."""
        return ceil_div(max(1, self.sides.inputs), self.chunk)

    @property
    def filters(self) -> PanelLayout:
        """The filters as panels, which locate them in w."""
        sides = self.sides
        return PanelLayout(sides.groups, sides.outputs, sides.inputs, 9, self.width, self.chunk)

    @property
    def filter_step(self) -> int:
        """The step from one point of the filters to the next; not a multiple of a page."""
        return (self.chunk + 1) * self.width

    @cached_property
    def by_row_panel(self) -> bool:
        """Whether a work item is a row panel of tiles instead of a panel of filters."""
        return POINTS * self.sides.inputs * self.panels * self.width * self.element <= FILTERS_IN_CACHE

    @property
    def image_tiles(self) -> int:
        """Tiles of one image."""
        down, across = self.sides.tiles
        return down * across

    @cached_property
    def row_panel(self) -> int:
        """Rows of tiles that are processed together."""
        down, across = self.sides.tiles
        most = TILES_OF_ROW_PANEL if self.by_row_panel else TILES_OF_BLOCK
        return ceil_div(down, ceil_div(down, max(1, most // across)))

    @property
    def row_panels(self) -> int:
        """Row panels of an image."""
        return ceil_div(self.sides.tiles[0], self.row_panel)

    @cached_property
    def images(self) -> int:
        """Images that are processed together: a power of two; one unless a row panel is an image."""
        found = 1
        while not self.by_row_panel and self.row_panels == 1 and 2 * found * self.image_tiles <= TILES_OF_BLOCK:
            found *= 2
        return found

    @property
    def block(self) -> int:
        """Tiles that are processed together, at most."""
        return self.images * self.row_panel * self.sides.tiles[1]

    @cached_property
    def rows(self) -> list[int]:
        """Tiles of the register tiles, descending: taken greedily, they fill every block."""
        most = (self.registers - 4) // self.vectors
        if self.images > 1 and self.image_tiles <= most:
            sizes = [self.image_tiles]
            while 2 * sizes[0] <= min(most, self.block):
                sizes.insert(0, 2 * sizes[0])
            return sizes
        down, across = self.sides.tiles
        last = down - (self.row_panels - 1) * self.row_panel
        blocks = {k * n * across for n in (self.row_panel, last) for k in range(1, self.images + 1)}
        whole = self.row_panel * across
        size = ceil_div(whole, ceil_div(whole, most))
        return sorted({size, *(n % size for n in blocks)} - {0}, reverse=True)

    @property
    def sums_step(self) -> int:
        """The step from one point of the sums to the next; not a multiple of a page."""
        return (self.block + 1) * self.width

    @property
    def line(self) -> int:
        """Pixels of a line that a row of tiles reads."""
        return TILE * self.sides.tiles[1] + 2

    @property
    def lines(self) -> int:
        """Elements of the lines that a row panel reads, by channel."""
        return (TILE * self.row_panel + 2) * self.line * self.lanes

    @property
    def pixels(self) -> int:
        """Pixels of a finished row panel, with room for its last tiles."""
        return round_up((TILE * self.row_panel + 1) * max(TILE, self.sides.out_shape[1]), self.lanes)
