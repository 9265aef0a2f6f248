"""How attention is divided into work items, and a thread's scratch memory into areas; no choice changes any bit."""

from __future__ import annotations

from nacre.base.records import dataclass
from nacre.codegen.gemm.plan import BLOCK
from nacre.kernel.order_attention import KEYS
from nacre.runtime.plan import Cut

LINE = 64  # bytes of a cache line
CHUNK = 512  # queries of an item, or fewer where there are few heads
LEAST = 32
EACH = 4  # least items of every thread
SHORTEST = 128  # least keys, or queries, of an item of the derivative
WHOLE, SPLIT = 5, 4 + 3  # products of a score tile, for all derivatives at once and with dq in items of its own

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
    """The properties of a kernel on which its plans depend."""

    lanes: int
    bytes: int  # of an element
    tall: int  # rows of a register tile, and of a row panel

    def row(self, columns: int) -> int:
        """Bytes of a row in scratch memory: whole vectors, and a cache line that keeps rows from aliasing."""
        return line(self.wide(columns)) + LINE

    def packed(self, depth: int, columns: int) -> int:
        """Bytes of a packed matrix."""
        return line(depth * self.wide(columns))

    def wide(self, columns: int) -> int:
        """Bytes of whole vectors."""
        return -(-columns // self.lanes) * self.lanes * self.bytes


def line(size: int) -> int:
    """Bytes, rounded up to whole cache lines."""
    return -(-size // LINE) * LINE


def forward_cut(model: PanelModel, sizes: tuple[int, ...], threads: int) -> Cut:
    """Items are chunks of a head's queries; the cut's slots are `FORWARD`, in bytes except the first two.

    Sizes are the heads, queries, keys, elements of queries and keys, elements of values.
    """
    heads, queries, keys, depth, width = sizes
    chunk = _chunk(heads, queries, threads)
    v_row, q_row, s_row = model.row(width), model.row(depth), model.row(keys)
    areas = (
        model.packed(depth, keys),
        keys * v_row,
        model.tall * q_row,
        model.tall * s_row,
        model.tall * v_row,
        2 * line(model.tall * model.bytes),
    )
    chunks = -(-queries // chunk)
    return Cut(heads * chunks, 1, sum(areas), (chunk, chunks, *_starts(areas), v_row, q_row, s_row, v_row))


def online_cut(model: PanelModel, sizes: tuple[int, ...], threads: int) -> Cut:
    """Items as in `forward_cut`, with only one block of keys and values in scratch memory; the slots are `ONLINE`."""
    heads, queries, keys, depth, width = sizes
    chunk = _chunk(heads, queries, threads)
    columns, rows = min(keys, KEYS), min(queries, chunk) + model.tall
    v_row, q_row, s_row = model.row(width), model.row(depth), model.row(columns)
    areas = (
        model.packed(depth, columns),
        columns * v_row,
        rows * q_row,
        model.tall * s_row,
        rows * v_row,
        3 * line(rows * model.bytes),
    )
    chunks = -(-queries // chunk)
    row_stride = line(rows * model.bytes)
    return Cut(heads * chunks, 1, sum(areas), (chunk, chunks, *_starts(areas), v_row, q_row, s_row, v_row, row_stride))


def _chunk(heads: int, queries: int, threads: int) -> int:
    """Queries of an item."""
    chunk = CHUNK
    while chunk > LEAST and heads * -(-queries // chunk) < EACH * threads:
        chunk //= 2
    return chunk


def backward_cut(model: PanelModel, sizes: tuple[int, ...], threads: int) -> Cut:
    """Items are heads, or parts of them where there are fewer heads than threads.  Sizes as in `forward_cut`.

    The slots are `BACKWARD`, in bytes except the first two.  The parts of a head are first its keys, `each` at a time:
    there are `key_items`, which compute the cotangents of keys and values.  Then follow its queries, which compute
    theirs.  Both compute the weights.  If `key_items` is 0, an item is a head.
    """
    heads, queries, keys, depth, width = sizes
    each, key_items, items = BLOCK, 0, heads
    if max(queries, keys) > BLOCK and SPLIT * heads < WHOLE * threads * -(-heads // threads):
        while each > SHORTEST and heads * (-(-keys // each) + -(-queries // each)) < EACH * threads:
            each //= 2
        key_items = -(-keys // each)
        items = heads * (key_items + -(-queries // each))
    columns, rows = min(keys, BLOCK), min(queries, BLOCK) + model.tall
    q_row, g_row, s_row = model.row(depth), model.row(width), model.row(columns)
    c_row = max(q_row, g_row)
    areas = (
        model.packed(depth, columns),
        model.packed(width, columns),
        columns * q_row,
        rows * q_row,
        rows * g_row,
        rows * s_row,
        rows * s_row,
        model.tall * c_row,
    )
    return Cut(items, 1, sum(areas), (each, key_items, *_starts(areas), q_row, g_row, s_row, c_row))


def _starts(areas: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sum(areas[:k]) for k in range(len(areas)))
