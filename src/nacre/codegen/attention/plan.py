"""How attention is divided into work items, and a thread's scratch memory into areas; no choice changes any bit."""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.codegen.gemm.plan import BLOCK
from nacre.kernel.order_attention import KEYS
from nacre.runtime.plan import Cut

LINE = 64  # bytes of a cache line
CHUNK = 512  # queries of an item, or fewer where there are few heads
LEAST = 32
EACH = 4  # items that every thread is to have
SHORTEST = 128  # keys, or queries, of an item of the derivative
WHOLE, APART = 5, 4 + 3  # products of a square of scores if all derivatives come of it, and if dq comes of another item

FORWARD = ("chunk", "chunks", "k_at", "v_at", "q_at", "s_at", "c_at", "row_at", "v_row", "q_row", "s_row", "c_row")
ONLINE = (*FORWARD, "row_apart")
BACKWARD = (
    "each",
    "key_items",
    "kt_at",
    "vt_at",
    "k_at",
    "q_at",
    "g_at",
    "p_at",
    "d_at",
    "c_at",
    "q_row",
    "g_row",
    "s_row",
    "c_row",
)


@dataclass(frozen=True)
class PanelModel:
    """What of a kernel decides its plans."""

    lanes: int
    bytes: int  # of an element
    tall: int  # rows of a register tile, and of a band

    def row(self, columns: int) -> int:
        """Bytes of a row in scratch memory: whole vectors, and a cache line to keep rows from aliasing."""
        return line(self.wide(columns)) + LINE

    def packed(self, depth: int, columns: int) -> int:
        """Bytes of a packed matrix."""
        return line(depth * self.wide(columns))

    def wide(self, columns: int) -> int:
        """Bytes of whole vectors."""
        return -(-columns // self.lanes) * self.lanes * self.bytes


def line(size: int) -> int:
    """Bytes in whole cache lines."""
    return -(-size // LINE) * LINE


def forward_cut(bands: PanelModel, sizes: tuple[int, ...], threads: int) -> Cut:
    """Items are chunks of a head's queries; the words are `FORWARD`, in bytes except the first two.

    Sizes are the heads, queries, keys, elements of queries and keys, elements of values.
    """
    heads, queries, keys, depth, width = sizes
    chunk = _chunk(heads, queries, threads)
    v_row, q_row, s_row = bands.row(width), bands.row(depth), bands.row(keys)
    areas = (
        bands.packed(depth, keys),
        keys * v_row,
        bands.tall * q_row,
        bands.tall * s_row,
        bands.tall * v_row,
        2 * line(bands.tall * bands.bytes),
    )
    chunks = -(-queries // chunk)
    return Cut(heads * chunks, 1, sum(areas), (chunk, chunks, *_starts(areas), v_row, q_row, s_row, v_row))


def online_cut(bands: PanelModel, sizes: tuple[int, ...], threads: int) -> Cut:
    """Items as in `forward_cut`, of which only one block of keys and values is in scratch memory; words `ONLINE`."""
    heads, queries, keys, depth, width = sizes
    chunk = _chunk(heads, queries, threads)
    columns, rows = min(keys, KEYS), min(queries, chunk) + bands.tall
    v_row, q_row, s_row = bands.row(width), bands.row(depth), bands.row(columns)
    areas = (
        bands.packed(depth, columns),
        columns * v_row,
        rows * q_row,
        bands.tall * s_row,
        rows * v_row,
        3 * line(rows * bands.bytes),
    )
    chunks = -(-queries // chunk)
    apart = line(rows * bands.bytes)
    return Cut(heads * chunks, 1, sum(areas), (chunk, chunks, *_starts(areas), v_row, q_row, s_row, v_row, apart))


def _chunk(heads: int, queries: int, threads: int) -> int:
    """Queries of an item."""
    chunk = CHUNK
    while chunk > LEAST and heads * -(-queries // chunk) < EACH * threads:
        chunk //= 2
    return chunk


def backward_cut(bands: PanelModel, sizes: tuple[int, ...], threads: int) -> Cut:
    """Items are heads, or parts of them where there are fewer heads than threads.  Sizes as in `forward_cut`.

    The words are `BACKWARD`, in bytes except the first two.  Parts of a head are first its keys, `each` at a time; they
    are `key_items`, with the cotangents of keys and values; then its queries, a number at a time, with theirs.  Both
    compute the weights.  If `key_items` is 0, an item is a head.
    """
    heads, queries, keys, depth, width = sizes
    each, key_items, items = BLOCK, 0, heads
    if max(queries, keys) > BLOCK and APART * heads < WHOLE * threads * -(-heads // threads):
        while each > SHORTEST and heads * (-(-keys // each) + -(-queries // each)) < EACH * threads:
            each //= 2
        key_items = -(-keys // each)
        items = heads * (key_items + -(-queries // each))
    columns, rows = min(keys, BLOCK), min(queries, BLOCK) + bands.tall
    q_row, g_row, s_row = bands.row(depth), bands.row(width), bands.row(columns)
    c_row = max(q_row, g_row)
    areas = (
        bands.packed(depth, columns),
        bands.packed(width, columns),
        columns * q_row,
        rows * q_row,
        rows * g_row,
        rows * s_row,
        rows * s_row,
        bands.tall * c_row,
    )
    return Cut(items, 1, sum(areas), (each, key_items, *_starts(areas), q_row, g_row, s_row, c_row))


def _starts(areas: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sum(areas[:k]) for k in range(len(areas)))
