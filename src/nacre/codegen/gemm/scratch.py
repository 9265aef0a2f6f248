"""What a block of a matrix product keeps in a thread's scratch memory, and where."""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.codegen.gemm.element_types import Numbers
from nacre.codegen.gemm.plan import BLOCK, GemmTiling
from nacre.codegen.gemm.prefetch import ROOM
from nacre.codegen.gemm.tile import Shape


@dataclass(frozen=True)
class ScratchLayout:
    """The sizes, in elements and bytes, of what a block keeps in a thread's scratch memory."""

    numbers: Numbers
    shape: Shape
    narrow: Numbers | None = None  # of a matrix of a narrower type, which the kernel for few rows takes

    @property
    def matrix(self) -> Numbers:
        """Of B."""
        return self.narrow or self.numbers

    @property
    def lanes(self) -> int:
        return self.numbers.lanes

    @property
    def panel(self) -> int:
        return self.shape.vectors * self.lanes

    @property
    def row(self) -> int:
        """Elements from row to row of a packed band of A; the odd cache line keeps rows from aliasing."""
        return BLOCK + 64 // self.numbers.bytes

    @property
    def across(self) -> int:
        """Elements from k to k of a packed band of a transposed A: whole vectors."""
        return -(-self.shape.tall // self.lanes) * self.lanes

    @property
    def tile(self) -> int:
        """Bytes of the sums of a tile."""
        return _line(self.shape.tall * self.panel * self.numbers.bytes)

    @property
    def list_at(self) -> int:
        """Where the list of addresses begins that a tile asks for: behind two tiles, of which one may wait."""
        return 2 * self.tile

    @property
    def band_at(self) -> int:
        """Where packed bands of A begin."""
        return self.list_at + ROOM

    @property
    def band(self) -> int:
        """Bytes of a packed band of A."""
        return _line(max(self.shape.tall * self.row, BLOCK * self.across) * self.numbers.bytes)

    @property
    def block_at(self) -> int:
        """Where packed B begins: behind the two bands that are read and written in turn."""
        return self.band_at + 2 * self.band

    def tiling(self, spills: bool, thin: bool) -> GemmTiling:
        """What of it decides plans."""
        return GemmTiling(
            self.lanes,
            self.numbers.bytes,
            self.shape.tall,
            self.shape.short,
            self.panel,
            self.block_at,
            spills,
            thin,
            self.numbers.group,
        )


def _line(size: int) -> int:
    return -(-size // 64) * 64
