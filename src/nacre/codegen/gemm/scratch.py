"""The layout of a thread's scratch memory in a block of a matrix product."""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.codegen.gemm.element_types import Numbers
from nacre.codegen.gemm.plan import BLOCK, GemmTiling
from nacre.codegen.gemm.prefetch import ROOM
from nacre.codegen.gemm.tile import Shape


@dataclass(frozen=True)
class ScratchLayout:
    """The sizes, in elements and bytes, of the parts of a thread's scratch memory."""

    numbers: Numbers
    shape: Shape
    narrow: Numbers | None = None  # of a matrix of a narrower type, which the GEMV kernel takes

    @property
    def matrix(self) -> Numbers:
        """The element types of B."""
        return self.narrow or self.numbers

    @property
    def lanes(self) -> int:
        return self.numbers.lanes

    @property
    def panel(self) -> int:
        return self.shape.vectors * self.lanes

    @property
    def row(self) -> int:
        """Elements of a row in a packed row panel of A; the odd cache line keeps rows from aliasing."""
        return BLOCK + 64 // self.numbers.bytes

    @property
    def across(self) -> int:
        """Elements of a k in a packed row panel of a transposed A: whole vectors."""
        return -(-self.shape.tall // self.lanes) * self.lanes

    @property
    def tile(self) -> int:
        """Bytes of the sums of a tile."""
        return _line(self.shape.tall * self.panel * self.numbers.bytes)

    @property
    def list_at(self) -> int:
        """Where a tile's prefetch list begins: behind two tiles, of which one may be pending."""
        return 2 * self.tile

    @property
    def panel_copies_at(self) -> int:
        """Where packed row panels of A begin."""
        return self.list_at + ROOM

    @property
    def panel_copy(self) -> int:
        """Bytes of a packed row panel of A."""
        return _line(max(self.shape.tall * self.row, BLOCK * self.across) * self.numbers.bytes)

    @property
    def block_at(self) -> int:
        """Where packed B begins: behind the two row panels that alternate."""
        return self.panel_copies_at + 2 * self.panel_copy

    def tiling(self, spills: bool, gemv: bool) -> GemmTiling:
        """The properties on which plans depend."""
        return GemmTiling(
            self.lanes,
            self.numbers.bytes,
            self.shape.tall,
            self.shape.short,
            self.panel,
            self.block_at,
            spills,
            gemv,
            self.numbers.group,
        )


def _line(size: int) -> int:
    return -(-size // 64) * 64
